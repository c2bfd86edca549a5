// One kernel a subject, to see what clang emits for ordinary C++; package
// exec's tests run them against the same arithmetic in Go.
// clang-19 -x cuda --cuda-device-only -nocudainc -nocudalib --cuda-gpu-arch=sm_90 \
//   -Xclang -target-feature -Xclang +ptx83 -O3 -S wide.cu -o wide_sm90.ptx
// and with sm_80 into wide_sm80.ptx.
#define GLOBAL extern "C" __attribute__((global))
#define DEVICE static inline __attribute__((device, always_inline))
#define SHARED __attribute__((shared)) static
typedef unsigned long long u64;
typedef long long i64;
typedef unsigned u32;
typedef unsigned short u16;
typedef unsigned char u8;
typedef signed char i8;

DEVICE u32 thread() { return __nvvm_read_ptx_sreg_ctaid_x() * __nvvm_read_ptx_sreg_ntid_x() + __nvvm_read_ptx_sreg_tid_x(); }

// Integer arithmetic of every width on a pair of inputs.
template <class T> DEVICE void integers(T *out, T a, T b) {
  T *o = out + thread() * 16;
  o[0] = a + b, o[1] = a - b, o[2] = a * b;
  o[3] = b ? a / b : 0, o[4] = b ? a % b : 0;
  o[5] = a < b ? a : b, o[6] = a > b ? a : b;
  o[7] = a & b, o[8] = a | b, o[9] = a ^ b, o[10] = ~a;
  o[11] = T(a << (b & 7)), o[12] = T(a >> (b & 7));
  o[13] = -a, o[14] = a == b, o[15] = T(a * 3 + b * 5 + 7);
}
#define INTEGERS(name, T) \
  GLOBAL void name(T *out, const T *in) { integers<T>(out, in[2 * thread()], in[2 * thread() + 1]); }
INTEGERS(int_i8, i8)
INTEGERS(int_u8, u8)
INTEGERS(int_i16, short)
INTEGERS(int_u16, u16)
INTEGERS(int_i32, int)
INTEGERS(int_u32, u32)
INTEGERS(int_i64, i64)
INTEGERS(int_u64, u64)

// Floating-point arithmetic and conversions.
template <class T> DEVICE void floats(T *out, T a, T b) {
  T *o = out + thread() * 12;
  o[0] = a + b, o[1] = a - b, o[2] = a * b, o[3] = a / b;
  o[4] = a < b ? a : b, o[5] = a > b ? a : b;
  o[6] = -a, o[7] = (T)(int)a, o[8] = (T)(u64)(a < 0 ? -a : a), o[9] = (T)thread();
  o[10] = (T)(float)a, o[11] = (T)(double)b;
}
#define FLOATS(name, T) \
  GLOBAL void name(T *out, const T *in) { floats<T>(out, in[2 * thread()], in[2 * thread() + 1]); }
FLOATS(float_f32, float)
FLOATS(float_f64, double)
FLOATS(float_f16, _Float16)
FLOATS(float_bf16, __bf16)

// A switch, loops, shared and local arrays, early exit, 128-bit products.
GLOBAL void control(u64 *out, const u32 *in, u32 n) {
  SHARED u32 box[256];
  u32 t = __nvvm_read_ptx_sreg_tid_x();
  u32 v = in[t];
  u64 acc = v;
  for (u32 i = 0; i < (v & 31); i++) {
    switch ((v >> i) & 7) {
      case 0: acc += 1; break;
      case 1: acc ^= acc << 7; break;
      case 2: acc = acc * 6364136223846793005ull + 1442695040888963407ull; break;
      case 3: acc = (u64)((unsigned __int128)acc * 0x9e3779b97f4a7c15ull >> 64); break;
      case 4: acc = acc >> 3 | acc << 61; break;
      case 5: acc = __builtin_popcountll(acc); break;
      case 6: acc = acc ? __builtin_clzll(acc) : 64; break;
      default: acc = acc % 1000003; break;
    }
  }
  u32 local[8];
  for (u32 i = 0; i < 8; i++) local[(i + v) & 7] = (u32)(acc >> (4 * i));
  acc += local[v & 7] + local[(v >> 3) & 7];
  box[t] = (u32)acc;
  __syncthreads();
  acc ^= (u64)box[(t * 7 + 3) % n] << 32;
  if (acc & 1 && t > 100) return;
  out[t] = acc;
}
