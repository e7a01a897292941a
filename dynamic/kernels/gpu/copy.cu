// Copies: contiguous pieces (gather, scatter), and windows of arrays in any strides (crop, flip, slice, pad, transpose,
// cast).
//
// `pieces` moves 16 KiB a block in vectors of 16 bytes where source and target agree modulo 16, else of 4 or 1.
//
// `window` sees the result as rows. A block of 256 threads covers 4096 elements: a thread makes four neighbours in a row,
// which it stores at once where they are aligned, of four rows or, where there are fewer rows, in four places of a row.
// Rows of bytes that begin at an odd place, as in most crops, are read in aligned words that a funnel shift joins.

struct Piece {
  u64 source, target, bytes;
};

static const u32 CHUNK = 16384;

template <class V> __device__ __forceinline__ u32 copy_vectors(const u8* from, u8* to, u32 bytes) {
  const u32 count = bytes / sizeof(V);
  const V* source = (const V*)from;
  V* target = (V*)to;
#pragma unroll 4
  for (u32 i = threadIdx.x; i < count; i += blockDim.x) target[i] = source[i];
  return count * sizeof(V);
}

KERNEL void pieces(const Piece* __restrict__ table, const u32* __restrict__ first, u32 count, u32 each) {
  const Place here = place(first, count, each);
  const Piece piece = table[here.sample];
  const u64 start = (u64)here.tile * CHUNK;
  const u32 bytes = (u32)(piece.bytes - start < CHUNK ? piece.bytes - start : CHUNK);
  const u8* from = (const u8*)(piece.source + start);
  u8* to = (u8*)(piece.target + start);
  const u64 odd = (u64)from ^ (u64)to;
  const u32 step = (odd & 15) == 0 ? 16 : (odd & 3) == 0 ? 4 : 1;
  u32 done = (u32)(-(u64)from & (step - 1));  // up to where both are aligned
  done = done < bytes ? done : bytes;
  for (u32 i = threadIdx.x; i < done; i += blockDim.x) to[i] = from[i];
  if (step == 16) done += copy_vectors<uint4>(from + done, to + done, bytes - done);
  else if (step == 4) done += copy_vectors<u32>(from + done, to + done, bytes - done);
  for (u32 i = done + threadIdx.x; i < bytes; i += blockDim.x) to[i] = from[i];
}

static const int DIMS = 6;

struct Window {
  u64 source;  // where element (0, ..., 0) of the result would be read
  u64 target;
  i64 strides[DIMS];  // bytes of the source
  u32 extents[DIMS];  // of the result, which is contiguous
  u32 low[DIMS];      // what is inside of the source, in places of the result
  u32 high[DIMS];
  u32 rows;      // the product of all extents but the last
  u32 fill;      // the first of its values to fill with
  u32 divisor;   // how many elements of the row, or rows, belong to one channel
  u32 channels;  // of the fill, by place in the row, or by row where the highest bit is set
  u32 across;    // logarithm of the threads side by side
  u32 wide;      // whether a thread stays in its row
};

static const u32 BY_ROW = 0x80000000u;

// Four neighbouring bytes at any address, of which `low` to `high` may be read.
__device__ __forceinline__ bool four_bytes(const u8* from, const u8* low, const u8* high, u32* found) {
  const u32 odd = (u32)((u64)from & 3);
  const u8* word = from - odd;
  if (odd == 0) {
    *found = *(const u32*)word;
    return true;
  }
  if (word < low || word + 8 > high) return false;
  *found = __funnelshift_r(((const u32*)word)[0], ((const u32*)word)[1], 8 * odd);
  return true;
}

// Four neighbours in a row, all of them in the result and inside of the source.
template <class In, class Out> struct Group {
  static __device__ __forceinline__ void copy(const u8* from, i64 step, Out* to, const u8*, const u8*) {
    Four<Out> four;
#pragma unroll
    for (int i = 0; i < 4; i++) Move<In, Out>::one(from + i * step, 0, (u8*)&four.each[i], 0);
    if (aligned<Out>(to)) {
      *(typename Quad<sizeof(Out)>::type*)to = four.whole;
    } else {
#pragma unroll
      for (int i = 0; i < 4; i++) to[i] = four.each[i];
    }
  }
};
template <class T> struct Group<T, T> {
  static __device__ __forceinline__ void copy(const u8* from, i64 step, T* to, const u8* low, const u8* high) {
    typedef typename Quad<sizeof(T)>::type V;
    Four<T> four;
    bool together = false;
    if (step == (i64)sizeof(T)) {
      if (sizeof(T) == 1) {
        u32 bytes;
        together = four_bytes(from, low, high, &bytes);
        if (together) *(u32*)&four = bytes;
      } else if (aligned<T>(from)) {
        four.whole = *(const V*)from;
        together = true;
      }
    }
    if (!together) {
#pragma unroll
      for (int i = 0; i < 4; i++) four.each[i] = *(const T*)(from + i * step);
    }
    if (aligned<T>(to)) {
      *(V*)to = four.whole;
    } else {
#pragma unroll
      for (int i = 0; i < 4; i++) to[i] = four.each[i];
    }
  }
};

