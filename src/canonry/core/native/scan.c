#include "scan_words.h"

/* The characters that the parser keeps in a host, one bit each as in bytes.h:
 * A-Z a-z 0-9 and ! " $ & ' ( ) * + , - . ; = _ ` { } ~ */
static const uint64_t IN_HOST[2] = {0x2bff7fd600000000, 0x6fffffff87fffffe};

void scan_plain(const uint8_t *text, size_t length, struct marks *marks)
{
    size_t words = (length + 63) / 64;
    marks->any_uncommon = 0;
    for (size_t at = 0; at < words; at++) {
        struct word word = {0};
        size_t end = length - at * 64 < 64 ? length - at * 64 : 64;
        for (size_t i = 0; i < end; i++) {
            uint8_t c = text[at * 64 + i];
            uint64_t bit = (uint64_t)1 << i;
            if (is_in(IN_HOST, c))
                word.host |= bit;
            if (!is_in(COMMON, c))
                word.uncommon |= bit;
            switch (c) {
            case '/': word.slash |= bit; break;
            case '.': word.dot |= bit; break;
            case '%': word.percent |= bit; break;
            case '?': word.question |= bit; break;
            case '#': word.hash |= bit; break;
            case ':': word.colon |= bit; break;
            case '-': word.dash |= bit; break;
            default:
                if (c >= 'A' && c <= 'Z')
                    word.upper |= bit;
            }
        }
        store_word(marks, at, &word);
    }
    struct word none = {0};
    store_word(marks, words, &none);
}

#ifdef CANONRY_AVX

AVX2 void scan_avx2(const uint8_t *text, size_t length, struct marks *marks)
{
    size_t words = length / 64, rest = length % 64;
    const struct word none = {0};
    marks->any_uncommon = 0;
    if (words == 0) {
        struct word word = classify_short(text, length);
        store_word(marks, 0, &word);
        store_word(marks, 1, &none);
        return;
    }
    for (size_t at = 0; at < words; at++) {
        struct word word = classify_64(text + at * 64);
        store_word(marks, at, &word);
    }
    if (rest) { /* the last 64 bytes of the text; the bits that the previous word contains are shifted out */
        struct word word = classify_64(text + length - 64), moved;
        FOR_EACH_FIELD(moved, word, bits >> (64 - rest));
        store_word(marks, words++, &moved);
    }
    store_word(marks, words, &none);
}

AVX512 void scan_avx512(const uint8_t *text, size_t length, struct marks *marks)
{
    const struct word none = {0};
    size_t at = 0;
    marks->any_uncommon = 0;
    for (; at * 64 < length; at++) {
        struct word word = classify_masked(text + at * 64, length - at * 64);
        store_word(marks, at, &word);
    }
    store_word(marks, at, &none);
}

#endif
