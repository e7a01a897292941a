// Images that are read anywhere, (H, W, C) in any strides: at the points of a perspective, of two maps, of a sphere or of
// waves, with borders of every kind.
//
// A block makes 32x32 pixels, a thread four of them; a warp makes 8x4 neighbours at a time, whose points are near each other
// as well. Points are found in float64, as on the CPU.

struct Map {
  u64 source, target;
  i64 from[3], to[3];  // bytes from row to row, pixel to pixel, channel to channel
  f64 numbers[9];      // of the way that points are found
  u64 maps[2];         // x and y of each pixel, where these are given
  i64 steps[4];        // bytes from row to row and from pixel to pixel of the one, and of the other
  i32 height, width;   // of the source
  u32 rows, columns;   // of the result
  u32 channels;
  u32 across;  // tiles side by side
  u32 way;
};

enum { KEPT, PERSPECTIVE, GIVEN, SPHERE, WAVES };
enum { NEAREST, LINEAR, CUBIC };

__device__ __forceinline__ void point(const Map& w, u32 column, u32 row, const f64* waves, i32 type_x, i32 type_y, f64* u,
                                      f64* v) {
  const f64 x = column, y = row;
  const f64* n = w.numbers;
  if (w.way == PERSPECTIVE) {
    const f64 depth = n[6] * x + (n[7] * y + n[8]);
    *u = (n[0] * x + (n[1] * y + n[2])) / depth;
    *v = (n[3] * x + (n[4] * y + n[5])) / depth;
  } else if (w.way == GIVEN) {
    *u = load<f64>((const u8*)w.maps[0] + (i64)row * w.steps[0] + (i64)column * w.steps[1], type_x) - n[0];
    *v = load<f64>((const u8*)w.maps[1] + (i64)row * w.steps[2] + (i64)column * w.steps[3], type_y) - n[0];
  } else if (w.way == SPHERE) {
    const f64 dx = x - n[0], dy = y - n[1], distance = sqrt(dx * dx + dy * dy) / n[2];
    *u = n[0] + distance * dx;
    *v = n[1] + distance * dy;
  } else if (w.way == WAVES) {
    *u = (f64)((f32)x + (f32)waves[row]) - 0.5;
    *v = (f64)((f32)y + (f32)waves[(u32)n[0] + column]) - 0.5;
  } else {
    *u = x;
    *v = y;
  }
}

// A coordinate near enough for an integer that finds the same pixels. As on the CPU, what is infinite is nowhere where the
// image repeats, and what is nowhere is two pixels before the first.
__device__ __forceinline__ f64 folded(f64 v, i32 extent, u32 border) {
  const f64 far = 1e9;
  if (fabs(v) < far) return v;
  if (border == CONSTANT || border == REPLICATE) return v > 0 ? far : v < 0 ? -far : -2;
  const f64 period = border == WRAP ? extent : border == REFLECT ? 2.0 * extent : max(1, 2 * extent - 2);
  const f64 rest = fmod(v, period);
  return rest < 0 ? rest + period : rest == rest ? rest : -2;
}

// How much a pixel counts that is i pixels beyond the one before a point, which is t beyond that.
__device__ __forceinline__ f64 weight(f64 t, i32 i, u32 kind) {
  const f64 d = fabs(t - (f64)i), a = -0.75;  // OpenCV's cubic
  if (kind == LINEAR) return 1 - d;
  return d < 1 ? ((a + 2) * d - (a + 3)) * d * d + 1 : ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
}

template <class T, class Real>
__device__ __forceinline__ void map(const Map* __restrict__ table, const u32* __restrict__ first, u32 count, u32 each,
                                    const u64* __restrict__ fill, const f64* __restrict__ waves, u32 border, u32 kind, i32 type,
                                    i32 type_x, i32 type_y) {
  const Place here = place(first, count, each);
  const Map& w = table[here.sample];
  const u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const u32 x = here.tile % w.across * 32 + ((warp & 3) << 3) + (lane & 7);
  const u32 top = here.tile / w.across * 32, dy = ((warp >> 2) << 2) + (lane >> 3);
  if (x >= w.columns) return;
#pragma unroll 1
  for (u32 y = top + dy; y < w.rows && y < top + 32; y += 8) {
    f64 u, v;
    point(w, x, y, waves, type_x, type_y, &u, &v);
    const u8* source = (const u8*)w.source;
    u8* to = (u8*)w.target + (i64)y * w.to[0] + (i64)x * w.to[1];
    if (kind == NEAREST || w.way == KEPT) {
      const i32 row = bounded((i32)folded(floor(v + 0.5), w.height, border), w.height, border);
      const i32 column = bounded((i32)folded(floor(u + 0.5), w.width, border), w.width, border);
      const bool outside = row < 0 || column < 0;
      const u8* from = outside ? (const u8*)fill : source + (i64)row * w.from[0] + (i64)column * w.from[1];
      const i64 step = outside ? sizeof(u64) : w.from[2];
#pragma unroll 1
      for (u32 c = 0; c < w.channels; c++, from += step, to += w.to[2]) Move<T, T>::one(from, type, to, type);
      continue;
    }
    v = folded(v, w.height, border);
    u = folded(u, w.width, border);
    const f64 above = floor(v), beside = floor(u);
    const i32 low = kind == LINEAR ? 0 : -1, high = kind == LINEAR ? 1 : 2;
#pragma unroll 1
    for (u32 c = 0; c < w.channels; c++, to += w.to[2]) {
      const Real outside = Source<T, Real>::at((const u8*)(fill + c), type);
      Real sum = 0;
#pragma unroll 1
      for (i32 i = low; i <= high; i++) {
        const i32 row = bounded((i32)above + i, w.height, border);
        const u8* from = source + (i64)row * w.from[0] + (i64)c * w.from[2];
        Real line = 0;
#pragma unroll 1
        for (i32 k = low; k <= high; k++) {
          const i32 column = bounded((i32)beside + k, w.width, border);
          const bool inside = row >= 0 && column >= 0;
          const Real value = inside ? Source<T, Real>::at(from + (i64)column * w.from[1], type) : outside;
          line += value * (Real)weight(u - beside, k, kind);
        }
        sum += line * (Real)weight(v - above, i, kind);
      }
      Target<T, Real>::put(to, type, sum);
    }
  }
}

#define MAP(name, T, Real)                                                                                           \
  KERNEL void name(const Map* __restrict__ table, const u32* __restrict__ first, u32 count, u32 each,                \
                   const u64* __restrict__ fill, const f64* __restrict__ waves, u32 border, u32 kind, i32 type,      \
                   i32 type_x, i32 type_y) {                                                                         \
    map<T, Real>(table, first, count, each, fill, waves, border, kind, type, type_x, type_y);                        \
  }

MAP(map_uint8, u8, f32)
MAP(map_float32, f32, f32)
MAP(map_any, Any, f64)
