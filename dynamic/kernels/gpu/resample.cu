// Resizing and blurring: separable filters, both passes in one kernel.
//
// A block makes 32x16 pixels. Rows of the source pass through shared memory 32 (16 in float64) at a time: the threads
// first make the 32 columns of each row, then add the rows to the pixels that they hold in registers. So there is no
// temporary image, and no filter is too wide; what neighbouring blocks compute twice are the rows that both need, as
// many as the filter is high. Threads of a warp work on neighbouring columns, which lie in different banks.
//
// The weights of a block's rows and columns are made by the block, with the arithmetic of the CPU, from a table of the
// filter's values: to make those of all images on the host would take longer than the kernel. Up to 128 of them a pixel
// are kept in shared memory; wider filters compute them again where they need them. Weights are float32, of which the
// sum is not quite 1: float64 is divided by that sum, so that large integers keep their digits.

enum { KEPT, NEAREST, NEAREST_IN_TURN, FILTERED, WEIGHTED };

struct Axis {
  f32 begin, scale, resolution;
  i32 kind, taps;
  i32 last;    // of the filter's values, behind which are two zeros
  u32 values;  // where they, or the weights, are
  i32 extent;  // of the source
};

struct Resample {
  u64 source, target;
  i64 from[3], to[3];  // bytes from row to row, pixel to pixel, channel to channel
  Axis y, x;
  u32 rows, columns, channels, across;
};

static const u32 WIDE = 32, HIGH = 16;

__device__ __forceinline__ i32 whole(f32 v) { return (i32)fminf(fmaxf(v, -1.0e9f), 1.0e9f); }

// Where the first of the pixels is that pixel i is made of, and for filters how far it is from there.
__device__ __forceinline__ i32 first_of(const Axis& a, u32 i, f32* rest) {
  *rest = 0.0f;
  if (a.kind == KEPT) return (i32)i;
  if (a.kind == WEIGHTED) return (i32)i - a.taps / 2;
  if (a.kind == FILTERED) {
    const f32 at = (f32)i * a.scale + a.begin, first = ceilf(at);
    *rest = first - at;
    return whole(first);
  }
  f32 at = a.begin + ((f32)i + 0.5f) * a.scale;
  if (a.kind == NEAREST_IN_TURN) {
    at = a.begin + 0.5f * a.scale;
    for (u32 k = 0; k < i; k++) at += a.scale;  // with the errors of rounding that DALI adds up
  }
  return whole(floorf(at));
}

__device__ __forceinline__ f32 weight_of(const Axis& a, const f32* __restrict__ values, f32 rest, i32 tap) {
  const f32* own = values + a.values;
  if (a.kind == WEIGHTED) return own[tap];
  if (a.kind != FILTERED) return 1.0f;
  const f32 at = (rest + (f32)tap) * a.resolution, below = floorf(at);
  const i32 i = min((i32)fminf(below, 1.0e9f), a.last + 1), j = min((i32)fminf(below, 1.0e9f) + 1, a.last + 1);
  return own[i] + (at - below) * (own[j] - own[i]);
}

__device__ __forceinline__ f32 sum_of(const Axis& a, const f32* __restrict__ values, f32 rest) {
  if (a.kind != FILTERED) return 1.0f;
  f32 total = 0.0f;
  for (i32 k = 0; k < a.taps; k++) total += weight_of(a, values, rest, k);
  return total == 0.0f ? 1.0f : total;
}

__device__ __forceinline__ i32 inside(const Axis& a, i32 i) {
  if (a.kind != WEIGHTED) return min(max(i, 0), a.extent - 1);
  if (i >= 0 && i < a.extent) return i;
  const i32 period = 2 * a.extent - 2;  // reflected about the pixels at the edges
  if (period == 0) return 0;
  i = (i < 0 ? -i : i) % period;
  return min(i, period - i);
}

// What a block knows of its rows or its columns.
struct Side {
  f32 *weights, *rests, *sums, *excesses;  // the last: by which the sum of the weights exceeds 1
  i32* firsts;
  u32 size;  // how many there are
  bool kept;
};

