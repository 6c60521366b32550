#include "site_target.h"

#include "answer.h"
#include "repair.h"

static void remove_range(struct bytes *out, size_t from, size_t count)
{
    memmove(out->at + from, out->at + from + count, out->length - from - count);
    out->length -= count;
}

/* Check what a filter has decoded: a text that is not UTF-8 becomes empty, as in the reference. False if it holds a
 * control character, which only the parser of the reference reads. */
static bool check_decoded(struct bytes *out, size_t start)
{
    for (size_t i = start; i < out->length;) {
        uint8_t c = out->at[i];
        if (c < 0x20 || c == 0x7f)
            return false;
        size_t size = c < 0x80 ? 1 : utf8_length(out->at + i, out->length - i);
        if (size == 0) {
            out->length = start;
            return true;
        }
        i += size;
    }
    return true;
}

/* The value of a character of base64, of either alphabet; -1 for any other. */
static int base64_value(uint8_t c)
{
    if (is_letter(c))
        return c >= 'a' ? c - 'a' + 26 : c - 'A';
    if (is_digit(c))
        return c - '0' + 52;
    return c == '-' || c == '+' ? 62 : c == '_' || c == '/' ? 63 : -1;
}

/* Decode base64, padded or not, from `start` on; a text that is not base64 becomes empty, as in the reference. */
static bool decode_base64(struct bytes *out, size_t start)
{
    size_t end = out->length, written = start;
    uint32_t bits = 0;
    unsigned count = 0;
    while (end > start && out->at[end - 1] == '=')
        end--;
    out->length = start;
    if ((end - start) % 4 == 1)
        return true;
    for (size_t i = start; i < end; i++) {
        int value = base64_value(out->at[i]);
        if (value < 0)
            return true;
        bits = (bits << 6 | (uint32_t)value) & 0xffff;
        count += 6;
        if (count < 8)
            continue;
        count -= 8;
        out->at[written++] = (uint8_t)(bits >> count);
    }
    out->length = written;
    return check_decoded(out, start);
}

/* Decode every escape once from `start` on. */
static bool decode_escapes(struct bytes *out, size_t start)
{
    out->length = start + decode_name(out->at + start, out->length - start, out->at + start);
    return check_decoded(out, start);
}

/* Change what was written from `start` on, as a filter of site_patterns.py does. */
static bool apply_filter(struct bytes *out, size_t start, unsigned filter)
{
    switch (filter) {
    case FILTER_BASE64:
        return decode_base64(out, start);
    case FILTER_PROOFPOINT:
        for (size_t i = start; i < out->length; i++)
            out->at[i] = out->at[i] == '-' ? '%' : out->at[i] == '_' ? '/' : out->at[i];
        return decode_escapes(out, start);
    case FILTER_DECODE:
        return decode_escapes(out, start);
    case FILTER_CAPITAL:
        if (start < out->length && out->at[start] >= 'a' && out->at[start] <= 'z')
            out->at[start] &= (uint8_t)~0x20;
        return true;
    default:
        break;
    }
    for (size_t i = start; i < out->length; i++) {
        uint8_t *at = out->at + i;
        bool is_escape = *at == '%' && out->length - i > 2 && hex_value(at[1]) >= 0 && hex_value(at[2]) >= 0;
        uint8_t c = is_escape ? (uint8_t)(hex_value(at[1]) << 4 | hex_value(at[2])) : *at;
        switch (filter) {
        case FILTER_LOWER:
            if (is_escape)
                i += 2;
            else
                *at = to_lower(c);
            break;
        case FILTER_UPPER:
            if (*at >= 'a' && *at <= 'z')
                *at &= (uint8_t)~0x20;
            break;
        case FILTER_UNDERSCORES:
            if (is_escape && c == ' ') {
                *at = '_';
                remove_range(out, i + 1, 2);
            }
            break;
        case FILTER_DASHES:
            if (*at == '_' || *at == '.')
                *at = '-';
            break;
        case FILTER_UNESCAPE:
            if (is_escape && is_text_escape(c) && c < 0x80 && c != ' ' && c != '"') {
                *at = c;
                remove_range(out, i + 1, 2);
            }
            break;
        default: /* a filter that this file does not know */
            return false;
        }
    }
    return true;
}

bool write_template(const struct site_match *match, const uint8_t *at, struct bytes *out)
{
    for (unsigned left = *at++; left; left--) {
        if (*at++ == 0) {
            struct piece text = read_text(&at);
            write_bytes(out, text.at, text.length);
            continue;
        }
        struct piece value = match->captures[*at++];
        size_t start = out->length;
        write_bytes(out, value.at, value.length);
        for (unsigned filters = *at++; filters; filters--)
            if (!apply_filter(out, start, *at++))
                return false;
    }
    return true;
}

/* --- urldefense.com/v3 ----------------------------------------------------------------------------- */

static bool is_base64(uint8_t c)
{
    return is_letter(c) || is_digit(c) || c == '_' || c == '-' || c == '=';
}

static size_t skip_slashes(const uint8_t *text, size_t at, size_t length)
{
    while (at < length && text[at] == '/')
        at++;
    return at;
}

static bool starts_with(const uint8_t *text, size_t at, size_t length, const char *start)
{
    size_t count = strlen(start);
    return length - at >= count && memcmp(text + at, start, count) == 0;
}

/* The parts of `/v3/__https://a.com/b*c__;Iw!!x!y$`, as _PROOFPOINT of site_patterns.py finds them from `at` on. The rest
 * is NULL if only the reference can tell. */
