// Kernels of the conformance suite for every device: sm_80 and up.
#include "common.cuh"

// out[i] = in[i] * factor + term
struct Affine {
  u32 *out, *in;
  u32 n, factor, term;
};
KERNEL affine(Affine a) {
  for (u32 i = threadIndex(); i < a.n; i += threads()) a.out[i] = a.in[i] * a.factor + a.term;
}

// out[i] = in[0][i] + in[1][i] + ..., through peers' mappings
struct Sum {
  u32* out;
  u32* in[8];
  u32 ranks, n;
};
KERNEL sum(Sum a) {
  for (u32 i = threadIndex(); i < a.n; i += threads()) {
    u32 s = 0;
    for (u32 r = 0; r < a.ranks; r++) s += a.in[r][i];
    a.out[i] = s;
  }
}

// out[block] = sum of the block's part of in: shared memory and block barriers
struct Fold {
  u32 *out, *in;
};
KERNEL fold(Fold a) {
  SHARED static u32 part[256];
  u32 t = __nvvm_read_ptx_sreg_tid_x(), n = __nvvm_read_ptx_sreg_ntid_x(), b = __nvvm_read_ptx_sreg_ctaid_x();
  part[t] = a.in[b * n + t];
  __syncthreads();
  for (u32 half = n / 2; half > 0; half /= 2) {
    if (t < half) part[t] += part[t + half];
    __syncthreads();
  }
  if (t == 0) a.out[b] = part[0];
}

// Writes data and then raises a flag, both possibly in a peer's memory.
struct Signal {
  u32 *data, *flag;
  u32 n, value;
};
KERNEL signal(Signal a) {
  for (u32 i = __nvvm_read_ptx_sreg_tid_x(); i < a.n; i += __nvvm_read_ptx_sreg_ntid_x()) a.data[i] = a.value + i;
  __syncthreads();
  if (__nvvm_read_ptx_sreg_tid_x() == 0)
    asm volatile("st.release.sys.global.b32 [%0], %1;" ::"l"(a.flag), "r"(a.value) : "memory");
}

// Waits for a flag, with a deadline, and copies the data that it announces.
// *outcome: 1 the flag came, 2 the deadline passed.
struct Await {
  u32 *data, *flag, *out, *outcome;
  u64 nanoseconds;
  u32 n, value;
};
KERNEL await(Await a) {
  SHARED static u32 came;
  if (__nvvm_read_ptx_sreg_tid_x() == 0) {
    u64 start, now;
    u32 seen;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
    do {
      asm volatile("ld.acquire.sys.global.b32 %0, [%1];" : "=r"(seen) : "l"(a.flag) : "memory");
      asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    } while (seen != a.value && now - start < a.nanoseconds);
    came = seen == a.value;
    *a.outcome = seen == a.value ? 1 : 2;
  }
  __syncthreads();
  if (!came) return;
  for (u32 i = __nvvm_read_ptx_sreg_tid_x(); i < a.n; i += __nvvm_read_ptx_sreg_ntid_x()) a.out[i] = a.data[i];
}

// Stores to an address that the host chose: to see faults.
struct Poke {
  u64 address;
};
KERNEL poke(Poke a) { asm volatile("st.global.b32 [%0], 7;" ::"l"(a.address) : "memory"); }

struct Stop {
  u32 thread;
};
KERNEL stop(Stop a) {
  if (threadIndex() == a.thread) asm volatile("trap;");
}
