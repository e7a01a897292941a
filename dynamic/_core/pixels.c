/* Pixels of a batch: normalised by tables, and copied in any order of dimensions.
 *
 * The loops over bytes are plain: GCC makes shuffles of them where the processor has such.
 */
#include "core.h"

#ifdef __F16C__
#include <immintrin.h>
#endif

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 512, FILLED = 512, TILE = 32, DEEPEST = 6 }; /* blocks stay in the fastest cache */

/* Describing. */

typedef struct { /* the beginning of NumPy's public PyArrayObject_fields, behind the head of all objects */
    char *data;
    int ndim;
    const int64_t *shape, *strides;
    const void *base, *descr;
} fields;

/* `dynamic._arrays.described.described` of n arrays of NumPy, given by their addresses as objects; 0 where their
 * types or numbers of dimensions differ. */
EXPORT int core_describe(int64_t n, addresses objects, int64_t head, int64_t ndim, uint64_t *pointers, int64_t *shapes, int64_t *strides)
{
    const fields *first = (const fields *)(objects[0] + head);
    for (int64_t i = 0; i < n; i++) {
        const fields *array = (const fields *)(objects[i] + head);
        if (array->ndim != ndim || array->descr != first->descr)
            return 0;
        pointers[i] = (uint64_t)array->data;
        for (int64_t d = 0; d < ndim; d++) {
            shapes[i * ndim + d] = array->shape[d];
            strides[i * ndim + d] = array->strides[d];
        }
    }
    return 1;
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Bytes of three channels, one after the other, into a plane each. */
static void split(const uint8_t *restrict from, int64_t n, uint8_t *restrict a, uint8_t *restrict b, uint8_t *restrict c)
{
    for (int64_t x = 0; x < n; x++) {
        a[x] = from[3 * x];
        b[x] = from[3 * x + 1];
        c[x] = from[3 * x + 2];
    }
}

static void merge(const uint8_t *restrict a, const uint8_t *restrict b, const uint8_t *restrict c, int64_t n, uint8_t *restrict to)
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

static void looked_up(const uint8_t *from, int64_t every, int64_t n, const uint8_t *table, int64_t size, uint8_t *to, int64_t step)
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
    for (x = 0; x + 8 <= n; x += 8)
        _mm_storeu_si128((__m128i *)(to + 2 * x), _mm256_cvtps_ph(_mm256_loadu_ps(values + x), _MM_FROUND_TO_NEAREST_INT));
    for (; x < n; x++)
        ((uint16_t *)to)[x] = _cvtss_sh(values[x], _MM_FROUND_TO_NEAREST_INT);
}

/* A row whose channels are three, or lie each in one run, into rows of channels; false where it is another. */
static bool computed_row(const normalising *all, const uint8_t *row, int64_t width, int64_t channels, const int64_t *from, const int64_t *to, uint8_t *target)
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
                looked_up(row + c * from[2], from[1], shape[1], all->tables + c * 256 * all->size, all->size, target + c * to[2], to[1]);
    }
}

EXPORT void core_normalise(int64_t n, addresses sources, extents from, addresses targets, extents to, extents shapes, const uint8_t *mirrored, const uint8_t *tables, int64_t size, const double *factors, const double *shifts, int64_t pieces, int threads)
{
    normalising all = {sources, targets, shapes, from, to, mirrored, tables, factors, shifts, size, pieces};
    core_share(normalise, &all, n * pieces, threads);
}

/* Copying: N boxes of up to DEEPEST dimensions, each of any steps. */

typedef struct {
    int ndim;
    int64_t bytes, extents[DEEPEST], from[DEEPEST], to[DEEPEST]; /* of what is contiguous; of dimensions; their steps */
} box;

typedef struct {
    addresses sources, targets;
    extents shapes, from, to;
    int64_t ndim, size, pieces;
} copying;

/* Let the dimension along which the source is densest be the last but one, where it is not the last: both ends of a
 * transposition are then read and written in tiles. */
static void arrange(box *one)
{
    int last = one->ndim - 1, densest = last;
    for (int i = 0; i < last; i++)
        if (llabs(one->from[i]) < llabs(one->from[densest]))
            densest = i;
    if (densest < last - 1)
        for (int k = 0; k < 3; k++) {
            int64_t *each = k == 0 ? one->extents : k == 1 ? one->from : one->to, moved = each[densest];
            memmove(each + densest, each + densest + 1, (last - 1 - densest) * sizeof moved);
            each[last - 1] = moved;
        }
}

/* The dimensions of a box that count, neighbours that follow each other as one; false where it is empty. */
static bool boxed(const copying *all, int64_t sample, box *one)
{
    const int64_t *shape = all->shapes + sample * all->ndim, *from = all->from + sample * all->ndim, *to = all->to + sample * all->ndim;
    int n = 0;
    for (int64_t i = 0; i < all->ndim; i++) {
        if (!shape[i])
            return false;
        if (shape[i] == 1)
            continue;
        if (n && one->from[n - 1] == from[i] * shape[i] && one->to[n - 1] == to[i] * shape[i])
            one->extents[--n] *= shape[i];
        else
            one->extents[n] = shape[i];
        one->from[n] = from[i];
        one->to[n++] = to[i];
    }
    one->bytes = all->size;
    if (n && one->from[n - 1] == one->bytes && one->to[n - 1] == one->bytes)
        one->bytes *= one->extents[--n];
    one->ndim = n;
    arrange(one);
    return true;
}

