// Contrast-limited equalizing (CLAHE): each tile of an image has a histogram, which is clipped and makes a table; each pixel
// takes what the tables of the four tiles around it say, by its distance to their middles.
//
// A block counts a tile and makes its table: bytes in shared memory, integers of two bytes in the memory of the GPU. Of
// colours the lightness is counted: it is computed wherever a pixel is read, so that no image of it is written. All numbers
// are OpenCV's, which the CPU has them from: its tables of L*a*b* in integers, and its float32 where there are two bytes.

struct Tiled {
  u64 source, target;
  i64 from[3], to[3];  // bytes from row to row, pixel to pixel, channel to channel
  u32 rows, columns;
  u32 high, wide;    // of a tile
  u32 down, across;  // how many tiles
  u32 limit;         // what a bin may hold; 0 for any number
  u32 first;         // the first of its tables
};

static const u32 TURNS = 16;  // of 256 pixels

// Where OpenCV's tables begin: of bytes, of sums of them, of two numbers for each lightness, and of what is linear.
enum { LINEAR = 0, ROOTS = 256, LIGHTS = ROOTS + 3072, GAMMAS = LIGHTS + 512 };

static const i32 HALF = 1 << 14, BASE = 1 << 14;

// Sums of linear red, green and blue, which are 1.0 at 4096: X, Y and Z, each as a part of that of white.
template <int ROW> __device__ __forceinline__ i32 root(const u16* lab, const i32* v) {
  const i32 by[3][3] = {{1777, 1541, 778}, {871, 2929, 296}, {73, 448, 3575}};
  return lab[ROOTS + ((v[0] * by[ROW][0] + v[1] * by[ROW][1] + v[2] * by[ROW][2] + 2048) >> 12)];
}

// What X or Z is where its root is v; both are 1.0 at 16384.
__device__ __forceinline__ i32 cube(i32 v) {
  return v <= 3390 ? v * 108 / 841 - 290 : v * v / BASE * v / BASE;
}

__device__ __forceinline__ i32 byte_of(i32 v) { return min(max(v, 0), 255); }

// The lightness of a pixel; its colour beside that; and how it becomes red, green and blue again.
template <class T> struct Colour;

template <> struct Colour<u8> {
  i32 a, b;
  static __device__ __forceinline__ i32 light(i32 y) { return byte_of((296 * y - 1336934 + HALF) >> 15); }
  static __device__ __forceinline__ u32 lightness(const u8* p, i64 step, const u16* lab) {
    const i32 v[3] = {lab[LINEAR + p[0]], lab[LINEAR + p[step]], lab[LINEAR + p[2 * step]]};
    return (u32)light(root<1>(lab, v));
  }
  __device__ __forceinline__ u32 read(const u8* p, i64 step, const u16* lab) {
    const i32 v[3] = {lab[LINEAR + p[0]], lab[LINEAR + p[step]], lab[LINEAR + p[2 * step]]};
    const i32 x = root<0>(lab, v), y = root<1>(lab, v), z = root<2>(lab, v);
    a = byte_of((500 * (x - y) + (128 << 15) + HALF) >> 15);
    b = byte_of((200 * (y - z) + (128 << 15) + HALF) >> 15);
    return (u32)light(y);
  }
  __device__ __forceinline__ void write(u8* p, i64 step, f32 lightness, const u16* lab, const f32*) const {
    const u16* own = lab + LIGHTS + 2 * (i32)lightness;
    const i32 y = own[0], middle = own[1];
    const i32 x = cube(middle + ((5 * a * 53687 + 128) >> 13) - 4194);
    const i32 z = cube(middle - ((b * 41943 + 16) >> 9) + 10484);
    const i32 by[3][3] = {{12615, -6296, -2223}, {-3773, 7684, 185}, {217, -836, 4715}};
#pragma unroll
    for (int c = 0; c < 3; c++, p += step) {
      const i32 linear = (x * by[c][0] + y * by[c][1] + z * by[c][2] + (1 << 13)) >> 14;
      *p = (u8)lab[GAMMAS + min(max(linear, 0), 4095)];
    }
  }
};

