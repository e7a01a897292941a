// Equalizing histograms: the values of each channel are counted, a table is made of the counts, and the values are looked up.
//
// Bytes are counted in shared memory, a histogram for each block; integers of two bytes, which have more values than that
// holds, in the memory of the GPU. One block makes the table of a channel: each thread adds up a part of the counts.

struct Plane {
  u64 source, target;
  i64 from[2], to[2];  // bytes from row to row, pixel to pixel
  u32 rows, columns;
};

static const u32 TURNS = 16;  // of 256 pixels

template <class T> struct Pixels {
  // Does something with every pixel of a block's part of a plane.
  template <class F> static __device__ __forceinline__ void each(const Plane& w, u32 tile, F one) {
#pragma unroll 1
    for (u32 k = 0; k < TURNS; k++) {
      const u64 pixel = ((u64)tile * TURNS + k) * 256 + threadIdx.x;
      if (pixel >= (u64)w.rows * w.columns) return;
      const u32 y = (u32)(pixel / w.columns), x = (u32)(pixel - (u64)y * w.columns);
      one(*(const T*)((const u8*)w.source + (i64)y * w.from[0] + (i64)x * w.from[1]),
          (T*)((u8*)w.target + (i64)y * w.to[0] + (i64)x * w.to[1]));
    }
  }
};

KERNEL void count_1(const Plane* __restrict__ table, const u32* __restrict__ first, u32 count, u32 each, u32* counts) {
  __shared__ u32 bins[256];
  const Place here = place(first, count, each);
  bins[threadIdx.x] = 0;
  __syncthreads();
  Pixels<u8>::each(table[here.sample], here.tile, [&](u8 value, u8*) { atomicAdd(&bins[value], 1u); });
  __syncthreads();
  if (bins[threadIdx.x]) atomicAdd(&counts[here.sample * 256 + threadIdx.x], bins[threadIdx.x]);
}

KERNEL void count_2(const Plane* __restrict__ table, const u32* __restrict__ first, u32 count, u32 each, u32* counts) {
  const Place here = place(first, count, each);
  u32* bins = counts + (u64)here.sample * 65536;
  Pixels<u16>::each(table[here.sample], here.tile, [&](u16 value, u16*) { atomicAdd(&bins[value], 1u); });
}

// What becomes of each value: its rank among those above the lowest, spread over the range, and rounded half to even.
template <class T, class Real, u32 BINS>
__device__ __forceinline__ void spread(const Plane* __restrict__ table, const u32* __restrict__ counts, T* found) {
  __shared__ u32 sums[256];
  const u32 each = BINS / 256, from = threadIdx.x * each;
  const Plane& w = table[blockIdx.x];
  counts += (u64)blockIdx.x * BINS;
  found += (u64)blockIdx.x * BINS;
  u32 own = 0;
  for (u32 i = 0; i < each; i++) own += counts[from + i];
  sums[threadIdx.x] = own;
  __syncthreads();
  u32 before = 0, lowest = 0;
  for (u32 i = 0; i < threadIdx.x; i++) before += sums[i];
  while (lowest < 255 && !sums[lowest]) lowest++;
  lowest *= each;
  while (lowest < BINS - 1 && !counts[lowest]) lowest++;
  const u32 fewest = counts[lowest], others = w.rows * w.columns - fewest;
  const Real by = (Real)(BINS - 1) / (Real)others;
  for (u32 i = from; i < from + each; i++) {
    before += counts[i];
    found[i] = others == 0 ? (T)i : i <= lowest ? (T)0 : (T)rint((Real)(before - fewest) * by);
  }
}

KERNEL void spread_1(const Plane* __restrict__ table, const u32* __restrict__, u32, u32, const u32* counts, u8* found) {
  spread<u8, f32, 256>(table, counts, found);
}

KERNEL void spread_2(const Plane* __restrict__ table, const u32* __restrict__, u32, u32, const u32* counts, u16* found) {
  spread<u16, f64, 65536>(table, counts, found);
}

KERNEL void look_up_1(const Plane* __restrict__ table, const u32* __restrict__ first, u32 count, u32 each, const u8* values) {
  const Place here = place(first, count, each);
  const u8* own = values + (u64)here.sample * 256;
  Pixels<u8>::each(table[here.sample], here.tile, [&](u8 value, u8* to) { *to = own[value]; });
}

KERNEL void look_up_2(const Plane* __restrict__ table, const u32* __restrict__ first, u32 count, u32 each, const u16* values) {
  const Place here = place(first, count, each);
  const u16* own = values + (u64)here.sample * 65536;
  Pixels<u16>::each(table[here.sample], here.tile, [&](u16 value, u16* to) { *to = own[value]; });
}
