/* Normalize a URL under a policy, if the URL is provably simple; every other URL is left to the reference
 * (normalize.py).
 *
 * This file does not use Python, so that a fuzzer can drive it. Every rule does what rules.py does, in the
 * order of normalize.py. An answer has at most MAX_URL_BYTES + 1 bytes: only a missing path adds one.
 */
#ifndef CANONRY_URL_H
#define CANONRY_URL_H

#include "answer.h"

/* What a rewrite function returns instead of the length of the answer. */
enum {
    UNCHANGED = 0,        /* the text is the answer, `out` holds nothing */
    NEEDS_REFERENCE = -1, /* not simple: normalize.py has to answer */
    NEEDS_REPAIR = -2,   /* simple after repair.c has repaired it; never returned to other files */
};

/* Rewrite the text under the rules. Returns UNCHANGED, NEEDS_REFERENCE, or the length of the answer in out. */
typedef ptrdiff_t (*rewrite_function)(const struct rules *rules, const uint8_t *text, size_t length,
                                      uint8_t out[ANSWER_BYTES]);

struct rewriter {
    const char *name; /* "avx512", "avx2" or "plain" */
    rewrite_function rewrite;
};

/* The rewriter of this name, the fastest one if it is NULL; NULL if this processor cannot run it. */
const struct rewriter *choose_rewriter(const char *name);

#endif
