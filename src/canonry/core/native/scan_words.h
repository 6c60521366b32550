/* How the scanners classify characters, 32 at a time with AVX2, 64 with AVX-512; url.c scans short texts itself, so that
 * their marks stay in registers. */
#ifndef CANONRY_SCAN_WORDS_H
#define CANONRY_SCAN_WORDS_H

#include "scan.h"

/* The bits of one word, that is, of 64 bytes of text. */
struct word {
    uint64_t uncommon, slash, dot, percent, question, hash, colon, host, dash, upper;
};

ALWAYS_INLINE void store_word(struct marks *marks, size_t at, const struct word *word)
{
    marks->uncommon[at] = word->uncommon;
    marks->slash[at] = word->slash;
    marks->dot[at] = word->dot;
    marks->percent[at] = word->percent;
    marks->question[at] = word->question;
    marks->hash[at] = word->hash;
    marks->colon[at] = word->colon;
    marks->any_uncommon |= word->uncommon;
    if (at == 0) {
        marks->host = word->host;
        marks->dash = word->dash;
        marks->upper = word->upper;
    }
}

/* The first word of the marks of a text; `uncommon` is that of all its words. */
ALWAYS_INLINE struct word get_first_word(const struct marks *marks)
{
    return (struct word){
        .uncommon = marks->any_uncommon, .slash = marks->slash[0], .dot = marks->dot[0], .percent = marks->percent[0],
        .question = marks->question[0], .hash = marks->hash[0], .colon = marks->colon[0], .host = marks->host,
        .dash = marks->dash, .upper = marks->upper,
    };
}

#ifdef CANONRY_AVX
#include <immintrin.h>

#define AVX2_INLINE static inline __attribute__((always_inline, target("avx2,bmi,bmi2,lzcnt")))
#define AVX512_INLINE static inline __attribute__((always_inline, target("avx512f,avx512bw,avx512vl,avx2,bmi,bmi2,lzcnt")))

AVX2_INLINE uint32_t find_byte(__m256i bytes, char c)
{
    return (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(bytes, _mm256_set1_epi8(c)));
}

/* A set of ASCII characters is a table of 16 columns by 8 rows; one shuffle looks up 32 or 64 bytes at once:
 *
 *     byte  0x2d '-'  =  0010 1101
 *                        row  column
 *     columns[0xd]  =  the rows in which column 0xd is in the set, one bit each
 *     rows[0x2]     =  1 << 2, the bit of row 2; 0 for rows 8 to 15, which are not ASCII
 *     the byte is in the set if columns[0xd] & rows[0x2] is not 0
 */
#define ROWS _mm_setr_epi8(0, 0, 4, 8, 16, 32, 64, (char)128, 0, 0, 0, 0, 0, 0, 0, 0)
#define COMMON_COLUMNS \
    _mm_setr_epi8((char)0xb8, (char)0xfc, (char)0xf8, (char)0xfc, (char)0xfc, (char)0xfc, (char)0xfc, (char)0xf8, \
                  (char)0xfc, (char)0xfc, (char)0xfc, 0x7c, (char)0xd4, 0x7c, (char)0xd4, 0x7c)
#define HOST_COLUMNS \
    _mm_setr_epi8((char)0xe8, (char)0xfc, (char)0xfc, (char)0xf8, (char)0xfc, (char)0xf8, (char)0xfc, (char)0xfc, \
                  (char)0xfc, (char)0xfc, (char)0xf4, (char)0xdc, 0x54, (char)0xdc, (char)0xd4, 0x70)

/* The bits of 32 bytes, in the lower half of each word. */
AVX2_INLINE struct word classify_32(__m256i bytes)
{
    const __m256i rows = _mm256_broadcastsi128_si256(ROWS);
    const __m256i common = _mm256_broadcastsi128_si256(COMMON_COLUMNS);
    const __m256i in_host = _mm256_broadcastsi128_si256(HOST_COLUMNS);
    const __m256i none = _mm256_setzero_si256();
    __m256i row = _mm256_shuffle_epi8(rows, _mm256_and_si256(_mm256_srli_epi16(bytes, 4), _mm256_set1_epi8(15)));
    __m256i not_common = _mm256_cmpeq_epi8(_mm256_and_si256(_mm256_shuffle_epi8(common, bytes), row), none);
    __m256i not_host = _mm256_cmpeq_epi8(_mm256_and_si256(_mm256_shuffle_epi8(in_host, bytes), row), none);
    __m256i upper = _mm256_and_si256(_mm256_cmpgt_epi8(bytes, _mm256_set1_epi8('A' - 1)),
                                     _mm256_cmpgt_epi8(_mm256_set1_epi8('Z' + 1), bytes));
    return (struct word){
        .uncommon = (uint32_t)_mm256_movemask_epi8(not_common),
        .host = (uint32_t)~_mm256_movemask_epi8(not_host),
        .upper = (uint32_t)_mm256_movemask_epi8(upper),
        .slash = find_byte(bytes, '/'),
        .dot = find_byte(bytes, '.'),
        .percent = find_byte(bytes, '%'),
        .question = find_byte(bytes, '?'),
        .hash = find_byte(bytes, '#'),
        .colon = find_byte(bytes, ':'),
        .dash = find_byte(bytes, '-'),
    };
}

