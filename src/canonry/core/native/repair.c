#include "repair.h"

size_t utf8_length(const uint8_t *text, size_t length)
{
    uint8_t a = text[0], least = 0x80, most = 0xbf;
    size_t size = a >= 0xc2 && a <= 0xdf ? 2 : a >= 0xe0 && a <= 0xef ? 3 : a >= 0xf0 && a <= 0xf4 ? 4 : 0;
    if (size == 0 || size > length)
        return 0;
    if (a == 0xe0)
        least = 0xa0; /* no overlong form */
    else if (a == 0xed)
        most = 0x9f; /* no surrogates */
    else if (a == 0xf0)
        least = 0x90; /* no overlong form */
    else if (a == 0xf4)
        most = 0x8f; /* nothing beyond U+10FFFF */
    if (text[1] < least || text[1] > most)
        return 0;
    for (size_t i = 2; i < size; i++)
        if (text[i] < 0x80 || text[i] > 0xbf)
            return 0;
    return size;
}

/* The number of dots, 1 or 2, of a segment that holds only dots, escaped or not; 0 for any other segment. */
static int count_dots(const uint8_t *segment, size_t length)
{
    int dots = 0;
    for (size_t i = 0; i < length; dots++) {
        if (segment[i] == '.')
            i += 1;
        else if (length - i >= 3 && segment[i] == '%' && segment[i + 1] == '2' && (segment[i + 2] | 0x20) == 'e')
            i += 3;
        else
            return 0;
    }
    return dots <= 2 ? dots : 0;
}

/* Resolve the segment that has just ended, if it is a dot segment. Returns the new length.
 *
 *     out       https://a.de/b/c/..
 *                           |    | |
 *                           |    | length
 *                           |    segment
 *                           path
 *     after     https://a.de/b/            what is left ends with a slash
 */
static size_t drop_dot_segment(const uint8_t *out, size_t path, size_t segment, size_t length)
{
    int dots = count_dots(out + segment, length - segment);
    if (dots == 0)
        return length;
    length = segment; /* just after a slash */
    if (dots == 2 && length > path + 1)
        for (length--; out[length - 1] != '/'; length--)
            ;
    return length;
}

ptrdiff_t repair(const uint8_t *text, size_t length, uint8_t out[MAX_URL_BYTES])
{
    enum { HOST, PATH, QUERY, FRAGMENT } part = HOST;
    /* The characters to encode, by part, one bit each as in bytes.h: none, then ` "<>^\`{}`, ` "<>'` and ` "<>\``. */
    static const uint64_t encoded[][2] = {
        {0, 0},
        {0x5000000500000000, 0x2800000140000000},
        {0x5000008500000000, 0},
        {0x5000000500000000, 0x0000000100000000},
    };
    enum { MAX_STEP = 12 }; /* bytes that one character can become: four bytes of UTF-8, each escaped */
    size_t at = 0, written = 0, path = 0, segment = 0;
    while (at < length && text[at] != ':') /* the caller has checked the scheme */
        at++;
    if (length - at < 4 || text[length - 1] <= ' ')
        return -1;
    at += 3;
    memcpy(out, text, at);
    written = at;
    for (; at < length; at++) {
        uint8_t c = text[at];
        if (c < ' ' || c == 0x7f || written > MAX_URL_BYTES - MAX_STEP)
            return -1;
        if (c == '\\' && part <= PATH)
            c = '/';
        if ((part <= PATH && c == '?') || (part <= QUERY && c == '#')) {
            if (part == PATH)
                written = drop_dot_segment(out, path, segment, written);
            part = c == '?' ? QUERY : FRAGMENT;
            out[written++] = c;
        } else if (part <= PATH && c == '/') {
            size_t kept = part == PATH ? drop_dot_segment(out, path, segment, written) : written;
            path = part == PATH ? path : written;
            if (kept == written) /* otherwise a dot segment was dropped, and what is left ends with a slash */
                out[kept++] = '/';
            segment = written = kept;
            part = PATH;
        } else if (c > 127) {
            size_t size = utf8_length(text + at, length - at);
            if (part == HOST || size == 0)
                return -1;
            for (size_t i = 0; i < size; i++, written += 3)
                write_escape(out + written, text[at + i]);
            at += size - 1;
        } else if (is_in(encoded[part], c)) {
            write_escape(out + written, c);
            written += 3;
        } else {
            out[written++] = c;
        }
    }
    if (part == PATH)
        written = drop_dot_segment(out, path, segment, written);
    return (ptrdiff_t)written;
}