/* n runs of so many bytes. */
#define RUNS(bytes)                                                                                                    \
    for (int64_t i = 0; i < n; i++)                                                                                    \
        memcpy(to + i * into, from + i * every, bytes)
#define MIRRORED(bytes)                                                                                                \
    for (int64_t i = 0; i < n; i++)                                                                                    \
        memcpy(to + i * bytes, from - i * bytes, bytes)
#define CASE(bytes)                                                                                                    \
    case bytes:                                                                                                        \
        if (into == bytes && every == -bytes)                                                                          \
            MIRRORED(bytes);                                                                                           \
        else                                                                                                           \
            RUNS(bytes);                                                                                               \
        return;

static void runs(int64_t n, int64_t bytes, const char *restrict from, int64_t every, char *restrict to, int64_t into)
{
    if (!every && into == bytes) { /* one value: what is filled with it already is copied on, from the cache */
        memcpy(to, from, bytes);
        for (int64_t done = bytes, end = n * bytes, more; done < end; done += more)
            memcpy(to + done, to, more = least(least(done, FILLED * bytes), end - done));
        return;
    }
    switch (bytes) {
        CASE(1)
        CASE(2)
        CASE(3)
        CASE(4)
        CASE(6)
        CASE(8)
        CASE(12)
    default: RUNS(bytes);
    }
}

/* Two dimensions, of which the first is the denser in the source. */
static void transposed(int64_t bytes, const int64_t *extents, const char *from, const int64_t *every, char *to, const int64_t *into)
{
    const uint8_t *pixels = (const uint8_t *)from;
    uint8_t *out = (uint8_t *)to;
    if (bytes == 1 && extents[0] == 3 && every[0] == 1 && every[1] == 3 && into[1] == 1)
        split(pixels, extents[1], out, out + into[0], out + 2 * into[0]);
    else if (bytes == 1 && extents[1] == 3 && every[0] == 1 && into[0] == 3 && into[1] == 1)
        merge(pixels, pixels + every[1], pixels + 2 * every[1], extents[0], out);
    else
        for (int64_t i = 0; i < extents[0]; i += TILE)
            for (int64_t j = 0; j < extents[1]; j += TILE)
                for (int64_t k = i; k < least(i + TILE, extents[0]); k++)
                    runs(least(TILE, extents[1] - j), bytes, from + k * every[0] + j * every[1], every[1],
                         to + k * into[0] + j * into[1], into[1]);
}

static void copy(void *context, int64_t i)
{
    const copying *all = context;
    int64_t sample = i / all->pieces, piece = i % all->pieces, at[DEEPEST] = {0};
    const char *from = (const char *)all->sources[sample];
    char *to = (char *)all->targets[sample];
    box one;
    if (!boxed(all, sample, &one))
        return;
    int longest = 0, last = one.ndim - 1;
    for (int d = 1; d <= last; d++)
        if (one.extents[d] > one.extents[longest])
            longest = d;
    int64_t *extent = one.ndim ? &one.extents[longest] : &one.bytes;
    int64_t start = *extent * piece / all->pieces;
    *extent = *extent * (piece + 1) / all->pieces - start;
    from += start * (one.ndim ? one.from[longest] : 1);
    to += start * (one.ndim ? one.to[longest] : 1);
    if (!*extent)
        return;
    bool crossed = one.ndim > 1 && llabs(one.from[last - 1]) < llabs(one.from[last]);
    int outer = one.ndim - 1 - crossed;
    for (int d = 0; d >= 0;) {
        if (!one.ndim)
            memcpy(to, from, one.bytes);
        else if (crossed)
            transposed(one.bytes, one.extents + outer, from, one.from + outer, to, one.to + outer);
        else
            runs(one.extents[last], one.bytes, from, one.from[last], to, one.to[last]);
        for (d = outer - 1; d >= 0; d--) { /* the next in the outer dimensions */
            from += one.from[d];
            to += one.to[d];
            if (++at[d] < one.extents[d])
                break;
            from -= at[d] * one.from[d];
            to -= at[d] * one.to[d];
            at[d] = 0;
        }
    }
}

/* NumPy's ``target[...] = source`` for each of n boxes, whose elements have so many bytes. */
EXPORT void core_copy(int64_t n, int64_t ndim, int64_t size, addresses sources, extents from, addresses targets, extents to,
                      extents shapes, int64_t pieces, int threads)
{
    copying all = {sources, targets, shapes, from, to, ndim, size, pieces};
    core_share(copy, &all, n * pieces, threads);
}
