/* The options of a policy as tables: which rules are on, which parameters to drop, which hosts are special.
 *
 * This file does not use Python, so that a fuzzer can build the tables; policy_rules.c fills them from a Policy.
 */
#ifndef CANONRY_RULES_H
#define CANONRY_RULES_H

#include "bytes.h"

enum {
    MAX_NAME_BYTES = 255, /* of a parameter in a policy */
    HASH_SLOTS = 256, /* chains of a table of names */
    HOST_SLOTS = 4096, /* chains of the table of hosts */
    TAIL_BITS = 15, /* of the hash of a tail: the last two labels of a host */
    ENDING_BITS = 14, /* of the hash of an ending: the last 8 bytes, those of the scheme or `www.` included */
    ENDING_BYTES = 8,
};

enum fragment { FRAGMENT_DROP, FRAGMENT_KEEP, FRAGMENT_ROUTES, FRAGMENT_CLEAN };

/* One list of parameter names, in lower case.
 *
 *     text        u t m _ f b c l i d r e f …      all names, one after the other
 *                 ^start  ^start      ^start
 *     prefixes    {utm_}                           compared one by one
 *     exact       {fbclid, next 0} {ref, next 1}   `next` is the index + 1 of the next name in the
 *     chains      0 … 2 … 0                        same chain, 0 at its end; a chain for each hash
 */
struct name {
    uint16_t start, next;
    uint8_t length;
};

struct names {
    /* By the first byte of a name, in either case: bit n is set if a name of n bytes can be in the list;
     * bit 63 stands for 63 bytes and more. With {ref, fbclid, utm_*}:
     *
     *     lengths['r']    bit 3            lengths['f']    bit 6            lengths['u']    bits 4 … 63
     */
    uint64_t lengths[256];
    uint16_t chains[HASH_SLOTS];
    struct name *exact, *prefixes; /* room for every name of the list in each */
    size_t exact_count, prefix_count;
    uint8_t *text; /* room for the bytes of all names */
    size_t text_bytes;
};

/* What is special about a host; several may hold. */
enum {
    HOST_IS_SITE = 1,      /* it belongs to a site that is code (sites.py): the reference answers */
    HOST_IS_DOMAIN = 2,    /* so does every host with one more label, as in b.blogspot.com */
    HOST_HAS_OVERRIDE = 4, /* the overrides file names it (overrides.h) */
    HOST_HAS_NAMES = 8,    /* the host has its own list of parameters to drop */
    HOST_HAS_TABLE = 16,   /* a site table describes it (sites.h) */
    HOST_HAS_DOMAIN_TABLES = 32, /* site tables describe hosts with one more label */
};

struct host {
    uint32_t start, next; /* as in struct name */
    uint32_t hash;
    uint16_t length;
    uint16_t names; /* the index of its list of parameters in `names` of struct rules */
    uint8_t flags;  /* HOST_… */
    uint32_t record; /* with HOST_HAS_TABLE: the index of its record in `records` of struct rules */
    uint32_t override; /* with HOST_HAS_OVERRIDE: the index in `overrides` of struct rules */
    uint32_t domain_record, domain_count; /* with HOST_HAS_DOMAIN_TABLES: the first record, and how many follow */
};

/* What a site table says about a host, read from its program (site_program.h). */
struct site_record {
    const uint8_t *block;
    const uint8_t *prefix; /* `https://` and the main host */
    const uint8_t *label;  /* which first labels it accepts; NULL: every one */
    const struct names *names; /* what rule 9 drops on the main host; NULL if it depends on the URL */
    uint8_t prefix_bytes;      /* 0: the host stays as it is */
    uint8_t group;
    bool takes_label; /* the main host takes over the first label: `*.example.com` */
};

struct hosts {
    uint64_t tails[1 << TAIL_BITS >> 6]; /* bit hash_tail(…) is set for each host */
    uint64_t own_endings[1 << ENDING_BITS >> 6]; /* bit hash_ending(…) for hosts with HOST_HAS_NAMES */
    uint32_t chains[HOST_SLOTS];
    struct host *each; /* room for every host */
    size_t count;
    uint8_t *text; /* room for the bytes of all hosts */
    size_t text_bytes;
};

struct override;

