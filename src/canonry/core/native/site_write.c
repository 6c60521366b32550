#include "site_write.h"

#include "answer.h"
#include "site_target.h"

/* What the rules of the site do with the parameters. */
struct verdict {
    bool is_same;      /* no parameter is dropped or renamed */
    bool is_untouched; /* the page drops and renames no visible parameter; those that it writes anew do not count */
    bool is_revalued;  /* the page renames a parameter, or drops one for its value */
};

/* The parameters that a template writes. */
struct written {
    const uint8_t *names; /* a list of texts, NULL if the template writes none */
    struct param params[MAX_PARAMS];
    size_t count;
};

/* The new name of a parameter that the page renames. Returns false if it is not renamed. */
static bool find_new_name(const uint8_t *renames, struct piece name, struct piece *new_name)
{
    const uint8_t *at = renames + 1;
    for (unsigned left = *renames; left; left--) {
        struct piece old = read_text(&at);
        *new_name = read_text(&at);
        if (are_equal(old, name))
            return true;
    }
    *new_name = (struct piece){0};
    return false;
}

/* Return whether a parameter before `end` was given this name, or whether one has it. */
static bool is_taken(const struct site_match *match, size_t end, struct piece name)
{
    for (size_t i = 0; i < match->param_count; i++)
        if (are_equal(match->params[i].name, name) || (i < end && are_equal(match->params[i].new_name, name)))
            return true;
    return false;
}

static bool is_dropped_by_block(struct site_match *match, const struct site_param *param)
{
    return find_site_name(get_block_section(match->block, BLOCK_DROP), param->lower) ||
           is_default(match, get_block_section(match->block, BLOCK_DEFAULTS), param);
}

static bool is_dropped_by_page(const struct site_match *match, const uint8_t *page, const struct site_param *param)
{
    unsigned flags = get_flags(page);
    if (find_site_name(get_section(page, SECTION_DROP), param->lower))
        return true;
    return flags & FLAG_HAS_KEEP && !find_site_name(get_section(page, SECTION_KEEP), param->lower);
}

/* Decide about one parameter that the page renames. New names are in lower case: tools/site_format.py. */
static void judge_renamed(struct site_match *match, const uint8_t *page, size_t index, struct verdict *verdict)
{
    struct site_param *param = &match->params[index], renamed = *param;
    renamed.name = renamed.lower = param->new_name;
    bool is_dropped = is_taken(match, index, param->new_name) || is_dropped_by_block(match, &renamed) ||
                      is_default(match, get_section(page, SECTION_DEFAULTS), &renamed) ||
                      (get_flags(page) & FLAG_HAS_WRITE && is_queried(page, param->new_name)) ||
                      is_dropped_by_page(match, page, &renamed);
    param->fate = is_dropped ? FATE_DROPPED : FATE_RENAMED;
    verdict->is_same = verdict->is_untouched = false;
    verdict->is_revalued = true;
}

static struct verdict judge_params(struct site_match *match, const uint8_t *page)
{
    struct verdict verdict = {true, true, false};
    unsigned flags = page ? get_flags(page) : 0;
    bool has_queries = flags & FLAG_HAS_WRITE && *get_section(page, SECTION_QUERY);
    if (!(flags & FLAG_HAS_PARAM_RULES) && !has_queries) {
        for (size_t i = 0; i < match->param_count; i++)
            verdict.is_same &= match->params[i].fate == FATE_KEPT;
        return verdict;
    }
    const uint8_t *renames = get_section(page, SECTION_RENAME), *defaults = get_section(page, SECTION_DEFAULTS);
    for (size_t i = 0; i < match->param_count; i++) {
        struct site_param *param = &match->params[i];
        param->new_name = (struct piece){0};
        if (flags & FLAG_HAS_RENAMES && find_new_name(renames, param->name, &param->new_name)) {
            judge_renamed(match, page, i, &verdict);
            continue;
        }
        if (param->fate == FATE_DROPPED) { /* by the block */
            verdict.is_same = false;
            continue;
        }
        if (has_queries && is_queried(page, param->name)) { /* the template writes it */
            param->fate = FATE_DROPPED;
            verdict.is_same = false;
        } else if (is_dropped_by_page(match, page, param)) {
            param->fate = FATE_DROPPED;
            verdict.is_same = false;
            verdict.is_untouched &= !param->is_visible;
        } else if (*defaults && is_default(match, defaults, param)) {
            param->fate = FATE_DROPPED;
            verdict.is_same = verdict.is_untouched = false;
            verdict.is_revalued = true;
        }
    }
    return verdict;
}

