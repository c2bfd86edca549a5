// Elements and reduction operations. An element type says how many of it fill a
// pack, in which type it is accumulated, and how to get it in and out.
#pragma once
#include "machine.cuh"

DEVICE float bitsToFloat(u32 b) { return __builtin_bit_cast(float, b); }
DEVICE u32 floatToBits(float f) { return __builtin_bit_cast(u32, f); }

// Storage is the unsigned integer as wide as the element.
struct Float {
  using Storage = u32;
  using Acc = float;
  static DEVICE Acc decode(Storage s) { return bitsToFloat(s); }
  static DEVICE Storage encode(Acc a) { return floatToBits(a); }
};
struct Double {
  using Storage = u64;
  using Acc = double;
  static DEVICE Acc decode(Storage s) { return __builtin_bit_cast(double, s); }
  static DEVICE Storage encode(Acc a) { return __builtin_bit_cast(u64, a); }
};
// Half and BFloat16 are accumulated in float and rounded once, when stored.
struct Half {
  using Storage = u16;
  using Acc = float;
  static DEVICE Acc decode(Storage s) {
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(s));
    return f;
  }
  static DEVICE Storage encode(Acc a) {
    u16 s;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(s) : "f"(a));
    return s;
  }
};
struct BFloat16 {
  using Storage = u16;
  using Acc = float;
  static DEVICE Acc decode(Storage s) { return bitsToFloat(u32(s) << 16); }
  static DEVICE Storage encode(Acc a) {
    u16 s;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(s) : "f"(a));
    return s;
  }
};
template <class S, class I>
struct Integer {
  using Storage = S;
  using Acc = I;
  static DEVICE Acc decode(Storage s) { return Acc(s); }
  static DEVICE Storage encode(Acc a) { return Storage(a); }
};
using Int8 = Integer<u8, i8>;
using Uint8 = Integer<u8, u8>;
using Int32 = Integer<u32, i32>;
using Uint32 = Integer<u32, u32>;
using Int64 = Integer<u64, i64>;
using Uint64 = Integer<u64, u64>;

template <class T>
constexpr int kPerPack = 16 / sizeof(typename T::Storage);

template <class A>
constexpr bool kIsFloating = A(0.5) != A(0);

template <class A, class B>
constexpr bool kSame = false;
template <class A>
constexpr bool kSame<A, A> = true;

// Operations work on accumulators. Integer sums and products wrap. The casts
// keep 8-bit types from being widened for good.
struct Sum {
  template <class A>
  static DEVICE A apply(A a, A b) {
    if constexpr (kIsFloating<A>) return a + b;
    else return A(u64(a) + u64(b));
  }
};
struct Prod {
  template <class A>
  static DEVICE A apply(A a, A b) {
    if constexpr (kIsFloating<A>) return a * b;
    else return A(u64(a) * u64(b));
  }
};
struct Min {
  template <class A>
  static DEVICE A apply(A a, A b) { return b < a ? b : a; }
};
struct Max {
  template <class A>
  static DEVICE A apply(A a, A b) { return a < b ? b : a; }
};

// How a sum becomes an average over the ranks; divisor 0 means that it does not.
// The inverses come from the host, correctly rounded.
struct Average {
  double inverse64;
  float inverse;
  u32 divisor;
};

// x / n, correctly rounded, without the subroutine that a division is: Markstein's
// correction of x * (1/n) by its own remainder. An infinite or undefined quotient
// stays as it is.
DEVICE float quotient(float x, const Average& n) {
  float q = x * n.inverse, c = __builtin_fmaf(__builtin_fmaf(-float(n.divisor), q, x), n.inverse, q);
  return c == c ? c : q;
}
DEVICE double quotient(double x, const Average& n) {
  double q = x * n.inverse64, c = __builtin_fma(__builtin_fma(-double(n.divisor), q, x), n.inverse64, q);
  return c == c ? c : q;
}
DEVICE u32 quotient(u32 x, const Average& n) { return x / n.divisor; }
DEVICE i32 quotient(i32 x, const Average& n) { return x / i32(n.divisor); }
DEVICE i32 quotient(i8 x, const Average& n) { return x / i32(n.divisor); }
DEVICE u32 quotient(u8 x, const Average& n) { return x / n.divisor; }
// Long division by a number of at most 16 bits, in digits of 16 bits.
DEVICE u64 quotient(u64 x, const Average& n) {
  u32 high = u32(x >> 32), q = high / n.divisor, rest = high % n.divisor;
  u32 middle = rest << 16 | u32(x) >> 16, qm = middle / n.divisor;
  u32 low = (middle % n.divisor) << 16 | (u32(x) & 0xffff), ql = low / n.divisor;
  return u64(q) << 32 | (qm << 16 | ql);
}
DEVICE i64 quotient(i64 x, const Average& n) {
  u64 q = quotient(x < 0 ? u64(0) - u64(x) : u64(x), n);
  return x < 0 ? i64(u64(0) - q) : i64(q);
}
template <class A>
DEVICE A average(A sum, const Average& n) {
  return n.divisor == 0 ? sum : A(quotient(sum, n));
}

