/* The parameters of a query, and the escapes in a text.
 *
 *     a=1&utm_id=x&b
 *         ^at             name = 6, the bytes of `utm_id`; length = 8, the bytes of `utm_id=x`
 *
 * Without `=`, name and length are equal.
 */
#ifndef CANONRY_PARAMS_H
#define CANONRY_PARAMS_H

#include "bytes.h"

enum { MAX_PARAMS = 64 }; /* the reference answers for a query with more */

struct param {
    const uint8_t *at;
    uint16_t name, length;
    bool has_percent; /* in the name */
    bool has_escape;  /* a `%` anywhere */
};

/* Split text[from .. to), which has at most MAX_URL_BYTES bytes, at each `&`. Returns the number of parameters, at
 * least 1; MAX_PARAMS + 1 if there are too many. All of text[0 .. to) must be readable. */
size_t split_params(const uint8_t *text, size_t from, size_t to, struct param params[MAX_PARAMS]);

/* Put a parameter in its place among `count` sorted ones; equal ones stay in order. Returns whether it is the last. */
bool insert_sorted(struct param params[MAX_PARAMS], size_t count, struct param param);

/* Rule 5: write every escape in one way, as normalize_escapes of rules.py does. Returns the new length; out has
 * `length` bytes, and may be the text. */
size_t normalize_escapes(const uint8_t *text, size_t length, uint8_t *out);

/* Rule 6: write each run of slashes as one. Returns the new length. */
size_t collapse_slashes(uint8_t *path, size_t length);

/* Decode each escape of a name once; out has `length` bytes, and may be the name. Returns the new length. */
size_t decode_name(const uint8_t *name, size_t length, uint8_t *out);

#endif
