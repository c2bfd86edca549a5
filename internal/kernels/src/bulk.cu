// Kernels with bulk copies, for one element type: ELEMENT. Apart from
// portable.cu because older GPUs have no such instructions. Compiled for sm_90.
#include "by_ranks.cuh"
#include "push_bulk.cuh"

#define PUSH_BULK(Op, N) pushBulkAllReduce<ELEMENT, Op, N>(a)

#define KERNELS(op, Op) \
  ALL_REDUCE push_bulk_##op(Args a) { BY_RANKS(Op, PUSH_BULK) }

KERNELS(sum, Sum)
KERNELS(prod, Prod)
KERNELS(min, Min)
KERNELS(max, Max)
