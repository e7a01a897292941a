// Sound: windows of signals for transforms and their magnitudes, sums of frequencies, decibels, emphasis, resampling,
// and the search for silence. Signals are contiguous, of float32 but where a type is named.

enum { TURNS = 4, TILE = 32, LANES = 8 };
#define NOTHING __uint_as_float(0xff800000u)  // less than any number

// The windows of a signal, one a row of a buffer: value k of window t is value begin + t * hop + k of the signal, whose
// values lie `stride` apart and begin t * skip further.
struct Windows {
  u64 source, row;
  i64 count, begin, hop, stride, skip;
  u32 windows, length;
};

// A place beyond a signal, which is mirrored at its first and last value again and again.
__device__ __forceinline__ i64 mirrored(i64 at, i64 count) {
  if (count == 1) return 0;
  const i64 turned = (at < 0 ? -at : at) % (2 * count - 2);
  return turned < count ? turned : 2 * count - 2 - turned;
}

KERNEL void frames(const Windows* __restrict__ table, const u32* __restrict__ first, u32 count, u32 each,
                   const f32* __restrict__ weights, f32* rows, u32 size, u32 weighted, u32 mirror) {
  const Place here = place(first, count, each);
  const Windows& w = table[here.sample];
#pragma unroll 1
  for (u32 turn = 0; turn < TURNS; turn++) {
    const u64 i = ((u64)here.tile * TURNS + turn) * 256 + threadIdx.x;
    if (i >= (u64)w.windows * size) return;
    const u64 t = i / size;
    const u32 k = (u32)(i - t * size);
    f32 value = 0;
    if (k < w.length) {
      i64 at = w.begin + (i64)t * w.hop + k;
      const bool inside = at >= 0 && at < w.count;
      if (!inside && mirror) at = mirrored(at, w.count);
      if (inside || mirror) value = ((const f32*)w.source)[at * w.stride + (i64)t * w.skip];
      if (weighted) value *= weights[k];
    }
    rows[w.row * size + i] = value;
  }
}

struct Spectra {
  u64 target, row;
  i64 to[2];  // from one frequency to the next, and from one window to the next
  u32 windows, across;
};

KERNEL void magnitudes(const Spectra* __restrict__ table, const u32* __restrict__ first, u32 count, u32 each,
                       const f32* __restrict__ spectra, u32 bins, u32 power) {
  __shared__ f32 tile[TILE][TILE + 1];
  const Place here = place(first, count, each);
  const Spectra& w = table[here.sample];
  const u32 x = threadIdx.x % TILE, y = threadIdx.x / TILE;
  const u32 t = here.tile / w.across * TILE, f = here.tile % w.across * TILE;
  for (u32 r = y; r < TILE; r += 256 / TILE)
    if (t + r < w.windows && f + x < bins) {
      const f32* found = spectra + 2 * ((w.row + t + r) * bins + f + x);
      tile[r][x] = hypotf(found[0], found[1]);
    }
  __syncthreads();
  const bool turned = w.to[1] < w.to[0];
  for (u32 r = y; r < TILE; r += 256 / TILE) {
    const u32 row = turned ? x : r, column = turned ? r : x;
    if (t + row < w.windows && f + column < bins) {
      const f32 value = tile[row][column];
      *(f32*)(w.target + (u64)((i64)(f + column) * w.to[0] + (i64)(t + row) * w.to[1])) =
          power == 2 ? value * value : value;
    }
  }
}

// Arrays as (before, axis, behind), of which vectors along the axis are multiplied by a matrix, whose rows have weights
// from a first column on.
struct Vectors {
  u64 source, target, values;
  u32 behind;
};
struct Band {
  u32 first, count, at;
};

KERNEL void mix(const Vectors* __restrict__ table, const u32* __restrict__ first, u32 count, u32 each,
                const Band* __restrict__ bands, const f32* __restrict__ weights, u32 rows, u32 columns) {
  const Place here = place(first, count, each);
  const Vectors& w = table[here.sample];
#pragma unroll 1
  for (u32 turn = 0; turn < TURNS; turn++) {
    const u64 i = ((u64)here.tile * TURNS + turn) * 256 + threadIdx.x;
    if (i >= w.values) return;
    const u64 outer = i / w.behind, before = outer / rows;
    const Band band = bands[outer - before * rows];
    const f32* value = (const f32*)w.source + (before * columns + band.first) * w.behind + (i - outer * w.behind);
    f32 sum = 0;
    for (u32 k = 0; k < band.count; k++) sum += weights[band.at + k] * value[(u64)k * w.behind];
    ((f32*)w.target)[i] = sum;
  }
}

