/* Normalize a column of URLs in Arrow's memory layout: https://arrow.apache.org/docs/format/Columnar.html
 *
 * Rows are normalized in batches, in three steps: rewrite_batch answers every simple URL without the
 * GIL, where possible at its place in the output; the caller takes the GIL and calls the reference for
 * the others; write_batch puts both in order, again without the GIL.
 *
 * A column of strings is an array of entries, one of three kinds:
 *
 *     OFFSETS_32, OFFSETS_64    entries   0   9   9  21        row i is data[entry i .. entry i + 1)
 *                               data      https://a http://b.de/c
 *     VIEWS                     entries   [length: 4 bytes][text: 12 bytes]                       up to 12 bytes
 *                                         [length: 4][first 4 bytes of text][buffer: 4][offset: 4]      longer
 */
#ifndef CANONRY_COLUMN_H
#define CANONRY_COLUMN_H

#include <Python.h>

#include "sha256.h"
#include "url.h"

enum { BATCH_ROWS = 1024 };
enum entry_kind { OFFSETS_32 = 4, OFFSETS_64 = 8, VIEWS = 16 }; /* the size of one entry in bytes */

struct column {
    enum entry_kind kind;
    int64_t start, rows;
    const uint8_t *validity; /* one bit for each row, 1 if it is not null; NULL if no row is null */
    const uint8_t *entries;
    const Py_buffer *data;
    Py_ssize_t data_count; /* 1 for offsets; views name one of several buffers */
};

/* The simple answers of one batch, and the rows that are left to the reference. */
struct batch {
    uint8_t *bytes; /* the simple answers, one after the other */
    size_t bytes_size;
    size_t ends[BATCH_ROWS]; /* the end of each row's answer in `bytes` */
    bool has_nulls;
    bool is_null[BATCH_ROWS]; /* set only if has_nulls */
    int deferred[BATCH_ROWS]; /* the rows that are left to the reference, in order */
    struct piece texts[BATCH_ROWS]; /* their texts */
    int deferred_count;
    bool is_in_place; /* the answers are at the end of the output already, none is deferred, and `bytes` holds nothing */
};

/* The resulting column: bytes objects that grow, and the number of bytes used in them. */
struct output {
    PyObject *validity, *offsets, *data;
    PyObject *hash_offsets, *hashes; /* NULL if no hashes are wanted */
    size_t data_length, hash_length;
    size_t offset_size; /* 4 or 8 bytes */
    size_t max_offset;  /* the largest value that fits in an offset */
    int64_t nulls;
};

enum batch_error { BATCH_OK, BATCH_NO_MEMORY, BATCH_MALFORMED };

/* The offset at `place`; the column is of a kind with offsets. */
int64_t read_offset(const struct column *column, int64_t place);

/* Answer every simple row of a batch, at `place` if its `room` is enough and no row is deferred, otherwise in `bytes` of
 * the batch. Needs no GIL. BATCH_MALFORMED: the column points outside its own memory. */
enum batch_error rewrite_batch(const struct column *column, int64_t from, int count, const struct rules *rules,
                               rewrite_function rewrite, struct batch *batch, uint8_t *place, size_t room);

/* Write the answers of a batch in order; `answers` are those of the deferred rows, with `at` NULL for null.
 * Needs no GIL. The output must have room for the answers. */
void write_batch(struct output *output, int64_t from, int count, const struct batch *batch,
                 const struct piece answers[BATCH_ROWS]);

/* Hash the rows that write_batch wrote. Needs no GIL. The output must have room for the hashes. */
void hash_batch(struct output *output, int64_t from, int count, sha256_function sha256);

#endif
