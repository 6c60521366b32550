/* A column of URLs in Arrow's memory layout in, a column of answers out.
 *
 * Rows are done in batches: first all that is simple, without the interpreter's lock; then, with it,
 * what was handed back; then both are put in order, again without it.
 * https://arrow.apache.org/docs/format/Columnar.html
 */
#ifndef CANONRY_COLUMN_H
#define CANONRY_COLUMN_H

#include <Python.h>

#include "sha256.h"
#include "url.h"

enum { BATCH = 1024 };
enum kind { OFFSETS_32 = 4, OFFSETS_64 = 8, VIEWS = 16 }; /* the size of one entry */

struct column {
    enum kind kind;
    int64_t start, rows;
    const uint8_t *validity; /* NULL: all are valid */
    const uint8_t *entries;
    const Py_buffer *data; /* one, or as many as views need */
    Py_ssize_t data_count;
};

struct text {
    const uint8_t *start;
    size_t length;
};

/* What one batch came to: `ends` counts the bytes of simple answers, `back` lists the rows handed back. */
struct batch {
    uint8_t *bytes;
    size_t room;
    size_t ends[BATCH];
    bool is_null[BATCH];
    struct text texts[BATCH];
    int back[BATCH];
    int back_count;
};

ALWAYS_INLINE bool bit_at(const uint8_t *bits, int64_t at)
{
    return bits[at / 8] >> (at % 8) & 1;
}

ALWAYS_INLINE bool find_in(const struct column *column, Py_ssize_t buffer, int64_t from, int64_t to, struct text *text)
{
    if (buffer < 0 || buffer >= column->data_count || from < 0 || to < from || to > column->data[buffer].len)
        return false;
    static const uint8_t nothing[1];
    text->start = to > from ? (const uint8_t *)column->data[buffer].buf + from : nothing;
    text->length = (size_t)(to - from);
    return true;
}

ALWAYS_INLINE int64_t offset_at(const struct column *column, int64_t place)
{
    const uint8_t *entry = column->entries + place * (int64_t)column->kind;
    int32_t narrow;
    int64_t wide;
    if (column->kind == OFFSETS_64) {
        memcpy(&wide, entry, sizeof wide);
        return wide;
    }
    memcpy(&narrow, entry, sizeof narrow);
    return narrow;
}

/* The text of a row; false where the column points outside its own memory. */
ALWAYS_INLINE bool read_row(const struct column *column, int64_t row, struct text *text)
{
    if (column->kind != VIEWS)
        return find_in(column, 0, offset_at(column, row), offset_at(column, row + 1), text);
    const uint8_t *entry = column->entries + row * (int64_t)VIEWS;
    int32_t view[4]; /* length; then up to 12 bytes of text, or four, the buffer and the place in it */
    memcpy(view, entry, sizeof view);
    if (view[0] < 0)
        return false;
    if (view[0] <= 12) {
        *text = (struct text){entry + 4, (size_t)view[0]};
        return true;
    }
    return find_in(column, view[2], view[3], (int64_t)view[3] + view[0], text);
}

enum trouble { NO_TROUBLE, NO_MEMORY, MALFORMED };

/* Answer all rows of a batch that are simple. Runs without the interpreter. */
static enum trouble rewrite_batch(const struct column *column, int64_t from, int count, const struct rules *rules,
                                  rewrite_function rewrite, struct batch *batch)
{
    size_t written = 0;
    batch->back_count = 0;
    for (int i = 0; i < count; i++) {
        int64_t row = column->start + from + i;
        batch->is_null[i] = column->validity && !bit_at(column->validity, row);
        if (!batch->is_null[i]) {
            struct text *text = &batch->texts[i];
            if (!read_row(column, row, text))
                return MALFORMED;
            if (batch->room - written < ROOM) {
                size_t room = batch->room * 2;
                uint8_t *bytes = PyMem_RawRealloc(batch->bytes, room);
                if (bytes == NULL)
                    return NO_MEMORY;
                batch->bytes = bytes;
                batch->room = room;
            }
            ptrdiff_t length = rules ? rewrite(rules, text->start, text->length, batch->bytes + written) : NOT_MINE;
            if (length == UNCHANGED) {
                memcpy(batch->bytes + written, text->start, text->length);
                written += text->length;
            } else if (length > 0) {
                written += (size_t)length;
            } else {
                batch->back[batch->back_count++] = i;
            }
        }
        batch->ends[i] = written;
    }
    return NO_TROUBLE;
}