struct Values {
  u64 source, target, count;
  u32 part, parts;  // which partial maxima are those of a sample
};

KERNEL void largest(const Values* __restrict__ table, const u32* __restrict__ first, u32 count, u32 each, f32* partial) {
  __shared__ f32 found[256];
  const Place here = place(first, count, each);
  const Values& w = table[here.sample];
  f32 most = NOTHING;
  for (u64 i = (u64)here.tile * 256 + threadIdx.x; i < w.count; i += (u64)w.parts * 256)
    most = fmaxf(most, ((const f32*)w.source)[i]);
  found[threadIdx.x] = most;
  __syncthreads();
  for (u32 half = 128; half; half /= 2) {
    if (threadIdx.x < half) found[threadIdx.x] = fmaxf(found[threadIdx.x], found[threadIdx.x + half]);
    __syncthreads();
  }
  if (threadIdx.x == 0) partial[w.part + here.tile] = found[0];
}

KERNEL void decibels(const Values* __restrict__ table, const u32* __restrict__ first, u32 count, u32 each,
                     const f32* __restrict__ partial, f64 reference, f32 factor, f32 cutoff, u32 least) {
  const Place here = place(first, count, each);
  const Values& w = table[here.sample];
  f64 by = reference;
  if (by == 0) {
    f32 most = NOTHING;
    for (u32 i = 0; i < w.parts; i++) most = fmaxf(most, partial[w.part + i]);
    by = most > 0 ? (f64)most : 1.0;
  }
  const f32 scale = (f32)(1 / by);
#pragma unroll 1
  for (u32 turn = 0; turn < TURNS; turn++) {
    const u64 i = ((u64)here.tile * TURNS + turn) * 256 + threadIdx.x;
    if (i >= w.count) return;
    const f32 value = logf(((const f32*)w.source)[i] * scale) * factor;
    ((f32*)w.target)[i] = least ? fmaxf(value, cutoff) : fminf(value, cutoff);
  }
}

struct Emphasis {
  u64 source, target, count;
  f64 part;
  i64 before;  // which value is that before the first; -1 for none
};

template <class T>
__device__ __forceinline__ void emphasised(const Emphasis& w, u32 tile) {
  const T* source = (const T*)w.source;
#pragma unroll 1
  for (u32 turn = 0; turn < TURNS; turn++) {
    const u64 i = ((u64)tile * TURNS + turn) * 256 + threadIdx.x;
    if (i >= w.count) return;
    const i64 before = i ? (i64)i - 1 : w.before;
    ((T*)w.target)[i] = before < 0 ? source[i] : source[i] - (T)w.part * source[before];
  }
}

#define EMPHASIS(name, T)                                                                                         \
  KERNEL void name(const Emphasis* __restrict__ table, const u32* __restrict__ first, u32 count, u32 each) {      \
    const Place here = place(first, count, each);                                                                 \
    emphasised<T>(table[here.sample], here.tile);                                                                 \
  }
EMPHASIS(emphasis_float32, f32)
EMPHASIS(emphasis_float64, f64)

struct Resampled {
  u64 source, target;
  i64 count, values;  // of the signal, and of all channels of the result
  f64 step;
  u32 channels;
};

enum { DISTANCES = 32, MOST_TAPS = 128 };

// Sums are made as the CPU makes them. The threads of a warp read weights of different distances: these lie in shared
// memory, an odd number of floats apart, and so in different banks.
KERNEL void resample(const Resampled* __restrict__ table, const u32* __restrict__ first, u32 count, u32 each,
                     const f32* __restrict__ weights, const f32* __restrict__ changes, u32 taps, u32 lobes) {
  __shared__ f32 tables[2][DISTANCES * (MOST_TAPS + 1)];
  const u32 apart = taps + 1;
  for (u32 i = threadIdx.x; i < DISTANCES * taps; i += 256) {
    const u32 to = i / taps * apart + i % taps;
    tables[0][to] = weights[i];
    tables[1][to] = changes[i];
  }
  __syncthreads();
  const Place here = place(first, count, each);
  const Resampled& w = table[here.sample];
#pragma unroll 1
  for (u32 turn = 0; turn < TURNS; turn++) {
    const u64 i = ((u64)here.tile * TURNS + turn) * 256 + threadIdx.x;
    if (i >= (u64)w.values) return;
    const u64 k = i / w.channels;
    const f64 at = (f64)k * w.step, whole = floor(at), distance = DISTANCES * (1 - (at - whole));
    const u32 row = min((u32)distance, (u32)DISTANCES - 1);
    const f32 part = (f32)(distance - row);
    const f32 *weight = tables[0] + row * apart, *change = tables[1] + row * apart;
    const f32* source = (const f32*)w.source + (i - k * w.channels);
    const i64 begin = (i64)whole + 1 - lobes;
    f32 sums[LANES] = {0};
    for (u32 j = 0; j < taps; j += LANES)
#pragma unroll
      for (u32 lane = 0; lane < LANES; lane++) {
        const i64 place = begin + j + lane;
        const f32 value = place >= 0 && place < w.count ? source[place * w.channels] : 0.0f;
        sums[lane] += value * (weight[j + lane] + part * change[j + lane]);
      }
#pragma unroll
    for (u32 half = LANES / 2; half; half /= 2)
#pragma unroll
      for (u32 lane = 0; lane < half; lane++) sums[lane] += sums[lane + half];
    ((f32*)w.target)[i] = sums[0];
  }
}

