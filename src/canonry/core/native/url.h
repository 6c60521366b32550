/* What the rules of a policy make of a URL that is provably simple; anything else is handed back.
 *
 * No Python in here, so that a fuzzer can drive it. Every rule does what rules.py does, in the
 * order of normalize.py. The answer never gets longer than LONGEST + 1 bytes: only a missing path
 * adds one, and a text that had to be mended first is as long as its mended form.
 */
#ifndef CANONRY_URL_H
#define CANONRY_URL_H

#include "mend.h"
#include "scan.h"

enum {
    NOT_MINE = -1,
    MEND = -2, /* simple, once the parser's first steps are done */
    UNCHANGED = 0,
    MOST_PARAMS = 64,   /* a query with more is handed back */
    LONGEST_NAME = 255, /* of a parameter in a policy */
    SLOTS = 256,
    ROOM = LONGEST + 64, /* what `out` must hold */
};

enum fragment { FRAGMENT_DROP, FRAGMENT_KEEP, FRAGMENT_ROUTES };

/* Names of parameters, lower case: whole ones in chains by their hash, prefixes in a list. */
struct name {
    uint16_t start, next; /* next: index + 1 in the same chain */
    uint8_t length;
};

struct names {
    uint64_t lengths[256]; /* by first byte, in either case: bit n if a name of n bytes can match, 63 for longer */
    uint16_t chains[SLOTS]; /* index + 1 */
    struct name *exact, *prefixes;
    size_t exact_count, prefix_count;
    uint8_t *text; /* all names, one behind the other */
    size_t used;
};

/* What is special about a host. */
enum { HOST_IS_SITE = 1, HOST_IS_DOMAIN = 2, HOST_IS_OVERRIDDEN = 4, HOST_HAS_NAMES = 8 };

struct host {
    uint32_t start, next;
    uint16_t length, names; /* names: which list of parameters holds there */
    uint8_t is;
};

struct hosts {
    uint64_t endings[16], short_endings[16]; /* by a hash of the last bytes, which tell most hosts apart */
    uint32_t chains[SLOTS];
    struct host *each;
    size_t count;
    uint8_t *text; /* all hosts, one behind the other */
    size_t used;
};

struct rules {
    bool parse, strip_www, normalize_escapes, collapse_slashes, strip_trailing_slash, sort_params, strip_params;
    enum fragment fragment;
    struct hosts hosts;
    struct names *names; /* the first everywhere, the others on their hosts */
    size_t names_count;
};

enum { ENDING = 8, SHORT_ENDING = 5 }; /* a host is looked up by the longer if it is as long */

ALWAYS_INLINE uint8_t lower(uint8_t c)
{
    return c >= 'A' && c <= 'Z' ? c | 0x20 : c;
}

ALWAYS_INLINE bool is_letter(uint8_t c)
{
    return (uint8_t)((c | 0x20) - 'a') < 26;
}

ALWAYS_INLINE uint64_t load8(const uint8_t *at)
{
    uint64_t value;
    memcpy(&value, at, 8);
    return value;
}

ALWAYS_INLINE uint32_t load4(const uint8_t *at)
{
    uint32_t value;
    memcpy(&value, at, 4);
    return value;
}

/* Bits from..to of a word, 0 <= from <= to <= 64, from < 64. */
ALWAYS_INLINE uint64_t between(size_t from, size_t to)
{
    uint64_t below = to >= 64 ? ~(uint64_t)0 : ((uint64_t)1 << to) - 1;
    return below & ~(uint64_t)0 << from;
}

/* The first bit from `from` on, `end` if there is none before it. */
ALWAYS_INLINE size_t first(const uint64_t *bits, size_t from, size_t end)
{
    for (size_t at = from / 64; at * 64 < end; at++) {
        uint64_t word = bits[at];
        if (at == from / 64)
            word &= ~(uint64_t)0 << (from % 64);
        if (word) {
            size_t found = at * 64 + (size_t)__builtin_ctzll(word);
            return found < end ? found : end;
        }
    }
    return end;
}

/* --- lookup tables -------------------------------------------------------------------------- */

/* The slot of the last bytes before `end`, the same in either case. */
ALWAYS_INLINE unsigned ending_slot(const uint8_t *end, size_t length)
{
    uint64_t value = 0;
    memcpy(&value, end - length, length);
    return (unsigned)((value | 0x2020202020202020) * 0x9e3779b97f4a7c15 >> 54);
}