/* --- host and path ----------------------------------------------------------------------------------- */

static void write_scheme(struct bytes *out, bool is_https)
{
    write_bytes(out, (const uint8_t *)"https://", is_https ? 8 : 4);
    if (!is_https)
        write_bytes(out, (const uint8_t *)"://", 3);
}

/* Write the scheme and the main host, or the host of the URL from offset `from` on. */
static void write_host(const struct site_match *match, struct bytes *out, size_t from)
{
    const struct located *url = match->url;
    bool is_https = match->block[0] || url->is_https;
    if (match->main.length && is_https) {
        write_bytes(out, match->prefix.at, match->prefix.length);
        return;
    }
    write_scheme(out, is_https);
    if (match->main.length)
        write_bytes(out, match->main.at, match->main.length);
    else
        for (size_t i = from; i < url->host_end; i++)
            write_one(out, to_lower(url->text[i]));
}

static void write_given_path(const struct site_match *match, struct bytes *out)
{
    const struct located *url = match->url;
    if (url->path == url->path_end)
        write_one(out, '/');
    else
        write_bytes(out, url->text + url->path, url->path_end - url->path);
}

static void strip_slashes(struct bytes *out, size_t start)
{
    while (out->length > start + 1 && out->at[out->length - 1] == '/')
        out->length--;
}

/* Strip or add slashes at the end of the path that was written from `start` on, as the block says. */
static void set_slash(const struct site_match *match, struct bytes *out, size_t start)
{
    enum slash slash = match->block[1];
    if (slash != SLASH_KEEP)
        strip_slashes(out, start);
    if (slash == SLASH_ADD && out->length > start + 1)
        write_one(out, '/');
}

/* Write the path after rules 5 to 8, for a page that does not write it. */
static void write_final_path(const struct site_match *match, struct bytes *out)
{
    const struct rules *rules = match->rules;
    const struct located *url = match->url;
    size_t start = out->length, length = url->path_end - url->path;
    if (length == 0 || url->is_plain_path) {
        write_given_path(match, out);
    } else if (length > out->size - start) {
        out->is_full = true;
        return;
    } else {
        out->length += write_clean_path(rules, url->text + url->path, length, out->at + start);
    }
    if (rules->strip_trailing_slash)
        strip_slashes(out, start);
    set_slash(match, out, start);
}

/* Finish a path that a template has written from `start` on, if no page matches the URL that it belongs to. */
static void finish_path(const struct site_match *match, struct bytes *out, size_t start)
{
    if (match->group != 0) /* rule 2 has written it, and rules 5 to 7 follow */
        out->length = start + write_clean_path(match->rules, out->at + start, out->length - start, out->at + start);
    set_slash(match, out, start);
}

/* --- parameters and fragment --------------------------------------------------------------------------- */

/* Write the parameters of the template to the scratch, and split them. `at` is behind the template of the path. */
static bool write_template_params(struct site_match *match, const uint8_t *at, struct written *written)
{
    struct bytes *scratch = &match->scratch;
    written->names = NULL;
    written->count = 0;
    if (*at == 0)
        return true;
    written->names = at;
    for (unsigned left = *at++; left; left--)
        read_text(&at);
    size_t start = scratch->length;
    if (!write_template(match, at, scratch) || scratch->is_full)
        return false;
    written->count = split_params(scratch->at, start, scratch->length, written->params);
    return written->count <= MAX_PARAMS;
}

