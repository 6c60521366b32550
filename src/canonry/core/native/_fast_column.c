/* `normalize_column`: normalize a column of URLs in Arrow's memory layout. */
#ifdef __linux__
#define _DEFAULT_SOURCE /* madvise */
#include <sys/mman.h>
#endif

#include "_fast.h"

#include "column.h"

/* A bytes object for a buffer of the result. The kernel has to map a large one page by page while it is filled, which
 * takes longer than normalizing the rows: ask for huge pages. */
static PyObject *new_buffer(size_t size)
{
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size);
#ifdef MADV_HUGEPAGE
    enum { PAGE = 4096, LARGE = 4 << 20 };
    if (bytes != NULL && size >= LARGE) { /* all pages of the mapping, so that it stays one and realloc can move it */
        uintptr_t start = (uintptr_t)bytes & ~(uintptr_t)(PAGE - 1);
        uintptr_t end = ((uintptr_t)PyBytes_AS_STRING(bytes) + size + PAGE) & ~(uintptr_t)(PAGE - 1);
        madvise((void *)start, end - start, MADV_HUGEPAGE); /* if it fails, the pages are small */
    }
#endif
    return bytes;
}

/* The answer of the reference for a row, as bytes; None if it is not a valid URL, for example not UTF-8. */
static PyObject *call_reference(const State *state, PyObject *policy, struct piece text)
{
    PyObject *url = PyUnicode_DecodeUTF8((const char *)text.at, (Py_ssize_t)text.length, "surrogateescape");
    if (url == NULL)
        return NULL;
    PyObject *answer = PyObject_CallFunctionObjArgs(state->normalize_or_none, url, policy, NULL);
    Py_DECREF(url);
    if (answer == NULL || answer == Py_None)
        return answer;
    PyObject *bytes = PyUnicode_AsUTF8String(answer);
    Py_DECREF(answer);
    return bytes;
}

/* Call the reference for the deferred rows. Returns a list that owns the answers; `answers` point into it. */
static PyObject *answer_deferred(const State *state, PyObject *policy, const struct batch *batch,
                                 struct piece answers[BATCH_ROWS])
{
    PyObject *owner = PyList_New(batch->deferred_count);
    for (int i = 0; owner != NULL && i < batch->deferred_count; i++) {
        PyObject *answer = call_reference(state, policy, batch->texts[i]);
        if (answer == NULL) {
            Py_CLEAR(owner);
        } else if (answer == Py_None) {
            answers[i] = (struct piece){NULL, 0};
            PyList_SET_ITEM(owner, i, answer);
        } else {
            answers[i] = (struct piece){(const uint8_t *)PyBytes_AS_STRING(answer), (size_t)PyBytes_GET_SIZE(answer)};
            PyList_SET_ITEM(owner, i, answer);
        }
    }
    return owner;
}

/* Resize a bytes object to `needed` bytes and half as many more, unless it is large enough. */
static bool grow(PyObject **bytes, size_t needed)
{
    size_t size = (size_t)PyBytes_GET_SIZE(*bytes);
    if (needed <= size)
        return true;
    if (needed > (size_t)PY_SSIZE_T_MAX / 2) {
        PyErr_NoMemory();
        return false;
    }
    return _PyBytes_Resize(bytes, (Py_ssize_t)(needed + needed / 2)) == 0;
}

/* Resize a bytes object to `needed` bytes. A large one keeps a few bytes too many: if it became smaller, malloc would ask the
 * kernel again for the next one, whose pages then have to be mapped again. */
static bool shrink(PyObject **bytes, size_t needed)
{
    enum { LARGE = 64 << 10 };
    size_t size = (size_t)PyBytes_GET_SIZE(*bytes);
    if (needed >= LARGE && size - needed < needed / 16)
        return true;
    return _PyBytes_Resize(bytes, (Py_ssize_t)needed) == 0;
}

/* The number of bytes that the data and the hashes will have after a batch. */
struct need {
    size_t data, hashes;
};

static struct need measure_need(const struct output *output, const struct batch *batch, int count,
                                const struct piece answers[BATCH_ROWS])
{
    struct need need = {output->data_length + (count ? batch->ends[count - 1] : 0), 0};
    for (int i = 0; i < batch->deferred_count; i++)
        need.data += answers[i].length;
    if (output->hashes)
        need.hashes = output->hash_length + (size_t)count * SHA256_HEX;
    return need;
}

