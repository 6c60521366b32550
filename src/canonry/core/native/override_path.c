#include "overrides.h"

enum { MAX_PATH_SEGMENTS = 64 }; /* the reference answers for more */
enum place { PLACE_FIRST = 'f', PLACE_MID = 'm', PLACE_LAST = 'l' };
enum slug { SLUG_AFTER_ID = 'a', SLUG_BEFORE_ID = 'b', SLUG_ENDS_WITH_ID = 'e', SLUG_STARTS_WITH_ID = 's' };

struct segments {
    struct piece all[MAX_PATH_SEGMENTS], *each; /* `each` moves when the first one is dropped */
    size_t count;
};

static bool has_digit(struct piece text)
{
    for (size_t i = 0; i < text.length; i++)
        if (is_digit(text.at[i]))
            return true;
    return false;
}

static bool has_letter(struct piece text)
{
    for (size_t i = 0; i < text.length; i++)
        if (is_letter(text.at[i]))
            return true;
    return false;
}

static struct piece slice(struct piece text, size_t from, size_t to)
{
    return (struct piece){text.at + from, to - from};
}

/* --- parameters of segments ------------------------------------------------------------------------ */

static bool is_path_param_listed(struct texts names, struct piece param)
{
    const uint8_t *equals = param.length ? memchr(param.at, '=', param.length) : NULL, *at = names.at;
    size_t length = equals ? (size_t)(equals - param.at) : param.length;
    for (unsigned left = names.count; left; left--)
        if (are_equal_lowered((struct piece){param.at, length}, next_text(&at)))
            return true;
    return false;
}

/* `/a;sid=1/b;x=2` → `/a/b;x=2` */
static struct piece drop_path_params(struct texts names, struct piece path, struct bytes *space)
{
    size_t start = space->length;
    for (size_t at = 0; at < path.length;) {
        size_t end = at + 1; /* one piece: a slash or a `;` with what follows it */
        while (end < path.length && path.at[end] != '/' && path.at[end] != ';')
            end++;
        if (path.at[at] != ';' || !is_path_param_listed(names, slice(path, at + 1, end)))
            write_bytes(space, path.at + at, end - at);
        at = end;
    }
    return (struct piece){space->at + start, space->length - start};
}

/* --- dropped segments ------------------------------------------------------------------------------- */

static bool has_placed(struct texts list, enum place place, struct piece text)
{
    const uint8_t *at = list.at;
    for (unsigned left = list.count; left; left--) {
        struct piece placed = next_text(&at);
        if (placed.at[0] == (uint8_t)place && are_equal(slice(placed, 1, placed.length), text))
            return true;
    }
    return false;
}

/* `s-8f3ab2` → `s-#`: a run of letters and digits becomes `#`, one of digits alone `0`. */
static struct piece make_segment_shape(struct piece segment, uint8_t shape[MAX_URL_BYTES])
{
    size_t written = 0;
    for (size_t i = 0; i < segment.length;) {
        size_t end = i;
        while (end < segment.length && (is_letter(segment.at[end]) || is_digit(segment.at[end])))
            end++;
        struct piece run = slice(segment, i, end);
        if (run.length == 0) {
            shape[written++] = segment.at[i++];
            continue;
        }
        if (has_digit(run)) {
            shape[written++] = has_letter(run) ? '#' : '0';
        } else {
            memcpy(shape + written, run.at, run.length);
            written += run.length;
        }
        i = end;
    }
    return (struct piece){shape, written};
}

static bool is_segment_dropped(const struct override *override, struct piece segment, enum place place)
{
    uint8_t shape[MAX_URL_BYTES];
    return has_placed(override->lists[LIST_SEGMENTS], place, segment) ||
           (override->lists[LIST_SHAPES].count && has_digit(segment) &&
            has_placed(override->lists[LIST_SHAPES], place, make_segment_shape(segment, shape)));
}