/* Return whether the page writes the parameters that it asks for as the URL has them, and no others. */
static bool are_written_as_given(const struct site_match *match, const uint8_t *page, const struct written *written)
{
    size_t asked = 0, found = 0;
    for (size_t i = 0; i < match->param_count; i++) {
        const struct site_param *param = &match->params[i];
        if (!param->is_visible || !is_queried(page, param->name))
            continue;
        asked++;
        for (size_t j = 0; j < written->count; j++)
            found += written->params[j].length == param->param.length &&
                     are_same(written->params[j].at, param->param.at, param->param.length);
    }
    return asked == written->count && found == asked;
}

/* Return whether a parameter stays beside those that the template writes. */
static bool stays(const struct site_param *param, const struct written *written)
{
    if (param->fate == FATE_DROPPED)
        return false;
    struct piece name = param->fate == FATE_RENAMED ? param->new_name : param->name;
    return !written->names || (param->param.length && !has_text(written->names, name));
}

/* Write a parameter under its new name. */
static bool rename_param(struct site_match *match, const struct site_param *param, struct param *renamed)
{
    struct bytes *out = &match->scratch;
    size_t start = out->length;
    write_bytes(out, param->new_name.at, param->new_name.length);
    if (param->param.name < param->param.length) {
        write_one(out, '=');
        write_bytes(out, param->value.at, param->value.length);
    }
    *renamed = (struct param){out->at + start, (uint16_t)param->new_name.length, (uint16_t)(out->length - start), false,
                              param->param.has_escape};
    return !out->is_full;
}

static void write_given_query(const struct located *url, struct bytes *out)
{
    if (url->path_end + 1 < url->query_end)
        write_bytes(out, url->text + url->path_end, url->query_end - url->path_end);
}

/* Write the query after rule 8, to which the other rules will apply. */
static bool write_query(struct site_match *match, bool is_same, const struct written *written, struct bytes *out)
{
    struct param renamed;
    bool is_first = true;
    if (is_same && !written->names) {
        write_given_query(match->url, out);
        return true;
    }
    size_t start = out->length;
    for (size_t i = 0; i < written->count; i++, is_first = false) {
        write_one(out, is_first ? '?' : '&');
        write_bytes(out, written->params[i].at, written->params[i].length);
    }
    for (size_t i = 0; i < match->param_count; i++) {
        const struct site_param *param = &match->params[i];
        if (!stays(param, written))
            continue;
        if (param->fate == FATE_RENAMED && !rename_param(match, param, &renamed))
            return false;
        const struct param *each = param->fate == FATE_RENAMED ? &renamed : &param->param;
        write_one(out, is_first ? '?' : '&');
        is_first = false;
        write_bytes(out, each->at, each->length);
    }
    if (out->length == start + 1) /* one parameter, and it is empty */
        out->length = start;
    return true;
}

/* Write the query after rules 5 and 8 to 10. False: the reference answers. */
static bool write_final_query(struct site_match *match, bool is_same, const struct written *written,
                              struct dropped dropped, struct bytes *out)
{
    const struct rules *rules = match->rules;
    struct param params[MAX_PARAMS];
    uint8_t escaped[MAX_URL_BYTES];
    size_t count = 0, used = 0;
    is_same &= written->names == NULL;
    for (size_t i = 0; i < written->count; i++) {
        struct param param = written->params[i];
        if (rules->strip_params && is_param_dropped(dropped, param.at, param.name, param.has_percent))
            continue;
        if (rules->sort_params)
            insert_sorted(params, count, param);
        else
            params[count] = param;
        count++;
    }
    for (size_t i = 0; i < match->param_count; i++) {
        const struct site_param *given = &match->params[i];
        if (!stays(given, written))
            continue;
        struct param param = given->param;
        bool is_listed = given->is_listed;
        if (given->fate == FATE_RENAMED && !rename_param(match, given, &param))
            return false;
        if (given->fate == FATE_RENAMED || dropped.names != match->names)
            is_listed = rules->strip_params && is_param_dropped(dropped, param.at, param.name, param.has_percent);
        if (is_listed) {
            is_same = false;
            continue;
        }
        if (param.has_escape && rules->normalize_escapes)
            is_same &= normalize_param(&param, escaped, &used);
        if (count == MAX_PARAMS)
            return false;
        if (rules->sort_params)
            is_same &= insert_sorted(params, count, param);
        else
            params[count] = param;
        count++;
    }
    if (is_same) {
        write_given_query(match->url, out);
        return true;
    }
    if (count == 0 || (count == 1 && params[0].length == 0))
        return true;
    for (size_t i = 0; i < count; i++) {
        write_one(out, i ? '&' : '?');
        write_bytes(out, params[i].at, params[i].length);
    }
    return true;
}

