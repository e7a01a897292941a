/* Random numbers of a whole batch, as dynamic.random makes them: words of Philox4x32-10 (_philox.py), numbers
 * (_distributions.py), noise (dynamic/noise.py), and windows (_windows.py, _box_windows.py). Element i of a sample reads
 * the words from phase + 257 * i on of the stream of its sample.
 */
#include "core.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

typedef uint32_t u32;
typedef uint64_t u64;

enum { LANES = 16, TILE = 4 * LANES, PIECE = 128 * TILE, STRIDE = 257 };

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
typedef double reals __attribute__((vector_size(8 * WIDE)));

/* Where the words of n samples lie: `_philox.Draw`. */
typedef struct {
    u64 key, low;
    const u64 *high; /* the upper half of each sample's counter */
    u64 phase;
    int64_t n;
} draw;

/* The blocks of some counters. A word is the lower half of its 64 bits: the upper one is left as it is. */
static void philox(u64 key, const u64 low[LANES], const u64 high[LANES], u64 words[4][LANES])
{
    for (int i = 0; i < LANES; i += WIDE) {
        lanes x[4], k0 = (lanes){0} + (u32)key, k1 = (lanes){0} + (key >> 32);
        memcpy(&x[0], low + i, sizeof x[0]);
        memcpy(&x[2], high + i, sizeof x[2]);
        x[1] = x[0] >> 32, x[3] = x[2] >> 32;
#pragma GCC unroll 10
        for (int round = 0; round < 10; round++) {
            lanes p0 = PRODUCT(x[0], (lanes){0} + 0xD2511F53), p1 = PRODUCT(x[2], (lanes){0} + 0xCD9E8D57);
            x[0] = p1 >> 32 ^ x[1] ^ k0, x[1] = p1;
            x[2] = p0 >> 32 ^ x[3] ^ k1, x[3] = p0;
            k0 += 0x9E3779B9, k1 += 0xBB67AE85;
        }
        for (int w = 0; w < 4; w++)
            memcpy(words[w] + i, &x[w], sizeof x[w]);
    }
}

/* `_philox.blocks`: four rows of n words. */
EXPORT void core_blocks(u64 key, const u64 *low, const u64 *high, int64_t n, u32 *words)
{
    for (int64_t i = 0, some; i < n; i += some) {
        u64 lower[LANES] = {0}, upper[LANES] = {0}, made[4][LANES];
        some = n - i < LANES ? n - i : LANES;
        memcpy(lower, low + i, (size_t)some * sizeof(u64));
        memcpy(upper, high + i, (size_t)some * sizeof(u64));
        philox(key, lower, upper, made);
        for (int w = 0; w < 4; w++)
            for (int64_t j = 0; j < some; j++)
                words[w * n + i + j] = (u32)made[w][j];
    }
}

/* The blocks of elements first, first + 4, ... of a sample, which all begin at the same word of theirs, or those that are
 * `ahead` of these. Without a stride: of that element of the sample, of the next sample, and so on. */
static void blocks(const draw *from, int64_t sample, u64 stride, u64 first, u64 ahead, u64 words[4][LANES])
{
    u64 begin = ((from->phase + STRIDE * first) >> 2) + ahead, low[LANES], high[LANES];
    for (int j = 0; j < LANES; j++) {
        low[j] = from->low + begin + stride * (u64)j;
        high[j] = from->high[stride || sample + j >= from->n ? sample : sample + j] + (low[j] < from->low);
    }
    philox(from->key, low, high, words);
}

/* -- numbers ------------------------------------------------------------------------------------------------------- */

/* Some numbers of a call: how many come before, their sample, how many they are, their words and parameters. */
typedef struct {
    int64_t at, sample;
    int count;
    u32 words[4][TILE];
    double own[3][TILE];
} part;

typedef struct {
    draw from;
    const int64_t *ends;      /* where the numbers of each sample end; NULL where each has one */
    int64_t total;
    const double *parameters; /* three rows of them, in each `each`: of all samples, or one for all */
    int64_t each;
    const void *values;   /* results to choose from */
    const uint8_t *image; /* to which noise is added */
    uint8_t *out;
    int64_t channels;    /* of a pixel */
    int32_t kind, which; /* the type of results, or the bytes of one; the distribution */
} call;

