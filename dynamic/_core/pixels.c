/* Pixels of a batch: normalised by tables, and copied in any order of dimensions.
 *
 * The loops over bytes are plain: GCC makes shuffles of them where the processor has such.
 */
#include "core.h"

#ifdef __SSSE3__
#include <immintrin.h>
#endif

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 512, DEEPEST = 6 }; /* blocks stay in the fastest cache */

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Bytes of three channels, one after the other, into a plane each. */
static void split(const uint8_t *restrict from, int64_t n, uint8_t *restrict a, uint8_t *restrict b,
                  uint8_t *restrict c)
{
    for (int64_t x = 0; x < n; x++) {
        a[x] = from[3 * x];
        b[x] = from[3 * x + 1];
        c[x] = from[3 * x + 2];
    }
}

static void merge(const uint8_t *restrict a, const uint8_t *restrict b, const uint8_t *restrict c, int64_t n,
                  uint8_t *restrict to)
{
    for (int64_t x = 0; x < n; x++) {
        to[3 * x] = a[x];
        to[3 * x + 1] = b[x];
        to[3 * x + 2] = c[x];
    }
}

/* Normalising: `dynamic.kernels.cpu.windows.normalised`, for bytes. */

typedef struct {
    addresses sources, targets;
    extents shapes, from, to; /* height, width and channels of each; steps in bytes */
    const uint8_t *mirrored, *tables; /* a flag for each sample; 256 values for each channel */
    const double *factors, *shifts; /* the tables were made with; NULL where a table is all that is known */
    int64_t size, pieces; /* bytes of a result; parts of each sample */
} normalising;

#define LOOK_UP(type)                                                                                                  \
    for (int64_t x = 0; x < n; x++, to += step)                                                                        \
        *(type *)to = ((const type *)table)[from[x * every]];

static void looked_up(const uint8_t *from, int64_t every, int64_t n, const uint8_t *table, int64_t size, uint8_t *to,
                      int64_t step)
{
    switch (size) {
    case 1: LOOK_UP(uint8_t) break;
    case 2: LOOK_UP(uint16_t) break;
    default: LOOK_UP(uint32_t)
    }
}

#ifdef __F16C__ /* with such processors the arithmetic of a table is faster than the table */

/* Its values are computed in double, rounded to float, and maybe to half. At most BLOCK pixels of a channel. */
static void computed(const normalising *all, int64_t c, const uint8_t *from, int64_t n, bool reversed, uint8_t *to)
{
    double factor = all->factors[c], shift = all->shifts[c];
    float block[BLOCK], *restrict values = all->size == 4 ? (float *)to : block;
    int64_t x = 0;
    if (reversed)
        for (; x < n; x++)
            values[x] = (float)(from[n - 1 - x] * factor + shift);
    else
        for (; x < n; x++)
            values[x] = (float)(from[x] * factor + shift);
    if (all->size == 4)
        return;
    for (x = 0; x + 8 <= n; x += 8) {
        __m128i halves = _mm256_cvtps_ph(_mm256_loadu_ps(values + x), _MM_FROUND_TO_NEAREST_INT);
        _mm_storeu_si128((__m128i *)(to + 2 * x), halves);
    }
    for (; x < n; x++)
        ((uint16_t *)to)[x] = _cvtss_sh(values[x], _MM_FROUND_TO_NEAREST_INT);
}

/* A row whose channels are three, or lie each in one run, into rows of channels; false where it is another. */
static bool computed_row(const normalising *all, const uint8_t *row, int64_t width, int64_t channels,
                         const int64_t *from, const int64_t *to, uint8_t *target)
{
    int64_t every = from[1];
    bool pixels = channels == 3 && from[2] == 1 && llabs(every) == 3;
    if (!all->factors || to[1] != all->size || !(pixels || llabs(every) == 1))
        return false;
    for (int64_t x = 0; x < width; x += BLOCK) {
        int64_t n = least(BLOCK, width - x);
        const uint8_t *first = row + every * (every < 0 ? x + n - 1 : x);
        uint8_t planes[3][BLOCK];
        if (pixels)
            split(first, n, planes[0], planes[1], planes[2]);
        for (int64_t c = 0; c < channels; c++)
            computed(all, c, pixels ? planes[c] : first + c * from[2], n, every < 0, target + c * to[2] + x * to[1]);
    }
    return true;
}
#else
#define computed_row(...) false
#endif

