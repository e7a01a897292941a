// Affine warps of images, (H, W, C) in any strides.
//
// A block makes 32x32 pixels, a thread four of them; a warp makes 8x4 neighbours at a time, so that what it reads is
// compact at any angle. Where the block's corner comes from is computed in float64 and split into a whole pixel and a
// rest, from which the others follow in float32: coordinates are as exact far from the origin as near it, and few
// instructions are in float64. The nearest pixel is found as on the CPU, for ties must not fall otherwise.

struct Warp {
  u64 source, target;
  i64 from[3], to[3];  // bytes from row to row, pixel to pixel, channel to channel
  f64 matrix[6];       // from indices of the result to those of the source, x and y
  i32 height, width;   // of the source
  u32 rows, columns;   // of the result
  u32 channels;
  u32 nearest;  // whether to take the nearest pixel
  u32 across;   // tiles side by side
};

static const f64 FAR = 1e9;

// A coordinate as a whole number, and what is beyond it.
__device__ __forceinline__ i32 split(f64 v, f32* rest) {
  v = v < -FAR ? -FAR : v > FAR ? FAR : v;  // a NaN stays one: it is read as 0
  const f64 whole = floor(v);
  *rest = (f32)(v - whole);
  return v == v ? (i32)whole : -1000000000;
}

// The pixel that a point lies in, whose coordinate is a sum. It is added up in integers of 48 digits behind the point,
// where these suffice.
__device__ __forceinline__ i32 pixel(f64 a, f64 b) {
  const f64 unit = 281474976710656.0;  // 2**48
  if (fabs(a) + fabs(b) < 32000) return (i32)(((i64)rint(a * unit) + (i64)rint(b * unit)) >> 48);
  f32 rest;
  return split(a + b, &rest);
}

__device__ __forceinline__ i32 near(i32 v, i32 extent) { return min(max(v, 0), extent - 1); }

template <class In, class Out>
__device__ __forceinline__ void take_nearest(const Warp& w, u32 x, u32 y, const u64* fill, u32 filled, i32 type, i32 wanted) {
  const i32 height = w.height, width = w.width;
  const i32 ix = pixel(w.matrix[0] * x, w.matrix[1] * y + (w.matrix[2] + 0.5));
  const i32 iy = pixel(w.matrix[3] * x, w.matrix[4] * y + (w.matrix[5] + 0.5));
  const bool inside = ix >= 0 && ix < width && iy >= 0 && iy < height;
  const bool empty = width == 0 || height == 0;
  const u8* from = (const u8*)w.source + (i64)near(iy, height) * w.from[0] + (i64)near(ix, width) * w.from[1];
  i64 step = w.from[2];
  if (empty || (filled && !inside)) {
    from = (const u8*)fill;
    step = sizeof(u64);
  }
  u8* to = (u8*)w.target + (i64)y * w.to[0] + (i64)x * w.to[1];
#pragma unroll 1
  for (u32 c = 0; c < w.channels; c++, from += step, to += w.to[2]) Move<In, Out>::one(from, type, to, wanted);
}