static const int WORDS[] = {1, 2, 2, 4, 1, 1, 0}; /* of a number; none where they are made one after the other */

static int64_t begin_of(const call *c, int64_t sample) { return sample && c->ends ? c->ends[sample - 1] : 0; }

/* The words of elements that follow each other, or of the first elements of samples that do. */
static void words_of(const call *c, part *p)
{
    u64 first = (u64)(p->at - begin_of(c, p->sample)), made[4][4][LANES], block[4][LANES], count = (u64)WORDS[c->which];
    for (int r = 0; r < 4; r++) {
        u64 element = c->ends ? first + (u64)r : 0, at = (c->from.phase + element) & 3;
        int64_t sample = c->ends || p->sample + r * LANES >= c->from.n ? p->sample : p->sample + r * LANES;
        for (u64 k = at, have = 9; k < at + count; k++) {
            if (k / 4 != have)
                blocks(&c->from, sample, c->ends ? STRIDE : 0, element, have = k / 4, block);
            memcpy(made[k - at][r], block[k % 4], sizeof block[0]);
        }
    }
    for (u64 k = 0; k < count; k++)
        for (int j = 0; j < LANES; j++)
            for (int r = 0; r < 4; r++)
                p->words[k][c->ends ? 4 * j + r : LANES * r + j] = (u32)made[k][r][j];
}

enum { I8, U8, I16, U16, F32, I32, U32, F64 };

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
#define STORE(KIND, T, CONVERTED)                                                                                     \
    case KIND:                                                                                                        \
        for (int j = 0; c->image && j < p->count; j++)                                                                \
            v[j] += ((const T *)c->image)[p->at + j];                                                                 \
        for (int j = 0; j < p->count; j++)                                                                            \
            ((T *)c->out)[p->at + j] = (T)(CONVERTED);                                                                \
        break;

static void store32(const call *c, const part *p, float v[TILE])
{
    switch (c->kind) {
        STORE(I8, int8_t, narrow(v[j], INT8_MIN, INT8_MAX))
        STORE(U8, uint8_t, narrow(v[j], 0, UINT8_MAX))
        STORE(I16, int16_t, narrow(v[j], INT16_MIN, INT16_MAX))
        STORE(U16, uint16_t, narrow(v[j], 0, UINT16_MAX))
        STORE(I32, int32_t, (int32_t)v[j]) /* of coins */
        STORE(F32, float, v[j])
    }
}

static void store64(const call *c, const part *p, double v[TILE])
{
    switch (c->kind) {
        STORE(I32, int32_t, within(v[j], INT32_MIN, INT32_MAX))
        STORE(U32, uint32_t, within(v[j], 0, UINT32_MAX))
        STORE(F64, double, v[j])
    }
}

typedef union {
    double v;
    u64 bits;
} f64;

/* x * b + c for float32 numbers, rounded once: `_fused_float32`. */
static void fused(float x[TILE], const double *b, const double *c)
{
    float found[TILE];
    u64 tied = 0;
    for (int j = 0; j < TILE; j++) {
        f64 total = {(double)x[j] * b[j] + c[j]};
        tied |= (total.bits & 0x1FFFFFFF) == 0x10000000;
        found[j] = (float)total.v;
    }
    for (int j = 0; j < TILE && tied; j++) {
        double product = (double)x[j] * b[j], total = product + c[j], part = total - product;
        double rest = (product - (total - part)) + (c[j] - part); /* which float64 has rounded off */
        if (rest != 0 && ((f64){total}.bits & 0x1FFFFFFF) == 0x10000000)
            found[j] = (float)nextafter(total, copysign(INFINITY, rest));
    }
    memcpy(x, found, sizeof found);
}

static void uniform32(const call *c, const part *p)
{
    float found[TILE];
    for (int j = 0; j < TILE; j++)
        found[j] = (float)p->words[0][j];
    fused(found, p->own[1], p->own[0]);
    for (int j = 0; j < TILE; j++)
        found[j] = found[j] < (float)p->own[2][j] ? found[j] : (float)p->own[2][j];
    store32(c, p, found);
}

