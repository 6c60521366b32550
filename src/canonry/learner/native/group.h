/* The features of a group of URLs: how often each occurs, and with which values. */
#ifndef CANONRY_LEARNER_GROUP_H
#define CANONRY_LEARNER_GROUP_H

#include "features.h"

/* Entries that are only counted: a segment anywhere, a path in lower case, parameters in any order. */
enum { INSIDE = 32, FOLDED_PATH, SORTED_QUERY };

struct variation {
    uint64_t id, least_value, most_value, least_base, most_base;
    uint32_t count, row;
    uint8_t kind;
    bool is_wanted;
};

/* `slots` has the index of an entry plus one, 0 for an empty slot; there are at least twice as many slots as entries. */
struct group {
    struct variation *entries;
    uint32_t *slots;
    size_t count, capacity, mask;
    uint32_t urls;
    bool has_cases, has_orders;
};

bool open_group(struct group *group);
void close_group(struct group *group);
void clear_group(struct group *group);
/* Count a feature of a URL. Returns false if there is no memory. */
bool count_feature(struct group *group, struct feature feature, uint32_t row, bool is_wanted);
/* Count what `varies` needs to know of a URL for candidates. */
bool count_forms(struct group *group, const struct url_parts *parts, const struct feature *features, int count);
/* Whether some URLs lack the feature or have other values; `is_strict` as in find_varying of url_groups.py. */
bool varies(const struct group *group, const struct variation *entry, bool is_strict);

#endif