template <class In, class Out, class Real, int CHANNELS>
__device__ __forceinline__ void warp(const Warp* __restrict__ table, const u32* __restrict__ first, u32 count, u32 each,
                                     const u64* __restrict__ fill, u32 filled, i32 type, i32 wanted) {
  const Place here = place(first, count, each);
  const Warp& w = table[here.sample];
  const u32 left = here.tile % w.across * 32, top = here.tile / w.across * 32;
  const u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const u32 dx = ((warp & 3) << 3) + (lane & 7), dy = ((warp >> 2) << 2) + (lane >> 3);
  const u32 x = left + dx;
  if (x >= w.columns) return;
  if (w.nearest) {
    for (u32 y = top + dy; y < w.rows && y < top + 32; y += 8)
      take_nearest<In, Out>(w, x, y, fill, filled, type, wanted);
    return;
  }
  const i32 height = w.height, width = w.width;
  const u32 channels = CHANNELS ? CHANNELS : w.channels;
  f32 rest_x, rest_y;
  const i32 start_x = split(w.matrix[0] * left + w.matrix[1] * top + w.matrix[2], &rest_x);
  const i32 start_y = split(w.matrix[3] * left + w.matrix[4] * top + w.matrix[5], &rest_y);
  rest_x += (f32)w.matrix[0] * dx;
  rest_y += (f32)w.matrix[3] * dx;
  const f32 xy = (f32)w.matrix[1], yy = (f32)w.matrix[4];
#pragma unroll 1
  for (u32 down = dy; down < 32 && top + down < w.rows; down += 8) {
    const f32 fx = rest_x + xy * down, fy = rest_y + yy * down;
    const f32 whole_x = floorf(fx), whole_y = floorf(fy);
    const bool far = !(fabsf(fx) < 1e9f && fabsf(fy) < 1e9f);
    const Real ax = far ? 0 : fx - whole_x, ay = far ? 0 : fy - whole_y;
    // Clamped before it becomes an integer: what is far away, or no number, must not be undefined.
    const i32 ix = start_x + (i32)fminf(fmaxf(whole_x, -1e9f), 1e9f), iy = start_y + (i32)fminf(fmaxf(whole_y, -1e9f), 1e9f);
    const bool outside_left = filled && (ix < 0 || ix >= width), outside_right = filled && (ix < -1 || ix >= width - 1);
    const bool outside_above = filled && (iy < 0 || iy >= height), outside_below = filled && (iy < -1 || iy >= height - 1);
    const u8* upper = (const u8*)w.source + (i64)near(iy, height) * w.from[0];
    const u8* lower = (const u8*)w.source + (i64)near(iy + 1, height) * w.from[0];
    const i64 at_left = (i64)near(ix, width) * w.from[1], at_right = (i64)near(ix + 1, width) * w.from[1];
    u8* to = (u8*)w.target + (i64)(top + down) * w.to[0] + (i64)x * w.to[1];
    i64 channel = 0;
#pragma unroll(CHANNELS ? CHANNELS : 1)
    for (u32 c = 0; c < channels; c++) {
      const Real f = filled ? Source<In, Real>::at((const u8*)(fill + c), type) : 0;
      Real a = Source<In, Real>::at(upper + at_left + channel, type), b = Source<In, Real>::at(upper + at_right + channel, type);
      Real d = Source<In, Real>::at(lower + at_left + channel, type), e = Source<In, Real>::at(lower + at_right + channel, type);
      a = outside_above || outside_left ? f : a;
      b = outside_above || outside_right ? f : b;
      d = outside_below || outside_left ? f : d;
      e = outside_below || outside_right ? f : e;
      const Real middle = a + (b - a) * ax, below = d + (e - d) * ax;
      Target<Out, Real>::put(to, wanted, middle + (below - middle) * ay);
      channel += w.from[2];
      to += w.to[2];
    }
  }
}

#define WARP(name, In, Out, Real, CHANNELS)                                                                          \
  KERNEL void name(const Warp* __restrict__ table, const u32* __restrict__ first, u32 count, u32 each,               \
                   const u64* __restrict__ fill, u32 filled, i32 type, i32 wanted) {                                \
    warp<In, Out, Real, CHANNELS>(table, first, count, each, fill, filled, type, wanted);                            \
  }

WARP(warp_uint8_3, u8, u8, f32, 3)
WARP(warp_uint8, u8, u8, f32, 0)
WARP(warp_uint16, u16, u16, f32, 0)
WARP(warp_int16, i16, i16, f32, 0)
WARP(warp_float32_3, f32, f32, f32, 3)
WARP(warp_float32, f32, f32, f32, 0)
WARP(warp_any, Any, Any, f64, 0)