template <> struct Colour<u16> {
  f32 a, b;
  // One of L*, a* and b* at 16384, between the eight points of a grid of 33 in each dimension that are around the pixel.
  static __device__ __forceinline__ i32 between(const u16* grid, const u32* v, u32 which) {
    u32 sum = 2048;
#pragma unroll 1
    for (u32 corner = 0; corner < 8; corner++) {
      u32 place = 0, by = 1;
#pragma unroll
      for (u32 c = 0; c < 3; c++) {
        const u32 up = corner >> c & 1, part = v[c] >> 5 & 15;
        by *= up ? part : 16 - part;
        place = place * 33 + min((v[c] >> 9) + up, 32u);
      }
      sum += by * grid[3 * place + which];
    }
    return (i32)(sum >> 12);
  }
  static __device__ __forceinline__ void place(const u8* p, i64 step, u32* v) {
#pragma unroll
    for (int c = 0; c < 3; c++) v[c] = (u32)rint((f32) * (const u16*)(p + c * step) / 65535.0f * 16384.0f);
  }
  static __device__ __forceinline__ u32 light(const u16* grid, const u32* v) {
    return (u32)rint((f32)between(grid, v, 0) * (100.0f / 16384.0f) * 655.35f);
  }
  static __device__ __forceinline__ u32 lightness(const u8* p, i64 step, const u16* grid) {
    u32 v[3];
    place(p, step, v);
    return light(grid, v);
  }
  __device__ __forceinline__ u32 read(const u8* p, i64 step, const u16* grid) {
    u32 v[3];
    place(p, step, v);
    a = (f32)between(grid, v, 1) * (1.0f / 64.0f) - 128.0f;
    b = (f32)between(grid, v, 2) * (1.0f / 64.0f) - 128.0f;
    return light(grid, v);
  }
  static __device__ __forceinline__ f32 cubed(f32 v) {
    return v <= 6.0f / 29.0f ? (v - 16.0f / 116.0f) * (1.0f / 7.787f) : v * v * v;
  }
  __device__ __forceinline__ void write(u8* p, i64 step, f32 lightness, const u16*, const f32* gammas) const {
    const f32 l = lightness * (f32)(100.0 / 65535.0), low = l * (1.0f / 903.3f), high = (l + 16.0f) * (1.0f / 116.0f);
    const bool dark = l <= 8.0f;
    const f32 middle = dark ? 7.787f * low + 16.0f / 116.0f : high, y = dark ? low : high * high * high;
    const f32 x = cubed(a * (1.0f / 500.0f) + middle), z = cubed(b * (-1.0f / 200.0f) + middle);
    const f64 white_x = 0.950456, white_z = 1.088754;
    const f32 by[3][3] = {{(f32)(3.240479 * white_x), -1.53715f, (f32)(-0.498535 * white_z)},
                          {(f32)(-0.969256 * white_x), 1.875991f, (f32)(0.041556 * white_z)},
                          {(f32)(0.055648 * white_x), -0.204043f, (f32)(1.057311 * white_z)}};
#pragma unroll
    for (int c = 0; c < 3; c++, p += step) {
      const f32 linear = by[c][0] * x + (by[c][1] * y + by[c][2] * z), at = fminf(fmaxf(linear, 0.0f), 1.0f) * 1024.0f;
      const i32 i = min((i32)at, 1023);
      const f32 rest = at - (f32)i, *own = gammas + 4 * i;  // a spline
      const f32 value = ((own[3] * rest + own[2]) * rest + own[1]) * rest + own[0];
      *(u16*)p = (u16)rint(fminf(fmaxf(value, 0.0f), 1.0f) * 65535.0f);
    }
  }
};

// The value of which a pixel is counted.
template <class T, bool COLOURS> struct Counted {
  static __device__ __forceinline__ u32 of(const u8* p, i64, const u16*) { return *(const T*)p; }
};
template <class T> struct Counted<T, true> {
  static __device__ __forceinline__ u32 of(const u8* p, i64 step, const u16* lab) { return Colour<T>::lightness(p, step, lab); }
};

// The table of a tile, of which this is the block.
template <class T, bool COLOURS>
__device__ __forceinline__ void clip(const Tiled* __restrict__ table, const u32* __restrict__ first, u32 count, u32 each,
                                     const u16* __restrict__ lab, u32* bins, T* values) {
  __shared__ u32 sums[256];
  const u32 BINS = 1u << 8 * sizeof(T), own = BINS / 256, from = threadIdx.x * own;
  const Place here = place(first, count, each);
  const Tiled& w = table[here.sample];
  values += (u64)blockIdx.x * BINS;
  for (u32 i = threadIdx.x; i < BINS; i += 256) bins[i] = 0;
  __syncthreads();
  const u32 top = here.tile / w.across * w.high, left = here.tile % w.across * w.wide, size = w.high * w.wide;
#pragma unroll 1
  for (u32 i = threadIdx.x; i < size; i += 256) {
    const i32 y = bounded((i32)(top + i / w.wide), (i32)w.rows, REFLECT_101);
    const i32 x = bounded((i32)(left + i % w.wide), (i32)w.columns, REFLECT_101);
    atomicAdd(&bins[Counted<T, COLOURS>::of((const u8*)w.source + y * w.from[0] + x * w.from[1], w.from[2], lab)], 1u);
  }
  __syncthreads();
  if (w.limit) {  // what is more goes to all bins, and what is left of that to some that are as far apart as may be
    u32 more = 0, total = 0;
    for (u32 i = from; i < from + own; i++) more += bins[i] > w.limit ? bins[i] - w.limit : 0;
    sums[threadIdx.x] = more;
    __syncthreads();
    for (u32 i = 0; i < 256; i++) total += sums[i];
    const u32 batch = total / BINS, rest = total % BINS, step = max(BINS / max(rest, 1u), 1u);
    for (u32 i = from; i < from + own; i++)
      bins[i] = min(bins[i], w.limit) + batch + (i % step == 0 && i / step < rest ? 1 : 0);
    __syncthreads();
  }
  u32 before = 0, all = 0;
  for (u32 i = from; i < from + own; i++) all += bins[i];
  sums[threadIdx.x] = all;
  __syncthreads();
  for (u32 i = 0; i < threadIdx.x; i++) before += sums[i];
  const f32 by = (f32)(BINS - 1) / (f32)size;
  for (u32 i = from; i < from + own; i++) {
    before += bins[i];
    values[i] = (T)fminf(rint((f32)before * by), (f32)(BINS - 1));
  }
}

