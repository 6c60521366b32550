#include "rules.h"

/* A multiplicative hash of the first and the last eight bytes, which overlap in most hosts; of all bytes of a short one. */
ALWAYS_INLINE uint32_t hash_host(const uint8_t *host, size_t length)
{
    uint64_t first = 0, last = 0;
    if (length >= 8) {
        first = load8(host);
        last = load8(host + length - 8);
    } else if (length >= 4) {
        first = load4(host);
        last = load4(host + length - 4);
    } else {
        for (size_t i = 0; i < length; i++)
            first = first << 8 | host[i];
    }
    uint64_t hash = (first + length) * 0x9e3779b97f4a7c15 ^ last;
    return (uint32_t)((hash ^ hash >> 29) * 0x9e3779b97f4a7c15 >> 32);
}

ALWAYS_INLINE unsigned hash_name(const uint8_t *name, size_t length)
{
    return (name[0] * 31u + name[length - 1] * 7u + name[length / 2] * 3u + (unsigned)length) % HASH_SLOTS;
}

void add_name(struct names *names, const uint8_t *bytes, size_t length)
{
    bool is_prefix = length > 1 && bytes[length - 1] == '*';
    length -= is_prefix;
    struct name name = {.start = (uint16_t)names->text_bytes, .length = (uint8_t)length};
    if (is_prefix) {
        names->prefixes[names->prefix_count++] = name;
    } else {
        uint16_t *chain = &names->chains[hash_name(bytes, length)];
        name.next = *chain;
        names->exact[names->exact_count] = name;
        *chain = (uint16_t)++names->exact_count;
    }
    memcpy(names->text + names->text_bytes, bytes, length);
    names->text_bytes += length;
    size_t bit = length < 63 ? length : 63;
    uint64_t lengths = is_prefix ? ~(uint64_t)0 << bit : (uint64_t)1 << bit;
    names->lengths[bytes[0]] |= lengths;
    if (bytes[0] >= 'a' && bytes[0] <= 'z')
        names->lengths[bytes[0] - 'a' + 'A'] |= lengths;
}

static void set_bit(uint64_t *bits, unsigned at)
{
    bits[at / 64] |= (uint64_t)1 << (at % 64);
}

/* Mark the ending of a host; that of a short one with what may come before it. */
static void mark_ending(uint64_t *endings, const uint8_t *host, size_t length)
{
    static const char *const before[] = {"https://", "http://", "//www.", "ww.www."};
    if (length >= ENDING_BYTES) {
        set_bit(endings, hash_ending(host + length));
        return;
    }
    for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
        uint8_t text[2 * ENDING_BYTES];
        size_t start = strlen(before[i]);
        memcpy(text, before[i], start);
        memcpy(text + start, host, length);
        set_bit(endings, hash_ending(text + start + length));
    }
}

static void mark_tail(uint64_t *tails, const uint8_t *host, size_t length)
{
    uint8_t text[8 + MAX_NAME_BYTES]; /* 8 bytes before it are readable */
    size_t start = length, dots = 0;
    while (start > 0 && (host[start - 1] != '.' || ++dots < 2))
        start--;
    if (length - start > MAX_NAME_BYTES) /* the C core looks up no host that is so long */
        return;
    memset(text, 0, 8);
    memcpy(text + 8, host + start, length - start);
    set_bit(tails, hash_tail(text + 8 + length - start, length - start));
}

void add_host(struct hosts *hosts, const uint8_t *bytes, size_t length, struct host host)
{
    host.start = (uint32_t)hosts->text_bytes;
    host.length = (uint16_t)length;
    host.hash = hash_host(bytes, length);
    uint32_t *chain = &hosts->chains[host.hash % HOST_SLOTS];
    host.next = *chain;
    hosts->each[hosts->count] = host;
    *chain = (uint32_t)++hosts->count;
    memcpy(hosts->text + hosts->text_bytes, bytes, length);
    hosts->text_bytes += length;
    if (host.flags & HOST_HAS_NAMES)
        mark_ending(hosts->own_endings, bytes, length);
    mark_tail(hosts->tails, bytes, length);
    bool is_domain = host.flags & (HOST_IS_DOMAIN | HOST_HAS_DOMAIN_TABLES);
    if (is_domain && !memchr(bytes, '.', length)) /* the label before it belongs to the tail: look up every host */
        memset(hosts->tails, 0xff, sizeof hosts->tails);
}

const struct host *find_host(const struct hosts *hosts, const uint8_t *host, size_t length)
{
    uint32_t hash = hash_host(host, length);
    for (uint32_t at = hosts->chains[hash % HOST_SLOTS]; at; at = hosts->each[at - 1].next) {
        const struct host *each = &hosts->each[at - 1];
        if (each->hash == hash && each->length == length && are_same(hosts->text + each->start, host, length))
            return each;
    }
    return NULL;
}

/* Return whether a name is in the list; the name is decoded, in lower case and not empty. */
static bool find_name(const struct names *names, const uint8_t *name, size_t length)
{
    for (unsigned at = names->chains[hash_name(name, length)]; at; at = names->exact[at - 1].next) {
        const struct name *each = &names->exact[at - 1];
        if (each->length == length && are_same(names->text + each->start, name, length))
            return true;
    }
    for (size_t i = 0; i < names->prefix_count; i++) {
        const struct name *each = &names->prefixes[i];
        if (each->length <= length && are_same(names->text + each->start, name, each->length))
            return true;
    }
    return false;
}

bool is_name_listed(const struct names *names, const uint8_t *name, size_t length)
{
    /* One byte more than the longest listed name: a name that fills the buffer can only match a prefix. */
    uint8_t decoded[MAX_NAME_BYTES + 1];
    size_t decoded_length = 0;
    unsigned changes = 0;
    for (size_t i = 0; i < length; i++)
        changes |= (unsigned)(name[i] == '%') | ((uint8_t)(name[i] - 'A') < 26);
    if (!changes)
        return find_name(names, name, length);
    for (size_t i = 0; i < length && decoded_length < sizeof decoded; i++) {
        uint8_t c = name[i];
        if (c == '%' && length - i > 2 && hex_value(name[i + 1]) >= 0 && hex_value(name[i + 2]) >= 0) {
            c = (uint8_t)(hex_value(name[i + 1]) << 4 | hex_value(name[i + 2]));
            i += 2;
        }
        decoded[decoded_length++] = to_lower(c);
    }
    return find_name(names, decoded, decoded_length);
}