template <class Real>
__device__ __forceinline__ void prepare(const Axis& a, const f32* __restrict__ values, const Side& side, u32 i, u32 at) {
  f32 rest;
  side.firsts[i] = first_of(a, at, &rest);
  const f32 total = sum_of(a, values, rest);
  side.rests[i] = rest;
  side.sums[i] = total;
  if (side.kept)
    for (i32 k = 0; k < a.taps; k++) side.weights[k * side.size + i] = weight_of(a, values, rest, k) / total;
  if (sizeof(Real) == 4) return;
  f64 sum = 0;
  for (i32 k = 0; k < a.taps; k++) sum += weight_of(a, values, rest, k) / total;
  side.excesses[i] = sum == 0 ? 0.0f : (f32)(sum - 1);
}

__device__ __forceinline__ f32 corrected(f32 sum, f32, f32) { return sum; }
__device__ __forceinline__ f64 corrected(f64 sum, f32 x, f32 y) { return sum / ((1 + (f64)x) * (1 + (f64)y)); }

__device__ __forceinline__ f32 weight(const Axis& a, const f32* __restrict__ values, const Side& side, u32 i, i32 tap) {
  return side.kept ? side.weights[tap * side.size + i] : weight_of(a, values, side.rests[i], tap) / side.sums[i];
}

