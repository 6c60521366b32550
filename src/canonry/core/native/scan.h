/* Find the special characters of a URL, as one bit for every byte of text.
 *
 *     text      h t t p : / / a . d e / b ? c = 1 # e
 *     slash     0 0 0 0 0 1 1 0 0 0 0 1 0 0 0 0 0 0 0     bit 0 is on the left
 *     dot       0 0 0 0 0 0 0 0 1 0 0 0 0 0 0 0 0 0 0
 *     question  0 0 0 0 0 0 0 0 0 0 0 0 0 1 0 0 0 0 0
 *     hash      0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1 0
 *     colon     0 0 0 0 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0
 *
 * Byte i of the text is bit i % 64 of word i / 64. url.c then finds the end of the path, double
 * slashes and dot segments with a few operations on words instead of a loop over bytes.
 *
 * There are three scanners with equal results: AVX-512, AVX2, and plain C for other processors. None reads
 * outside text[0 .. length).
 */
#ifndef CANONRY_SCAN_H
#define CANONRY_SCAN_H

#include "bytes.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define CANONRY_AVX 1
#define AVX2 __attribute__((target("avx2,bmi,bmi2,lzcnt")))
#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx2,bmi,bmi2,lzcnt")))
#endif

enum {
    MIN_URL_BYTES = 8,    /* http://a */
    MAX_URL_BYTES = 2048, /* the reference answers for longer URLs */
    MARK_WORDS = MAX_URL_BYTES / 64 + 1, /* one word more, always 0, so that word i + 1 may be read */
};

/* The characters that the parser keeps everywhere after the host, one bit each as in bytes.h:
 * A-Z a-z 0-9 and ! # $ % & ( ) * + , - . / : ; = ? @ [ ] _ | ~ */
static const uint64_t COMMON[2] = {0xafffff7a00000000, 0x57fffffeafffffff};

struct marks {
    uint64_t uncommon[MARK_WORDS]; /* not in COMMON */
    uint64_t slash[MARK_WORDS];
    uint64_t dot[MARK_WORDS];
    uint64_t percent[MARK_WORDS];
    uint64_t question[MARK_WORDS];
    uint64_t hash[MARK_WORDS];
    uint64_t colon[MARK_WORDS];
    uint64_t host, dash, upper; /* only the first 64 bytes: a host that ends later is left to the reference */
    uint64_t any_uncommon;      /* 0 if no bit of `uncommon` is set */
};

/* Mark a text of MIN_URL_BYTES to MAX_URL_BYTES bytes. */
typedef void (*scan_function)(const uint8_t *text, size_t length, struct marks *marks);

void scan_plain(const uint8_t *text, size_t length, struct marks *marks);
#ifdef CANONRY_AVX
AVX2 void scan_avx2(const uint8_t *text, size_t length, struct marks *marks);
AVX512 void scan_avx512(const uint8_t *text, size_t length, struct marks *marks);
#endif

#endif
