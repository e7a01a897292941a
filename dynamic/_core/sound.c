/* Signals: resampled, and searched for silence; the powers of spectra, and banks of filters of them. */
#include "core.h"

#include <math.h>

enum { LANES = 8, RESOLUTION = 32, TILE = 16, PIECE = 2048 };

/* `dynamic.kernels.cpu.sound._interpolated` of all results of a signal. Values of the result lie `into` floats apart;
 * weights and changes are (RESOLUTION, taps), taps a multiple of LANES. */
EXPORT void core_resample(const float *source, double step, const float *weights, const float *changes, int64_t taps,
                          float *target, int64_t count, int64_t into)
{
    for (int64_t k = 0; k < count; k++) {
        double place = (double)k * step, first = floor(place);
        double distance = RESOLUTION * (1 - (place - first));
        int64_t row = (int64_t)distance < RESOLUTION - 1 ? (int64_t)distance : RESOLUTION - 1;
        float part = (float)(distance - (double)row), sums[LANES] = {0};
        const float *value = source + (int64_t)first, *weight = weights + row * taps, *change = changes + row * taps;
        for (int64_t j = 0; j < taps; j += LANES)
            for (int lane = 0; lane < LANES; lane++)
                sums[lane] += value[j + lane] * (weight[j + lane] + part * change[j + lane]);
        for (int half = LANES / 2; half; half /= 2)
            for (int lane = 0; lane < half; lane++)
                sums[lane] += sums[lane + half];
        target[k * into] = sums[0];
    }
}

static inline double mean_at(const double *sums, int64_t i, int64_t window)
{
    return i < window ? sums[i] : sums[i] - sums[i - window];
}

/* `dynamic.kernels.cpu.sound.loud` of n values, with memory for as many sums; found are the first value and how many
 * there are. */
EXPORT void core_loud(const float *signal, int64_t n, int64_t window, double part, double reference, double *sums,
                      int64_t *found)
{
    double sum = 0, largest = -INFINITY;
    for (int64_t i = 0; i < n; i++) {
        sum += (double)signal[i] * (double)signal[i];
        sums[i] = sum;
        double mean = i < window ? sum : sum - sums[i - window];
        if (mean > largest)
            largest = mean;
    }
    double least = part * (reference != 0 ? reference * (double)window : largest);
    int64_t first = 0, last = n - 1;
    while (first < n && !(mean_at(sums, first, window) >= least))
        first++;
    while (last > first && !(mean_at(sums, last, window) >= least))
        last--;
    found[0] = first < n && first >= window ? first - window + 1 : 0;
    found[1] = first < n ? last + 1 - found[0] : 0;
}

/* `dynamic.kernels.cpu.sound.weighted` of frames of some length, which begin `step` floats apart; the rows that they go
 * to lie `into` floats apart. */
EXPORT void core_weigh(const float *frames, int64_t step, int64_t count, const float *window, int64_t length,
                       float *target, int64_t into)
{
    for (int64_t i = 0; i < count; i++) {
        const float *frame = frames + i * step;
        float *row = target + i * into;
        for (int64_t k = 0; k < length; k++)
            row[k] = frame[k] * window[k];
    }
}

static inline void powers_of(const float *restrict value, int64_t count, int squared, float *restrict target)
{
    if (squared)
        for (int64_t k = 0; k < count; k++)
            target[k] = value[2 * k] * value[2 * k] + value[2 * k + 1] * value[2 * k + 1];
    else
        for (int64_t k = 0; k < count; k++) {
            double real = value[2 * k], imaginary = value[2 * k + 1];
            target[k] = (float)sqrt(real * real + imaginary * imaginary);
        }
}

/* `dynamic.kernels.cpu.sound.powers` of spectra of pairs of floats, (rows, bins). The values of the result lie `by_row`
 * and `by_bin` floats apart. */
EXPORT void core_powers(const float *spectra, int64_t rows, int64_t bins, int squared, float *target, int64_t by_row,
                        int64_t by_bin)
{
    float tile[TILE][TILE];
    if (by_bin == 1) {
        for (int64_t i = 0; i < rows; i++)
            powers_of(spectra + 2 * i * bins, bins, squared, target + i * by_row);
        return;
    }
    for (int64_t top = 0; top < rows; top += TILE)
        for (int64_t left = 0; left < bins; left += TILE) {
            int64_t height = rows - top < TILE ? rows - top : TILE, width = bins - left < TILE ? bins - left : TILE;
            const float *source = spectra + 2 * (top * bins + left);
            float *corner = target + top * by_row + left * by_bin;
            if (width == TILE) /* a number that the compiler knows */
                for (int64_t i = 0; i < height; i++)
                    powers_of(source + 2 * i * bins, TILE, squared, tile[i]);
            else
                for (int64_t i = 0; i < height; i++)
                    powers_of(source + 2 * i * bins, width, squared, tile[i]);
            if (by_row == 1 && height == TILE)
                for (int64_t k = 0; k < width; k++)
                    for (int i = 0; i < TILE; i++)
                        corner[k * by_bin + i] = tile[i][k];
            else
                for (int64_t k = 0; k < width; k++)
                    for (int64_t i = 0; i < height; i++)
                        corner[k * by_bin + i * by_row] = tile[i][k];
        }
}

/* `dynamic.kernels.cpu.sound.summed`: each row of the target is a weighted sum of rows of the source, (..., columns).
 * Filter i has counts[i] weights, for the rows from firsts[i] on; they follow those of the filter before. */
EXPORT void core_bank(const float *source, int64_t columns, const int64_t *firsts, const int64_t *counts,
                      const float *weights, int64_t filters, float *target)
{
    for (int64_t start = 0; start < columns; start += PIECE) {
        int64_t width = columns - start < PIECE ? columns - start : PIECE;
        const float *weight = weights;
        for (int64_t i = 0; i < filters; i++) {
            const float *row = source + firsts[i] * columns + start;
            float *sum = target + i * columns + start;
            int64_t count = counts[i], j = 1;
            for (int64_t k = 0; k < width; k++)
                sum[k] = count ? weight[0] * row[k] : 0;
            for (; j + 1 < count; j += 2) {
                const float *next = row + j * columns, *after = next + columns;
                for (int64_t k = 0; k < width; k++)
                    sum[k] = sum[k] + weight[j] * next[k] + weight[j + 1] * after[k];
            }
            if (j < count)
                for (int64_t k = 0; k < width; k++)
                    sum[k] += weight[j] * row[j * columns + k];
            weight += count;
        }
    }
}
