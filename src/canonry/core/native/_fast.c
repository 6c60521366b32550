/* The native core: the answers of normalize.py for URLs that are provably simple (docs/decisions/0010-native-core.md).
 *
 * c/url.h holds the rules; this file is what Python sees. Whatever url.h hands back, and
 * whatever is called in an unusual way, goes to the reference with the arguments as they came.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdlib.h>

#include "column.h"
#include "rules.h"
#include "sha256.h"
#include "url.h"

typedef struct {
    PyObject *normalize, *normalize_many, *normalized_or_none, *canonical_hash; /* the reference */
    PyObject *resolved, *tables_of;
    PyTypeObject *policy_type, *rules_type;
    PyObject *by_name; /* policy name or id: Rules; shipped ones only, so it stays small */
    PyObject *native, *policy, *bookmark, *article;
    rewrite_function rewrite;
    sha256_function sha256;
} State;

static State *state_of(PyObject *module)
{
    return (State *)PyModule_GetState(module);
}

/* --- policies ------------------------------------------------------------------------------- */

/* The rules of a policy, made at its first use; a new reference, NULL with an exception set. */
static Rules *rules_of_policy(State *state, PyObject *policy)
{
    PyObject *kept = PyObject_GetAttr(policy, state->native);
    if (kept == NULL || Py_TYPE(kept) == state->rules_type)
        return (Rules *)kept;
    Py_DECREF(kept);
    PyObject *tables = PyObject_CallOneArg(state->tables_of, policy);
    if (tables == NULL)
        return NULL;
    Rules *rules = (Rules *)state->rules_type->tp_alloc(state->rules_type, 0);
    if (rules != NULL) {
        rules->rules = NULL;
        if (tables != Py_None && (rules->rules = new_rules(tables)) == NULL)
            Py_CLEAR(rules);
    }
    Py_DECREF(tables);
    /* A policy is frozen for everybody else; two threads may both get here and make equal rules. */
    if (rules != NULL && PyObject_GenericSetAttr(policy, state->native, (PyObject *)rules) < 0)
        Py_CLEAR(rules);
    return rules;
}

static Rules *rules_of_name(State *state, PyObject *name)
{
#if PY_VERSION_HEX >= 0x030d0000
    PyObject *kept;
    if (PyDict_GetItemRef(state->by_name, name, &kept) != 0)
        return (Rules *)kept;
#else
    PyObject *kept = PyDict_GetItemWithError(state->by_name, name);
    if (kept != NULL || PyErr_Occurred())
        return (Rules *)Py_XNewRef(kept);
#endif
    PyObject *policy = PyObject_CallOneArg(state->resolved, name);
    if (policy == NULL)
        return NULL;
    Rules *rules = rules_of_policy(state, policy);
    Py_DECREF(policy);
    if (rules != NULL && PyDict_SetItem(state->by_name, name, (PyObject *)rules) < 0)
        Py_CLEAR(rules);
    return rules;
}

/* --- calls ---------------------------------------------------------------------------------- */

/* What a function of (something, policy="…") was called with. */
struct call {
    PyObject *first, *policy;
    Rules *rules; /* a new reference */
};

enum { SIMPLE = 1, UNUSUAL = 0, FAILED = -1 };

static int read_call(State *state, PyObject *const *args, Py_ssize_t count, PyObject *names, PyObject *otherwise,
                     struct call *call)
{
    Py_ssize_t named = names == NULL ? 0 : PyTuple_GET_SIZE(names);
    if (count < 1 || count + named > 2)
        return UNUSUAL;
    if (named == 1) {
        int is_policy = PyUnicode_Compare(PyTuple_GET_ITEM(names, 0), state->policy) == 0;
        if (PyErr_Occurred())
            return FAILED;
        if (!is_policy)
            return UNUSUAL;
    }
    call->first = args[0];
    call->policy = count + named == 2 ? args[1] : otherwise;
    if (PyUnicode_CheckExact(call->policy))
        call->rules = rules_of_name(state, call->policy);
    else if (Py_TYPE(call->policy) == state->policy_type)
        call->rules = rules_of_policy(state, call->policy);
    else
        return UNUSUAL;
    return call->rules == NULL ? FAILED : SIMPLE;
}

