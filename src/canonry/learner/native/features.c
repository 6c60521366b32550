#include "features.h"

#include <stdlib.h>
#include <string.h>

#define START 0xCBF29CE484222325u
#define PRIME 0x100000001B3u
#define GOLDEN 0x9E3779B97F4A7C15u
#define BIT(kind) (1u << (kind))

/* FNV-1a: the state after some bytes. */
static uint64_t feed(uint64_t state, const uint8_t *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++)
        state = (state ^ bytes[i]) * PRIME;
    return state;
}

static uint64_t feed_byte(uint64_t state, uint8_t byte)
{
    return (state ^ byte) * PRIME;
}

static uint64_t feed_text(uint64_t state, struct text text)
{
    return feed(state, text.start, text.length);
}

static uint64_t feed_word(uint64_t state, const char *word)
{
    return feed(state, (const uint8_t *)word, strlen(word));
}

static uint8_t lower(uint8_t byte)
{
    return byte >= 'A' && byte <= 'Z' ? byte | 0x20 : byte;
}

static uint64_t feed_lower(uint64_t state, struct text text)
{
    for (size_t i = 0; i < text.length; i++)
        state = feed_byte(state, lower(text.start[i]));
    return state;
}

static uint64_t mix(uint64_t value)
{
    value = (value ^ (value >> 33)) * 0xFF51AFD7ED558CCDu;
    value = (value ^ (value >> 33)) * 0xC4CEB9FE1A85EC53u;
    return value ^ (value >> 33);
}

/* Of a value: 0 for an empty one. */
static uint64_t hash_value(struct text text)
{
    return text.length ? mix(feed_text(START, text)) : 0;
}

uint64_t hash_text(struct text text)
{
    return mix(feed_text(START, text));
}

static bool is_digit(uint8_t byte)
{
    return byte >= '0' && byte <= '9';
}

static bool is_letter(uint8_t byte)
{
    return lower(byte) >= 'a' && lower(byte) <= 'z';
}

static bool is_separator(uint8_t byte)
{
    return byte == '-' || byte == '_' || byte == ',';
}

static bool has_digit(struct text text)
{
    for (size_t i = 0; i < text.length; i++)
        if (is_digit(text.start[i]))
            return true;
    return false;
}

static bool has_letter(struct text text)
{
    for (size_t i = 0; i < text.length; i++)
        if (is_letter(text.start[i]))
            return true;
    return false;
}

static struct text slice(struct text text, size_t from, size_t to)
{
    return (struct text){text.start + from, to - from};
}

/* The place of a byte, or the length. */
static size_t find(struct text text, uint8_t byte)
{
    const uint8_t *found = text.length ? memchr(text.start, byte, text.length) : NULL;
    return found ? (size_t)(found - text.start) : text.length;
}

/* Cut a text at each separator. Returns false if there are more than MAX_PARTS parts. */
static bool cut_at(struct text text, uint8_t separator, struct text parts[MAX_PARTS], int *count)
{
    for (*count = 0;;) {
        size_t end = find(text, separator);
        if (*count == MAX_PARTS)
            return false;
        parts[(*count)++] = slice(text, 0, end);
        if (end == text.length)
            return true;
        text = slice(text, end + 1, text.length);
    }
}

/* Copy the path without its `;name=value` parts, which go to `sems`. */
static void cut_sems(struct text path, uint8_t *scratch, struct url_parts *parts)
{
    size_t length = 0;
    for (size_t i = 0; i < path.length;) {
        if (path.start[i] != ';') {
            scratch[length++] = path.start[i++];
            continue;
        }
        size_t from = ++i;
        while (i < path.length && path.start[i] != ';' && path.start[i] != '/')
            i++;
        if (i == from)
            continue;
        if (parts->sem_count == MAX_PARTS)
            parts->has_too_many = true;
        else
            parts->sems[parts->sem_count++] = slice(path, from, i);
    }
    parts->path = (struct text){scratch, length};
}

/* The host with user information and port, and what follows it. */
static struct text cut_authority(struct text url, struct text *scheme, struct text *rest)
{
    size_t colon = find(url, ':');
    *scheme = slice(url, 0, colon);
    size_t from = colon + 3 <= url.length ? colon + 3 : url.length;
    struct text after = slice(url, from, url.length);
    size_t end = find(after, '/'), question = find(after, '?');
    if (question < end)
        end = question;
    *rest = slice(after, end, after.length);
    return slice(after, 0, end);
}