ALWAYS_INLINE bool may_be_known(const struct hosts *hosts, const uint8_t *end)
{
    unsigned slot = ending_slot(end, ENDING), short_slot = ending_slot(end, SHORT_ENDING);
    return (hosts->endings[slot / 64] >> (slot % 64) | hosts->short_endings[short_slot / 64] >> (short_slot % 64)) & 1;
}

ALWAYS_INLINE unsigned host_slot(const uint8_t *host, size_t length)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ host[i]) * 16777619u;
    return (hash ^ hash >> 16) % SLOTS;
}

static const struct host *find_host(const struct hosts *hosts, const uint8_t *host, size_t length)
{
    for (uint32_t at = hosts->chains[host_slot(host, length)]; at; at = hosts->each[at - 1].next) {
        const struct host *each = &hosts->each[at - 1];
        if (each->length == length && memcmp(hosts->text + each->start, host, length) == 0)
            return each;
    }
    return NULL;
}

ALWAYS_INLINE unsigned name_slot(const uint8_t *name, size_t length)
{
    return (name[0] * 31u + name[length - 1] * 7u + name[length / 2] * 3u + (unsigned)length) % SLOTS;
}

static bool is_listed(const struct names *names, const uint8_t *name, size_t length)
{
    if (length == 0)
        return false;
    for (unsigned at = names->chains[name_slot(name, length)]; at; at = names->exact[at - 1].next) {
        const struct name *each = &names->exact[at - 1];
        if (each->length == length && memcmp(names->text + each->start, name, length) == 0)
            return true;
    }
    for (size_t i = 0; i < names->prefix_count; i++) {
        const struct name *each = &names->prefixes[i];
        if (each->length <= length && memcmp(names->text + each->start, name, each->length) == 0)
            return true;
    }
    return false;
}

/* Add a name in lower case, a prefix if it ends with `*`, to arrays that have room for it. */
static void add_name(struct names *names, const uint8_t *bytes, size_t length)
{
    bool is_prefix = length > 1 && bytes[length - 1] == '*';
    length -= is_prefix;
    struct name name = {.start = (uint16_t)names->used, .length = (uint8_t)length};
    if (is_prefix) {
        names->prefixes[names->prefix_count++] = name;
    } else {
        uint16_t *chain = &names->chains[name_slot(bytes, length)];
        name.next = *chain;
        names->exact[names->exact_count] = name;
        *chain = (uint16_t)++names->exact_count;
    }
    memcpy(names->text + names->used, bytes, length);
    names->used += length;
    size_t bit = length < 63 ? length : 63;
    uint64_t lengths = is_prefix ? ~(uint64_t)0 << bit : (uint64_t)1 << bit;
    names->lengths[bytes[0]] |= lengths;
    if (bytes[0] >= 'a' && bytes[0] <= 'z')
        names->lengths[bytes[0] - 'a' + 'A'] |= lengths;
}

/* Add a host in lower case to arrays that have room for it. */
static void add_host(struct hosts *hosts, const uint8_t *bytes, size_t length, uint8_t is, uint16_t names)
{
    struct host host = {.start = (uint32_t)hosts->used, .length = (uint16_t)length, .names = names, .is = is};
    uint32_t *chain = &hosts->chains[host_slot(bytes, length)];
    host.next = *chain;
    hosts->each[hosts->count] = host;
    *chain = (uint32_t)++hosts->count;
    memcpy(hosts->text + hosts->used, bytes, length);
    hosts->used += length;
    if (length < SHORT_ENDING) {
        memset(hosts->endings, 0xff, sizeof hosts->endings);
    } else {
        unsigned slot = ending_slot(bytes + length, length < ENDING ? SHORT_ENDING : ENDING);
        (length < ENDING ? hosts->short_endings : hosts->endings)[slot / 64] |= (uint64_t)1 << (slot % 64);
    }
}