static bool has_room(const struct output *output, struct need need)
{
    return need.data <= (size_t)PyBytes_GET_SIZE(output->data) && need.data <= output->max_offset &&
           (!output->hashes || (need.hashes <= (size_t)PyBytes_GET_SIZE(output->hashes) && need.hashes <= output->max_offset));
}

static bool make_room(struct output *output, struct need need)
{
    if (need.data > output->max_offset || need.hashes > output->max_offset) {
        PyErr_SetString(PyExc_OverflowError, "the normalized URLs exceed the 2 GiB of a string array; pass a large_string array");
        return false;
    }
    return grow(&output->data, need.data) && (!output->hashes || grow(&output->hashes, need.hashes));
}

/* Normalize all rows. Takes the GIL only for deferred rows, or if memory must grow. */
static bool normalize_batches(const State *state, const struct column *column, const struct call *call,
                              struct batch *batch, struct piece answers[BATCH_ROWS], struct output *output)
{
    bool is_done = true;
    PyThreadState *thread = PyEval_SaveThread();
    for (int64_t from = 0; is_done && from < column->rows; from += BATCH_ROWS) {
        int count = column->rows - from < BATCH_ROWS ? (int)(column->rows - from) : BATCH_ROWS;
        uint8_t *place = (uint8_t *)PyBytes_AS_STRING(output->data) + output->data_length;
        size_t room = (size_t)PyBytes_GET_SIZE(output->data) - output->data_length;
        enum batch_error error = rewrite_batch(column, from, count, call->rules->rules, state->rewrite, batch, place, room);
        PyObject *owner = NULL;
        if (error != BATCH_OK || batch->deferred_count > 0 || !has_room(output, measure_need(output, batch, count, answers))) {
            PyEval_RestoreThread(thread);
            if (error == BATCH_NO_MEMORY)
                PyErr_NoMemory();
            else if (error == BATCH_MALFORMED)
                PyErr_SetString(PyExc_ValueError, "the column points outside its own memory");
            else
                owner = answer_deferred(state, call->policy, batch, answers);
            is_done = owner != NULL && make_room(output, measure_need(output, batch, count, answers));
            thread = PyEval_SaveThread();
        }
        if (is_done) {
            write_batch(output, from, count, batch, answers);
            if (output->hashes)
                hash_batch(output, from, count, state->sha256);
        }
        if (owner != NULL) {
            PyEval_RestoreThread(thread);
            Py_DECREF(owner);
            thread = PyEval_SaveThread();
        }
    }
    PyEval_RestoreThread(thread);
    return is_done;
}

static PyObject *new_zeros(size_t size)
{
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size);
    if (bytes != NULL)
        memset(PyBytes_AS_STRING(bytes), 0, size);
    return bytes;
}

/* Offsets for `rows` rows, of which only the first is set. */
static PyObject *new_offsets(size_t rows, size_t size)
{
    PyObject *bytes = new_buffer((rows + 1) * size);
    if (bytes != NULL)
        memset(PyBytes_AS_STRING(bytes), 0, size);
    return bytes;
}

/* Estimate how many bytes the answers of a column have: a few more than its texts, because mirrors become main hosts. 0 for
 * views, whose lengths are in the single entries. */
static size_t estimate_bytes(const struct column *column)
{
    if (column->kind == VIEWS || column->rows == 0 || column->data_count == 0)
        return 0;
    int64_t from = read_offset(column, column->start), to = read_offset(column, column->start + column->rows);
    return 0 <= from && from <= to && to <= column->data[0].len ? (size_t)(to - from) + (size_t)(to - from) / 32 : 0;
}