/* Drop segments by their place. Returns whether the path then ends with a slash. */
static bool drop_segments(const struct override *override, struct segments *segments, bool has_slash)
{
    while (segments->count > 1 && is_segment_dropped(override, segments->each[0], PLACE_FIRST)) {
        segments->each++;
        segments->count--;
    }
    size_t kept = segments->count > 1;
    for (size_t i = 1; i + 1 < segments->count; i++)
        if (!is_segment_dropped(override, segments->each[i], PLACE_MID))
            segments->each[kept++] = segments->each[i];
    struct piece last = segments->each[segments->count - 1];
    segments->each[kept] = last;
    segments->count = kept + 1;
    if (is_segment_dropped(override, last, PLACE_LAST)) {
        has_slash |= memchr(last.at, '.', last.length) != NULL;
        segments->count--;
    }
    return has_slash;
}

/* --- texts beside an id ------------------------------------------------------------------------------- */

/* Return whether the template is `/` and these segments, with `#` for each that contains a digit. */
static bool is_template(struct piece template, const struct piece *segments, size_t count)
{
    static const uint8_t id[] = "#";
    size_t at = 0;
    for (size_t i = 0; i < count || i == 0; i++) {
        struct piece wanted = count == 0 ? (struct piece){id, 0} : has_digit(segments[i]) ? (struct piece){id, 1} : segments[i];
        if (template.length - at < 1 + wanted.length || template.at[at] != '/' ||
            !are_same(template.at + at + 1, wanted.at, wanted.length))
            return false;
        at += 1 + wanted.length;
    }
    return at == template.length;
}

static bool has_slug(const struct override *override, enum slug kind, const struct piece *segments, size_t count)
{
    const uint8_t *at = override->lists[LIST_SLUGS].at;
    for (unsigned left = override->lists[LIST_SLUGS].count; left; left--) {
        struct piece slug = next_text(&at);
        if (slug.at[0] == (uint8_t)kind && is_template(slice(slug, 1, slug.length), segments, count))
            return true;
    }
    return false;
}

/* Return whether a text is empty, or a dot, a letter, and letters and digits: `.html`. */
static bool is_ending(struct piece text)
{
    if (text.length == 0)
        return true;
    if (text.length < 2 || text.at[0] != '.' || !is_letter(text.at[1]))
        return false;
    for (size_t i = 2; i < text.length; i++)
        if (!is_letter(text.at[i]) && !is_digit(text.at[i]))
            return false;
    return true;
}

/* Return whether a text is an id: at most one letter, then digits, then an ending. */
static bool is_id(struct piece text)
{
    size_t start = text.length && is_letter(text.at[0]), at = start;
    while (at < text.length && is_digit(text.at[at]))
        at++;
    return at > start && is_ending(slice(text, at, text.length));
}

/* `a-title-123.html` → `123.html` */
static struct piece skip_text_before_id(struct piece segment)
{
    for (size_t at = segment.length; at > 0; at--)
        if (strchr("-_,.", segment.at[at - 1]) && is_id(slice(segment, at, segment.length)))
            return has_letter(slice(segment, 0, at - 1)) ? slice(segment, at, segment.length) : segment;
    return segment;
}

/* `123-a-title.html` → `123.html` */
static struct piece drop_text_after_id(struct piece segment, struct bytes *space)
{
    size_t digits = 0, start = space->length;
    while (digits < segment.length && is_digit(segment.at[digits]))
        digits++;
    if (digits == 0 || digits == segment.length || !strchr("-_,", segment.at[digits]))
        return segment;
    size_t end = digits + 1;
    while (end < segment.length && segment.at[end] != '.')
        end++;
    if (!has_letter(slice(segment, digits + 1, end)) || !is_ending(slice(segment, end, segment.length)))
        return segment;
    write_bytes(space, segment.at, digits);
    write_bytes(space, segment.at + end, segment.length - end);
    return (struct piece){space->at + start, space->length - start};
}

static void drop_slugs(const struct override *override, struct segments *segments, struct bytes *space)
{
    struct piece *each = segments->each, *last = &each[segments->count - 1];
    size_t folders = segments->count - 1;
    bool has_id = has_digit(*last);
    if (folders && has_digit(each[folders - 1]) && has_slug(override, SLUG_AFTER_ID, each, folders)) {
        segments->count--;
        return;
    }
    if (folders && has_id && !has_digit(each[0]) && has_slug(override, SLUG_BEFORE_ID, each + 1, folders)) {
        segments->each++;
        segments->count--;
        return;
    }
    if (has_id && has_slug(override, SLUG_ENDS_WITH_ID, each, folders))
        *last = skip_text_before_id(*last);
    if (has_digit(*last) && has_slug(override, SLUG_STARTS_WITH_ID, each, folders))
        *last = drop_text_after_id(*last, space);
}

