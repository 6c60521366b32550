#define PY_SSIZE_T_CLEAN
#include "column.h"

/* Read a bit of an Arrow bitmap: row i is bit i % 8, counted from the lowest, of byte i / 8. */
ALWAYS_INLINE bool read_bit(const uint8_t *bits, int64_t at)
{
    return bits[at / 8] >> (at % 8) & 1;
}

/* data[buffer][from .. to); false if that is outside the buffer. */
ALWAYS_INLINE bool slice_buffer(const struct column *column, Py_ssize_t buffer, int64_t from, int64_t to, struct piece *text)
{
    if (buffer < 0 || buffer >= column->data_count || from < 0 || to < from || to > column->data[buffer].len)
        return false;
    text->at = (const uint8_t *)column->data[buffer].buf + from;
    text->length = (size_t)(to - from);
    return true;
}

ALWAYS_INLINE int64_t load_offset(const uint8_t *at, size_t size)
{
    int32_t narrow;
    int64_t wide;
    if (size == sizeof wide) {
        memcpy(&wide, at, sizeof wide);
        return wide;
    }
    memcpy(&narrow, at, sizeof narrow);
    return narrow;
}

ALWAYS_INLINE void store_offset(PyObject *offsets, size_t size, int64_t row, size_t offset)
{
    char *at = PyBytes_AS_STRING(offsets) + (size_t)row * size;
    int64_t wide = (int64_t)offset;
    int32_t narrow = (int32_t)offset; /* max_offset at most */
    if (size == sizeof narrow)
        memcpy(at, &narrow, sizeof narrow);
    else
        memcpy(at, &wide, sizeof wide);
}

int64_t read_offset(const struct column *column, int64_t place)
{
    return load_offset(column->entries + place * (int64_t)column->kind, (size_t)column->kind);
}

/* The text of a row; false if the column points outside its own memory. */
ALWAYS_INLINE bool read_row(const struct column *column, enum entry_kind kind, int64_t row, struct piece *text)
{
    const uint8_t *entry = column->entries + row * (int64_t)kind;
    if (kind != VIEWS) {
        size_t size = (size_t)kind;
        return slice_buffer(column, 0, load_offset(entry, size), load_offset(entry + size, size), text);
    }
    int32_t view[4]; /* the layout is in column.h */
    memcpy(view, entry, sizeof view);
    if (view[0] < 0)
        return false;
    if (view[0] <= 12) {
        *text = (struct piece){entry + 4, (size_t)view[0]};
        return true;
    }
    return slice_buffer(column, view[2], view[3], (int64_t)view[3] + view[0], text);
}

/* Make room for one more answer in `bytes` of the batch; the first `written` bytes are in `bytes` and move there. */
static bool make_batch_room(struct batch *batch, const uint8_t *bytes, size_t written)
{
    if (written + ANSWER_BYTES > batch->bytes_size) {
        size_t size = 2 * (written + ANSWER_BYTES);
        uint8_t *grown = PyMem_RawRealloc(batch->bytes, size);
        if (grown == NULL)
            return false;
        batch->bytes = grown;
        batch->bytes_size = size;
    }
    if (batch->is_in_place)
        memcpy(batch->bytes, bytes, written);
    batch->is_in_place = false;
    return true;
}

/* Copy a row that stays as it is, 64 bytes at a time; `out` has room for MAX_URL_BYTES. The last bytes may be those of the
 * next rows, if `end`, the end of the buffer, is not before them: the next answer is written over them. */
ALWAYS_INLINE void copy_row(uint8_t *out, const struct piece *text, const uint8_t *end)
{
    if ((size_t)(end - text->at) < text->length + 63) {
        memcpy(out, text->at, text->length);
        return;
    }
    for (size_t at = 0; at < text->length; at += 64)
        memcpy(out + at, text->at + at, 64);
}

/* rewrite_batch for a column whose kind is known when this is compiled, and that has nulls or not. */
ALWAYS_INLINE enum batch_error rewrite_rows(const struct column *column, enum entry_kind kind, bool may_be_null, int64_t from,
                                            int count, const struct rules *rules, rewrite_function rewrite,
                                            struct batch *batch, uint8_t *place, size_t room)
{
    const uint8_t *end = column->data_count ? (const uint8_t *)column->data[0].buf + column->data[0].len : NULL;
    size_t written = 0, size = place ? room : batch->bytes_size;
    uint8_t *bytes = place ? place : batch->bytes;
    for (int i = 0; i < count; i++) {
        int64_t row = column->start + from + i;
        bool is_null = may_be_null && !read_bit(column->validity, row);
        if (may_be_null) {
            batch->is_null[i] = is_null;
            batch->has_nulls |= is_null;
        }
        if (!is_null) {
            struct piece text;
            if (!read_row(column, kind, row, &text))
                return BATCH_MALFORMED;
            if (size - written < ANSWER_BYTES) {
                if (!make_batch_room(batch, bytes, written))
                    return BATCH_NO_MEMORY;
                bytes = batch->bytes;
                size = batch->bytes_size;
            }
            ptrdiff_t length = rewrite(rules, text.at, text.length, bytes + written);
            if (length == UNCHANGED) {
                if (kind == VIEWS) /* these are in several buffers */
                    memcpy(bytes + written, text.at, text.length);
                else
                    copy_row(bytes + written, &text, end);
                written += text.length;
            } else if (length > 0) {
                written += (size_t)length;
            } else {
                batch->texts[batch->deferred_count] = text;
                batch->deferred[batch->deferred_count++] = i;
            }
        }
        batch->ends[i] = written;
    }
    if (batch->is_in_place && batch->deferred_count && !make_batch_room(batch, bytes, written))
        return BATCH_NO_MEMORY; /* the answers of the reference come between them */
    return BATCH_OK;
}

