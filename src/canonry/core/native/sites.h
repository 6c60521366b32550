/* Rules 2 and 8 for sites that are tables: the same as site_pages.py, on the programs that tools/site_programs.py writes.
 *
 *     site_program.h   the layout of a program
 *     site_match.c     the table of a host, and the page that a URL shows
 *     site_target.c    templates and filters, and the address to which a redirect page leads
 *     site_write.c     the URL that a page is written as
 *     sites.c          puts them in order
 *
 * These files do not use Python, so that a fuzzer can drive them.
 */
#ifndef CANONRY_SITES_H
#define CANONRY_SITES_H

#include "params.h"
#include "rules.h"
#include "scan.h"
#include "site_program.h"

enum {
    MAX_SITE_MOVES = 6, /* the reference answers for more redirect pages inside each other */
    SITE_TEXT_BYTES = MAX_URL_BYTES + 64,
};

enum slash { SLASH_KEEP, SLASH_STRIP, SLASH_ADD };

/* A URL whose parts are known; the offsets are those of rewrite_marked in url.c. */
struct located {
    const uint8_t *text;
    size_t length, host, host_end, path, path_end, query_end;
    bool is_https;
    bool has_upper;     /* in the host */
    bool is_plain_path; /* without escapes and double slashes */
    bool has_double_slash;
    bool may_embed;     /* an address after the host: embeds_address */
    uint64_t dots;      /* of the host, a bit for each at its offset */
    size_t bare;        /* the offset of the host without leading www. */
    const uint64_t *slashes; /* a bit for each slash of the text: scan.h */
    const struct host *exact, *domain; /* the entries of the host without www., and of what follows its first label */
    const struct names *names;         /* what rule 9 drops on the host */
};

/* What a site makes of a URL. */
enum site_outcome {
    SITE_NONE,      /* no table changes it */
    SITE_DONE,      /* `out` holds the URL after all rules */
    SITE_MOVED,     /* text holds another URL, to which all rules apply */
    SITE_WHOLE,     /* text holds the URL, to which no other rule applies */
    SITE_REFERENCE, /* the reference answers */
};

struct site_answer {
    uint8_t text[SITE_TEXT_BYTES];
    size_t length;        /* of `text`, or of `out` after SITE_DONE */
    const uint8_t *needs; /* after SITE_NONE: what rule 9 must not drop, NULL if there is nothing */
};

/* Apply the tables of the rules to a URL whose host is in the table of hosts; out has SITE_TEXT_BYTES bytes. */
enum site_outcome apply_sites(const struct rules *rules, const struct located *url, struct site_answer *answer, uint8_t *out);

/* Return whether another address follows the host: `/web/2020/https://a.com/`, `?https://a.com/`. */
bool embeds_address(const struct located *url);

/* Read the record of a host in a program; `names` is left for the caller to set. */
void read_record(const uint8_t *place, struct site_record *record);

/* Return whether a program's list of names has this parameter, as is_name_listed does for a list of a policy. */
bool is_site_name(const uint8_t *names, const uint8_t *name, size_t length);

#endif
