// Everything that runs without multicast, for one element type: ELEMENT, one of
// the types of element.cuh. Compiled for sm_80.
#include "copy_in.cuh"
#include "data.cuh"
#include "one_shot.cuh"
#include "packet.cuh"
#include "push.cuh"
#include "ring.cuh"
#include "two_shot.cuh"

#define KERNELS(op, Op)                                                                                    \
  KERNEL __attribute__((launch_bounds(512))) void one_shot_##op(Args a) { oneShot<ELEMENT, Op>(a); }       \
  KERNEL __attribute__((launch_bounds(512))) void two_shot_##op(Args a) {                                  \
    twoShot<ELEMENT, Op, Peers<ELEMENT, Op>>(a);                                                           \
  }                                                                                                        \
  KERNEL __attribute__((launch_bounds(512))) void packet_##op(Args a) { packetOneShot<ELEMENT, Op>(a); }   \
  KERNEL __attribute__((launch_bounds(512))) void push_##op(Args a) { pushAllReduce<ELEMENT, Op>(a); }     \
  KERNEL __attribute__((launch_bounds(512))) void ring_##op(Args a) { ring<ELEMENT, Op>(a); }              \
  KERNEL __attribute__((launch_bounds(512))) void copy_in_##op(Args a) {                                   \
    copyIn<ELEMENT, Op, Peers<ELEMENT, Op>>(a);                                                            \
  }                                                                                                        \
  KERNEL __attribute__((launch_bounds(512))) void fill_##op(DataArgs a) { fillInput<ELEMENT, Op>(a); }     \
  KERNEL __attribute__((launch_bounds(512))) void check_##op(DataArgs a) { checkResult<ELEMENT, Op>(a); }

KERNELS(sum, Sum)
KERNELS(prod, Prod)
KERNELS(min, Min)
KERNELS(max, Max)
