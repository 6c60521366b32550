/* Rule 12: the overrides of a user, the same as overrides.py and override_rules.py, on what override_programs.py writes.
 *
 *     overrides.c       the rounds, parameters, prefixes and the host
 *     override_path.c   the rules on the path
 */
#ifndef CANONRY_OVERRIDES_H
#define CANONRY_OVERRIDES_H

#include "url.h"

/* A list of texts:  u16 count · for each: u16 length · its bytes          numbers are little-endian */
struct texts {
    const uint8_t *at;
    unsigned count;
};

/* What override_programs.py writes for a host: the flags as one byte, then its lists of texts in the order of this enum. */
enum override_list {
    LIST_HOST,        /* none, or the host to write */
    LIST_DROP,        /* names of parameters; one that ends with `*` is a prefix */
    LIST_REWRITES,    /* from, to, from, to … */
    LIST_BELOW,       /* folder, names joined with `&`, … */
    LIST_AT,          /* path, names joined with `&`, … */
    LIST_VALUES,      /* name=value */
    LIST_PATH_PARAMS, /* names */
    LIST_SEGMENTS,    /* place (f, m or l) and segment, in one text */
    LIST_SHAPES,      /* place and shape */
    LIST_EXTENSIONS,
    LIST_SLUGS,       /* kind (a, b, e or s, its first letter) and template */
    LIST_MOVES,       /* path, parameter, new folder, … */
    LIST_COUNT,
};
enum override_flag {
    OVERRIDE_HAS_RULES = 1, OVERRIDE_STRIP_SLASH = 2, OVERRIDE_SORT = 4, OVERRIDE_LOWER_FIRST = 8, OVERRIDE_LOWER_MID = 16,
    OVERRIDE_LOWER_LAST = 32, OVERRIDE_HTTP = 64, OVERRIDE_HTTPS = 128,
};

struct override {
    unsigned flags;
    struct texts lists[LIST_COUNT];
};

/* Read the override of a host. Returns false if it does not end at `end`. */
bool read_override(const uint8_t *at, const uint8_t *end, struct override *override);

/* Apply the overrides to what `rewrite` has answered, then the other rules, until nothing changes; returns as a rewrite
 * function does. */
ptrdiff_t apply_overrides(const struct rules *rules, const uint8_t *text, size_t length, uint8_t out[ANSWER_BYTES],
                          ptrdiff_t answer, rewrite_function rewrite);

/* Change the path of a URL once; texts that are written are in `space`. Returns false if only the reference can. */
bool edit_path(const struct override *override, struct piece *path, struct bytes *space);

/* Read the next text of a list. */
ALWAYS_INLINE struct piece next_text(const uint8_t **at)
{
    struct piece text = {*at + 2, read_u16(*at)};
    *at += 2 + text.length;
    return text;
}

#endif