/* The user information with its `@`, the host, and the port with its colon. */
static struct text cut_host(struct text authority, struct text *user, struct text *port)
{
    size_t from = authority.length, end = authority.length;
    while (from > 0 && authority.start[from - 1] != '@')
        from--;
    while (end > from && is_digit(authority.start[end - 1]))
        end--;
    bool has_port = end < authority.length && end > from && authority.start[end - 1] == ':';
    end = has_port ? end - 1 : authority.length;
    *user = slice(authority, 0, from);
    *port = slice(authority, end, authority.length);
    return slice(authority, from, end);
}

void cut_url(struct text url, uint8_t *scratch, struct url_parts *parts)
{
    struct text rest;
    struct text authority = cut_authority(url, &parts->scheme, &rest);
    cut_host(authority, &parts->user, &parts->port);
    parts->segment_count = parts->sem_count = parts->param_count = 0;
    parts->has_too_many = false;
    size_t question = find(rest, '?');
    struct text query = question < rest.length ? slice(rest, question + 1, rest.length) : (struct text){rest.start, 0};
    parts->path = slice(rest, 0, question);
    if (find(parts->path, ';') < parts->path.length)
        cut_sems(parts->path, scratch, parts);
    struct text path = parts->path;
    parts->has_slash = path.length > 0 && path.start[path.length - 1] == '/';
    if (path.length > 1) {
        struct text inner = slice(path, 1, path.length - (parts->has_slash ? 1 : 0));
        parts->has_too_many |= !cut_at(inner, '/', parts->segments, &parts->segment_count);
    }
    if (query.length > 0)
        parts->has_too_many |= !cut_at(query, '&', parts->params, &parts->param_count);
}

void hash_host(struct text url, uint64_t *host, uint64_t *family)
{
    struct text scheme, rest, user, port;
    struct text name = cut_host(cut_authority(url, &scheme, &rest), &user, &port);
    size_t from = name.length, dots = 0;
    while (from > 0 && (name.start[from - 1] != '.' || ++dots < 2))
        from--;
    *host = hash_text(name);
    *family = hash_text(slice(name, from, name.length));
}

static struct text get_name(struct text part)
{
    return slice(part, 0, find(part, '='));
}

/* Runs of letters and digits become `#`, runs of digits `0`. */
static uint64_t feed_shape(uint64_t state, struct text segment)
{
    for (size_t i = 0; i < segment.length;) {
        size_t from = i;
        while (i < segment.length && (is_digit(segment.start[i]) || is_letter(segment.start[i])))
            i++;
        if (i == from) {
            state = feed_byte(state, segment.start[i++]);
            continue;
        }
        struct text run = slice(segment, from, i);
        if (!has_digit(run))
            state = feed_text(state, run);
        else
            state = feed_byte(state, has_letter(run) ? '#' : '0');
    }
    return state;
}

static uint64_t feed_template(uint64_t state, const struct text *segments, int count)
{
    state = feed_byte(state, '/');
    for (int i = 0; i < count; i++) {
        if (i > 0)
            state = feed_byte(state, '/');
        state = has_digit(segments[i]) ? feed_byte(state, '#') : feed_text(state, segments[i]);
    }
    return state;
}

/* Whether a text is a letter and then letters and digits. */
static bool is_suffix(struct text text)
{
    for (size_t i = 0; i < text.length; i++)
        if (!is_letter(text.start[i]) && (i == 0 || !is_digit(text.start[i])))
            return false;
    return text.length > 0;
}

static size_t find_last_dot(struct text text)
{
    for (size_t i = text.length; i > 0; i--)
        if (text.start[i - 1] == '.')
            return i - 1;
    return text.length;
}

static struct text get_extension(struct text segment)
{
    struct text none = {segment.start, 0};
    size_t dot = find_last_dot(segment);
    if (dot == segment.length || dot == 0 || segment.start[dot - 1] == '.')
        return none;
    struct text extension = slice(segment, dot + 1, segment.length);
    return extension.length <= 6 && is_suffix(extension) ? extension : none;
}

