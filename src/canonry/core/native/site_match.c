#include "site_match.h"

/* The classes of site_patterns.py in their order, a bit for each in the entry of a character:
 *
 *     bit   0       1      2        3    4       5     6      7      8     9   10    11
 *           digits  lower  letters  hex  base36  code  alnum  label  word  id  name  text
 */
enum { CLASS_COUNT = 11, TEXT_BIT = 11 };
#define LOWER 0xfd6 /* lower letters base36 alnum label word id name text */
#define HEX_LOWER 0xfde
#define UPPER 0xf64 /* letters code alnum word id name text */
#define HEX_UPPER 0xf6c
#define DIGIT 0xff9 /* all but lower and letters */
static const uint16_t CLASSES[256] = {
    ['0'] = DIGIT, ['1'] = DIGIT, ['2'] = DIGIT, ['3'] = DIGIT, ['4'] = DIGIT, ['5'] = DIGIT, ['6'] = DIGIT, ['7'] = DIGIT,
    ['8'] = DIGIT, ['9'] = DIGIT, ['a'] = HEX_LOWER, ['b'] = HEX_LOWER, ['c'] = HEX_LOWER, ['d'] = HEX_LOWER,
    ['e'] = HEX_LOWER, ['f'] = HEX_LOWER, ['g'] = LOWER, ['h'] = LOWER, ['i'] = LOWER, ['j'] = LOWER, ['k'] = LOWER,
    ['l'] = LOWER, ['m'] = LOWER, ['n'] = LOWER, ['o'] = LOWER, ['p'] = LOWER, ['q'] = LOWER, ['r'] = LOWER, ['s'] = LOWER,
    ['t'] = LOWER, ['u'] = LOWER, ['v'] = LOWER, ['w'] = LOWER, ['x'] = LOWER, ['y'] = LOWER, ['z'] = LOWER,
    ['A'] = HEX_UPPER, ['B'] = HEX_UPPER, ['C'] = HEX_UPPER, ['D'] = HEX_UPPER, ['E'] = HEX_UPPER, ['F'] = HEX_UPPER,
    ['G'] = UPPER, ['H'] = UPPER, ['I'] = UPPER, ['J'] = UPPER, ['K'] = UPPER, ['L'] = UPPER, ['M'] = UPPER, ['N'] = UPPER,
    ['O'] = UPPER, ['P'] = UPPER, ['Q'] = UPPER, ['R'] = UPPER, ['S'] = UPPER, ['T'] = UPPER, ['U'] = UPPER, ['V'] = UPPER,
    ['W'] = UPPER, ['X'] = UPPER, ['Y'] = UPPER, ['Z'] = UPPER,
    ['-'] = 0xe80 /* label id name text */, ['_'] = 0xf00 /* word id name text */, ['.'] = 0xc00 /* name text */,
    ['~'] = 0x800, ['!'] = 0x800, ['$'] = 0x800, ['&'] = 0x800, ['\''] = 0x800, ['('] = 0x800, [')'] = 0x800, ['*'] = 0x800,
    ['+'] = 0x800, [','] = 0x800, [':'] = 0x800, [';'] = 0x800, ['='] = 0x800, ['@'] = 0x800,
};

/* --- names, classes and patterns ---------------------------------------------------------------- */

/* Return whether a text of ASCII characters has one in upper case; 8 bytes before its end are readable.
 *
 *     character + 0x3f     has bit 7 from A on
 *     character + 0x25     has bit 7 behind Z
 */
static bool has_upper(struct piece text)
{
    const uint64_t ones = 0x0101010101010101;
    uint64_t found = 0;
    for (size_t i = 0; i + 8 < text.length; i += 8)
        found |= (load8(text.at + i) + 0x3f * ones) & ~(load8(text.at + i) + 0x25 * ones);
    if (text.length) {
        size_t before = text.length < 8 ? 8 - text.length : 0; /* bytes that do not belong to the text */
        uint64_t last = load8(text.at + text.length - 8) >> (8 * before);
        found |= (last + 0x3f * ones) & ~(last + 0x25 * ones);
    }
    return found & 0x80 * ones;
}

