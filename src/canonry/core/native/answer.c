#include "answer.h"

/* Rule 5: write every escape in one way. Returns the new length, or -1 at a stray `%`; out has `length` bytes. */
static ptrdiff_t normalize_escapes(const uint8_t *text, size_t length, uint8_t *out)
{
    size_t written = 0;
    for (size_t i = 0; i < length; i++) {
        uint8_t c = text[i];
        if (c != '%') {
            out[written++] = c;
            continue;
        }
        if (length - i < 3 || hex_value(text[i + 1]) < 0 || hex_value(text[i + 2]) < 0)
            return -1;
        c = (uint8_t)(hex_value(text[i + 1]) << 4 | hex_value(text[i + 2]));
        i += 2;
        if (is_in(UNRESERVED, c)) {
            out[written++] = c;
        } else {
            write_escape(out + written, c);
            written += 3;
        }
    }
    return (ptrdiff_t)written;
}

bool append_path(const struct rules *rules, struct answer *answer, size_t from, size_t to)
{
    write_piece(answer);
    uint8_t *path = answer->out + answer->length;
    size_t length = to - from;
    if (rules->normalize_escapes) {
        ptrdiff_t new_length = normalize_escapes(answer->text + from, length, path);
        if (new_length < 0)
            return false;
        length = (size_t)new_length;
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

/* One parameter of a query:
 *
 *     a=1&utm_id=x&b
 *         ^start          name = 6, the bytes of `utm_id`; length = 8, the bytes of `utm_id=x`
 *
 * Without `=`, name and length are equal.
 */
struct param {
    uint16_t start, name, length;
};

static int compare_bytes(const uint8_t *a, size_t a_length, const uint8_t *b, size_t b_length)
{
    int order = memcmp(a, b, a_length < b_length ? a_length : b_length);
    return order ? order : (a_length > b_length) - (a_length < b_length);
}

/* Return whether `a` comes after `b`, by name, then by value; a missing value counts as an empty one. */
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

static bool is_param_dropped(struct dropped dropped, const uint8_t *name, size_t length, bool has_percent)
{
    return is_dropped(dropped.names, name, length, has_percent) &&
           !(dropped.needs && is_site_name(dropped.needs, name, length));
}

bool append_query(const struct rules *rules, struct dropped dropped, struct answer *answer, size_t from, size_t to)
{
    uint8_t escaped[MAX_URL_BYTES];
    struct param params[MAX_PARAMS];
    const uint8_t *query = answer->text + from;
    size_t length = to - from, count = 0;
    bool is_same = true;

    if (rules->normalize_escapes && memchr(query, '%', length)) {
        ptrdiff_t new_length = normalize_escapes(query, length, escaped);
        if (new_length < 0)
            return false;
        is_same = (size_t)new_length == length && memcmp(escaped, query, length) == 0;
        query = escaped;
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
        if (rules->strip_params && is_param_dropped(dropped, query + param.start, param.name, has_percent)) {
            is_same = false;
            continue;
        }
        if (count == MAX_PARAMS)
            return false;
        size_t place = count++;
        if (rules->sort_params) /* insertion sort: stable, and quick for a few that are mostly in order */
            for (; place > 0 && is_after(query, &params[place - 1], &param); place--) {
                params[place] = params[place - 1];
                is_same = false;
            }
        params[place] = param;
    }
    if (is_same) {
        append_piece(answer, from - 1, to);
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

COLD void append_route(struct answer *answer, size_t from, size_t to)
{
    if (answer->text[from] != '!' && answer->text[from] != '/')
        return;
    size_t end = from;
    while (end < to && !(to - end >= 3 && memcmp(answer->text + end, ":~:", 3) == 0))
        end++;
    append_piece(answer, from - 1, end);
}

COLD void append_clean_fragment(const struct rules *rules, struct dropped dropped, struct answer *answer, size_t from,
                                size_t to)
{
    const uint8_t *text = answer->text;
    size_t end = from;
    while (end < to && !(to - end >= 3 && memcmp(text + end, ":~:", 3) == 0))
        end++;
    if (end == from)
        return;
    bool is_tracking = rules->strip_params;
    for (size_t start = from; is_tracking && start <= end;) {
        size_t at = start, name = SIZE_MAX;
        bool has_percent = false;
        for (; at < end && text[at] != '&'; at++)
            if (name == SIZE_MAX) {
                if (text[at] == '=')
                    name = at;
                has_percent |= text[at] == '%';
            }
        is_tracking = name != SIZE_MAX && is_param_dropped(dropped, text + start, name - start, has_percent);
        start = at + 1;
    }
    if (!is_tracking)
        append_piece(answer, from - 1, end);
}
