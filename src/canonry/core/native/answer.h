/* An answer while it is written: the bytes in `out`, followed by one piece of the text that is not copied yet.
 *
 *     text    https://www.example.com/a#b
 *                         ^from        ^to       the piece: example.com/a
 *     out     https://
 *                     ^length
 *
 * Neighbouring pieces are joined, so that most of a URL is copied at once. As long as nothing was
 * written and the piece starts at 0, the answer is the text itself, and nothing needs to be copied.
 */
#ifndef CANONRY_ANSWER_H
#define CANONRY_ANSWER_H

#include "params.h"
#include "rules.h"
#include "scan.h"
#include "sites.h"

enum { ANSWER_BYTES = MAX_URL_BYTES + 64 }; /* the size of `out`; an answer has MAX_URL_BYTES + 1 bytes at most */

struct answer {
    const uint8_t *text;
    uint8_t *out; /* ANSWER_BYTES */
    size_t length;
    size_t from, to;
};

ALWAYS_INLINE void write_piece(struct answer *answer)
{
    copy_short(answer->out + answer->length, answer->text + answer->from, answer->to - answer->from);
    answer->length += answer->to - answer->from;
    answer->from = answer->to;
}

/* Append text[from .. to). */
ALWAYS_INLINE void append_piece(struct answer *answer, size_t from, size_t to)
{
    if (from != answer->to) {
        write_piece(answer);
        answer->from = from;
    }
    answer->to = to;
}

ALWAYS_INLINE void append_byte(struct answer *answer, uint8_t c)
{
    write_piece(answer);
    answer->out[answer->length++] = c;
}

/* Rules 5 to 7 for the path text[from .. to), which has escapes or double slashes. */
void append_path(const struct rules *rules, struct answer *answer, size_t from, size_t to);

/* Rules 5 to 7 for a path. Returns the new length; `path` has room for `length` bytes, and may be the text. */
size_t write_clean_path(const struct rules *rules, const uint8_t *text, size_t length, uint8_t *path);

/* The parameters that rule 9 drops on a host, and those that it must not drop because the site needs them. */
struct dropped {
    const struct names *names;
    const uint8_t *needs; /* a list of a site program, or NULL */
};

bool is_param_dropped(struct dropped dropped, const uint8_t *name, size_t length, bool has_percent);

/* Rule 5 for one parameter, which is then in `escaped`, from *used on. Returns whether nothing has changed. The
 * parameters of one query fit: an escape never becomes longer. */
bool normalize_param(struct param *param, uint8_t escaped[MAX_URL_BYTES], size_t *used);

/* Rules 5, 9 and 10 for the query text[from .. to), which is not empty. False: the reference answers. */
bool append_query(const struct rules *rules, struct dropped dropped, struct answer *answer, size_t from, size_t to);

/* The end of the fragment text[from .. to) without text directives (`:~:text=…`). */
size_t find_directive(const uint8_t *text, size_t from, size_t to);

/* Rule 11 for the fragment text[from .. to), which is not empty: the end of what is kept, `from` if nothing is. */
size_t cut_fragment(const struct rules *rules, struct dropped dropped, const uint8_t *text, size_t from, size_t to);

#endif