/* A text beyond ASCII in UTF-8; 0 where it is too long or holds a surrogate. bytes: LONGEST. */
static size_t encode(PyObject *text, uint8_t *bytes)
{
    Py_ssize_t length = PyUnicode_GET_LENGTH(text);
    int kind = PyUnicode_KIND(text);
    const void *data = PyUnicode_DATA(text);
    size_t written = 0;
    for (Py_ssize_t i = 0; i < length; i++) {
        Py_UCS4 c = PyUnicode_READ(kind, data, i);
        if (written > LONGEST - 4 || Py_UNICODE_IS_SURROGATE(c))
            return 0;
        if (c < 0x80) {
            bytes[written++] = (uint8_t)c;
            continue;
        }
        int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
        bytes[written++] = (uint8_t)((0xf80 >> more) | c >> (6 * more));
        while (more-- > 0)
            bytes[written++] = (uint8_t)(0x80 | (c >> (6 * more) & 0x3f));
    }
    return written;
}

COLD static ptrdiff_t rewrite_beyond_ascii(const State *state, const Rules *rules, PyObject *url, uint8_t *out)
{
    uint8_t bytes[LONGEST];
    size_t length = encode(url, bytes);
    return state->rewrite(rules->rules, bytes, length, out);
}

/* NOT_MINE, UNCHANGED, or the length of the answer to a Python object. */
static inline ptrdiff_t rewrite_object(const State *state, const Rules *rules, PyObject *url, uint8_t *out)
{
    if (!PyUnicode_CheckExact(url) || rules->rules == NULL)
        return NOT_MINE;
    if (!PyUnicode_IS_COMPACT_ASCII(url))
        return PyUnicode_IS_READY(url) ? rewrite_beyond_ascii(state, rules, url, out) : NOT_MINE;
    return state->rewrite(rules->rules, PyUnicode_1BYTE_DATA(url), (size_t)PyUnicode_GET_LENGTH(url), out);
}

static PyObject *new_text(const uint8_t *bytes, size_t length)
{
    PyObject *text = PyUnicode_New((Py_ssize_t)length, 127);
    if (text != NULL)
        memcpy(PyUnicode_1BYTE_DATA(text), bytes, length);
    return text;
}

static PyObject *new_hash(const State *state, const uint8_t *bytes, size_t length)
{
    PyObject *text = PyUnicode_New(SHA256_HEX, 127);
    if (text != NULL)
        sha256_hex(state->sha256, bytes, length, PyUnicode_1BYTE_DATA(text));
    return text;
}

PyDoc_STRVAR(normalize_doc, "normalize($module, /, url, policy='bookmark')\n--\n\n"
"The URL in the form the policy gives to every spelling of it; InvalidUrl if it is not http(s).");

static PyObject *normalize(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    State *state = state_of(module);
    uint8_t out[ROOM];
    struct call call;
    int kind = read_call(state, args, count, names, state->bookmark, &call);
    if (kind == FAILED)
        return NULL;
    ptrdiff_t length = NOT_MINE;
    if (kind == SIMPLE) {
        length = rewrite_object(state, call.rules, call.first, out);
        Py_DECREF(call.rules);
    }
    if (length == NOT_MINE)
        return PyObject_Vectorcall(state->normalize, args, (size_t)count, names);
    return length == UNCHANGED ? Py_NewRef(call.first) : new_text(out, (size_t)length);
}

PyDoc_STRVAR(canonical_hash_doc, "canonical_hash($module, /, url, policy='article@0')\n--\n\n"
"Hex sha256 of the URL as the policy writes it (contract N6).");

static PyObject *canonical_hash(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    State *state = state_of(module);
    uint8_t out[ROOM];
    struct call call;
    int kind = read_call(state, args, count, names, state->article, &call);
    if (kind == FAILED)
        return NULL;
    ptrdiff_t length = NOT_MINE;
    if (kind == SIMPLE) {
        length = rewrite_object(state, call.rules, call.first, out);
        Py_DECREF(call.rules);
    }
    if (length == NOT_MINE)
        return PyObject_Vectorcall(state->canonical_hash, args, (size_t)count, names);
    if (length != UNCHANGED)
        return new_hash(state, out, (size_t)length);
    Py_ssize_t text_length;
    const char *text = PyUnicode_AsUTF8AndSize(call.first, &text_length);
    return text == NULL ? NULL : new_hash(state, (const uint8_t *)text, (size_t)text_length);
}