static PyObject *rewrite_column(const State *state, const struct column *column, const struct call *call, bool with_hash)
{
    struct output output = {
        .offset_size = column->kind == OFFSETS_64 ? 8 : 4,
        .max_offset = column->kind == OFFSETS_64 ? (size_t)PY_SSIZE_T_MAX / 4 : INT32_MAX,
    };
    size_t rows = (size_t)column->rows;
    struct batch *batch = PyMem_Malloc(sizeof *batch);
    struct piece *answers = PyMem_Malloc(BATCH_ROWS * sizeof *answers);
    PyObject *result = NULL;
    bool is_done = batch != NULL && answers != NULL;
    if (batch != NULL) {
        batch->bytes_size = BATCH_ROWS * 64;
        batch->bytes = PyMem_RawMalloc(batch->bytes_size);
        is_done = is_done && batch->bytes != NULL;
    }
    if (is_done) {
        output.validity = new_zeros((rows + 7) / 8);
        output.offsets = new_offsets(rows, output.offset_size);
        output.data = new_buffer(estimate_bytes(column) + rows / 8 + 2 * ANSWER_BYTES);
        is_done = output.validity && output.offsets && output.data;
    } else {
        PyErr_NoMemory();
    }
    if (is_done && with_hash) {
        output.hash_offsets = new_offsets(rows, output.offset_size);
        output.hashes = new_buffer(rows * SHA256_HEX + 1);
        is_done = output.hash_offsets && output.hashes;
    }
    is_done = is_done && normalize_batches(state, column, call, batch, answers, &output);
    if (is_done && shrink(&output.data, output.data_length) && (!with_hash || shrink(&output.hashes, output.hash_length)))
        result = Py_BuildValue("(LOOOOO)", (long long)output.nulls, output.validity, output.offsets, output.data,
                               with_hash ? output.hash_offsets : Py_None, with_hash ? output.hashes : Py_None);
    Py_XDECREF(output.validity);
    Py_XDECREF(output.offsets);
    Py_XDECREF(output.data);
    Py_XDECREF(output.hash_offsets);
    Py_XDECREF(output.hashes);
    if (batch != NULL)
        PyMem_RawFree(batch->bytes);
    PyMem_Free(batch);
    PyMem_Free(answers);
    return result;
}

/* Return whether the buffers are large enough for `start + rows` rows. */
static bool has_all_rows(const struct column *column, const Py_buffer *validity, const Py_buffer *entries)
{
    if (column->start < 0 || column->rows < 0 || column->start > PY_SSIZE_T_MAX / 32 ||
        column->rows > PY_SSIZE_T_MAX / 256)
        return false;
    int64_t end = column->start + column->rows;
    if (column->rows == 0)
        return true;
    return (validity->buf == NULL || validity->len >= (end + 7) / 8) &&
           entries->len >= (end + (column->kind != VIEWS)) * (int64_t)column->kind;
}

const char normalize_column_doc[] = "normalize_column($module, policy, entry_size, start, rows, validity, entries, data, with_hash, /)\n--\n\n"
"Normalize a column in Arrow's layout: (nulls, validity, offsets, data, hash offsets, hashes).\n\n"
"entry_size: 4 and 8 for offsets, 16 for views; validity: a buffer or None; data: a tuple of buffers.";

PyObject *normalize_column(PyObject *module, PyObject *args)
{
    State *state = (State *)PyModule_GetState(module);
    struct column column = {0};
    struct call call;
    int entry_size, with_hash;
    long long start, rows;
    PyObject *data, *policy;
    Py_buffer validity = {0}, entries = {0}, *buffers = NULL;
    if (!PyArg_ParseTuple(args, "OiLLz*y*O!p:normalize_column", &policy, &entry_size, &start, &rows, &validity, &entries,
                          &PyTuple_Type, &data, &with_hash))
        return NULL;
    PyObject *result = NULL;
    Py_ssize_t held = 0, count = PyTuple_GET_SIZE(data);
    enum call_kind kind = read_call(state, (PyObject *[]){Py_None, policy}, 2, NULL, state->bookmark, &call);
    if (kind == CALL_UNUSUAL)
        PyErr_SetString(PyExc_TypeError, "policy must be a Policy or the name of one");
    if (kind == CALL_USUAL && (buffers = new_array((size_t)count, sizeof *buffers)) != NULL) {
        while (held < count && PyObject_GetBuffer(PyTuple_GET_ITEM(data, held), &buffers[held], PyBUF_SIMPLE) == 0)
            held++;
        if (held == count) {
            column.kind = (enum entry_kind)entry_size;
            column.start = start;
            column.rows = rows;
            column.validity = validity.buf;
            column.entries = entries.buf;
            column.data = buffers;
            column.data_count = count;
            bool is_known_kind = entry_size == OFFSETS_32 || entry_size == OFFSETS_64 || entry_size == VIEWS;
            if (is_known_kind && has_all_rows(&column, &validity, &entries))
                result = rewrite_column(state, &column, &call, with_hash);
            else
                PyErr_SetString(PyExc_ValueError, "the buffers are smaller than the column");
        }
        while (held > 0)
            PyBuffer_Release(&buffers[--held]);
        PyMem_Free(buffers);
    }
    if (kind == CALL_USUAL)
        Py_DECREF(call.rules);
    if (validity.obj)
        PyBuffer_Release(&validity);
    PyBuffer_Release(&entries);
    return result;
}