/* Does the policy drop the parameter with this name? Decoded once, in lower case. */
static bool is_dropped(const struct names *names, const uint8_t *name, size_t length, bool has_percent)
{
    uint8_t plain[LONGEST_NAME + 1];
    size_t plain_length = 0;
    if (length == 0)
        return false;
    if (!has_percent && !(names->lengths[name[0]] >> (length < 63 ? length : 63) & 1))
        return false;
    /* One byte more than the longest name in the table is enough to know it is none, or has a prefix. */
    for (size_t i = 0; i < length && plain_length < sizeof plain; i++) {
        uint8_t c = name[i];
        if (c == '%' && length - i > 2 && hex(name[i + 1]) >= 0 && hex(name[i + 2]) >= 0) {
            c = (uint8_t)(hex(name[i + 1]) << 4 | hex(name[i + 2]));
            i += 2;
        }
        plain[plain_length++] = lower(c);
    }
    return is_listed(names, plain, plain_length);
}

/* --- writing -------------------------------------------------------------------------------- */

/* The answer so far: what is in `out`, then a piece of the text that is still to be copied. As long
 * as the piece begins with the text nothing has been written at all. */
struct answer {
    const uint8_t *text;
    uint8_t *out;
    size_t length;
    size_t from, to;
};

ALWAYS_INLINE void write_piece(struct answer *answer)
{
    memcpy(answer->out + answer->length, answer->text + answer->from, answer->to - answer->from);
    answer->length += answer->to - answer->from;
    answer->from = answer->to;
}

ALWAYS_INLINE void keep(struct answer *answer, size_t from, size_t to)
{
    if (from != answer->to) {
        write_piece(answer);
        answer->from = from;
    }
    answer->to = to;
}

ALWAYS_INLINE void put(struct answer *answer, uint8_t c)
{
    write_piece(answer);
    answer->out[answer->length++] = c;
}

/* --- escapes -------------------------------------------------------------------------------- */

/* One spelling for every escape; the new length, or NOT_MINE at a stray `%`. out: as long as text. */
static ptrdiff_t spell_escapes(const uint8_t *text, size_t length, uint8_t *out)
{
    static const char digits[] = "0123456789ABCDEF";
    size_t written = 0;
    for (size_t i = 0; i < length; i++) {
        uint8_t c = text[i];
        if (c != '%') {
            out[written++] = c;
            continue;
        }
        if (length - i < 3 || hex(text[i + 1]) < 0 || hex(text[i + 2]) < 0)
            return NOT_MINE;
        c = (uint8_t)(hex(text[i + 1]) << 4 | hex(text[i + 2]));
        i += 2;
        if (is_in(UNRESERVED, c)) {
            out[written++] = c;
        } else {
            out[written++] = '%';
            out[written++] = (uint8_t)digits[c >> 4];
            out[written++] = (uint8_t)digits[c & 15];
        }
    }
    return (ptrdiff_t)written;
}

/* --- path ----------------------------------------------------------------------------------- */

/* Rules 5 to 7 on a path in which escapes or double slashes have to go. */
__attribute__((noinline)) static bool rewrite_path(const struct rules *rules, struct answer *answer, size_t from, size_t to)
{
    write_piece(answer);
    uint8_t *path = answer->out + answer->length;
    size_t length = to - from;
    if (rules->normalize_escapes) {
        ptrdiff_t spelled = spell_escapes(answer->text + from, length, path);
        if (spelled < 0)
            return false;
        length = (size_t)spelled;
    } else {
        memcpy(path, answer->text + from, length);
    }
    if (rules->collapse_slashes) {
        size_t kept = 0;
        for (size_t i = 0; i < length; i++)
            if (path[i] != '/' || kept == 0 || path[kept - 1] != '/')
                path[kept++] = path[i];
        length = kept;
    }
    if (rules->strip_trailing_slash)
        while (length > 1 && path[length - 1] == '/')
            length--;
    answer->length += length;
    return true;
}

/* --- query ---------------------------------------------------------------------------------- */

struct param {
    uint16_t start, name, length; /* name: how many bytes of it are the name */
};

static int compare_bytes(const uint8_t *a, size_t a_length, const uint8_t *b, size_t b_length)
{
    int order = memcmp(a, b, a_length < b_length ? a_length : b_length);
    return order ? order : (a_length > b_length) - (a_length < b_length);
}

/* By name, then value; a value that is absent is an empty one. */
static bool is_after(const uint8_t *query, const struct param *a, const struct param *b)
{
    int order = compare_bytes(query + a->start, a->name, query + b->start, b->name);
    if (order == 0) {
        size_t a_value = a->name < a->length ? a->name + 1u : a->length;
        size_t b_value = b->name < b->length ? b->name + 1u : b->length;
        order = compare_bytes(query + a->start + a_value, a->length - a_value, query + b->start + b_value,
                              b->length - b_value);
    }
    return order > 0;
}

