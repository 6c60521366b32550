#include "url.h"

#include "overrides.h"
#include "repair.h"
#include "scan_words.h"

/* Look up a host. Sets `names`, `exact` and `domain` of the URL; `names` is NULL if the reference has to answer because of
 * a site that is code. */
static __attribute__((noinline)) void look_up_host(const struct rules *rules, struct located *url)
{
    uint8_t lowered[64]; /* a host ends within the first 64 bytes of the text */
    const uint8_t *text = url->text; /* with the host in lower case at its offset */
    if (url->has_upper) {
        for (size_t i = url->host; i < url->host_end; i++)
            lowered[i] = to_lower(text[i]);
        text = lowered;
    }
    size_t bare = skip_www(text, url->host, url->host_end, url->dots);
    uint64_t dots = url->dots & ~(uint64_t)0 << bare;
    url->bare = bare;
    url->names = NULL;
    url->exact = find_host(&rules->hosts, text + bare, url->host_end - bare);
    if (dots && (rules->has_code_sites || !(url->exact && url->exact->flags & HOST_HAS_TABLE))) {
        size_t domain = (size_t)__builtin_ctzll(dots) + 1;
        url->domain = find_host(&rules->hosts, text + domain, url->host_end - domain);
    }
    if ((url->exact && url->exact->flags & HOST_IS_SITE) || (url->domain && url->domain->flags & HOST_IS_DOMAIN))
        return;
    size_t final = rules->strip_www ? bare : url->host;
    const struct host *own = NULL;
    if (may_have_names(&rules->hosts, url->text + url->host_end))
        own = final == bare ? url->exact : find_host(&rules->hosts, text + final, url->host_end - final);
    url->names = &rules->names[own && own->flags & HOST_HAS_NAMES ? own->names : 0];
}

/* Return whether the parser keeps every character outside COMMON that the text has after the host. */
COLD static bool are_kept(const uint8_t *text, size_t host_end, size_t path_end, size_t query_end, size_t length)
{
    for (size_t i = host_end; i < length; i++) {
        uint8_t c = text[i];
        const char *kept = i < path_end ? "'" : i < query_end ? "\\^`{}" : "'\\^{}";
        if (!is_in(COMMON, c) && (c == 0 || c > 127 || !strchr(kept, c)))
            return false;
    }
    return true;
}

/* What a path contains: a field is not 0 if the path contains it. */
struct path_bits {
    uint64_t dot_segment, escaped_start, double_slash, percent, colon;
};

/* Shifting the marks of the next byte by one puts them below the slash before it:
 *
 *     text           / a / . . / b / / c
 *     slash          1 0 1 0 0 1 0 1 1 0       bit 0 is on the left
 *     dot >> 1       0 0 1 1 0 0 0 0 0 0       and both: bit 2, `/.`
 *     slash >> 1     0 1 0 0 1 0 1 1 0 0       and both: bit 7, `//`
 *
 * The last bit of a word needs the first bit of the next: `next << 63`.
 */
ALWAYS_INLINE struct path_bits inspect_path(const struct word *first, const struct marks *marks, size_t from, size_t to)
{
    struct path_bits found = {0};
    if (!marks) { /* one word, which has no next */
        uint64_t here = from < to ? mask_between(from, to) : 0, slash = first->slash & here;
        found.dot_segment = slash & first->dot >> 1;
        found.escaped_start = slash & first->percent >> 1;
        found.double_slash = slash & first->slash >> 1;
        found.percent = first->percent & here;
        found.colon = first->colon & here;
        return found;
    }
    for (size_t at = from / 64; at * 64 < to; at++) {
        uint64_t here = mask_between(at == from / 64 ? from % 64 : 0, to - at * 64);
        uint64_t slash = marks->slash[at] & here;
        found.dot_segment |= slash & (marks->dot[at] >> 1 | marks->dot[at + 1] << 63);
        found.escaped_start |= slash & (marks->percent[at] >> 1 | marks->percent[at + 1] << 63);
        found.double_slash |= slash & (marks->slash[at] >> 1 | marks->slash[at + 1] << 63);
        found.percent |= marks->percent[at] & here;
        found.colon |= marks->colon[at] & here;
    }
    return found;
}