static bool is_fragment_dropped(const struct site_match *match, const uint8_t *page)
{
    const struct located *url = match->url;
    size_t from = url->query_end + 1;
    struct piece fragment = {url->text + from, find_directive(url->text, from, url->length) - from};
    return is_fragment_listed(get_block_section(match->block, BLOCK_FRAGMENTS), fragment) ||
           (page && (get_flags(page) & FLAG_DROP_FRAGMENT ||
                     is_fragment_listed(get_section(page, SECTION_FRAGMENTS), fragment)));
}

/* --- the URL ---------------------------------------------------------------------------------------------- */

/* Return whether the tables would find the same page again in the URL that it is written as, so that they do not change
 * it once more. */
static bool is_stable(const uint8_t *page, const struct verdict *verdict, bool is_path_same, bool is_query_same)
{
    unsigned flags = page ? get_flags(page) : FLAG_STABLE;
    if (flags & (FLAG_STABLE | FLAG_GONE))
        return true;
    return is_path_same && ((verdict->is_untouched && is_query_same) || (flags & FLAG_STABLE_PATH && !verdict->is_revalued));
}

/* Return whether `http` comes after the scheme, in any case. */
static bool has_http(const struct bytes *out)
{
    const uint64_t ones = 0x0101010101010101, lower_h = 'h' * ones;
    for (size_t i = SCHEME_BYTES; i + 4 <= out->length; i++) {
        while (i + 8 <= out->length) { /* skip 8 bytes without an h: none of them becomes 0 */
            uint64_t found = (load8(out->at + i) | 0x20 * ones) ^ lower_h;
            if ((found - ones) & ~found & 0x80 * ones)
                break;
            i += 8;
        }
        if (i + 4 <= out->length && (load4(out->at + i) | 0x20202020) == load4((const uint8_t *)"http"))
            return true;
    }
    return false;
}

/* Write scheme and host; `path` is the template of the path behind it, NULL if the page has none. */
static void write_page_host(const struct site_match *match, struct piece elsewhere, bool is_final, struct bytes *out)
{
    const struct located *url = match->url;
    if (elsewhere.length) {
        write_scheme(out, true);
        if (elsewhere.at[0] != '*') /* otherwise the template of the path writes the host too: tools/site_programs.py */
            write_bytes(out, elsewhere.at, elsewhere.length);
        return;
    }
    write_host(match, out, is_final && match->rules->strip_www ? url->bare : url->host);
}

