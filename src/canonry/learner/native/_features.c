/* The features of columns of URLs, for canonry.learner.feature_columns. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "group.h"

/* A column of texts in Arrow's memory layout, with the number of its site for each row. */
struct column {
    Py_buffer offsets, data, sites;
    Py_ssize_t rows;
    size_t longest;
};

static void close_column(struct column *column)
{
    PyBuffer_Release(&column->offsets);
    PyBuffer_Release(&column->data);
    if (column->sites.obj != NULL)
        PyBuffer_Release(&column->sites);
}

static struct text get_text(const struct column *column, Py_ssize_t row)
{
    const int32_t *offsets = column->offsets.buf;
    return (struct text){(const uint8_t *)column->data.buf + offsets[row], (size_t)(offsets[row + 1] - offsets[row])};
}

static uint32_t get_site(const struct column *column, Py_ssize_t row)
{
    return ((const uint32_t *)column->sites.buf)[row];
}

/* Check that the buffers are as long as they must be, so that nothing outside of them is read. */
static bool check_column(struct column *column)
{
    bool is_valid = column->rows >= 0 && column->offsets.len / 4 > column->rows &&
                    (column->sites.obj == NULL || column->sites.len / 4 >= column->rows);
    const int32_t *offsets = column->offsets.buf;
    for (Py_ssize_t i = 0; is_valid && i < column->rows; i++) {
        is_valid = offsets[i] >= 0 && offsets[i] <= offsets[i + 1] && offsets[i + 1] <= column->data.len;
        if (is_valid && (size_t)(offsets[i + 1] - offsets[i]) > column->longest)
            column->longest = (size_t)(offsets[i + 1] - offsets[i]);
    }
    if (!is_valid)
        PyErr_SetString(PyExc_ValueError, "the column points outside its own memory");
    return is_valid;
}

/* Rows of results, as arrays that grow together. */
struct output {
    uint32_t *rows;
    uint8_t *kinds;
    uint64_t *ids, *values, *bases;
    size_t count, capacity;
};

static bool grow_output(struct output *output)
{
    size_t capacity = output->capacity ? output->capacity * 2 : 1024;
#define GROW(name) \
    do { \
        void *grown = realloc(output->name, capacity * sizeof *output->name); \
        if (grown == NULL) \
            return false; \
        output->name = grown; \
    } while (0)
    GROW(rows);
    GROW(kinds);
    GROW(ids);
    GROW(values);
    GROW(bases);
#undef GROW
    output->capacity = capacity;
    return true;
}

static bool write_output(struct output *output, uint32_t row, struct feature feature)
{
    if (output->count == output->capacity && !grow_output(output))
        return false;
    output->rows[output->count] = row;
    output->kinds[output->count] = feature.kind;
    output->ids[output->count] = feature.id;
    output->values[output->count] = feature.value;
    output->bases[output->count++] = feature.base;
    return true;
}

static PyObject *close_output(struct output *output, bool is_done)
{
    PyObject *result = NULL;
    if (is_done && output->capacity == 0 && !grow_output(output)) /* a NULL pointer would become None */
        is_done = false;
    if (is_done)
        result = Py_BuildValue("(ny#y#y#y#y#)", (Py_ssize_t)output->count,
                               (char *)output->rows, (Py_ssize_t)(output->count * 4),
                               (char *)output->kinds, (Py_ssize_t)output->count,
                               (char *)output->ids, (Py_ssize_t)(output->count * 8),
                               (char *)output->values, (Py_ssize_t)(output->count * 8),
                               (char *)output->bases, (Py_ssize_t)(output->count * 8));
    else
        PyErr_NoMemory();
    free(output->rows);
    free(output->kinds);
    free(output->ids);
    free(output->values);
    free(output->bases);
    return result;
}

/* Which features are wanted: all, those of the set, or those whose parameter (`base`) is in the set. */
enum choice { ALL_FEATURES, LISTED_FEATURES, LISTED_BASES };

struct request {
    struct column column;
    Py_buffer groups, set_sites, set_ids;
    struct pair_set set;
    unsigned int kinds;
    int choice, is_strict;
};

static bool is_wanted(const struct request *request, uint32_t site, const struct feature *feature)
{
    if (request->choice == ALL_FEATURES)
        return true;
    return has_pair(&request->set, site, request->choice == LISTED_FEATURES ? feature->id : feature->base);
}