/* Rules 5, 9 and 10 on a query that is not empty. */
__attribute__((noinline)) static bool
rewrite_query(const struct rules *rules, const struct names *names, struct answer *answer, size_t from, size_t to)
{
    uint8_t spelled[LONGEST];
    struct param params[MOST_PARAMS];
    const uint8_t *query = answer->text + from;
    size_t length = to - from, count = 0;
    bool is_same = true;

    if (rules->normalize_escapes && memchr(query, '%', length)) {
        ptrdiff_t new_length = spell_escapes(query, length, spelled);
        if (new_length < 0)
            return false;
        is_same = (size_t)new_length == length && memcmp(spelled, query, length) == 0;
        query = spelled;
        length = (size_t)new_length;
    }
    for (size_t start = 0; start <= length;) {
        size_t at = start, name = SIZE_MAX;
        bool has_percent = false;
        for (; at < length && query[at] != '&'; at++) {
            if (name == SIZE_MAX) {
                if (query[at] == '=')
                    name = at - start;
                has_percent |= query[at] == '%';
            }
        }
        struct param param = {(uint16_t)start, (uint16_t)(name == SIZE_MAX ? at - start : name), (uint16_t)(at - start)};
        start = at + 1;
        if (rules->strip_params && is_dropped(names, query + param.start, param.name, has_percent)) {
            is_same = false;
            continue;
        }
        if (count == MOST_PARAMS)
            return false;
        size_t place = count++;
        if (rules->sort_params)
            for (; place > 0 && is_after(query, &params[place - 1], &param); place--) {
                params[place] = params[place - 1];
                is_same = false;
            }
        params[place] = param;
    }
    if (is_same) {
        keep(answer, from - 1, to);
        return true;
    }
    if (count == 0 || (count == 1 && params[0].length == 0))
        return true;
    write_piece(answer);
    for (size_t i = 0; i < count; i++) {
        answer->out[answer->length++] = i ? '&' : '?';
        memcpy(answer->out + answer->length, query + params[i].start, params[i].length);
        answer->length += params[i].length;
    }
    return true;
}

/* --- fragment ------------------------------------------------------------------------------- */

COLD static void keep_route(struct answer *answer, size_t from, size_t to)
{
    if (answer->text[from] != '!' && answer->text[from] != '/')
        return;
    size_t end = from;
    while (end < to && !(to - end >= 3 && memcmp(answer->text + end, ":~:", 3) == 0))
        end++;
    keep(answer, from - 1, end);
}

/* --- the whole ------------------------------------------------------------------------------ */

/* Rule 3: where the host begins without its leading `www.`; one stays where no dot would be left. */
static size_t without_www(const uint8_t *text, size_t from, size_t to)
{
    static const uint8_t www[5] = "www.";
    size_t at = from;
    while (to - at >= 4 && (load4(text + at) | 0x20202020) == load4(www)) /* a dot has that bit */
        at += 4;
    return at == from || memchr(text + at, '.', to - at) ? at : at - 4;
}

/* The lists of a host, or NULL where a rule needs the reference. */
COLD static const struct names *look_up_host(const struct rules *rules, const uint8_t *text, size_t from, size_t to)
{
    uint8_t host[64];
    size_t length = to - from, bare = without_www(text, from, to) - from;
    for (size_t i = 0; i < length; i++)
        host[i] = lower(text[from + i]);
    const struct host *site = find_host(&rules->hosts, host + bare, length - bare);
    if (site && site->is & HOST_IS_SITE)
        return NULL;
    const uint8_t *dot = memchr(host + bare, '.', length - bare);
    if (dot) {
        site = find_host(&rules->hosts, dot + 1, (size_t)(host + length - dot) - 1);
        if (site && site->is & HOST_IS_DOMAIN)
            return NULL;
    }
    size_t final = rules->strip_www ? bare : 0;
    const struct host *own = find_host(&rules->hosts, host + final, length - final);
    if (own && own->is & HOST_IS_OVERRIDDEN)
        return NULL;
    return &rules->names[own && own->is & HOST_HAS_NAMES ? own->names : 0];
}