/* `a-title-123` → `a-title-`: the text up to the last separator, before an id. */
static struct text get_head_of_id(struct text text)
{
    size_t end = text.length, from;
    while (end > 0 && !is_separator(text.start[end - 1]) && text.start[end - 1] != '.')
        end--;
    from = end;
    if (from < text.length && is_letter(text.start[from]))
        from++;
    bool is_id = from < text.length;
    for (size_t i = from; i < text.length; i++)
        is_id = is_id && is_digit(text.start[i]);
    struct text head = slice(text, 0, end);
    return end > 0 && is_id && has_letter(slice(text, 0, end - 1)) ? head : slice(text, 0, 0);
}

static struct text get_text_before_id(struct text segment)
{
    struct text head = get_head_of_id(segment);
    if (head.length > 0)
        return head;
    size_t dot = find_last_dot(segment);
    if (dot == segment.length || !is_suffix(slice(segment, dot + 1, segment.length)))
        return slice(segment, 0, 0);
    return get_head_of_id(slice(segment, 0, dot));
}

static struct text get_text_after_id(struct text segment)
{
    struct text none = {segment.start, 0};
    size_t from = 0;
    while (from < segment.length && is_digit(segment.start[from]))
        from++;
    if (from == 0 || from == segment.length || !is_separator(segment.start[from]))
        return none;
    size_t end = from + find(slice(segment, from, segment.length), '.');
    bool is_whole = end == segment.length || is_suffix(slice(segment, end + 1, segment.length));
    return is_whole && has_letter(slice(segment, from, end)) ? slice(segment, from, end) : none;
}

static const char *const PLACES[] = {"first:", "mid:", "last:"};

static int get_place(int index, int count)
{
    return index == count - 1 ? 2 : index == 0 ? 0 : 1;
}

static uint64_t hash_word(const char *word)
{
    return mix(feed_word(START, word));
}

static uint64_t hash_case(int place)
{
    static const char *const names[] = {"case:first", "case:mid", "case:last"};
    return hash_word(names[place]);
}

static uint64_t hash_segment(const char *kind, int place, struct text segment)
{
    return mix(feed_text(feed_word(feed_word(START, kind), PLACES[place]), segment));
}

static uint64_t hash_shape(int place, struct text segment)
{
    return mix(feed_shape(feed_word(feed_word(START, "shape:"), PLACES[place]), segment));
}

/* The folders of a path to the third, and the path if it is not so deep. */
static int list_scopes(struct text path, struct text scopes[4], uint8_t kinds[4])
{
    int slashes = 0, count = 0;
    for (size_t i = 0; i < path.length && slashes < 4; i++)
        if (path.start[i] == '/' && ++slashes > 1) {
            scopes[count] = slice(path, 0, i + 1);
            kinds[count++] = (uint8_t)(FOLDER_1 + slashes - 2);
        }
    if (slashes > 0 && slashes <= 3 && (slashes == 1 || path.start[path.length - 1] != '/')) {
        scopes[count] = path;
        kinds[count++] = (uint8_t)(PAGE_1 + slashes - 1);
    }
    return count;
}

static uint64_t hash_scope(struct text scope, struct text name)
{
    uint64_t state = feed_text(feed_word(START, "folder:"), scope);
    return mix(feed_lower(feed_byte(state, '|'), name));
}

struct writer {
    struct feature *features;
    int count;
};

/* Add a feature; several parts of a URL with one name become one. */
static void add(struct writer *writer, uint8_t kind, uint64_t id, uint64_t value, uint64_t base, bool may_repeat)
{
    for (int i = 0; may_repeat && i < writer->count; i++)
        if (writer->features[i].id == id && writer->features[i].kind == kind) {
            writer->features[i].value += value;
            if (kind == CASE)
                writer->features[i].base += base;
            return;
        }
    writer->features[writer->count++] = (struct feature){id, value, base, kind};
}