struct rules {
    bool parse, strip_www, normalize_escapes, collapse_slashes, strip_trailing_slash, sort_params, strip_params;
    bool keep_embedded;
    bool has_code_sites;  /* some host belongs to a site that is code */
    enum fragment fragment;
    const uint8_t *site_program;    /* the programs of all sites, one after the other (sites.h) */
    size_t program_bytes;
    struct site_record *records;    /* of hosts that have a table, in any order */
    size_t record_count;
    struct override *overrides;     /* of hosts that the overrides file names (overrides.h); NULL if there are none */
    size_t override_count;
    uint8_t *override_program;
    const struct rules *whole;      /* for an address that is kept whole: every rule off, except a dropped fragment */
    struct hosts hosts;
    struct names *names; /* names[0] is the list for all hosts, the others are for hosts with HOST_HAS_NAMES */
    size_t names_count;
};

/* Add a name, a prefix if it ends with `*`, of 1 to MAX_NAME_BYTES bytes. */
void add_name(struct names *names, const uint8_t *bytes, size_t length);

/* Add a host in lower case; `host` holds its flags, names and records. */
void add_host(struct hosts *hosts, const uint8_t *bytes, size_t length, struct host host);

/* The entry of a host in lower case, or NULL. */
const struct host *find_host(const struct hosts *hosts, const uint8_t *host, size_t length);

/* Rule 3: the offset of the host text[from .. to) without its leading `www.`; the last one stays if no dot would come
 * after it. `dots` has a bit for each dot of the host, at its offset in the text; to <= 64. */
ALWAYS_INLINE size_t skip_www(const uint8_t *text, size_t from, size_t to, uint64_t dots)
{
    static const uint8_t www[5] = "www.";
    size_t at = from;
    while (to - at >= 4 && (load4(text + at) | 0x20202020) == load4(www)) /* a dot has the bit 0x20 already */
        at += 4;
    return at == from || (at < 64 && dots >> at) ? at : at - 4;
}

/* Return whether a list has this parameter; the name is percent-decoded once and compared in lower case. */
bool is_name_listed(const struct names *names, const uint8_t *name, size_t length);

/* The hash of the last 8 bytes before `end`, the same for upper and lower case: each byte gets the bit 0x20, then a
 * multiplicative hash (2^64 divided by the golden ratio) keeps the highest bits. */
ALWAYS_INLINE unsigned hash_ending(const uint8_t *end)
{
    return (unsigned)((load8(end - ENDING_BYTES) | 0x2020202020202020) * 0x9e3779b97f4a7c15 >> (64 - ENDING_BITS));
}

/* The same for the last two labels of a host, from their first and their last 8 bytes; 8 bytes before `end` are readable.
 *
 *     en.wikipedia.org     first = wikipedi, last = edia.org
 *     www.x.com            both are x.com, without the bytes before it
 */
ALWAYS_INLINE unsigned hash_tail(const uint8_t *end, size_t length)
{
    size_t missing = length < 8 ? 8 - length : 0; /* without a branch: which tails are short cannot be predicted */
    uint64_t first = load8(end - length - missing) >> (8 * missing), last = load8(end - 8) >> (8 * missing);
    first = (first | 0x2020202020202020) * 0x9e3779b97f4a7c15;
    return (unsigned)((first ^ first >> 32 ^ (last | 0x2020202020202020)) * 0x9e3779b97f4a7c15 >> (64 - TAIL_BITS));
}

/* Return whether the host whose last two labels are these may be in the table; false for nearly every other host. */
ALWAYS_INLINE bool may_be_special(const struct hosts *hosts, const uint8_t *end, size_t length)
{
    unsigned slot = hash_tail(end, length);
    return hosts->tails[slot / 64] >> (slot % 64) & 1;
}

/* Return whether the host that ends before `end` may have its own list of parameters. */
ALWAYS_INLINE bool may_have_names(const struct hosts *hosts, const uint8_t *end)
{
    unsigned slot = hash_ending(end);
    return hosts->own_endings[slot / 64] >> (slot % 64) & 1;
}

/* Return whether a parameter is dropped. For most, the first byte and the length show that it is not. */
ALWAYS_INLINE bool is_dropped(const struct names *names, const uint8_t *name, size_t length, bool has_percent)
{
    if (length == 0)
        return false;
    if (!has_percent && !(names->lengths[name[0]] >> (length < 63 ? length : 63) & 1))
        return false;
    return is_name_listed(names, name, length);
}

#endif
