#define PY_SSIZE_T_CLEAN
#include "policy_rules.h"

#include "overrides.h"
#include "sites.h"

static void free_rules(struct rules *rules)
{
    if (rules == NULL)
        return;
    for (size_t i = 0; rules->names && i < rules->names_count; i++) {
        PyMem_Free(rules->names[i].exact);
        PyMem_Free(rules->names[i].prefixes);
        PyMem_Free(rules->names[i].text);
    }
    PyMem_Free(rules->names);
    PyMem_Free(rules->hosts.each);
    PyMem_Free(rules->hosts.text);
    PyMem_Free((void *)rules->site_program);
    PyMem_Free(rules->records);
    PyMem_Free(rules->overrides);
    PyMem_Free(rules->override_program);
    PyMem_Free((void *)rules->whole);
    PyMem_Free(rules);
}

void *new_array(size_t count, size_t size)
{
    void *array = PyMem_Calloc(count ? count : 1, size);
    if (array == NULL)
        PyErr_NoMemory();
    return array;
}

/* Fill a list from a tuple of bytes: lower-case names of parameters, with a `*` at the end of a prefix. */
static bool read_names(struct names *names, PyObject *tuple)
{
    Py_ssize_t count = PyTuple_GET_SIZE(tuple);
    size_t total = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *name = PyTuple_GET_ITEM(tuple, i);
        if (!PyBytes_Check(name) || PyBytes_GET_SIZE(name) < 1 || PyBytes_GET_SIZE(name) > MAX_NAME_BYTES) {
            PyErr_SetString(PyExc_ValueError, "invalid rule table: a name must have 1 to 255 bytes");
            return false;
        }
        total += (size_t)PyBytes_GET_SIZE(name);
    }
    if (total > UINT16_MAX || count >= UINT16_MAX) {
        PyErr_SetString(PyExc_ValueError, "invalid rule table: too many names");
        return false;
    }
    names->text = new_array(total, 1);
    names->exact = new_array((size_t)count, sizeof *names->exact);
    names->prefixes = new_array((size_t)count, sizeof *names->prefixes);
    if (!names->text || !names->exact || !names->prefixes)
        return false;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *name = PyTuple_GET_ITEM(tuple, i);
        add_name(names, (const uint8_t *)PyBytes_AS_STRING(name), (size_t)PyBytes_GET_SIZE(name));
    }
    return true;
}

/* Read (host as bytes, its HOST_ flags, the index of its list of names, of its override, its first record, its first
 * record and the number of records as a domain) and check it. */
static bool read_host(const struct rules *rules, PyObject *tuple, const char **bytes, Py_ssize_t *length, struct host *host)
{
    unsigned char flags;
    unsigned short names;
    unsigned int override, record, domain, count;
    if (!PyArg_ParseTuple(tuple, "y#bHIIII:host", bytes, length, &flags, &names, &override, &record, &domain, &count))
        return false;
    if (*length < 1 || *length > UINT16_MAX || names >= rules->names_count || (record && record >= rules->record_count) ||
        domain > rules->record_count || count > rules->record_count - domain ||
        (flags & HOST_HAS_OVERRIDE && override >= rules->override_count)) {
        PyErr_SetString(PyExc_ValueError, "invalid rule table: a host must have 1 to 65535 bytes and existing lists");
        return false;
    }
    *host = (struct host){
        .names = names, .flags = flags, .override = override, .record = record, .domain_record = domain, .domain_count = count};
    return true;
}

/* Fill the hosts from a tuple of the tuples that read_host reads. */
static bool read_hosts(struct rules *rules, PyObject *tuple)
{
    struct hosts *hosts = &rules->hosts;
    Py_ssize_t count = PyTuple_GET_SIZE(tuple);
    size_t total = 0;
    hosts->each = new_array((size_t)count, sizeof *hosts->each);
    if (hosts->each == NULL)
        return false;
    for (Py_ssize_t i = 0; i < count; i++) {
        const char *bytes;
        Py_ssize_t length;
        struct host host;
        if (!read_host(rules, PyTuple_GET_ITEM(tuple, i), &bytes, &length, &host))
            return false;
        total += (size_t)length;
    }
    if (total > UINT32_MAX / 2) {
        PyErr_SetString(PyExc_ValueError, "invalid rule table: too many hosts");
        return false;
    }
    hosts->text = new_array(total, 1);
    if (hosts->text == NULL)
        return false;
    for (Py_ssize_t i = 0; i < count; i++) {
        const char *bytes;
        Py_ssize_t length;
        struct host host;
        if (!read_host(rules, PyTuple_GET_ITEM(tuple, i), &bytes, &length, &host))
            return false;
        add_host(hosts, (const uint8_t *)bytes, (size_t)length, host);
        rules->has_code_sites |= (host.flags & (HOST_IS_SITE | HOST_IS_DOMAIN)) != 0;
    }
    return true;
}

/* A copy of bytes; NULL with MemoryError set if there is no memory. */
static void *copy_bytes(const char *bytes, Py_ssize_t length)
{
    void *copy = new_array((size_t)length, 1);
    if (copy != NULL && length)
        memcpy(copy, bytes, (size_t)length);
    return copy;
}

/* Read the records at these places of the program, each a number of four bytes, the lowest first. */
static bool read_records(struct rules *rules, const char *places, size_t count)
{
    rules->records = new_array(count, sizeof *rules->records);
    if (rules->records == NULL)
        return false;
    for (size_t i = 0; i < count; i++) {
        uint32_t place = read_u32((const uint8_t *)places + 4 * i);
        if (place >= rules->program_bytes) {
            PyErr_SetString(PyExc_ValueError, "invalid rule table: a record must be inside the program");
            return false;
        }
        read_record(rules->site_program + place, &rules->records[i]);
    }
    rules->record_count = count;
    return true;
}