enum site_outcome write_page(struct site_match *match, const uint8_t *page, struct bytes *out)
{
    const struct located *url = match->url;
    bool has_write = page && get_flags(page) & FLAG_HAS_WRITE, is_path_same = true;
    /* A host that takes over a label may belong to another table than its mirror. */
    bool must_move = match->may_change_table || (page && get_flags(page) & FLAG_WRITES_HOST) ||
                     (match->group != 0 && !(get_flags(page) & (FLAG_STABLE | FLAG_GONE) &&
                                             !(match->rules->keep_embedded && url->may_embed)));
    struct written written;
    written.names = NULL;
    written.count = 0;
    struct verdict verdict = {true, true, false};
    if (url->path_end + 1 < url->query_end) {
        if (!match->are_params_read && !read_params(match))
            return SITE_REFERENCE;
        verdict = judge_params(match, page);
        if (match->needs_reference)
            return SITE_REFERENCE;
    }
    struct piece elsewhere = {0};
    const uint8_t *template = NULL;
    if (has_write) {
        template = get_section(page, SECTION_WRITE);
        elsewhere = read_text(&template);
        if (match->rules->strip_www && elsewhere.length > 4 && load4(elsewhere.at) == load4((const uint8_t *)"www."))
            return SITE_REFERENCE; /* rule 3 leaves it, also if no table lists it */
        if (!write_template_params(match, template + read_u16(template), &written))
            return SITE_REFERENCE;
    }
    write_page_host(match, elsewhere, !must_move, out);
    if (has_write) {
        size_t start = out->length;
        if (!write_template(match, template + 2, out))
            return SITE_REFERENCE;
        is_path_same = are_equal((struct piece){out->at + start, out->length - start}, match->path);
        if (get_flags(page) & FLAG_GONE && !must_move)
            finish_path(match, out, start);
    }
    bool is_query_same = !has_write || is_stable(page, &verdict, false, false) || are_written_as_given(match, page, &written);
    bool is_final = !must_move && is_stable(page, &verdict, is_path_same, is_query_same);
    struct dropped dropped = {match->main.length ? match->names : url->names, match->needs};
    if (!has_write && is_final)
        write_final_path(match, out);
    else if (!has_write)
        write_given_path(match, out);
    bool has_params = match->param_count || written.count;
    if (!has_params)
        ; /* nothing to write */
    else if (is_final ? !write_final_query(match, verdict.is_same, &written, dropped, out)
                 : !write_query(match, verdict.is_same, &written, out))
        return SITE_REFERENCE;
    if (url->query_end + 1 < url->length && !is_fragment_dropped(match, page)) {
        size_t from = url->query_end + 1;
        size_t end = is_final ? cut_fragment(match->rules, dropped, url->text, from, url->length) : url->length;
        if (end > from)
            write_bytes(out, url->text + from - 1, end - from + 1);
    }
    /* The reference asks before a page is written whether it embeds an address. */
    if (out->is_full || (!is_final && !must_move && match->rules->keep_embedded && has_http(out)))
        return SITE_REFERENCE;
    return is_final ? SITE_DONE : SITE_MOVED;
}

bool is_left_as_is(const struct site_match *match, const uint8_t *page, struct bytes *out)
{
    const struct located *url = match->url;
    unsigned flags = page ? get_flags(page) : 0;
    if (url->path_end != url->length || !url->is_plain_path || url->may_embed || url->bare != url->host ||
        match->group != 0 || match->may_change_table || flags & (FLAG_WHOLE | FLAG_WRITES_HOST) ||
        (match->block[0] && !url->is_https) || match->block[1] == SLASH_ADD)
        return false;
    struct piece path = {url->text + url->path, url->path_end - url->path};
    if (path.length < 2 || path.at[path.length - 1] == '/')
        return false;
    if (match->main.length && !are_equal(match->main, (struct piece){url->text + url->host, url->host_end - url->host}))
        return false;
    if (!(flags & FLAG_HAS_WRITE))
        return true;
    const uint8_t *template = get_section(page, SECTION_WRITE);
    if (read_text(&template).length || template[read_u16(template)]) /* another host, or parameters */
        return false;
    bool is_same = write_template(match, template + 2, out) && are_equal((struct piece){out->at, out->length}, path);
    out->length = 0;
    out->is_full = false;
    return is_same;
}

void write_whole(const struct site_match *match, struct bytes *out)
{
    const struct located *url = match->url;
    write_host(match, out, url->host);
    write_given_path(match, out);
    write_bytes(out, url->text + url->path_end, url->length - url->path_end);
}
