/* Bytes at other sizes, by a linear filter that widens where the result is smaller.
 *
 * The arithmetic is that of cykooz-resizer 4, bit for bit: weights in double, rounded to 16 bits with as many digits
 * as the largest of them allows; sums in 32 bits; first down the columns, rounded to bytes, and then along the rows.
 */
#include "core.h"

#ifdef __AVX2__ /* otherwise cykooz-resizer is faster, and used */
#include <immintrin.h>
#include <math.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 4, SLACK = 64 };   /* rows that are made at once, and bytes behind them that may be read and written */
enum { LINE = 64, NEAR = 1 << 15 }; /* bytes that are fetched at once, and that stay in the fastest cache */
enum { DIGITS = 14, MOST = 21 }; /* of weights that may be 1; of any, so that sums of bytes have 32 bits */

/* For each pixel of a result along one dimension the pixels that it is made of, and their weights. */
typedef struct {
    int64_t size, taps; /* pixels, and weights of each: an even number, of which the last may be 0 */
    int64_t *starts;
    int16_t *weights; /* (size, taps) */
    int precision;    /* the digits of the weights behind the binary point */
    bool same;        /* whether pixels are taken as they are */
} filter;

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

static int64_t rounded(double value) /* halves away from 0, of what is not less than 0 */
{
    int64_t whole = (int64_t)value;
    return whole + (value - (double)whole >= 0.5);
}

/* The exact weights of a pixel whose middle is given, the first pixel that has one, and how many have. */
static int64_t weigh(double middle, double radius, int64_t room, int64_t *start, double *weights)
{
    double first = floor(middle - radius), end = ceil(middle + radius), narrower = 1 / radius, total = 0;
    int64_t last = end < (double)room ? (int64_t)end : room, count = 0;
    middle -= 0.5;
    for (int64_t x = first > 0 ? (int64_t)first : 0; x < last; x++) {
        double distance = fabs(((double)x - middle) * narrower), weight = distance < 1 ? 1 - distance : 0;
        if (!count && weight == 0)
            continue;
        *start = count ? *start : x;
        weights[count++] = weight;
        total += weight;
    }
    while (count && weights[count - 1] == 0)
        count--;
    for (int64_t k = 0; k < count; k++)
        weights[k] /= total;
    return count;
}

/* The filter of `size` pixels that show `length` pixels from `low` on, of which `extent` are there.
 *
 * False where memory is short. With `beyond`, there are so many more pixels whose values do not matter, and a filter
 * that reaches even farther is refused. */
static bool make_filter(filter *made, double low, double length, int64_t size, int64_t extent, int64_t beyond)
{
    double scale = (low + length - low) / (double)size, radius = scale > 1 ? scale : 1, top = 0;
    *made = (filter){.size = size, .same = (double)size == length && low == floor(low), .precision = DIGITS};
    int64_t window = made->same ? 1 : 2 * (int64_t)ceil(radius) + 1, longest = 1, room = extent + beyond;
    if (beyond && !made->same && ceil(low + ((double)size - 0.5) * scale + radius) > (double)room)
        return false;
    made->starts = calloc((size_t)size, sizeof *made->starts);
    double *exact = calloc((size_t)size, (size_t)window * sizeof *exact);
    for (int64_t i = 0; made->starts && exact && i < size; i++) {
        double *weights = exact + i * window, middle = low + ((double)i + 0.5) * scale;
        made->starts[i] = made->same ? (int64_t)low + i : i ? made->starts[i - 1] : 0;
        if (made->same)
            *weights = 1;
        else
            longest = most(longest, weigh(middle, radius, room, made->starts + i, weights));
        for (int64_t k = 0; k < longest; k++)
            top = weights[k] > top ? weights[k] : top;
    }
    made->taps = (longest + 1) / 2 * 2;
    made->weights = made->starts && exact ? calloc((size_t)size, (size_t)made->taps * sizeof *made->weights) : NULL;
    while (made->precision < MOST && rounded(top * (2 << made->precision)) < 1 << 15)
        made->precision++;
    for (int64_t i = 0; made->weights && i < size; i++)
        for (int64_t k = 0; k < longest; k++)
            made->weights[i * made->taps + k] = (int16_t)rounded(exact[i * window + k] * (1 << made->precision));
    free(exact);
    return made->weights != NULL;
}