static void add_params(struct writer *writer, const struct url_parts *parts, uint32_t kinds)
{
    uint64_t ids[MAX_PARTS];
    struct text scopes[4];
    uint8_t scope_kinds[4];
    uint32_t scoped = kinds & (BIT(FOLDER_1) | BIT(FOLDER_2) | BIT(FOLDER_3) | BIT(PAGE_1) | BIT(PAGE_2) | BIT(PAGE_3));
    int scope_count = scoped ? list_scopes(parts->path, scopes, scope_kinds) : 0;
    for (int i = 0; i < parts->param_count; i++)
        ids[i] = mix(feed_lower(feed_word(START, "param:"), get_name(parts->params[i])));
    for (int i = 0; i < parts->param_count; i++) {
        bool is_repeated = false;
        for (int k = 0; k < parts->param_count; k++)
            is_repeated |= k != i && ids[k] == ids[i];
        struct text param = parts->params[i];
        uint64_t value = hash_value(param);
        if (kinds & BIT(PARAM))
            add(writer, PARAM, ids[i], value, ids[i], is_repeated);
        if (kinds & BIT(VALUE) && param.length < MAX_VALUE && !is_repeated)
            add(writer, VALUE, mix(feed_text(feed_word(START, "value:"), param)), value, ids[i], false);
        for (int k = 0; k < scope_count; k++)
            if (scoped & BIT(scope_kinds[k]))
                add(writer, scope_kinds[k], hash_scope(scopes[k], get_name(param)), value, ids[i], is_repeated);
    }
}

static void add_segments(struct writer *writer, const struct url_parts *parts, uint32_t kinds)
{
    int count = parts->segment_count;
    for (int i = 0; i < count; i++) {
        struct text segment = parts->segments[i];
        int place = get_place(i, count);
        uint64_t value = hash_value(segment), base = mix(feed_lower(START, segment));
        if (kinds & BIT(SEG))
            add(writer, SEG, hash_segment("seg:", place, segment), value, base, place == 1);
        if (kinds & BIT(SHAPE) && has_digit(segment))
            add(writer, SHAPE, hash_shape(place, segment), value, base, place == 1);
        if (kinds & BIT(CASE))
            add(writer, CASE, hash_case(place), value, base, place == 1);
    }
}

static void add_last(struct writer *writer, const struct url_parts *parts, uint32_t kinds)
{
    int count = parts->segment_count;
    if (count == 0)
        return;
    struct text last = parts->segments[count - 1], first = parts->segments[0], text;
    if (kinds & BIT(EXT) && (text = get_extension(last)).length > 0)
        add(writer, EXT, mix(feed_lower(feed_word(START, "ext:"), text)), hash_value(text), 0, false);
    if (kinds & BIT(SLUG) && count > 1 && has_digit(parts->segments[count - 2]))
        add(writer, SLUG, mix(feed_template(feed_word(START, "slug:"), parts->segments, count - 1)), hash_value(last),
            mix(feed_lower(START, last)), false);
    if (kinds & BIT(SLUG_HEAD) && count > 1 && has_digit(last) && !has_digit(first))
        add(writer, SLUG_HEAD, mix(feed_template(feed_word(START, "slug-head:"), parts->segments + 1, count - 1)),
            hash_value(first), mix(feed_lower(START, first)), false);
    if (kinds & BIT(ID_END) && (text = get_text_before_id(last)).length > 0)
        add(writer, ID_END, mix(feed_template(feed_word(START, "id-end:"), parts->segments, count - 1)),
            hash_value(text), 0, false);
    if (kinds & BIT(ID_START) && (text = get_text_after_id(last)).length > 0)
        add(writer, ID_START, mix(feed_template(feed_word(START, "id-start:"), parts->segments, count - 1)),
            hash_value(text), 0, false);
    if (kinds & BIT(SLASH) && parts->has_slash)
        add(writer, SLASH, hash_word("slash"), 0, 0, false);
}

static uint64_t feed_list(uint64_t state, const struct text *texts, int count, uint8_t separator)
{
    for (int i = 0; i < count; i++) {
        if (i > 0)
            state = feed_byte(state, separator);
        state = feed_text(state, texts[i]);
    }
    return state;
}

int list_features(const struct url_parts *parts, uint32_t kinds, struct feature features[MAX_FEATURES])
{
    struct writer writer = {features, 0};
    if (parts->has_too_many)
        return 0;
    add_params(&writer, parts, kinds);
    if (kinds & BIT(SEM))
        for (int i = 0; i < parts->sem_count; i++)
            add(&writer, SEM, mix(feed_lower(feed_word(START, "sem:"), get_name(parts->sems[i]))),
                hash_value(parts->sems[i]), 0, true);
    add_segments(&writer, parts, kinds);
    add_last(&writer, parts, kinds);
    if (kinds & BIT(SCHEME))
        add(&writer, SCHEME, hash_word("scheme"), hash_value(parts->scheme), 0, false);
    if (kinds & BIT(ORDER) && parts->param_count > 1)
        add(&writer, ORDER, hash_word("order"), mix(feed_list(START, parts->params, parts->param_count, '&')), 0, false);
    return writer.count;
}

