/* libFuzzer on the native core, under AddressSanitizer and UBSan: `make fuzz`.
 *
 * The input stands in memory of exactly its size, so that one byte too many is seen. Beyond safety
 * it checks what must hold for every text: both ways to scan agree, the answer fits where it must,
 * and the answer to an answer is the same one.
 */
#include <stdio.h>
#include <stdlib.h>

#include "sha256.h"
#include "url.h"

static const char *const NAMES[] = {"a", "utm_*", "fbclid", "ref", "mc_*", "\xc3\xa9", "wt.mc_id"};
static const char *const HOSTS[] = {"youtube.com", "x.com", "a.b", "open.spotify.com", "blogspot.de"};
static const uint8_t KINDS[] = {HOST_IS_SITE, HOST_IS_SITE, HOST_IS_OVERRIDDEN, HOST_HAS_NAMES, HOST_IS_DOMAIN};

static void *room(size_t count, size_t size)
{
    void *memory = calloc(count, size);
    if (memory == NULL)
        abort();
    return memory;
}

/* Every combination of switches is a policy; the first byte of an input chooses one. */
static struct rules *new_policy(unsigned switches)
{
    struct rules *rules = room(1, sizeof *rules);
    rules->parse = (switches & 255) != 255;
    rules->strip_www = switches & 1;
    rules->normalize_escapes = switches & 2;
    rules->collapse_slashes = switches & 4;
    rules->strip_trailing_slash = switches & 8;
    rules->sort_params = switches & 16;
    rules->strip_params = switches & 32;
    rules->fragment = (enum fragment)((switches >> 6) % 3);
    rules->names = room(2, sizeof *rules->names);
    rules->names_count = 2;
    for (size_t list = 0; list < 2; list++) {
        rules->names[list].text = room(256, 1);
        rules->names[list].exact = room(16, sizeof *rules->names[list].exact);
        rules->names[list].prefixes = room(16, sizeof *rules->names[list].prefixes);
        for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES - list; i++)
            add_name(&rules->names[list], (const uint8_t *)NAMES[i], strlen(NAMES[i]));
    }
    rules->hosts.each = room(16, sizeof *rules->hosts.each);
    rules->hosts.text = room(256, 1);
    for (size_t i = 0; i < sizeof HOSTS / sizeof *HOSTS; i++)
        if (switches & 128 || KINDS[i] != HOST_IS_OVERRIDDEN)
            add_host(&rules->hosts, (const uint8_t *)HOSTS[i], strlen(HOSTS[i]), KINDS[i], i == 3);
    return rules;
}

static void require(bool holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "does not hold: %s\n", what);
        abort();
    }
}

/* The answer in memory of its own; -1 if it is not ours. */
static ptrdiff_t answer(const struct rules *rules, const uint8_t *text, size_t length, uint8_t *out)
{
    uint8_t *exact = malloc(length ? length : 1), *other = malloc(ROOM);
    if (exact == NULL || other == NULL)
        abort();
    memcpy(exact, text, length);
    ptrdiff_t found = best_rewrite()(rules, exact, length, out);
    ptrdiff_t plain = rewrite_plain(rules, exact, length, other);
    require(found == plain, "wide and plain agree on the length");
    require(found <= 0 || memcmp(out, other, (size_t)found) == 0, "wide and plain agree on the bytes");
    require(found <= LONGEST + 1 && found >= NOT_MINE, "the answer fits");
    if (found == UNCHANGED) {
        memcpy(out, exact, length);
        found = (ptrdiff_t)length;
    }
    free(exact);
    free(other);
    return found;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct rules *policies[256];
    if (size < 1)
        return 0;
    struct rules **rules = &policies[data[0]];
    if (*rules == NULL)
        *rules = new_policy(data[0]);
    uint8_t *out = malloc(ROOM), *again = malloc(ROOM);
    uint8_t hash[SHA256_HEX], plain_hash[SHA256_HEX];
    if (out == NULL || again == NULL)
        abort();
    ptrdiff_t length = answer(*rules, data + 1, size - 1, out);
    if (length > 0 && (*rules)->parse && length <= LONGEST) {
        ptrdiff_t second = answer(*rules, out, (size_t)length, again);
        require(second == length && memcmp(out, again, (size_t)length) == 0, "an answer is its own answer");
        for (ptrdiff_t i = 0; i < length; i++)
            require(out[i] > ' ' && out[i] < 127, "an answer is visible ASCII");
    }
    sha256_hex(best_sha256(), data, size, hash);
    sha256_hex(sha256_plain, data, size, plain_hash);
    require(memcmp(hash, plain_hash, SHA256_HEX) == 0, "both ways to hash agree");
    free(out);
    free(again);
    return 0;
}
