// Everything that runs without multicast, for one element type: ELEMENT, one of
// the types of element.cuh. Compiled for sm_80.
#include "by_ranks.cuh"
#include "copy_in.cuh"
#include "data.cuh"
#include "local_reduce.cuh"
#include "one_shot.cuh"
#include "packet.cuh"
#include "push.cuh"
#include "ring.cuh"
#include "two_shot.cuh"

#define ONE_SHOT(Op, N) oneShot<ELEMENT, Op, N>(a)
#define TWO_SHOT(Op, N) twoShot<ELEMENT, Op, N, Peers<ELEMENT, Op, N>>(a)
#define PACKET(Op, N) packetOneShot<ELEMENT, Op, N>(a)
#define PUSH(Op, N) pushAllReduce<ELEMENT, Op, N>(a)
#define LOCAL_REDUCE(Op, N) localReduce<ELEMENT, Op, N>(a)
#define COPY_IN(Op, N) copyIn<ELEMENT, Op, N, Peers<ELEMENT, Op, N>>(a)

#define KERNELS(op, Op)                                                      \
  ALL_REDUCE one_shot_##op(Args a) { BY_RANKS(Op, ONE_SHOT) }                \
  ALL_REDUCE two_shot_##op(Args a) { BY_RANKS(Op, TWO_SHOT) }                \
  ALL_REDUCE packet_##op(Args a) { BY_RANKS(Op, PACKET) }                    \
  ALL_REDUCE push_##op(Args a) { BY_RANKS(Op, PUSH) }                        \
  ALL_REDUCE copy_in_##op(Args a) { BY_RANKS(Op, COPY_IN) }                  \
  ALL_REDUCE local_reduce_##op(Args a) { BY_RANKS(Op, LOCAL_REDUCE) }        \
  ALL_REDUCE ring_##op(Args a) { ring<ELEMENT, Op>(a); }                     \
  ALL_REDUCE fill_##op(DataArgs a) { fillInput<ELEMENT, Op>(a); }            \
  ALL_REDUCE check_##op(DataArgs a) { checkResult<ELEMENT, Op>(a); }

KERNELS(sum, Sum)
KERNELS(prod, Prod)
KERNELS(min, Min)
KERNELS(max, Max)
