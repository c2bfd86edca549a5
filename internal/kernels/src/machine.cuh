// The machine below the kernels: types, special registers, and every memory
// access that names an ordering or a scope. Kernels are compiled by plain clang
// without NVIDIA's headers, so what they need is spelled out here.
#pragma once

#define INLINE __attribute__((always_inline))
#define DEVICE __attribute__((device)) inline INLINE
#define KERNEL extern "C" __attribute__((global))
#define SHARED __attribute__((shared))

using u8 = unsigned char;
using i8 = signed char;
using u16 = unsigned short;
using u32 = unsigned int;
using i32 = int;
using u64 = unsigned long long;
using i64 = long long;

static_assert(sizeof(u64) == 8 && sizeof(u32) == 4, "LP64");

DEVICE u32 threadIndex() { return __nvvm_read_ptx_sreg_tid_x(); }
DEVICE u32 blockIndex() { return __nvvm_read_ptx_sreg_ctaid_x(); }
DEVICE u32 blockSize() { return __nvvm_read_ptx_sreg_ntid_x(); }
DEVICE u32 gridSize() { return __nvvm_read_ptx_sreg_nctaid_x(); }
DEVICE void syncBlock() { __syncthreads(); }

// Nanoseconds since some moment, the same clock for every block of the device.
DEVICE u64 nanoseconds() {
  u64 t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
  return t;
}

// Calls body with units that one thread takes, step apart from i on and before end:
// body<U>(i) for as long as U are left, then for half as many, down to one. So a
// thread that has less than U has its accesses under way together too.
template <int U, bool kRest = false, class Body>
DEVICE void unrolled(u64 i, u64 step, u64 end, const Body& body) {
  if constexpr (kRest) {
    if (i + (U - 1) * step < end) {
      body.template operator()<U>(i);
      i += U * step;
    }
  } else {
    for (; i + (U - 1) * step < end; i += U * step) body.template operator()<U>(i);
  }
  if constexpr (U > 1) unrolled<U / 2, true>(i, step, end, body);
}

// Sixteen bytes, the widest access of one thread.
struct Pack {
  u32 w[4];
};

// Weak accesses. They are ordered by the barriers around them only.
DEVICE Pack loadPack(u64 a) {
  Pack p;
  asm volatile("ld.global.v4.b32 {%0,%1,%2,%3}, [%4];"
               : "=r"(p.w[0]), "=r"(p.w[1]), "=r"(p.w[2]), "=r"(p.w[3])
               : "l"(a)
               : "memory");
  return p;
}
DEVICE void storePack(u64 a, const Pack& p) {
  asm volatile("st.global.v4.b32 [%0], {%1,%2,%3,%4};" ::"l"(a), "r"(p.w[0]), "r"(p.w[1]), "r"(p.w[2]), "r"(p.w[3])
               : "memory");
}

// A packet carries 8 bytes of data and the flag that says they are there, twice
// {data, flag}: each of the two 64-bit elements of the access arrives as a whole,
// so no fence is needed.
DEVICE void storePacket(u64 a, u64 data, u32 flag) {
  u64 lo = u32(data) | u64(flag) << 32, hi = data >> 32 | u64(flag) << 32;
  asm volatile("st.relaxed.sys.global.v2.b64 [%0], {%1,%2};" ::"l"(a), "l"(lo), "l"(hi) : "memory");
}
struct Packet {
  u64 lo, hi;
  DEVICE u32 flag() const { return u32(lo >> 32); }
  // Whether both halves have the flag; data is theirs if so.
  DEVICE bool has(u32 f) const { return flag() == f && u32(hi >> 32) == f; }
  DEVICE u64 data() const { return u32(lo) | hi << 32; }
};
DEVICE Packet loadPacket(u64 a) {
  Packet p;
  asm volatile("ld.relaxed.sys.global.v2.b64 {%0,%1}, [%2];" : "=l"(p.lo), "=l"(p.hi) : "l"(a) : "memory");
  return p;
}

// Flags between ranks. Release makes every earlier access of the block (ordered
// by syncBlock) visible to the rank that acquires the value.
DEVICE void storeRelease(u32* a, u32 v) {
  asm volatile("st.release.sys.global.b32 [%0], %1;" ::"l"(a), "r"(v) : "memory");
}
DEVICE u32 loadAcquire(const u32* a) {
  u32 v;
  asm volatile("ld.acquire.sys.global.b32 %0, [%1];" : "=r"(v) : "l"(a) : "memory");
  return v;
}

// Counters of one device.
DEVICE u32 atomicSwapIfZero(u32* a, u32 v) {
  u32 old;
  asm volatile("atom.acq_rel.gpu.global.cas.b32 %0, [%1], 0, %2;" : "=r"(old) : "l"(a), "r"(v) : "memory");
  return old;
}
DEVICE void atomicAdd64(u64* a, u64 v) {
  asm volatile("red.relaxed.gpu.global.add.u64 [%0], %1;" ::"l"(a), "l"(v) : "memory");
}
DEVICE void atomicMin64(u64* a, u64 v) {
  asm volatile("red.relaxed.gpu.global.min.u64 [%0], %1;" ::"l"(a), "l"(v) : "memory");
}

// Shared memory and bulk copies (PTX ISA 8.0, sm_90). A bulk copy is done by the
// async proxy, not by the thread that issues it:
//
// - What threads stored to its source it knows only behind fenceAsyncShared of the
//   threads that stored, and the barrier that orders these with the one that issues
//   it (PTX ISA, "Async proxy": accesses of one memory by the generic and by the
//   async proxy need fence.proxy.async in between).
// - Copies are waited for in groups, by the thread that committed them.
//   bulkWaitRead<N> returns when all but the last N groups have read their source,
//   which may then be stored to again. bulkWait<N> returns when they have also
//   written their destination and the writes are visible to the thread (PTX ISA,
//   cp.async.bulk.wait_group). Completion is followed by an implicit fence between
//   the proxies, so that from then on the writes are like stores of that thread.
DEVICE u32 sharedAddress(void* p) { return u32(u64((__attribute__((address_space(3))) u8*)p)); }
DEVICE void storeShared(u32 a, const Pack& p) {
  asm volatile("st.shared.v4.b32 [%0], {%1,%2,%3,%4};" ::"r"(a), "r"(p.w[0]), "r"(p.w[1]), "r"(p.w[2]), "r"(p.w[3])
               : "memory");
}
DEVICE void fenceAsyncShared() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
DEVICE void fenceAsyncGlobal() { asm volatile("fence.proxy.async.global;" ::: "memory"); }
DEVICE void bulkStore(u64 to, u32 from, u32 bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(from), "r"(bytes) : "memory");
}
DEVICE void bulkCommit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
template <int N>
DEVICE void bulkWaitRead() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory");
}
template <int N>
DEVICE void bulkWait() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(N) : "memory");
}
