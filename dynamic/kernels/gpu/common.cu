// What all kernels share: names of types, conversion between them, which sample a block works on, and borders.
//
// Compiled by NVRTC and by nvcc (no headers), and for tests by a C++ compiler. Products and sums are never fused unless
// it is written so: the results are to be those of the CPU.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long long i64;
typedef float f32;
typedef double f64;

// Kernels have blocks of 256 threads, of which four or more are on a multiprocessor at a time.
#define KERNEL extern "C" __global__ __launch_bounds__(256, 4)

struct f16 { u16 bits; };
struct b8 { u8 value; };  // True and False

#ifdef __CUDACC__
__device__ __forceinline__ f32 half_to_float(u16 bits) {
  f32 value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}
__device__ __forceinline__ u16 float_to_half(f32 value) {
  u16 bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}
__device__ __forceinline__ u16 double_to_half(f64 value) {
  u16 bits;
  asm("cvt.rn.f16.f64 %0, %1;" : "=h"(bits) : "d"(value));
  return bits;
}
#endif

// Element types by the numbers that `dynamic.dtypes` has for them.
enum { U8, U16, U32, U64, I8, I16, I32, I64, F16, F32, F64, BOOL };

template <class T> struct Limits;
template <> struct Limits<u8> { static constexpr u8 low = 0, high = 255; };
template <> struct Limits<i8> { static constexpr i8 low = -128, high = 127; };
template <> struct Limits<u16> { static constexpr u16 low = 0, high = 65535; };
template <> struct Limits<i16> { static constexpr i16 low = -32768, high = 32767; };
template <> struct Limits<u32> { static constexpr u32 low = 0, high = 4294967295u; };
template <> struct Limits<i32> { static constexpr i32 low = -2147483647 - 1, high = 2147483647; };
template <> struct Limits<u64> { static constexpr u64 low = 0, high = 18446744073709551615ull; };
template <> struct Limits<i64> { static constexpr i64 low = -9223372036854775807ll - 1, high = 9223372036854775807ll; };

__device__ __forceinline__ f32 rounded(f32 v) {
  const f32 whole = truncf(v);
  return whole + (fabsf(v - whole) >= 0.5f ? copysignf(1.0f, v) : 0.0f);
}
__device__ __forceinline__ f64 rounded(f64 v) {
  const f64 whole = trunc(v);
  return whole + (fabs(v - whole) >= 0.5 ? copysign(1.0, v) : 0.0);
}

// Numbers to integers: rounded half away from zero and saturated, NaN as 0.
template <class To, class Real> __device__ __forceinline__ To to_integer(Real v) {
  if (!(v == v)) return 0;
  if (v >= (Real)Limits<To>::high) return Limits<To>::high;
  if (v <= (Real)Limits<To>::low) return Limits<To>::low;
  return (To)rounded(v);
}

// Of values that are no NaN; a byte's halves are above 0, so that adding a half rounds them away from zero.
template <class To, class Real> struct Number {
  static __device__ __forceinline__ To from(Real v) { return to_integer<To>(v); }
};
template <> struct Number<u8, f32> {
  static __device__ __forceinline__ u8 from(f32 v) { return (u8)(i32)(fminf(fmaxf(v, 0.0f), 255.0f) + 0.5f); }
};
template <> struct Number<u16, f32> {
  static __device__ __forceinline__ u16 from(f32 v) { return (u16)(i32)(fminf(fmaxf(v, 0.0f), 65535.0f) + 0.5f); }
};
template <class Real> struct Number<b8, Real> {
  static __device__ __forceinline__ b8 from(Real v) { return b8{(u8)(rounded(v) != 0)}; }
};
template <class Real> struct Number<f32, Real> {
  static __device__ __forceinline__ f32 from(Real v) { return (f32)v; }
};
template <class Real> struct Number<f64, Real> {
  static __device__ __forceinline__ f64 from(Real v) { return (f64)v; }
};
template <> struct Number<f16, f32> {
  static __device__ __forceinline__ f16 from(f32 v) { return f16{float_to_half(v)}; }
};
template <> struct Number<f16, f64> {
  static __device__ __forceinline__ f16 from(f64 v) { return f16{double_to_half(v)}; }
};

