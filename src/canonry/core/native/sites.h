/* Rules 2 and 8 for sites that are tables: the same as site_pages.py, on the programs that tools/site_programs.py writes.
 *
 * A program is read in place. Numbers have one byte unless marked; u16 and u32 are little-endian. A text is its length,
 * then its bytes; a list is its count, then its items.
 *
 *     host record   u32 distance to its block, which comes before it · group · text main host · capture (the first label) · list of texts (labels left out)
 *     block         https · slash · count of pages · has needs · u16 offsets of: drop, needs, defaults, fragments, pages
 *     page          u16 size · u32 groups · flags · count of captures · u16 offsets of its 11 sections (enum section)
 *     names         u64 filter · list of (text, is a prefix)
 *     capture       index · kind · shortest · longest       or   index · KIND_CHOICE · list of texts
 *     segment       text before · count of captures · capture [· character between · split at the last · capture] · text after
 *     path          count of segments · has a rest [· index · kind] · segments
 *     template      list of: 0 · text   or   1 · index · list of filters
 *
 * This file does not use Python, so that a fuzzer can drive it.
 */
#ifndef CANONRY_SITES_H
#define CANONRY_SITES_H

#include "rules.h"
#include "scan.h"

enum {
    MAX_PARAMS = 64, /* the reference answers for a query with more */
    MAX_SITE_MOVES = 6, /* the reference answers for more redirect pages inside each other */
    SITE_TEXT_BYTES = MAX_URL_BYTES + 64,
};

enum slash { SLASH_KEEP, SLASH_STRIP, SLASH_ADD };

/* A URL whose parts are known; the offsets are those of rewrite_marked in url.c. */
struct located {
    const uint8_t *text;
    size_t length, host, host_end, path, path_end, query_end;
    bool is_https;
    const struct host *exact, *domain; /* the entries of the host without www., and of what follows its first label */
    const struct names *names;         /* what rule 9 drops on the host */
};

/* What a site makes of a URL. */
enum site_outcome {
    SITE_NONE,      /* no table changes it */
    SITE_FINISH,    /* text holds the URL after rules 2 and 8; the other rules follow */
    SITE_MOVED,     /* text holds another URL, to which all rules apply */
    SITE_WHOLE,     /* text holds the URL, to which no other rule applies */
    SITE_REFERENCE, /* the reference answers */
};

/* What the other rules need to know about the site. */
struct site_effect {
    const struct names *names; /* the parameters that rule 9 drops */
    const uint8_t *needs;      /* those that it must not drop, NULL if there are none */
    enum slash slash;          /* what to do at the end of the path after rules 5 to 7 */
    bool keeps_host;           /* rule 3 does not apply */
    bool is_path_final;        /* rules 5 to 7 do not apply to the path */
    bool is_settled;           /* a table described the URL, and did not change it */
};

struct site_answer {
    uint8_t text[SITE_TEXT_BYTES];
    size_t length;
    struct site_effect effect;
};

/* Apply the tables of the rules to a URL whose host is in the table of hosts. */
enum site_outcome apply_sites(const struct rules *rules, const struct located *url, struct site_answer *answer);

/* Return whether another address follows the host: `/web/2020/https://a.com/`, `?https://a.com/`. */
bool embeds_address(const struct located *url);

/* Return whether a program's list of names has this parameter, as is_name_listed does for a list of a policy. */
bool is_site_name(const uint8_t *names, const uint8_t *name, size_t length);

#endif