static inline double joined(u32 first, u32 second) { return (double)second * 0x1p32 + (double)first; }

static void uniform64(const call *c, const part *p)
{
    double found[TILE];
    for (int j = 0; j < TILE; j++) {
        double v = fma(joined(p->words[0][j], p->words[1][j]), p->own[1][j], p->own[0][j]);
        found[j] = v < p->own[2][j] ? v : p->own[2][j];
    }
    store64(c, p, found);
}

static const double LOG[11] = {2.0 / 3, 2.0 / 5, 2.0 / 7, 2.0 / 9, 2.0 / 11, 2.0 / 13, 2.0 / 15, 2.0 / 17, 2.0 / 19,
                               2.0 / 21, 2.0 / 23};
static const double SINE[11] = {-0.16666666666666666,    0.008333333333333333,    -0.0001984126984126984,
                                2.7557319223985893e-06,  -2.505210838544172e-08,  1.6059043836821613e-10,
                                -7.647163731819816e-13,  2.8114572543455206e-15,  -8.22063524662433e-18,
                                1.9572941063391263e-20,  -3.868170170630684e-23};

static inline double polynomial(double z, const double *k, bool wide) /* of 7 terms, or 11 */
{
#define TERM(i) total = (total + k[i]) * z;
    double total = z * k[wide ? 10 : 6];
    if (wide) {
        TERM(9) TERM(8) TERM(7) TERM(6)
    }
    TERM(5) TERM(4) TERM(3) TERM(2) TERM(1)
    return total + k[0];
}

static inline double logarithm(double x, bool wide) /* of a number that is normal and above 0 */
{
    f64 f = {x}, e = {.bits = (f.bits - 0x3FE6A09E667F3BCD + (1024ull << 52)) >> 52}; /* the exponent, and 1024 */
    f.bits -= (e.bits - 1024) << 52;
    f.v -= 1.0;
    e.bits |= 0x4330000000000000; /* 2**52 more */
    e.v -= 0x1p52 + 1024;
    double s = f.v / (f.v + 2.0), z = s * s, square = f.v * f.v * 0.5;
    double small = (polynomial(z, LOG, wide) * z + square) * s + e.v * 1.9082149292705877e-10;
    return e.v * 0.6931471803691238 + (f.v - (square - small));
}

static inline double cosine(double x, bool wide) /* of a number in [0, 2 pi] */
{
    double y = x - 3.1415926534682512, r = fabs(y) - 3.1415926534682512 / 2;
    r += y < 0 ? 1.2154201013012384e-10 * 0.5 : 1.2154201013012384e-10 * -1.5;
    double z = r * r;
    return r + polynomial(z, SINE, wide) * z * r;
}

/* By Box and Muller; where the logarithm would be of 0, it is of the other number, or of the least. */
static void normal32(const call *c, const part *p)
{
    float u[TILE], v[TILE];
    for (int j = 0; j < TILE; j++) {
        u32 w = p->words[0][j], other = p->words[1][j], none = -(u32)(w == 0);
        u[j] = (float)(w | (none & (other + (other == 0)))) * 0x1p-32f;
        v[j] = (float)(other & ~none) * 0x1p-32f;
    }
    for (int j = 0; j < TILE; j++)
        u[j] = sqrtf((float)logarithm(u[j], false) * -2.0f) * (float)cosine(6.2831853071795864769f * v[j], false);
    fused(u, p->own[1], p->own[0]);
    store32(c, p, u);
}

static void normal64(const call *c, const part *p)
{
    double u[TILE], v[TILE];
    for (int j = 0; j < TILE; j++) {
        u32 w0 = p->words[0][j], w1 = p->words[1][j], v0 = p->words[2][j], v1 = p->words[3][j];
        u32 none = -(u32)((w0 | w1) == 0);
        u[j] = joined(w0 | (none & (v0 + ((v0 | v1) == 0))), w1 | (none & v1)) * 0x1p-64;
        v[j] = joined(v0 & ~none, v1 & ~none) * 0x1p-64;
    }
    for (int j = 0; j < TILE; j++)
        u[j] = fma(sqrt(logarithm(u[j], true) * -2.0) * cosine(6.283185307179586 * v[j], true), p->own[1][j],
                   p->own[0][j]);
    store64(c, p, u);
}