// A real number as an element, and an element as a real number.
template <class To, class Real> __device__ __forceinline__ To made(Real v) { return Number<To, Real>::from(v); }
template <class Real, class From> __device__ __forceinline__ Real real(From v) { return (Real)v; }
template <class Real> __device__ __forceinline__ Real real(f16 v) { return (Real)half_to_float(v.bits); }
template <class Real> __device__ __forceinline__ Real real(b8 v) { return (Real)v.value; }

// Any element: a type that is known when the kernel runs.
template <class Real> __device__ __forceinline__ Real load(const void* p, i32 type) {
  switch (type) {
    case U8: return (Real) * (const u8*)p;
    case U16: return (Real) * (const u16*)p;
    case U32: return (Real) * (const u32*)p;
    case U64: return (Real) * (const u64*)p;
    case I8: return (Real) * (const i8*)p;
    case I16: return (Real) * (const i16*)p;
    case I32: return (Real) * (const i32*)p;
    case I64: return (Real) * (const i64*)p;
    case F16: return real<Real>(*(const f16*)p);
    case F32: return (Real) * (const f32*)p;
    case F64: return (Real) * (const f64*)p;
    default: return real<Real>(*(const b8*)p);
  }
}

template <class Real> __device__ __forceinline__ void store(void* p, i32 type, Real v) {
  switch (type) {
    case U8: *(u8*)p = to_integer<u8>(v); break;
    case U16: *(u16*)p = to_integer<u16>(v); break;
    case U32: *(u32*)p = to_integer<u32>(v); break;
    case U64: *(u64*)p = to_integer<u64>(v); break;
    case I8: *(i8*)p = to_integer<i8>(v); break;
    case I16: *(i16*)p = to_integer<i16>(v); break;
    case I32: *(i32*)p = to_integer<i32>(v); break;
    case I64: *(i64*)p = to_integer<i64>(v); break;
    case F16: *(f16*)p = made<f16>(v); break;
    case F32: *(f32*)p = (f32)v; break;
    case F64: *(f64*)p = (f64)v; break;
    default: *(b8*)p = made<b8>(v);
  }
}

__device__ __forceinline__ i32 size_of(i32 type) {
  return type == U8 || type == I8 || type == BOOL ? 1
         : type == U16 || type == I16 || type == F16 ? 2
         : type == U32 || type == I32 || type == F32 ? 4 : 8;
}

// Integers to integers, saturated.
template <class To> __device__ __forceinline__ To narrowed(i64 v) {
  if (Limits<To>::low == 0) return v < 0 ? 0 : (u64)v > (u64)Limits<To>::high ? Limits<To>::high : (To)v;
  return v < (i64)Limits<To>::low ? Limits<To>::low : v > (i64)Limits<To>::high ? Limits<To>::high : (To)v;
}
template <class To> __device__ __forceinline__ To narrowed(u64 v) {
  return v > (u64)Limits<To>::high ? Limits<To>::high : (To)v;
}
template <class Whole> __device__ __forceinline__ void store_integer(void* p, i32 type, Whole v) {
  switch (type) {
    case U8: *(u8*)p = narrowed<u8>(v); break;
    case U16: *(u16*)p = narrowed<u16>(v); break;
    case U32: *(u32*)p = narrowed<u32>(v); break;
    case U64: *(u64*)p = narrowed<u64>(v); break;
    case I8: *(i8*)p = narrowed<i8>(v); break;
    case I16: *(i16*)p = narrowed<i16>(v); break;
    case I32: *(i32*)p = narrowed<i32>(v); break;
    case I64: *(i64*)p = narrowed<i64>(v); break;
    case F16: *(f16*)p = f16{float_to_half((f32)v)}; break;
    case F32: *(f32*)p = (f32)v; break;
    case F64: *(f64*)p = (f64)v; break;
    default: *(b8*)p = b8{(u8)(v != 0)};
  }
}

// An element of one type as one of another, exactly as the CPU does: 64-bit integers keep all of their digits.
__device__ __forceinline__ void convert(const void* from, i32 type, void* to, i32 wanted) {
  switch (type) {
    case U8: case U16: case U32: case U64:
      store_integer<u64>(to, wanted, type == U8 ? *(const u8*)from : type == U16 ? *(const u16*)from
                                     : type == U32 ? *(const u32*)from : *(const u64*)from);
      break;
    case I8: case I16: case I32: case I64:
      store_integer<i64>(to, wanted, type == I8 ? *(const i8*)from : type == I16 ? *(const i16*)from
                                     : type == I32 ? *(const i32*)from : *(const i64*)from);
      break;
    case BOOL: store_integer<u64>(to, wanted, *(const u8*)from != 0); break;
    default: store<f64>(to, wanted, load<f64>(from, type));
  }
}