bool is_site_name(const uint8_t *names, const uint8_t *name, size_t length)
{
    uint8_t decoded[MAX_URL_BYTES];
    size_t written = decode_name(name, length, decoded);
    for (size_t i = 0; i < written; i++)
        decoded[i] = to_lower(decoded[i]);
    return find_site_name(names, (struct piece){decoded, written});
}

static bool are_equal_in(struct piece a, struct piece b, bool ignore_case)
{
    if (!ignore_case || a.length != b.length)
        return are_equal(a, b);
    for (size_t i = 0; i < a.length; i++)
        if (to_lower(a.at[i]) != to_lower(b.at[i]))
            return false;
    return true;
}

static bool is_text(struct piece text, bool spans)
{
    for (size_t i = 0; i < text.length; i++) {
        uint8_t c = text.at[i];
        if (c == '%') {
            if (text.length - i < 3 || hex_value(text.at[i + 1]) < 0 || hex_value(text.at[i + 2]) < 0)
                return false;
            if (!is_text_escape((uint8_t)(hex_value(text.at[i + 1]) << 4 | hex_value(text.at[i + 2]))))
                return false;
            i += 2;
        } else if (!(CLASSES[c] >> TEXT_BIT & 1) && !(spans && c == '/' && i)) {
            return false;
        }
    }
    return text.length > 0;
}

static bool is_of_class(struct piece text, unsigned kind, bool spans)
{
    if (kind == KIND_ANY)
        return text.length > 0 && !(spans && text.at[0] == '/');
    if (kind == KIND_TEXT)
        return is_text(text, spans);
    unsigned all = ~0u;
    if (spans) {
        for (size_t i = 0; i < text.length; i++)
            all &= text.at[i] == '/' && i ? ~0u : CLASSES[text.at[i]];
    } else {
        for (size_t i = 0; i < text.length; i++)
            all &= CLASSES[text.at[i]];
    }
    return text.length > 0 && (all >> (kind - KIND_FIRST_CLASS) & 1);
}

/* Match one capture and remember what it holds; `*at` moves behind the capture. */
static bool match_capture(struct piece *captures, const uint8_t **at, struct piece text, bool ignore_case)
{
    unsigned index = (*at)[0], kind = (*at)[1];
    *at += 2;
    captures[index] = text;
    if (text.length - 1 < 2 && text.at[0] == '.' && text.at[text.length - 1] == '.')
        return false; /* as segments, the parser would resolve `.` and `..` */
    if (kind == KIND_CHOICE) {
        bool is_found = false;
        for (unsigned left = *(*at)++; left; left--)
            is_found |= are_equal_in(read_text(at), text, ignore_case);
        return is_found;
    }
    unsigned shortest = (*at)[0], longest = (*at)[1];
    *at += 2;
    return text.length >= shortest && (longest == 0 || text.length <= longest) &&
           is_of_class(text, kind & ~(unsigned)KIND_SPANS, kind & KIND_SPANS);
}

static void skip_capture(const uint8_t **at)
{
    unsigned kind = (*at)[1];
    *at += 2;
    if (kind != KIND_CHOICE) {
        *at += 2;
        return;
    }
    for (unsigned left = *(*at)++; left; left--)
        read_text(at);
}

static bool match_mixed(struct piece *captures, const uint8_t **at, struct piece text, bool ignore_case)
{
    struct piece before = read_text(at);
    unsigned count = *(*at)++;
    if (text.length < before.length || !are_equal_in((struct piece){text.at, before.length}, before, ignore_case))
        return false;
    text = (struct piece){text.at + before.length, text.length - before.length};
    const uint8_t *first = *at;
    for (unsigned i = 0; i < count; i++) {
        if (i)
            *at += 2;
        skip_capture(at);
    }
    struct piece after = read_text(at);
    if (text.length < after.length ||
        !are_equal_in((struct piece){text.at + text.length - after.length, after.length}, after, ignore_case))
        return false;
    text.length -= after.length;
    if (count == 1)
        return match_capture(captures, &first, text, ignore_case);
    const uint8_t *second = first;
    skip_capture(&second);
    uint8_t between = *second++;
    bool is_last = *second++;
    size_t split = SIZE_MAX;
    for (size_t i = 0; i < text.length && (is_last || split == SIZE_MAX); i++)
        if (ignore_case ? to_lower(text.at[i]) == to_lower(between) : text.at[i] == between)
            split = i;
    return split != SIZE_MAX && match_capture(captures, &first, (struct piece){text.at, split}, ignore_case) &&
           match_capture(captures, &second, (struct piece){text.at + split + 1, text.length - split - 1}, ignore_case);
}

