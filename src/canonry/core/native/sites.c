#include "sites.h"

#include "site_target.h"
#include "site_write.h"

/* Return whether an address follows the slash at text[i], or the question mark. */
static bool is_address(const struct located *url, size_t i)
{
    const uint8_t *text = url->text;
    bool is_in_path = i < url->path_end;
    if (i + 7 > url->query_end || (load4(text + i + 1) | 0x20202020) != load4((const uint8_t *)"http"))
        return false;
    size_t at = i + 5, end = is_in_path ? url->path_end : url->query_end;
    at += at < end && (text[at] | 0x20) == 's';
    bool is_colon = at < end && text[at] == ':';
    if (!is_colon && is_in_path && at + 3 <= end && text[at] == '%' && text[at + 1] == '3' && (text[at + 2] | 0x20) == 'a') {
        is_colon = true;
        at += 2;
    }
    if (!is_colon || ++at >= end)
        return false;
    return text[at] == '/' ||
           (is_in_path && at + 3 <= end && text[at] == '%' && text[at + 1] == '2' && (text[at + 2] | 0x20) == 'f');
}

/* Return whether another address follows the host, as embeds_address of rules.py does. */
COLD static bool find_address(const struct located *url)
{
    for (size_t word = url->path / 64; word * 64 < url->path_end; word++) {
        uint64_t slashes = url->slashes[word] & mask_between(word == url->path / 64 ? url->path % 64 : 0, url->path_end - word * 64);
        for (; slashes; slashes &= slashes - 1)
            if (is_address(url, word * 64 + (size_t)__builtin_ctzll(slashes)))
                return true;
    }
    return is_address(url, url->path_end);
}

bool embeds_address(const struct located *url)
{
    return url->may_embed && find_address(url);
}

/* What rule 9 drops on the main host, which the record knows for most. */
static const struct names *find_main_names(const struct site_match *match, struct piece host)
{
    const struct rules *rules = match->rules;
    if (match->names)
        return match->names;
    bool is_main = match->main.length == 0 || are_equal(match->main, host);
    if (is_main && !rules->strip_www)
        return match->url->names;
    if (is_main ? !may_have_names(&rules->hosts, match->url->text + match->url->host_end)
                : !may_have_names(&rules->hosts, match->main.at + match->main.length)) /* `https://` comes before it */
        return rules->names;
    if (!is_main)
        host = match->main;
    const struct host *own = find_host(&rules->hosts, host.at, host.length);
    return &rules->names[own && own->flags & HOST_HAS_NAMES ? own->names : 0];
}

/* Keep a copy of what was written, for the rules to start from. */
static enum site_outcome keep_text(struct site_answer *answer, const struct bytes *out, enum site_outcome outcome)
{
    if (out->is_full)
        return SITE_REFERENCE;
    memcpy(answer->text, out->at, out->length);
    answer->length = out->length;
    return outcome;
}

/* Find the page that a URL shows, and write what it makes of the URL. */
static enum site_outcome apply_table(struct site_match *match, struct site_answer *answer, struct bytes *out)
{
    const struct located *url = match->url;
    read_path(match);
    const uint8_t *page, *entry = get_entries(match->block);
    while ((page = find_page(match, &entry)) != NULL && get_flags(page) & FLAG_HAS_TARGET) {
        enum site_outcome outcome = write_target(match, page, out);
        if (outcome != SITE_NONE)
            return keep_text(answer, out, outcome);
        out->length = 0;
    }
    if (match->needs_reference)
        return SITE_REFERENCE;
    answer->needs = match->needs;
    if ((page == NULL && match->group != 0) || is_left_as_is(match, page, out))
        return SITE_NONE;
    bool must_move = page && !(get_flags(page) & FLAG_WHOLE) && (match->group != 0 || get_flags(page) & FLAG_WRITES_HOST);
    if ((page && get_flags(page) & FLAG_WHOLE) || (!must_move && match->rules->keep_embedded && embeds_address(url))) {
        write_whole(match, out);
        return keep_text(answer, out, SITE_WHOLE);
    }
    enum site_outcome outcome = write_page(match, page, out);
    if (outcome == SITE_MOVED)
        return keep_text(answer, out, SITE_MOVED);
    answer->length = out->length;
    return outcome;
}

enum site_outcome apply_sites(const struct rules *rules, const struct located *url, struct site_answer *answer, uint8_t *out)
{
    uint8_t scratch[2 * MAX_URL_BYTES], lowered[64], main_host[MAIN_HOST_BYTES];
    struct site_match match;
    struct piece host = {url->text + url->host, url->host_end - url->host};
    struct bytes written = {.at = out, .size = MAX_URL_BYTES};
    match.rules = rules;
    match.url = url;
    match.scratch = (struct bytes){.at = scratch, .size = sizeof scratch};
    match.param_count = 0;
    match.are_params_read = match.needs_reference = false;
    if (url->has_upper) { /* a host ends within the first 64 bytes of the text */
        for (size_t i = 0; i < host.length; i++)
            lowered[i] = to_lower(host.at[i]);
        host.at = lowered;
    }
    answer->needs = NULL;
    if (!find_table(&match, host, main_host))
        return SITE_NONE;
    match.names = find_main_names(&match, host);
    match.needs = match.block[2] ? get_block_section(match.block, BLOCK_NEEDS) : NULL;
    return apply_table(&match, answer, &written);
}
