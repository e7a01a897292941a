/* Random numbers of a whole batch, as dynamic.random makes them: the words of Philox4x32-10 (_philox.py), the numbers
 * (_distributions.py), the noise that is made of them (dynamic/noise.py), and random windows (_windows.py,
 * _box_windows.py). Element i of a sample reads the words from phase + stride * i on of the stream of its sample.
 */
#include "core.h"

#include <math.h>
#include <string.h>

typedef uint32_t u32;
typedef uint64_t u64;

enum { LANES = 16, TILE = 4 * LANES, PIECE = 128 * TILE, FEW = 2 * LANES };

#if defined(__AVX2__)
#include <immintrin.h>
enum { WIDE = 4 };
#define PRODUCT(x, y) ((lanes)_mm256_mul_epu32((__m256i)(x), (__m256i)(y))) /* of the lower halves of 64 bits */
#elif defined(__SSE2__)
#include <emmintrin.h>
enum { WIDE = 2 };
#define PRODUCT(x, y) ((lanes)_mm_mul_epu32((__m128i)(x), (__m128i)(y)))
#else
enum { WIDE = 2 };
#define PRODUCT(x, y) (((x) & 0xFFFFFFFF) * (y))
#endif
typedef u64 lanes __attribute__((vector_size(8 * WIDE)));

/* Blocks of words, one for each counter. A word is the lower half of its 64 bits: the upper one is left as it is. */
static void philox(u64 key, const u64 low[LANES], const u64 high[LANES], u64 words[4][LANES])
{
    for (int i = 0; i < LANES; i += WIDE) {
        lanes x0, x2, k0 = (lanes){0} + (u32)key, k1 = (lanes){0} + (key >> 32);
        memcpy(&x0, low + i, sizeof x0);
        memcpy(&x2, high + i, sizeof x2);
        lanes x1 = x0 >> 32, x3 = x2 >> 32;
#pragma GCC unroll 10
        for (int round = 0; round < 10; round++) {
            lanes p0 = PRODUCT(x0, (lanes){0} + 0xD2511F53), p1 = PRODUCT(x2, (lanes){0} + 0xCD9E8D57);
            x0 = p1 >> 32 ^ x1 ^ k0;
            x2 = p0 >> 32 ^ x3 ^ k1;
            x1 = p1;
            x3 = p0;
            k0 += 0x9E3779B9;
            k1 += 0xBB67AE85;
        }
        memcpy(words[0] + i, &x0, sizeof x0);
        memcpy(words[1] + i, &x1, sizeof x1);
        memcpy(words[2] + i, &x2, sizeof x2);
        memcpy(words[3] + i, &x3, sizeof x3);
    }
}

/* Where the words of a call lie: `_philox.Draw`. */
typedef struct {
    u64 key, low;
    const u64 *high; /* the upper half of each sample's counter */
    u64 phase;
} draw;

/* The blocks of elements first + 4 * j of a sample, which all begin at the same word of theirs, and are `ahead`. */
static void blocks(const draw *from, u64 stride, int64_t sample, u64 first, u64 ahead, u64 words[4][LANES])
{
    u64 low[LANES], high[LANES], begin = ((from->phase + stride * first) >> 2) + ahead;
    for (int j = 0; j < LANES; j++) {
        low[j] = from->low + begin + stride * j;
        high[j] = from->high[sample] + (low[j] < from->low);
    }
    philox(from->key, low, high, words);
}

/* -- numbers ------------------------------------------------------------------------------------------------------- */

/* Some numbers of a call: their words, and what the distribution knows of the sample of each. */
typedef struct {
    int64_t at;     /* how many numbers come before */
    int64_t sample; /* of all of them, unless they have words */
    int count;
    u32 words[4][TILE];
    double own[3][TILE];
} part;

typedef struct call {
    draw from;
    const int64_t *ends; /* where the numbers of each sample end; NULL where all have `size` */
    int64_t size, total;
    void (*make)(const struct call *, const part *);
    int words;                 /* of a number; 0 where `make` makes them */
    int kind;                  /* the type of the results, or the bytes of one */
    int64_t each;              /* how many samples have parameters of their own: all, or only the first */
    const double *parameters;  /* three rows of them */
    const void *values;        /* results to choose from */
    int64_t channels;          /* of a pixel */
    const uint8_t *image;      /* to which noise is added */
    uint8_t *out;
} call;

enum { STRIDE = 257 };
enum { I8, U8, I16, U16, F32, I32, U32, F64 };

static int64_t end_of(const call *c, int64_t sample) { return c->ends ? c->ends[sample] : (sample + 1) * c->size; }

