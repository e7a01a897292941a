/* Equalizing the histograms of images of bytes. */
#include "core.h"

#include <math.h>

/* Neighbours, which are often equal, are counted in several ways: an addition waits for no other. */
enum { LEVELS = 256, SOME = 4, WAYS = 4 };

typedef struct {
    addresses sources, targets;
    extents shapes, from, to; /* height, width and channels of each; steps in bytes */
} equalizing;

static inline void count(const uint8_t *row, int64_t n, int64_t step, int32_t counts[restrict WAYS][LEVELS])
{
    for (; n >= WAYS; n -= WAYS, row += WAYS * step)
        for (int way = 0; way < WAYS; way++)
            counts[way][row[way * step]]++;
    for (; n > 0; n--, row += step)
        counts[0][*row]++;
}

static void counted(const uint8_t *row, int64_t n, int64_t step, int32_t counts[restrict WAYS][LEVELS])
{
    if (step == 3) /* a constant is a third faster */
        count(row, n, 3, counts);
    else
        count(row, n, step, counts);
}

/* The table of OpenCV's equalizeHist. */
static void spread(const int32_t counts[WAYS][LEVELS], int32_t total, uint8_t table[LEVELS])
{
    int32_t lowest = -1, first = 0, sum = 0;
    for (int value = 0; value < LEVELS; value++) {
        int32_t count = counts[0][value] + counts[1][value] + counts[2][value] + counts[3][value];
        if (lowest >= 0 && first < total) {
            long level = lrintf((float)(sum += count) * (255.0f / (float)(total - first)));
            table[value] = level > 255 ? 255 : (uint8_t)level;
        } else if (lowest < 0 && count) {
            lowest = value;
            first = count;
            table[value] = first == total ? (uint8_t)value : 0;
        }
    }
}

static void looked_up(const uint8_t *restrict from, int64_t n, int64_t every, const uint8_t *restrict table,
                      uint8_t *restrict to, int64_t into)
{
    if (every == 3 && into == 3)
        for (int64_t x = 0; x < n; x++)
            to[3 * x] = table[from[3 * x]];
    else
        for (int64_t x = 0; x < n; x++)
            to[x * into] = table[from[x * every]];
}

/* A few channels: all of a row before the next row, which stays in the cache. */
static void equalize_some(const uint8_t *source, const int64_t *from, uint8_t *target, const int64_t *to,
                          int64_t height, int64_t width, int64_t channels)
{
    int32_t counts[SOME][WAYS][LEVELS] = {0};
    uint8_t tables[SOME][LEVELS];
    for (int64_t y = 0; y < height; y++)
        for (int64_t c = 0; c < channels; c++)
            counted(source + y * from[0] + c * from[2], width, from[1], counts[c]);
    for (int64_t c = 0; c < channels; c++)
        spread(counts[c], (int32_t)(height * width), tables[c]);
    for (int64_t y = 0; y < height; y++)
        for (int64_t c = 0; c < channels; c++)
            looked_up(source + y * from[0] + c * from[2], width, from[1], tables[c],
                      target + y * to[0] + c * to[2], to[1]);
}

static void equalize(void *context, int64_t i)
{
    const equalizing *all = context;
    const int64_t *shape = all->shapes + 3 * i, *from = all->from + 3 * i, *to = all->to + 3 * i;
    for (int64_t c = 0; shape[0] && shape[1] && c < shape[2]; c += SOME)
        equalize_some((const uint8_t *)all->sources[i] + c * from[2], from, (uint8_t *)all->targets[i] + c * to[2], to,
                      shape[0], shape[1], shape[2] - c < SOME ? shape[2] - c : SOME);
}

/* For each of n images `dynamic.kernels.cpu.histograms.equalized`. */
EXPORT void core_equalize(int64_t n, addresses sources, extents from, addresses targets, extents to, extents shapes,
                          int threads)
{
    equalizing all = {sources, targets, shapes, from, to};
    core_share(equalize, &all, n, threads);
}