/* One of many: a new reference, None where the reference refuses. */
static PyObject *answer_of(const State *state, const struct call *call, PyObject *url)
{
    uint8_t out[ROOM];
    ptrdiff_t length = rewrite_object(state, call->rules, url, out);
    if (length == UNCHANGED)
        return Py_NewRef(url);
    if (length > 0)
        return new_text(out, (size_t)length);
    return PyObject_CallFunctionObjArgs(state->normalized_or_none, url, call->policy, NULL);
}

/* The same with its hash: (url, hash) or None. */
static PyObject *hashed_answer_of(const State *state, const struct call *call, PyObject *url)
{
    PyObject *answer = answer_of(state, call, url);
    if (answer == NULL || answer == Py_None)
        return answer;
    Py_ssize_t length;
    const char *bytes = PyUnicode_AsUTF8AndSize(answer, &length);
    PyObject *hash = bytes == NULL ? NULL : new_hash(state, (const uint8_t *)bytes, (size_t)length);
    PyObject *pair = hash == NULL ? NULL : PyTuple_Pack(2, answer, hash);
    Py_XDECREF(hash);
    Py_DECREF(answer);
    return pair;
}

typedef PyObject *(*answer_function)(const State *, const struct call *, PyObject *);

static PyObject *answers_of(const State *state, const struct call *call, answer_function answer)
{
    PyObject *iterator = PyObject_GetIter(call->first);
    if (iterator == NULL)
        return NULL;
    PyObject *answers = PyList_New(0), *url;
    while (answers != NULL && (url = PyIter_Next(iterator)) != NULL) {
        PyObject *one = answer(state, call, url);
        Py_DECREF(url);
        if (one == NULL || PyList_Append(answers, one) < 0)
            Py_CLEAR(answers);
        Py_XDECREF(one);
    }
    if (PyErr_Occurred())
        Py_CLEAR(answers);
    Py_DECREF(iterator);
    return answers;
}

PyDoc_STRVAR(normalize_many_doc, "normalize_many($module, /, urls, policy='bookmark')\n--\n\n"
"`normalize` for each, None where it raises InvalidUrl.");

static PyObject *normalize_many(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    State *state = state_of(module);
    struct call call;
    int kind = read_call(state, args, count, names, state->bookmark, &call);
    if (kind == FAILED)
        return NULL;
    if (kind == UNUSUAL)
        return PyObject_Vectorcall(state->normalize_many, args, (size_t)count, names);
    PyObject *answers = answers_of(state, &call, answer_of);
    Py_DECREF(call.rules);
    return answers;
}

PyDoc_STRVAR(normalize_and_hash_many_doc, "normalize_and_hash_many($module, /, urls, policy='bookmark')\n--\n\n"
"(URL, hex sha256) for each, None where normalize raises InvalidUrl.");

static PyObject *normalize_and_hash_many(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    State *state = state_of(module);
    struct call call;
    int kind = read_call(state, args, count, names, state->bookmark, &call);
    if (kind == UNUSUAL)
        PyErr_SetString(PyExc_TypeError, "normalize_and_hash_many(urls, policy) takes a Policy or the name of one");
    if (kind != SIMPLE)
        return NULL;
    PyObject *answers = answers_of(state, &call, hashed_answer_of);
    Py_DECREF(call.rules);
    return answers;
}

PyDoc_STRVAR(is_simple_doc, "is_simple($module, /, url, policy='bookmark')\n--\n\n"
"Does the native core answer for this URL itself?");

static PyObject *is_simple(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    State *state = state_of(module);
    uint8_t out[ROOM];
    struct call call;
    int kind = read_call(state, args, count, names, state->bookmark, &call);
    if (kind == UNUSUAL)
        PyErr_SetString(PyExc_TypeError, "is_simple(url, policy) takes a Policy or the name of one");
    if (kind != SIMPLE)
        return NULL;
    ptrdiff_t length = rewrite_object(state, call.rules, call.first, out);
    Py_DECREF(call.rules);
    return PyBool_FromLong(length != NOT_MINE);
}

/* --- columns -------------------------------------------------------------------------------- */

