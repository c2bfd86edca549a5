// Everything that runs without multicast, for one element type: ELEMENT, one of
// the types of element.cuh. Compiled for sm_80.
#include "copy_in.cuh"
#include "data.cuh"
#include "one_shot.cuh"
#include "packet.cuh"
#include "push.cuh"
#include "ring.cuh"
#include "two_shot.cuh"

#define ALL_REDUCE KERNEL __attribute__((launch_bounds(512))) void

// Sums and averages have code for 2, for 3 and 4, and for up to 8 ranks; the
// other operations have the last alone, which is right for any number.
#define BY_RANKS(Op, CALL)                      \
  if constexpr (!kSame<Op, Sum>) CALL(Op, 8);   \
  else if (a.ranks <= 2) CALL(Op, 2);           \
  else if (a.ranks <= 4) CALL(Op, 4);           \
  else CALL(Op, 8);

#define ONE_SHOT(Op, N) oneShot<ELEMENT, Op, N>(a)
#define TWO_SHOT(Op, N) twoShot<ELEMENT, Op, N, Peers<ELEMENT, Op, N>>(a)
#define PACKET(Op, N) packetOneShot<ELEMENT, Op, N>(a)
#define PUSH(Op, N) pushAllReduce<ELEMENT, Op, N>(a)
#define COPY_IN(Op, N) copyIn<ELEMENT, Op, N, Peers<ELEMENT, Op, N>>(a)

#define KERNELS(op, Op)                                                      \
  ALL_REDUCE one_shot_##op(Args a) { BY_RANKS(Op, ONE_SHOT) }                \
  ALL_REDUCE two_shot_##op(Args a) { BY_RANKS(Op, TWO_SHOT) }                \
  ALL_REDUCE packet_##op(Args a) { BY_RANKS(Op, PACKET) }                    \
  ALL_REDUCE push_##op(Args a) { BY_RANKS(Op, PUSH) }                        \
  ALL_REDUCE copy_in_##op(Args a) { BY_RANKS(Op, COPY_IN) }                  \
  ALL_REDUCE ring_##op(Args a) { ring<ELEMENT, Op>(a); }                     \
  ALL_REDUCE fill_##op(DataArgs a) { fillInput<ELEMENT, Op>(a); }            \
  ALL_REDUCE check_##op(DataArgs a) { checkResult<ELEMENT, Op>(a); }

KERNELS(sum, Sum)
KERNELS(prod, Prod)
KERNELS(min, Min)
KERNELS(max, Max)