// Numbers of any type in another range, as floats.
KERNEL void ranged(const Values* __restrict__ table, const u32* __restrict__ first, u32 count, u32 each, f64 middle,
                   f64 factor, f64 centre, i32 type) {
  const Place here = place(first, count, each);
  const Values& w = table[here.sample];
#pragma unroll 1
  for (u32 turn = 0; turn < TURNS; turn++) {
    const u64 i = ((u64)here.tile * TURNS + turn) * 256 + threadIdx.x;
    if (i >= w.count) return;
    ((f32*)w.target)[i] = (f32)((load<f64>((const void*)(w.source + i * size_of(type)), type) - middle) * factor + centre);
  }
}

struct Silence {
  u64 source, sums, begin, length;
  i64 count;
};

// The first and the last of the windows whose sum of squares is large enough; a block for each signal.
KERNEL void loud(const Silence* __restrict__ table, const u32* __restrict__, u32, u32, f64 part, f64 reference, i64 window) {
  __shared__ f64 found[256];
  __shared__ i64 ends[256];
  const Silence& w = table[blockIdx.x];
  const f32* source = (const f32*)w.source;
  f64* sums = (f64*)w.sums;
  f64 before = 0;
  for (i64 start = 0; start < w.count; start += 256 * LANES) {
    const i64 from = start + threadIdx.x * LANES;
    f64 own = 0;
    for (i64 i = from; i < from + LANES && i < w.count; i++) own += (f64)source[i] * (f64)source[i];
    found[threadIdx.x] = own;
    __syncthreads();
    for (u32 step = 1; step < 256; step *= 2) {
      const f64 other = threadIdx.x >= step ? found[threadIdx.x - step] : 0;
      __syncthreads();
      found[threadIdx.x] += other;
      __syncthreads();
    }
    f64 sum = before + (threadIdx.x ? found[threadIdx.x - 1] : 0);
    for (i64 i = from; i < from + LANES && i < w.count; i++) {
      sum += (f64)source[i] * (f64)source[i];
      sums[i] = sum;
    }
    before += found[255];
    __syncthreads();
  }
  f64 most = NOTHING;
  for (i64 i = threadIdx.x; i < w.count; i += 256)
    most = fmax(most, i < window ? sums[i] : sums[i] - sums[i - window]);
  found[threadIdx.x] = most;
  __syncthreads();
  for (u32 half = 128; half; half /= 2) {
    if (threadIdx.x < half) found[threadIdx.x] = fmax(found[threadIdx.x], found[threadIdx.x + half]);
    __syncthreads();
  }
  const f64 least = part * (reference != 0 ? reference * (f64)window : found[0]);
  i64 low = w.count, high = -1;
  for (i64 i = threadIdx.x; i < w.count; i += 256)
    if ((i < window ? sums[i] : sums[i] - sums[i - window]) >= least) {
      low = min(low, i);
      high = i;
    }
  for (u32 end = 0; end < 2; end++) {
    ends[threadIdx.x] = end ? high : -low;
    __syncthreads();
    for (u32 half = 128; half; half /= 2) {
      if (threadIdx.x < half) ends[threadIdx.x] = max(ends[threadIdx.x], ends[threadIdx.x + half]);
      __syncthreads();
    }
    (end ? high : low) = end ? ends[0] : -ends[0];
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    const bool silent = low >= w.count;
    const i64 begin = silent || low < window ? 0 : low - window + 1;
    *(i32*)w.begin = (i32)begin;
    *(i32*)w.length = silent ? 0 : (i32)(high + 1 - begin);
  }
}
