#include "sha256.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define CANONRY_X86 1
#include <cpuid.h>
#include <immintrin.h>
#endif

static const uint32_t SHA256_START[8] = {
    0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
};
static const uint32_t SHA256_ROUND[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

ALWAYS_INLINE uint32_t rotate(uint32_t value, unsigned by)
{
    return value >> by | value << (32 - by);
}

void sha256_plain(uint32_t state[8], const uint8_t *blocks, size_t count)
{
    for (; count > 0; count--, blocks += 64) {
        uint32_t w[64], v[8];
        for (size_t i = 0; i < 16; i++)
            w[i] = (uint32_t)blocks[4 * i] << 24 | (uint32_t)blocks[4 * i + 1] << 16 |
                   (uint32_t)blocks[4 * i + 2] << 8 | blocks[4 * i + 3];
        for (size_t i = 16; i < 64; i++) {
            uint32_t a = w[i - 15], b = w[i - 2];
            w[i] = w[i - 16] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) + w[i - 7] +
                   (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
        }
        memcpy(v, state, sizeof v);
        for (size_t i = 0; i < 64; i++) {
            uint32_t e = v[4], a = v[0];
            uint32_t one = v[7] + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + ((e & v[5]) ^ (~e & v[6])) +
                           SHA256_ROUND[i] + w[i];
            uint32_t two = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));
            memmove(v + 1, v, 7 * sizeof *v);
            v[4] += one;
            v[0] = one + two;
        }
        for (size_t i = 0; i < 8; i++)
            state[i] += v[i];
    }
}

#ifdef CANONRY_X86
__attribute__((target("sha,sse4.1,ssse3"))) static void sha256_x86(uint32_t state[8], const uint8_t *blocks, size_t count)
{
    const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    /* The state a … h is eight 32-bit numbers; the instructions want them in this order, highest lane first:
     *
     *     state[0 .. 4)   d c b a   ->   abef   a b e f
     *     state[4 .. 8)   h g f e   ->   cdgh   c d g h
     */
    __m128i dcba = _mm_loadu_si128((const __m128i *)state), hgfe = _mm_loadu_si128((const __m128i *)(state + 4));
    __m128i badc = _mm_shuffle_epi32(dcba, 0xb1), efgh = _mm_shuffle_epi32(hgfe, 0x1b);
    __m128i abef = _mm_alignr_epi8(badc, efgh, 8), cdgh = _mm_blend_epi16(efgh, badc, 0xf0);

    for (; count > 0; count--, blocks += 64) {
        __m128i abef_before = abef, cdgh_before = cdgh, w[4];
        for (int i = 0; i < 4; i++)
            w[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(blocks + 16 * i)), big_endian);
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++) {
            __m128i now = w[i & 3];
            __m128i sum = _mm_add_epi32(now, _mm_loadu_si128((const __m128i *)(SHA256_ROUND + 4 * i)));
            cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
            abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0e));
            if (i < 12) {
                __m128i next = w[(i + 1) & 3], third = w[(i + 2) & 3], last = w[(i + 3) & 3];
                __m128i mixed = _mm_add_epi32(_mm_sha256msg1_epu32(now, next), _mm_alignr_epi8(last, third, 4));
                w[i & 3] = _mm_sha256msg2_epu32(mixed, last);
            }
        }
        abef = _mm_add_epi32(abef, abef_before);
        cdgh = _mm_add_epi32(cdgh, cdgh_before);
    }
    __m128i feba = _mm_shuffle_epi32(abef, 0x1b), dchg = _mm_shuffle_epi32(cdgh, 0xb1);
    _mm_storeu_si128((__m128i *)state, _mm_blend_epi16(feba, dchg, 0xf0));
    _mm_storeu_si128((__m128i *)(state + 4), _mm_alignr_epi8(dchg, feba, 8));
}
#endif

sha256_function choose_sha256(void)
{
#ifdef CANONRY_X86
    /* CPUID leaf 7, EBX bit 29: not every compiler knows the feature by its name. */
    unsigned a, b, c, d;
    if (__builtin_cpu_supports("sse4.1") && __builtin_cpu_supports("ssse3") && __get_cpuid_count(7, 0, &a, &b, &c, &d) &&
        b >> 29 & 1)
        return sha256_x86;
#endif
    return sha256_plain;
}

void sha256_hex(sha256_function sha256, const uint8_t *text, size_t length, uint8_t hex_digits[SHA256_HEX])
{
    /* The end of the message: what is left of the text, a byte 0x80, zeros, and the length in bits.
     *
     *     tail    r e s t 0x80 0 0 … 0 [8 bytes: bits]      one block of 64 bytes, or two if rest >= 56
     */
    uint32_t state[8];
    uint8_t tail[128] = {0};
    size_t whole = length / 64, rest = length % 64, tail_blocks = rest < 56 ? 1 : 2;
    memcpy(state, SHA256_START, sizeof state);
    sha256(state, text, whole);
    if (rest)
        memcpy(tail, text + whole * 64, rest);
    tail[rest] = 0x80;
    uint64_t bits = (uint64_t)length * 8;
    for (size_t i = 0; i < 8; i++)
        tail[tail_blocks * 64 - 1 - i] = (uint8_t)(bits >> (8 * i));
    sha256(state, tail, tail_blocks);
    uint8_t nibbles[SHA256_HEX];
    for (size_t i = 0; i < SHA256_HEX; i++)
        nibbles[i] = (uint8_t)(state[i / 8] >> (28 - 4 * (i % 8)) & 15);
    for (size_t i = 0; i < SHA256_HEX; i++) /* no table, so that the compiler can vectorize the loop */
        hex_digits[i] = (uint8_t)(nibbles[i] + '0' + (nibbles[i] > 9) * ('a' - '0' - 10));
}
