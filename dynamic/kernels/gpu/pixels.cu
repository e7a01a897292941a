// Arithmetic on pixels: windows that are normalised (crop_mirror_normalize, and with one factor for all brightness and
// contrast), and colours that a matrix mixes.
//
// A thread makes four pixels side by side, twice; a block 2048. Planes are stored four elements at a time, and so are
// pixels with their channels together, whatever the number of channels. Colours in bytes are read and written as three
// words for four pixels. Bytes become floats in float64, as on the CPU, where a table of the 256 values is made so:
// what is near the mean keeps its digits. Offsets into the image are strides, so that mirroring and any order of dimensions cost nothing.

struct Normalize {
  u64 source, target;
  i64 from[3], to[3];  // bytes from row to row, pixel to pixel, channel to channel
  u32 rows, quads;     // of the result; four pixels each
  u32 columns;
  i32 low[2], high[2];  // rows and columns of the result that are inside of the source
  u32 channels, all;    // of the source, and with those that are added
  u32 numbers;          // the first of its factors and shifts, which take turns
};

static const u32 TURNS = 2;

template <class T> __device__ __forceinline__ void put_four(u8* to, i64 step, const Four<T>& four) {
  if (step == (i64)sizeof(T) && aligned<T>(to)) {
    *(typename Quad<sizeof(T)>::type*)to = four.whole;
    return;
  }
#pragma unroll
  for (int i = 0; i < 4; i++) *(T*)(to + i * step) = four.each[i];
}

template <class In, class Out, class Real>
__device__ __forceinline__ void normalize_edge(const Normalize& w, u32 x, u32 y, const Real* numbers, const u64* fill,
                                               i32 type, i32 wanted) {
  for (u32 i = x; i < x + 4 && i < w.columns; i++) {
    const bool inside = (i32)y >= w.low[0] && (i32)y < w.high[0] && (i32)i >= w.low[1] && (i32)i < w.high[1];
    const u8* from = (const u8*)w.source + (i64)y * w.from[0] + (i64)i * w.from[1];
    u8* to = (u8*)w.target + (i64)y * w.to[0] + (i64)i * w.to[1];
    for (u32 c = 0; c < w.all; c++, to += w.to[2]) {
      if (inside && c < w.channels) {
        const Real v = Source<In, Real>::at(from + (i64)c * w.from[2], type);
        Target<Out, Real>::put(to, wanted, v * numbers[2 * c] + numbers[2 * c + 1]);
      } else {
        Move<Out, Out>::one((const u8*)(fill + c), wanted, to, wanted);
      }
    }
  }
}

template <class In, class Out, class Real> struct Pixels {
  // Four pixels that are inside: their channels one after the other in planes, or together.
  static __device__ __forceinline__ void run(const Normalize& w, u32 x, u32 y, const Real* numbers, const u64* fill) {
    const u8* from = (const u8*)w.source + (i64)y * w.from[0] + (i64)x * w.from[1];
    u8* to = (u8*)w.target + (i64)y * w.to[0] + (i64)x * w.to[1];
    const i64 step = w.from[1];
    const u32 channels = w.channels, all = w.all;
    Four<Out> four;
    if (w.to[2] != (i64)sizeof(Out) || all == 1) {
      for (u32 c = 0; c < channels; c++, from += w.from[2], to += w.to[2]) {
        const Real by = numbers[2 * c], more = numbers[2 * c + 1];
#pragma unroll
        for (int i = 0; i < 4; i++) four.each[i] = made<Out>(Source<In, Real>::at(from + i * step, 0) * by + more);
        put_four(to, w.to[1], four);
      }
      for (u32 c = channels; c < all; c++, to += w.to[2]) {
#pragma unroll
        for (int i = 0; i < 4; i++) Move<Out, Out>::one((const u8*)(fill + c), 0, (u8*)&four.each[i], 0);
        put_four(to, w.to[1], four);
      }
      return;
    }
    for (u32 k = 0, c = 0; k < all; k++, to += 4 * sizeof(Out)) {
#pragma unroll
      for (int i = 0; i < 4; i++) {
        if (c < channels) {
          const Real v = Source<In, Real>::at(from + (i64)c * w.from[2], 0);
          four.each[i] = made<Out>(v * numbers[2 * c] + numbers[2 * c + 1]);
        } else {
          Move<Out, Out>::one((const u8*)(fill + c), 0, (u8*)&four.each[i], 0);
        }
        if (++c == all) c = 0, from += step;
      }
      put_four(to, sizeof(Out), four);
    }
  }
};
template <class Real> struct Pixels<Any, Any, Real> {
  static __device__ __forceinline__ void run(const Normalize&, u32, u32, const Real*, const u64*) {}
};