/* What the reference makes of a row, as bytes; None where it refuses. Text that is not UTF-8 is no URL. */
static PyObject *answer_of_text(const State *state, PyObject *policy, struct text text)
{
    PyObject *url = PyUnicode_DecodeUTF8((const char *)text.start, (Py_ssize_t)text.length, "surrogateescape");
    if (url == NULL)
        return NULL;
    PyObject *answer = PyObject_CallFunctionObjArgs(state->normalized_or_none, url, policy, NULL);
    Py_DECREF(url);
    if (answer == NULL || answer == Py_None)
        return answer;
    PyObject *bytes = PyUnicode_AsUTF8String(answer);
    Py_DECREF(answer);
    return bytes;
}

/* Answers for what was handed back: a list that keeps them, and where their bytes are. */
static PyObject *answer_the_rest(const State *state, PyObject *policy, const struct batch *batch, struct text *answers)
{
    PyObject *kept = PyList_New(batch->back_count);
    for (int i = 0; kept != NULL && i < batch->back_count; i++) {
        PyObject *answer = answer_of_text(state, policy, batch->texts[batch->back[i]]);
        if (answer == NULL) {
            Py_CLEAR(kept);
        } else if (answer == Py_None) {
            answers[i] = (struct text){NULL, 0};
            PyList_SET_ITEM(kept, i, answer);
        } else {
            answers[i] = (struct text){(const uint8_t *)PyBytes_AS_STRING(answer), (size_t)PyBytes_GET_SIZE(answer)};
            PyList_SET_ITEM(kept, i, answer);
        }
    }
    return kept;
}

/* Let `*bytes` hold `needed`, growing by half at least. */
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

/* What a batch needs beyond what is filled. */
struct need {
    size_t data, hashes;
};

static struct need need_of(const struct made *made, const struct batch *batch, int count, const struct text *answers)
{
    struct need need = {made->length + (count ? batch->ends[count - 1] : 0), 0};
    for (int i = 0; i < batch->back_count; i++)
        need.data += answers[i].length;
    if (made->hashes)
        need.hashes = made->hash_length + (size_t)count * SHA256_HEX;
    return need;
}

static bool has_room(const struct made *made, struct need need)
{
    return need.data <= (size_t)PyBytes_GET_SIZE(made->data) && need.data <= made->most &&
           (!made->hashes || (need.hashes <= (size_t)PyBytes_GET_SIZE(made->hashes) && need.hashes <= made->most));
}

static bool make_room(struct made *made, struct need need)
{
    if (need.data > made->most || need.hashes > made->most) {
        PyErr_SetString(PyExc_OverflowError, "the answers do not fit into a string array; give a large_string array");
        return false;
    }
    return grow(&made->data, need.data) && (!made->hashes || grow(&made->hashes, need.hashes));
}

