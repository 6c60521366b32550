/* Find the table of a host and the page that a URL shows. */
#ifndef CANONRY_SITE_MATCH_H
#define CANONRY_SITE_MATCH_H

#include "sites.h"

enum {
    MAX_SEGMENTS = 32, /* the last one holds the rest of a longer path; patterns have fewer (tools/site_programs.py) */
    MAX_CAPTURES = 16,
    MAIN_HOST_BYTES = 320, /* `https://`, a label and a host of up to 255 bytes */
    SCHEME_BYTES = 8,      /* `https://` */
};

/* What a page does with a parameter. */
enum fate { FATE_KEPT, FATE_RENAMED, FATE_DROPPED };

/* One parameter of the query, with its name decoded, and in lower case. */
struct site_param {
    struct param param;
    struct piece name, lower, value;
    struct piece new_name; /* with FATE_RENAMED */
    bool is_listed;        /* rule 9 drops it, unless the site needs it */
    bool is_visible;       /* neither the policy nor the block drops it */
    enum fate fate;
};

struct site_match {
    const struct rules *rules;
    const struct located *url;
    const uint8_t *block;
    const struct names *names; /* what rule 9 drops on the main host */
    const uint8_t *needs;      /* what it must not drop, NULL if there is nothing */
    struct piece prefix, main; /* `https://` and the main host; the main host; empty if the host stays */
    bool may_change_table;     /* the main host takes over the first label, and is not the host of the URL */
    unsigned group;
    struct piece path; /* as rules 5 to 7 would leave it */
    struct piece segments[MAX_SEGMENTS];
    size_t segment_count;
    struct site_param params[MAX_PARAMS];
    size_t param_count;
    bool are_params_read;
    struct piece captures[MAX_CAPTURES];
    struct bytes scratch; /* decoded names and values */
    bool needs_reference;
};

/* Find the table of the URL's host and read it into the match; `lower` is the host in lower case, and `main` is room for
 * a main host that takes over the first label. */
bool find_table(struct site_match *match, struct piece lower, uint8_t main[MAIN_HOST_BYTES]);

/* Read the path, and split it into segments. */
void read_path(struct site_match *match);

/* Read the parameters. False: the reference answers. */
bool read_params(struct site_match *match);

/* The first page that the URL shows, from *entry on, which then is the entry of the next page; NULL if there is none, or
 * if the match needs the reference. */
const uint8_t *find_page(struct site_match *match, const uint8_t **entry);

/* Return whether a parameter has a value that is the default. */
bool is_default(struct site_match *match, const uint8_t *defaults, const struct site_param *param);

/* Return whether the page asks for a parameter of this name. */
bool is_queried(const uint8_t *page, struct piece name);

/* Return whether a list of fragments has this one: the same, or one that begins as a listed one that ends with `*`. */
bool is_fragment_listed(const uint8_t *list, struct piece fragment);

/* The escapes that `text` may hold: those above 0x7f, the space, and punctuation that no rule reads. */
ALWAYS_INLINE bool is_text_escape(uint8_t c)
{
    static const uint64_t escapes[2] = {0x2c001fd700000000, 0x0000000000000001}; /* space ! " $ & ' ( ) * + , : ; = @ */
    return c >= 0x80 || is_in(escapes, c);
}

#endif
