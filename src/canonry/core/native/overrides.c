#include "overrides.h"

enum {
    MAX_OVERRIDE_ROUNDS = 100,  /* the reference allows at least as many */
    MAX_PREFIXES = MAX_URL_BYTES, /* that are replaced in one URL */
};

/* The parts of a normalized URL; `port` is the colon and the digits, and empty pieces are missing parts. */
struct url_parts {
    bool is_https;
    struct piece host, port, path, query, fragment;
};

bool read_override(const uint8_t *at, const uint8_t *end, struct override *override)
{
    if (at >= end)
        return false;
    override->flags = *at++;
    for (size_t i = 0; i < LIST_COUNT; i++) {
        if (end - at < 2)
            return false;
        override->lists[i] = (struct texts){at + 2, read_u16(at)};
        at += 2;
        for (unsigned left = override->lists[i].count; left; left--) {
            if (end - at < 2 || (size_t)(end - at - 2) < read_u16(at))
                return false;
            next_text(&at);
        }
    }
    return at == end;
}

/* Find the parts of a normalized URL. */
static struct url_parts split_url(const uint8_t *text, size_t length)
{
    struct url_parts parts = {.is_https = text[4] == 's'};
    size_t host = parts.is_https ? 8 : 7, at = host;
    while (at < length && text[at] != ':' && text[at] != '/')
        at++;
    parts.host = (struct piece){text + host, at - host};
    size_t port = at;
    while (at < length && text[at] != '/')
        at++;
    parts.port = (struct piece){text + port, at - port};
    const uint8_t *hash = memchr(text + at, '#', length - at);
    size_t query_end = hash ? (size_t)(hash - text) : length;
    const uint8_t *question = memchr(text + at, '?', query_end - at);
    size_t path_end = question ? (size_t)(question - text) : query_end;
    parts.path = (struct piece){text + at, path_end - at};
    if (question)
        parts.query = (struct piece){question + 1, query_end - path_end - 1};
    if (hash)
        parts.fragment = (struct piece){hash + 1, length - query_end - 1};
    return parts;
}

static void write_url(const struct url_parts *parts, struct bytes *out)
{
    write_bytes(out, (const uint8_t *)(parts->is_https ? "https://" : "http://"), parts->is_https ? 8 : 7);
    write_bytes(out, parts->host.at, parts->host.length);
    write_bytes(out, parts->port.at, parts->port.length);
    write_bytes(out, parts->path.at, parts->path.length);
    if (parts->query.length) {
        write_one(out, '?');
        write_bytes(out, parts->query.at, parts->query.length);
    }
    if (parts->fragment.length) {
        write_one(out, '#');
        write_bytes(out, parts->fragment.at, parts->fragment.length);
    }
}

/* --- parameters ------------------------------------------------------------------------------------------ */

struct param_list {
    struct param each[MAX_PARAMS];
    size_t count;
};

static bool is_name(struct piece listed, struct piece name)
{
    bool is_prefix = listed.length > 1 && listed.at[listed.length - 1] == '*';
    size_t length = listed.length - is_prefix;
    return (is_prefix ? name.length >= length : name.length == length) && are_same(listed.at, name.at, length);
}

/* Return whether names, a list of texts or one text with `&` between them, have this parameter. */
static bool is_param_named(struct texts names, const struct param *param)
{
    uint8_t decoded[MAX_URL_BYTES];
    struct piece name = {decoded, decode_name(param->at, param->name, decoded)};
    for (size_t i = 0; i < name.length; i++)
        decoded[i] = to_lower(decoded[i]);
    const uint8_t *at = names.at;
    for (unsigned left = names.count; left; left--) {
        struct piece joined = next_text(&at);
        for (size_t start = 0; start <= joined.length;) {
            const uint8_t *from = joined.at + start, *and = memchr(from, '&', joined.length - start);
            size_t length = and ? (size_t)(and - from) : joined.length - start;
            if (length && is_name((struct piece){from, length}, name))
                return true;
            start += length + 1;
        }
    }
    return false;
}

static bool is_param_listed(struct texts values, const struct param *param)
{
    const uint8_t *at = values.at;
    for (unsigned left = values.count; left; left--)
        if (are_equal(next_text(&at), (struct piece){param->at, param->length}))
            return true;
    return false;
}