static ptrdiff_t rewrite_nothing(const struct rules *rules, const uint8_t *text, size_t length, uint8_t out[ANSWER_BYTES])
{
    return NEEDS_REFERENCE;
}

enum batch_error rewrite_batch(const struct column *column, int64_t from, int count, const struct rules *rules,
                               rewrite_function rewrite, struct batch *batch, uint8_t *place, size_t room)
{
    batch->deferred_count = 0;
    batch->has_nulls = false;
    batch->is_in_place = place != NULL;
    if (rules == NULL)
        rewrite = rewrite_nothing;
    if (column->kind == OFFSETS_32 && !column->validity)
        return rewrite_rows(column, OFFSETS_32, false, from, count, rules, rewrite, batch, place, room);
    if (column->kind == OFFSETS_64 && !column->validity)
        return rewrite_rows(column, OFFSETS_64, false, from, count, rules, rewrite, batch, place, room);
    return rewrite_rows(column, column->kind, column->validity != NULL, from, count, rules, rewrite, batch, place, room);
}

/* Simple answers are copied in runs, up to the next deferred row:
 *
 *     batch->bytes   [row 0][row 1]       [row 3]         row 2 is deferred
 *     output         [row 0][row 1][row 2][row 3]
 *                                  ^ the answer of the reference; `shift` grows by its length
 *
 * `run` is the start of the simple answers that are not copied yet.
 */
void write_batch(struct output *output, int64_t from, int count, const struct batch *batch,
                 const struct piece answers[BATCH_ROWS])
{
    uint8_t *data = (uint8_t *)PyBytes_AS_STRING(output->data);
    uint8_t *valid = (uint8_t *)PyBytes_AS_STRING(output->validity);
    size_t run = 0, shift = output->data_length;
    int deferred = 0;
    if (batch->is_in_place && !batch->has_nulls && from % 8 == 0) { /* nearly always: nothing to copy, every row valid */
        for (int i = 0; i < count; i++)
            store_offset(output->offsets, output->offset_size, from + i + 1, shift + batch->ends[i]);
        memset(valid + from / 8, 0xff, (size_t)count / 8);
        if (count % 8)
            valid[(from + count) / 8] = (uint8_t)((1 << (count % 8)) - 1);
        output->data_length = shift + (count ? batch->ends[count - 1] : 0);
        return;
    }
    for (int i = 0; i < count; i++) {
        bool is_null = batch->has_nulls && batch->is_null[i];
        if (deferred < batch->deferred_count && batch->deferred[deferred] == i) {
            const struct piece *answer = &answers[deferred++];
            memcpy(data + shift + run, batch->bytes + run, batch->ends[i] - run);
            run = batch->ends[i];
            is_null = answer->at == NULL;
            if (!is_null) {
                memcpy(data + shift + run, answer->at, answer->length);
                shift += answer->length;
            }
        }
        store_offset(output->offsets, output->offset_size, from + i + 1, shift + batch->ends[i]);
        if (is_null)
            output->nulls++;
        else
            valid[(from + i) / 8] |= (uint8_t)(1 << ((from + i) % 8));
    }
    size_t all = count ? batch->ends[count - 1] : 0;
    if (!batch->is_in_place)
        memcpy(data + shift + run, batch->bytes + run, all - run);
    output->data_length = shift + all;
}

void hash_batch(struct output *output, int64_t from, int count, sha256_function sha256)
{
    const uint8_t *data = (const uint8_t *)PyBytes_AS_STRING(output->data);
    const uint8_t *valid = (const uint8_t *)PyBytes_AS_STRING(output->validity);
    const uint8_t *offsets = (const uint8_t *)PyBytes_AS_STRING(output->offsets);
    uint8_t *hashes = (uint8_t *)PyBytes_AS_STRING(output->hashes);
    size_t size = output->offset_size;
    for (int64_t row = from; row < from + count; row++) {
        if (read_bit(valid, row)) {
            size_t start = (size_t)load_offset(offsets + (size_t)row * size, size);
            size_t end = (size_t)load_offset(offsets + ((size_t)row + 1) * size, size);
            sha256_hex(sha256, data + start, end - start, hashes + output->hash_length);
            output->hash_length += SHA256_HEX;
        }
        store_offset(output->hash_offsets, size, row + 1, output->hash_length);
    }
}