template <class In, class Out>
__device__ __forceinline__ void window(const Window* __restrict__ table, const u32* __restrict__ first, u32 count,
                                       u32 each, const u64* __restrict__ fills, i32 type, i32 wanted) {
  const Place here = place(first, count, each);
  const Window& w = table[here.sample];
  const u32 side = 1u << w.across, width = w.extents[DIMS - 1], low = w.low[DIMS - 1], high = w.high[DIMS - 1];
  const u32 down = 256 >> w.across, columns = side * (w.wide ? 16 : 4);
  const u32 tiles = (width + columns - 1) / columns;
  u32 x = here.tile % tiles * columns + (threadIdx.x & (side - 1)) * 4;
  u32 row = here.tile / tiles * down * (w.wide ? 1 : 4) + (threadIdx.x >> w.across);
  const i64 step = w.strides[DIMS - 1];
  const i32 size = sizeof(Out) == sizeof(Any) && type >= 0 ? size_of(wanted) : (i32)sizeof(Out);
  const u64* fill = fills + w.fill;
  for (int k = 0; k < 4; k++, x += w.wide ? 4 * side : 0, row += w.wide ? 0 : down) {
    if (row >= w.rows || x >= width) return;
    const u8* from = (const u8*)w.source;
    bool inside = true;
    u32 rest = row;
#pragma unroll
    for (int d = DIMS - 2; d >= 0; d--) {
      const u32 extent = w.extents[d];
      if (extent == 1) {
        inside &= w.low[d] == 0 && w.high[d] == 1;
        continue;
      }
      const u32 above = rest / extent, at = rest - above * extent;
      rest = above;
      inside &= at >= w.low[d] && at < w.high[d];
      from += (i64)at * w.strides[d];
    }
    u8* to = (u8*)w.target + ((u64)row * width + x) * size;
    const u8* there = from + (i64)x * step;
    if (type < 0 && inside && x >= low && x + 4 <= high && x + 4 <= width) {
      Group<In, Out>::copy(there, step, (Out*)to, from + (i64)low * step, from + (i64)high * step);
      continue;
    }
    for (u32 i = 0; i < 4 && x + i < width; i++) {
      if (inside && x + i >= low && x + i < high) {
        Move<In, Out>::one(there + i * step, type, to + i * size, wanted);
      } else {
        const u32 channel = (w.channels & BY_ROW ? row : x + i) / w.divisor % (w.channels & ~BY_ROW);
        const u64 value = fill[channel];
        if (size == 1) to[i] = (u8)value;
        else if (size == 2) ((u16*)to)[i] = (u16)value;
        else if (size == 4) ((u32*)to)[i] = (u32)value;
        else ((u64*)to)[i] = value;
      }
    }
  }
}

#define WINDOW(name, In, Out)                                                                                        \
  KERNEL void name(const Window* __restrict__ table, const u32* __restrict__ first, u32 count, u32 each,             \
                   const u64* __restrict__ fills) {                                                                  \
    window<In, Out>(table, first, count, each, fills, -1, -1);                                                       \
  }

WINDOW(window_1, u8, u8)
WINDOW(window_2, u16, u16)
WINDOW(window_4, u32, u32)
WINDOW(window_8, u64, u64)
WINDOW(window_uint8_float32, u8, f32)
WINDOW(window_uint8_float16, u8, f16)
WINDOW(window_float32_uint8, f32, u8)
WINDOW(window_float32_float16, f32, f16)
WINDOW(window_float16_float32, f16, f32)

KERNEL void window_any(const Window* __restrict__ table, const u32* __restrict__ first, u32 count, u32 each,
                       const u64* __restrict__ fills, i32 type, i32 wanted) {
  window<Any, Any>(table, first, count, each, fills, type, wanted);
}
