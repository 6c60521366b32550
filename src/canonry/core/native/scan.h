/* Which characters stand where in a URL, as bits: one 64-bit word for every 64 bytes of text.
 *
 * Nothing is read outside text[0..length): the last block of a text is read backwards from its end
 * and its bits are shifted into place. Two ways to the same bits: AVX2, and plain C for the rest.
 */
#ifndef CANONRY_SCAN_H
#define CANONRY_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#define CANONRY_WIDE 1
#include <immintrin.h>
#endif

#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define COLD __attribute__((noinline, cold))

enum {
    SHORTEST = 8,   /* http://a */
    LONGEST = 2048, /* a longer URL is handed back */
    WORDS = LONGEST / 64,
};

/* Sets of ASCII characters as bit maps, the lower 64 first. */
static const uint64_t COMMON[2] = {0xafffff7a00000000, 0x57fffffeafffffff};     /* nothing to do behind the host */
static const uint64_t IN_HOST[2] = {0x2bff7fd600000000, 0x6fffffff87fffffe};    /* kept in a host by the parser */
static const uint64_t UNRESERVED[2] = {0x03ff600000000000, 0x47fffffe87fffffe}; /* A-Z a-z 0-9 - . _ ~ */

ALWAYS_INLINE bool is_in(const uint64_t set[2], uint8_t c)
{
    return c < 128 && (set[c >> 6] >> (c & 63) & 1);
}

/* The bits of a text; each array ends with a word of zeros, so that a look at the next is safe. */
struct marks {
    uint64_t odd[WORDS + 1]; /* not COMMON */
    uint64_t slash[WORDS + 1];
    uint64_t dot[WORDS + 1];
    uint64_t percent[WORDS + 1];
    uint64_t question[WORDS + 1];
    uint64_t hash[WORDS + 1];
    uint64_t host, dash, upper; /* of the first word only */
    uint64_t any_odd;
};

/* The bits of one word. */
struct word {
    uint64_t odd, slash, dot, percent, question, hash, host, dash, upper;
};

ALWAYS_INLINE void put_word(struct marks *marks, size_t at, const struct word *word)
{
    marks->odd[at] = word->odd;
    marks->slash[at] = word->slash;
    marks->dot[at] = word->dot;
    marks->percent[at] = word->percent;
    marks->question[at] = word->question;
    marks->hash[at] = word->hash;
    marks->any_odd |= word->odd;
    if (at == 0) {
        marks->host = word->host;
        marks->dash = word->dash;
        marks->upper = word->upper;
    }
}

static void scan_plain(const uint8_t *text, size_t length, struct marks *marks)
{
    size_t words = (length + 63) / 64;
    marks->any_odd = 0;
    for (size_t at = 0; at < words; at++) {
        struct word word = {0};
        size_t end = length - at * 64 < 64 ? length - at * 64 : 64;
        for (size_t i = 0; i < end; i++) {
            uint8_t c = text[at * 64 + i];
            uint64_t bit = (uint64_t)1 << i;
            if (is_in(IN_HOST, c))
                word.host |= bit;
            if (!is_in(COMMON, c))
                word.odd |= bit;
            switch (c) {
            case '/': word.slash |= bit; break;
            case '.': word.dot |= bit; break;
            case '%': word.percent |= bit; break;
            case '?': word.question |= bit; break;
            case '#': word.hash |= bit; break;
            case '-': word.dash |= bit; break;
            default:
                if (c >= 'A' && c <= 'Z')
                    word.upper |= bit;
            }
        }
        put_word(marks, at, &word);
    }
    struct word none = {0};
    put_word(marks, words, &none);
}

#ifdef CANONRY_WIDE

#define WIDE __attribute__((target("avx2,bmi,bmi2,lzcnt")))
#define WIDE_INLINE static inline __attribute__((always_inline, target("avx2,bmi,bmi2,lzcnt")))

WIDE_INLINE uint32_t equal(__m256i bytes, char c)
{
    return (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(bytes, _mm256_set1_epi8(c)));
}

/* The bits of 32 bytes, in the lower half of each word. A byte is in a set if the bit of its row
 * (upper four bits) is in the set's entry for its column (lower four); beyond ASCII nothing is. */