static bool open_set(struct request *request)
{
    Py_ssize_t count = request->set_ids.len / 8;
    if (request->set_sites.len / 4 != count) {
        PyErr_SetString(PyExc_ValueError, "a set needs as many sites as ids");
        return false;
    }
    if (fill_pair_set(&request->set, request->set_sites.buf, request->set_ids.buf, (size_t)count))
        return true;
    PyErr_NoMemory();
    return false;
}

static void close_request(struct request *request)
{
    close_column(&request->column);
    if (request->groups.obj != NULL)
        PyBuffer_Release(&request->groups);
    PyBuffer_Release(&request->set_sites);
    PyBuffer_Release(&request->set_ids);
    free(request->set.slots);
}

static bool write_varying(const struct request *request, const struct group *group, struct output *output)
{
    for (size_t i = 0; i < group->count; i++) {
        const struct variation *entry = &group->entries[i];
        struct feature feature = {entry->id, entry->least_value, entry->least_base, entry->kind};
        if (entry->is_wanted && varies(group, entry, request->is_strict) && !write_output(output, entry->row, feature))
            return false;
    }
    return true;
}

static bool find_varying_in(const struct request *request, struct group *group, uint8_t *scratch, struct output *output)
{
    static const uint32_t always = 1u << PARAM | 1u << SEG; /* what `varies` asks for */
    const uint64_t *groups = request->groups.buf;
    struct feature features[MAX_FEATURES];
    struct url_parts parts;
    for (Py_ssize_t row = 0; row < request->column.rows; row++) {
        if (row > 0 && groups[row] != groups[row - 1]) {
            if (!write_varying(request, group, output))
                return false;
            clear_group(group);
        }
        cut_url(get_text(&request->column, row), scratch, &parts);
        int count = list_features(&parts, request->is_strict ? request->kinds | always : request->kinds, features);
        group->urls++;
        if (request->is_strict && !count_forms(group, &parts, features, count))
            return false;
        for (int i = 0; i < count; i++) {
            bool wanted = (request->kinds >> features[i].kind & 1) &&
                          is_wanted(request, get_site(&request->column, row), &features[i]);
            if ((wanted || features[i].kind == PARAM) && !count_feature(group, features[i], (uint32_t)row, wanted))
                return false;
        }
    }
    return write_varying(request, group, output);
}

static PyObject *find_varying(PyObject *module, PyObject *args)
{
    struct request request = {.is_strict = 0};
    if (!PyArg_ParseTuple(args, "ny*y*y*y*Iiy*y*p", &request.column.rows, &request.column.offsets, &request.column.data,
                          &request.column.sites, &request.groups, &request.kinds, &request.choice, &request.set_sites,
                          &request.set_ids, &request.is_strict))
        return NULL;
    PyObject *result = NULL;
    if (request.groups.len / 8 < request.column.rows)
        PyErr_SetString(PyExc_ValueError, "a column needs a group for each row");
    else if (check_column(&request.column) && open_set(&request)) {
        struct output output = {0};
        struct group group = {0};
        uint8_t *scratch = malloc(request.column.longest + 1);
        bool is_done;
        Py_BEGIN_ALLOW_THREADS
        is_done = scratch != NULL && open_group(&group) && find_varying_in(&request, &group, scratch, &output);
        Py_END_ALLOW_THREADS
        close_group(&group);
        free(scratch);
        result = close_output(&output, is_done);
    }
    close_request(&request);
    return result;
}

static bool list_features_of(const struct request *request, uint8_t *scratch, struct output *output)
{
    struct feature features[MAX_FEATURES];
    struct url_parts parts;
    for (Py_ssize_t row = 0; row < request->column.rows; row++) {
        cut_url(get_text(&request->column, row), scratch, &parts);
        int count = list_features(&parts, request->kinds, features);
        for (int i = 0; i < count; i++)
            if (is_wanted(request, get_site(&request->column, row), &features[i]) &&
                !write_output(output, (uint32_t)row, features[i]))
                return false;
    }
    return true;
}