static void coin_flip(const call *c, const part *p)
{
    float found[TILE];
    for (int j = 0; j < TILE; j++)
        found[j] = (double)p->words[0][j] < p->own[0][j];
    store32(c, p, found);
}

/* Pixels of an image, of which some become one of two values, pepper and salt: of sample `own[2]`. */
static void strewn(const call *c, const part *p)
{
    size_t bytes = (size_t)c->kind, pixel = bytes * (size_t)c->channels;
    uint8_t *to = c->out + (size_t)p->at * pixel;
    memcpy(to, c->image + (size_t)p->at * pixel, (size_t)p->count * pixel);
    for (int j = 0; j < p->count; j++, to += pixel) {
        float v = (float)p->words[0][j] * 0x1p-32f;
        size_t which = 2 * (size_t)p->own[2][j] + (v < (float)p->own[1][j]);
        for (size_t k = 0; k < pixel && v < (float)p->own[0][j]; k += bytes)
            memcpy(to + k, (const uint8_t *)c->values + which * bytes, bytes);
    }
}

/* Poisson numbers of means below 12 (`_rejection.poisson`) for bytes. `values` has the limit of the product for each
 * byte of a sample, or of all; a byte whose limit is above 1 stays. */
static void shot(const call *c, const part *p)
{
    const double *limits = (const double *)c->values + 256 * (c->each == 1 ? 0 : p->sample);
    u64 first = (u64)(p->at - begin_of(c, p->sample));
    const uint8_t *image = c->image + p->at;
    for (int r = 0; r < 4; r++) {
        u64 block[4][LANES], word = (c->from.phase + first + (u64)r) & 3, have = 9;
        lanes found[LANES / WIDE] = {{0}}, more = {1}, two[2];
        reals limit[LANES / WIDE] = {{0}}, product[LANES / WIDE];
        for (int j = 0; j < LANES; j++) {
            limit[j / WIDE][j % WIDE] = 4 * j + r < p->count ? limits[image[4 * j + r]] : 2;
            product[j / WIDE] = (reals){0} + 1;
        }
        for (; memcmp(&more, &(lanes){0}, sizeof more); word += 2) {
            u64 pair[2][LANES];
            for (u64 half = 0; half < 2; half++) {
                if ((word + half) / 4 != have)
                    blocks(&c->from, p->sample, STRIDE, first + (u64)r, have = (word + half) / 4, block);
                memcpy(pair[half], block[(word + half) % 4], sizeof pair[0]);
            }
            more = (lanes){0};
            for (int i = 0; i < LANES / WIDE; i++) {
                memcpy(&two[0], pair[0] + WIDE * i, sizeof two[0]);
                memcpy(&two[1], pair[1] + WIDE * i, sizeof two[1]);
                reals low = (reals)((two[0] & 0xFFFFFFFF) | 0x4330000000000000) - 0x1p52;
                reals high = (reals)((two[1] & 0xFFFFFFFF) | 0x4330000000000000) - 0x1p52;
                reals unit = (high * 0x1p32 + low) * 0x1p-64;
                product[i] *= (reals)((lanes)unit + (lanes)(unit >= 1)); /* the number before 1 instead of it */
                more |= (lanes)(product[i] > limit[i]);
                found[i] -= (lanes)(product[i] > limit[i]);
            }
        }
        for (int j = 0; j < LANES && 4 * j + r < p->count; j++) {
            float v = (float)found[j / WIDE][j % WIDE] * (float)p->own[0][0];
            c->out[p->at + 4 * j + r] = limit[j / WIDE][j % WIDE] > 1 ? image[4 * j + r] : (uint8_t)narrow(v, 0, 255);
        }
    }
}

static void (*const MAKERS[])(const call *, const part *) = {uniform32, uniform64, normal32, normal64,
                                                             coin_flip, strewn,    shot};

