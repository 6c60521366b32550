/* libFuzzer on the native core, under AddressSanitizer and UBSan: `make fuzz`.
 *
 * Each input is copied to memory of exactly its size, so that reading one byte too many is detected.
 * It also checks what must hold for every text: the AVX-512, the AVX2 and the plain code agree, the answer fits
 * its buffer, and normalizing an answer gives the same answer.
 */
#include <stdio.h>
#include <stdlib.h>

#include "sha256.h"
#include "site_tables.h" /* written by fuzz.py: the programs of all sites */
#include "sites.h"
#include "url.h"

static const char *const NAMES[] = {"a", "utm_*", "fbclid", "ref", "mc_*", "\xc3\xa9", "wt.mc_id"};
static const char *const HOSTS[] = {"youtube.com", "x.com", "a.b", "open.spotify.com", "blogspot.de"};
static const uint8_t KINDS[] = {HOST_IS_SITE, HOST_IS_SITE, HOST_HAS_OVERRIDE, HOST_HAS_NAMES, HOST_IS_DOMAIN};

static void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count, size);
    if (memory == NULL)
        abort();
    return memory;
}

/* Add the hosts and records of all sites. */
static void add_sites(struct rules *rules)
{
    rules->site_program = SITE_PROGRAM;
    rules->program_bytes = sizeof SITE_PROGRAM;
    rules->record_count = sizeof SITE_RECORDS / sizeof *SITE_RECORDS;
    rules->records = allocate(rules->record_count, sizeof *rules->records);
    for (size_t i = 0; i < rules->record_count; i++)
        read_record(SITE_PROGRAM + SITE_RECORDS[i], &rules->records[i]);
    for (size_t i = 0; i < sizeof SITE_HOSTS / sizeof *SITE_HOSTS; i++)
        add_host(&rules->hosts, (const uint8_t *)SITE_HOSTS[i].name, strlen(SITE_HOSTS[i].name),
                 (struct host){.flags = SITE_HOSTS[i].flags, .record = SITE_HOSTS[i].record,
                               .domain_record = SITE_HOSTS[i].domain, .domain_count = SITE_HOSTS[i].count});
}

/* Make a policy for one combination of switches; the first byte of an input is the combination. Every second one has all
 * sites, the others have a few hosts of each kind. */
static struct rules *new_policy(unsigned switches)
{
    struct rules *rules = allocate(1, sizeof *rules);
    rules->parse = (switches & 255) != 255;
    rules->strip_www = switches & 1;
    rules->normalize_escapes = switches & 2;
    rules->collapse_slashes = switches & 4;
    rules->strip_trailing_slash = switches & 8;
    rules->sort_params = switches & 16;
    rules->strip_params = switches & 32;
    rules->keep_embedded = switches & 4;
    rules->fragment = (enum fragment)((switches >> 6) % 4);
    rules->names = allocate(2, sizeof *rules->names);
    rules->names_count = 2;
    for (size_t list = 0; list < 2; list++) {
        rules->names[list].text = allocate(256, 1);
        rules->names[list].exact = allocate(16, sizeof *rules->names[list].exact);
        rules->names[list].prefixes = allocate(16, sizeof *rules->names[list].prefixes);
        for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES - list; i++)
            add_name(&rules->names[list], (const uint8_t *)NAMES[i], strlen(NAMES[i]));
    }
    bool has_sites = switches & 8;
    rules->hosts.each = allocate(16 + sizeof SITE_HOSTS / sizeof *SITE_HOSTS, sizeof *rules->hosts.each);
    rules->hosts.text = allocate(256 + SITE_HOST_BYTES, 1);
    rules->has_code_sites = !has_sites;
    if (has_sites)
        add_sites(rules);
    for (size_t i = 0; !has_sites && i < sizeof HOSTS / sizeof *HOSTS; i++)
        if (switches & 128 || KINDS[i] != HOST_HAS_OVERRIDE)
            add_host(&rules->hosts, (const uint8_t *)HOSTS[i], strlen(HOSTS[i]),
                     (struct host){.flags = KINDS[i], .names = i == 3});
    struct rules *whole = allocate(1, sizeof *whole);
    whole->parse = true;
    whole->fragment = rules->fragment == FRAGMENT_DROP ? FRAGMENT_DROP : FRAGMENT_KEEP;
    whole->names = rules->names;
    whole->names_count = rules->names_count;
    rules->whole = whole;
    return rules;
}

static void require(bool holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "violated: %s\n", what);
        abort();
    }
}

/* The length of the answer in out, NEEDS_REFERENCE if there is none. */
static ptrdiff_t rewrite(const struct rules *rules, const uint8_t *text, size_t length, uint8_t out[ANSWER_BYTES])
{
    uint8_t *exact = malloc(length ? length : 1), *other = malloc(ANSWER_BYTES);
    if (exact == NULL || other == NULL)
        abort();
    memcpy(exact, text, length);
    ptrdiff_t found = choose_rewriter(NULL)->rewrite(rules, exact, length, out);
    static const char *const names[] = {"avx2", "plain"};
    for (size_t i = 0; i < 2; i++) {
        const struct rewriter *rewriter = choose_rewriter(names[i]);
        if (rewriter == NULL)
            continue;
        ptrdiff_t same = rewriter->rewrite(rules, exact, length, other);
        require(found == same, "all rewriters agree on the length");
        require(found <= 0 || memcmp(out, other, (size_t)found) == 0, "all rewriters agree on the bytes");
    }
    require(found <= MAX_URL_BYTES + 1 && found >= NEEDS_REFERENCE, "the answer fits");
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
    uint8_t *out = malloc(ANSWER_BYTES), *again = malloc(ANSWER_BYTES);
    uint8_t hash[SHA256_HEX], plain_hash[SHA256_HEX];
    if (out == NULL || again == NULL)
        abort();
    ptrdiff_t length = rewrite(*rules, data + 1, size - 1, out);
    if (length > 0 && (*rules)->parse && length <= MAX_URL_BYTES) {
        ptrdiff_t second = rewrite(*rules, out, (size_t)length, again);
        /* The reference may have to read what a redirect page leads to. */
        require((second == NEEDS_REFERENCE && (*rules)->records) ||
                    (second == length && memcmp(out, again, (size_t)length) == 0),
                "an answer normalizes to itself");
        for (ptrdiff_t i = 0; i < length; i++)
            require(out[i] > ' ' && out[i] < 127, "an answer is printable ASCII");
    }
    sha256_hex(choose_sha256(), data, size, hash);
    sha256_hex(sha256_plain, data, size, plain_hash);
    require(memcmp(hash, plain_hash, SHA256_HEX) == 0, "both hash functions agree");
    free(out);
    free(again);
    return 0;
}
