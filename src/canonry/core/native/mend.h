/* The parser's first steps for a URL that is simple otherwise: backslashes, characters to encode, dot segments.
 *
 * As https://url.spec.whatwg.org/#url-parsing has it for http and https, behind the host only. White
 * space around the text, control characters and whatever is wrong in the host are left to the parser.
 */
#ifndef CANONRY_MEND_H
#define CANONRY_MEND_H

#include "scan.h"

/* The value of a hexadecimal digit, -1 for other characters. */
ALWAYS_INLINE int hex(uint8_t c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* How many bytes of `text` are one character beyond ASCII in UTF-8, 0 if they are none. */
static size_t utf8_length(const uint8_t *text, size_t length)
{
    uint8_t a = text[0], least = 0x80, most = 0xbf;
    size_t size = a >= 0xc2 && a <= 0xdf ? 2 : a >= 0xe0 && a <= 0xef ? 3 : a >= 0xf0 && a <= 0xf4 ? 4 : 0;
    if (size == 0 || size > length)
        return 0;
    if (a == 0xe0)
        least = 0xa0; /* no longer form than needed */
    else if (a == 0xed)
        most = 0x9f; /* no surrogates */
    else if (a == 0xf0)
        least = 0x90;
    else if (a == 0xf4)
        most = 0x8f; /* nothing beyond U+10FFFF */
    if (text[1] < least || text[1] > most)
        return 0;
    for (size_t i = 2; i < size; i++)
        if (text[i] < 0x80 || text[i] > 0xbf)
            return 0;
    return size;
}

/* How many dots a segment is, escaped or not; 0 if it is anything else. */
static int dots_of(const uint8_t *segment, size_t length)
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

/* A segment of out[path..length) has just ended; the new length after a dot segment went, which ends with a slash. */
static size_t without_dots(const uint8_t *out, size_t path, size_t segment, size_t length)
{
    int dots = dots_of(out + segment, length - segment);
    if (dots == 0)
        return length;
    length = segment; /* behind a slash */
    if (dots == 2 && length > path + 1)
        for (length--; out[length - 1] != '/'; length--)
            ;
    return length;
}

/* The length of the mended text in `out`, which has LONGEST bytes; -1 where it does not fit or is not simple. */
static ptrdiff_t mend(const uint8_t *text, size_t length, uint8_t *out)
{
    static const char digits[] = "0123456789ABCDEF";
    static const char *const encoded[] = {"", " \"<>^`{}", " \"<>'", " \"<>`"};
    enum { HOST, PATH, QUERY, FRAGMENT } part = HOST;
    size_t at = 0, written = 0, path = 0, segment = 0;
    while (at < length && text[at] != ':') /* of the scheme, which has been seen */
        at++;
    if (length - at < 4 || text[length - 1] <= ' ')
        return -1;
    at += 3;
    memcpy(out, text, at);
    written = at;
    for (; at < length; at++) {
        uint8_t c = text[at];
        if (c < ' ' || c == 0x7f || written > LONGEST - 12)
            return -1;
        if (c == '\\' && part <= PATH)
            c = '/';
        if ((part <= PATH && c == '?') || (part <= QUERY && c == '#')) {
            if (part == PATH)
                written = without_dots(out, path, segment, written);
            part = c == '?' ? QUERY : FRAGMENT;
            out[written++] = c;
        } else if (part <= PATH && c == '/') {
            size_t kept = part == PATH ? without_dots(out, path, segment, written) : written;
            path = part == PATH ? path : written;
            if (kept == written) /* what a dot segment leaves ends with a slash */
                out[kept++] = '/';
            segment = written = kept;
            part = PATH;
        } else if (c > 127) {
            size_t size = utf8_length(text + at, length - at);
            if (part == HOST || size == 0)
                return -1;
            for (size_t i = 0; i < size; i++) {
                out[written++] = '%';
                out[written++] = (uint8_t)digits[text[at + i] >> 4];
                out[written++] = (uint8_t)digits[text[at + i] & 15];
            }
            at += size - 1;
        } else if (strchr(encoded[part], c)) {
            out[written++] = '%';
            out[written++] = (uint8_t)digits[c >> 4];
            out[written++] = (uint8_t)digits[c & 15];
        } else {
            out[written++] = c;
        }
    }
    if (part == PATH)
        written = without_dots(out, path, segment, written);
    return (ptrdiff_t)written;
}

#endif