static void normalise(void *context, int64_t i)
{
    const normalising *all = context;
    int64_t sample = i / all->pieces, piece = i % all->pieces;
    const int64_t *shape = all->shapes + 3 * sample, *to = all->to + 3 * sample;
    int64_t from[3];
    memcpy(from, all->from + 3 * sample, sizeof from);
    const uint8_t *source = (const uint8_t *)all->sources[sample];
    if (all->mirrored[sample]) {
        source += (shape[1] - 1) * from[1];
        from[1] = -from[1];
    }
    int64_t end = shape[0] * (piece + 1) / all->pieces;
    for (int64_t y = shape[0] * piece / all->pieces; shape[1] && y < end; y++) {
        const uint8_t *row = source + y * from[0];
        uint8_t *target = (uint8_t *)all->targets[sample] + y * to[0];
        if (!computed_row(all, row, shape[1], shape[2], from, to, target))
            for (int64_t c = 0; c < shape[2]; c++)
                looked_up(row + c * from[2], from[1], shape[1], all->tables + c * 256 * all->size, all->size,
                          target + c * to[2], to[1]);
    }
}

/* For each of n images of bytes the values of a table for each channel. */
EXPORT void core_normalise(int64_t n, addresses sources, extents from, addresses targets, extents to, extents shapes,
                           const uint8_t *mirrored, const uint8_t *tables, int64_t size, const double *factors,
                           const double *shifts, int64_t pieces, int threads)
{
    normalising all = {sources, targets, shapes, from, to, mirrored, tables, factors, shifts, size, pieces};
    core_share(normalise, &all, n * pieces, threads);
}

/* Copying: NumPy's ``target[...] = source``. */

typedef struct {
    int ndim;
    int64_t bytes, extents[DEEPEST], every[DEEPEST], into[DEEPEST]; /* of a run; of dimensions; steps there */
} box;

/* The dimensions that count, neighbours that follow each other as one. */
static box boxed(int64_t ndim, int64_t size, const int64_t *shape, const int64_t *every, const int64_t *into)
{
    box one = {.bytes = size};
    int n = 0;
    for (int64_t d = 0; d < ndim; d++) {
        if (shape[d] == 1)
            continue;
        bool follows = n && one.every[n - 1] == every[d] * shape[d] && one.into[n - 1] == into[d] * shape[d];
        n -= follows;
        one.extents[n] = follows ? one.extents[n] * shape[d] : shape[d];
        one.every[n] = every[d];
        one.into[n++] = into[d];
    }
    if (n && one.every[n - 1] == size && one.into[n - 1] == size)
        one.bytes *= one.extents[--n];
    one.ndim = n;
    return one;
}

/* n runs of so many bytes. */
#define CASE(bytes)                                                                                                    \
    case bytes:                                                                                                        \
        for (; into == bytes && every == -bytes && i < n; i++)                                                         \
            memcpy(to + i * bytes, from - i * bytes, bytes);                                                           \
        for (; i < n; i++)                                                                                             \
            memcpy(to + i * into, from + i * every, bytes);                                                            \
        return;

static void runs(int64_t n, int64_t bytes, const char *restrict from, int64_t every, char *restrict to, int64_t into)
{
    int64_t i = 0;
    if (!every && into == 1 && bytes == 1) {
        memset(to, *from, n);
        return;
    }
    if (!every && into == bytes) { /* one value: the part that is filled already is copied on, from the cache */
        memcpy(to, from, bytes);
        for (int64_t done = bytes, end = n * bytes, more; done < end; done += more)
            memcpy(to + done, to, more = least(least(done, BLOCK * bytes), end - done));
        return;
    }
#ifdef __SSSE3__
    if (bytes == 3 && into == 3 && every == -3) { /* five pixels in a register, behind a byte of the next */
        const __m128i turn = _mm_setr_epi8(13, 14, 15, 10, 11, 12, 7, 8, 9, 4, 5, 6, 1, 2, 3, 0);
        for (; n - i > 5; i += 5) {
            __m128i pixels = _mm_loadu_si128((const __m128i *)(from - 3 * i - 13));
            _mm_storeu_si128((__m128i *)(to + 3 * i), _mm_shuffle_epi8(pixels, turn));
        }
    }
#endif
    switch (bytes) {
        CASE(1)
        CASE(2)
        CASE(3)
        CASE(4)
        CASE(6)
        CASE(8)
        CASE(12)
    default:
        for (; i < n; i++)
            memcpy(to + i * into, from + i * every, bytes);
    }
}

/* Two dimensions, of which the first is the denser in the source. */
static void transposed(const box *one, const char *from, char *to)
{
    int first = one->ndim - 2;
    const int64_t *extents = one->extents + first, *every = one->every + first, *into = one->into + first;
    const uint8_t *pixels = (const uint8_t *)from;
    uint8_t *out = (uint8_t *)to;
    if (one->bytes == 1 && extents[0] == 3 && every[0] == 1 && every[1] == 3 && into[1] == 1)
        split(pixels, extents[1], out, out + into[0], out + 2 * into[0]);
    else if (one->bytes == 1 && extents[1] == 3 && every[0] == 1 && into[0] == 3 && into[1] == 1)
        merge(pixels, pixels + every[1], pixels + 2 * every[1], extents[0], out);
    else
        for (int64_t k = 0; k < extents[0]; k++)
            runs(extents[1], one->bytes, from + k * every[0], every[1], to + k * into[0], into[1]);
}