/* --- extension and case --------------------------------------------------------------------------------- */

/* `page.html` → `page` */
static struct piece drop_extension(struct texts extensions, struct piece segment)
{
    size_t dot = segment.length;
    while (dot > 0 && segment.at[dot - 1] != '.')
        dot--;
    struct piece extension = slice(segment, dot, segment.length);
    if (dot < 2 || segment.at[dot - 2] == '.' || extension.length < 1 || extension.length > 6 ||
        !is_ending(slice(segment, dot - 1, segment.length)))
        return segment;
    const uint8_t *at = extensions.at;
    for (unsigned left = extensions.count; left; left--)
        if (are_equal_lowered(extension, next_text(&at)))
            return slice(segment, 0, dot - 1);
    return segment;
}

/* Write a segment in lower case, except the digits of escapes. */
static void write_lower(struct piece segment, struct bytes *out)
{
    for (size_t i = 0; i < segment.length; i++) {
        const uint8_t *at = segment.at + i;
        if (*at == '%' && segment.length - i >= 3 && hex_value(at[1]) >= 0 && hex_value(at[2]) >= 0) {
            write_bytes(out, at, 3);
            i += 2;
        } else {
            write_one(out, to_lower(*at));
        }
    }
}

/* --- the path ---------------------------------------------------------------------------------------------- */

/* Split a path without its slashes at both ends. Returns false if it has too many segments. */
static bool split_path(struct piece path, struct segments *segments)
{
    segments->each = segments->all;
    segments->count = 0;
    for (size_t start = 0; start <= path.length;) {
        size_t end = start;
        while (end < path.length && path.at[end] != '/')
            end++;
        if (segments->count == MAX_PATH_SEGMENTS)
            return false;
        segments->all[segments->count++] = slice(path, start, end);
        start = end + 1;
    }
    return true;
}

static void write_segments(const struct override *override, const struct segments *segments, bool has_slash, struct bytes *out)
{
    for (size_t i = 0; i < segments->count; i++) {
        unsigned lower = i + 1 == segments->count ? OVERRIDE_LOWER_LAST : i == 0 ? OVERRIDE_LOWER_FIRST : OVERRIDE_LOWER_MID;
        write_one(out, '/');
        if (override->flags & lower)
            write_lower(segments->each[i], out);
        else
            write_bytes(out, segments->each[i].at, segments->each[i].length);
    }
    if (segments->count == 0 || has_slash)
        write_one(out, '/');
}

bool edit_path(const struct override *override, struct piece *path, struct bytes *space)
{
    struct segments segments;
    struct piece given = *path;
    if (override->lists[LIST_PATH_PARAMS].count && memchr(given.at, ';', given.length))
        given = drop_path_params(override->lists[LIST_PATH_PARAMS], given, space);
    if (given.length > 1) {
        bool has_slash = given.at[given.length - 1] == '/';
        bool has_path_params = memchr(given.at, ';', given.length) != NULL; /* `;page=2` is no part of a slug */
        if (!split_path(slice(given, 1, given.length - has_slash), &segments))
            return false;
        if (override->lists[LIST_SEGMENTS].count || override->lists[LIST_SHAPES].count)
            has_slash = drop_segments(override, &segments, has_slash);
        if (segments.count && override->lists[LIST_SLUGS].count && !has_path_params)
            drop_slugs(override, &segments, space);
        if (segments.count && override->lists[LIST_EXTENSIONS].count) {
            struct piece *last = &segments.each[segments.count - 1];
            *last = drop_extension(override->lists[LIST_EXTENSIONS], *last);
        }
        size_t start = space->length;
        write_segments(override, &segments, has_slash && !(override->flags & OVERRIDE_STRIP_SLASH), space);
        given = (struct piece){space->at + start, space->length - start};
    }
    if (space->is_full)
        return false;
    /* `//host` would be read as a host if the path were moved to another place */
    if (given.length < 2 || given.at[1] != '/')
        *path = given;
    return true;
}