void hash_forms(const struct url_parts *parts, uint64_t forms[4])
{
    forms[0] = hash_text(parts->path);
    forms[1] = mix(feed_lower(START, parts->path));
    forms[2] = mix(feed_list(START, parts->params, parts->param_count, '&'));
    forms[3] = 0;
    for (int i = 0; i < parts->param_count; i++)
        forms[3] += hash_text(parts->params[i]);
}

static uint64_t make_slot(uint32_t site, uint64_t id)
{
    uint64_t slot = mix(id ^ (site * GOLDEN));
    return slot ? slot : 1;
}

bool fill_pair_set(struct pair_set *set, const uint32_t *sites, const uint64_t *ids, size_t count)
{
    size_t size = 16;
    while (size < count * 2)
        size *= 2;
    set->mask = size - 1;
    set->slots = calloc(size, sizeof *set->slots);
    for (size_t i = 0; set->slots != NULL && i < count; i++) {
        uint64_t slot = make_slot(sites[i], ids[i]);
        size_t at = slot & set->mask;
        while (set->slots[at] != 0 && set->slots[at] != slot)
            at = (at + 1) & set->mask;
        set->slots[at] = slot;
    }
    return set->slots != NULL;
}

bool has_pair(const struct pair_set *set, uint32_t site, uint64_t id)
{
    uint64_t slot = make_slot(site, id);
    size_t at = slot & set->mask;
    while (set->slots[at] != 0 && set->slots[at] != slot)
        at = (at + 1) & set->mask;
    return set->slots[at] != 0;
}

/* What is asked about the features that are dropped on the site of a URL. */
struct drops {
    const struct pair_set *set;
    uint32_t site;
};

static bool drops_id(const struct drops *drops, uint64_t id)
{
    return has_pair(drops->set, drops->site, id);
}

static bool drops_segment(const struct drops *drops, int place, struct text segment)
{
    return drops_id(drops, hash_segment("seg:", place, segment)) ||
           (has_digit(segment) && drops_id(drops, hash_shape(place, segment)));
}

static bool drops_param(const struct drops *drops, struct text param, const struct text *scopes, int scope_count)
{
    struct text name = get_name(param);
    if (drops_id(drops, mix(feed_lower(feed_word(START, "param:"), name))) ||
        drops_id(drops, mix(feed_text(feed_word(START, "value:"), param))))
        return true;
    for (int i = 0; i < scope_count; i++)
        if (drops_id(drops, hash_scope(scopes[i], name)))
            return true;
    return false;
}

/* The last segment without the text beside an id, and without the extension. `room` is large enough for it. */
static struct text shorten(const struct drops *drops, const struct text *segments, int count, uint8_t *room)
{
    int front = count - 1;
    struct text last = segments[front], whole = last;
    struct text extension = get_extension(last);
    struct text before = {last.start, 0}, after = {last.start, 0};
    if (drops_id(drops, mix(feed_template(feed_word(START, "id-end:"), segments, front))))
        before = get_text_before_id(whole);
    if (before.length == 0 && drops_id(drops, mix(feed_template(feed_word(START, "id-start:"), segments, front))))
        after = get_text_after_id(whole);
    if (extension.length > 0 && drops_id(drops, mix(feed_lower(feed_word(START, "ext:"), extension))))
        last.length -= extension.length + 1;
    if (before.length > last.length) /* `title.m3`: the id is the extension, too */
        before.length = last.length;
    if (before.length > 0)
        return slice(last, before.length, last.length);
    if (after.length == 0)
        return last;
    size_t id = (size_t)(after.start - last.start), rest = last.length - id - after.length;
    memmove(room, last.start, id); /* the segment may be in `room` already */
    memmove(room + id, after.start + after.length, rest);
    return (struct text){room, id + rest};
}

