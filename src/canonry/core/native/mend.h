/* Bring a URL into the form that the parser gives it, where that is easy: backslashes become slashes,
 * characters are percent-encoded, dot segments are resolved.
 *
 * As https://url.spec.whatwg.org/#url-parsing for http and https, behind the host only. White space
 * around the text, control characters and anything unusual in the host are left to the reference.
 */
#ifndef CANONRY_MEND_H
#define CANONRY_MEND_H

#include "scan.h"

/* Write the mended text to out, which has MAX_URL_BYTES bytes. Returns its length, or -1 if it does
 * not fit or is not easy. The text starts with `http:` or `https:`. */
ptrdiff_t mend(const uint8_t *text, size_t length, uint8_t out[MAX_URL_BYTES]);

#endif
