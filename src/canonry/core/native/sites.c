#include "sites.h"

/* The sections of a page, as in _SECTIONS of tools/site_programs.py. */
enum section {
    SECTION_PATHS, SECTION_QUERY, SECTION_WITHOUT, SECTION_NOT, SECTION_KEEP, SECTION_DROP, SECTION_DEFAULTS,
    SECTION_RENAME, SECTION_FRAGMENTS, SECTION_WRITE, SECTION_TARGET,
};
enum block_section { BLOCK_DROP, BLOCK_NEEDS, BLOCK_DEFAULTS, BLOCK_FRAGMENTS, BLOCK_PAGES };
enum {
    FLAG_IGNORE_CASE = 1, FLAG_NO_OTHERS = 2, FLAG_TARGET_QUERY = 4, FLAG_WHOLE = 8, FLAG_DROP_FRAGMENT = 16,
    FLAG_HAS_KEEP = 32, FLAG_HAS_TARGET = 64, FLAG_HAS_WRITE = 128,
};
enum { KIND_ANY, KIND_TEXT, KIND_FIRST_CLASS, KIND_CHOICE = 0x7f, KIND_SPANS = 0x80 };
enum {
    FILTER_LOWER, FILTER_UPPER, FILTER_CAPITAL, FILTER_UNDERSCORES, FILTER_UNESCAPE, FILTER_DECODE, FILTER_PROOFPOINT,
    FILTER_BASE64, FILTER_DASHES,
};
enum { MAX_SEGMENTS = 32, MAX_CAPTURES = 16 };

/* The classes of site_patterns.py in their order, one bit for each character as in bytes.h. */
static const uint64_t CLASSES[][2] = {
    {0x03ff000000000000, 0},                                      /* digits */
    {0, 0x07fffffe00000000},                                      /* lower */
    {0, 0x07fffffe07fffffe},                                      /* letters */
    {0x03ff000000000000, 0x0000007e0000007e},                     /* hex */
    {0x03ff000000000000, 0x07fffffe00000000},                     /* base36 */
    {0x03ff000000000000, 0x0000000007fffffe},                     /* code */
    {0x03ff000000000000, 0x07fffffe07fffffe},                     /* alnum */
    {0x03ff200000000000, 0x07fffffe00000000},                     /* label: and - */
    {0x03ff000000000000, 0x07fffffe87fffffe},                     /* word: and _ */
    {0x03ff200000000000, 0x07fffffe87fffffe},                     /* id: and _ - */
    {0x03ff600000000000, 0x07fffffe87fffffe},                     /* name: and _ - . */
};
/* What `text` holds besides escapes: 0-9 A-Z a-z and - . _ ~ ! $ & ' ( ) * + , : ; = @ */
static const uint64_t TEXT_CLASS[2] = {0x2fff7fd200000000, 0x47fffffe87ffffff};

struct piece {
    const uint8_t *at;
    size_t length;
};

/* Bytes that are written one after the other; `is_full` if there was no room. */
struct bytes {
    uint8_t *at;
    size_t length, size;
    bool is_full;
};

/* One parameter of the query, with its name decoded and in lower case. */
struct site_param {
    struct piece whole, value, name, lower;
    bool has_percent, is_visible;
};

struct site_match {
    const struct rules *rules;
    const struct located *url;
    const uint8_t *block;
    const struct names *names; /* what rule 9 drops on the main host */
    const uint8_t *needs;
    struct piece main; /* the main host, empty if the host stays */
    unsigned group;
    struct piece path; /* as rules 5 to 7 would leave it */
    struct piece segments[MAX_SEGMENTS];
    size_t segment_count;
    struct site_param params[MAX_PARAMS];
    size_t param_count;
    bool are_params_read;
    struct piece captures[MAX_CAPTURES];
    struct bytes scratch; /* decoded names and values */
    bool needs_reference;
};

static unsigned read_u16(const uint8_t *at)
{
    return at[0] | (unsigned)at[1] << 8;
}

