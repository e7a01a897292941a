/* FLAC (RFC 9639) of 8 to 24 bits. Whatever is unusual or damaged is left to libsndfile, which names the fault. */
#include "core.h"

#include <string.h>

enum { MOST_CHANNELS = 8, MOST_ORDER = 32 };
enum { FLOATS, SHORTS, WORDS };

/* Bits from the first to the last: `bits` has `count` of them at its top, and may have more that are right. */
typedef struct {
    const uint8_t *next, *end;
    uint64_t bits;
    int count, over;
} reader;

static inline void refill(reader *r)
{
    if (r->end - r->next >= 8) {
        uint64_t word;
        memcpy(&word, r->next, 8);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
        word = __builtin_bswap64(word);
#endif
        r->bits |= word >> r->count;
        r->next += (63 - r->count) >> 3;
        r->count |= 56;
        return;
    }
    r->bits &= r->count ? ~UINT64_C(0) << (64 - r->count) : 0;
    for (; r->count <= 55 && r->next < r->end; r->count += 8)
        r->bits |= (uint64_t)*r->next++ << (56 - r->count);
}

static inline void drop(reader *r, int n)
{
    r->bits <<= n;
    r->count -= n;
}

/* A number of at most 32 bits; 0 beyond the end. */
static inline uint32_t take(reader *r, int n)
{
    if (r->count < n)
        refill(r);
    if (!n || r->count < n) {
        r->over |= n != 0;
        return 0;
    }
    uint32_t found = (uint32_t)(r->bits >> (64 - n));
    drop(r, n);
    return found;
}

static inline int32_t take_signed(reader *r, int n)
{
    return n ? (int32_t)(take(r, n) << (32 - n)) >> (32 - n) : 0;
}

/* How many zeros come before a one. */
static inline uint32_t zeros(reader *r)
{
    uint32_t found = 0;
    for (;;) {
        refill(r);
        int here = r->bits ? __builtin_clzll(r->bits) : 64;
        if (here < r->count) {
            drop(r, here);
            drop(r, 1);
            return found + (uint32_t)here;
        }
        if (!r->count || r->next >= r->end) {
            r->over = 1;
            return 0;
        }
        found += (uint32_t)r->count;
        drop(r, r->count);
    }
}

static int residual(reader *r, int32_t *values, uint32_t size, uint32_t order)
{
    uint32_t method = take(r, 2), partitions = take(r, 4), each = size >> partitions;
    int width = method ? 5 : 4;
    if (method > 1 || each << partitions != size || each < order)
        return 0;
    int32_t *value = values + order;
    for (uint32_t part = 0; part < 1u << partitions && !r->over; part++) {
        int k = (int)take(r, width);
        int32_t *end = values + (part + 1) * each;
        if (k == (1 << width) - 1) {
            for (int n = (int)take(r, 5); value < end; value++)
                *value = take_signed(r, n);
            continue;
        }
        for (; value < end; value++) {
            uint32_t high;
            refill(r);
            int here = r->bits ? __builtin_clzll(r->bits) : 64;
            if (here + 1 + k <= r->count) {
                uint64_t rest = r->bits << here << 1;
                high = (uint32_t)here << k | (k ? (uint32_t)(rest >> (64 - k)) : 0);
                r->bits = rest << k;
                r->count -= here + 1 + k;
            } else {
                high = zeros(r) << k;
                high |= take(r, k);
                if (r->over)
                    return 0;
            }
            *value = (int32_t)(high >> 1 ^ (0u - (high & 1)));
        }
    }
    return !r->over;
}

/* Sums wrap around: in a right file none does. */
static void fixed(int32_t *v, uint32_t size, uint32_t order)
{
    uint32_t *s = (uint32_t *)v;
    for (uint32_t i = order; i < size; i++) {
        if (order == 1)
            s[i] += s[i - 1];
        else if (order == 2)
            s[i] += 2 * s[i - 1] - s[i - 2];
        else if (order == 3)
            s[i] += 3 * s[i - 1] - 3 * s[i - 2] + s[i - 3];
        else if (order == 4)
            s[i] += 4 * s[i - 1] - 6 * s[i - 2] + 4 * s[i - 3] - s[i - 4];
    }
}

