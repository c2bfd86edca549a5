// How a kernel reaches the other ranks. Peers loads from and stores to every
// rank's mapping; Multicast lets the switch reduce and replicate. A kernel
// written over a fabric is proven on any GPUs by its Peers instance; only the
// multimem instructions below are left to NVLS hardware.
#pragma once
#include "control.cuh"

// N is the number of ranks that the code is unrolled for: the actual number, or
// more. With few ranks a thread has more packs in flight instead.
template <int N>
DEVICE bool present(const Args& a, int i) { return N == 2 || i < a.ranks; }

template <class T, class Op, int N>
struct Peers {
  static constexpr int kUnroll = 8 / N;
  // Reduces the packs at U offsets of every peerIn.
  template <int U>
  static DEVICE void reduce(const Args& a, const u64 (&offset)[U], Pack (&result)[U]) {
    Pack v[U][N];
#pragma unroll
    for (int u = 0; u < U; u++)
#pragma unroll
      for (int i = 0; i < N; i++)
        if (present<N>(a, i)) v[u][i] = loadPack(a.peerIn[i] + offset[u]);
#pragma unroll
    for (int u = 0; u < U; u++) {
      Lanes<T> acc = unpack<T>(v[u][0]);
#pragma unroll
      for (int i = 1; i < N; i++)
        if (present<N>(a, i)) reduceInto<T, Op>(acc, v[u][i]);
      averageLanes<T>(acc, a.average);
      result[u] = pack<T>(acc);
    }
  }
  static DEVICE void store(const Args& a, const u64 (&out)[kMaxRanks], u64, u64 offset, const Pack& p) {
#pragma unroll
    for (int i = 0; i < N; i++)
      if (present<N>(a, i)) storePack(out[i] + offset, p);
  }
};

// The reduction over ranks of one element.
template <class T, class Op, int N>
DEVICE typename T::Acc reduceElement(const Args& a, u64 index) {
  typename T::Acc acc = loadElement<T>(a.peerIn[0], index);
#pragma unroll
  for (int i = 1; i < N; i++)
    if (present<N>(a, i)) acc = Op::apply(acc, loadElement<T>(a.peerIn[i], index));
  return average(acc, a.average);
}

#ifdef NVLS
// One instruction form per element type and operation. 16-byte vector forms
// exist for float, half and bfloat16; the others take several instructions.
#define MULTIMEM_V4(NAME, FORM)                                                        \
  DEVICE Pack NAME(u64 a) {                                                            \
    Pack p;                                                                            \
    asm volatile("multimem.ld_reduce.relaxed.sys.global." FORM " {%0,%1,%2,%3}, [%4];" \
                 : "=r"(p.w[0]), "=r"(p.w[1]), "=r"(p.w[2]), "=r"(p.w[3])              \
                 : "l"(a)                                                              \
                 : "memory");                                                          \
    return p;                                                                          \
  }
#define MULTIMEM_32(NAME, FORM)                                                                                      \
  DEVICE Pack NAME(u64 a) {                                                                                          \
    Pack p;                                                                                                          \
    _Pragma("unroll") for (int i = 0; i < 4; i++) asm volatile(                                                      \
        "multimem.ld_reduce.relaxed.sys.global." FORM " %0, [%1];" : "=r"(p.w[i]) : "l"(a + 4 * i) : "memory");      \
    return p;                                                                                                        \
  }
#define MULTIMEM_64(NAME, FORM, CONSTRAINT, TYPE)                                                                 \
  DEVICE Pack NAME(u64 a) {                                                                                       \
    Pack p;                                                                                                       \
    _Pragma("unroll") for (int i = 0; i < 2; i++) {                                                               \
      TYPE v;                                                                                                     \
      asm volatile("multimem.ld_reduce.relaxed.sys.global." FORM " %0, [%1];" : CONSTRAINT(v) : "l"(a + 8 * i)    \
                   : "memory");                                                                                   \
      u64 b = __builtin_bit_cast(u64, v);                                                                         \
      p.w[2 * i] = u32(b);                                                                                        \
      p.w[2 * i + 1] = u32(b >> 32);                                                                              \
    }                                                                                                             \
    return p;                                                                                                     \
  }
template <class T, class Op>
struct LoadReduce;
#define LOAD_REDUCE(T, OP, MAKE, ...)        \
  template <>                                \
  struct LoadReduce<T, OP> {                 \
    static MAKE(load, __VA_ARGS__)           \
  };
LOAD_REDUCE(Float, Sum, MULTIMEM_V4, "add.v4.f32")
LOAD_REDUCE(Half, Sum, MULTIMEM_V4, "add.acc::f32.v4.f16x2")
LOAD_REDUCE(Half, Min, MULTIMEM_V4, "min.v4.f16x2")
LOAD_REDUCE(Half, Max, MULTIMEM_V4, "max.v4.f16x2")
LOAD_REDUCE(BFloat16, Sum, MULTIMEM_V4, "add.acc::f32.v4.bf16x2")
LOAD_REDUCE(BFloat16, Min, MULTIMEM_V4, "min.v4.bf16x2")
LOAD_REDUCE(BFloat16, Max, MULTIMEM_V4, "max.v4.bf16x2")
LOAD_REDUCE(Double, Sum, MULTIMEM_64, "add.f64", "=d", double)
LOAD_REDUCE(Int32, Sum, MULTIMEM_32, "add.s32")
LOAD_REDUCE(Int32, Min, MULTIMEM_32, "min.s32")
LOAD_REDUCE(Int32, Max, MULTIMEM_32, "max.s32")
LOAD_REDUCE(Uint32, Sum, MULTIMEM_32, "add.u32")
LOAD_REDUCE(Uint32, Min, MULTIMEM_32, "min.u32")
LOAD_REDUCE(Uint32, Max, MULTIMEM_32, "max.u32")
LOAD_REDUCE(Int64, Sum, MULTIMEM_64, "add.u64", "=l", u64)
LOAD_REDUCE(Int64, Min, MULTIMEM_64, "min.s64", "=l", u64)
LOAD_REDUCE(Int64, Max, MULTIMEM_64, "max.s64", "=l", u64)
LOAD_REDUCE(Uint64, Sum, MULTIMEM_64, "add.u64", "=l", u64)
LOAD_REDUCE(Uint64, Min, MULTIMEM_64, "min.u64", "=l", u64)
LOAD_REDUCE(Uint64, Max, MULTIMEM_64, "max.u64", "=l", u64)

template <class T, class Op, int N>
struct Multicast {
  static constexpr int kUnroll = 4;
  template <int U>
  static DEVICE void reduce(const Args& a, const u64 (&offset)[U], Pack (&result)[U]) {
#pragma unroll
    for (int u = 0; u < U; u++) result[u] = LoadReduce<T, Op>::load(a.multicastIn + offset[u]);
    if (a.average.divisor == 0) return;
#pragma unroll
    for (int u = 0; u < U; u++) {
      Lanes<T> sum = unpack<T>(result[u]);
      averageLanes<T>(sum, a.average);
      result[u] = pack<T>(sum);
    }
  }
  static DEVICE void store(const Args&, const u64 (&)[kMaxRanks], u64 multicast, u64 offset, const Pack& p) {
    asm volatile("multimem.st.relaxed.sys.global.v4.f32 [%0], {%1,%2,%3,%4};" ::"l"(multicast + offset), "r"(p.w[0]),
                 "r"(p.w[1]), "r"(p.w[2]), "r"(p.w[3])
                 : "memory");
  }
};
#endif