typedef bool (*param_test)(struct texts texts, const struct param *param);

/* Drop the parameters that the test finds; a query that holds nothing but an empty parameter then is none. */
static void drop_listed(struct param_list *params, struct texts texts, param_test test)
{
    size_t kept = 0;
    for (size_t i = 0; i < params->count; i++)
        if (!test(texts, &params->each[i]))
            params->each[kept++] = params->each[i];
    if (kept < params->count)
        params->count = kept == 1 && params->each[0].length == 0 ? 0 : kept;
}

/* Drop the names of (path, names) pairs whose path is that of the URL, or a folder in which it is. */
static void drop_at_path(struct param_list *params, struct texts pairs, struct piece path, bool is_folder)
{
    const uint8_t *at = pairs.at;
    for (unsigned left = pairs.count / 2; left; left--) {
        struct piece place = next_text(&at);
        struct texts names = {at, 1};
        next_text(&at);
        if (is_folder ? path.length >= place.length && are_same(path.at, place.at, place.length) : are_equal(path, place))
            drop_listed(params, names, is_param_named);
    }
}

static bool can_be_segment(struct piece value)
{
    for (size_t i = 0; i < value.length; i++)
        if (strchr(i ? "/+?#;\\" : "/+?#;.%\\", value.at[i]))
            return false;
    return value.length > 0;
}

/* `/index.php?title=X&a=1` → `/wiki/X?a=1`, if the value can be a segment. */
static void move_to_path(struct texts moves, struct param_list *params, struct url_parts *parts, struct bytes *space)
{
    const uint8_t *at = moves.at;
    for (unsigned left = moves.count / 3; left; left--) {
        struct piece path = next_text(&at), wanted = next_text(&at), folder = next_text(&at);
        size_t found = 0, place = 0;
        for (size_t i = 0; i < params->count && are_equal(parts->path, path); i++) {
            const struct param *param = &params->each[i];
            if (are_equal_lowered((struct piece){param->at, param->name}, wanted)) {
                found++;
                place = i;
            }
        }
        if (found != 1)
            continue;
        const struct param *param = &params->each[place];
        size_t value = param->name < param->length ? param->name + 1u : param->length;
        struct piece text = {param->at + value, param->length - value};
        if (!can_be_segment(text))
            continue;
        size_t start = space->length;
        write_bytes(space, folder.at, folder.length);
        write_bytes(space, text.at, text.length);
        parts->path = (struct piece){space->at + start, space->length - start};
        memmove(&params->each[place], &params->each[place + 1], (params->count - place - 1) * sizeof *params->each);
        params->count--;
        if (params->count == 1 && params->each[0].length == 0)
            params->count = 0;
    }
}

static void sort_list(struct param_list *params)
{
    struct param sorted[MAX_PARAMS];
    for (size_t i = 0; i < params->count; i++)
        insert_sorted(sorted, i, params->each[i]);
    memcpy(params->each, sorted, params->count * sizeof *sorted);
}

/* Write the parameters as the query of the URL. */
static void join_params(const struct param_list *params, struct url_parts *parts, struct bytes *space)
{
    size_t start = space->length;
    for (size_t i = 0; i < params->count; i++) {
        if (i)
            write_one(space, '&');
        write_bytes(space, params->each[i].at, params->each[i].length);
    }
    parts->query = (struct piece){space->at + start, space->length - start};
}

/* --- one round ----------------------------------------------------------------------------------------------- */

/* Replace the first prefix that matches, until none does. Returns false if only the reference can. */
static bool rewrite_prefixes(struct texts rewrites, struct bytes *out)
{
    for (int left = MAX_PREFIXES; left; left--) {
        const uint8_t *at = rewrites.at;
        bool is_found = false;
        for (unsigned pairs = rewrites.count / 2; pairs && !is_found; pairs--) {
            struct piece from = next_text(&at), to = next_text(&at);
            if (out->length < from.length || memcmp(out->at, from.at, from.length) != 0)
                continue;
            if (out->length - from.length + to.length > out->size)
                return false;
            memmove(out->at + to.length, out->at + from.length, out->length - from.length);
            memcpy(out->at, to.at, to.length);
            out->length += to.length - from.length;
            is_found = true;
        }
        if (!is_found)
            return true;
    }
    return false;
}