/* Weights are for the values from the oldest to the last. */
static inline void predicted(int32_t *v, uint32_t size, const int32_t *weights, uint32_t order, int shift, int narrow)
{
    if (narrow) {
        for (uint32_t i = order; i < size; i++) {
            uint32_t sum = 0;
            for (uint32_t j = 0; j < order; j++)
                sum += (uint32_t)weights[j] * (uint32_t)v[i - order + j];
            v[i] = (int32_t)((uint32_t)v[i] + (uint32_t)((int32_t)sum >> shift));
        }
        return;
    }
    for (uint32_t i = order; i < size; i++) {
        int64_t sum = 0;
        for (uint32_t j = 0; j < order; j++)
            sum += (int64_t)weights[j] * v[i - order + j];
        v[i] = (int32_t)((uint32_t)v[i] + (uint32_t)(sum >> shift));
    }
}

static int linear(reader *r, int32_t *v, uint32_t size, uint32_t order, int bits)
{
    int32_t weights[MOST_ORDER];
    int precision = (int)take(r, 4) + 1, shift = take_signed(r, 5), room = bits + precision;
    if (precision == 16 || shift < 0)
        return 0;
    for (uint32_t j = order; j-- > 0;)
        weights[j] = take_signed(r, precision);
    if (!residual(r, v, size, order))
        return 0;
    for (uint32_t half = order; half > 1; half = (half + 1) / 2)
        room++;
    switch (order) { /* usual orders have loops of their own */
    case 8: predicted(v, size, weights, 8, shift, room <= 32); break;
    case 12: predicted(v, size, weights, 12, shift, room <= 32); break;
    default: predicted(v, size, weights, order, shift, room <= 32);
    }
    return 1;
}

static int subframe(reader *r, int32_t *values, uint32_t size, int bits)
{
    uint32_t head = take(r, 8), kind = head >> 1 & 63, wasted = 0;
    if (head >> 7)
        return 0;
    if (head & 1)
        wasted = zeros(r) + 1;
    if (r->over || wasted >= (uint32_t)bits)
        return 0;
    bits -= (int)wasted;
    if (kind == 0) {
        int32_t value = take_signed(r, bits);
        for (uint32_t i = 0; i < size; i++)
            values[i] = value;
    } else if (kind == 1) {
        for (uint32_t i = 0; i < size; i++)
            values[i] = take_signed(r, bits);
    } else {
        uint32_t order = kind >= 32 ? kind - 31 : kind - 8;
        if (kind < 8 || (kind < 32 && kind > 12) || order > size)
            return 0;
        for (uint32_t i = 0; i < order; i++)
            values[i] = take_signed(r, bits);
        if (kind >= 32) {
            if (!linear(r, values, size, order, bits))
                return 0;
        } else {
            if (!residual(r, values, size, order))
                return 0;
            fixed(values, size, order);
        }
    }
    if (wasted)
        for (uint32_t i = 0; i < size; i++)
            values[i] = (int32_t)((uint32_t)values[i] << wasted);
    return !r->over;
}

/* The number of values of a frame; 0 where its header is none, or not of this file. `numbers` are those of the frame
 * and of its first value, of which it tells one. */
static uint32_t header(reader *r, int channels, int bits, uint64_t frame, uint64_t first, uint32_t *assignment)
{
    static const uint8_t widths[8] = {0, 8, 12, 0, 16, 20, 24, 32};
    uint32_t sync = take(r, 16), size = take(r, 4), rate = take(r, 4), code;
    *assignment = take(r, 4);
    code = take(r, 4);
    if (sync >> 1 != 0x7FFC || code & 1 || *assignment > 10 || rate == 15 || !size)
        return 0;
    if ((code >> 1 && widths[code >> 1] != bits) || (*assignment < 8 ? (int)*assignment + 1 : 2) != channels)
        return 0;
    uint64_t number = take(r, 8);
    int more = 0;
    while (more < 7 && number >> (7 - more) & 1)
        more++;
    if (more == 1)
        return 0;
    number &= 0x7Fu >> more;
    for (int i = 1; i < more; i++)
        number = number << 6 | (take(r, 8) & 63);
    if (number != (sync & 1 ? first : frame))
        return 0;
    size = size == 1 ? 192 : size < 6 ? 576u << (size - 2) : size < 8 ? take(r, size == 6 ? 8 : 16) + 1 : 256u << (size - 8);
    if (rate >= 12)
        take(r, rate == 12 ? 8 : 16);
    take(r, 8);
    return r->over ? 0 : size;
}

