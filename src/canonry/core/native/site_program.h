/* The layout of site programs, which tools/site_programs.py writes, and how to read them.
 *
 * A program is read in place. Numbers have one byte unless marked; u16, u32 and u64 are little-endian. A text is its
 * length, then its bytes; a list is its count, then its items. Offsets count from the start of the block or the page.
 *
 *     host record   u32 distance to its block, which comes before it · group · accepts every label ·
 *                   text `https://` and the main host · capture (the first label) · list of texts (labels left out)
 *     block         https · slash · has needs · 0 · u16 offsets of its sections (enum block_section)
 *     entries       u16 count · for each path of each page, in order:
 *
 *                       0         8        16       18       20      21                22      24
 *                       u64 shape · u64 mask · u16 page · u16 path · flags · least segments · u16 0
 *
 *                   a URL may match if the bits of its shape (make_shape) that are in the mask are those of the entry
 *     page          u32 groups · u16 flags · u16 offsets of its sections (enum section)
 *     names         u64 filter · u64 filter of prefixes · u16 offset of the prefixes · list of texts · list of texts
 *     capture       index · kind · shortest · longest       or   index · KIND_CHOICE · list of texts
 *     segment       SEGMENT_TEXT · text    or    SEGMENT_CAPTURE · capture    or
 *                   SEGMENT_MIXED · text before · count of captures · capture [· character between · split at the last · capture] · text after
 *     path          count of segments · has a rest [· index · kind] · segments
 *     template      list of: 0 · text   or   1 · index · list of filters
 */
#ifndef CANONRY_SITE_PROGRAM_H
#define CANONRY_SITE_PROGRAM_H

#include "bytes.h"

/* The sections of a page, as in _SECTIONS of tools/site_programs.py. */
enum section {
    SECTION_QUERY, SECTION_WITHOUT, SECTION_NOT, SECTION_KEEP, SECTION_DROP, SECTION_DEFAULTS, SECTION_RENAME,
    SECTION_FRAGMENTS, SECTION_WRITE, SECTION_TARGET,
};
enum block_section { BLOCK_DROP, BLOCK_NEEDS, BLOCK_DEFAULTS, BLOCK_FRAGMENTS, BLOCK_ENTRIES };
enum { BLOCK_HEAD_BYTES = 4, PAGE_HEAD_BYTES = 6, ENTRY_BYTES = 24, ENTRY_PAGE = 16, ENTRY_PATH = 18, ENTRY_FLAGS = 20, ENTRY_LEAST = 21 };
enum page_flag {
    FLAG_NO_OTHERS = 1, FLAG_TARGET_QUERY = 2, FLAG_WHOLE = 4, FLAG_DROP_FRAGMENT = 8, FLAG_HAS_KEEP = 16,
    FLAG_HAS_TARGET = 32, FLAG_HAS_WRITE = 64, FLAG_HAS_CONDITIONS = 128, /* on parameters */
    FLAG_WRITES_HOST = 256,
    FLAG_STABLE = 512,       /* once written, the page is found again: tools/site_stability.py */
    FLAG_STABLE_PATH = 1024, /* if its path stays, and no parameter is renamed or dropped for its value */
    FLAG_HAS_PARAM_RULES = 2048, /* keep, drop, defaults or rename */
    FLAG_HAS_RENAMES = 4096,
    FLAG_GONE = 8192, /* once written, the URL shows no kind of page */
};
enum entry_flag { ENTRY_HAS_REST = 1, ENTRY_IGNORE_CASE = 2 };
enum segment_kind { SEGMENT_TEXT, SEGMENT_CAPTURE, SEGMENT_MIXED };
enum { KIND_ANY, KIND_TEXT, KIND_FIRST_CLASS, KIND_CHOICE = 0x7f, KIND_SPANS = 0x80 };
enum {
    FILTER_LOWER, FILTER_UPPER, FILTER_CAPITAL, FILTER_UNDERSCORES, FILTER_UNESCAPE, FILTER_DECODE, FILTER_PROOFPOINT,
    FILTER_BASE64, FILTER_DASHES, FILTER_ADDRESS = 0xfe, /* not of a capture: target_code of the page */
};

ALWAYS_INLINE struct piece read_text(const uint8_t **at)
{
    struct piece text = {*at + 1, **at};
    *at += 1 + text.length;
    return text;
}

ALWAYS_INLINE const uint8_t *get_block_section(const uint8_t *block, enum block_section section)
{
    return block + read_u16(block + BLOCK_HEAD_BYTES + 2 * section);
}

/* The first entry of a block, and the end of the last one. */
ALWAYS_INLINE const uint8_t *get_entries(const uint8_t *block)
{
    return get_block_section(block, BLOCK_ENTRIES) + 2;
}

ALWAYS_INLINE const uint8_t *get_entries_end(const uint8_t *block)
{
    const uint8_t *entries = get_block_section(block, BLOCK_ENTRIES);
    return entries + 2 + ENTRY_BYTES * read_u16(entries);
}

ALWAYS_INLINE const uint8_t *get_section(const uint8_t *page, enum section section)
{
    return page + read_u16(page + PAGE_HEAD_BYTES + 2 * section);
}

ALWAYS_INLINE unsigned get_flags(const uint8_t *page)
{
    return read_u16(page + 4);
}

/* Return whether a list of texts has this text. */
ALWAYS_INLINE bool has_text(const uint8_t *list, struct piece text)
{
    const uint8_t *at = list + 1;
    for (unsigned left = *list; left; left--)
        if (are_equal(read_text(&at), text))
            return true;
    return false;
}

/* Return whether a list of names has this one; it is decoded and in lower case. For most, the first and the last byte
 * and the length show that it has not: the first filter has bit (7 · first + 3 · last + length) % 64 for each name, the
 * second has bit first % 64 for each prefix. */
ALWAYS_INLINE bool find_site_name(const uint8_t *names, struct piece lower)
{
    if (lower.length == 0)
        return false;
    unsigned bit = (lower.at[0] * 7u + lower.at[lower.length - 1] * 3u + (unsigned)lower.length) & 63;
    if (read_u64(names) >> bit & 1 && has_text(names + 18, lower))
        return true;
    if (!(read_u64(names + 8) >> (lower.at[0] & 63) & 1))
        return false;
    const uint8_t *at = names + read_u16(names + 16);
    for (unsigned left = *at++; left; left--) {
        struct piece prefix = read_text(&at);
        if (prefix.length <= lower.length && are_same(prefix.at, lower.at, prefix.length))
            return true;
    }
    return false;
}

/* What entries compare first: the number of segments, and the length and the first four bytes of the first one.
 *
 *     byte    0          1              2  3  4 5 6 7
 *             segments   first length   0  0  the bytes, with the bit 0x20 in each
 */
ALWAYS_INLINE uint64_t make_shape(size_t segments, struct piece first)
{
    uint32_t key = 0;
    if (first.length >= 4)
        key = read_u32(first.at);
    else
        for (size_t i = 0; i < first.length; i++)
            key |= (uint32_t)first.at[i] << (8 * i);
    size_t length = first.length < 255 ? first.length : 255;
    return segments | (uint64_t)length << 8 | (uint64_t)(key | 0x20202020) << 32;
}

#endif