/* Set every field of the word `to` to an expression in `bits`, which is that field of the word `from`. */
#define FOR_EACH_FIELD(to, from, expression) \
    do { \
        uint64_t bits; \
        bits = (from).uncommon, (to).uncommon = (expression); \
        bits = (from).slash, (to).slash = (expression); \
        bits = (from).dot, (to).dot = (expression); \
        bits = (from).percent, (to).percent = (expression); \
        bits = (from).question, (to).question = (expression); \
        bits = (from).hash, (to).hash = (expression); \
        bits = (from).colon, (to).colon = (expression); \
        bits = (from).host, (to).host = (expression); \
        bits = (from).dash, (to).dash = (expression); \
        bits = (from).upper, (to).upper = (expression); \
    } while (0)

AVX2_INLINE struct word merge_words(const struct word *low, const struct word *high, unsigned shift)
{
    return (struct word){
        .uncommon = low->uncommon | high->uncommon << shift,
        .slash = low->slash | high->slash << shift,
        .dot = low->dot | high->dot << shift,
        .percent = low->percent | high->percent << shift,
        .question = low->question | high->question << shift,
        .hash = low->hash | high->hash << shift,
        .colon = low->colon | high->colon << shift,
        .host = low->host | high->host << shift,
        .dash = low->dash | high->dash << shift,
        .upper = low->upper | high->upper << shift,
    };
}

AVX2_INLINE struct word classify_64(const uint8_t *text)
{
    struct word low = classify_32(_mm256_loadu_si256((const __m256i *)text));
    struct word high = classify_32(_mm256_loadu_si256((const __m256i *)(text + 32)));
    return merge_words(&low, &high, 32);
}

/* A text of MIN_URL_BYTES to 64 bytes, read as two halves that overlap:
 *
 *     text        0 . . . . . . . . . . . . . . . . . . . 20      length = 21
 *     low half    0 . . . . . . . . . . . . . . 15
 *     high half             5 . . . . . . . . . . . . . . 20      its bits are shifted left by 21 - 16
 */
AVX2_INLINE struct word classify_short(const uint8_t *text, size_t length)
{
    if (length >= 32) {
        struct word low = classify_32(_mm256_loadu_si256((const __m256i *)text));
        struct word high = classify_32(_mm256_loadu_si256((const __m256i *)(text + length - 32)));
        return merge_words(&low, &high, (unsigned)length - 32);
    }
    __m256i both;
    unsigned half;
    if (length >= 16) {
        half = 16;
        both = _mm256_set_m128i(_mm_loadu_si128((const __m128i *)(text + length - 16)),
                                _mm_loadu_si128((const __m128i *)text));
    } else {
        half = 8;
        both = _mm256_castsi128_si256(_mm_unpacklo_epi64(_mm_loadl_epi64((const __m128i *)text),
                                                         _mm_loadl_epi64((const __m128i *)(text + length - 8))));
    }
    const uint64_t all = ((uint64_t)1 << half) - 1;
    struct word word = classify_32(both), low, high;
    FOR_EACH_FIELD(low, word, bits & all);
    FOR_EACH_FIELD(high, word, bits >> half & all);
    return merge_words(&low, &high, (unsigned)length - half);
}

/* The bits of the first 64 bytes of a text, or of all of a shorter one: a masked load reads nothing else. */
AVX512_INLINE struct word classify_masked(const uint8_t *text, size_t length)
{
    const __m512i rows = _mm512_broadcast_i32x4(ROWS);
    const __m512i common = _mm512_broadcast_i32x4(COMMON_COLUMNS);
    const __m512i in_host = _mm512_broadcast_i32x4(HOST_COLUMNS);
    __mmask64 here = length < 64 ? ((__mmask64)1 << length) - 1 : ~(__mmask64)0;
    __m512i bytes = _mm512_maskz_loadu_epi8(here, text);
    __m512i row = _mm512_shuffle_epi8(rows, _mm512_and_si512(_mm512_srli_epi16(bytes, 4), _mm512_set1_epi8(15)));
    return (struct word){
        .uncommon = _mm512_mask_testn_epi8_mask(here, _mm512_shuffle_epi8(common, bytes), row),
        .host = _mm512_test_epi8_mask(_mm512_shuffle_epi8(in_host, bytes), row),
        .upper = _mm512_cmplt_epu8_mask(_mm512_sub_epi8(bytes, _mm512_set1_epi8('A')), _mm512_set1_epi8(26)),
        .slash = _mm512_cmpeq_epi8_mask(bytes, _mm512_set1_epi8('/')),
        .dot = _mm512_cmpeq_epi8_mask(bytes, _mm512_set1_epi8('.')),
        .percent = _mm512_cmpeq_epi8_mask(bytes, _mm512_set1_epi8('%')),
        .question = _mm512_cmpeq_epi8_mask(bytes, _mm512_set1_epi8('?')),
        .hash = _mm512_cmpeq_epi8_mask(bytes, _mm512_set1_epi8('#')),
        .colon = _mm512_cmpeq_epi8_mask(bytes, _mm512_set1_epi8(':')),
        .dash = _mm512_cmpeq_epi8_mask(bytes, _mm512_set1_epi8('-')),
    };
}

#endif

#endif