static PyObject *split(PyObject *module, PyObject *args)
{
    struct request request = {.is_strict = 0};
    if (!PyArg_ParseTuple(args, "ny*y*y*Iiy*y*", &request.column.rows, &request.column.offsets, &request.column.data,
                          &request.column.sites, &request.kinds, &request.choice, &request.set_sites, &request.set_ids))
        return NULL;
    PyObject *result = NULL;
    if (check_column(&request.column) && open_set(&request)) {
        struct output output = {0};
        uint8_t *scratch = malloc(request.column.longest + 1);
        bool is_done;
        Py_BEGIN_ALLOW_THREADS
        is_done = scratch != NULL && list_features_of(&request, scratch, &output);
        Py_END_ALLOW_THREADS
        free(scratch);
        result = close_output(&output, is_done);
    }
    close_request(&request);
    return result;
}

/* Three columns of numbers, as bytes objects. */
static PyObject *make_columns(Py_ssize_t rows, uint64_t *columns[3])
{
    PyObject *result = PyTuple_New(3);
    for (int i = 0; result != NULL && i < 3; i++) {
        PyObject *bytes = PyBytes_FromStringAndSize(NULL, rows * 8);
        if (bytes == NULL) {
            Py_CLEAR(result);
            break;
        }
        columns[i] = (uint64_t *)PyBytes_AS_STRING(bytes);
        PyTuple_SET_ITEM(result, i, bytes);
    }
    return result;
}

static PyObject *make_keys(PyObject *module, PyObject *args)
{
    struct request request = {.is_strict = 0};
    if (!PyArg_ParseTuple(args, "ny*y*y*y*y*", &request.column.rows, &request.column.offsets, &request.column.data,
                          &request.column.sites, &request.set_sites, &request.set_ids))
        return NULL;
    PyObject *result = NULL;
    uint64_t *columns[3];
    uint8_t *scratch = NULL;
    if (check_column(&request.column) && open_set(&request) && (result = make_columns(request.column.rows, columns)) != NULL) {
        size_t room = request.column.longest + 1;
        scratch = malloc(room * 2);
        if (scratch == NULL) {
            Py_CLEAR(result);
            PyErr_NoMemory();
        }
        Py_BEGIN_ALLOW_THREADS
        for (Py_ssize_t row = 0; scratch != NULL && row < request.column.rows; row++) {
            struct url_parts parts;
            struct text url = get_text(&request.column, row);
            cut_url(url, scratch, &parts);
            struct url_key key = make_key(url, &parts, get_site(&request.column, row), &request.set, scratch + room);
            columns[0][row] = key.key;
            columns[1][row] = key.order;
            columns[2][row] = key.letter_case;
        }
        Py_END_ALLOW_THREADS
    }
    free(scratch);
    close_request(&request);
    return result;
}

static PyObject *hash_texts(PyObject *module, PyObject *args)
{
    struct column column = {.longest = 0};
    int has_hosts;
    if (!PyArg_ParseTuple(args, "ny*y*p", &column.rows, &column.offsets, &column.data, &has_hosts))
        return NULL;
    PyObject *result = NULL;
    uint64_t *columns[3];
    if (check_column(&column) && (result = make_columns(column.rows, columns)) != NULL) {
        Py_BEGIN_ALLOW_THREADS
        for (Py_ssize_t row = 0; row < column.rows; row++) {
            columns[0][row] = hash_text(get_text(&column, row));
            columns[1][row] = columns[2][row] = 0;
            if (has_hosts)
                hash_host(get_text(&column, row), &columns[1][row], &columns[2][row]);
        }
        Py_END_ALLOW_THREADS
    }
    close_column(&column);
    return result;
}

static PyMethodDef methods[] = {
    {"hash_texts", hash_texts, METH_VARARGS, "64 bits of texts and, of URLs, of the host and its last two labels."},
    {"split", split, METH_VARARGS, "The features of URLs."},
    {"find_varying", find_varying, METH_VARARGS, "The features that vary in groups of URLs."},
    {"make_keys", make_keys, METH_VARARGS, "64 bits of what remains of URLs without some features."},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {
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
    .m_name = "canonry.learner.native._features",
    .m_doc = "The C code of canonry.learner.feature_columns: the same answers as url_features.py, faster.",
    .m_size = 0,
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__features(void)
{
    return PyModuleDef_Init(&definition);
}