static int64_t begin_of(const call *c, int64_t sample) { return sample ? end_of(c, sample - 1) : 0; }

static double parameter(const call *c, int k, int64_t sample) { return c->parameters[k * c->each + sample % c->each]; }

/* The words of a run of elements of one sample, in their order. */
static void run_of(const call *c, part *p, u64 first)
{
    u64 made[4][4][LANES], block[4][LANES];
    for (int r = 0; r < 4; r++) {
        int at = (int)((c->from.phase + STRIDE * (first + r)) & 3);
        for (int k = 0, have = -1; k < c->words; k++) {
            if ((at + k) / 4 != have)
                blocks(&c->from, STRIDE, p->sample, first + r, have = (at + k) / 4, block);
            memcpy(made[k][r], block[(at + k) % 4], sizeof block[0]);
        }
    }
    for (int k = 0; k < c->words; k++)
        for (int j = 0; j < LANES; j++)
            for (int r = 0; r < 4; r++)
                p->words[k][4 * j + r] = (u32)made[k][r][j];
}

/* The words and parameters of elements of several small samples. */
static void each_of(const call *c, part *p)
{
    u64 low[LANES], high[LANES], block[2][4][LANES];
    int at[LANES];
    for (int begin = 0; begin < p->count; begin += LANES) {
        int some = p->count - begin < LANES ? p->count - begin : LANES;
        for (int j = 0; j < LANES; j++) {
            int64_t number = p->at + begin + (j < some ? j : 0);
            while (j < some && end_of(c, p->sample) <= number)
                p->sample++;
            u64 first = (u64)(number - begin_of(c, p->sample)) * STRIDE + c->from.phase;
            at[j] = (int)(first & 3);
            low[j] = c->from.low + (first >> 2);
            high[j] = c->from.high[p->sample] + (low[j] < c->from.low);
            for (int k = 0; k < 3 && j < some; k++)
                p->own[k][begin + j] = parameter(c, k, p->sample);
        }
        philox(c->from.key, low, high, block[0]);
        if (c->words > 1) {
            for (int j = 0; j < LANES; j++)
                high[j] += ++low[j] == 0;
            philox(c->from.key, low, high, block[1]);
        }
        for (int k = 0; k < c->words; k++)
            for (int j = 0; j < some; j++)
                p->words[k][begin + j] = (u32)block[(at[j] + k) / 4][(at[j] + k) % 4][j];
    }
}

/* A piece of all numbers. */
static void piece(void *context, int64_t i)
{
    const call *c = context;
    int64_t stop = (i + 1) * PIECE < c->total ? (i + 1) * PIECE : c->total, filled = -1;
    part p = {.at = i * PIECE, .sample = c->ends ? 0 : i * PIECE / c->size};
    for (; p.at < stop; p.at += p.count) {
        while (end_of(c, p.sample) <= p.at)
            p.sample++;
        int64_t left = (end_of(c, p.sample) < stop ? end_of(c, p.sample) : stop) - p.at;
        if (left < FEW && c->words) {
            p.count = (int)(stop - p.at < TILE ? stop - p.at : TILE);
            each_of(c, &p);
            filled = -1;
        } else {
            p.count = (int)(left < TILE ? left : TILE);
            run_of(c, &p, (u64)(p.at - begin_of(c, p.sample)));
            for (int k = 0; k < 3 && filled != p.sample; k++)
                for (int j = 0; j < TILE; j++)
                    p.own[k][j] = parameter(c, k, p.sample);
            filled = p.sample;
        }
        c->make(c, &p);
    }
}

/* `convert`: rounded half away from zero, and saturated. */
static inline int32_t narrow(float v, float least, float most)
{
    v += copysignf(0x1.fffffep-2f, v);
    v = v > least ? v : least;
    return (int32_t)(v < most ? v : most);
}

static inline int64_t within(double v, double least, double most)
{
    v += copysign(0x1.fffffffffffffp-2, v);
    v = v > least ? v : least;
    return (int64_t)(v < most ? v : most);
}

/* Numbers in the type of the result, added to the elements of an image if there is one (`noise._added`). */
#define STORE(KIND, T, REAL, CONVERTED)                                                                               \
    case KIND: {                                                                                                      \
        T *restrict to = (T *)c->out + p->at;                                                                         \
        const T *restrict old = (const T *)c->image + p->at;                                                          \
        for (int j = 0; j < p->count && !c->image; j++) {                                                             \
            REAL v = from[j];                                                                                         \
            to[j] = (T)(CONVERTED);                                                                                   \
        }                                                                                                             \
        for (int j = 0; j < p->count && c->image; j++) {                                                              \
            REAL v = (REAL)old[j] + from[j];                                                                          \
            to[j] = (T)(CONVERTED);                                                                                   \
        }                                                                                                             \
        break;                                                                                                        \
    }

