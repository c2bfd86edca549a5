// Inputs and checks. Every value is a function of (seed, rank, index), made so
// that the result is exact in any order of reduction and in any accumulator at
// least as wide as the element: results are compared bit for bit. The idea is
// nccl-tests'. data.go computes the same values on the host.
//
// sum, avg: an integer of at most (2^p - 1) / ranks in magnitude, never 0, times
// a power of two that is common to the ranks; p is the element's precision in
// bits. No partial sum needs more than p bits.
// prod: one rank has a random significand, the others are plus or minus 2 or
// 1/2. min, max: any finite value. Integers: any bits, odd for prod, since
// wrapping sums and products do not depend on the order.
#pragma once
#include "element.cuh"

struct DataArgs {
  u64 buffer;
  u64 count;
  u64 result;  // check: {u64 wrong elements, u64 index of the first, u64 right elements}
  Average average;
  u32 seed;
  u32 rank, ranks;
  u32 spare;
};

template <class T>
struct Precision;  // significand bits, the implicit one included; exponent range of the inputs
template <> struct Precision<Float> { static constexpr int bits = 24, low = -20, span = 41; };
template <> struct Precision<Double> { static constexpr int bits = 53, low = -20, span = 41; };
template <> struct Precision<Half> { static constexpr int bits = 11, low = -8, span = 13; };
template <> struct Precision<BFloat16> { static constexpr int bits = 8, low = -20, span = 41; };

DEVICE u32 mix(u32 h) {
  h ^= h >> 16;
  h *= 0x85ebca6bu;
  h ^= h >> 13;
  h *= 0xc2b2ae35u;
  return h ^ h >> 16;
}
DEVICE u32 elementHash(u32 seed, u64 index) {
  return mix(u32(index) ^ mix(u32(index >> 32) + seed * 0x9e3779b9u));
}
DEVICE u32 rankHash(u32 h, u32 rank) { return mix(h + (rank + 1) * 0x9e3779b9u); }
// A number below limit, from a hash.
DEVICE u32 below(u32 h, u32 limit) { return u32(u64(h) * limit >> 32); }

template <class A>
DEVICE A powerOfTwo(int e) {
  if constexpr (sizeof(A) == 8) return __builtin_bit_cast(double, u64(e + 1023) << 52);
  else return bitsToFloat(u32(e + 127) << 23);
}

template <class T, class Op>
DEVICE typename T::Acc inputValue(const DataArgs& a, u32 h, u32 rank) {
  using A = typename T::Acc;
  constexpr bool prod = kSame<Op, Prod>, order = kSame<Op, Min> || kSame<Op, Max>;
  u32 r = rankHash(h, rank);
  if constexpr (!kIsFloating<A>) {
    u64 bits = r;
    if constexpr (sizeof(A) == 8) bits |= u64(mix(r ^ h)) << 32;
    return A(prod ? bits | 1 : bits);
  } else {
    using P = Precision<T>;
    A sign = r & 1 ? A(-1) : A(1);
    if constexpr (prod) {
      if (rank != below(h, a.ranks)) return sign * (r & 2 ? A(2) : A(0.5));
      u64 fraction = (u64(mix(r ^ h)) << 32 | r) >> (65 - P::bits);
      return sign * (A(1) + A(fraction) * powerOfTwo<A>(1 - P::bits));
    }
    u64 limit = ((u64(1) << P::bits) - 1) / (order ? 1 : a.ranks);
    u64 m;
    if constexpr (P::bits > 32) m = 1 + u64(below(r, u32(limit >> 32))) * (u64(1) << 32) + mix(r ^ h);
    else m = 1 + below(r, u32(limit));
    int e = P::low + int(below(order ? mix(r) : h, P::span));
    return sign * A(m) * powerOfTwo<A>(e);
  }
}

template <class T, class Op>
DEVICE typename T::Storage expectedValue(const DataArgs& a, u32 h) {
  typename T::Acc acc = inputValue<T, Op>(a, h, 0);
#pragma unroll 1
  for (u32 r = 1; r < a.ranks; r++) acc = Op::apply(acc, inputValue<T, Op>(a, h, r));
  return T::encode(average(acc, a.average));
}

template <class T, class Op>
DEVICE void fillInput(const DataArgs& a) {
  u64 threads = u64(gridSize()) * blockSize();
#pragma unroll 1
  for (u64 i = u64(blockIndex()) * blockSize() + threadIndex(); i < a.count; i += threads)
    storeElement<T>(a.buffer, i, inputValue<T, Op>(a, elementHash(a.seed, i), a.rank));
}

// Right elements are counted too: a check that looked at nothing finds none wrong.
template <class T, class Op>
DEVICE void checkResult(const DataArgs& a) {
  u64 threads = u64(gridSize()) * blockSize();
  u64 wrong = 0, right = 0, firstWrong = ~u64(0);
#pragma unroll 1
  for (u64 i = u64(blockIndex()) * blockSize() + threadIndex(); i < a.count; i += threads) {
    if (loadRaw<T>(a.buffer, i) == expectedValue<T, Op>(a, elementHash(a.seed, i))) {
      right++;
      continue;
    }
    wrong++;
    if (i < firstWrong) firstWrong = i;
  }
  if (right != 0) atomicAdd64((u64*)a.result + 2, right);
  if (wrong == 0) return;
  atomicAdd64((u64*)a.result, wrong);
  atomicMin64((u64*)a.result + 1, firstWrong);
}