/* A piece of all numbers. */
static void piece(void *context, int64_t i)
{
    const call *c = context;
    int64_t stop = (i + 1) * PIECE < c->total ? (i + 1) * PIECE : c->total;
    part p = {.at = i * PIECE};
    for (int64_t last = c->ends ? c->from.n : 0, middle; p.sample < last;) { /* by halves */
        middle = p.sample + (last - p.sample) / 2;
        if (c->ends[middle] <= p.at)
            p.sample = middle + 1;
        else
            last = middle;
    }
    for (; p.at < stop; p.at += p.count) {
        int64_t end = stop;
        if (c->ends) {
            while (c->ends[p.sample] <= p.at)
                p.sample++;
            end = c->ends[p.sample] < stop ? c->ends[p.sample] : stop;
        } else
            p.sample = p.at;
        p.count = (int)(end - p.at < TILE ? end - p.at : TILE);
        words_of(c, &p);
        for (int k = 0; k < 3; k++)
            for (int j = 0; j < TILE; j++) {
                int64_t step = c->ends || j >= p.count ? 0 : j;
                p.own[k][j] = c->parameters[k * c->each + (c->each == 1 ? 0 : p.sample + step)];
            }
        MAKERS[c->which](c, &p);
    }
}

/* `Call.fill` for `uniform`, `normal`, `coin_flip` and the noises. */
EXPORT void core_random(call *c, int threads) { core_share(piece, c, (c->total + PIECE - 1) / PIECE, threads); }

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
        blocks(s->from, s->sample, 1, 0, at / TILE * LANES, s->block);
        s->have = at / TILE + 1;
    }
    return (u32)s->block[at % 4][at % TILE / 4];
}

static int32_t below(stream *s, double n) /* `_distributions.below`, of n up to 2**32 */
{
    for (;;) {
        u64 product = (u64)n * next(s);
        if ((u32)product >= (1ull << 32) % (u64)n)
            return (int32_t)(product >> 32);
    }
}

typedef struct {
    draw from;
    const int64_t *images; /* heights and widths */
    const double *rules;   /* ranges of the area, of the ratio, and of its logarithm */
    int64_t attempts;
    int32_t *found; /* for each image a corner and a shape */
} windows;

static double extent(double v) { return v < 1 ? 1 : trunc(v); }

/* The corner and the shape of a window of an image: `_windows._window`. */
static void window(void *context, int64_t i)
{
    const windows *c = context;
    const double *area = c->rules, *ratio = area + 2, *logs = area + 4;
    double height = (double)c->images[2 * i], width = (double)c->images[2 * i + 1], h = height, w = width;
    double wide = extent(height * ratio[1]), tall = extent(width / ratio[0]), least = area[0] * height * width;
    int64_t left = c->attempts;
    stream s = {.from = &c->from, .sample = i};
    if (height * wide < least)
        w = wide;
    else if (tall * width < least)
        h = tall;
    else {
        for (; left; left--) {
            double pixels = (area[0] + (area[1] - area[0]) * next(&s) * 0x1p-32) * height * width;
            double wanted = exp(logs[0] + (logs[1] - logs[0]) * next(&s) * 0x1p-32);
            w = extent(sqrt(pixels * wanted) + 0.5), h = extent(sqrt(pixels / wanted) + 0.5);
            if (w <= width && h <= height && ratio[0] <= w / h && w / h <= ratio[1])
                break;
        }
        if (!left) { /* the largest one of an allowed ratio, made smaller if it has too much area */
            w = width / height > ratio[1] ? wide : width;
            h = width / height < ratio[0] ? tall : height;
            double scale = sqrt(fmin(1, area[1] * height * width / (h * w)));
            h = extent(h * scale), w = extent(w * scale);
        }
    }
    h = h < height ? h : height, w = w < width ? w : width;
    int32_t *found = c->found + 4 * i;
    found[0] = below(&s, height - h + 1), found[1] = below(&s, width - w + 1);
    found[2] = (int32_t)h, found[3] = (int32_t)w;
}

/* `_windows.drawn`. */
EXPORT void core_windows(windows *c) { core_share(window, c, c->from.n, 1); }

/* What `_box_windows.search` looks for: windows (x, y, X, Y) of random extents in images of two dimensions. Overlaps are
 * parts of a box, or of its union with the window. The last threshold may stand for the whole image. */