/* May the characters outside COMMON stand where they stand? */
COLD static bool odd_ones_fit(const uint8_t *text, size_t host_end, size_t path_end, size_t query_end, size_t length)
{
    for (size_t i = host_end; i < length; i++) {
        uint8_t c = text[i];
        const char *fit = i < path_end ? "'" : i < query_end ? "\\^`{}" : "'\\^{}";
        if (!is_in(COMMON, c) && (c == 0 || c > 127 || !strchr(fit, c)))
            return false;
    }
    return true;
}

/* The bits a rule asks for between the start and the end of a path. */
struct path_bits {
    uint64_t dot_segment, escaped_start, double_slash, percent;
};

ALWAYS_INLINE struct path_bits look_at_path(const struct marks *marks, size_t from, size_t to)
{
    struct path_bits found = {0};
    for (size_t at = from / 64; at * 64 < to; at++) {
        uint64_t here = between(at == from / 64 ? from % 64 : 0, to - at * 64);
        uint64_t slash = marks->slash[at] & here;
        found.dot_segment |= slash & (marks->dot[at] >> 1 | marks->dot[at + 1] << 63);
        found.escaped_start |= slash & (marks->percent[at] >> 1 | marks->percent[at + 1] << 63);
        found.double_slash |= slash & (marks->slash[at] >> 1 | marks->slash[at + 1] << 63);
        found.percent |= marks->percent[at] & here;
    }
    return found;
}

/* Is a segment's beginning `%2e`? */
COLD static bool has_escaped_dot(const uint8_t *text, size_t from, size_t to)
{
    for (size_t i = from; i + 3 < to; i++)
        if (text[i] == '/' && text[i + 1] == '%' && text[i + 2] == '2' && (text[i + 3] | 0x20) == 'e')
            return true;
    return false;
}

/* UNCHANGED, NOT_MINE, MEND, or the length of the answer in `out`, which has ROOM bytes. */
ALWAYS_INLINE ptrdiff_t rewrite_marked(const struct rules *rules, const uint8_t *text, size_t length, uint8_t *out,
                                       const struct marks *marks, bool is_mended)
{
    static const uint8_t https[9] = "https://", http[9] = "http://", letters[9] = "\x20\x20\x20\x20\x20\0\0";
    struct answer answer = {.text = text, .out = out};
    uint64_t start = load8(text);
    bool is_https = (start | load8(letters)) == load8(https);
    if (!is_https && ((load4(text) | 0x20202020) != load4(http) || memcmp(text + 4, "://", 3) != 0))
        return NOT_MINE;

    /* The host: labels that are not empty, the last of which is no number; no punycode. */
    size_t host = is_https ? 8 : 7;
    uint64_t beyond = host < 64 ? ~marks->host & ~(uint64_t)0 << host : 0;
    if (!beyond)
        return NOT_MINE;
    size_t host_end = (size_t)__builtin_ctzll(beyond);
    if (host_end == host || host_end > length)
        return NOT_MINE;
    uint64_t here = between(host, host_end);
    uint64_t dots = marks->dot[0] & here, dashes = marks->dash & here;
    size_t last = dots ? 64 - (size_t)__builtin_clzll(dots) : host;
    if ((dots & dots >> 1) | (dots >> host & 1) | (dashes & dashes >> 1) || last == host_end || !is_letter(text[last]))
        return NOT_MINE;

    /* The port: a plain number. */
    size_t path = host_end;
    bool has_default_port = false;
    if (path < length && text[path] == ':') {
        uint32_t port = 0;
        size_t digits = 0;
        for (path++; path < length && digits < 5 && (uint8_t)(text[path] - '0') < 10; path++, digits++)
            port = port * 10 + (uint32_t)(text[path] - '0');
        if (digits == 0 || text[host_end + 1] == '0' || port > 65535)
            return NOT_MINE;
        has_default_port = port == (is_https ? 443 : 80);
    }
    if (path < length && text[path] != '/' && text[path] != '?' && text[path] != '#')
        return text[path] == '\\' && !is_mended ? MEND : NOT_MINE;

    size_t query_end = first(marks->hash, path, length);
    size_t path_end = first(marks->question, path, query_end);
    if (marks->any_odd && !odd_ones_fit(text, host_end, path_end, query_end, length))
        return is_mended ? NOT_MINE : MEND;
    struct path_bits in_path = look_at_path(marks, path, path_end);
    if (!is_mended && (in_path.dot_segment || (in_path.escaped_start && has_escaped_dot(text, path, path_end))))
        return MEND;
    if (!rules->parse)
        return UNCHANGED;

    /* Rules 2, 3, 12: a host that some rule knows. */
    const struct names *names = rules->names;
    if (may_be_known(&rules->hosts, text + host_end)) { /* eight bytes, some of the scheme if it is short */
        names = look_up_host(rules, text, host, host_end);
        if (!names)
            return NOT_MINE;
    }
    size_t bare = rules->strip_www && (text[host] | 0x20) == 'w' ? without_www(text, host, host_end) : host;
    if (marks->upper & between(0, host_end)) {
        for (size_t i = 0; i < host_end; i++) /* the scheme, then what is left of the host */
            if (i < host || i >= bare)
                out[answer.length++] = lower(text[i]);
        answer.from = answer.to = host_end;
    } else if (bare == host) {
        answer.to = host_end;
    } else {
        memcpy(out, text, SHORTEST); /* of which the scheme counts */
        answer.length = host;
        answer.from = bare;
        answer.to = host_end;
    }
    if (!has_default_port)
        keep(&answer, host_end, path);

    /* Rules 5 to 7. */
    if (path == path_end) {
        put(&answer, '/');
    } else if ((in_path.percent && rules->normalize_escapes) || (in_path.double_slash && rules->collapse_slashes)) {
        if (!rewrite_path(rules, &answer, path, path_end))
            return NOT_MINE;
    } else {
        size_t end = path_end;
        if (rules->strip_trailing_slash)
            while (end > path + 1 && text[end - 1] == '/')
                end--;
        keep(&answer, path, end);
    }

    /* Rules 5, 9, 10. */
    if (path_end + 1 < query_end) {
        if (!rules->strip_params && !rules->sort_params && !rules->normalize_escapes)
            keep(&answer, path_end, query_end);
        else if (!rewrite_query(rules, names, &answer, path_end + 1, query_end))
            return NOT_MINE;
    }

    /* Rule 11. */
    if (query_end + 1 < length) {
        if (rules->fragment == FRAGMENT_KEEP)
            keep(&answer, query_end, length);
        else if (rules->fragment == FRAGMENT_ROUTES)
            keep_route(&answer, query_end + 1, length);
    }
    if (answer.length == 0 && answer.from == 0 && answer.to == length)
        return UNCHANGED;
    write_piece(&answer);
    return (ptrdiff_t)answer.length;
}

