#include "simhash.h"

#define FNV_OFFSET 0xcbf29ce484222325u
#define FNV_PRIME 0x00000100000001b3u

/* FNV-1a of text[start … end - 1], mixed as MurmurHash3 does at its end (fmix64). */
static uint64_t hash_shingle(const uint8_t *text, size_t start, size_t end)
{
    uint64_t value = FNV_OFFSET;
    for (size_t i = start; i < end; i++)
        value = (value ^ text[i]) * FNV_PRIME;
    value = (value ^ value >> 33) * 0xff51afd7ed558ccdu;
    value = (value ^ value >> 33) * 0xc4ceb9fe1a85ec53u;
    return value ^ value >> 33;
}

/* How many hashes have each bit set. Eight counters of one byte share a word, so that eight additions count 64 bits:
 *
 *     small[i]   byte j counts bit 8 * j + i        (hash >> i) & 0x0101010101010101 has a 1 in byte j if it is set
 *     total[n]   counts bit n; the small counters are added to it before they overflow
 */
struct bit_counts {
    uint64_t small[8];
    uint64_t total[64];
    int uncounted; /* hashes in the small counters, at most 255 */
};

static void flush_counts(struct bit_counts *counts)
{
    for (int bit = 0; bit < 64; bit++)
        counts->total[bit] += counts->small[bit % 8] >> (bit - bit % 8) & 0xff;
    memset(counts->small, 0, sizeof counts->small);
    counts->uncounted = 0;
}

uint64_t simhash_text(const uint8_t *text, size_t length)
{
    struct bit_counts counts = {0};
    size_t starts[3] = {0}; /* starts[n % 3]: where word n begins */
    size_t word = 0, shingles = 0;
    if (length == 0)
        return 0;
    for (size_t end = 0; end <= length; end++) {
        if (end < length && text[end] != ' ')
            continue;
        if (word >= 2 || end == length) { /* a text of one or two words is one shingle */
            uint64_t hash = hash_shingle(text, word >= 2 ? starts[(word - 2) % 3] : 0, end);
            for (int i = 0; i < 8; i++)
                counts.small[i] += hash >> i & 0x0101010101010101u;
            shingles++;
            if (++counts.uncounted == 255)
                flush_counts(&counts);
        }
        starts[++word % 3] = end + 1;
    }
    flush_counts(&counts);
    uint64_t answer = 0;
    for (int bit = 0; bit < 64; bit++)
        answer |= (uint64_t)(2 * counts.total[bit] > shingles) << bit;
    return answer;
}