/* What is made: bytes objects that grow, and how far they are filled. */
struct made {
    PyObject *validity, *ends, *data, *hash_ends, *hashes;
    size_t length, hash_length, end_size, most; /* most: what an end can say */
    int64_t nulls;
};

ALWAYS_INLINE void put_end(PyObject *ends, size_t size, int64_t row, size_t end)
{
    char *at = PyBytes_AS_STRING(ends) + (size_t)row * size;
    int64_t wide = (int64_t)end;
    int32_t narrow = (int32_t)end; /* at most `most` */
    if (size == sizeof narrow)
        memcpy(at, &narrow, sizeof narrow);
    else
        memcpy(at, &wide, sizeof wide);
}

ALWAYS_INLINE size_t get_end(PyObject *ends, size_t size, int64_t row)
{
    const char *at = PyBytes_AS_STRING(ends) + (size_t)row * size;
    int64_t wide = 0;
    int32_t narrow = 0;
    if (size == sizeof narrow) {
        memcpy(&narrow, at, sizeof narrow);
        return (size_t)narrow;
    }
    memcpy(&wide, at, sizeof wide);
    return (size_t)wide;
}

/* Put the answers of a batch in order. Runs without the interpreter; everything fits. */
static void put_batch(struct made *made, int64_t from, int count, const struct batch *batch, const struct text *answers)
{
    uint8_t *data = (uint8_t *)PyBytes_AS_STRING(made->data);
    uint8_t *valid = (uint8_t *)PyBytes_AS_STRING(made->validity);
    size_t run = 0, shift = made->length; /* simple answers not yet copied; what others added before them */
    int back = 0;
    for (int i = 0; i < count; i++) {
        bool is_null = batch->is_null[i];
        if (back < batch->back_count && batch->back[back] == i) {
            const struct text *answer = &answers[back++];
            memcpy(data + shift + run, batch->bytes + run, batch->ends[i] - run);
            run = batch->ends[i];
            is_null = answer->start == NULL;
            if (!is_null) {
                memcpy(data + shift + run, answer->start, answer->length);
                shift += answer->length;
            }
        }
        put_end(made->ends, made->end_size, from + i + 1, shift + batch->ends[i]);
        if (is_null)
            made->nulls++;
        else
            valid[(from + i) / 8] |= (uint8_t)(1 << ((from + i) % 8));
    }
    size_t all = count ? batch->ends[count - 1] : 0;
    memcpy(data + shift + run, batch->bytes + run, all - run);
    made->length = shift + all;
}

/* Hash what put_batch wrote. Runs without the interpreter; everything fits. */
static void hash_batch(struct made *made, int64_t from, int count, sha256_function sha256)
{
    const uint8_t *data = (const uint8_t *)PyBytes_AS_STRING(made->data);
    const uint8_t *valid = (const uint8_t *)PyBytes_AS_STRING(made->validity);
    uint8_t *hashes = (uint8_t *)PyBytes_AS_STRING(made->hashes);
    for (int64_t row = from; row < from + count; row++) {
        if (bit_at(valid, row)) {
            size_t start = get_end(made->ends, made->end_size, row), end = get_end(made->ends, made->end_size, row + 1);
            sha256_hex(sha256, data + start, end - start, hashes + made->hash_length);
            made->hash_length += SHA256_HEX;
        }
        put_end(made->hash_ends, made->end_size, row + 1, made->hash_length);
    }
}

#endif