static void store32(const call *c, const part *p, const float *from)
{
    switch (c->kind) {
        STORE(I8, int8_t, float, narrow(v, INT8_MIN, INT8_MAX))
        STORE(U8, uint8_t, float, narrow(v, 0, UINT8_MAX))
        STORE(I16, int16_t, float, narrow(v, INT16_MIN, INT16_MAX))
        STORE(U16, uint16_t, float, narrow(v, 0, UINT16_MAX))
        STORE(F32, float, float, v)
    }
}

static void store64(const call *c, const part *p, const double *from)
{
    switch (c->kind) {
        STORE(I32, int32_t, double, within(v, INT32_MIN, INT32_MAX))
        STORE(U32, uint32_t, double, within(v, 0, UINT32_MAX))
        STORE(F64, double, double, v)
    }
}

static inline u64 bits_of(double v)
{
    u64 bits;
    memcpy(&bits, &v, 8);
    return bits;
}

static inline double of_bits(u64 bits)
{
    double v;
    memcpy(&v, &bits, 8);
    return v;
}

static inline double joined(u32 first, u32 second) { return (double)second * 0x1p32 + (double)first; }

/* x * b + c for float32 numbers, rounded once: `_fused_float32`. */
static void fused(const float *x, const double *b, const double *c, float *found)
{
    u64 tied = 0;
    for (int j = 0; j < TILE; j++) {
        double total = (double)x[j] * b[j] + c[j];
        tied |= (bits_of(total) & 0x1FFFFFFF) == 0x10000000;
        found[j] = (float)total;
    }
    for (int j = 0; j < TILE && tied; j++) {
        double product = (double)x[j] * b[j], total = product + c[j], part = total - product;
        double rest = (product - (total - part)) + (c[j] - part); /* which float64 has rounded off */
        if (rest != 0 && (bits_of(total) & 0x1FFFFFFF) == 0x10000000)
            found[j] = (float)nextafter(total, copysign(INFINITY, rest));
    }
}

static void uniform32(const call *c, const part *p)
{
    float found[TILE];
    for (int j = 0; j < TILE; j++)
        found[j] = (float)p->words[0][j];
    fused(found, p->own[1], p->own[0], found);
    for (int j = 0; j < TILE; j++)
        found[j] = found[j] < (float)p->own[2][j] ? found[j] : (float)p->own[2][j];
    store32(c, p, found);
}

static void uniform64(const call *c, const part *p)
{
    double found[TILE];
    for (int j = 0; j < TILE; j++) {
        double v = fma(joined(p->words[0][j], p->words[1][j]), p->own[1][j], p->own[0][j]);
        found[j] = v < p->own[2][j] ? v : p->own[2][j];
    }
    store64(c, p, found);
}

#define L(k) (2.0 / (2 * (k) + 3))
static const double LOG[11] = {L(0), L(1), L(2), L(3), L(4), L(5), L(6), L(7), L(8), L(9), L(10)};
static const double SINE[11] = {-0.16666666666666666,    0.008333333333333333,    -0.0001984126984126984,
                                2.7557319223985893e-06,  -2.505210838544172e-08,  1.6059043836821613e-10,
                                -7.647163731819816e-13,  2.8114572543455206e-15,  -8.22063524662433e-18,
                                1.9572941063391263e-20,  -3.868170170630684e-23};

static inline double polynomial(double z, const double *coefficients, int terms)
{
    double total = z * coefficients[terms - 1];
    for (int i = terms - 2; i > 0; i--)
        total = (total + coefficients[i]) * z;
    return total + coefficients[0];
}

static inline double logarithm(double x, int terms) /* of a number that is normal and above 0 */
{
    u64 exponent = (bits_of(x) - 0x3FE6A09E667F3BCD + (1024ull << 52)) >> 52; /* and 1024 */
    double e = of_bits(exponent | 0x4330000000000000) - (0x1p52 + 1024);
    double f = of_bits(bits_of(x) - ((exponent - 1024) << 52)) - 1.0;
    double s = f / (f + 2.0), z = s * s;
    double square = f * f * 0.5;
    double small = (polynomial(z, LOG, terms) * z + square) * s + e * 1.9082149292705877e-10;
    return e * 0.6931471803691238 + (f - (square - small));
}