// What a kernel reads and writes: elements of a type that its template names, or, for Any, that it is told.
struct Any { u64 bits; };

template <class T, class Real> struct Source {
  static __device__ __forceinline__ Real at(const u8* p, i32) { return real<Real>(*(const T*)p); }
};
template <class Real> struct Source<Any, Real> {
  static __device__ __forceinline__ Real at(const u8* p, i32 type) { return load<Real>(p, type); }
};
template <class T, class Real> struct Target {
  static __device__ __forceinline__ void put(u8* p, i32, Real v) { *(T*)p = made<T>(v); }
};
template <class Real> struct Target<Any, Real> {
  static __device__ __forceinline__ void put(u8* p, i32 type, Real v) { store<Real>(p, type, v); }
};

// One element as it is, or converted as the CPU does.
template <class In, class Out> struct Move {
  static __device__ __forceinline__ void one(const u8* from, i32, u8* to, i32) {
    *(Out*)to = made<Out>(real<f32>(*(const In*)from));
  }
};
template <> struct Move<f32, u8> {
  static __device__ __forceinline__ void one(const u8* from, i32, u8* to, i32) {
    *to = to_integer<u8>(*(const f32*)from);
  }
};
template <class T> struct Move<T, T> {
  static __device__ __forceinline__ void one(const u8* from, i32, u8* to, i32) { *(T*)to = *(const T*)from; }
};
template <> struct Move<Any, Any> {
  static __device__ __forceinline__ void one(const u8* from, i32 type, u8* to, i32 wanted) {
    convert(from, type, to, wanted);
  }
};

// Four elements that are moved at once.
template <int bytes> struct Quad;
template <> struct Quad<1> { typedef u32 type; };
template <> struct Quad<2> { typedef uint2 type; };
template <> struct Quad<4> { typedef uint4 type; };
struct alignas(16) TwoQuads { uint4 low, high; };
template <> struct Quad<8> { typedef TwoQuads type; };

template <class T> struct Four {
  union { typename Quad<sizeof(T)>::type whole; T each[4]; };
};
template <class T> __device__ __forceinline__ bool aligned(const void* p) {
  return ((u64)p & (sizeof(T) == 8 ? 15 : 4 * sizeof(T) - 1)) == 0;
}

// The sample that a block works on, and its number among the blocks of that sample. All samples have `each` blocks, or,
// where that is 0, `first` says with which block each begins. To look it up costs few steps in memory that all blocks
// share, and blocks have equal work however ragged the batch is.
struct Place { u32 sample, tile; };
__device__ __forceinline__ Place place(const u32* __restrict__ first, u32 count, u32 each) {
  const u32 block = blockIdx.x;
  if (each) return Place{block / each, block % each};
  u32 low = 0, high = count;
  while (high - low > 1) {
    const u32 middle = (low + high) >> 1;
    if (first[middle] <= block) low = middle;
    else high = middle;
  }
  return Place{low, block - first[low]};
}

// What is outside of an image.
enum { CONSTANT, REPLICATE, REFLECT, REFLECT_101, WRAP };

__device__ __forceinline__ i32 modulo(i32 v, i32 period) {
  const i32 rest = v % period;
  return rest < 0 ? rest + period : rest;
}

// The pixel in place of one that is outside; -1 for none.
__device__ __forceinline__ i32 bounded(i32 v, i32 extent, u32 border) {
  if (v >= 0 && v < extent) return v;
  if (border == CONSTANT || extent == 0) return -1;
  if (border == REPLICATE) return v < 0 ? 0 : extent - 1;
  if (border == WRAP) return modulo(v, extent);
  if (border == REFLECT_101) {
    if (extent == 1) return 0;
    const i32 at = modulo(v, 2 * extent - 2);
    return at < extent ? at : 2 * extent - 2 - at;
  }
  const i32 at = modulo(v, 2 * extent);
  return at < extent ? at : 2 * extent - 1 - at;
}