/* Match a segment or a value; `*at` moves behind the pattern if it matches. */
static inline bool match_segment(struct piece *captures, const uint8_t **at, struct piece text, bool ignore_case)
{
    switch ((enum segment_kind)*(*at)++) {
    case SEGMENT_TEXT:
        return are_equal_in(read_text(at), text, ignore_case);
    case SEGMENT_CAPTURE:
        return match_capture(captures, at, text, ignore_case);
    default:
        return match_mixed(captures, at, text, ignore_case);
    }
}

static bool match_path(struct site_match *match, const uint8_t *at, bool ignore_case)
{
    size_t count = *at++;
    bool has_rest = *at++;
    unsigned index = 0, kind = 0;
    if (has_rest) {
        index = *at++;
        kind = *at++;
    }
    for (size_t i = 0; i < count; i++)
        if (!match_segment(match->captures, &at, match->segments[i], ignore_case))
            return false;
    if (!has_rest)
        return true;
    const uint8_t *from = match->segments[count].at;
    struct piece rest = {from, match->path.length - (size_t)(from - match->path.at)};
    match->captures[index] = rest;
    return is_of_class(rest, kind, true);
}

/* --- the host ------------------------------------------------------------------------------------ */

/* Take the record of a host. Returns whether it accepts the first label. */
static bool take_record(struct site_match *match, const struct site_record *record, struct piece label, struct piece host,
                        uint8_t main[MAIN_HOST_BYTES])
{
    struct piece captures[1];
    const uint8_t *at = record->label;
    if (at && (!match_capture(captures, &at, label, false) || has_text(at, label)))
        return false;
    match->block = record->block;
    match->group = record->group;
    match->names = record->names;
    match->prefix = (struct piece){record->prefix, record->prefix_bytes};
    match->main = record->prefix_bytes ? (struct piece){record->prefix + SCHEME_BYTES, record->prefix_bytes - SCHEME_BYTES}
                                       : match->prefix;
    match->may_change_table = false;
    if (record->takes_label) {
        if (label.length + record->prefix_bytes > MAIN_HOST_BYTES)
            return false;
        memcpy(main, record->prefix, SCHEME_BYTES);
        memcpy(main + SCHEME_BYTES, label.at, label.length);
        memcpy(main + SCHEME_BYTES + label.length, match->main.at + 1, match->main.length - 1);
        match->main = (struct piece){main + SCHEME_BYTES, label.length + match->main.length - 1};
        match->prefix = (struct piece){main, SCHEME_BYTES + match->main.length};
        match->may_change_table = !are_equal(match->main, host);
    }
    return true;
}

bool find_table(struct site_match *match, struct piece lower, uint8_t main[MAIN_HOST_BYTES])
{
    const struct located *url = match->url;
    const struct rules *rules = match->rules;
    size_t bare = url->bare - url->host;
    uint64_t dots = url->dots >> url->bare;
    struct piece label = {lower.at + bare, dots ? (size_t)__builtin_ctzll(dots) : lower.length - bare};
    if (url->exact && url->exact->flags & HOST_HAS_TABLE)
        return take_record(match, &rules->records[url->exact->record], label, lower, main);
    if (url->domain == NULL || !(url->domain->flags & HOST_HAS_DOMAIN_TABLES))
        return false;
    const struct site_record *record = &rules->records[url->domain->domain_record];
    for (uint32_t left = url->domain->domain_count; left; left--, record++)
        if (take_record(match, record, label, lower, main))
            return true;
    return false;
}

