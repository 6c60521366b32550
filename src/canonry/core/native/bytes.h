/* Small functions on bytes and bits that every part of the native core uses. */
#ifndef CANONRY_BYTES_H
#define CANONRY_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Functions on the hot path are defined in headers, so that the compiler can inline them in every file. */
#define ALWAYS_INLINE static inline __attribute__((always_inline))
/* Functions for rare cases stay out of the hot path. */
#define COLD __attribute__((noinline, cold))

/* A set of ASCII characters, one bit each:
 *
 *     set[0]   bit  0 … 63   characters 0x00 … 0x3f   (controls, punctuation, digits)
 *     set[1]   bit  0 … 63   characters 0x40 … 0x7f   (letters)
 *
 * For example '-' is 0x2d: bit 45 of set[0]; 'a' is 0x61: bit 33 of set[1].
 */
ALWAYS_INLINE bool is_in(const uint64_t set[2], uint8_t c)
{
    return c < 128 && (set[c >> 6] >> (c & 63) & 1);
}

static const uint64_t UNRESERVED[2] = {0x03ff600000000000, 0x47fffffe87fffffe}; /* A-Z a-z 0-9 - . _ ~ */

ALWAYS_INLINE uint8_t to_lower(uint8_t c)
{
    return c >= 'A' && c <= 'Z' ? c | 0x20 : c;
}

ALWAYS_INLINE bool is_letter(uint8_t c)
{
    return (uint8_t)((c | 0x20) - 'a') < 26;
}

ALWAYS_INLINE bool is_digit(uint8_t c)
{
    return (uint8_t)(c - '0') < 10;
}

/* The value of a hexadecimal digit, -1 for any other character. */
ALWAYS_INLINE int hex_value(uint8_t c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Write `%XX` for a byte; out has room for 3 bytes. */
ALWAYS_INLINE void write_escape(uint8_t *out, uint8_t c)
{
    static const char digits[] = "0123456789ABCDEF";
    out[0] = '%';
    out[1] = (uint8_t)digits[c >> 4];
    out[2] = (uint8_t)digits[c & 15];
}

/* Load 8 bytes, which need not be aligned. */
ALWAYS_INLINE uint64_t load8(const uint8_t *at)
{
    uint64_t value;
    memcpy(&value, at, 8);
    return value;
}

ALWAYS_INLINE uint32_t load4(const uint8_t *at)
{
    uint32_t value;
    memcpy(&value, at, 4);
    return value;
}

/* Read a number, the lowest byte first. */
ALWAYS_INLINE unsigned read_u16(const uint8_t *at)
{
    return at[0] | (unsigned)at[1] << 8;
}

ALWAYS_INLINE uint32_t read_u32(const uint8_t *at)
{
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

ALWAYS_INLINE uint64_t read_u64(const uint8_t *at)
{
    return read_u32(at) | (uint64_t)read_u32(at + 4) << 32;
}

/* Return whether two texts of the same length are equal; without a call for up to 16 bytes. */
ALWAYS_INLINE bool are_same(const uint8_t *a, const uint8_t *b, size_t length)
{
    if (length > 16)
        return memcmp(a, b, length) == 0;
    if (length >= 8)
        return load8(a) == load8(b) && load8(a + length - 8) == load8(b + length - 8);
    if (length >= 4)
        return load4(a) == load4(b) && load4(a + length - 4) == load4(b + length - 4);
    return length == 0 || (a[0] == b[0] && a[length / 2] == b[length / 2] && a[length - 1] == b[length - 1]);
}

/* Copy bytes to `out`, which has room for `length`; without a call for up to 64 bytes. */
ALWAYS_INLINE void copy_short(uint8_t *out, const uint8_t *from, size_t length)
{
    if (length > 64) {
        memcpy(out, from, length);
    } else if (length > 32) {
        uint8_t first[32], last[32];
        memcpy(first, from, 32);
        memcpy(last, from + length - 32, 32);
        memcpy(out, first, 32);
        memcpy(out + length - 32, last, 32);
    } else if (length >= 16) {
        uint8_t first[16], last[16];
        memcpy(first, from, 16);
        memcpy(last, from + length - 16, 16);
        memcpy(out, first, 16);
        memcpy(out + length - 16, last, 16);
    } else if (length >= 8) {
        uint64_t first = load8(from), last = load8(from + length - 8);
        memcpy(out, &first, 8);
        memcpy(out + length - 8, &last, 8);
    } else if (length >= 4) {
        uint32_t first = load4(from), last = load4(from + length - 4);
        memcpy(out, &first, 4);
        memcpy(out + length - 4, &last, 4);
    } else if (length) {
        uint8_t first = from[0], middle = from[length / 2], last = from[length - 1];
        out[0] = first;
        out[length / 2] = middle;
        out[length - 1] = last;
    }
}

/* Some of the bytes of a text. */
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

ALWAYS_INLINE bool are_equal(struct piece a, struct piece b)
{
    return a.length == b.length && are_same(a.at, b.at, a.length);
}

/* Return whether a text equals `lower` when its letters are in lower case. */
ALWAYS_INLINE bool are_equal_lowered(struct piece text, struct piece lower)
{
    if (text.length != lower.length)
        return false;
    for (size_t i = 0; i < text.length; i++)
        if (to_lower(text.at[i]) != lower.at[i])
            return false;
    return true;
}

ALWAYS_INLINE void write_bytes(struct bytes *out, const uint8_t *bytes, size_t length)
{
    if (length > out->size - out->length) {
        out->is_full = true;
        return;
    }
    copy_short(out->at + out->length, bytes, length);
    out->length += length;
}

ALWAYS_INLINE void write_one(struct bytes *out, uint8_t c)
{
    if (out->length == out->size)
        out->is_full = true;
    else
        out->at[out->length++] = c;
}

/* A mask of the bits from … to - 1, where 0 <= from < 64 and from < to:
 *
 *     mask_between(2, 5) = 0…011100     bits 2, 3 and 4
 */
ALWAYS_INLINE uint64_t mask_between(size_t from, size_t to)
{
    return ~(uint64_t)0 >> (to < 64 ? 64 - to : 0) & ~(uint64_t)0 << from;
}

/* The index of the first set bit in from … end - 1 of an array of 64-bit words, or `end`; words has at least
 * (end + 63) / 64 words. */
ALWAYS_INLINE size_t find_first(const uint64_t *words, size_t from, size_t end)
{
    for (size_t at = from / 64; at * 64 < end; at++) {
        uint64_t word = words[at];
        if (at == from / 64)
            word &= ~(uint64_t)0 << (from % 64);
        if (word) {
            size_t found = at * 64 + (size_t)__builtin_ctzll(word);
            return found < end ? found : end;
        }
    }
    return end;
}

/* The index of the first set bit of a single word, or `end` if it does not come before. */
ALWAYS_INLINE size_t find_in_word(uint64_t word, size_t end)
{
    size_t found = word ? (size_t)__builtin_ctzll(word) : 64;
    return found < end ? found : end;
}

#endif
