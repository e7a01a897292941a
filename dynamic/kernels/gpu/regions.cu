// Parts of arrays: filled with a value, or copied into a larger array (erase, multi_paste); and the squares of a grid that
// are hidden (grid_mask).
//
// A block covers 2048 elements of a part, or pixels of an image, and a thread eight of them, so that neighbours are next to
// each other in memory. Which element of an array that is follows from its number by divisions, for parts have any strides.

static const int DIMS = 6;
static const u32 EACH = 8;

struct Part {
  u64 source;  // 0 where the part is filled
  u64 target;
  i64 from[DIMS], to[DIMS];  // bytes from element to element; of what it is filled with, in its cells
  u32 extents[DIMS];
  u32 count;  // elements
  u32 fill;   // the first of the values that it is filled with
};

template <class In, class Out>
__device__ __forceinline__ void part(const Part* __restrict__ table, const u32* __restrict__ first, u32 count, u32 each,
                                     const u64* __restrict__ fills, i32 type, i32 wanted) {
  const Place here = place(first, count, each);
  const Part& w = table[here.sample];
  const bool filled = w.source == 0;
#pragma unroll 1
  for (u32 k = 0; k < EACH; k++) {
    const u64 element = ((u64)here.tile * EACH + k) * 256 + threadIdx.x;
    if (element >= w.count) return;
    const u8* from = filled ? (const u8*)(fills + w.fill) : (const u8*)w.source;
    u8* to = (u8*)w.target;
    u32 rest = (u32)element;
#pragma unroll
    for (int d = DIMS - 1; d >= 0; d--) {
      const u32 extent = w.extents[d];
      if (extent == 1) continue;
      const u32 above = rest / extent, at = rest - above * extent;
      rest = above;
      from += (i64)at * w.from[d];
      to += (i64)at * w.to[d];
    }
    if (filled) Move<Out, Out>::one(from, wanted, to, wanted);
    else Move<In, Out>::one(from, type, to, wanted);
  }
}

#define PART(name, In, Out)                                                                                          \
  KERNEL void name(const Part* __restrict__ table, const u32* __restrict__ first, u32 count, u32 each,               \
                   const u64* __restrict__ fills, i32 type, i32 wanted) {                                            \
    part<In, Out>(table, first, count, each, fills, type, wanted);                                                   \
  }

PART(part_1, u8, u8)
PART(part_2, u16, u16)
PART(part_4, u32, u32)
PART(part_8, u64, u64)
PART(part_any, Any, Any)

struct Grid {
  u64 source, target;
  i64 from[3], to[3];  // bytes from row to row, pixel to pixel, channel to channel
  f32 cos, sin;        // from pixels to tiles
  f32 left, top;       // where the grid begins, in tiles
  f32 hidden;          // what part of a tile
  u32 rows, columns, channels;
};

__device__ __forceinline__ f32 fraction(f32 v) { return v - floorf(v); }

template <class T>
__device__ __forceinline__ void grid(const Grid* __restrict__ table, const u32* __restrict__ first, u32 count, u32 each) {
  const Place here = place(first, count, each);
  const Grid& w = table[here.sample];
#pragma unroll 1
  for (u32 k = 0; k < EACH; k++) {
    const u64 pixel = ((u64)here.tile * EACH + k) * 256 + threadIdx.x;
    if (pixel >= (u64)w.rows * w.columns) return;
    const u32 y = (u32)(pixel / w.columns), x = (u32)(pixel - (u64)y * w.columns);
    const f32 left = w.left - (f32)y * w.sin, down = (f32)y * w.cos - w.top;
    const bool hidden = fraction(left + (f32)x * w.cos) < w.hidden && fraction(down + (f32)x * w.sin) < w.hidden;
    const u8* from = (const u8*)w.source + (i64)y * w.from[0] + (i64)x * w.from[1];
    u8* to = (u8*)w.target + (i64)y * w.to[0] + (i64)x * w.to[1];
    for (u32 c = 0; c < w.channels; c++, from += w.from[2], to += w.to[2]) *(T*)to = hidden ? (T)0 : *(const T*)from;
  }
}

#define GRID(name, T)                                                                                                \
  KERNEL void name(const Grid* __restrict__ table, const u32* __restrict__ first, u32 count, u32 each) {             \
    grid<T>(table, first, count, each);                                                                              \
  }

GRID(grid_1, u8)
GRID(grid_2, u16)
GRID(grid_4, u32)
GRID(grid_8, u64)