void read_record(const uint8_t *at, struct site_record *record)
{
    *record = (struct site_record){.block = at - read_u32(at), .group = at[4]};
    bool accepts_all = at[5];
    at += 6;
    struct piece prefix = read_text(&at);
    record->prefix = prefix.at;
    record->prefix_bytes = (uint8_t)prefix.length;
    record->takes_label = prefix.length > SCHEME_BYTES && prefix.at[SCHEME_BYTES] == '*';
    record->label = accepts_all ? NULL : at;
}

/* --- the path and the parameters ----------------------------------------------------------------- */

/* Write the path as rules 5 to 7 would leave it. */
static struct piece clean_path(struct bytes *out, struct piece raw, bool has_double_slash)
{
    uint8_t *path = out->at + out->length; /* the scratch has room for two URLs, and this is the first text in it */
    size_t length = normalize_escapes(raw.at, raw.length, path), kept = has_double_slash ? collapse_slashes(path, length) : length;
    while (kept > 1 && path[kept - 1] == '/')
        kept--;
    out->length += kept;
    return (struct piece){path, kept};
}

/* Split text[start .. end) at its slashes, which are marked. */
static size_t split_marked(struct piece segments[MAX_SEGMENTS], const struct located *url, size_t start, size_t end)
{
    size_t count = 0, word = start / 64;
    uint64_t bits = url->slashes[word] & ~(uint64_t)0 << (start % 64);
    while (count < MAX_SEGMENTS - 1) {
        if (bits == 0) {
            if (++word * 64 >= end)
                break;
            bits = url->slashes[word];
            continue;
        }
        size_t at = word * 64 + (size_t)__builtin_ctzll(bits);
        if (at >= end)
            break;
        segments[count++] = (struct piece){url->text + start, at - start};
        start = at + 1;
        bits &= bits - 1;
    }
    segments[count++] = (struct piece){url->text + start, end - start};
    return count;
}

void read_path(struct site_match *match)
{
    const struct located *url = match->url;
    size_t start = url->path + 1, end = url->path_end;
    match->segment_count = 0;
    if (end < start) {
        match->path = (struct piece){(const uint8_t *)"/", 1};
        return;
    }
    if (url->is_plain_path) {
        if (end > start && url->text[end - 1] == '/')
            end--;
        match->path = (struct piece){url->text + url->path, end - url->path};
        if (end > start)
            match->segment_count = split_marked(match->segments, url, start, end);
        return;
    }
    match->path = clean_path(&match->scratch, (struct piece){url->text + url->path, end - url->path}, url->has_double_slash);
    for (size_t i = 1; i < match->path.length;) {
        const uint8_t *from = match->path.at + i, *slash = memchr(from, '/', match->path.length - i);
        bool is_last = slash == NULL || match->segment_count == MAX_SEGMENTS - 1;
        size_t length = is_last ? match->path.length - i : (size_t)(slash - from);
        match->segments[match->segment_count++] = (struct piece){from, length};
        i += length + 1;
    }
}

/* Write a value with every escape in one spelling. False if there is no room. */
static bool normalize_value(struct bytes *out, struct piece *value)
{
    if (value->length == 0 || !memchr(value->at, '%', value->length))
        return true;
    if (value->length > out->size - out->length)
        return false;
    uint8_t *at = out->at + out->length;
    size_t length = normalize_escapes(value->at, value->length, at);
    out->length += length;
    *value = (struct piece){at, length};
    return true;
}

bool is_default(struct site_match *match, const uint8_t *defaults, const struct site_param *param)
{
    const uint8_t *at = defaults + 1;
    for (unsigned left = *defaults; left; left--) {
        struct piece name = read_text(&at);
        const uint8_t *values = at;
        for (unsigned words = *at++; words; words--)
            read_text(&at);
        if (!are_equal(name, param->lower))
            continue;
        struct piece value = param->value;
        if (!normalize_value(&match->scratch, &value)) {
            match->needs_reference = true;
            return false;
        }
        return has_text(values, value);
    }
    return false;
}