static uint32_t read_u32(const uint8_t *at)
{
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static struct piece read_text(const uint8_t **at)
{
    struct piece text = {*at + 1, **at};
    *at += 1 + text.length;
    return text;
}

static bool are_equal(struct piece a, struct piece b)
{
    return a.length == b.length && memcmp(a.at, b.at, a.length) == 0;
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

static void write_bytes(struct bytes *out, const uint8_t *bytes, size_t length)
{
    if (length > out->size - out->length) {
        out->is_full = true;
        return;
    }
    memcpy(out->at + out->length, bytes, length);
    out->length += length;
}

static void write_one(struct bytes *out, uint8_t c)
{
    write_bytes(out, &c, 1);
}

/* --- names, classes and patterns ---------------------------------------------------------------- */

static bool find_name_in(const uint8_t *names, const uint8_t *lower, size_t length)
{
    if (length == 0 || !(load8(names) >> ((lower[0] + length) & 63) & 1))
        return false;
    const uint8_t *at = names + 9;
    for (unsigned left = names[8]; left; left--) {
        struct piece name = read_text(&at);
        bool is_prefix = *at++;
        if ((is_prefix ? name.length <= length : name.length == length) && memcmp(name.at, lower, name.length) == 0)
            return true;
    }
    return false;
}

bool is_site_name(const uint8_t *names, const uint8_t *name, size_t length)
{
    uint8_t lower[MAX_NAME_BYTES + 1];
    size_t written = 0;
    for (size_t i = 0; i < length && written < sizeof lower; i++) {
        uint8_t c = name[i];
        if (c == '%' && length - i > 2 && hex_value(name[i + 1]) >= 0 && hex_value(name[i + 2]) >= 0) {
            c = (uint8_t)(hex_value(name[i + 1]) << 4 | hex_value(name[i + 2]));
            i += 2;
        }
        lower[written++] = to_lower(c);
    }
    return find_name_in(names, lower, written);
}

static bool has_text(const uint8_t *list, struct piece text)
{
    const uint8_t *at = list + 1;
    for (unsigned left = *list; left; left--)
        if (are_equal(read_text(&at), text))
            return true;
    return false;
}

/* The escapes that `text` may hold: those above 0x7f, the space, and punctuation that no rule reads. */
static bool is_text_escape(uint8_t c)
{
    static const uint64_t escapes[2] = {0x2c001fd700000000, 0x0000000000000001}; /* space ! " $ & ' ( ) * + , : ; = @ */
    return c >= 0x80 || is_in(escapes, c);
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
        } else if (!is_in(TEXT_CLASS, c) && !(spans && c == '/' && i)) {
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
    const uint64_t *set = CLASSES[kind - KIND_FIRST_CLASS];
    for (size_t i = 0; i < text.length; i++)
        if (!is_in(set, text.at[i]) && !(spans && text.at[i] == '/' && i))
            return false;
    return text.length > 0;
}

/* Match one capture and remember what it holds; `*at` moves behind the capture. */
static bool match_capture(struct piece *captures, const uint8_t **at, struct piece text, bool ignore_case)
{
    unsigned index = (*at)[0], kind = (*at)[1];
    *at += 2;
    captures[index] = text;
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

/* Match a segment or a value; `*at` moves behind the pattern if it matches. */
static bool match_segment(struct piece *captures, const uint8_t **at, struct piece text, bool ignore_case)
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
    if (count == 0)
        return text.length == 0;
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

static bool match_path(struct site_match *match, const uint8_t *at, bool ignore_case)
{
    size_t count = *at++;
    bool has_rest = *at++;
    unsigned index = 0, kind = 0;
    if (has_rest) {
        index = *at++;
        kind = *at++;
    }
    if (has_rest ? match->segment_count <= count : match->segment_count != count)
        return false;
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

/* --- the path and the parameters ----------------------------------------------------------------- */

/* Write a text with every escape in one spelling (rule 5). Returns false at a stray `%`. */
static bool write_normalized(struct bytes *out, struct piece text)
{
    for (size_t i = 0; i < text.length; i++) {
        uint8_t c = text.at[i];
        if (c != '%') {
            write_one(out, c);
            continue;
        }
        if (text.length - i < 3 || hex_value(text.at[i + 1]) < 0 || hex_value(text.at[i + 2]) < 0)
            return false;
        c = (uint8_t)(hex_value(text.at[i + 1]) << 4 | hex_value(text.at[i + 2]));
        i += 2;
        uint8_t escape[3];
        write_escape(escape, c);
        write_bytes(out, is_in(UNRESERVED, c) ? &c : escape, is_in(UNRESERVED, c) ? 1 : 3);
    }
    return true;
}

/* Read the path as rules 5 to 7 would leave it, and split it into segments. */
static bool read_path(struct site_match *match)
{
    const struct located *url = match->url;
    struct piece raw = {url->text + url->path, url->path_end - url->path};
    struct bytes *out = &match->scratch;
    size_t start = out->length;
    bool is_clean = raw.length == 0 || (raw.length > 1 ? raw.at[raw.length - 1] != '/' : true);
    for (size_t i = 0; is_clean && i < raw.length; i++)
        is_clean = raw.at[i] != '%' && !(raw.at[i] == '/' && i + 1 < raw.length && raw.at[i + 1] == '/');
    if (is_clean) {
        match->path = raw;
    } else {
        if (!write_normalized(out, raw) || out->is_full)
            return false;
        size_t kept = start;
        for (size_t i = start; i < out->length; i++)
            if (out->at[i] != '/' || kept == start || out->at[kept - 1] != '/')
                out->at[kept++] = out->at[i];
        while (kept > start + 1 && out->at[kept - 1] == '/')
            kept--;
        out->length = kept;
        match->path = (struct piece){out->at + start, kept - start};
    }
    size_t count = 0;
    for (size_t i = 1; i < match->path.length;) {
        if (count == MAX_SEGMENTS)
            return false;
        const uint8_t *from = match->path.at + i, *end = memchr(from, '/', match->path.length - i);
        size_t length = end ? (size_t)(end - from) : match->path.length - i;
        match->segments[count++] = (struct piece){from, length};
        i += length + 1;
    }
    match->segment_count = count;
    return true;
}

static bool is_default(struct site_match *match, const uint8_t *defaults, const struct site_param *param)
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
        if (value.length && memchr(value.at, '%', value.length)) {
            size_t start = match->scratch.length;
            if (!write_normalized(&match->scratch, value) || match->scratch.is_full) {
                match->needs_reference = true;
                return false;
            }
            value = (struct piece){match->scratch.at + start, match->scratch.length - start};
        }
        return has_text(values, value);
    }
    return false;
}

static const uint8_t *get_block_section(const uint8_t *block, enum block_section section)
{
    return block + read_u16(block + 4 + 2 * section);
}

static const uint8_t *get_section(const uint8_t *page, enum section section)
{
    return page + read_u16(page + 6 + 2 * section);
}

static void write_decoded_name(struct bytes *out, struct piece name)
{
    for (size_t i = 0; i < name.length; i++) {
        uint8_t c = name.at[i];
        if (c == '%' && name.length - i > 2 && hex_value(name.at[i + 1]) >= 0 && hex_value(name.at[i + 2]) >= 0) {
            c = (uint8_t)(hex_value(name.at[i + 1]) << 4 | hex_value(name.at[i + 2]));
            i += 2;
        }
        write_one(out, c);
    }
}

static bool read_params(struct site_match *match)
{
    const struct located *url = match->url;
    match->are_params_read = true;
    if (url->path_end + 1 >= url->query_end)
        return true;
    const uint8_t *drop = get_block_section(match->block, BLOCK_DROP);
    const uint8_t *defaults = get_block_section(match->block, BLOCK_DEFAULTS);
    struct bytes *out = &match->scratch;
    for (size_t start = url->path_end + 1; start <= url->query_end;) {
        if (match->param_count == MAX_PARAMS)
            return false;
        struct site_param *param = &match->params[match->param_count++];
        size_t at = start, name = SIZE_MAX;
        param->has_percent = false;
        for (; at < url->query_end && url->text[at] != '&'; at++)
            if (name == SIZE_MAX) {
                if (url->text[at] == '=')
                    name = at;
                param->has_percent |= url->text[at] == '%';
            }
        param->whole = (struct piece){url->text + start, at - start};
        param->name = (struct piece){url->text + start, (name == SIZE_MAX ? at : name) - start};
        param->value = name == SIZE_MAX ? (struct piece){url->text + at, 0}
                                        : (struct piece){url->text + name + 1, at - name - 1};
        bool is_listed = match->rules->strip_params &&
                         is_dropped(match->names, param->name.at, param->name.length, param->has_percent);
        if (param->has_percent) {
            size_t from = out->length;
            write_decoded_name(out, param->name);
            param->name = (struct piece){out->at + from, out->length - from};
        }
        size_t from = out->length;
        for (size_t i = 0; i < param->name.length; i++)
            write_one(out, to_lower(param->name.at[i]));
        param->lower = (struct piece){out->at + from, out->length - from};
        if (out->is_full)
            return false;
        param->is_visible = !find_name_in(drop, param->lower.at, param->lower.length) &&
                            !(*defaults && is_default(match, defaults, param)) &&
                            (!is_listed || (match->needs && find_name_in(match->needs, param->lower.at, param->lower.length)));
        start = at + 1;
    }
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
    size_t start = out->length;
    for (size_t i = 0; i < value->length; i++) {
        uint8_t c = value->at[i];
        if (c == '+') {
            write_bytes(out, (const uint8_t *)"%20", 3);
        } else if (c != '%') {
            write_one(out, c);
        } else {
            if (value->length - i < 3 || hex_value(value->at[i + 1]) < 0 || hex_value(value->at[i + 2]) < 0)
                return false;
            c = (uint8_t)(hex_value(value->at[i + 1]) << 4 | hex_value(value->at[i + 2]));
            i += 2;
            uint8_t escape[3];
            write_escape(escape, c);
            bool is_decoded = is_in(UNRESERVED, c) || c == '&' || c == '+' || c == '/' || c == '=';
            write_bytes(out, is_decoded ? &c : escape, is_decoded ? 1 : 3);
        }
    }
    *value = (struct piece){out->at + start, out->length - start};
    return !out->is_full;
}

static bool is_queried(const uint8_t *queries, struct piece name)
{
    const uint8_t *at = queries + 1;
    for (unsigned left = *queries; left; left--) {
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
        const uint8_t *from = value.at + start, *end = memchr(from, '/', value.length - start);
        size_t length = end ? (size_t)(end - from) : value.length - start;
        if (length == 0 || (length <= 2 && from[0] == '.' && from[length - 1] == '.'))
            return false;
        start += length + 1;
    }
    return true;
}

static bool match_query(struct site_match *match, const uint8_t *page)
{
    unsigned flags = page[4];
    const uint8_t *queries = get_section(page, SECTION_QUERY), *without = get_section(page, SECTION_WITHOUT);
    const uint8_t *at = queries + 1;
    for (unsigned left = *queries; left; left--) {
        struct piece name = read_text(&at);
        const uint8_t *pattern = at + 2;
        at += read_u16(at);
        const struct site_param *found = NULL;
        for (size_t i = 0; i < match->param_count; i++)
            if (match->params[i].is_visible && are_equal(match->params[i].name, name)) {
                if (found)
                    return false;
                found = &match->params[i];
            }
        if (found == NULL)
            return false;
        struct piece value = found->value;
        if (!(flags & FLAG_HAS_TARGET) && !read_value(match, &value)) {
            match->needs_reference = true;
            return false;
        }
        if (!match_segment(match->captures, &pattern, value, false) ||
            (flags & FLAG_HAS_WRITE && !can_be_written(value)))
            return false;
    }
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
        if (!(flags & FLAG_NO_OTHERS) || param->whole.length == 0 || is_queried(queries, param->name) ||
            find_name_in(drop, param->lower.at, param->lower.length) || is_default(match, defaults, param) ||
            (flags & FLAG_HAS_KEEP && find_name_in(keep, param->lower.at, param->lower.length)))
            continue;
        return false;
    }
    return true;
}

static bool match_page(struct site_match *match, const uint8_t *page)
{
    unsigned flags = page[4];
    if (!(read_u32(page) >> match->group & 1))
        return false;
    const uint8_t *at = get_section(page, SECTION_PATHS);
    bool is_found = false;
    for (unsigned left = *at++; left && !is_found; left--) {
        is_found = match_path(match, at + 2, flags & FLAG_IGNORE_CASE);
        at += read_u16(at);
    }
    if (!is_found)
        return false;
    if (!match->are_params_read && !read_params(match)) {
        match->needs_reference = true;
        return false;
    }
    if (!match_query(match, page))
        return false;
    const uint8_t *excluded = get_section(page, SECTION_NOT);
    at = excluded + 1;
    for (unsigned left = *excluded; left; left--) {
        unsigned index = *at++;
        if (has_text(at, match->captures[index]))
            return false;
        for (unsigned words = *at++; words; words--)
            read_text(&at);
    }
    return true;
}

/* --- templates ----------------------------------------------------------------------------------- */

static void remove_range(struct bytes *out, size_t from, size_t count)
{
    memmove(out->at + from, out->at + from + count, out->length - from - count);
    out->length -= count;
}

/* Decode base64 without padding from `start` on; false for what only the reference decodes. */
static bool decode_base64(struct bytes *out, size_t start)
{
    size_t written = start;
    uint32_t bits = 0;
    unsigned count = 0;
    if ((out->length - start) % 4 == 1)
        return false;
    for (size_t i = start; i < out->length; i++) {
        uint8_t c = out->at[i];
        uint32_t value;
        if (c >= 'A' && c <= 'Z')
            value = c - 'A';
        else if (c >= 'a' && c <= 'z')
            value = c - 'a' + 26u;
        else if (c >= '0' && c <= '9')
            value = c - '0' + 52u;
        else if (c == '-' || c == '_')
            value = c == '-' ? 62 : 63;
        else
            return false;
        bits = (bits << 6 | value) & 0xffff;
        count += 6;
        if (count < 8)
            continue;
        count -= 8;
        uint8_t byte = (uint8_t)(bits >> count);
        if (byte >= 0x7f || byte <= 0x20)
            return false; /* the reference decodes UTF-8, and the parser reads controls */
        out->at[written++] = byte;
    }
    out->length = written;
    return true;
}

/* Change what was written from `start` on, as a filter of site_patterns.py does. */
static bool apply_filter(struct bytes *out, size_t start, unsigned filter)
{
    if (filter == FILTER_PROOFPOINT) {
        for (size_t i = start; i < out->length; i++)
            out->at[i] = out->at[i] == '-' ? '%' : out->at[i] == '_' ? '/' : out->at[i];
        filter = FILTER_DECODE;
    }
    if (filter == FILTER_BASE64)
        return decode_base64(out, start);
    if (filter == FILTER_CAPITAL) {
        if (start < out->length && out->at[start] >= 'a' && out->at[start] <= 'z')
            out->at[start] &= (uint8_t)~0x20;
        return true;
    }
    for (size_t i = start; i < out->length; i++) {
        uint8_t *at = out->at + i;
        bool is_escape = *at == '%' && out->length - i > 2 && hex_value(at[1]) >= 0 && hex_value(at[2]) >= 0;
        uint8_t c = is_escape ? (uint8_t)(hex_value(at[1]) << 4 | hex_value(at[2])) : *at;
        switch (filter) {
        case FILTER_LOWER:
            if (is_escape)
                i += 2;
            else
                *at = to_lower(c);
            break;
        case FILTER_UPPER:
            if (*at >= 'a' && *at <= 'z')
                *at &= (uint8_t)~0x20;
            break;
        case FILTER_UNDERSCORES:
            if (is_escape && c == ' ') {
                *at = '_';
                remove_range(out, i + 1, 2);
            }
            break;
        case FILTER_DASHES:
            if (*at == '_' || *at == '.')
                *at = '-';
            break;
        case FILTER_UNESCAPE:
            if (is_escape && is_text_escape(c) && c < 0x80 && c != ' ' && c != '"') {
                *at = c;
                remove_range(out, i + 1, 2);
            }
            break;
        case FILTER_DECODE:
            if (is_escape) {
                if (c >= 0x80 || c <= 0x20 || c == 0x7f)
                    return false; /* the reference decodes UTF-8, and the parser reads controls */
                *at = c;
                remove_range(out, i + 1, 2);
            }
            break;
        default: /* what only the reference does: target_code of tools/site_programs.py */
            return false;
        }
    }
    return true;
}

static bool write_template(struct site_match *match, const uint8_t *at, struct bytes *out)
{
    for (unsigned left = *at++; left; left--) {
        if (*at++ == 0) {
            struct piece text = read_text(&at);
            write_bytes(out, text.at, text.length);
            continue;
        }
        struct piece value = match->captures[*at++];
        size_t start = out->length;
        write_bytes(out, value.at, value.length);
        for (unsigned filters = *at++; filters; filters--)
            if (!apply_filter(out, start, *at++))
                return false;
    }
    return true;
}

/* --- writing the URL ------------------------------------------------------------------------------- */

static void write_host(struct site_match *match, struct bytes *out, struct piece host, bool is_https)
{
    const struct located *url = match->url;
    write_bytes(out, (const uint8_t *)"https://", is_https ? 8 : 4);
    if (!is_https)
        write_bytes(out, (const uint8_t *)"://", 3);
    if (host.length)
        write_bytes(out, host.at, host.length);
    else
        for (size_t i = url->host; i < url->host_end; i++)
            write_one(out, to_lower(url->text[i]));
}

static bool is_fragment_dropped(const uint8_t *list, struct piece fragment)
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

static bool is_param_dropped(struct site_match *match, const uint8_t *page, const struct site_param *param)
{
    const uint8_t *block = match->block;
    if (find_name_in(get_block_section(block, BLOCK_DROP), param->lower.at, param->lower.length) ||
        is_default(match, get_block_section(block, BLOCK_DEFAULTS), param))
        return true;
    if (page == NULL)
        return false;
    if (find_name_in(get_section(page, SECTION_DROP), param->lower.at, param->lower.length) ||
        is_default(match, get_section(page, SECTION_DEFAULTS), param))
        return true;
    if (page[4] & FLAG_HAS_WRITE && is_queried(get_section(page, SECTION_QUERY), param->name))
        return true;
    return page[4] & FLAG_HAS_KEEP &&
           !find_name_in(get_section(page, SECTION_KEEP), param->lower.at, param->lower.length);
}

/* The new name of a parameter that the page renames. Returns false if it is not renamed. */
static bool find_new_name(const uint8_t *renames, struct piece name, struct piece *new_name, unsigned *index)
{
    const uint8_t *at = renames + 1;
    for (unsigned i = 0; i < *renames; i++) {
        struct piece old = read_text(&at);
        *new_name = read_text(&at);
        *index = i;
        if (are_equal(old, name))
            return true;
    }
    return false;
}

static bool has_param(const struct site_match *match, struct piece name)
{
    for (size_t i = 0; i < match->param_count; i++)
        if (are_equal(match->params[i].name, name))
            return true;
    return false;
}

/* Write the query of a page, with its `?`: what the template writes, then the parameters that stay. */
static bool write_query(struct site_match *match, const uint8_t *page, struct bytes *out)
{
    const struct located *url = match->url;
    struct piece taken[8];
    size_t taken_count = 0, start = out->length;
    const uint8_t *written = NULL;
    bool is_same = true, is_first = true;
    if (!match->are_params_read && !read_params(match))
        return false;
    write_one(out, '?');
    if (page && page[4] & FLAG_HAS_WRITE) {
        const uint8_t *at = get_section(page, SECTION_WRITE);
        read_text(&at);
        at += read_u16(at);
        if (*at) {
            written = at;
            for (unsigned left = *at++; left; left--)
                read_text(&at);
            if (!write_template(match, at, out))
                return false;
            is_same = is_first = false;
        }
    }
    const uint8_t *renames = page && *get_section(page, SECTION_RENAME) ? get_section(page, SECTION_RENAME) : NULL;
    for (size_t i = 0; i < match->param_count; i++) {
        struct site_param param = match->params[i];
        struct piece new_name = {0};
        unsigned index = 0;
        bool is_renamed = renames && find_new_name(renames, param.name, &new_name, &index);
        if (is_renamed) {
            bool is_taken = has_param(match, new_name);
            for (size_t j = 0; j < taken_count; j++)
                is_taken |= are_equal(taken[j], new_name);
            is_same = false;
            if (is_taken)
                continue;
            if (taken_count == sizeof taken / sizeof *taken)
                return false;
            taken[taken_count++] = new_name;
            param.name = param.lower = new_name; /* new names are in lower case: tools/site_format.py */
        }
        if (is_param_dropped(match, page, &param)) {
            is_same = false;
            continue;
        }
        if (written && (param.whole.length == 0 || has_text(written, param.name)))
            continue;
        if (!is_first)
            write_one(out, '&');
        is_first = false;
        if (is_renamed) {
            size_t name = (size_t)(param.value.at - param.whole.at);
            bool has_value = name <= param.whole.length && name > 0 && param.whole.at[name - 1] == '=';
            write_bytes(out, new_name.at, new_name.length);
            if (has_value) {
                write_one(out, '=');
                write_bytes(out, param.value.at, param.value.length);
            }
        } else {
            write_bytes(out, param.whole.at, param.whole.length);
        }
    }
    if (match->needs_reference)
        return false;
    if (is_same) {
        out->length = start;
        if (url->path_end + 1 < url->query_end)
            write_bytes(out, url->text + url->path_end, url->query_end - url->path_end);
    } else if (out->length == start + 1) {
        out->length = start;
    }
    return true;
}

static void write_fragment(struct site_match *match, const uint8_t *page, struct bytes *out)
{
    const struct located *url = match->url;
    if (url->query_end + 1 >= url->length || (page && page[4] & FLAG_DROP_FRAGMENT))
        return;
    struct piece fragment = {url->text + url->query_end + 1, url->length - url->query_end - 1};
    if (is_fragment_dropped(get_block_section(match->block, BLOCK_FRAGMENTS), fragment) ||
        (page && is_fragment_dropped(get_section(page, SECTION_FRAGMENTS), fragment)))
        return;
    write_bytes(out, url->text + url->query_end, url->length - url->query_end);
}

static void write_path(struct site_match *match, struct bytes *out)
{
    const struct located *url = match->url;
    if (url->path == url->path_end)
        write_one(out, '/');
    else
        write_bytes(out, url->text + url->path, url->path_end - url->path);
}

static bool is_web_address(const uint8_t *text, size_t length)
{
    static const char https[] = "https", end[] = "://";
    size_t at = 0;
    while (at < 5 && at < length && to_lower(text[at]) == (uint8_t)https[at])
        at++;
    if (at < 4 || length - at < 4 || memcmp(text + at, end, 3) != 0)
        return false;
    return text[at + 3] != '/' && text[at + 3] != '?' && text[at + 3] != '#';
}

/* Write the address to which a redirect page leads. SITE_NONE: the page does not match. */
static enum site_outcome write_target(struct site_match *match, const uint8_t *page, struct bytes *out)
{
    const struct located *url = match->url;
    bool has_query = page[4] & FLAG_TARGET_QUERY;
    if (has_query)
        for (size_t i = url->path; i + 1 < url->path_end; i++)
            if (url->text[i] == '/' && url->text[i + 1] == '/')
                return SITE_REFERENCE;
    if (!write_template(match, get_section(page, SECTION_TARGET), out))
        return SITE_REFERENCE;
    if (has_query) {
        if (url->path < url->path_end && url->text[url->path_end - 1] == '/')
            write_one(out, '/');
        if (url->path_end + 1 < url->query_end)
            write_bytes(out, url->text + url->path_end, url->query_end - url->path_end);
    }
    if (url->query_end + 1 < url->length && !memchr(out->at, '#', out->length))
        write_bytes(out, url->text + url->query_end, url->length - url->query_end);
    return out->is_full ? SITE_REFERENCE : is_web_address(out->at, out->length) ? SITE_MOVED : SITE_NONE;
}

/* Write the URL after rules 2 and 8; `page` is NULL if no page matches. */
static enum site_outcome write_url(struct site_match *match, const uint8_t *page, struct site_answer *answer,
                                   struct bytes *out)
{
    const struct located *url = match->url;
    const uint8_t *block = match->block;
    bool has_write = page && page[4] & FLAG_HAS_WRITE, is_https = block[0] || url->is_https;
    struct piece host = match->main;
    const uint8_t *path = NULL;
    if (has_write) {
        const uint8_t *at = get_section(page, SECTION_WRITE);
        struct piece elsewhere = read_text(&at);
        path = at + 2;
        if (elsewhere.length) {
            host = elsewhere;
            is_https = true;
        }
        answer->effect.is_path_final = true;
    } else {
        answer->effect.slash = block[1];
    }
    answer->effect.keeps_host = host.length > 0;
    if (host.length == 1 && host.at[0] == '*') /* the template writes the host too: tools/site_programs.py */
        write_bytes(out, (const uint8_t *)"https://", 8);
    else
        write_host(match, out, host, is_https);
    if (has_write ? !write_template(match, path, out) : (write_path(match, out), false))
        return SITE_REFERENCE;
    if (!write_query(match, page, out))
        return SITE_REFERENCE;
    write_fragment(match, page, out);
    return out->is_full ? SITE_REFERENCE : SITE_FINISH;
}

/* Return whether another address follows the host, as embeds_address of rules.py does. */
static bool find_address(const struct located *url)
{
    const uint8_t *text = url->text;
    for (size_t i = url->path; i < url->query_end; i++) {
        bool is_start = i < url->path_end ? text[i] == '/' : i == url->path_end;
        if (!is_start || url->query_end - i < 7 || (load4(text + i + 1) | 0x20202020) != load4((const uint8_t *)"http"))
            continue;
        size_t at = i + 5, end = i < url->path_end ? url->path_end : url->query_end;
        at += at < end && (text[at] | 0x20) == 's';
        bool is_colon = at < end && text[at] == ':';
        if (!is_colon && i < url->path_end && end - at >= 3 && text[at] == '%' && text[at + 1] == '3' && (text[at + 2] | 0x20) == 'a') {
            is_colon = true;
            at += 2;
        }
        if (!is_colon || ++at >= end)
            continue;
        if (text[at] == '/' || (i < url->path_end && end - at >= 3 && text[at] == '%' && text[at + 1] == '2' && (text[at + 2] | 0x20) == 'f'))
            return true;
    }
    return false;
}

bool embeds_address(const struct located *url)
{
    const uint8_t *text = url->text;
    bool may_embed = (url->path < url->path_end && (memchr(text + url->path, ':', url->path_end - url->path) ||
                                                    memchr(text + url->path, '%', url->path_end - url->path))) ||
                     (url->path_end + 5 < url->query_end && (text[url->path_end + 1] | 0x20) == 'h');
    return may_embed && find_address(url);
}

/* --- finding the site ------------------------------------------------------------------------------- */

/* Read the record of a host. Returns whether it accepts the first label. */
static bool read_record(struct site_match *match, uint32_t place, struct piece label, uint8_t host[128])
{
    const uint8_t *program = match->rules->site_program, *at = program + place;
    struct piece captures[1];
    match->block = at - read_u32(at);
    match->group = at[4];
    at += 5;
    match->main = read_text(&at);
    if (!match_capture(captures, &at, label, false) || has_text(at, label))
        return false;
    if (match->main.length && match->main.at[0] == '*') { /* take over the first label */
        if (label.length + match->main.length > 128)
            return false;
        memcpy(host, label.at, label.length);
        memcpy(host + label.length, match->main.at + 1, match->main.length - 1);
        match->main = (struct piece){host, label.length + match->main.length - 1};
    }
    return true;
}

/* Find the table of a host and read it into the match. */
static bool find_table(struct site_match *match, struct piece bare, uint8_t host[128])
{
    const struct located *url = match->url;
    const uint8_t *dot = memchr(bare.at, '.', bare.length);
    struct piece label = {bare.at, dot ? (size_t)(dot - bare.at) : bare.length};
    if (url->exact && url->exact->flags & HOST_HAS_TABLE)
        return read_record(match, url->exact->table_record, label, host);
    if (url->domain == NULL || !(url->domain->flags & HOST_HAS_DOMAIN_TABLES))
        return false;
    const uint32_t *records = match->rules->domain_records + url->domain->domain_records;
    for (uint32_t left = *records++; left; left--, records++)
        if (read_record(match, *records, label, host))
            return true;
    return false;
}

static const struct names *find_names(const struct rules *rules, struct piece host, bool *has_override)
{
    const struct host *own = find_host(&rules->hosts, host.at, host.length);
    *has_override = own && own->flags & HOST_HAS_OVERRIDE;
    return &rules->names[own && own->flags & HOST_HAS_NAMES ? own->names : 0];
}

/* Return whether path and query were not changed. A page that was written anew may be another kind of page. */
static bool has_same_page(const struct located *url, const struct site_answer *answer)
{
    const uint8_t *slash = memchr(answer->text + 8, '/', answer->length - 8); /* after the shortest scheme and host */
    if (slash == NULL)
        return false;
    size_t from = (size_t)(slash - answer->text), end = answer->length;
    const uint8_t *fragment = memchr(slash, '#', end - from);
    if (fragment)
        end = (size_t)(fragment - answer->text);
    size_t before = url->query_end - url->path;
    return end - from == before && memcmp(slash, url->text + url->path, before) == 0;
}

/* Return whether `http` follows the scheme, in any case. */
static bool has_http(const struct site_answer *answer)
{
    for (size_t i = 8; i + 4 <= answer->length; i++)
        if ((load4(answer->text + i) | 0x20202020) == load4((const uint8_t *)"http"))
            return true;
    return false;
}

enum site_outcome apply_sites(const struct rules *rules, const struct located *url, struct site_answer *answer)
{
    uint8_t scratch[2 * MAX_URL_BYTES], lower[64], main_host[128];
    struct site_match match;
    match.rules = rules;
    match.url = url;
    match.scratch = (struct bytes){.at = scratch, .size = sizeof scratch};
    match.param_count = 0;
    match.are_params_read = match.needs_reference = false;
    size_t host_length = url->host_end - url->host, bare = 0;
    for (size_t i = 0; i < host_length; i++)
        lower[i] = to_lower(url->text[url->host + i]);
    while (host_length - bare >= 4 && load4(lower + bare) == load4((const uint8_t *)"www."))
        bare += 4;
    if (bare && !memchr(lower + bare, '.', host_length - bare))
        bare -= 4;
    answer->effect = (struct site_effect){0};
    if (!find_table(&match, (struct piece){lower + bare, host_length - bare}, main_host))
        return SITE_NONE;
    bool has_override = false;
    struct piece host = {lower, host_length};
    bool is_main = match.main.length == 0 || are_equal(match.main, host);
    if (is_main && !rules->strip_www)
        match.names = url->names;
    else
        match.names = find_names(rules, is_main ? host : match.main, &has_override);
    match.needs = match.block[3] ? get_block_section(match.block, BLOCK_NEEDS) : NULL;
    if (has_override || !read_path(&match))
        return SITE_REFERENCE;

    const uint8_t *page = NULL, *at = get_block_section(match.block, BLOCK_PAGES);
    struct bytes out = {.at = answer->text, .size = MAX_URL_BYTES};
    for (unsigned left = match.block[2]; left; left--) {
        const uint8_t *each = at + 2;
        at += read_u16(at);
        bool is_match = match_page(&match, each);
        if (match.needs_reference)
            return SITE_REFERENCE;
        if (!is_match)
            continue;
        if (each[4] & FLAG_HAS_TARGET) {
            enum site_outcome outcome = write_target(&match, each, &out);
            if (outcome == SITE_NONE) {
                out = (struct bytes){.at = answer->text, .size = MAX_URL_BYTES};
                continue;
            }
            answer->length = out.length;
            return outcome;
        }
        page = each;
        break;
    }
    answer->effect.names = match.names;
    answer->effect.needs = match.needs;
    if (page == NULL && match.group != 0)
        return SITE_NONE;
    answer->effect.keeps_host = answer->effect.is_path_final = false;
    answer->effect.slash = SLASH_KEEP;
    bool is_moved = false;
    if (page && page[4] & FLAG_HAS_WRITE) {
        const uint8_t *write = get_section(page, SECTION_WRITE);
        is_moved = *write > 0;
    }
    is_moved = page && (is_moved || match.group != 0) && !(page[4] & FLAG_WHOLE);
    if ((page && page[4] & FLAG_WHOLE) || (!is_moved && rules->keep_embedded && embeds_address(url))) {
        write_host(&match, &out, match.main, match.block[0] || url->is_https);
        write_path(&match, &out);
        write_bytes(&out, url->text + url->path_end, url->length - url->path_end);
        answer->length = out.length;
        return out.is_full ? SITE_REFERENCE : SITE_WHOLE;
    }
    enum site_outcome outcome = write_url(&match, page, answer, &out);
    answer->length = out.length;
    if (outcome == SITE_FINISH && page && !is_moved && !has_same_page(url, answer)) {
        is_moved = true;
        /* The reference has asked before the page was written whether it embeds an address. */
        if (rules->keep_embedded && has_http(answer))
            return SITE_REFERENCE;
    }
    return outcome == SITE_FINISH && is_moved ? SITE_MOVED : outcome;
}