/* Read the overrides from a tuple of the bytes that override_programs.py writes, one for each host. */
static bool read_overrides(struct rules *rules, PyObject *tuple)
{
    size_t count = (size_t)PyTuple_GET_SIZE(tuple), total = 0, used = 0;
    if (count == 0)
        return true;
    for (size_t i = 0; i < count; i++) {
        PyObject *program = PyTuple_GET_ITEM(tuple, (Py_ssize_t)i);
        if (!PyBytes_Check(program)) {
            PyErr_SetString(PyExc_TypeError, "invalid rule table: overrides must be bytes");
            return false;
        }
        total += (size_t)PyBytes_GET_SIZE(program);
    }
    rules->override_program = new_array(total, 1);
    rules->overrides = new_array(count, sizeof *rules->overrides);
    if (rules->override_program == NULL || rules->overrides == NULL)
        return false;
    for (size_t i = 0; i < count; i++) {
        PyObject *program = PyTuple_GET_ITEM(tuple, (Py_ssize_t)i);
        uint8_t *at = rules->override_program + used;
        size_t length = (size_t)PyBytes_GET_SIZE(program);
        memcpy(at, PyBytes_AS_STRING(program), length);
        used += length;
        if (!read_override(at, at + length, &rules->overrides[i])) {
            PyErr_SetString(PyExc_ValueError, "invalid rule table: an override ends too early");
            return false;
        }
    }
    rules->override_count = count;
    return true;
}

/* Look up what rule 9 drops on each main host that does not depend on the URL. */
static void set_record_names(struct rules *rules)
{
    enum { SCHEME = 8 }; /* https:// */
    for (size_t i = 0; i < rules->record_count; i++) {
        struct site_record *record = &rules->records[i];
        if (record->prefix_bytes == 0 || record->takes_label)
            continue;
        const struct host *main = find_host(&rules->hosts, record->prefix + SCHEME, record->prefix_bytes - (size_t)SCHEME);
        record->names = &rules->names[main && main->flags & HOST_HAS_NAMES ? main->names : 0];
    }
}

/* The rules for an address that is kept whole: those of `rules` with every switch off. They use its names. */
static struct rules *new_whole_rules(const struct rules *rules)
{
    struct rules *whole = new_array(1, sizeof *whole);
    if (whole != NULL) {
        whole->parse = true;
        whole->fragment = rules->fragment == FRAGMENT_DROP ? FRAGMENT_DROP : FRAGMENT_KEEP;
        whole->names = rules->names;
        whole->names_count = rules->names_count;
    }
    return whole;
}

struct rules *new_rules(PyObject *tables)
{
    int parse, www, escapes, slashes, trailing, sorting, embedded, fragment;
    PyObject *names, *hosts, *overrides;
    const char *program, *records;
    Py_ssize_t program_bytes, record_bytes;
    if (!PyArg_ParseTuple(tables, "(ppppppp)iO!O!y#y#O!:rules", &parse, &www, &escapes, &slashes, &trailing, &sorting,
                          &embedded, &fragment, &PyTuple_Type, &names, &PyTuple_Type, &hosts, &program, &program_bytes,
                          &records, &record_bytes, &PyTuple_Type, &overrides))
        return NULL;
    Py_ssize_t count = PyTuple_GET_SIZE(names);
    if (count < 1 || count > UINT16_MAX || fragment < FRAGMENT_DROP || fragment > FRAGMENT_CLEAN) {
        PyErr_SetString(PyExc_ValueError, "invalid rule table: unknown fragment option, or no lists of names");
        return NULL;
    }
    struct rules *rules = new_array(1, sizeof *rules);
    if (rules == NULL)
        return NULL;
    rules->parse = parse;
    rules->strip_www = www;
    rules->normalize_escapes = escapes;
    rules->collapse_slashes = slashes;
    rules->strip_trailing_slash = trailing;
    rules->sort_params = sorting;
    rules->keep_embedded = embedded;
    rules->fragment = (enum fragment)fragment;
    rules->names = new_array((size_t)count, sizeof *rules->names);
    rules->site_program = copy_bytes(program, program_bytes);
    rules->program_bytes = (size_t)program_bytes;
    bool is_valid = rules->names != NULL && rules->site_program != NULL &&
                    read_records(rules, records, (size_t)record_bytes / 4) && read_overrides(rules, overrides);
    if (is_valid)
        rules->names_count = (size_t)count;
    for (Py_ssize_t i = 0; is_valid && i < count; i++) {
        PyObject *list = PyTuple_GET_ITEM(names, i);
        is_valid = PyTuple_Check(list) && read_names(&rules->names[i], list);
        rules->strip_params |= is_valid && PyTuple_GET_SIZE(list) > 0;
    }
    if (is_valid && read_hosts(rules, hosts) && (rules->whole = new_whole_rules(rules)) != NULL) {
        set_record_names(rules);
        return rules;
    }
    if (!PyErr_Occurred())
        PyErr_SetString(PyExc_TypeError, "invalid rule table: names must be tuples");
    free_rules(rules);
    return NULL;
}

static void rules_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    free_rules(((Rules *)self)->rules);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyType_Slot rules_slots[] = {
    {Py_tp_doc, "A policy made ready for the native core."},
    {Py_tp_dealloc, rules_dealloc},
    {0, NULL},
};
PyType_Spec rules_spec = {
    .name = "canonry.core.native._fast.Rules",
    .basicsize = sizeof(Rules),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = rules_slots,
};