/* Look at each segment once: write those that remain, and whether the path ends with a slash; return their number. */
static int drop_segments(const struct drops *drops, const struct text *segments, int count, struct text *kept,
                         bool *has_slash, uint8_t *room)
{
    int result = 0;
    struct text last = segments[count - 1];
    bool is_named = drops_id(drops, hash_segment("seg:", 2, last));
    bool has_slug = count > 1 && has_digit(segments[count - 2]) &&
                    drops_id(drops, mix(feed_template(feed_word(START, "slug:"), segments, count - 1)));
    bool has_head = count > 1 && has_digit(last) && !has_digit(segments[0]) &&
                    drops_id(drops, mix(feed_template(feed_word(START, "slug-head:"), segments + 1, count - 1)));
    bool only_first = true;
    for (int i = 0; i < count; i++) {
        struct text segment = segments[i];
        only_first = only_first && drops_segment(drops, 0, segment);
        if (i == count - 1 && (is_named || has_slug))
            continue;
        if ((i == 0 && has_head) || drops_segment(drops, get_place(i, count), segment))
            continue;
        if (i < count - 1 && only_first)
            continue;
        kept[result++] = i == count - 1 ? shorten(drops, segments, count, room) : segment;
    }
    *has_slash = (is_named && find(last, '.') < last.length) || *has_slash;
    return result;
}

/* Write the segments that remain when nothing changes any more, and whether the path ends with a slash; return their
   number. Each round has as many segments as the one before, or fewer, and no more bytes. */
static int keep_segments(const struct drops *drops, const struct url_parts *parts, struct text kept[MAX_PARTS],
                         bool *has_slash, uint8_t *room)
{
    struct text before[MAX_PARTS];
    int count = parts->segment_count;
    bool is_changing = count > 0;
    memcpy(kept, parts->segments, (size_t)count * sizeof *kept);
    *has_slash = parts->has_slash;
    while (is_changing && count > 0) {
        int count_before = count;
        memcpy(before, kept, (size_t)count * sizeof *kept);
        count = drop_segments(drops, before, count, kept, has_slash, room);
        /* Only the last segment can be shorter than it was. */
        is_changing = count < count_before || kept[count - 1].length < before[count - 1].length;
    }
    *has_slash = *has_slash && count > 0 && !drops_id(drops, hash_word("slash"));
    return count;
}

struct url_key make_key(struct text url, const struct url_parts *parts, uint32_t site, const struct pair_set *dropped,
                        uint8_t *room)
{
    if (parts->has_too_many)
        return (struct url_key){hash_text(url), 0, 0};
    struct drops drops = {dropped, site};
    struct text kept[MAX_PARTS], params[MAX_PARTS], scopes[4];
    uint8_t scope_kinds[4];
    bool has_slash, has_case[3];
    int kept_count = keep_segments(&drops, parts, kept, &has_slash, room), param_count = 0, sem_count = 0;
    int scope_count = parts->param_count ? list_scopes(parts->path, scopes, scope_kinds) : 0;
    for (int i = 0; i < parts->param_count; i++)
        if (!drops_param(&drops, parts->params[i], scopes, scope_count))
            params[param_count++] = parts->params[i];
    for (int i = 0; i < 3; i++)
        has_case[i] = drops_id(&drops, hash_case(i));
    uint64_t state = drops_id(&drops, hash_word("scheme")) ? START : feed_text(START, parts->scheme);
    state = feed_text(feed_text(feed_byte(state, 1), parts->user), parts->port);
    state = feed_byte(state, 1);
    for (int i = 0; i < parts->sem_count; i++)
        if (!drops_id(&drops, mix(feed_lower(feed_word(START, "sem:"), get_name(parts->sems[i]))))) {
            if (sem_count++ > 0)
                state = feed_byte(state, ';');
            state = feed_text(state, parts->sems[i]);
        }
    state = feed_byte(state, 1);
    for (int i = 0; i < kept_count; i++) {
        if (i > 0)
            state = feed_byte(state, '/');
        state = has_case[get_place(i, kept_count)] ? feed_lower(state, kept[i]) : feed_text(state, kept[i]);
    }
    state = feed_byte(state, 1);
    if (has_slash)
        state = feed_byte(state, '/');
    bool is_sorted = drops_id(&drops, hash_word("order"));
    uint64_t in_order = mix(feed_list(START, params, param_count, '&')), query = is_sorted ? 0 : in_order;
    for (int i = 0; is_sorted && i < param_count; i++)
        query += hash_text(params[i]);
    struct url_key key = {mix(mix(state) + query * GOLDEN), is_sorted ? in_order : 0, 0};
    if (has_case[0] || has_case[1] || has_case[2])
        key.letter_case = mix(feed_list(START, kept, kept_count, '/'));
    return key;
}
