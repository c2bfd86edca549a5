// Kernels of the conformance suite for devices with multicast: sm_90 and up.
#include "common.cuh"

// Reduces a slice over all devices and stores the sum to all of them. Addresses
// are those of a multicast object; a quad is 16 bytes.
struct Reduce {
  u64 in, out;
  u32 first, quads;
};
KERNEL reduce(Reduce a) {
  for (u32 i = threadIndex(); i < a.quads; i += threads()) {
    u64 at = (u64)(a.first + i) * 16;
    u32 w[4];
#pragma unroll
    for (int k = 0; k < 4; k++)
      asm volatile("multimem.ld_reduce.relaxed.sys.global.add.u32 %0, [%1];" : "=r"(w[k]) : "l"(a.in + at + 4 * k) : "memory");
    asm volatile("multimem.st.relaxed.sys.global.v4.f32 [%0], {%1,%2,%3,%4};" ::"l"(a.out + at), "f"(__builtin_bit_cast(float, w[0])),
                 "f"(__builtin_bit_cast(float, w[1])), "f"(__builtin_bit_cast(float, w[2])), "f"(__builtin_bit_cast(float, w[3]))
                 : "memory");
  }
}