/* Apply the rules of overrides.v1 to the parts, as HostRules.apply of override_rules.py does. */
static bool apply_host_rules(const struct override *override, struct param_list *params, struct url_parts *parts, struct bytes *space)
{
    const struct texts *lists = override->lists;
    struct url_parts before = *parts;
    if (override->flags & (OVERRIDE_HTTP | OVERRIDE_HTTPS) && parts->port.length == 0)
        parts->is_https = override->flags & OVERRIDE_HTTPS;
    move_to_path(lists[LIST_MOVES], params, parts, space);
    drop_listed(params, lists[LIST_VALUES], is_param_listed);
    drop_at_path(params, lists[LIST_BELOW], parts->path, true);
    drop_at_path(params, lists[LIST_AT], parts->path, false);
    if (override->flags & OVERRIDE_SORT)
        sort_list(params);
    join_params(params, parts, space);
    if (!edit_path(override, &parts->path, space))
        return false;
    if (lists[LIST_HOST].count && parts->is_https == before.is_https && are_equal(parts->path, before.path) &&
        are_equal(parts->query, before.query)) {
        const uint8_t *at = lists[LIST_HOST].at;
        parts->host = next_text(&at);
    }
    return true;
}

/* Write the URL after one round of an override. Returns false if only the reference can. */
static bool apply_once(const struct override *override, const uint8_t *text, size_t length, struct bytes *out)
{
    uint8_t memory[4 * MAX_URL_BYTES];
    struct bytes space = {.at = memory, .size = sizeof memory};
    struct url_parts parts = split_url(text, length);
    struct param_list params = {.count = 0};
    if (parts.query.length) {
        size_t from = (size_t)(parts.query.at - text);
        params.count = split_params(text, from, from + parts.query.length, params.each);
        if (params.count > MAX_PARAMS)
            return false;
        drop_listed(&params, override->lists[LIST_DROP], is_param_named);
        join_params(&params, &parts, &space);
    }
    if (override->flags & OVERRIDE_HAS_RULES && !apply_host_rules(override, &params, &parts, &space))
        return false;
    write_url(&parts, out);
    return !space.is_full && !out->is_full && rewrite_prefixes(override->lists[LIST_REWRITES], out);
}

/* --- the rounds ---------------------------------------------------------------------------------------------- */

/* The override of the host of a normalized URL, NULL if there is none. */
static const struct override *find_override(const struct rules *rules, const uint8_t *text, size_t length)
{
    struct piece host = split_url(text, length).host;
    const struct host *found = find_host(&rules->hosts, host.at, host.length);
    return found && found->flags & HOST_HAS_OVERRIDE ? &rules->overrides[found->override] : NULL;
}

ptrdiff_t apply_overrides(const struct rules *rules, const uint8_t *text, size_t length, uint8_t out[ANSWER_BYTES],
                          ptrdiff_t answer, rewrite_function rewrite)
{
    uint8_t changed[MAX_URL_BYTES];
    for (int round = 0; round < MAX_OVERRIDE_ROUNDS && answer != NEEDS_REFERENCE; round++) {
        const uint8_t *now = answer == UNCHANGED ? text : out;
        size_t now_length = answer == UNCHANGED ? length : (size_t)answer;
        const struct override *override = find_override(rules, now, now_length);
        if (override == NULL)
            return answer;
        struct bytes next = {.at = changed, .size = sizeof changed};
        if (!apply_once(override, now, now_length, &next))
            return NEEDS_REFERENCE;
        if (next.length == now_length && memcmp(changed, now, now_length) == 0)
            return answer;
        answer = rewrite(rules, changed, next.length, out);
        if (answer == UNCHANGED) {
            memcpy(out, changed, next.length);
            answer = (ptrdiff_t)next.length;
        }
        if (answer == (ptrdiff_t)length && memcmp(out, text, length) == 0)
            answer = UNCHANGED;
    }
    return NEEDS_REFERENCE;
}
