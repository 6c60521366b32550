#include "answer.h"

void append_path(const struct rules *rules, struct answer *answer, size_t from, size_t to)
{
    write_piece(answer);
    uint8_t *path = answer->out + answer->length;
    answer->length += write_clean_path(rules, answer->text + from, to - from, path);
}

size_t write_clean_path(const struct rules *rules, const uint8_t *text, size_t length, uint8_t *path)
{
    if (rules->normalize_escapes)
        length = normalize_escapes(text, length, path);
    else if (path != text)
        memcpy(path, text, length);
    if (rules->collapse_slashes)
        length = collapse_slashes(path, length);
    if (rules->strip_trailing_slash)
        while (length > 1 && path[length - 1] == '/')
            length--;
    return length;
}

bool is_param_dropped(struct dropped dropped, const uint8_t *name, size_t length, bool has_percent)
{
    return is_dropped(dropped.names, name, length, has_percent) &&
           !(dropped.needs && is_site_name(dropped.needs, name, length));
}

bool append_query(const struct rules *rules, struct dropped dropped, struct answer *answer, size_t from, size_t to)
{
    uint8_t escaped[MAX_URL_BYTES];
    struct param given[MAX_PARAMS], params[MAX_PARAMS];
    size_t given_count = split_params(answer->text, from, to, given), count = 0, used = 0;
    bool is_same = true;
    if (given_count > MAX_PARAMS)
        return false;
    for (size_t i = 0; i < given_count; i++) {
        struct param param = given[i];
        if (rules->strip_params && is_param_dropped(dropped, param.at, param.name, param.has_percent)) {
            is_same = false;
            continue;
        }
        if (param.has_escape && rules->normalize_escapes)
            is_same &= normalize_param(&param, escaped, &used);
        if (rules->sort_params)
            is_same &= insert_sorted(params, count, param);
        else
            params[count] = param;
        count++;
    }
    if (is_same) {
        append_piece(answer, from - 1, to);
        return true;
    }
    if (count == 0 || (count == 1 && params[0].length == 0))
        return true;
    write_piece(answer);
    for (size_t i = 0; i < count; i++) {
        answer->out[answer->length++] = i ? '&' : '?';
        copy_short(answer->out + answer->length, params[i].at, params[i].length);
        answer->length += params[i].length;
    }
    return true;
}

bool normalize_param(struct param *param, uint8_t escaped[MAX_URL_BYTES], size_t *used)
{
    uint8_t *to = escaped + *used;
    size_t name = normalize_escapes(param->at, param->name, to), length = name;
    if (param->name < param->length) {
        to[length++] = '=';
        length += normalize_escapes(param->at + param->name + 1, param->length - param->name - 1u, to + length);
    }
    bool is_same = length == param->length && memcmp(to, param->at, length) == 0;
    *used += length;
    param->at = to;
    param->name = (uint16_t)name;
    param->length = (uint16_t)length;
    return is_same;
}

size_t find_directive(const uint8_t *text, size_t from, size_t to)
{
    size_t end = from;
    while (end < to && !(to - end >= 3 && memcmp(text + end, ":~:", 3) == 0))
        end++;
    return end;
}

COLD static size_t cut_clean_fragment(const struct rules *rules, struct dropped dropped, const uint8_t *text, size_t from,
                                      size_t to)
{
    size_t end = find_directive(text, from, to);
    bool is_tracking = rules->strip_params;
    for (size_t start = from; is_tracking && start <= end;) {
        size_t at = start, name = SIZE_MAX;
        bool has_percent = false;
        for (; at < end && text[at] != '&'; at++)
            if (name == SIZE_MAX) {
                if (text[at] == '=')
                    name = at;
                has_percent |= text[at] == '%';
            }
        is_tracking = name != SIZE_MAX && is_param_dropped(dropped, text + start, name - start, has_percent);
        start = at + 1;
    }
    return is_tracking ? from : end;
}

size_t cut_fragment(const struct rules *rules, struct dropped dropped, const uint8_t *text, size_t from, size_t to)
{
    switch (rules->fragment) {
    case FRAGMENT_KEEP:
        return to;
    case FRAGMENT_ROUTES:
        return text[from] == '!' || text[from] == '/' ? find_directive(text, from, to) : from;
    case FRAGMENT_CLEAN:
        return cut_clean_fragment(rules, dropped, text, from, to);
    default:
        return from;
    }
}
