#include "group.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY 512

bool open_group(struct group *group)
{
    *group = (struct group){.capacity = FIRST_CAPACITY, .mask = FIRST_CAPACITY * 2 - 1};
    group->entries = malloc(group->capacity * sizeof *group->entries);
    group->slots = calloc(group->mask + 1, sizeof *group->slots);
    return group->entries != NULL && group->slots != NULL;
}

void close_group(struct group *group)
{
    free(group->entries);
    free(group->slots);
}

/* Features of different kinds may have one number, so the kind is part of the place. */
static size_t find_slot(const struct group *group, uint64_t id, uint8_t kind)
{
    size_t at = (size_t)(id + kind) & group->mask;
    while (group->slots[at] != 0) {
        const struct variation *entry = &group->entries[group->slots[at] - 1];
        if (entry->id == id && entry->kind == kind)
            break;
        at = (at + 1) & group->mask;
    }
    return at;
}

void clear_group(struct group *group)
{
    if (group->count * 8 > group->mask)
        memset(group->slots, 0, (group->mask + 1) * sizeof *group->slots);
    else
        for (size_t i = group->count; i > 0; i--) /* in reverse, so that no chain is cut before its end is found */
            group->slots[find_slot(group, group->entries[i - 1].id, group->entries[i - 1].kind)] = 0;
    group->count = 0;
    group->urls = 0;
    group->has_cases = group->has_orders = false;
}

static bool grow(struct group *group)
{
    size_t capacity = group->capacity * 2;
    struct variation *entries = realloc(group->entries, capacity * sizeof *entries);
    if (entries == NULL)
        return false;
    group->entries = entries;
    uint32_t *slots = calloc(capacity * 2, sizeof *slots);
    if (slots == NULL)
        return false;
    free(group->slots);
    group->slots = slots;
    group->capacity = capacity;
    group->mask = capacity * 2 - 1;
    for (size_t i = 0; i < group->count; i++)
        slots[find_slot(group, entries[i].id, entries[i].kind)] = (uint32_t)i + 1;
    return true;
}

/* The entry of a feature, a new one if need be; NULL if there is no memory. */
static struct variation *find_entry(struct group *group, struct feature feature, uint32_t row, bool is_wanted)
{
    size_t at = find_slot(group, feature.id, feature.kind);
    if (group->slots[at] != 0)
        return &group->entries[group->slots[at] - 1];
    if (group->count == group->capacity) {
        if (!grow(group))
            return NULL;
        at = find_slot(group, feature.id, feature.kind);
    }
    group->entries[group->count] = (struct variation){
        feature.id, feature.value, feature.value, feature.base, feature.base, 0, row, feature.kind, is_wanted};
    group->slots[at] = (uint32_t)++group->count;
    return &group->entries[group->count - 1];
}

bool count_feature(struct group *group, struct feature feature, uint32_t row, bool is_wanted)
{
    struct variation *entry = find_entry(group, feature, row, is_wanted);
    if (entry == NULL)
        return false;
    entry->count++;
    if (feature.value < entry->least_value)
        entry->least_value = feature.value;
    if (feature.value > entry->most_value)
        entry->most_value = feature.value;
    if (feature.base < entry->least_base)
        entry->least_base = feature.base;
    if (feature.base > entry->most_base)
        entry->most_base = feature.base;
    return true;
}

/* Whether a text was seen in another form before. */
static bool count_form(struct group *group, uint8_t kind, uint64_t id, uint64_t form, bool *has_forms)
{
    struct variation *entry = find_entry(group, (struct feature){id, form, 0, kind}, 0, false);
    if (entry == NULL)
        return false;
    *has_forms |= entry->least_value != form;
    return true;
}

bool count_forms(struct group *group, const struct url_parts *parts, const struct feature *features, int count)
{
    uint64_t forms[4];
    hash_forms(parts, forms);
    if (!count_form(group, FOLDED_PATH, forms[1], forms[0], &group->has_cases) ||
        !count_form(group, SORTED_QUERY, forms[3], forms[2], &group->has_orders))
        return false;
    for (int i = 0; i < count; i++) {
        if (features[i].kind != SEG)
            continue;
        bool is_counted = false; /* a segment that is in a URL twice is counted once */
        for (int k = 0; k < i; k++)
            is_counted |= features[k].kind == SEG && features[k].base == features[i].base;
        if (!is_counted && !count_feature(group, (struct feature){features[i].base, 0, 0, INSIDE}, 0, false))
            return false;
    }
    return true;
}

static uint32_t get_count(const struct group *group, uint64_t id, uint8_t kind)
{
    uint32_t slot = group->slots[find_slot(group, id, kind)];
    return slot == 0 ? 0 : group->entries[slot - 1].count;
}

bool varies(const struct group *group, const struct variation *entry, bool is_strict)
{
    bool differs = entry->least_value != entry->most_value;
    if (entry->count >= group->urls && !differs)
        return false;
    if (!is_strict)
        return true;
    switch (entry->kind) {
    case ID_END:
    case ID_START:
        return differs;
    case SEG:
    case SHAPE:
    case SLUG:
    case SLUG_HEAD:
        return get_count(group, entry->least_base, INSIDE) < group->urls ||
               get_count(group, entry->most_base, INSIDE) < group->urls;
    case CASE:
        return group->has_cases;
    case ORDER:
        return group->has_orders;
    case VALUE:
        return get_count(group, entry->least_base, PARAM) < group->urls;
    default:
        return true;
    }
}