/* Return whether a segment starts with `%2e`. */
COLD static bool has_escaped_dot(const uint8_t *text, size_t from, size_t to)
{
    for (size_t i = from; i + 3 < to; i++)
        if (text[i] == '/' && text[i + 1] == '%' && text[i + 2] == '2' && (text[i + 3] | 0x20) == 'e')
            return true;
    return false;
}

/* The functions for one kind of processor. */
struct processor {
    scan_function scan;
    /* Rewrite a text that `moves` redirect pages have led to. */
    ptrdiff_t (*rewrite)(const struct rules *rules, const uint8_t *text, size_t length, uint8_t out[ANSWER_BYTES],
                         unsigned moves);
};

/* Rules 2 and 8 for a host that a site table may describe, then the other rules. Returns SITE_FALLS_THROUGH if the
 * tables do not change the URL; *needs is then what rule 9 must not drop. */
enum { SITE_FALLS_THROUGH = -3 };
static ptrdiff_t rewrite_site(const struct rules *rules, const struct located *url, const uint8_t **needs,
                              uint8_t out[ANSWER_BYTES], const struct processor *processor, unsigned moves);

/* Rewrite a text, given the first word of its marks, and all of them; `marks` is NULL if the text has up to 64 bytes. The
 * offsets, each the end of one part and the start of the next:
 *
 *     https://www.example.com:8080/a/b?c=1#d
 *             |   |          |    |   |   | |
 *             |   |          |    |   |   | length
 *             |   |          |    |   |   query_end      (the offset of `#`, or length)
 *             |   |          |    |   path_end           (the offset of `?`, or query_end)
 *             |   |          |    path
 *             |   |          host_end                    (the offset of `:`, or path)
 *             |   bare                                   (host, or the end of `www.` if rule 3 is on)
 *             host
 */
