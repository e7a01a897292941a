// Correlation of images with a kernel, (H, W, C) in any strides (filter, laplacian).
//
// A block makes 32x32 pixels, a thread four of them, one below the other. Neighbours read what their windows share from the
// cache. Where a window is inside of the image its rows are walked along; elsewhere each of its places is found anew.

struct Filter {
  u64 source, target;
  i64 from[3], to[3];  // bytes from row to row, pixel to pixel, channel to channel
  u32 weights;         // the first of its weights
  u32 size[2];         // rows and columns of the kernel
  i32 shift[2];        // where its first weight lies, from the pixel that is computed
  i32 extents[2];      // of the source
  u32 rows, columns;   // of the result
  u32 channels;
  u32 fill;    // its value to fill with
  u32 across;  // tiles side by side
};

enum { REFLECT_101, REFLECT_1001, CLAMP, WRAP, CONSTANT };

__device__ __forceinline__ i32 modulo(i32 v, i32 period) {
  const i32 rest = v % period;
  return rest < 0 ? rest + period : rest;
}

// The pixel in place of one that is outside; -1 for none.
__device__ __forceinline__ i32 bounded(i32 v, i32 extent, u32 border) {
  if (v >= 0 && v < extent) return v;
  if (border == CONSTANT) return -1;
  if (border == CLAMP) return v < 0 ? 0 : extent - 1;
  if (border == WRAP) return modulo(v, extent);
  if (border == REFLECT_101) {
    if (extent == 1) return 0;
    const i32 at = modulo(v, 2 * extent - 2);
    return at < extent ? at : 2 * extent - 2 - at;
  }
  const i32 at = modulo(v, 2 * extent);
  return at < extent ? at : 2 * extent - 1 - at;
}

template <class In, class Out, class Real>
__device__ __forceinline__ void filter(const Filter* __restrict__ table, const u32* __restrict__ first, u32 count, u32 each,
                                       const Real* __restrict__ weights, const Real* __restrict__ fills, u32 border, u32 even,
                                       i32 type, i32 wanted) {
  const Place here = place(first, count, each);
  const Filter& w = table[here.sample];
  const u32 x = here.tile % w.across * 32 + (threadIdx.x & 31), top = here.tile / w.across * 32;
  if (x >= w.columns) return;
  const i32 height = w.extents[0], width = w.extents[1], left = (i32)x + w.shift[1];
  const u32 down = w.size[0], across = w.size[1];
  const bool beside = left < 0 || left + (i32)across > width;
  const Real fill = fills[w.fill];
#pragma unroll 1
  for (u32 y = top + (threadIdx.x >> 5); y < w.rows && y < top + 32; y += 8) {
    const i32 upper = (i32)y + w.shift[0];
    const bool outside = beside || upper < 0 || upper + (i32)down > height;
    u8* to = (u8*)w.target + (i64)y * w.to[0] + (i64)x * w.to[1];
#pragma unroll 1
    for (u32 c = 0; c < w.channels; c++, to += w.to[2]) {
      const u8* plane = (const u8*)w.source + (i64)c * w.from[2];
      const Real* weight = weights + w.weights;
      Real sum = 0;
      for (u32 i = 0; i < down; i++) {
        const i32 row = outside ? bounded(upper + (i32)i, height, border) : upper + (i32)i;
        const u8* from = plane + (i64)row * w.from[0];
        for (u32 k = 0; k < across; k++) {
          const i32 column = outside ? bounded(left + (i32)k, width, border) : left + (i32)k;
          sum += *weight++ * (row < 0 || column < 0 ? fill : Source<In, Real>::at(from + (i64)column * w.from[1], type));
        }
      }
      Target<Out, Real>::put(to, wanted, even ? rint(sum) : sum);
    }
  }
}

#define FILTER(name, In, Out, Real)                                                                                  \
  KERNEL void name(const Filter* __restrict__ table, const u32* __restrict__ first, u32 count, u32 each,             \
                   const Real* __restrict__ weights, const Real* __restrict__ fills, u32 border, u32 even, i32 type, \
                   i32 wanted) {                                                                                     \
    filter<In, Out, Real>(table, first, count, each, weights, fills, border, even, type, wanted);                    \
  }

FILTER(filter_uint8_uint8, u8, u8, f32)
FILTER(filter_uint8_float32, u8, f32, f32)
FILTER(filter_float32_float32, f32, f32, f32)
FILTER(filter_any, Any, Any, f64)
