// What depends on the window around each pixel of images, (H, W, C) in any strides: correlation with a kernel (filter,
// laplacian), the largest, the smallest and the median (dilate, erode, median_blur).
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
      if (down == 3 && across == 3 && !outside) {
        const u8* from = plane + (i64)upper * w.from[0] + (i64)left * w.from[1];
#pragma unroll
        for (u32 i = 0; i < 9; i++)
          sum += weight[i] * Source<In, Real>::at(from + (i64)(i / 3) * w.from[0] + (i64)(i % 3) * w.from[1], type);
        Target<Out, Real>::put(to, wanted, even ? rint(sum) : sum);
        continue;
      }
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

// The key of an element: whole numbers in the order of the elements; and an element by its key.
template <class T> struct Key;
template <> struct Key<u8> {
  static constexpr int bits = 8;
  static __device__ __forceinline__ u64 of(const u8* p, i32) { return *p; }
  static __device__ __forceinline__ void put(u8* p, u32 key) { *p = (u8)key; }
};
template <> struct Key<f32> {
  static constexpr int bits = 32;
  static __device__ __forceinline__ void put(u8* p, u32 key) {
    *(f32*)p = __uint_as_float(key >> 31 ? key & 0x7FFFFFFFu : ~key);
  }
  static __device__ __forceinline__ u64 of(const u8* p, i32) {
    const u32 v = __float_as_uint(*(const f32*)p);
    return v >> 31 ? ~v : v | 0x80000000u;
  }
};
template <> struct Key<Any> {
  static constexpr int bits = 64;
  static __device__ __forceinline__ u64 of(const u8* p, i32 type) {
    const u64 sign = 1ull << 63;
    switch (type) {
      case U8: return *p;
      case U16: return *(const u16*)p;
      case U32: return *(const u32*)p;
      case U64: return *(const u64*)p;
      case BOOL: return *p;
      case I8: return (u64)(i64) * (const i8*)p ^ sign;
      case I16: return (u64)(i64) * (const i16*)p ^ sign;
      case I32: return (u64)(i64) * (const i32*)p ^ sign;
      case I64: return (u64) * (const i64*)p ^ sign;
      default: {
        const u64 v = (u64)__double_as_longlong(load<f64>(p, type));
        return v & sign ? ~v : v | sign;
      }
    }
  }
};

// Does something with each element of a window that there is.
template <class F>
__device__ __forceinline__ void window(const Filter& w, const u8* plane, i32 upper, i32 left, u32 border, F one) {
  for (u32 i = 0; i < w.size[0]; i++) {
    const i32 row = bounded(upper + (i32)i, w.extents[0], border);
    if (row < 0) continue;
    for (u32 k = 0; k < w.size[1]; k++) {
      const i32 column = bounded(left + (i32)k, w.extents[1], border);
      if (column >= 0) one(plane + (i64)row * w.from[0] + (i64)column * w.from[1]);
    }
  }
}

enum { LARGEST, SMALLEST, MEDIAN };

// The key of the largest or smallest element of a window of 3 x 3, or of its median, with all keys in registers.
template <class T>
__device__ __forceinline__ u32 chosen(const Filter& w, const u8* plane, i32 upper, i32 left, u32 border, u32 which) {
  u32 keys[9], key = 0;
#pragma unroll
  for (u32 i = 0; i < 3; i++) {
    const u8* row = plane + (i64)bounded(upper + (i32)i, w.extents[0], border) * w.from[0];
#pragma unroll
    for (u32 k = 0; k < 3; k++)
      keys[i * 3 + k] = (u32)Key<T>::of(row + (i64)bounded(left + (i32)k, w.extents[1], border) * w.from[1], 0);
  }
  if (which != MEDIAN) {
    key = keys[0];
#pragma unroll
    for (u32 i = 1; i < 9; i++) key = which == LARGEST ? max(key, keys[i]) : min(key, keys[i]);
    return key;
  }
#pragma unroll 1
  for (int bit = Key<T>::bits - 1; bit >= 0; bit--) {
    const u32 above = key | 1u << bit;
    u32 below = 0;
#pragma unroll
    for (u32 i = 0; i < 9; i++) below += keys[i] < above;
    if (below <= 4) key = above;
  }
  return key;
}

// The largest or the smallest element of the window around each pixel, or its median: the number that has as many below it
// as above, found bit by bit. The element itself is copied, so that every type keeps all of its digits.
template <class T>
__device__ __forceinline__ void rank(const Filter* __restrict__ table, const u32* __restrict__ first, u32 count, u32 each,
                                     u32 border, u32 which, i32 type) {
  const Place here = place(first, count, each);
  const Filter& w = table[here.sample];
  const u32 x = here.tile % w.across * 32 + (threadIdx.x & 31), top = here.tile / w.across * 32;
  if (x >= w.columns) return;
  const i32 left = (i32)x + w.shift[1];
#pragma unroll 1
  for (u32 y = top + (threadIdx.x >> 5); y < w.rows && y < top + 32; y += 8) {
    const i32 upper = (i32)y + w.shift[0];
    u8* to = (u8*)w.target + (i64)y * w.to[0] + (i64)x * w.to[1];
#pragma unroll 1
    for (u32 c = 0; c < w.channels; c++, to += w.to[2]) {
      const u8* plane = (const u8*)w.source + (i64)c * w.from[2];
      const u8* found = plane;
      if constexpr (Key<T>::bits <= 32) {
        const bool inside = left >= 0 && left + 3 <= w.extents[1] && upper >= 0 && upper + 3 <= w.extents[0];
        if (w.size[0] == 3 && w.size[1] == 3 && (inside || border != CONSTANT)) {
          Key<T>::put(to, chosen<T>(w, plane, upper, left, border, which));
          continue;
        }
      }
      if (which == MEDIAN) {
        const u32 middle = w.size[0] * w.size[1] / 2;
        u64 key = 0;
#pragma unroll 1
        for (int bit = Key<T>::bits - 1; bit >= 0; bit--) {
          const u64 above = key | 1ull << bit;
          u32 below = 0;
          window(w, plane, upper, left, border, [&](const u8* p) { below += Key<T>::of(p, type) < above; });
          if (below <= middle) key = above;
        }
        window(w, plane, upper, left, border, [&](const u8* p) { found = Key<T>::of(p, type) == key ? p : found; });
      } else {
        bool any = false;
        u64 best = 0;
        window(w, plane, upper, left, border, [&](const u8* p) {
          const u64 key = Key<T>::of(p, type);
          if (!any || (which == LARGEST ? key > best : key < best)) best = key, found = p, any = true;
        });
      }
      Move<T, T>::one(found, type, to, type);
    }
  }
}

#define RANK(name, T)                                                                                                \
  KERNEL void name(const Filter* __restrict__ table, const u32* __restrict__ first, u32 count, u32 each, u32 border, \
                   u32 which, i32 type) {                                                                            \
    rank<T>(table, first, count, each, border, which, type);                                                         \
  }

RANK(rank_uint8, u8)
RANK(rank_float32, f32)
RANK(rank_any, Any)