ALWAYS_INLINE ptrdiff_t rewrite_marked(const struct rules *rules, const uint8_t *text, size_t length,
                                       uint8_t out[ANSWER_BYTES], const struct word *first, const struct marks *marks,
                                       bool is_repaired, const struct processor *processor, unsigned moves)
{
    bool is_short = !marks;
    /* The scheme, compared in lower case: 0x20 is the bit that makes a letter lower-case. */
    static const uint8_t https[9] = "https://", http[9] = "http://", letters[9] = "\x20\x20\x20\x20\x20\0\0";
    uint64_t start = load8(text);
    bool is_https = (start | load8(letters)) == load8(https);
    if (!is_https && ((load4(text) | 0x20202020) != load4(http) || memcmp(text + 4, "://", 3) != 0))
        return NEEDS_REFERENCE;

    /* The host: no empty label, no punycode (`--`), and the last label is not a number. */
    size_t host = is_https ? 8 : 7;
    uint64_t beyond = ~first->host >> host << host; /* no bit is set behind the end of the text */
    if (!beyond)
        return NEEDS_REFERENCE;
    size_t host_end = (size_t)__builtin_ctzll(beyond);
    uint64_t here = ((uint64_t)1 << host_end) - ((uint64_t)1 << host);
    uint64_t dots = first->dot & here, dashes = first->dash & here;
    if (host_end == host || (dots & (dots >> 1 | (uint64_t)1 << host | (uint64_t)1 << (host_end - 1))) | (dashes & dashes >> 1))
        return NEEDS_REFERENCE;
    uint64_t label_starts = dots << 1 | (uint64_t)1 << host;
    size_t last_label = 63 - (size_t)__builtin_clzll(label_starts);
    if (!is_letter(text[last_label]))
        return NEEDS_REFERENCE;

    /* The port: a number without leading zeros. */
    size_t path = host_end;
    bool has_default_port = false;
    bool has_path = first->slash >> host_end & 1; /* nearly always */
    if (!has_path && path < length && text[path] == ':') {
        uint32_t port = 0;
        size_t digits = 0;
        for (path++; path < length && digits < 5 && is_digit(text[path]); path++, digits++)
            port = port * 10 + (uint32_t)(text[path] - '0');
        if (digits == 0 || text[host_end + 1] == '0' || port > 65535)
            return NEEDS_REFERENCE;
        has_default_port = port == (is_https ? 443 : 80);
    }
    if (!has_path && path < length && text[path] != '/' && text[path] != '?' && text[path] != '#')
        return text[path] == '\\' && !is_repaired ? NEEDS_REPAIR : NEEDS_REFERENCE;

    /* Neither `#` nor `?` comes before the path. */
    size_t query_end = is_short ? find_in_word(first->hash, length) : find_first(marks->hash, path, length);
    size_t path_end = is_short ? find_in_word(first->question, query_end) : find_first(marks->question, path, query_end);
    if (first->uncommon && !are_kept(text, host_end, path_end, query_end, length))
        return is_repaired ? NEEDS_REFERENCE : NEEDS_REPAIR;
    struct path_bits in_path = inspect_path(first, marks, path, path_end);
    if (!is_repaired && (in_path.dot_segment || (in_path.escaped_start && has_escaped_dot(text, path, path_end))))
        return NEEDS_REPAIR;
    if (!rules->parse)
        return UNCHANGED;

    /* Rules 2, 3 and 12: hosts that have rules of a site or an override, or their own parameters. */
    struct dropped dropped = {.names = rules->names, .needs = NULL};
    bool may_embed = rules->keep_embedded && (in_path.colon | in_path.percent ||
                                              (path_end + 5 < query_end && (text[path_end + 1] | 0x20) == 'h'));
    uint64_t other_starts = label_starts & ~((uint64_t)1 << last_label);
    size_t tail = 63 - (size_t)__builtin_clzll(other_starts | (uint64_t)1 << host);
    bool is_special = may_be_special(&rules->hosts, text + host_end, host_end - tail);
    if (is_special || may_embed) {
        struct located url = {
            .text = text, .length = length, .host = host, .host_end = host_end, .path = path, .path_end = path_end,
            .query_end = query_end, .is_https = is_https, .has_upper = first->upper & here,
            .is_plain_path = !(in_path.percent | in_path.double_slash),
            .has_double_slash = in_path.double_slash, .may_embed = may_embed, .dots = dots,
            .slashes = is_short ? &first->slash : marks->slash,
        };
        if (is_special) {
            look_up_host(rules, &url);
            if (!url.names)
                return NEEDS_REFERENCE;
            dropped.names = url.names;
            if ((url.exact && url.exact->flags & HOST_HAS_TABLE) ||
                (url.domain && url.domain->flags & HOST_HAS_DOMAIN_TABLES)) {
                if (path != host_end && !has_default_port)
                    return NEEDS_REFERENCE;
                ptrdiff_t answered = rewrite_site(rules, &url, &dropped.needs, out, processor, moves);
                if (answered != SITE_FALLS_THROUGH)
                    return answered;
            }
        }
        if (embeds_address(&url))
            rules = rules->whole;
    }
    uint64_t upper = first->upper & (((uint64_t)1 << host_end) - 1);
    bool may_have_www = rules->strip_www && (text[host] | 0x20) == 'w';
    bool has_slash = rules->strip_trailing_slash && text[length - 1] == '/';
    if (path == host_end && path + 1 < length && path_end == length && !(upper | in_path.percent | in_path.double_slash) &&
        !may_have_www && !has_slash)
        return UNCHANGED; /* most URLs: a host and a path, both as they should be */
    struct answer answer = {.text = text, .out = out};
    size_t bare = may_have_www ? skip_www(text, host, host_end, dots) : host;
    if (upper) {
        for (size_t i = 0; i < host_end; i++) /* the scheme, then the host without `www.` */
            if (i < host || i >= bare)
                out[answer.length++] = to_lower(text[i]);
        answer.from = answer.to = host_end;
    } else if (bare == host) {
        answer.to = host_end;
    } else {
        memcpy(out, text, MIN_URL_BYTES); /* the scheme, with one byte too many for http */
        answer.length = host;
        answer.from = bare;
        answer.to = host_end;
    }
    if (!has_default_port)
        append_piece(&answer, host_end, path);

    /* Rules 5 to 7. */
    if (path == path_end) {
        append_byte(&answer, '/');
    } else if ((in_path.percent && rules->normalize_escapes) || (in_path.double_slash && rules->collapse_slashes)) {
        append_path(rules, &answer, path, path_end);
    } else {
        size_t end = path_end;
        if (rules->strip_trailing_slash)
            while (end > path + 1 && text[end - 1] == '/')
                end--;
        append_piece(&answer, path, end);
    }

    /* Rules 5, 9 and 10. */
    if (path_end + 1 < query_end) {
        if (!rules->strip_params && !rules->sort_params && !rules->normalize_escapes)
            append_piece(&answer, path_end, query_end);
        else if (!append_query(rules, dropped, &answer, path_end + 1, query_end))
            return NEEDS_REFERENCE;
    }

    /* Rule 11. */
    if (query_end + 1 < length && rules->fragment != FRAGMENT_DROP) {
        size_t end = cut_fragment(rules, dropped, text, query_end + 1, length);
        if (end > query_end + 1)
            append_piece(&answer, query_end, end);
    }
    if (answer.length == 0 && answer.from == 0 && answer.to == length)
        return UNCHANGED;
    write_piece(&answer);
    return (ptrdiff_t)answer.length;
}