static bool match_defense(const uint8_t *text, size_t at, size_t length, struct piece *scheme, struct piece *rest,
                          struct piece *replaced)
{
    if (!starts_with(text, at, length, "/v3/"))
        return false;
    at = skip_slashes(text, at + 3, length);
    if (!starts_with(text, at, length, "__http"))
        return false;
    size_t end = at + 6 + (at + 6 < length && text[at + 6] == 's');
    *scheme = (struct piece){text + at + 2, end - at - 2};
    if (!starts_with(text, end, length, ":/"))
        return false;
    size_t from = skip_slashes(text, end + 1, length);
    if (starts_with(text, from, length, "__;")) { /* the address is empty, or the regular expression backtracks */
        *rest = (struct piece){0};
        return true;
    }
    for (size_t i = from + 1; i + 3 <= length; i++) {
        if (!starts_with(text, i, length, "__;"))
            continue;
        size_t last = i + 3;
        while (last < length && is_base64(text[last]))
            last++;
        if (last < length && text[last] == '!') {
            *rest = (struct piece){text + from, i - from};
            *replaced = (struct piece){text + i + 3, last - i - 3};
            return true;
        }
    }
    return false;
}

/* Write the target of the path and the query, as decode_proofpoint of site_patterns.py does; nothing if it finds none.
 * False: the reference answers. */
static bool write_defense(const struct site_match *match, struct bytes *out)
{
    const struct located *url = match->url;
    uint8_t text[MAX_URL_BYTES], characters[MAX_URL_BYTES];
    size_t end = url->path_end + 1 < url->query_end ? url->query_end : url->path_end;
    size_t length = normalize_escapes(url->text + url->path, end - url->path, text), used = 0;
    struct piece scheme, rest, replaced;
    for (size_t at = 0; at < length; at++) {
        if (text[at] != '/' || !match_defense(text, at, length, &scheme, &rest, &replaced))
            continue;
        if (rest.at == NULL)
            return false;
        while (replaced.length && replaced.at[replaced.length - 1] == '=')
            replaced.length--;
        memcpy(characters, replaced.at, replaced.length);
        struct bytes decoded = {.at = characters, .length = replaced.length, .size = sizeof characters};
        if (!decode_base64(&decoded, 0))
            return false;
        for (size_t i = 0; i < decoded.length; i++)
            if (characters[i] >= 0x80)
                return false;
        size_t start = out->length, stars = 0;
        write_bytes(out, scheme.at, scheme.length);
        write_bytes(out, (const uint8_t *)"://", 3);
        for (size_t i = 0; i < rest.length; i++) {
            bool is_star = rest.at[i] == '*';
            stars += is_star;
            if (is_star && i + 1 < rest.length && rest.at[i + 1] == '*')
                stars = SIZE_MAX / 2; /* a run of characters */
            write_one(out, is_star && used < decoded.length ? characters[used++] : rest.at[i]);
        }
        if (stars != decoded.length)
            out->length = start;
        return true;
    }
    return true;
}

/* --- targets ----------------------------------------------------------------------------------------- */

static bool is_web_address(const uint8_t *text, size_t length)
{
    static const char https[] = "https", end[] = "://";
    size_t at = 0;
    while (at < 5 && at < length && to_lower(text[at]) == (uint8_t)https[at])
        at++;
    if (at < 4 || length - at < 4 || memcmp(text + at, end, 3) != 0)
        return false;
    return text[at + 3] != '/' && text[at + 3] != '?' && text[at + 3] != '#';
}

/* Write the query without what the redirect page drops; the other parameters are those of the target. False: the
 * reference answers. */
static bool write_target_query(struct site_match *match, const uint8_t *page, struct bytes *out)
{
    const struct located *url = match->url;
    const uint8_t *drop = get_section(page, SECTION_DROP);
    if (url->path_end + 1 >= url->query_end)
        return true;
    if (!(get_flags(page) & FLAG_HAS_PARAM_RULES)) {
        write_bytes(out, url->text + url->path_end, url->query_end - url->path_end);
        return true;
    }
    if (!match->are_params_read && !read_params(match))
        return false;
    size_t start = out->length;
    bool is_first = true;
    for (size_t i = 0; i < match->param_count; i++) {
        const struct site_param *param = &match->params[i];
        if (find_site_name(drop, param->lower))
            continue;
        write_one(out, is_first ? '?' : '&');
        write_bytes(out, param->param.at, param->param.length);
        is_first = false;
    }
    if (out->length == start + 1) /* one parameter is left, and it is empty */
        out->length = start;
    return true;
}

enum site_outcome write_target(struct site_match *match, const uint8_t *page, struct bytes *out)
{
    const struct located *url = match->url;
    const uint8_t *template = get_section(page, SECTION_TARGET);
    bool has_query = get_flags(page) & FLAG_TARGET_QUERY;
    if (has_query)
        for (size_t i = url->path; i + 1 < url->path_end; i++)
            if (url->text[i] == '/' && url->text[i + 1] == '/') { /* it is not known which slashes belong to the target */
                write_bytes(out, url->text, url->length);
                return SITE_WHOLE;
            }
    if (template[1] == FILTER_ADDRESS ? !write_defense(match, out) : !write_template(match, template, out))
        return SITE_REFERENCE;
    if (has_query) {
        if (url->path < url->path_end && url->text[url->path_end - 1] == '/')
            write_one(out, '/');
        if (!write_target_query(match, page, out))
            return SITE_REFERENCE;
    }
    if (url->query_end + 1 < url->length && !memchr(out->at, '#', out->length)) {
        size_t from = url->query_end + 1;
        struct piece fragment = {url->text + from, find_directive(url->text, from, url->length) - from};
        if (!is_fragment_listed(get_section(page, SECTION_FRAGMENTS), fragment))
            write_bytes(out, url->text + url->query_end, url->length - url->query_end);
    }
    return out->is_full ? SITE_REFERENCE : is_web_address(out->at, out->length) ? SITE_MOVED : SITE_NONE;
}