/* A text that mend.h put into the form the parser gives it. */
COLD static ptrdiff_t rewrite_mended(const struct rules *rules, const uint8_t *text, size_t length, uint8_t *out)
{
    uint8_t mended[LONGEST];
    struct marks marks;
    ptrdiff_t mended_length = mend(text, length, mended);
    if (mended_length < SHORTEST)
        return NOT_MINE;
    scan_plain(mended, (size_t)mended_length, &marks);
    ptrdiff_t answer = rewrite_marked(rules, mended, (size_t)mended_length, out, &marks, true);
    if (answer != UNCHANGED || !rules->parse)
        return answer;
    memcpy(out, mended, (size_t)mended_length);
    return mended_length;
}

static ptrdiff_t rewrite_plain(const struct rules *rules, const uint8_t *text, size_t length, uint8_t *out)
{
    struct marks marks;
    if (length < SHORTEST || length > LONGEST)
        return NOT_MINE;
    scan_plain(text, length, &marks);
    ptrdiff_t answer = rewrite_marked(rules, text, length, out, &marks, false);
    return answer == MEND ? rewrite_mended(rules, text, length, out) : answer;
}

#ifdef CANONRY_WIDE
WIDE static ptrdiff_t rewrite_wide(const struct rules *rules, const uint8_t *text, size_t length, uint8_t *out)
{
    struct marks marks;
    if (length < SHORTEST || length > LONGEST)
        return NOT_MINE;
    scan_wide(text, length, &marks);
    ptrdiff_t answer = rewrite_marked(rules, text, length, out, &marks, false);
    return answer == MEND ? rewrite_mended(rules, text, length, out) : answer;
}
#endif

typedef ptrdiff_t (*rewrite_function)(const struct rules *, const uint8_t *, size_t, uint8_t *);

/* The fastest that this processor can run. */
static rewrite_function best_rewrite(void)
{
#ifdef CANONRY_WIDE
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2"))
        return rewrite_wide;
#endif
    return rewrite_plain;
}

#endif