/* Weighted sums of an even number of rows of n bytes. */
static void blend(const uint8_t *const *rows, const int16_t *weights, int64_t taps, int precision, int64_t n,
                  uint8_t *out)
{
    const int32_t half = 1 << (precision - 1);
    int64_t i = 0;
    const __m256i zero = _mm256_setzero_si256(), halves = _mm256_set1_epi32(half);
    const __m128i shift = _mm_cvtsi32_si128(precision);
    for (; n >= 32 && i < n; i += 32) {
        i = least(i, n - 32); /* some of the last are made twice */
        __m256i a = halves, b = halves, c = halves, d = halves;
        for (int64_t k = 0; k < taps; k += 2) {
            int32_t both;
            memcpy(&both, weights + k, sizeof both);
            __m256i w = _mm256_set1_epi32(both);
            __m256i upper = _mm256_loadu_si256((const __m256i *)(rows[k] + i));
            __m256i lower = _mm256_loadu_si256((const __m256i *)(rows[k + 1] + i));
            __m256i low = _mm256_unpacklo_epi8(upper, lower), high = _mm256_unpackhi_epi8(upper, lower);
            a = _mm256_add_epi32(a, _mm256_madd_epi16(_mm256_unpacklo_epi8(low, zero), w));
            b = _mm256_add_epi32(b, _mm256_madd_epi16(_mm256_unpackhi_epi8(low, zero), w));
            c = _mm256_add_epi32(c, _mm256_madd_epi16(_mm256_unpacklo_epi8(high, zero), w));
            d = _mm256_add_epi32(d, _mm256_madd_epi16(_mm256_unpackhi_epi8(high, zero), w));
        }
        a = _mm256_packs_epi32(_mm256_sra_epi32(a, shift), _mm256_sra_epi32(b, shift));
        c = _mm256_packs_epi32(_mm256_sra_epi32(c, shift), _mm256_sra_epi32(d, shift));
        _mm256_storeu_si256((__m256i *)(out + i), _mm256_packus_epi16(a, c));
    }
    for (; i < n; i++) {
        int32_t sum = half;
        for (int64_t k = 0; k < taps; k++)
            sum += rows[k][i] * weights[k];
        out[i] = (uint8_t)least(sum >> precision, 255);
    }
}

/* How rows become narrower or wider. */
typedef struct {
    filter filter;
    int64_t channels, unit, fold, stride; /* between the rows, in bytes */
    bool mirrored, copied;
    struct step *steps;
} horizontal;

/* Two taps of eight values of a result, four in each half: where their bytes are, and their weights. */
typedef struct step {
    int64_t from[2];
    uint8_t places[32];
    int16_t weights[16];
} step;

/* Find the steps of a row: those of the same values follow each other.
 *
 * A half has `unit` values: four, or where their bytes lie too far apart those of one pixel. Where these are one or
 * two, it has sums of `fold` parts of the taps of each. */
static bool prepare(horizontal *how)
{
    const filter *along = &how->filter;
    int64_t size = along->size, channels = how->channels, widest = 0;
    for (int64_t x = 1; x < size; x++)
        widest = most(widest, along->starts[x] - along->starts[x - 1]);
    int64_t pixels = channels == 4 ? 1 : channels == 1 ? 4 : 2; /* that four values may lie in */
    int64_t unit = how->unit = (widest * (pixels - 1) + 2) * channels <= 16 ? 4 : channels;
    int64_t fold = how->fold = 4 / unit, halves = (size * channels + unit - 1) / unit;
    int64_t each = (along->taps / 2 + fold - 1) / fold; /* steps */
    step *steps = how->steps = calloc((size_t)(halves + 1) / 2 * (size_t)each, sizeof *steps);
    for (int64_t half = 0; steps && half < halves; half++) {
        int64_t first = half * unit, count = least(unit, size * channels - first), starts[4], base = INT64_MAX;
        const int16_t *weights[4];
        for (int64_t j = 0; j < count; j++) {
            int64_t x = (first + j) / channels, at = how->mirrored ? size - 1 - x : x;
            starts[j] = along->starts[at], weights[j] = along->weights + at * along->taps;
            base = least(base, starts[j]);
        }
        for (int64_t k = 0; k < each; k++) {
            step *one = steps + half / 2 * each + k;
            uint8_t *places = memset(one->places + 16 * (half & 1), 0x80, 16); /* which makes zeros */
            one->from[half & 1] = base * channels;
            for (int64_t j = 0; j < count * fold; j++) {
                int64_t value = j % count, part = j / count, tap = 2 * (k * fold + part), lane = part * unit + value;
                int64_t place = (starts[value] - base + 2 * part) * channels + (first + value) % channels;
                if (tap >= along->taps)
                    continue;
                places[4 * lane] = (uint8_t)place, places[4 * lane + 2] = (uint8_t)(place + channels);
                memcpy(one->weights + 8 * (half & 1) + 2 * lane, weights[value] + tap, 2 * sizeof(int16_t));
            }
        }
    }
    return steps;
}

