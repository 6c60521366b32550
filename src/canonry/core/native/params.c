#include "params.h"

#ifdef __SSE2__
#include <emmintrin.h>

/* A bit for each of 16 bytes that is `&`, `=` or `%`. */
static inline unsigned mark_16(const uint8_t *text)
{
    __m128i bytes = _mm_loadu_si128((const __m128i *)text);
    __m128i found = _mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('&')),
                                 _mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('=')),
                                              _mm_cmpeq_epi8(bytes, _mm_set1_epi8('%'))));
    return (unsigned)_mm_movemask_epi8(found);
}
#endif

static unsigned mark_bytes(const uint8_t *text, size_t count)
{
    unsigned found = 0;
    for (size_t i = 0; i < count; i++)
        found |= (unsigned)(text[i] == '&' || text[i] == '=' || text[i] == '%') << i;
    return found;
}

/* The marks of text[at .. at + 16), or up to `to`. The last bytes are read together with those before them:
 *
 *     text    . . . . . . . . . . . . . . . . . . . . .
 *                         ^at             ^to              4 bytes are left
 *             ^to - 16                                     the bits of the first 12 are shifted out
 */
static inline unsigned mark(const uint8_t *text, size_t at, size_t to)
{
#ifdef __SSE2__
    if (to - at >= 16)
        return mark_16(text + at);
    if (to >= 16)
        return mark_16(text + to - 16) >> (16 - (to - at));
#endif
    return mark_bytes(text + at, to - at < 16 ? to - at : 16);
}

size_t split_params(const uint8_t *text, size_t from, size_t to, struct param params[MAX_PARAMS])
{
    size_t count = 0, start = from, name = SIZE_MAX;
    bool has_percent = false, has_escape = false;
    for (size_t at = from; at < to; at += 16)
        for (unsigned found = mark(text, at, to); found; found &= found - 1) {
            size_t here = at + (size_t)__builtin_ctz(found);
            if (text[here] == '=') {
                if (name == SIZE_MAX)
                    name = here;
            } else if (text[here] == '%') {
                has_escape = true;
                has_percent |= name == SIZE_MAX;
            } else {
                if (count == MAX_PARAMS)
                    return MAX_PARAMS + 1;
                params[count++] = (struct param){text + start, (uint16_t)((name == SIZE_MAX ? here : name) - start),
                                                 (uint16_t)(here - start), has_percent, has_escape};
                start = here + 1;
                name = SIZE_MAX;
                has_percent = has_escape = false;
            }
        }
    if (count == MAX_PARAMS)
        return MAX_PARAMS + 1;
    params[count++] = (struct param){text + start, (uint16_t)((name == SIZE_MAX ? to : name) - start),
                                     (uint16_t)(to - start), has_percent, has_escape};
    return count;
}

static int compare_bytes(const uint8_t *a, size_t a_length, const uint8_t *b, size_t b_length)
{
    int order = memcmp(a, b, a_length < b_length ? a_length : b_length);
    return order ? order : (a_length > b_length) - (a_length < b_length);
}

/* Return whether `a` comes after `b`, by name, then by value; a missing value counts as an empty one. */
static bool is_after(const struct param *a, const struct param *b)
{
    if (a->name && b->name && a->at[0] != b->at[0])
        return a->at[0] > b->at[0];
    int order = compare_bytes(a->at, a->name, b->at, b->name);
    if (order == 0) {
        size_t a_value = a->name < a->length ? a->name + 1u : a->length;
        size_t b_value = b->name < b->length ? b->name + 1u : b->length;
        order = compare_bytes(a->at + a_value, a->length - a_value, b->at + b_value, b->length - b_value);
    }
    return order > 0;
}

bool insert_sorted(struct param params[MAX_PARAMS], size_t count, struct param param)
{
    size_t place = count; /* insertion sort: stable, and quick for a few that are mostly in order */
    for (; place > 0 && is_after(&params[place - 1], &param); place--)
        params[place] = params[place - 1];
    params[place] = param;
    return place == count;
}

static bool is_escape(const uint8_t *text, size_t length)
{
    return length >= 3 && hex_value(text[1]) >= 0 && hex_value(text[2]) >= 0;
}

/* Return whether an escape stands for a hexadecimal digit, as _ESCAPE of rules.py lists them: %30-39, %41-46, %61-66. */
static bool is_escaped_digit(const uint8_t *text, size_t length)
{
    if (length < 3 || text[0] != '%')
        return false;
    return text[1] == '3' ? text[2] >= '0' && text[2] <= '9'
                          : (text[1] == '4' || text[1] == '6') && text[2] >= '1' && text[2] <= '6';
}

size_t normalize_escapes(const uint8_t *text, size_t length, uint8_t *out)
{
    size_t written = 0;
    for (size_t i = 0; i < length;) {
        if (text[i] != '%') {
            out[written++] = text[i++];
            continue;
        }
        if (is_escape(text + i, length - i)) {
            uint8_t c = (uint8_t)(hex_value(text[i + 1]) << 4 | hex_value(text[i + 2]));
            i += 3;
            if (is_in(UNRESERVED, c)) {
                out[written++] = c;
            } else {
                write_escape(out + written, c);
                written += 3;
            }
            continue;
        }
        /* A stray `%`: an escaped digit after it is not decoded, because it would become part of a new escape. */
        size_t end = i + 1;
        if (end < length && hex_value(text[end]) >= 0)
            end++;
        else if (is_escaped_digit(text + end, length - end))
            end += 3;
        if (is_escaped_digit(text + end, length - end))
            end += 3;
        while (i < end)
            out[written++] = text[i++];
    }
    return written;
}

size_t collapse_slashes(uint8_t *path, size_t length)
{
    size_t kept = 0;
    unsigned doubles = 0;
    for (size_t i = 1; i < length; i++) /* the compiler makes this loop quick; nearly always, it finds none */
        doubles |= (unsigned)(path[i] == '/') & (unsigned)(path[i - 1] == '/');
    if (!doubles)
        return length;
    for (size_t i = 0; i < length; i++)
        if (path[i] != '/' || kept == 0 || path[kept - 1] != '/')
            path[kept++] = path[i];
    return kept;
}

size_t decode_name(const uint8_t *name, size_t length, uint8_t *out)
{
    size_t written = 0;
    for (size_t i = 0; i < length; i++) {
        uint8_t c = name[i];
        if (c == '%' && is_escape(name + i, length - i)) {
            c = (uint8_t)(hex_value(name[i + 1]) << 4 | hex_value(name[i + 2]));
            i += 2;
        }
        out[written++] = c;
    }
    return written;
}