static inline double cosine(double x, int terms) /* of a number in [0, 2 pi] */
{
    double y = x - 3.1415926534682512, r = fabs(y) - 3.1415926534682512 / 2;
    r += y < 0 ? 1.2154201013012384e-10 * 0.5 : 1.2154201013012384e-10 * -1.5;
    double z = r * r;
    return r + polynomial(z, SINE, terms) * z * r;
}

static void normal32(const call *c, const part *p)
{
    float found[TILE];
    for (int j = 0; j < TILE; j++) {
        float u = (float)p->words[0][j] * 0x1p-32f, v = (float)p->words[1][j] * 0x1p-32f, turn = 6.2831853071795864769f * v;
        float other = v > 0x1p-32f ? v : 0x1p-32f; /* the logarithm of 0: of the other number, or of the least */
        turn = u == 0 ? 0 : turn;
        u = u == 0 ? other : u;
        found[j] = sqrtf((float)logarithm(u, 7) * -2.0f) * (float)cosine(turn, 7);
    }
    fused(found, p->own[1], p->own[0], found);
    store32(c, p, found);
}

static void normal64(const call *c, const part *p)
{
    double found[TILE];
    for (int j = 0; j < TILE; j++) {
        double u = joined(p->words[0][j], p->words[1][j]) * 0x1p-64, v = joined(p->words[2][j], p->words[3][j]) * 0x1p-64;
        double turn = u == 0 ? 0 : 6.283185307179586 * v, other = v > 0x1p-64 ? v : 0x1p-64;
        u = u == 0 ? other : u;
        found[j] = fma(sqrt(logarithm(u, 11) * -2.0) * cosine(turn, 11), p->own[1][j], p->own[0][j]);
    }
    store64(c, p, found);
}

/* Whether words are below a threshold, in elements of so many bytes. */
static void coin_flip(const call *c, const part *p)
{
#define FLIP(T)                                                                                                       \
    for (int j = 0; j < p->count; j++)                                                                                   \
        ((T *)c->out)[p->at + j] = (double)p->words[0][j] < p->own[0][j] ? *(const T *)c->values : 0;
    switch (c->kind) {
    case 1: FLIP(uint8_t) break;
    case 2: FLIP(uint16_t) break;
    case 4: FLIP(u32) break;
    case 8: FLIP(u64)
    }
}

/* Pixels of an image, of which some become one of two values, pepper and salt: of sample `own[2]`. */
static void strewn(const call *c, const part *p)
{
    size_t bytes = (size_t)c->kind, pixel = bytes * (size_t)c->channels;
    uint8_t *to = c->out + (size_t)p->at * pixel;
    memcpy(to, c->image + (size_t)p->at * pixel, (size_t)p->count * pixel);
    for (int j = 0; j < p->count; j++, to += pixel) {
        float v = (float)p->words[0][j] * 0x1p-32f;
        const uint8_t *value = c->values;
        value += (2 * (size_t)p->own[2][j] + (v < (float)p->own[1][j])) * bytes;
        for (size_t k = 0; k < pixel && v < (float)p->own[0][j]; k += bytes)
            memcpy(to + k, value, bytes);
    }
}

/* Poisson numbers of means below 12 (`_rejection.poisson`) for bytes. `values` has the limit of the product for each
 * byte of a sample, or of all; a byte whose limit is above 1 stays. */
static void shot(const call *c, const part *p)
{
    const double *limits = (const double *)c->values + 256 * (p->sample % c->each);
    u64 first = (u64)(p->at - begin_of(c, p->sample));
    for (int r = 0; r < 4; r++) {
        u64 block[4][LANES], word = (c->from.phase + STRIDE * (first + r)) & 3, have = ~0ull, more = 0;
        double limit[LANES], product[LANES], found[LANES] = {0}, pair[2][LANES];
        for (int j = 0; j < LANES; j++) {
            limit[j] = 4 * j + r < p->count ? limits[c->image[p->at + 4 * j + r]] : 2;
            product[j] = 1;
            more |= limit[j] < 1;
        }
        while (more) {
            for (int half = 0; half < 2; half++, word++) {
                if (word / 4 != have)
                    blocks(&c->from, STRIDE, p->sample, first + r, have = word / 4, block);
                for (int j = 0; j < LANES; j++)
                    pair[half][j] = (double)(u32)block[word % 4][j];
            }
            more = 0;
            for (int j = 0; j < LANES; j++) {
                double unit = (pair[1][j] * 0x1p32 + pair[0][j]) * 0x1p-64;
                product[j] *= unit < 1 - 0x1p-53 ? unit : 1 - 0x1p-53;
                found[j] += product[j] > limit[j];
                more |= product[j] > limit[j];
            }
        }
        for (int j = 0; j < LANES && 4 * j + r < p->count; j++)
            c->out[p->at + 4 * j + r] = limit[j] > 1 ? c->image[p->at + 4 * j + r]
                                                  : (uint8_t)narrow((float)found[j] * (float)p->own[0][0], 0, UINT8_MAX);
    }
}