/* Decode the name of a parameter, and write it in lower case. False if there is no room. */
static bool read_name(struct bytes *out, struct site_param *read)
{
    struct piece name = {read->param.at, read->param.name};
    if (2 * name.length > out->size - out->length)
        return false;
    if (read->param.has_percent) {
        uint8_t *at = out->at + out->length;
        name = (struct piece){at, decode_name(name.at, name.length, at)};
        out->length += name.length;
    }
    read->name = read->lower = name;
    if (read->param.has_percent || has_upper(name)) {
        uint8_t *at = out->at + out->length;
        for (size_t i = 0; i < name.length; i++)
            at[i] = to_lower(name.at[i]);
        out->length += name.length;
        read->lower.at = at;
    }
    return true;
}

bool read_params(struct site_match *match)
{
    const struct located *url = match->url;
    struct param params[MAX_PARAMS];
    match->are_params_read = true;
    if (url->path_end + 1 >= url->query_end)
        return true;
    const uint8_t *drop = get_block_section(match->block, BLOCK_DROP);
    const uint8_t *defaults = get_block_section(match->block, BLOCK_DEFAULTS);
    size_t count = split_params(url->text, url->path_end + 1, url->query_end, params);
    if (count > MAX_PARAMS)
        return false;
    for (size_t i = 0; i < count; i++) {
        struct site_param *read = &match->params[i];
        const struct param *param = &read->param;
        read->param = params[i];
        size_t value = param->name < param->length ? param->name + 1u : param->length;
        read->value = (struct piece){param->at + value, param->length - value};
        read->fate = FATE_KEPT;
        if (!read_name(&match->scratch, read))
            return false;
        read->is_listed = match->rules->strip_params && is_dropped(match->names, param->at, param->name, param->has_percent) &&
                          !(match->needs && find_site_name(match->needs, read->lower));
        if (find_site_name(drop, read->lower) || (*defaults && is_default(match, defaults, read)))
            read->fate = FATE_DROPPED;
        read->is_visible = read->fate == FATE_KEPT && !read->is_listed;
    }
    match->param_count = count;
    return !match->needs_reference;
}

/* Write a value as it would stand in a path: read_form_value of site_patterns.py, after rule 5. */
static bool read_value(struct site_match *match, struct piece *value)
{
    struct bytes *out = &match->scratch;
    bool is_plain = true;
    for (size_t i = 0; is_plain && i < value->length; i++)
        is_plain = value->at[i] != '%' && value->at[i] != '+';
    if (is_plain)
        return true;
    if (!normalize_value(out, value))
        return false;
    size_t start = out->length;
    for (size_t i = 0; i < value->length; i++) {
        const uint8_t *at = value->at + i;
        uint8_t decoded = 0;
        if (*at == '%' && value->length - i >= 3)
            decoded = at[1] == '2' ? at[2] == '6' ? '&' : at[2] == 'B' ? '+' : at[2] == 'F' ? '/' : 0
                                   : at[1] == '3' && at[2] == 'D' ? '=' : 0;
        if (*at == '+')
            write_bytes(out, (const uint8_t *)"%20", 3);
        else
            write_one(out, decoded ? decoded : *at);
        i += decoded ? 2 : 0;
    }
    *value = (struct piece){out->at + start, out->length - start};
    return !out->is_full;
}

bool is_queried(const uint8_t *page, struct piece name)
{
    const uint8_t *at = get_section(page, SECTION_QUERY);
    for (unsigned left = *at++; left; left--) {
        if (are_equal(read_text(&at), name))
            return true;
        at += read_u16(at);
    }
    return false;
}

/* Return whether a value has no segment that is empty or that the parser would resolve, as in `a/../b`. */
static bool can_be_written(struct piece value)
{
    for (size_t start = 0; start <= value.length;) {
        size_t end = start;
        while (end < value.length && value.at[end] != '/')
            end++;
        size_t length = end - start;
        if (length == 0 || (length <= 2 && value.at[start] == '.' && value.at[end - 1] == '.'))
            return false;
        start = end + 1;
    }
    return true;
}

/* The only visible parameter of this name; NULL if there are none or several. */
static const struct site_param *find_only_param(const struct site_match *match, struct piece name)
{
    const struct site_param *found = NULL;
    for (size_t i = 0; i < match->param_count; i++) {
        const struct site_param *param = &match->params[i];
        if (param->is_visible && are_equal(param->name, name)) {
            if (found)
                return NULL;
            found = param;
        }
    }
    return found;
}

