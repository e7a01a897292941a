/* Signals: resampled, and searched for silence. */
#include "core.h"

#include <math.h>

enum { LANES = 8, RESOLUTION = 32 };

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
