/* Features of URLs, the parts that a learned rule may drop or rewrite, as 64-bit numbers. The reference is url_features.py
 * and url_groups.py. */
#ifndef CANONRY_LEARNER_FEATURES_H
#define CANONRY_LEARNER_FEATURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAX_PARTS 64
#define MAX_VALUE 60
/* At most 6 for each parameter (the parameter, its value, three folders and a page), 1 for each `;name=value`, 3 for each
 * segment, and 8 others. */
#define MAX_FEATURES (MAX_PARTS * 6 + MAX_PARTS + MAX_PARTS * 3 + 8)

/* The numbers are those of FeatureKind in url_features.py. */
enum feature_kind {
    PARAM, SEM, SEG, SHAPE, CASE, EXT, SLUG, SLUG_HEAD, ID_END, ID_START, SLASH, SCHEME, ORDER, VALUE,
    FOLDER_1, FOLDER_2, FOLDER_3, PAGE_1, PAGE_2, PAGE_3
};

struct text {
    const uint8_t *start;
    size_t length;
};

/* A URL in its parts. `path` is without `;name=value`; it points to `scratch` if there are such parts. */
struct url_parts {
    struct text scheme, user, port, path;
    struct text segments[MAX_PARTS], sems[MAX_PARTS], params[MAX_PARTS];
    int segment_count, sem_count, param_count;
    bool has_slash, has_too_many;
};

struct feature {
    uint64_t id, value, base;
    uint8_t kind;
};

struct url_key {
    uint64_t key, order, letter_case;
};

/* A set of pairs (site, feature), as open addressing with 0 for an empty slot. */
struct pair_set {
    uint64_t *slots;
    size_t mask;
};

uint64_t hash_text(struct text text);
/* `scratch` has room for the URL. */
void cut_url(struct text url, uint8_t *scratch, struct url_parts *parts);
/* Write the features whose kind is in the bits of `kinds`; return their number. */
int list_features(const struct url_parts *parts, uint32_t kinds, struct feature features[MAX_FEATURES]);
/* `room` is large enough for the URL. */
struct url_key make_key(struct text url, const struct url_parts *parts, uint32_t site, const struct pair_set *dropped,
                        uint8_t *room);
/* 64 bits of the host, and of its last two labels. */
void hash_host(struct text url, uint64_t *host, uint64_t *family);
/* 64 bits of the path in its own and in lower case, of the parameters in their order and in any. */
void hash_forms(const struct url_parts *parts, uint64_t forms[4]);

bool fill_pair_set(struct pair_set *set, const uint32_t *sites, const uint64_t *ids, size_t count);
bool has_pair(const struct pair_set *set, uint32_t site, uint64_t id);

#endif