/* A part of a box, cut along its longest dimension. */
static void copied(box one, const char *from, char *to, int64_t piece, int64_t pieces)
{
    int longest = 0, last = one.ndim - 1, outer = last;
    int64_t at[DEEPEST] = {0};
    for (int d = 1; d <= last; d++)
        if (one.extents[d] > one.extents[longest])
            longest = d;
    int64_t *extent = last < 0 ? &one.bytes : &one.extents[longest], start = *extent * piece / pieces;
    *extent = *extent * (piece + 1) / pieces - start;
    from += start * (last < 0 ? 1 : one.every[longest]);
    to += start * (last < 0 ? 1 : one.into[longest]);
    for (int d = 0; d <= last; d++)
        if (!one.extents[d])
            return;
    if (last < 0) {
        memcpy(to, from, one.bytes);
        return;
    }
    bool crossed = last && llabs(one.every[last - 1]) < llabs(one.every[last]);
    outer -= crossed;
    for (int d = 0; d >= 0;) {
        if (crossed)
            transposed(&one, from, to);
        else
            runs(one.extents[last], one.bytes, from, one.every[last], to, one.into[last]);
        for (d = outer - 1; d >= 0; d--) { /* the next in the outer dimensions */
            from += one.every[d];
            to += one.into[d];
            if (++at[d] < one.extents[d])
                break;
            from -= at[d] * one.every[d];
            to -= at[d] * one.into[d];
            at[d] = 0;
        }
    }
}

typedef struct {
    addresses sources, targets;
    extents shapes, from, extents, to, starts; /* of sources and targets; of windows, of which there may be none */
    const char *fill;
    int64_t ndim, size, start_row, fill_row, fill_place, pieces;
} copying;

/* A window, and its margins beyond the edges of its sample: along each dimension before and behind. */
static void copy(void *context, int64_t i)
{
    const copying *all = context;
    int64_t n = all->ndim, sample = i / all->pieces, piece = i % all->pieces, none[DEEPEST] = {0};
    const int64_t *from = all->from + sample * n, *into = all->to + sample * n, *whole = all->extents + sample * n;
    const int64_t *start = all->starts ? all->starts + sample * all->start_row : none, *have = all->shapes + sample * n;
    const char *first = (const char *)all->sources[sample], *fill = all->fill;
    char *target = (char *)all->targets[sample], *there = target;
    int64_t shape[DEEPEST], low[DEEPEST], high[DEEPEST], values[DEEPEST] = {0};
    bool empty = false;
    for (int64_t d = 0; d < n; d++) {
        if (!whole[d])
            return;
        low[d] = start[d] < 0 ? least(-start[d], whole[d]) : 0;
        high[d] = start[d] < have[d] ? least(have[d] - start[d], whole[d]) : 0;
        shape[d] = high[d] > low[d] ? high[d] - low[d] : 0;
        high[d] = low[d] + shape[d];
        empty |= !shape[d];
        first += shape[d] ? (start[d] + low[d]) * from[d] : 0;
        there += low[d] * into[d];
    }
    if (!empty)
        copied(boxed(n, all->size, shape, from, into), first, there, piece, all->pieces);
    if (!fill)
        return;
    fill += sample * all->fill_row;
    if (all->fill_place >= 0)
        values[all->fill_place] = all->size;
    memcpy(shape, whole, n * sizeof *shape);
    for (int64_t d = 0; d < n; d++) {
        for (int behind = 0; behind < 2; behind++) {
            int64_t begin = behind ? high[d] : 0;
            shape[d] = behind ? whole[d] - high[d] : low[d];
            if (shape[d])
                copied(boxed(n, all->size, shape, values, into), fill + begin * values[d], target + begin * into[d],
                       piece, all->pieces);
        }
        target += low[d] * into[d];
        fill += low[d] * values[d];
        shape[d] = high[d] - low[d];
    }
}

/* For each of n samples, whose elements have so many bytes, a window as `dynamic.kernels.cpu.windows.copied`. */
EXPORT void core_copy(int64_t n, int64_t ndim, int64_t size, addresses sources, extents shapes, extents from,
                      addresses targets, extents whole, extents to, extents starts, int64_t start_row, const char *fill,
                      int64_t fill_row, int64_t fill_place, int64_t pieces, int threads)
{
    copying all = {sources, targets, shapes, from, whole, to, starts, fill, ndim, size, start_row, fill_row, fill_place,
                   pieces};
    core_share(copy, &all, n * pieces, threads);
}