/* As `across`; the compiler knows the numbers of steps and values where they are usual. */
static inline __attribute__((always_inline)) void across_as(const horizontal *how, int64_t each, int unit,
                                                            const uint8_t *rows, uint8_t *out, int64_t made)
{
    const filter *along = &how->filter;
    const __m256i half = _mm256_set1_epi32(1 << (along->precision - 1));
    const __m256i together = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    const __m128i shift = _mm_cvtsi32_si128(along->precision);
    const int64_t stride = how->stride, next = 2 * how->fold * how->channels;
    uint8_t close[16] = {0}; /* of the four bytes of each half those that are wanted */
    for (int j = 0; j < 4 * unit; j++)
        close[j / (2 * unit) * 8 + j % (2 * unit)] = (uint8_t)(j / unit * 4 + j % unit);
    const step *one = how->steps;
    for (int64_t x = 0; x < along->size * how->channels; x += 2 * unit) {
        __m256i sums[ROWS] = {0};
        const uint8_t *left = rows + one->from[0], *right = rows + one->from[1];
        for (int64_t k = 0; k < each; k++, one++, left += next, right += next) {
            __m256i places = _mm256_loadu_si256((const __m256i *)one->places);
            __m256i weights = _mm256_loadu_si256((const __m256i *)one->weights);
            for (int r = 0; r < ROWS; r++) {
                __m128i low = _mm_loadu_si128((const __m128i *)(left + r * stride));
                __m128i high = _mm_loadu_si128((const __m128i *)(right + r * stride));
                __m256i pixels = _mm256_shuffle_epi8(_mm256_set_m128i(high, low), places);
                sums[r] = _mm256_add_epi32(sums[r], _mm256_madd_epi16(pixels, weights));
            }
        }
        for (int r = 0; r < ROWS; r++) {
            if (unit < 3)
                sums[r] = _mm256_add_epi32(sums[r], _mm256_shuffle_epi32(sums[r], 0x4E));
            if (unit < 2)
                sums[r] = _mm256_add_epi32(sums[r], _mm256_shuffle_epi32(sums[r], 0xB1));
            sums[r] = _mm256_sra_epi32(_mm256_add_epi32(sums[r], half), shift);
        }
        __m256i upper = _mm256_packs_epi32(sums[0], sums[1]), lower = _mm256_packs_epi32(sums[2], sums[3]);
        __m256i found = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(upper, lower), together);
        __m128i two[2] = {_mm256_castsi256_si128(found), _mm256_extracti128_si256(found, 1)};
        for (int r = 0; r < ROWS; r += 2) {
            if (unit < 4)
                two[r / 2] = _mm_shuffle_epi8(two[r / 2], _mm_loadu_si128((const __m128i *)close));
            int64_t first = _mm_cvtsi128_si64(two[r / 2]), second = _mm_extract_epi64(two[r / 2], 1);
            memcpy(out + x + r * made, &first, sizeof first);
            memcpy(out + x + (r + 1) * made, &second, sizeof second);
        }
    }
}

/* Four rows along their columns, to results that are `made` bytes apart, with bytes of no use behind them. */
static void across(const horizontal *how, const uint8_t *rows, uint8_t *out, int64_t made)
{
    int64_t each = (how->filter.taps / 2 + how->fold - 1) / how->fold;
    if (how->unit < 4)
        across_as(how, each, (int)how->unit, rows, out, made);
    else if (each == 1)
        across_as(how, 1, 4, rows, out, made);
    else if (each == 2)
        across_as(how, 2, 4, rows, out, made);
    else
        across_as(how, each, 4, rows, out, made);
}

/* A part of an image of bytes (H, W, C), and how it is shown. */
typedef struct {
    uint64_t image;
    int64_t strides[3], rows[2], columns[2]; /* the first one, and the one after the last */
    int64_t around[4];                       /* how many more pixels there are: above, below, before and after */
    uint64_t out;
    int64_t step, height, width, channels, mirrored;
    double box[4]; /* where the result lies in all these: left, upper edge, width, height */
} window;

