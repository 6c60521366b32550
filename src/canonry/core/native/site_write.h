/* Write the URL of a page. */
#ifndef CANONRY_SITE_WRITE_H
#define CANONRY_SITE_WRITE_H

#include "site_match.h"

/* Write the URL after rules 2 and 8, and after all other rules if it is known that the tables do not change it again
 * (SITE_DONE); otherwise the rules have to be applied to it (SITE_MOVED). `page` is NULL if no page matches. */
enum site_outcome write_page(struct site_match *match, const uint8_t *page, struct bytes *out);

/* Return whether the tables change nothing: the URL is of the main host, it has neither parameters nor a fragment, and the
 * page, if there is one, writes its path as it is. `out` is then empty. */
bool is_left_as_is(const struct site_match *match, const uint8_t *page, struct bytes *out);

/* Write the URL as it is, on the main host. */
void write_whole(const struct site_match *match, struct bytes *out);

#endif