#define CLIP(name, T, COLOURS, BINS)                                                                                 \
  KERNEL void name(const Tiled* __restrict__ table, const u32* __restrict__ first, u32 count, u32 each,              \
                   const u16* __restrict__ lab, const f32* __restrict__, u32* counts, T* values) {                   \
    BINS;                                                                                                            \
    clip<T, COLOURS>(table, first, count, each, lab, bins, values);                                                  \
  }

CLIP(clip_1, u8, false, __shared__ u32 bins[256])
CLIP(clip_2, u16, false, u32* bins = counts + (u64)blockIdx.x * 65536)
CLIP(clip_colours_1, u8, true, __shared__ u32 bins[256])
CLIP(clip_colours_2, u16, true, u32* bins = counts + (u64)blockIdx.x * 65536)

// Between which two tiles a row or a column is, and how far from the first of them.
struct Between { u32 one, other; f32 part; };
__device__ __forceinline__ Between between(u32 i, u32 extent, u32 tiles) {
  const f32 at = (f32)i * (1.0f / (f32)extent) - 0.5f, below = floorf(at);
  const i32 tile = (i32)below;
  return Between{(u32)max(tile, 0), (u32)min(tile + 1, (i32)tiles - 1), at - below};
}

template <class T, bool COLOURS>
__device__ __forceinline__ void blend(const Tiled* __restrict__ table, const u32* __restrict__ first, u32 count, u32 each,
                                      const u16* __restrict__ lab, const f32* __restrict__ gammas,
                                      const T* __restrict__ values) {
  const u32 BINS = 1u << 8 * sizeof(T);
  const Place here = place(first, count, each);
  const Tiled& w = table[here.sample];
#pragma unroll 1
  for (u32 k = 0; k < TURNS; k++) {
    const u64 pixel = ((u64)here.tile * TURNS + k) * 256 + threadIdx.x;
    if (pixel >= (u64)w.rows * w.columns) return;
    const u32 y = (u32)(pixel / w.columns), x = (u32)(pixel - (u64)y * w.columns);
    const u8* from = (const u8*)w.source + (i64)y * w.from[0] + (i64)x * w.from[1];
    u8* to = (u8*)w.target + (i64)y * w.to[0] + (i64)x * w.to[1];
    Colour<T> colour;
    const u32 value = COLOURS ? colour.read(from, w.from[2], lab) : *(const T*)from;
    const Between rows = between(y, w.high, w.down), columns = between(x, w.wide, w.across);
    const T* own = values + (u64)w.first * BINS + value;
    const f32 left = 1.0f - columns.part, right = columns.part;
    f32 both[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
      const u64 row = (u64)(i ? rows.other : rows.one) * w.across;
      both[i] = (f32)own[(row + columns.one) * BINS] * left + (f32)own[(row + columns.other) * BINS] * right;
    }
    const f32 found = rint(both[0] * (1.0f - rows.part) + both[1] * rows.part);
    if (COLOURS) colour.write(to, w.to[2], found, lab, gammas);
    else *(T*)to = (T)found;
  }
}

#define BLEND(name, T, COLOURS)                                                                                      \
  KERNEL void name(const Tiled* __restrict__ table, const u32* __restrict__ first, u32 count, u32 each,              \
                   const u16* __restrict__ lab, const f32* __restrict__ gammas, const u32*, const T* __restrict__ values) { \
    blend<T, COLOURS>(table, first, count, each, lab, gammas, values);                                               \
  }

BLEND(blend_1, u8, false)
BLEND(blend_2, u16, false)
BLEND(blend_colours_1, u8, true)
BLEND(blend_colours_2, u16, true)
