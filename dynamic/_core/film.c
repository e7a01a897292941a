/* Frames of videos as RGB: libswscale's arithmetic for planes of 8 bits, in one pass. */
#include "core.h"

#include <string.h>

enum { STRIP = 256 };

/* A row of chroma at the full width, in 1/128: result x is of two neighbours. `regular` says how those between the first
 * and the last are mixed, where it is the same for all: 1 for 3/4 and 1/4 and the reverse, 2 for each and the mean. */
static void widened(const uint8_t *row, int64_t width, const int32_t *places, const int32_t *parts, int regular,
                    int16_t *wide)
{
    int64_t first = regular ? width - 1 : 0;
    if (regular == 1) {
        wide[0] = (int16_t)(row[0] << 7);
        for (int64_t k = 0; k < width / 2 - 1; k++) {
            wide[2 * k + 1] = (int16_t)((3 * row[k] + row[k + 1]) << 5);
            wide[2 * k + 2] = (int16_t)((row[k] + 3 * row[k + 1]) << 5);
        }
    }
    if (regular == 2)
        for (int64_t k = 0; k < width / 2; k++) {
            wide[2 * k] = (int16_t)(row[k] << 7);
            wide[2 * k + 1] = (int16_t)((row[k] + row[k + (2 * k + 2 < width)]) << 6);
        }
    for (int64_t x = first; x < width; x++) {
        int32_t at = places[x], part = parts[x], next = row[at + (part != 0)];
        wide[x] = (int16_t)((row[at] * (16384 - part) + next * part) >> 7);
    }
}

static inline uint8_t byte_of(uint32_t sum)
{
    int32_t value = (int32_t)sum;
    value = value < 0 ? 0 : value;
    return (uint8_t)((value > (1 << 30) - 1 ? (1 << 30) - 1 : value) >> 22);
}

static void colours(const uint8_t *luma, const int16_t *const *chroma, int32_t part, const int32_t *factors, int64_t count,
                    uint8_t *restrict out)
{
    const int16_t *u0 = chroma[0], *v0 = chroma[1], *u1 = chroma[2], *v1 = chroma[3];
    int32_t rest = 4096 - part, scale = factors[0], least = factors[1], rv = factors[2], gv = factors[3],
            gu = factors[4], bu = factors[5];
    uint8_t red[STRIP], green[STRIP], blue[STRIP];
    for (int64_t from = 0; from < count; from += STRIP) {
        int64_t n = count - from < STRIP ? count - from : STRIP;
        for (int64_t i = 0; i < n; i++) {
            int64_t x = from + i;
            int32_t u = (u0[x] * rest + u1[x] * part - (128 << 19)) >> 10;
            int32_t v = (v0[x] * rest + v1[x] * part - (128 << 19)) >> 10;
            uint32_t y = (uint32_t)(((luma[x] << 9) - least) * scale + (1 << 21));
            red[i] = byte_of(y + (uint32_t)(v * rv));
            green[i] = byte_of(y + (uint32_t)(v * gv) + (uint32_t)(u * gu));
            blue[i] = byte_of(y + (uint32_t)(u * bu));
        }
        uint8_t *to = out + 3 * from;
        for (int64_t i = 0; i < n; i++) {
            to[3 * i] = red[i];
            to[3 * i + 1] = green[i];
            to[3 * i + 2] = blue[i];
        }
    }
}

/* A frame of (height, width) as RGB. `planes` are the addresses of luma and both chromas, `strides` their bytes a row.
 * Each has `places` and `parts` of the neighbours of a result in chroma: those of columns, and behind them of rows.
 * `memory` has 4 * width elements. */
EXPORT void core_film_rgb(const uint64_t *planes, const int64_t *strides, int64_t height, int64_t width,
                          const int32_t *places, const int32_t *parts, int regular, const int32_t *factors,
                          int16_t *memory, uint8_t *out)
{
    int64_t kept[2] = {-1, -1}; /* rows of chroma that are in memory */
    for (int64_t y = 0; y < height; y++) {
        int32_t part = parts[width + y], at = places[width + y], next = at + (part != 0);
        const int16_t *chroma[4];
        for (int k = 0; k < 2; k++) {
            int64_t row = k ? next : at, slot = row & 1;
            int16_t *u = memory + 2 * slot * width, *v = u + width;
            if (kept[slot] != row) {
                const uint8_t *from = (const uint8_t *)planes[1] + row * strides[1];
                widened(from, width, places, parts, regular, u);
                from = (const uint8_t *)planes[2] + row * strides[2];
                widened(from, width, places, parts, regular, v);
                kept[slot] = row;
            }
            chroma[2 * k] = u;
            chroma[2 * k + 1] = v;
        }
        colours((const uint8_t *)planes[0] + y * strides[0], chroma, part, factors, width, out + 3 * width * y);
    }
}
