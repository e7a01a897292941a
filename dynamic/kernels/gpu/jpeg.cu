// What is left of images after they were compressed as JPEG files: nothing is written, for coding loses nothing.
//
// All of it is libjpeg's arithmetic in integers, to the last bit: colours of half the resolution, the exact transforms of
// 8x8 blocks and their inverses, quantisation between them, and colours that are interpolated. A block of threads has 32
// such blocks, one thread for each of their rows, and then of their columns. Colours come first, in planes of their own,
// because what is interpolated reaches over the blocks.

struct Compressed {
  u64 source, target;
  u64 colours;         // the plane of Cb, behind which is that of Cr
  i64 from[3], to[3];  // bytes from row to row, pixel to pixel, channel to channel
  u32 rows, columns;
  u32 down, across;  // blocks of a plane of colours
  u32 beside;        // tiles of 8x4 blocks side by side
  u32 percent;       // of the steps that the standard has
};

static const u32 LINE = 9;  // numbers from row to row of a block in shared memory: columns lie in different banks
static const u32 SIZE = 8 * LINE;

// The transform along eight numbers, with factors of 13 bits; sums are rounded once, when they lose some bits.
template <int BITS> __device__ __forceinline__ void forward(i32* v) {
  i32 sum[4], rest[4], out[8];
#pragma unroll
  for (int i = 0; i < 4; i++) sum[i] = v[i] + v[7 - i], rest[i] = v[i] - v[7 - i];
  const i32 outer = sum[0] - sum[3], inner = sum[1] - sum[2];
  out[0] = (sum[0] + sum[1] + sum[2] + sum[3]) * 8192;
  out[4] = (sum[0] - sum[1] - sum[2] + sum[3]) * 8192;
  out[2] = outer * 10703 + inner * 4433;
  out[6] = outer * 4433 - inner * 10704;
  out[1] = rest[0] * 11363 + rest[1] * 9633 + rest[2] * 6437 + rest[3] * 2260;
  out[3] = rest[0] * 9633 - rest[1] * 2259 - rest[2] * 11362 - rest[3] * 6436;
  out[5] = rest[0] * 6437 - rest[1] * 11362 + rest[2] * 2261 + rest[3] * 9633;
  out[7] = rest[0] * 2260 - rest[1] * 6436 + rest[2] * 9633 - rest[3] * 11363;
#pragma unroll
  for (int i = 0; i < 8; i++) v[i] = (out[i] + (1 << (BITS - 1))) >> BITS;
}

template <int BITS> __device__ __forceinline__ void inverse(i32* v) {
  const i32 half = 1 << (BITS - 1);
  const i32 whole = (v[0] + v[4]) * 8192, other = (v[0] - v[4]) * 8192;
  const i32 outer = v[2] * 10703 + v[6] * 4433, inner = v[2] * 4433 - v[6] * 10704;
  const i32 even[4] = {whole + outer, other + inner, other - inner, whole - outer};
  const i32 odd[4] = {v[1] * 11363 + v[3] * 9633 + v[5] * 6437 + v[7] * 2260,
                      v[1] * 9633 - v[3] * 2259 - v[5] * 11362 - v[7] * 6436,
                      v[1] * 6437 - v[3] * 11362 + v[5] * 2261 + v[7] * 9633,
                      v[1] * 2260 - v[3] * 6436 + v[5] * 9633 - v[7] * 11363};
#pragma unroll
  for (int i = 0; i < 4; i++) {
    v[i] = (even[i] + odd[i] + half) >> BITS;
    v[7 - i] = (even[i] - odd[i] + half) >> BITS;
  }
}

// A number as it comes back: as many steps as are nearest, halves away from zero.
__device__ __forceinline__ i32 quantised(i32 v, u32 standard, u32 percent) {
  const u32 step = min(max((standard * percent + 50) / 100, 1u), 255u);
  const u32 size = (u32)(v < 0 ? -v : v), found = (size + 4 * step) / (8 * step) * step;  // the transform's are 8 times as large
  return v < 0 ? -(i32)found : (i32)found;
}

__device__ __forceinline__ i32 byte_of(i32 v) { return min(max(v, 0), 255); }

// Compresses blocks in shared memory, where a thread has written the row of its own: it finds that row of bytes there again.
__device__ __forceinline__ void compress(i32* block, u32 lane, const u16* standard, u32 percent) {
  i32 v[8];
  i32* row = block + lane * LINE;
#pragma unroll
  for (int i = 0; i < 8; i++) v[i] = row[i] - 128;
  forward<11>(v);
#pragma unroll
  for (int i = 0; i < 8; i++) row[i] = v[i];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 8; i++) v[i] = block[i * LINE + lane];
  forward<15>(v);
#pragma unroll
  for (int i = 0; i < 8; i++) v[i] = quantised(v[i], standard[8 * i + lane], percent);
  inverse<11>(v);
#pragma unroll
  for (int i = 0; i < 8; i++) block[i * LINE + lane] = v[i];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 8; i++) v[i] = row[i];
  inverse<18>(v);
#pragma unroll
  for (int i = 0; i < 8; i++) row[i] = byte_of(v[i] + 128);
}