typedef struct {
    draw from;
    const int64_t *samples, *ends; /* numbers of the samples there; where the boxes of each end */
    const float *boxes, *areas;
    const float *images; /* extents, x first; NULL where they are not known */
    const double *least; /* overlaps, of the thresholds */
    float *found;
    uint8_t *states; /* for each whether there is a window, and whether it is as the rules say */
    int64_t attempts, rounds;
    int32_t thresholds, whole, of_boxes, all_boxes;
    float prune, low, range, ratios[2];
} search;

static float unit(stream *s)
{
    float v = (float)next(s) * 0x1p-32f;
    return v < 1 ? v : 0x1.fffffep-1f;
}

/* Draw a window; false where its ratio is not allowed. */
static bool proposed(const search *c, int64_t i, stream *s, float *window)
{
    float w = unit(s) * c->range + c->low, h = unit(s) * c->range + c->low;
    float ratio = c->images ? w * c->images[2 * i] / (h * c->images[2 * i + 1]) : w / h;
    if (!(c->ratios[0] <= ratio && ratio <= c->ratios[1]))
        return false;
    window[0] = unit(s) * (1 - w), window[1] = unit(s) * (1 - h);
    window[2] = window[0] + w, window[3] = window[1] + h;
    return true;
}

static float common(const float *a, const float *b)
{
    float w = (a[2] < b[2] ? a[2] : b[2]) - (a[0] > b[0] ? a[0] : b[0]);
    float h = (a[3] < b[3] ? a[3] : b[3]) - (a[1] > b[1] ? a[1] : b[1]);
    return w > 0 && h > 0 ? w * h : 0;
}

/* The overlap of a window with all boxes of a sample or with one, and whether any of these is left in it. */
static float overlap(const search *c, int64_t i, const float *window, bool *left)
{
    int64_t first = i ? c->ends[i - 1] : 0;
    float found = 1, whole = (window[2] - window[0]) * (window[3] - window[1]);
    *left = first == c->ends[i];
    for (int64_t b = first; b < c->ends[i]; b++) {
        const float *box = c->boxes + 4 * b;
        float inside = common(window, box), x = (box[0] + box[2]) / 2, y = (box[1] + box[3]) / 2;
        float part = inside > 0 ? inside / (c->of_boxes ? c->areas[b] : c->areas[b] + whole - inside) : 0;
        found = b == first || (c->all_boxes ? part < found : part > found) ? part : found;
        part = inside > 0 ? inside / c->areas[b] : 0;
        *left |= c->prune < 0 ? window[0] <= x && x < window[2] && window[1] <= y && y < window[3]
                              : part > 0 && part >= c->prune;
    }
    return found;
}

/* Windows for one threshold after the other, until one is good. */
static void searched(void *context, int64_t i)
{
    const search *c = context;
    stream s = {.from = &c->from, .sample = c->samples[i]};
    double best = -1;
    float *found = c->found + 4 * i, drawn[4], taken[4] = {0};
    for (int64_t round = 0; round < c->rounds; round++) {
        int64_t threshold = below(&s, (double)c->thresholds);
        if (c->whole && threshold == c->thresholds - 1) {
            c->states[2 * i] = 0, c->states[2 * i + 1] = 1;
            return;
        }
        float reached = -2;
        bool passes = false, left = false, also;
        for (int64_t k = 0; k < c->attempts; k++) {
            if (!proposed(c, i, &s, drawn))
                continue;
            float own = overlap(c, i, drawn, &also);
            if ((double)own >= c->least[threshold] || (!passes && own > reached)) {
                passes = passes || (double)own >= c->least[threshold];
                reached = own, left = also;
                memcpy(taken, drawn, sizeof taken);
            }
        }
        if (!passes && reached <= best)
            continue;
        best = reached, c->states[2 * i] = 1;
        memcpy(found, taken, sizeof taken);
        if (passes && left) {
            c->states[2 * i + 1] = 1;
            return;
        }
    }
}

/* `_box_windows.search`. */
EXPORT void core_search(search *c, int64_t n, int threads) { core_share(searched, c, n, threads); }
