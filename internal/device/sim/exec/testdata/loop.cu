// Kernels in the style of the project's own, for the tests of package exec.
// clang-19 -x cuda --cuda-device-only -nocudainc -nocudalib --cuda-gpu-arch=sm_90 \
//   -Xclang -target-feature -Xclang +ptx83 -O3 -S loop.cu -o loop.ptx
#define GLOBAL extern "C" __attribute__((global))
#define DEVICE static inline __attribute__((device, always_inline))
#define SHARED __attribute__((shared)) static
typedef unsigned long long u64;
typedef unsigned u32;

DEVICE u32 tid() { return __nvvm_read_ptx_sreg_tid_x(); }
DEVICE u32 ntid() { return __nvvm_read_ptx_sreg_ntid_x(); }
DEVICE u32 ctaid() { return __nvvm_read_ptx_sreg_ctaid_x(); }
DEVICE u32 nctaid() { return __nvvm_read_ptx_sreg_nctaid_x(); }
DEVICE u64 nanos() {
  u64 t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
  return t;
}
DEVICE u32 load_acquire(const u32 *p) {
  u32 v;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}
DEVICE void store_release(u32 *p, u32 v) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}

struct reduce_args {
  u64 flags[8];  // every rank's flags, one per block and rank
  u64 mc;        // multicast address of the buffer
  u64 n;         // 16-byte elements of this rank's slice
  u32 rank, ranks;
  u32 epoch, pad;
  u64 deadline;  // ns
  u64 *error;
};

// Barrier over ranks at both ends, load-reduce and store of the slice between.
GLOBAL void nvls_sum_f32(reduce_args a) {
  SHARED u32 failed;
  u64 first = (u64)ctaid() * ntid() + tid(), stride = (u64)nctaid() * ntid();
  if (tid() == 0) failed = 0;
  for (u32 end = 0; end < 2; end++) {
    __syncthreads();
    if (tid() < a.ranks) {
      u32 want = a.epoch + end + 1;
      store_release((u32 *)a.flags[tid()] + ctaid() * 8 + a.rank, want);
      u32 *mine = (u32 *)a.flags[a.rank] + ctaid() * 8 + tid();
      u64 t0 = nanos();
      while ((int)(load_acquire(mine) - want) < 0)
        if (nanos() - t0 > a.deadline) {
          failed = 1;
          __nvvm_atom_min_gen_ull(a.error, (u64)tid() << 32 | ctaid());
          break;
        }
    }
    __syncthreads();
    if (failed || end) return;
    for (u64 i = first; i < a.n; i += stride) {
      float x, y, z, w;
      u64 p = a.mc + (i * a.ranks + a.rank) * 16;
      asm volatile("multimem.ld_reduce.relaxed.sys.global.add.v4.f32 {%0,%1,%2,%3}, [%4];"
                   : "=f"(x), "=f"(y), "=f"(z), "=f"(w) : "l"(p) : "memory");
      asm volatile("multimem.st.relaxed.sys.global.v4.f32 [%0], {%1,%2,%3,%4};"
                   ::"l"(p), "f"(x), "f"(y), "f"(z), "f"(w) : "memory");
    }
  }
}