/* `Call.fill` for `uniform`, `normal`, `coin_flip` and the noises. */
EXPORT void core_random(int which, u64 key, u64 low, addresses high, int phase, const int64_t *ends, int64_t size,
                        int64_t total, const double *parameters, int64_t each, int kind, const void *values,
                        int64_t channels, const void *image, void *out, int threads)
{
    static void (*const MAKERS[])(const call *, const part *) = {
        uniform32, uniform64, normal32, normal64, coin_flip, strewn, shot};
    static const int WORDS[] = {1, 2, 2, 4, 1, 1, 0};
    call made = {{key, low, high, (u64)phase}, ends, size, total, MAKERS[which], WORDS[which], kind, each, parameters,
                 values, channels, image, out};
    core_share(piece, &made, (total + PIECE - 1) / PIECE, threads);
}

/* -- windows ------------------------------------------------------------------------------------------------------- */

/* The words of a sample, one after the other. */
typedef struct {
    const draw *from;
    int64_t sample;
    u64 place, have; /* the next word; which words are in `block`, and 1 */
    u64 block[4][LANES];
} stream;

static u32 next(stream *s)
{
    u64 at = s->from->phase + s->place++;
    if (s->have != at / TILE + 1) {
        blocks(s->from, 1, s->sample, 0, at / TILE * LANES, s->block);
        s->have = at / TILE + 1;
    }
    return (u32)s->block[at % 4][at % TILE / 4];
}

static int64_t below(stream *s, u64 n) /* `_distributions.below`, of n up to 2**32 */
{
    for (;;) {
        u64 product = next(s) * n;
        if ((u32)product >= (1ull << 32) % n)
            return (int64_t)(product >> 32);
    }
}

static double most(double a, double b) { return a > b ? a : b; }
static double least(double a, double b) { return a < b ? a : b; }

typedef struct {
    draw from;
    const int64_t *images;
    double area[2], ratio[2], logs[2];
    int64_t attempts;
    int32_t *found;
} windows;

/* The corner and the shape of a window of an image: `_windows._window`. */
static void window(void *context, int64_t i)
{
    const windows *c = context;
    stream s = {.from = &c->from, .sample = i};
    double height = (double)c->images[2 * i], width = (double)c->images[2 * i + 1], h = height, w = width;
    double wide = most(1, trunc(height * c->ratio[1])), tall = most(1, trunc(width / c->ratio[0]));
    double pixels = c->area[0] * height * width;
    if (height * wide < pixels)
        w = wide;
    else if (tall * width < pixels)
        h = tall;
    else {
        int64_t left = c->attempts;
        for (; left; left--) {
            double share = c->area[0] + (c->area[1] - c->area[0]) * next(&s) * 0x1p-32;
            double wanted = exp(c->logs[0] + (c->logs[1] - c->logs[0]) * next(&s) * 0x1p-32);
            pixels = share * height * width;
            w = most(1, trunc(sqrt(pixels * wanted) + 0.5)), h = most(1, trunc(sqrt(pixels / wanted) + 0.5));
            if (w <= width && h <= height && c->ratio[0] <= w / h && w / h <= c->ratio[1])
                break;
        }
        if (!left) { /* the largest one of an allowed ratio, made smaller if it has too much area */
            h = width / height < c->ratio[0] && width / height <= c->ratio[1] ? tall : height;
            w = width / height > c->ratio[1] ? wide : width;
            double scale = sqrt(least(1, c->area[1] * height * width / (h * w)));
            h = most(1, trunc(h * scale)), w = most(1, trunc(w * scale));
        }
    }
    h = least(h, height), w = least(w, width);
    int32_t *found = c->found + 4 * i;
    found[0] = (int32_t)below(&s, (u64)(height - h) + 1), found[1] = (int32_t)below(&s, (u64)(width - w) + 1);
    found[2] = (int32_t)h, found[3] = (int32_t)w;
}

/* Windows of images: `_windows.drawn`. `rules` has the ranges of the area, of the ratio, and of its logarithm. */
EXPORT void core_windows(u64 key, u64 low, addresses high, int phase, int64_t n, const int64_t *images,
                         const double *rules, int64_t attempts, int32_t *found)
{
    windows c = {{key, low, high, (u64)phase}, images, {rules[0], rules[1]}, {rules[2], rules[3]},
                 {rules[4], rules[5]}, attempts, found};
    core_share(window, &c, n, 1);
}