/* All rows. The interpreter's lock is taken only for what was handed back, or where memory must grow. */
static bool do_batches(const State *state, const struct column *column, const struct call *call, struct batch *batch,
                       struct text *answers, struct made *made)
{
    bool is_done = true;
    PyThreadState *thread = PyEval_SaveThread();
    for (int64_t from = 0; is_done && from < column->rows; from += BATCH) {
        int count = column->rows - from < BATCH ? (int)(column->rows - from) : BATCH;
        enum trouble trouble = rewrite_batch(column, from, count, call->rules->rules, state->rewrite, batch);
        PyObject *kept = NULL;
        if (trouble != NO_TROUBLE || batch->back_count > 0 || !has_room(made, need_of(made, batch, count, answers))) {
            PyEval_RestoreThread(thread);
            if (trouble == NO_MEMORY)
                PyErr_NoMemory();
            else if (trouble == MALFORMED)
                PyErr_SetString(PyExc_ValueError, "the column points outside its own memory");
            else
                kept = answer_the_rest(state, call->policy, batch, answers);
            is_done = kept != NULL && make_room(made, need_of(made, batch, count, answers));
            thread = PyEval_SaveThread();
        }
        if (is_done) {
            put_batch(made, from, count, batch, answers);
            if (made->hashes)
                hash_batch(made, from, count, state->sha256);
        }
        if (kept != NULL) {
            PyEval_RestoreThread(thread);
            Py_DECREF(kept);
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

/* About how many bytes the texts of a column take; 0 where views hide it. */
static size_t bytes_of(const struct column *column)
{
    if (column->kind == VIEWS || column->rows == 0 || column->data_count == 0)
        return 0;
    int64_t from = offset_at(column, column->start), to = offset_at(column, column->start + column->rows);
    return 0 <= from && from <= to && to <= column->data[0].len ? (size_t)(to - from) : 0;
}

static PyObject *rewrite_column(const State *state, const struct column *column, const struct call *call, bool with_hash)
{
    struct made made = {
        .end_size = column->kind == OFFSETS_64 ? 8 : 4,
        .most = column->kind == OFFSETS_64 ? (size_t)PY_SSIZE_T_MAX / 4 : INT32_MAX,
    };
    size_t rows = (size_t)column->rows;
    struct batch *batch = PyMem_Malloc(sizeof *batch);
    struct text *answers = PyMem_Malloc(BATCH * sizeof *answers);
    PyObject *result = NULL;
    bool is_done = batch != NULL && answers != NULL;
    if (batch != NULL) {
        batch->room = BATCH * 64;
        batch->bytes = PyMem_RawMalloc(batch->room);
        is_done = is_done && batch->bytes != NULL;
    }
    if (is_done) {
        made.validity = new_zeros((rows + 7) / 8);
        made.ends = new_zeros((rows + 1) * made.end_size);
        made.data = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(bytes_of(column) + rows / 8 + ROOM));
        is_done = made.validity && made.ends && made.data;
    } else {
        PyErr_NoMemory();
    }
    if (is_done && with_hash) {
        made.hash_ends = new_zeros((rows + 1) * made.end_size);
        made.hashes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(rows * SHA256_HEX + 1));
        is_done = made.hash_ends && made.hashes;
    }
    is_done = is_done && do_batches(state, column, call, batch, answers, &made);
    if (is_done && _PyBytes_Resize(&made.data, (Py_ssize_t)made.length) == 0 &&
        (!with_hash || _PyBytes_Resize(&made.hashes, (Py_ssize_t)made.hash_length) == 0))
        result = Py_BuildValue("(LOOOOO)", (long long)made.nulls, made.validity, made.ends, made.data,
                               with_hash ? made.hash_ends : Py_None, with_hash ? made.hashes : Py_None);
    Py_XDECREF(made.validity);
    Py_XDECREF(made.ends);
    Py_XDECREF(made.data);
    Py_XDECREF(made.hash_ends);
    Py_XDECREF(made.hashes);
    if (batch != NULL)
        PyMem_RawFree(batch->bytes);
    PyMem_Free(batch);
    PyMem_Free(answers);
    return result;
}

/* Do the buffers hold as many rows as they should? */
static bool is_whole(const struct column *column, const Py_buffer *validity, const Py_buffer *entries)
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

PyDoc_STRVAR(normalize_column_doc, "normalize_column($module, policy, entry_size, start, rows, validity, entries, data, with_hash, /)\n--\n\n"
"Answers for a column in Arrow's layout: (nulls, validity, ends, data, hash ends, hashes).\n\n"
"entry_size: 4 and 8 for offsets, 16 for views; validity: a buffer or None; data: a tuple of buffers.");

static PyObject *normalize_column(PyObject *module, PyObject *args)
{
    State *state = state_of(module);
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
    int kind = read_call(state, (PyObject *[]){Py_None, policy}, 2, NULL, state->bookmark, &call);
    if (kind == UNUSUAL)
        PyErr_SetString(PyExc_TypeError, "a Policy or the name of one is wanted");
    if (kind == SIMPLE && (buffers = new_array((size_t)count, sizeof *buffers)) != NULL) {
        while (held < count && PyObject_GetBuffer(PyTuple_GET_ITEM(data, held), &buffers[held], PyBUF_SIMPLE) == 0)
            held++;
        if (held == count) {
            column.kind = (enum kind)entry_size;
            column.start = start;
            column.rows = rows;
            column.validity = validity.buf;
            column.entries = entries.buf;
            column.data = buffers;
            column.data_count = count;
            bool is_kind = entry_size == OFFSETS_32 || entry_size == OFFSETS_64 || entry_size == VIEWS;
            if (is_kind && is_whole(&column, &validity, &entries))
                result = rewrite_column(state, &column, &call, with_hash);
            else
                PyErr_SetString(PyExc_ValueError, "the buffers are smaller than the column");
        }
        while (held > 0)
            PyBuffer_Release(&buffers[--held]);
        PyMem_Free(buffers);
    }
    if (kind == SIMPLE)
        Py_DECREF(call.rules);
    if (validity.obj)
        PyBuffer_Release(&validity);
    PyBuffer_Release(&entries);
    return result;
}

/* --- the module ----------------------------------------------------------------------------- */

static bool import_name(PyObject **place, const char *module_name, const char *name)
{
    PyObject *module = PyImport_ImportModule(module_name);
    *place = module == NULL ? NULL : PyObject_GetAttrString(module, name);
    Py_XDECREF(module);
    return *place != NULL;
}

static bool intern(PyObject **place, const char *text)
{
    return (*place = PyUnicode_InternFromString(text)) != NULL;
}

static int execute(PyObject *module)
{
    static const char reference[] = "canonry.core.normalize";
    State *state = state_of(module);
    const char *pure = getenv("CANONRY_PURE");
    if (pure != NULL && *pure != '\0' && strcmp(pure, "0") != 0) {
        PyErr_SetString(PyExc_ImportError, "CANONRY_PURE asks for the reference");
        return -1;
    }
    state->rewrite = best_rewrite();
    state->sha256 = best_sha256();
    if (!import_name(&state->normalize, reference, "normalize") ||
        !import_name(&state->normalize_many, reference, "normalize_many") ||
        !import_name(&state->normalized_or_none, reference, "normalized_or_none") ||
        !import_name(&state->canonical_hash, reference, "canonical_hash") ||
        !import_name(&state->resolved, reference, "resolved") ||
        !import_name(&state->tables_of, "canonry.core.native.policy_tables", "tables_of") ||
        !import_name((PyObject **)&state->policy_type, "canonry.core.policy", "Policy") ||
        !intern(&state->native, "native") || !intern(&state->policy, "policy") ||
        !intern(&state->bookmark, "bookmark") || !intern(&state->article, "article@0"))
        return -1;
    state->by_name = PyDict_New();
    state->rules_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &rules_spec, NULL);
    if (state->by_name == NULL || state->rules_type == NULL)
        return -1;
    const char *scanning = state->rewrite == rewrite_plain ? "plain" : "wide";
    return PyModule_AddStringConstant(module, "SCANNING", scanning);
}