WIDE_INLINE struct word look(__m256i bytes)
{
    const __m256i rows = _mm256_setr_epi8(
        0, 0, 4, 8, 16, 32, 64, (char)128, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 8, 16, 32, 64, (char)128, 0, 0, 0, 0, 0, 0, 0, 0);
    const __m256i common = _mm256_broadcastsi128_si256(_mm_setr_epi8(
        (char)0xb8, (char)0xfc, (char)0xf8, (char)0xfc, (char)0xfc, (char)0xfc, (char)0xfc, (char)0xf8,
        (char)0xfc, (char)0xfc, (char)0xfc, 0x7c, (char)0xd4, 0x7c, (char)0xd4, 0x7c));
    const __m256i in_host = _mm256_broadcastsi128_si256(_mm_setr_epi8(
        (char)0xe8, (char)0xfc, (char)0xfc, (char)0xf8, (char)0xfc, (char)0xf8, (char)0xfc, (char)0xfc,
        (char)0xfc, (char)0xfc, (char)0xf4, (char)0xdc, 0x54, (char)0xdc, (char)0xd4, 0x70));
    const __m256i none = _mm256_setzero_si256();
    __m256i row = _mm256_shuffle_epi8(rows, _mm256_and_si256(_mm256_srli_epi16(bytes, 4), _mm256_set1_epi8(15)));
    __m256i not_common = _mm256_cmpeq_epi8(_mm256_and_si256(_mm256_shuffle_epi8(common, bytes), row), none);
    __m256i not_host = _mm256_cmpeq_epi8(_mm256_and_si256(_mm256_shuffle_epi8(in_host, bytes), row), none);
    __m256i upper = _mm256_and_si256(_mm256_cmpgt_epi8(bytes, _mm256_set1_epi8('A' - 1)),
                                     _mm256_cmpgt_epi8(_mm256_set1_epi8('Z' + 1), bytes));
    return (struct word){
        .odd = (uint32_t)_mm256_movemask_epi8(not_common),
        .host = (uint32_t)~_mm256_movemask_epi8(not_host),
        .upper = (uint32_t)_mm256_movemask_epi8(upper),
        .slash = equal(bytes, '/'),
        .dot = equal(bytes, '.'),
        .percent = equal(bytes, '%'),
        .question = equal(bytes, '?'),
        .hash = equal(bytes, '#'),
        .dash = equal(bytes, '-'),
    };
}

/* Each field of a word put through one expression in `of`. */
#define EACH(to, from, expression) \
    do { \
        uint64_t of; \
        of = (from).odd, (to).odd = (expression); \
        of = (from).slash, (to).slash = (expression); \
        of = (from).dot, (to).dot = (expression); \
        of = (from).percent, (to).percent = (expression); \
        of = (from).question, (to).question = (expression); \
        of = (from).hash, (to).hash = (expression); \
        of = (from).host, (to).host = (expression); \
        of = (from).dash, (to).dash = (expression); \
        of = (from).upper, (to).upper = (expression); \
    } while (0)

WIDE_INLINE struct word merge(const struct word *low, const struct word *high, unsigned shift)
{
    return (struct word){
        .odd = low->odd | high->odd << shift,
        .slash = low->slash | high->slash << shift,
        .dot = low->dot | high->dot << shift,
        .percent = low->percent | high->percent << shift,
        .question = low->question | high->question << shift,
        .hash = low->hash | high->hash << shift,
        .host = low->host | high->host << shift,
        .dash = low->dash | high->dash << shift,
        .upper = low->upper | high->upper << shift,
    };
}

WIDE_INLINE struct word look_at_64(const uint8_t *text)
{
    struct word low = look(_mm256_loadu_si256((const __m256i *)text));
    struct word high = look(_mm256_loadu_si256((const __m256i *)(text + 32)));
    return merge(&low, &high, 32);
}

/* SHORTEST <= length < 64: two halves that overlap. */
WIDE_INLINE struct word look_at_few(const uint8_t *text, size_t length)
{
    if (length >= 32) {
        struct word low = look(_mm256_loadu_si256((const __m256i *)text));
        struct word high = look(_mm256_loadu_si256((const __m256i *)(text + length - 32)));
        return merge(&low, &high, (unsigned)length - 32);
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
    struct word word = look(both), low, high;
    EACH(low, word, of & all);
    EACH(high, word, of >> half & all);
    return merge(&low, &high, (unsigned)length - half);
}

WIDE_INLINE void scan_wide(const uint8_t *text, size_t length, struct marks *marks)
{
    size_t words = length / 64, rest = length % 64;
    const struct word none = {0};
    marks->any_odd = 0;
    if (words == 0) {
        struct word word = look_at_few(text, length);
        put_word(marks, 0, &word);
        put_word(marks, 1, &none);
        return;
    }
    for (size_t at = 0; at < words; at++) {
        struct word word = look_at_64(text + at * 64);
        put_word(marks, at, &word);
    }
    if (rest) {
        struct word word = look_at_64(text + length - 64), moved;
        EACH(moved, word, of >> (64 - rest));
        put_word(marks, words++, &moved);
    }
    put_word(marks, words, &none);
}

#undef EACH
#endif
#endif