/* Show pixels that follow each other: `rows` rows of n bytes, which are `stride` apart. */
static bool show(const window *one, const uint8_t *source, int64_t stride, int64_t rows, int64_t n, const filter *down,
                 const horizontal *along)
{
    const int64_t channels = one->channels, before = one->around[2] * channels, after = one->around[3] * channels;
    const int64_t width = one->width * channels, made = width + SLACK, above = one->around[0];
    const bool fetching = down->taps * n < NEAR; /* processors see less well that some rows are read at a time */
    uint8_t *memory = calloc(ROWS, (size_t)(along->stride + made)), *results = memory + ROWS * along->stride;
    uint8_t *out = (uint8_t *)(uintptr_t)one->out;
    const uint8_t **taken = calloc((size_t)down->taps, sizeof *taken);
    for (int64_t y = 0, fetched = 0; memory && taken && y < one->height; y += ROWS) {
        int64_t some = least(ROWS, one->height - y), next = least(y + 2 * ROWS, one->height) - 1;
        for (; fetching && fetched < least(rows, down->starts[next] + down->taps - above); fetched++)
            for (int64_t x = 0; x < n; x += LINE)
                __builtin_prefetch(source + fetched * stride + x);
        for (int64_t r = 0; r < some; r++) {
            uint8_t *inside = memory + r * along->stride + before;
            const int16_t *weights = down->weights + (y + r) * down->taps;
            int64_t taps = down->taps;
            while (taps > 2 && !weights[taps - 1] && !weights[taps - 2])
                taps -= 2;
            for (int64_t k = 0; k < taps; k++)
                taken[k] = source + most(0, least(down->starts[y + r] + k - above, rows - 1)) * stride;
            if (down->same)
                memcpy(inside, taken[0], (size_t)n);
            else
                blend(taken, weights, taps, down->precision, n, inside);
            for (int64_t x = 0; x < before; x++) /* as the pixels at the edges */
                inside[-1 - x] = inside[channels - 1 - x % channels];
            for (int64_t x = 0; x < after; x++)
                inside[n + x] = inside[n - channels + x % channels];
        }
        if (!along->copied)
            across(along, memory, results, made);
        const uint8_t *found = along->copied ? memory + along->filter.starts[0] * channels : results;
        for (int64_t r = 0; r < some; r++)
            memcpy(out + (y + r) * one->step, found + r * (along->copied ? along->stride : made), (size_t)width);
    }
    bool done = memory && taken;
    free(memory), free(taken);
    return done;
}

typedef struct {
    const window *windows;
    int64_t beyond;
    atomic_bool failed;
} batch;

static void show_one(void *context, int64_t i)
{
    batch *all = context;
    const window *one = all->windows + i;
    const int64_t rows = one->rows[1] - one->rows[0], columns = one->columns[1] - one->columns[0];
    const int64_t channels = one->channels, n = columns * channels, *strides = one->strides, *around = one->around;
    const uint8_t *source = (const uint8_t *)(uintptr_t)one->image;
    horizontal along = {.channels = channels, .mirrored = one->mirrored};
    filter down = {0};
    uint8_t *copy = NULL;
    source += one->rows[0] * strides[0] + one->columns[0] * strides[1];
    int64_t stride = strides[0], height = around[0] + rows + around[1], width = around[2] + columns + around[3];
    if (strides[1] != channels || (channels > 1 && strides[2] != 1)) { /* pixels or channels lie apart */
        copy = malloc((size_t)(rows * n));
        for (int64_t x = 0; copy && x < rows * n; x++)
            copy[x] = source[x / n * strides[0] + x % n / channels * strides[1] + x % channels * strides[2]];
        source = copy, stride = n;
    }
    bool done = source && make_filter(&down, one->box[1], one->box[3], one->height, height, all->beyond) &&
                make_filter(&along.filter, one->box[0], one->box[2], one->width, width, all->beyond);
    along.copied = along.filter.same && !along.mirrored;
    along.stride = (width + all->beyond + along.filter.taps + 8) * channels + SLACK; /* steps read some taps more */
    done = done && (along.copied || prepare(&along)) && show(one, source, stride, rows, n, &down, &along);
    if (!done)
        all->failed = true;
    free(down.starts), free(down.weights), free(along.filter.starts), free(along.filter.weights);
    free(along.steps), free(copy);
}

/* `dynamic.kernels.cpu.resizer.show` of bytes with a linear filter, for n parts of images. Returns whether all are
 * there: memory may be short, or a filter reach beyond `beyond` more pixels whose values do not matter. */
EXPORT int core_resize(const void *windows, int64_t n, int64_t beyond, int threads)
{
    batch all = {windows, beyond, false};
    core_share(show_one, &all, n, threads);
    return !all.failed;
}

EXPORT int core_resize_is_quick(void) { return 1; }
#else
EXPORT int core_resize_is_quick(void) { return 0; }
#endif
