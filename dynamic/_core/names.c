/* Ids of names: BLAKE2b of 8 bytes (RFC 7693), without a key. */
#include "core.h"

#include <string.h>

#define BLOCK 128
#define EACH 4096 /* names of a job */

static const uint64_t INITIAL[8] = {
    0x6a09e667f3bcc908u, 0xbb67ae8584caa73bu, 0x3c6ef372fe94f82bu, 0xa54ff53a5f1d36f1u,
    0x510e527fade682d1u, 0x9b05688c2b3e6c1fu, 0x1f83d9abfb41bd6bu, 0x5be0cd19137e2179u,
};

static const uint8_t ORDER[12][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4}, {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13}, {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11}, {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5}, {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
};

/* A name that is hashed as it comes. */
typedef struct {
    uint64_t words[8], count;
    uint8_t block[BLOCK];
    size_t held;
} hash;

static uint64_t turned(uint64_t word, int by) { return word >> by | word << (64 - by); }

static uint64_t word_at(const uint8_t *bytes)
{
    uint64_t word = 0;
    for (int k = 7; k >= 0; k--)
        word = word << 8 | bytes[k];
    return word;
}

static void mixed(uint64_t *v, int a, int b, int c, int d, uint64_t x, uint64_t y)
{
    v[a] += v[b] + x;
    v[d] = turned(v[d] ^ v[a], 32);
    v[c] += v[d];
    v[b] = turned(v[b] ^ v[c], 24);
    v[a] += v[b] + y;
    v[d] = turned(v[d] ^ v[a], 16);
    v[c] += v[d];
    v[b] = turned(v[b] ^ v[c], 63);
}

static void compressed(hash *one, int last)
{
    uint64_t v[16], m[16];
    for (int k = 0; k < 16; k++)
        m[k] = word_at(one->block + 8 * k);
    memcpy(v, one->words, 64);
    memcpy(v + 8, INITIAL, 64);
    v[12] ^= one->count;
    if (last)
        v[14] = ~v[14];
    for (int round = 0; round < 12; round++) {
        const uint8_t *s = ORDER[round];
        mixed(v, 0, 4, 8, 12, m[s[0]], m[s[1]]);
        mixed(v, 1, 5, 9, 13, m[s[2]], m[s[3]]);
        mixed(v, 2, 6, 10, 14, m[s[4]], m[s[5]]);
        mixed(v, 3, 7, 11, 15, m[s[6]], m[s[7]]);
        mixed(v, 0, 5, 10, 15, m[s[8]], m[s[9]]);
        mixed(v, 1, 6, 11, 12, m[s[10]], m[s[11]]);
        mixed(v, 2, 7, 8, 13, m[s[12]], m[s[13]]);
        mixed(v, 3, 4, 9, 14, m[s[14]], m[s[15]]);
    }
    for (int k = 0; k < 8; k++)
        one->words[k] ^= v[k] ^ v[8 + k];
}

static void added(hash *one, const uint8_t *bytes, size_t size)
{
    while (size) {
        if (one->held == BLOCK) { /* more follows, so it is not the last */
            one->count += BLOCK;
            compressed(one, 0);
            one->held = 0;
        }
        size_t part = size < BLOCK - one->held ? size : BLOCK - one->held;
        memcpy(one->block + one->held, bytes, part);
        one->held += part;
        bytes += part;
        size -= part;
    }
}

/* Names as `dynamic.readers._names.Names` has them. */
typedef struct {
    int64_t n, groups;
    const uint8_t *beginnings;
    extents beginning_ends, firsts;
    const uint8_t *own;
    extents ends;
    uint64_t *ids;
} naming;

static void hash_some(void *context, int64_t job)
{
    const naming *all = context;
    int64_t i = job * EACH, stop = i + EACH < all->n ? i + EACH : all->n, group = 0, above = all->groups;
    while (above - group > 1) { /* the last group that begins here or before */
        int64_t middle = group + (above - group) / 2;
        if (all->firsts[middle] <= i)
            group = middle;
        else
            above = middle;
    }
    for (; i < stop; i++) {
        while (all->firsts[group + 1] <= i)
            group++;
        hash one = {.held = 0};
        memcpy(one.words, INITIAL, 64);
        one.words[0] ^= 0x01010008u; /* 8 bytes, no key */
        added(&one, all->beginnings + all->beginning_ends[group],
              (size_t)(all->beginning_ends[group + 1] - all->beginning_ends[group]));
        if (all->own)
            added(&one, all->own + all->ends[i], (size_t)(all->ends[i + 1] - all->ends[i]));
        else {
            uint8_t digits[20];
            int count = 20;
            for (int64_t number = i - all->firsts[group]; count == 20 || number; number /= 10)
                digits[--count] = (uint8_t)('0' + number % 10);
            added(&one, digits + count, (size_t)(20 - count));
        }
        memset(one.block + one.held, 0, BLOCK - one.held);
        one.count += one.held;
        compressed(&one, 1);
        all->ids[i] = one.words[0];
    }
}

/* The ids of n names: each the beginning of its group, and bytes of its own, or its number in the group. */
EXPORT void core_name_ids(int64_t n, int64_t groups, const uint8_t *beginnings, extents beginning_ends, extents firsts,
                          const uint8_t *own, extents ends, uint64_t *ids, int threads)
{
    naming all = {n, groups, beginnings, beginning_ends, firsts, own, ends, ids};
    core_share(hash_some, &all, (n + EACH - 1) / EACH, threads);
}