static int traverse(PyObject *module, visitproc visit, void *arg)
{
    State *state = state_of(module);
    Py_VISIT(state->normalize);
    Py_VISIT(state->normalize_many);
    Py_VISIT(state->normalized_or_none);
    Py_VISIT(state->canonical_hash);
    Py_VISIT(state->resolved);
    Py_VISIT(state->tables_of);
    Py_VISIT(state->policy_type);
    Py_VISIT(state->rules_type);
    Py_VISIT(state->by_name);
    return 0;
}

static int clear(PyObject *module)
{
    State *state = state_of(module);
    Py_CLEAR(state->normalize);
    Py_CLEAR(state->normalize_many);
    Py_CLEAR(state->normalized_or_none);
    Py_CLEAR(state->canonical_hash);
    Py_CLEAR(state->resolved);
    Py_CLEAR(state->tables_of);
    Py_CLEAR(state->policy_type);
    Py_CLEAR(state->rules_type);
    Py_CLEAR(state->by_name);
    Py_CLEAR(state->native);
    Py_CLEAR(state->policy);
    Py_CLEAR(state->bookmark);
    Py_CLEAR(state->article);
    return 0;
}

static void release(void *module)
{
    clear((PyObject *)module);
}

#define METHOD(name) {#name, (PyCFunction)(void (*)(void))name, METH_FASTCALL | METH_KEYWORDS, name##_doc}

static PyMethodDef methods[] = {
    METHOD(normalize),
    METHOD(normalize_many),
    METHOD(normalize_and_hash_many),
    METHOD(canonical_hash),
    METHOD(is_simple),
    {"normalize_column", normalize_column, METH_VARARGS, normalize_column_doc},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, execute},
#if PY_VERSION_HEX >= 0x030c0000
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
#endif
#if PY_VERSION_HEX >= 0x030d0000
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "canonry.core.native._fast",
    .m_doc = "The native core: the same answers as the reference, faster.",
    .m_size = sizeof(State),
    .m_methods = methods,
    .m_slots = slots,
    .m_traverse = traverse,
    .m_clear = clear,
    .m_free = release,
};

PyMODINIT_FUNC PyInit__fast(void)
{
    return PyModuleDef_Init(&definition);
}