template <class In, class Out, class Real, u32 CHANNELS>
__device__ __forceinline__ void resample(const Resample* __restrict__ table, const u32* __restrict__ first, u32 count,
                                         u32 each, const f32* __restrict__ values, u32 kept_x, u32 kept_y, i32 type,
                                         i32 wanted) {
  extern __shared__ __align__(16) unsigned char shared[];
  const u32 BAND = sizeof(Real) == 4 ? 32 : 16;
  const Place here = place(first, count, each);
  const Resample& r = table[here.sample];
  const u32 left = here.tile % r.across * WIDE, top = here.tile / r.across * HIGH;
  const u32 dx = threadIdx.x & (WIDE - 1), dy = threadIdx.x / WIDE;
  Real* band = (Real*)shared;
  f32* floats = (f32*)(band + BAND * CHANNELS * WIDE);
  i32* integers = (i32*)(floats + 3 * (WIDE + HIGH));
  f32* weights = (f32*)(integers + WIDE + HIGH);
  const Side across = {weights, floats, floats + WIDE, floats + 2 * WIDE, integers, WIDE, r.x.taps <= (i32)kept_x};
  f32* below = floats + 3 * WIDE;
  const Side down = {weights + kept_x * WIDE, below, below + HIGH, below + 2 * HIGH, integers + WIDE,
                     HIGH, r.y.taps <= (i32)kept_y};
  if (threadIdx.x < WIDE) prepare<Real>(r.x, values, across, dx, min(left + dx, r.columns - 1));
  else if (threadIdx.x < WIDE + HIGH) prepare<Real>(r.y, values, down, dx, min(top + dx, r.rows - 1));
  __syncthreads();
  const u8* from = (const u8*)r.source;
  u8* to = (u8*)r.target + (i64)(top + dy) * r.to[0] + (i64)(left + dx) * r.to[1];
  const bool seen = left + dx < r.columns;
  const i32 x = across.firsts[dx];
  if (r.x.kind < FILTERED && r.y.kind < FILTERED) {  // pixels only move
    for (u32 y = dy; y < HIGH && seen && top + y < r.rows; y += 8, to += 8 * r.to[0]) {
      const u8* one = from + (i64)inside(r.y, down.firsts[y]) * r.from[0] + (i64)inside(r.x, x) * r.from[1];
      for (u32 c = 0; c < r.channels; c++) Move<In, Out>::one(one + (i64)c * r.from[2], type, to + (i64)c * r.to[2], wanted);
    }
    return;
  }
  const i32 upper = down.firsts[0], lower = down.firsts[HIGH - 1];
  const i32 begin = min(upper, lower), end = max(upper, lower) + r.y.taps;
#pragma unroll 1
  for (u32 channel = 0; channel < r.channels; channel += CHANNELS) {
    Real sums[HIGH / 8][CHANNELS];
#pragma unroll
    for (u32 k = 0; k < HIGH / 8; k++)
#pragma unroll
      for (u32 c = 0; c < CHANNELS; c++) sums[k][c] = 0;
#pragma unroll 1
    for (i32 start = begin; start < end; start += BAND) {
#pragma unroll 1
      for (u32 row = dy; row < BAND && start + (i32)row < end; row += 8) {
        const u8* line = from + (i64)inside(r.y, start + row) * r.from[0] + (i64)channel * r.from[2];
        Real total[CHANNELS];
#pragma unroll
        for (u32 c = 0; c < CHANNELS; c++) total[c] = 0;
#pragma unroll 1
        for (i32 k = 0; k < r.x.taps; k++) {
          const Real by = weight(r.x, values, across, dx, k);
          const u8* pixel = line + (i64)inside(r.x, x + k) * r.from[1];
#pragma unroll
          for (u32 c = 0; c < CHANNELS; c++)
            if (CHANNELS < 4 || channel + c < r.channels) total[c] += by * Source<In, Real>::at(pixel + (i64)c * r.from[2], type);
        }
#pragma unroll
        for (u32 c = 0; c < CHANNELS; c++) band[(row * CHANNELS + c) * WIDE + dx] = total[c];
      }
      __syncthreads();
#pragma unroll
      for (u32 k = 0; k < HIGH / 8; k++) {
        const u32 y = dy + 8 * k;
        const i32 own = down.firsts[y], low = max(own, start), high = min(own + r.y.taps, start + (i32)BAND);
#pragma unroll 1
        for (i32 row = low; row < high; row++) {
          const Real by = weight(r.y, values, down, y, row - own);
#pragma unroll
          for (u32 c = 0; c < CHANNELS; c++) sums[k][c] += by * band[((row - start) * CHANNELS + c) * WIDE + dx];
        }
      }
      __syncthreads();
    }
    u8* place = to + (i64)channel * r.to[2];
#pragma unroll
    for (u32 k = 0; k < HIGH / 8; k++, place += 8 * r.to[0]) {
      if (!seen || top + dy + 8 * k >= r.rows) continue;
#pragma unroll
      for (u32 c = 0; c < CHANNELS; c++)
        if (CHANNELS < 4 || channel + c < r.channels)
          Target<Out, Real>::put(place + (i64)c * r.to[2], wanted,
                                 corrected(sums[k][c], across.excesses[dx], down.excesses[dy + 8 * k]));
    }
  }
}

#define RESAMPLE(name, In, Out, Real, CHANNELS)                                                                      \
  KERNEL void name(const Resample* __restrict__ table, const u32* __restrict__ first, u32 count, u32 each,           \
                   const f32* __restrict__ values, u32 kept_x, u32 kept_y, i32 type, i32 wanted) {                   \
    resample<In, Out, Real, CHANNELS>(table, first, count, each, values, kept_x, kept_y, type, wanted);              \
  }

RESAMPLE(resample_uint8_uint8_1, u8, u8, f32, 1)
RESAMPLE(resample_uint8_uint8_3, u8, u8, f32, 3)
RESAMPLE(resample_uint8_uint8_4, u8, u8, f32, 4)
RESAMPLE(resample_uint8_float32_3, u8, f32, f32, 3)
RESAMPLE(resample_uint16_uint16_4, u16, u16, f32, 4)
RESAMPLE(resample_int16_int16_4, i16, i16, f32, 4)
RESAMPLE(resample_float32_float32_1, f32, f32, f32, 1)
RESAMPLE(resample_float32_float32_3, f32, f32, f32, 3)
RESAMPLE(resample_float32_float32_4, f32, f32, f32, 4)
RESAMPLE(resample_any_4, Any, Any, f64, 4)