// A pack taken apart into accumulators.
template <class T>
struct Lanes {
  typename T::Acc lane[kPerPack<T>];
};

template <class T>
DEVICE typename T::Storage packElement(const Pack& p, int i) {
  if constexpr (sizeof(typename T::Storage) == 8) {
    return u64(p.w[2 * i]) | u64(p.w[2 * i + 1]) << 32;
  } else if constexpr (sizeof(typename T::Storage) == 4) {
    return p.w[i];
  } else {
    constexpr int per = 4 / sizeof(typename T::Storage);
    return typename T::Storage(p.w[i / per] >> (i % per * 8 * sizeof(typename T::Storage)));
  }
}
template <class T>
DEVICE Lanes<T> unpack(const Pack& p) {
  Lanes<T> l;
#pragma unroll
  for (int i = 0; i < kPerPack<T>; i++) l.lane[i] = T::decode(packElement<T>(p, i));
  return l;
}
template <class T>
DEVICE void setPackElement(Pack& p, int i, typename T::Storage s) {
  if constexpr (sizeof(s) == 8) {
    p.w[2 * i] = u32(s);
    p.w[2 * i + 1] = u32(s >> 32);
  } else if constexpr (sizeof(s) == 4) {
    p.w[i] = s;
  } else {
    constexpr int per = 4 / sizeof(s);
    p.w[i / per] |= u32(s) << (i % per * 8 * sizeof(s));
  }
}
template <class T>
DEVICE Pack pack(const Lanes<T>& l) {
  Pack p = {};
#pragma unroll
  for (int i = 0; i < kPerPack<T>; i++) setPackElement<T>(p, i, T::encode(l.lane[i]));
  return p;
}
template <class T, class Op>
DEVICE void reduceInto(Lanes<T>& acc, const Pack& p) {
  Lanes<T> l = unpack<T>(p);
#pragma unroll
  for (int i = 0; i < kPerPack<T>; i++) acc.lane[i] = Op::apply(acc.lane[i], l.lane[i]);
}
template <class T>
DEVICE void averageLanes(Lanes<T>& acc, const Average& n) {
  if (n.divisor == 0) return;
#pragma unroll
  for (int i = 0; i < kPerPack<T>; i++) acc.lane[i] = typename T::Acc(quotient(acc.lane[i], n));
}

// Single elements in memory.
template <class T>
DEVICE typename T::Storage loadRaw(u64 base, u64 index) {
  return ((const volatile typename T::Storage*)base)[index];
}
template <class T>
DEVICE void storeRaw(u64 base, u64 index, typename T::Storage s) {
  ((volatile typename T::Storage*)base)[index] = s;
}
template <class T>
DEVICE typename T::Acc loadElement(u64 base, u64 index) {
  return T::decode(loadRaw<T>(base, index));
}
template <class T>
DEVICE void storeElement(u64 base, u64 index, typename T::Acc a) {
  storeRaw<T>(base, index, T::encode(a));
}

// Eight bytes of a buffer of any element alignment, element by element: the slow
// path for unaligned buffers and for the end of a message. Elements from end on
// are read as 0 and not written.
template <class T>
constexpr u32 kPerEight = 8 / sizeof(typename T::Storage);
template <class T>
DEVICE u64 loadEight(u64 base, u64 first, u64 end) {
  u64 v = 0;
#pragma unroll 1
  for (u32 i = 0; i < kPerEight<T> && first + i < end; i++)
    v |= u64(loadRaw<T>(base, first + i)) << (i * (64 / kPerEight<T>)&63);
  return v;
}
template <class T>
DEVICE void storeEight(u64 base, u64 first, u64 end, u64 v) {
#pragma unroll 1
  for (u32 i = 0; i < kPerEight<T> && first + i < end; i++)
    storeRaw<T>(base, first + i, typename T::Storage(v >> (i * (64 / kPerEight<T>)&63)));
}