static bool match_query(struct site_match *match, const uint8_t *page)
{
    unsigned flags = get_flags(page);
    const uint8_t *at = get_section(page, SECTION_QUERY);
    for (unsigned left = *at++; left; left--) {
        struct piece name = read_text(&at);
        const uint8_t *pattern = at + 2;
        at += read_u16(at);
        const struct site_param *found = find_only_param(match, name);
        if (found == NULL)
            return false;
        struct piece value = found->value;
        if (!(flags & FLAG_HAS_TARGET) && !read_value(match, &value)) {
            match->needs_reference = true;
            return false;
        }
        if (!match_segment(match->captures, &pattern, value, false) || (flags & FLAG_HAS_WRITE && !can_be_written(value)))
            return false;
    }
    const uint8_t *without = get_section(page, SECTION_WITHOUT);
    if (*without == 0 && !(flags & FLAG_NO_OTHERS))
        return true;
    const uint8_t *keep = get_section(page, SECTION_KEEP), *drop = get_section(page, SECTION_DROP);
    const uint8_t *defaults = get_section(page, SECTION_DEFAULTS);
    for (size_t i = 0; i < match->param_count; i++) {
        const struct site_param *param = &match->params[i];
        if (!param->is_visible)
            continue;
        if (*without && has_text(without, param->name))
            return false;
        if (!(flags & FLAG_NO_OTHERS) || param->param.length == 0 || is_queried(page, param->name) ||
            find_site_name(drop, param->lower) || is_default(match, defaults, param) ||
            (flags & FLAG_HAS_KEEP && find_site_name(keep, param->lower)))
            continue;
        return false;
    }
    return true;
}

/* Return whether parameters and captures are as the page wants them. */
static bool match_conditions(struct site_match *match, const uint8_t *page)
{
    if (get_flags(page) & FLAG_HAS_CONDITIONS) {
        if (!match->are_params_read && !read_params(match)) {
            match->needs_reference = true;
            return false;
        }
        if (!match_query(match, page))
            return false;
    }
    const uint8_t *at = get_section(page, SECTION_NOT);
    for (unsigned left = *at++; left; left--) {
        unsigned index = *at++;
        if (has_text(at, match->captures[index]))
            return false;
        for (unsigned words = *at++; words; words--)
            read_text(&at);
    }
    return true;
}

const uint8_t *find_page(struct site_match *match, const uint8_t **entry)
{
    uint64_t shape = make_shape(match->segment_count, match->segment_count ? match->segments[0] : (struct piece){0});
    const uint8_t *at = *entry, *end = get_entries_end(match->block);
    for (; at < end; at += ENTRY_BYTES) {
        if ((shape ^ read_u64(at)) & read_u64(at + 8) || match->segment_count < at[ENTRY_LEAST])
            continue;
        const uint8_t *page = match->block + read_u16(at + ENTRY_PAGE);
        if (!(read_u32(page) >> match->group & 1) ||
            !match_path(match, match->block + read_u16(at + ENTRY_PATH), at[ENTRY_FLAGS] & ENTRY_IGNORE_CASE))
            continue;
        /* The first path that matches counts: the others of the page are not tried. */
        const uint8_t *next = at + ENTRY_BYTES;
        while (next < end && match->block + read_u16(next + ENTRY_PAGE) == page)
            next += ENTRY_BYTES;
        *entry = next;
        if (match_conditions(match, page))
            return page;
        if (match->needs_reference)
            return NULL;
        at = next - ENTRY_BYTES;
    }
    return NULL;
}

bool is_fragment_listed(const uint8_t *list, struct piece fragment)
{
    const uint8_t *at = list + 1;
    for (unsigned left = *list; left; left--) {
        struct piece text = read_text(&at);
        if (are_equal(text, fragment))
            return true;
        if (text.length && text.at[text.length - 1] == '*' && fragment.length >= text.length - 1 &&
            memcmp(text.at, fragment.at, text.length - 1) == 0)
            return true;
    }
    return false;
}