/* Rewrite a text that has no dot segments and no characters to encode. */
COLD static ptrdiff_t rewrite_clean(const struct rules *rules, const uint8_t *text, size_t length, uint8_t out[ANSWER_BYTES],
                                    const struct processor *processor, unsigned moves)
{
    struct marks marks;
    processor->scan(text, length, &marks);
    struct word first = get_first_word(&marks);
    return rewrite_marked(rules, text, length, out, &first, &marks, true, processor, moves);
}

/* Repair the text, then rewrite it. */
COLD static ptrdiff_t rewrite_repaired(const struct rules *rules, const uint8_t *text, size_t length,
                                       uint8_t out[ANSWER_BYTES], const struct processor *processor, unsigned moves)
{
    uint8_t repaired[MAX_URL_BYTES];
    ptrdiff_t repaired_length = repair(text, length, repaired);
    if (repaired_length < MIN_URL_BYTES)
        return NEEDS_REFERENCE;
    ptrdiff_t answer = rewrite_clean(rules, repaired, (size_t)repaired_length, out, processor, moves);
    if (answer != UNCHANGED || !rules->parse)
        return answer;
    memcpy(out, repaired, (size_t)repaired_length);
    return repaired_length;
}

static __attribute__((noinline)) ptrdiff_t rewrite_site(const struct rules *rules, const struct located *url,
                                                        const uint8_t **needs, uint8_t out[ANSWER_BYTES],
                                                        const struct processor *processor, unsigned moves)
{
    struct site_answer site;
    ptrdiff_t answer;
    switch (apply_sites(rules, url, &site, out)) {
    case SITE_NONE:
        *needs = site.needs;
        return SITE_FALLS_THROUGH;
    case SITE_DONE:
        return site.length == url->length && memcmp(out, url->text, site.length) == 0 ? UNCHANGED : (ptrdiff_t)site.length;
    case SITE_MOVED: /* to the page that a redirect page leads to, or to another host of the site */
        answer = moves < MAX_SITE_MOVES ? processor->rewrite(rules, site.text, site.length, out, moves + 1) : NEEDS_REFERENCE;
        break;
    case SITE_WHOLE:
        answer = rewrite_clean(rules->whole, site.text, site.length, out, processor, 0);
        break;
    default:
        return NEEDS_REFERENCE;
    }
    if (answer != UNCHANGED)
        return answer;
    if (site.length == url->length && memcmp(site.text, url->text, site.length) == 0)
        return UNCHANGED;
    memcpy(out, site.text, site.length);
    return (ptrdiff_t)site.length;
}

/* --- one set of functions for each kind of processor ------------------------------------------------------- */

static ptrdiff_t rewrite_text_plain(const struct rules *rules, const uint8_t *text, size_t length, uint8_t out[ANSWER_BYTES],
                                    unsigned moves)
{
    static const struct processor processor = {scan_plain, rewrite_text_plain};
    struct marks marks;
    if (length < MIN_URL_BYTES || length > MAX_URL_BYTES)
        return NEEDS_REFERENCE;
    scan_plain(text, length, &marks);
    struct word first = get_first_word(&marks);
    ptrdiff_t answer = rewrite_marked(rules, text, length, out, &first, &marks, false, &processor, moves);
    return answer == NEEDS_REPAIR ? rewrite_repaired(rules, text, length, out, &processor, moves) : answer;
}

