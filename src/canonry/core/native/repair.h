/* Repair a URL as the parser does, in simple cases: backslashes become slashes, characters are
 * percent-encoded, dot segments are resolved.
 *
 * Follows https://url.spec.whatwg.org/#url-parsing for http and https, and changes only what comes after
 * the host. White space around the text, control characters and anything unusual in the host are left
 * to the reference.
 */
#ifndef CANONRY_REPAIR_H
#define CANONRY_REPAIR_H

#include "scan.h"

/* Write the repaired text to out, which has MAX_URL_BYTES bytes. Returns its length, or -1 if it does
 * not fit or the reference must parse it. The text starts with `http:` or `https:`. */
ptrdiff_t repair(const uint8_t *text, size_t length, uint8_t out[MAX_URL_BYTES]);

/* The number of bytes of the character beyond ASCII at the start of the text; 0 if it is not valid UTF-8. */
size_t utf8_length(const uint8_t *text, size_t length);

#endif