// What Cb, or Cr, or Y is of a pixel, in 65536ths; behind the edges are the pixels at them.
struct Weights { i32 red, green, blue, more; };
__device__ __forceinline__ i32 weighted(const Compressed& w, u32 y, u32 x, const Weights& by) {
  const u8* p = (const u8*)w.source + (i64)min(y, w.rows - 1) * w.from[0] + (i64)min(x, w.columns - 1) * w.from[1];
  return (p[0] * by.red + p[w.from[2]] * by.green + p[2 * w.from[2]] * by.blue + by.more) >> 16;
}

// The planes of colours, Cb and Cr.
KERNEL void jpeg_colours(const Compressed* __restrict__ table, const u32* __restrict__ first, u32 count, u32 each,
                         const u16* __restrict__ standard) {
  __shared__ i32 blocks[32 * SIZE];
  const Place here = place(first, count, each);
  const Compressed& w = table[here.sample];
  const u32 lane = threadIdx.x & 7, plane = w.down * w.across, number = here.tile * 32 + (threadIdx.x >> 3);
  const bool red = number >= plane;
  const u32 own = min(red ? number - plane : number, plane - 1);
  const u32 y = own / w.across * 8 + lane, left = own % w.across * 8;
  i32* block = blocks + (threadIdx.x >> 3) * SIZE;
  const Weights by = red ? Weights{32768, -27439, -5329, (128 << 16) + 32767} : Weights{-11059, -21709, 32768, (128 << 16) + 32767};
  const u32 top = 2 * min(y, (w.rows - 1) / 2);
#pragma unroll 1
  for (u32 i = 0; i < 8; i++) {
    const u32 x = 2 * (left + i);
    const i32 sum = weighted(w, top, x, by) + weighted(w, top, x + 1, by) + weighted(w, top + 1, x, by) +
                    weighted(w, top + 1, x + 1, by);
    block[lane * LINE + i] = (sum + 1 + (i & 1)) >> 2;  // up and down in turns, as libjpeg does
  }
  compress(block, lane, standard + 64, w.percent);
  if (number >= 2 * plane) return;
  u8* to = (u8*)w.colours + (red ? (u64)plane * 64 : 0) + (u64)y * w.across * 8 + left;
#pragma unroll 1
  for (u32 i = 0; i < 8; i++) to[i] = (u8)block[lane * LINE + i];
}

// A colour of a pixel, between the four that are around it: three parts of the nearer row and column, one of the others.
__device__ __forceinline__ i32 between(const Compressed& w, const u8* plane, u32 y, u32 x) {
  const i32 width = (i32)(w.columns + 1) / 2, height = (i32)(w.rows + 1) / 2;
  const i32 row = (i32)y / 2, column = (i32)x / 2;
  const u8* near = plane + (u64)row * w.across * 8;
  if (width <= 2) return near[column];  // where libjpeg repeats them
  const u8* far = plane + (u64)min(max(row + (y & 1 ? 1 : -1), 0), height - 1) * w.across * 8;
  const i32 beside = min(max(column + (x & 1 ? 1 : -1), 0), width - 1);
  return (3 * (3 * near[column] + far[column]) + 3 * near[beside] + far[beside] + (x & 1 ? 7 : 8)) >> 4;
}

template <bool COLOURS>
__device__ __forceinline__ void pixels(const Compressed* __restrict__ table, const u32* __restrict__ first, u32 count,
                                       u32 each, const u16* __restrict__ standard) {
  __shared__ i32 blocks[32 * SIZE];
  const Place here = place(first, count, each);
  const Compressed& w = table[here.sample];
  const u32 lane = threadIdx.x & 7, number = threadIdx.x >> 3;
  const u32 y = here.tile / w.beside * 32 + number / 8 * 8 + lane, left = here.tile % w.beside * 64 + number % 8 * 8;
  i32* block = blocks + number * SIZE;
  const u8* from = (const u8*)w.source + (i64)min(y, w.rows - 1) * w.from[0];
#pragma unroll 1
  for (u32 i = 0; i < 8; i++) {
    const Weights by = {19595, 38470, 7471, 32768};
    block[lane * LINE + i] = COLOURS ? weighted(w, y, left + i, by) : from[(i64)min(left + i, w.columns - 1) * w.from[1]];
  }
  compress(block, lane, standard, w.percent);
  if (y >= w.rows) return;
  u8* to = (u8*)w.target + (i64)y * w.to[0] + (i64)left * w.to[1];
  const u8* colours = (const u8*)w.colours;
#pragma unroll 1
  for (u32 i = 0; i < 8 && left + i < w.columns; i++, to += w.to[1]) {
    const i32 light = block[lane * LINE + i];
    if (!COLOURS) {
      *to = (u8)light;
      continue;
    }
    const i32 blue = between(w, colours, y, left + i) - 128;
    const i32 red = between(w, colours + (u64)w.down * w.across * 64, y, left + i) - 128;
    to[0] = (u8)byte_of(light + ((red * 91881 + 32768) >> 16));
    to[w.to[2]] = (u8)byte_of(light + ((red * -46802 - blue * 22554 + 32768) >> 16));
    to[2 * w.to[2]] = (u8)byte_of(light + ((blue * 116130 + 32768) >> 16));
  }
}

#define PIXELS(name, COLOURS)                                                                                        \
  KERNEL void name(const Compressed* __restrict__ table, const u32* __restrict__ first, u32 count, u32 each,         \
                   const u16* __restrict__ standard) {                                                               \
    pixels<COLOURS>(table, first, count, each, standard);                                                            \
  }

PIXELS(jpeg_1, false)
PIXELS(jpeg_3, true)
