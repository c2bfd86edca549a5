// NVLS kernels for one element type: ELEMENT. The driver refuses a whole module
// for one instruction that it does not know, so these are apart from
// portable.cu. Compiled for sm_90. ORDERED is defined where the switch can find
// a minimum and a maximum.
#define NVLS
#include "copy_in.cuh"
#include "two_shot.cuh"

#define KERNELS(op, Op)                                                                              \
  KERNEL __attribute__((launch_bounds(512))) void nvls_zero_copy_##op(Args a) {                      \
    twoShot<ELEMENT, Op, kMaxRanks, Multicast<ELEMENT, Op, kMaxRanks>>(a);                           \
  }                                                                                                  \
  KERNEL __attribute__((launch_bounds(512))) void nvls_copy_in_##op(Args a) {                        \
    copyIn<ELEMENT, Op, kMaxRanks, Multicast<ELEMENT, Op, kMaxRanks>>(a);                            \
  }

KERNELS(sum, Sum)
#ifdef ORDERED
KERNELS(min, Min)
KERNELS(max, Max)
#endif