static void separate(int32_t *a, int32_t *b, uint32_t size, uint32_t assignment)
{
    uint32_t *left = (uint32_t *)a, *right = (uint32_t *)b;
    for (uint32_t i = 0; i < size; i++) {
        if (assignment == 8)
            right[i] = left[i] - right[i];
        else if (assignment == 9)
            left[i] += right[i];
        else {
            uint32_t side = right[i], twice = left[i] << 1 | (side & 1);
            left[i] = (uint32_t)((int32_t)(twice + side) >> 1);
            right[i] = (uint32_t)((int32_t)(twice - side) >> 1);
        }
    }
}

static void put(const int32_t *values, void *target, int64_t first, int64_t count, int channels, int bits, int kind)
{
    float *floats = (float *)target + first, scale = 1.0f / (float)(1 << (bits - 1));
    int16_t *shorts = (int16_t *)target + first;
    int32_t *words = (int32_t *)target + first;
    for (int64_t i = 0; i < count; i++) {
        int32_t value = values[i];
        if (kind == FLOATS)
            floats[i * channels] = (float)value * scale;
        else if (kind == WORDS)
            words[i * channels] = (int32_t)((uint32_t)value << (32 - bits));
        else
            shorts[i * channels] = (int16_t)(bits > 16 ? value >> (bits - 16) : (int32_t)((uint32_t)value << (16 - bits)));
    }
}

static void remainders(uint16_t table[8][256])
{
    for (int i = 0; i < 256; i++) {
        uint32_t found = (uint32_t)i << 8;
        for (int k = 0; k < 8; k++)
            found = found << 1 ^ (found & 0x8000 ? 0x18005 : 0);
        table[0][i] = (uint16_t)found;
    }
    for (int k = 1; k < 8; k++)
        for (int i = 0; i < 256; i++)
            table[k][i] = (uint16_t)(table[k - 1][i] << 8 ^ table[0][table[k - 1][i] >> 8]);
}

static uint16_t remainder_of(uint16_t table[8][256], const uint8_t *p, const uint8_t *end)
{
    uint16_t found = 0;
    for (; end - p >= 8; p += 8)
        found = table[7][(found >> 8) ^ p[0]] ^ table[6][(found & 255) ^ p[1]] ^ table[5][p[2]] ^ table[4][p[3]] ^
                table[3][p[4]] ^ table[2][p[5]] ^ table[1][p[6]] ^ table[0][p[7]];
    for (; p < end; p++)
        found = (uint16_t)(found << 8 ^ table[0][found >> 8 ^ *p]);
    return found;
}

/* Fill (count, channels) of floats in [-1, 1], or of int16 or int32 in their range, from the frames of a file; how many
 * are there before something is wrong. `memory` is for (channels, most) values of a frame. */
EXPORT int64_t core_flac(const uint8_t *data, int64_t length, int channels, int bits, int64_t count, int32_t *memory,
                         int64_t most, void *target, int kind)
{
    uint16_t table[8][256];
    const uint8_t *begin = data, *end = data + length;
    int64_t done = 0;
    if (channels < 1 || channels > MOST_CHANNELS || bits < 8 || bits > 24)
        return 0;
    remainders(table);
    for (uint64_t frame = 0; done < count; frame++) {
        reader r = {begin, end, 0, 0, 0};
        uint32_t assignment, size = header(&r, channels, bits, frame, (uint64_t)done, &assignment);
        if (!size || size > most)
            return done;
        for (int channel = 0; channel < channels; channel++) {
            int side = channel == (assignment == 9 ? 0 : 1) && assignment >= 8;
            if (!subframe(&r, memory + channel * most, size, bits + side))
                return done;
        }
        const uint8_t *close = r.next - (r.count >> 3);
        if (end - close < 2 || remainder_of(table, begin, close) != (close[0] << 8 | close[1]))
            return done;
        begin = close + 2;
        if (assignment >= 8)
            separate(memory, memory + most, size, assignment);
        int64_t some = count - done < size ? count - done : size;
        for (int channel = 0; channel < channels; channel++)
            put(memory + channel * most, target, done * channels + channel, some, channels, bits, kind);
        done += some;
    }
    return done;
}