/* Rules 1 to 11. */
static ptrdiff_t rewrite_once(const struct rules *rules, const uint8_t *text, size_t length, uint8_t out[ANSWER_BYTES])
{
    return rewrite_text_plain(rules, text, length, out, 0);
}

/* All rules, with overrides. */
COLD static ptrdiff_t override(const struct rules *rules, const uint8_t *text, size_t length, uint8_t out[ANSWER_BYTES])
{
    return apply_overrides(rules, text, length, out, rewrite_once(rules, text, length, out), rewrite_once);
}

ptrdiff_t rewrite_plain(const struct rules *rules, const uint8_t *text, size_t length, uint8_t out[ANSWER_BYTES])
{
    return rules->overrides ? override(rules, text, length, out) : rewrite_text_plain(rules, text, length, out, 0);
}

#ifdef CANONRY_AVX
AVX2 static ptrdiff_t rewrite_text_avx2(const struct rules *rules, const uint8_t *text, size_t length,
                                        uint8_t out[ANSWER_BYTES], unsigned moves)
{
    static const struct processor processor = {scan_avx2, rewrite_text_avx2};
    ptrdiff_t answer;
    if (length - MIN_URL_BYTES > MAX_URL_BYTES - MIN_URL_BYTES)
        return NEEDS_REFERENCE;
    if (length <= 64) {
        struct word first = classify_short(text, length);
        answer = rewrite_marked(rules, text, length, out, &first, NULL, false, &processor, moves);
    } else {
        struct marks marks;
        scan_avx2(text, length, &marks);
        struct word first = get_first_word(&marks);
        answer = rewrite_marked(rules, text, length, out, &first, &marks, false, &processor, moves);
    }
    return answer == NEEDS_REPAIR ? rewrite_repaired(rules, text, length, out, &processor, moves) : answer;
}

AVX2 ptrdiff_t rewrite_avx2(const struct rules *rules, const uint8_t *text, size_t length, uint8_t out[ANSWER_BYTES])
{
    return rules->overrides ? override(rules, text, length, out) : rewrite_text_avx2(rules, text, length, out, 0);
}

AVX512 static ptrdiff_t rewrite_text_avx512(const struct rules *rules, const uint8_t *text, size_t length,
                                            uint8_t out[ANSWER_BYTES], unsigned moves)
{
    static const struct processor processor = {scan_avx512, rewrite_text_avx512};
    ptrdiff_t answer;
    if (length - MIN_URL_BYTES > MAX_URL_BYTES - MIN_URL_BYTES)
        return NEEDS_REFERENCE;
    if (length <= 64) {
        struct word first = classify_masked(text, length);
        answer = rewrite_marked(rules, text, length, out, &first, NULL, false, &processor, moves);
    } else {
        struct marks marks;
        scan_avx512(text, length, &marks);
        struct word first = get_first_word(&marks);
        answer = rewrite_marked(rules, text, length, out, &first, &marks, false, &processor, moves);
    }
    return answer == NEEDS_REPAIR ? rewrite_repaired(rules, text, length, out, &processor, moves) : answer;
}

AVX512 ptrdiff_t rewrite_avx512(const struct rules *rules, const uint8_t *text, size_t length, uint8_t out[ANSWER_BYTES])
{
    return rules->overrides ? override(rules, text, length, out) : rewrite_text_avx512(rules, text, length, out, 0);
}
#endif

static const struct rewriter REWRITERS[] = {
#ifdef CANONRY_AVX
    {"avx512", rewrite_avx512},
    {"avx2", rewrite_avx2},
#endif
    {"plain", rewrite_plain},
};

static bool can_run(const struct rewriter *rewriter)
{
#ifdef CANONRY_AVX
    if (rewriter->rewrite == rewrite_avx512)
        return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("bmi2");
    if (rewriter->rewrite == rewrite_avx2)
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2");
#endif
    return true;
}

const struct rewriter *choose_rewriter(const char *name)
{
    for (size_t i = 0; i < sizeof REWRITERS / sizeof *REWRITERS; i++)
        if ((name == NULL || strcmp(name, REWRITERS[i].name) == 0) && can_run(&REWRITERS[i]))
            return &REWRITERS[i];
    return NULL;
}
