// Random numbers of a pure function of key and counter: the same bits as on the CPU.
//
// Each number reads words of its own, 257 words from those of the one before, so a thread makes one Philox block (two
// where its words lie across the end of one) for each of four numbers; a block of threads makes 1024 of a sample.
// Everything is in single operations that are rounded as IEEE 754 says; `fma` stands where the CPU rounds once.

struct Sample {
  u64 high;    // upper half of its counter
  u64 target;  // where its numbers go
  u64 size;
  f64 a, b, c;  // what the distribution needs to know
};

static const u32 NUMBERS = 1024;

__device__ __forceinline__ void philox(u64 key, u64 low, u64 high, u32* words) {
  u32 x0 = (u32)low, x1 = (u32)(low >> 32), x2 = (u32)high, x3 = (u32)(high >> 32);
  u32 k0 = (u32)key, k1 = (u32)(key >> 32);
#pragma unroll
  for (int i = 0; i < 10; i++) {
    const u64 p0 = (u64)0xD2511F53u * x0, p1 = (u64)0xCD9E8D57u * x2;
    x0 = (u32)(p1 >> 32) ^ x1 ^ k0;
    x2 = (u32)(p0 >> 32) ^ x3 ^ k1;
    x1 = (u32)p1;
    x3 = (u32)p0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  words[0] = x0, words[1] = x1, words[2] = x2, words[3] = x3;
}

// The first words of number i of a sample.
template <int COUNT>
__device__ __forceinline__ void words_of(u64 key, u64 start, u64 high, u64 place, u32* found) {
  u64 low = start + (place >> 2);
  high += low < start;
  u32 block[4], at = (u32)(place & 3);
  philox(key, low, high, block);
#pragma unroll
  for (int i = 0; i < COUNT; i++) {
    if (at > 3) {
      low++;
      high += low == 0;
      philox(key, low, high, block);
      at = 0;
    }
    found[i] = at == 0 ? block[0] : at == 1 ? block[1] : at == 2 ? block[2] : block[3];
    at++;
  }
}

__device__ __forceinline__ u64 joined(u32 first, u32 second) { return (u64)second << 32 | first; }

__constant__ f64 LOG[11] = {0.6666666666666666, 0.4, 0.2857142857142857, 0.2222222222222222, 0.18181818181818182,
                            0.15384615384615385, 0.13333333333333333, 0.11764705882352941, 0.10526315789473684,
                            0.09523809523809523, 0.08695652173913043};
__constant__ f64 SINE[11] = {-0.16666666666666666, 0.008333333333333333, -0.0001984126984126984,
                             2.7557319223985893e-06, -2.505210838544172e-08, 1.6059043836821613e-10,
                             -7.647163731819816e-13, 2.8114572543455206e-15, -8.22063524662433e-18,
                             1.9572941063391263e-20, -3.868170170630684e-23};

template <int TERMS> __device__ __forceinline__ f64 polynomial(f64 z, const f64* terms) {
  f64 total = z * terms[TERMS - 1];
#pragma unroll
  for (int i = TERMS - 2; i > 0; i--) {
    total += terms[i];
    total *= z;
  }
  return total + terms[0];
}

template <int TERMS> __device__ __forceinline__ f64 logarithm(f64 x) {
  const u64 bits = (u64)__double_as_longlong(x);  // normal, and above 0
  i32 exponent = (i32)(bits >> 52) - 1022;
  const f64 mantissa = __longlong_as_double((i64)((bits & 0xFFFFFFFFFFFFFull) | 0x3FE0000000000000ull));
  const bool small = mantissa < 0.7071067811865476;
  const f64 f = mantissa * (small ? 2.0 : 1.0) - 1.0;
  const f64 e = (f64)(exponent - (small ? 1 : 0));
  const f64 s = f / (f + 2.0), z = s * s;
  const f64 rest = z * polynomial<TERMS>(z, LOG), square = f * f * 0.5;
  return e * 0.6931471803691238 + (f - (square - (s * (square + rest) + e * 1.9082149292705877e-10)));
}

template <int TERMS> __device__ __forceinline__ f64 cosine(f64 x) {
  const f64 y = x - 3.1415926534682512;
  const f64 r = (fabs(y) - 3.1415926534682512 / 2) + 1.2154201013012384e-10 * (y < 0 ? 0.5 : -1.5);
  const f64 z = r * r;
  return r + r * (z * polynomial<TERMS>(z, SINE));
}

struct Uniform32 {
  typedef f32 Real;
  static const int WORDS = 1;
  static __device__ __forceinline__ f32 of(const u32* w, const Sample& s) {
    return fminf(__fmaf_rn((f32)w[0], (f32)s.b, (f32)s.a), (f32)s.c);
  }
};
struct Uniform64 {
  typedef f64 Real;
  static const int WORDS = 2;
  static __device__ __forceinline__ f64 of(const u32* w, const Sample& s) {
    return fmin(__fma_rn((f64)joined(w[0], w[1]), s.b, s.a), s.c);
  }
};
struct Normal32 {
  typedef f32 Real;
  static const int WORDS = 2;
  static __device__ __forceinline__ f32 of(const u32* w, const Sample& s) {
    const f32 unit = 2.3283064365386963e-10f, v = (f32)w[1] * unit;
    f32 u = (f32)w[0] * unit, turn = 6.2831853071795864769f * v;
    if (u == 0.0f) turn = 0.0f, u = fmaxf(v, unit);  // the logarithm of 0: the other number, or the least
    const f32 radius = sqrtf(-2.0f * (f32)logarithm<7>((f64)u));
    return __fmaf_rn(radius * (f32)cosine<7>((f64)turn), (f32)s.b, (f32)s.a);
  }
};
struct Normal64 {
  typedef f64 Real;
  static const int WORDS = 4;
  static __device__ __forceinline__ f64 of(const u32* w, const Sample& s) {
    const f64 unit = 5.421010862427522e-20, v = (f64)joined(w[2], w[3]) * unit;
    f64 u = (f64)joined(w[0], w[1]) * unit, turn = 6.283185307179586 * v;
    if (u == 0.0) turn = 0.0, u = fmax(v, unit);
    const f64 radius = sqrt(-2.0 * logarithm<11>(u));
    return __fma_rn(radius * cosine<11>(turn), s.b, s.a);
  }
};
struct Coin {
  typedef f32 Real;
  static const int WORDS = 1;
  static __device__ __forceinline__ f32 of(const u32* w, const Sample& s) { return (f64)w[0] < s.a ? 1.0f : 0.0f; }
};

template <class Distribution>
__device__ __forceinline__ void draw(const Sample* __restrict__ table, const u32* __restrict__ first, u32 count,
                                     u32 each, u64 key, u64 low, u32 phase, u32 stride, i32 type) {
  const Place here = place(first, count, each);
  const Sample& s = table[here.sample];
  const u64 start = (u64)here.tile * NUMBERS;
  const i32 size = size_of(type);
#pragma unroll 1
  for (u64 i = start + threadIdx.x; i < start + NUMBERS && i < s.size; i += 256) {
    u32 words[Distribution::WORDS];
    words_of<Distribution::WORDS>(key, low, s.high, i * stride + phase, words);
    const typename Distribution::Real v = Distribution::of(words, s);
    void* to = (u8*)s.target + i * size;
    if (type == F32) *(f32*)to = (f32)v;
    else store(to, type, v);
  }
}

#define DRAW(name, Distribution)                                                                                     \
  KERNEL void name(const Sample* __restrict__ table, const u32* __restrict__ first, u32 count, u32 each, u64 key,    \
                   u64 low, u32 phase, u32 stride, i32 type) {                                                       \
    draw<Distribution>(table, first, count, each, key, low, phase, stride, type);                                    \
  }

DRAW(uniform_1, Uniform32)
DRAW(uniform_2, Uniform64)
DRAW(normal_2, Normal32)
DRAW(normal_4, Normal64)
DRAW(coin, Coin)

// One of `c` elements of a table, from number `a` on; each is in eight bytes.
KERNEL void pick(const Sample* __restrict__ table, const u32* __restrict__ first, u32 count, u32 each,
                 const u64* __restrict__ values, u64 key, u64 low, u32 phase, u32 stride, i32 type) {
  const Place here = place(first, count, each);
  const Sample& s = table[here.sample];
  const u64 start = (u64)here.tile * NUMBERS;
  const i32 size = size_of(type);
#pragma unroll 1
  for (u64 i = start + threadIdx.x; i < start + NUMBERS && i < s.size; i += 256) {
    u32 word;
    words_of<1>(key, low, s.high, i * stride + phase, &word);
    const u64 found = values[(u64)s.a + ((u64)word * (u64)s.c >> 32)];
    u8* to = (u8*)s.target + i * size;
    if (size == 1) *to = (u8)found;
    else if (size == 2) *(u16*)to = (u16)found;
    else if (size == 4) *(u32*)to = (u32)found;
    else *(u64*)to = found;
  }
}
