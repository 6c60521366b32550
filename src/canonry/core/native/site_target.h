/* Templates with their filters, and the address to which a redirect page leads. */
#ifndef CANONRY_SITE_TARGET_H
#define CANONRY_SITE_TARGET_H

#include "site_match.h"

/* Write a template with what the match has captured. False: the reference answers. */
bool write_template(const struct site_match *match, const uint8_t *template, struct bytes *out);

/* Write the address to which a redirect page leads. SITE_NONE: the page does not match. */
enum site_outcome write_target(struct site_match *match, const uint8_t *page, struct bytes *out);

#endif