template <class In, class Out, class Real>
__device__ __forceinline__ void normalize(const Normalize* __restrict__ table, const u32* __restrict__ first, u32 count,
                                          u32 each, const Real* __restrict__ numbers, const u64* __restrict__ fill,
                                          i32 type, i32 wanted) {
  const Place here = place(first, count, each);
  const Normalize& w = table[here.sample];
  const Real* own = numbers + w.numbers;
#pragma unroll 1
  for (u32 k = 0; k < TURNS; k++) {
    const u64 quad = ((u64)here.tile * TURNS + k) * 256 + threadIdx.x;
    if (quad >= (u64)w.rows * w.quads) return;
    const u32 y = (u32)(quad / w.quads), x = (u32)(quad - (u64)y * w.quads) * 4;
    const bool inside = (i32)y >= w.low[0] && (i32)y < w.high[0] && (i32)x >= w.low[1] && (i32)x + 4 <= w.high[1];
    // Pixels whose channels are together are so in the result too, one after the other, or this is one of the others.
    const bool together = w.to[2] != (i64)sizeof(Out) || w.all == 1 || w.to[1] == (i64)sizeof(Out) * w.all;
    if (type < 0 && inside && together && x + 4 <= w.columns) Pixels<In, Out, Real>::run(w, x, y, own, fill);
    else normalize_edge<In, Out, Real>(w, x, y, own, fill, type, wanted);
  }
}

#define NORMALIZE(name, In, Out, Real)                                                                               \
  KERNEL void name(const Normalize* __restrict__ table, const u32* __restrict__ first, u32 count, u32 each,          \
                   const Real* __restrict__ numbers, const u64* __restrict__ fill, i32 type, i32 wanted) {           \
    normalize<In, Out, Real>(table, first, count, each, numbers, fill, type, wanted);                                \
  }

NORMALIZE(normalize_uint8_uint8, u8, u8, f32)
NORMALIZE(normalize_uint8_float16, u8, f16, f64)
NORMALIZE(normalize_uint8_float32, u8, f32, f64)
NORMALIZE(normalize_float32_float16, f32, f16, f32)
NORMALIZE(normalize_float32_float32, f32, f32, f32)
NORMALIZE(normalize_any, Any, Any, f64)

struct Mix {
  u64 source, target;
  i64 from[3], to[3];
  f64 matrix[12];
  u32 rows, quads;
  u32 columns;
  u32 words;       // whether four pixels are three words on both sides
  u32 have, want;  // channels, up to three each
};

template <class Real> __device__ __forceinline__ Real mixed(const Real* v, const Real* m) {
  return v[0] * m[0] + v[1] * m[1] + v[2] * m[2] + m[3];
}

template <class In, class Out, class Real>
__device__ __forceinline__ void mix(const Mix* __restrict__ table, const u32* __restrict__ first, u32 count, u32 each,
                                    i32 type, i32 wanted) {
  const Place here = place(first, count, each);
  const Mix& w = table[here.sample];
  Real m[12];
#pragma unroll
  for (int i = 0; i < 12; i++) m[i] = (Real)w.matrix[i];
#pragma unroll 1
  for (u32 k = 0; k < TURNS; k++) {
    const u64 quad = ((u64)here.tile * TURNS + k) * 256 + threadIdx.x;
    if (quad >= (u64)w.rows * w.quads) return;
    const u32 y = (u32)(quad / w.quads), x = (u32)(quad - (u64)y * w.quads) * 4;
    const u8* from = (const u8*)w.source + (i64)y * w.from[0] + (i64)x * w.from[1];
    u8* to = (u8*)w.target + (i64)y * w.to[0] + (i64)x * w.to[1];
    if (sizeof(In) == 1 && sizeof(Out) == 1 && w.words && x + 4 <= w.columns) {
      union { u32 word[3]; u8 each[12]; } in, out;
#pragma unroll
      for (int i = 0; i < 3; i++) in.word[i] = ((const u32*)from)[i];
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const Real v[3] = {(Real)in.each[3 * i], (Real)in.each[3 * i + 1], (Real)in.each[3 * i + 2]};
#pragma unroll
        for (int c = 0; c < 3; c++) out.each[3 * i + c] = made<u8>(mixed(v, m + 4 * c));
      }
#pragma unroll
      for (int i = 0; i < 3; i++) ((u32*)to)[i] = out.word[i];
      continue;
    }
#pragma unroll 1
    for (u32 i = x; i < x + 4 && i < w.columns; i++, from += w.from[1], to += w.to[1]) {
      Real v[3];
#pragma unroll
      for (int c = 0; c < 3; c++) v[c] = c < w.have ? Source<In, Real>::at(from + c * w.from[2], type) : (Real)0;
#pragma unroll
      for (int c = 0; c < 3; c++)
        if (c < w.want) Target<Out, Real>::put(to + c * w.to[2], wanted, mixed(v, m + 4 * c));
    }
  }
}

#define MIX(name, In, Out, Real)                                                                                     \
  KERNEL void name(const Mix* __restrict__ table, const u32* __restrict__ first, u32 count, u32 each, i32 type,      \
                   i32 wanted) {                                                                                     \
    mix<In, Out, Real>(table, first, count, each, type, wanted);                                                     \
  }

MIX(mix_uint8_uint8, u8, u8, f32)
MIX(mix_uint8_float32, u8, f32, f32)
MIX(mix_float32_float32, f32, f32, f32)
MIX(mix_any, Any, Any, f64)
