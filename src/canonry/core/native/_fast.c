/* The Python module: the answers of normalize.py for URLs that are provably simple (docs/decisions/0010-native-core.md).
 *
 * url.c holds the rules. Every URL that it leaves to the reference, and every call with unusual
 * arguments, goes to normalize.py with the arguments unchanged.
 */
#include "_fast.h"

#include <stdlib.h>
#ifndef _WIN32
#include <sys/stat.h>
#endif

#include "simhash.h"

static State *get_state(PyObject *module)
{
    return (State *)PyModule_GetState(module);
}

/* --- policies ------------------------------------------------------------------------------- */

/* Remember the rules of a policy, or of the name of a shipped one, for the next call. */
static void remember_rules(State *state, PyObject *policy, Rules *rules)
{
#ifndef Py_GIL_DISABLED
    PyObject *policy_before = state->last_policy, *rules_before = (PyObject *)state->last_rules;
    state->last_policy = Py_NewRef(policy);
    state->last_rules = (Rules *)Py_NewRef(rules);
    Py_XDECREF(policy_before); /* only now, because it may run other code */
    Py_XDECREF(rules_before);
#endif
}

/* The rules of a policy, made at its first use. A new reference; NULL with an exception set. */
static Rules *get_policy_rules(State *state, PyObject *policy)
{
    PyObject *known = PyObject_GetAttr(policy, state->native);
    if (known != NULL && Py_TYPE(known) == state->rules_type)
        remember_rules(state, policy, (Rules *)known);
    if (known == NULL || Py_TYPE(known) == state->rules_type)
        return (Rules *)known;
    Py_DECREF(known);
    PyObject *tables = PyObject_CallOneArg(state->make_tables, policy);
    if (tables == NULL)
        return NULL;
    Rules *rules = (Rules *)state->rules_type->tp_alloc(state->rules_type, 0);
    if (rules != NULL) {
        rules->rules = NULL;
        if (tables != Py_None && (rules->rules = new_rules(tables)) == NULL)
            Py_CLEAR(rules);
    }
    Py_DECREF(tables);
    /* The policy is frozen except for this field. Two threads may both get here; their rules are equal. */
    if (rules != NULL && PyObject_GenericSetAttr(policy, state->native, (PyObject *)rules) < 0)
        Py_CLEAR(rules);
    return rules;
}

/* Whether there is certainly no overrides file: no variable, no settings file, nothing at the default place. The same
 * as asking overrides_setting.py, which takes thirty times as long. */
static bool is_without_overrides(State *state)
{
#ifdef _WIN32
    return false;
#else
    struct stat found;
    const char *variable = PyUnicode_AsUTF8(state->overrides_variable);
    const char *settings_file = PyUnicode_AsUTF8(state->settings_file);
    const char *default_place = PyUnicode_AsUTF8(state->default_overrides);
    const char *named = getenv(variable);
    return (named == NULL || *named == '\0') && lstat(settings_file, &found) != 0 && lstat(default_place, &found) != 0;
#endif
}

/* The dict to keep the rules of a name in: NULL if the overrides file decides what it means, or with an exception set. */
static PyObject *choose_memory(State *state, PyObject *name, PyObject *policy)
{
    PyObject *overrides = PyObject_GetAttrString(policy, "overrides");
    if (overrides == NULL)
        return NULL;
    bool has_overrides = overrides != Py_None;
    Py_DECREF(overrides);
    if (has_overrides)
        return NULL;
    int takes_overrides = PySet_Contains(state->takes_overrides, name);
    if (takes_overrides < 0)
        return NULL;
    return takes_overrides ? state->rules_without_overrides : state->rules_by_name;
}

/* The value of a key of a dict. A new reference; NULL if there is none or with an exception set. */
static PyObject *get_item(PyObject *dict, PyObject *key)
{
#if PY_VERSION_HEX >= 0x030d0000
    PyObject *found;
    PyDict_GetItemRef(dict, key, &found);
    return found;
#else
    return Py_XNewRef(PyDict_GetItemWithError(dict, key));
#endif
}

/* The rules of the shipped policy with this name or id. A new reference; NULL with an exception set. */
static Rules *get_named_rules(State *state, PyObject *name)
{
    PyObject *known = get_item(state->rules_by_name, name);
    if (known != NULL)
        remember_rules(state, name, (Rules *)known);
    if (known != NULL || PyErr_Occurred())
        return (Rules *)known;
    Rules *rules = (Rules *)get_item(state->rules_without_overrides, name);
    if (PyErr_Occurred() || (rules != NULL && is_without_overrides(state)))
        return rules;
    Py_XDECREF(rules);
    PyObject *policy = PyObject_CallOneArg(state->resolve_policy, name);
    if (policy == NULL)
        return NULL;
    rules = get_policy_rules(state, policy);
    PyObject *memory = rules == NULL ? NULL : choose_memory(state, name, policy);
    Py_DECREF(policy);
    if (memory != NULL)
        PyDict_SetItem(memory, name, (PyObject *)rules);
    if (PyErr_Occurred())
        Py_CLEAR(rules);
    return rules;
}

PyDoc_STRVAR(resolve_policy_doc, "resolve_policy($module, policy, /)\n--\n\n"
"Return the policy itself, or the shipped one of that name or id, as normalize.resolve_policy does.");

static PyObject *resolve_policy(PyObject *module, PyObject *named)
{
    State *state = get_state(module);
    if (!PyUnicode_CheckExact(named))
        return PyObject_CallOneArg(state->resolve_policy, named);
    PyObject *known = get_item(state->policies_without_overrides, named);
    if (PyErr_Occurred() || (known != NULL && is_without_overrides(state)))
        return known;
    Py_XDECREF(known);
    PyObject *policy = PyObject_CallOneArg(state->resolve_policy, named);
    PyObject *memory = policy == NULL ? NULL : choose_memory(state, named, policy);
    if (memory == state->rules_without_overrides)
        PyDict_SetItem(state->policies_without_overrides, named, policy);
    if (PyErr_Occurred())
        Py_CLEAR(policy);
    return policy;
}

/* --- calls ---------------------------------------------------------------------------------- */

enum call_kind read_call(State *state, PyObject *const *args, Py_ssize_t count, PyObject *names,
                         PyObject *default_policy, struct call *call)
{
    Py_ssize_t named = names == NULL ? 0 : PyTuple_GET_SIZE(names);
    if (count < 1 || count + named > 2)
        return CALL_UNUSUAL;
    if (named == 1) {
        int is_policy = PyUnicode_Compare(PyTuple_GET_ITEM(names, 0), state->policy) == 0;
        if (PyErr_Occurred())
            return CALL_FAILED;
        if (!is_policy)
            return CALL_UNUSUAL;
    }
    call->first = args[0];
    call->policy = count + named == 2 ? args[1] : default_policy;
#ifndef Py_GIL_DISABLED
    if (call->policy == state->last_policy) {
        call->rules = (Rules *)Py_NewRef(state->last_rules);
        return CALL_USUAL;
    }
#endif
    if (PyUnicode_CheckExact(call->policy))
        call->rules = get_named_rules(state, call->policy);
    else if (Py_TYPE(call->policy) == state->policy_type)
        call->rules = get_policy_rules(state, call->policy);
    else
        return CALL_UNUSUAL;
    return call->rules == NULL ? CALL_FAILED : CALL_USUAL;
}

/* Encode a text beyond ASCII as UTF-8. Returns the length; 0 if it is too long or holds a surrogate. */
static size_t encode_utf8(PyObject *text, uint8_t bytes[MAX_URL_BYTES])
{
    Py_ssize_t length = PyUnicode_GET_LENGTH(text);
    int kind = PyUnicode_KIND(text);
    const void *data = PyUnicode_DATA(text);
    size_t written = 0;
    for (Py_ssize_t i = 0; i < length; i++) {
        Py_UCS4 c = PyUnicode_READ(kind, data, i);
        if (written > MAX_URL_BYTES - 4 || Py_UNICODE_IS_SURROGATE(c))
            return 0;
        if (c < 0x80) {
            bytes[written++] = (uint8_t)c;
            continue;
        }
        /* The lead byte has as many 1 bits as the character has bytes; each further byte is 10xxxxxx.
         *
         *     more = 1   110xxxxx 10xxxxxx                      0xf80 >> 1 = 0x7c0, its low byte is 0xc0
         *     more = 2   1110xxxx 10xxxxxx 10xxxxxx             0xf80 >> 2 = 0x3e0, its low byte is 0xe0
         *     more = 3   11110xxx 10xxxxxx 10xxxxxx 10xxxxxx    0xf80 >> 3 = 0x1f0, its low byte is 0xf0
         */
        int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
        bytes[written++] = (uint8_t)((0xf80 >> more) | c >> (6 * more));
        while (more-- > 0)
            bytes[written++] = (uint8_t)(0x80 | (c >> (6 * more) & 0x3f));
    }
    return written;
}

COLD static ptrdiff_t rewrite_beyond_ascii(const State *state, const Rules *rules, PyObject *url,
                                           uint8_t out[ANSWER_BYTES])
{
    uint8_t bytes[MAX_URL_BYTES];
    size_t length = encode_utf8(url, bytes);
    return state->rewrite(rules->rules, bytes, length, out);
}

/* Rewrite a Python object as a rewrite_function does a text; NEEDS_REFERENCE if it is not a str. */
static inline ptrdiff_t rewrite_object(const State *state, const Rules *rules, PyObject *url, uint8_t out[ANSWER_BYTES])
{
    if (!PyUnicode_CheckExact(url) || rules->rules == NULL)
        return NEEDS_REFERENCE;
    if (!PyUnicode_IS_COMPACT_ASCII(url))
        return PyUnicode_IS_READY(url) ? rewrite_beyond_ascii(state, rules, url, out) : NEEDS_REFERENCE;
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
"Normalize a URL under a policy; InvalidUrl if it is not an http(s) URL.");

static PyObject *normalize(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    State *state = get_state(module);
    uint8_t out[ANSWER_BYTES];
    struct call call;
    enum call_kind kind = read_call(state, args, count, names, state->bookmark, &call);
    if (kind == CALL_FAILED)
        return NULL;
    ptrdiff_t length = NEEDS_REFERENCE;
    if (kind == CALL_USUAL) {
        length = rewrite_object(state, call.rules, call.first, out);
        Py_DECREF(call.rules);
    }
    if (length == NEEDS_REFERENCE)
        return PyObject_Vectorcall(state->normalize, args, (size_t)count, names);
    return length == UNCHANGED ? Py_NewRef(call.first) : new_text(out, (size_t)length);
}

PyDoc_STRVAR(canonical_hash_doc, "canonical_hash($module, /, url, policy='article@0')\n--\n\n"
"Return the hex sha256 of the normalized URL (contract N6).");

static PyObject *canonical_hash(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    State *state = get_state(module);
    uint8_t out[ANSWER_BYTES];
    struct call call;
    enum call_kind kind = read_call(state, args, count, names, state->article, &call);
    if (kind == CALL_FAILED)
        return NULL;
    ptrdiff_t length = NEEDS_REFERENCE;
    if (kind == CALL_USUAL) {
        length = rewrite_object(state, call.rules, call.first, out);
        Py_DECREF(call.rules);
    }
    if (length == NEEDS_REFERENCE)
        return PyObject_Vectorcall(state->canonical_hash, args, (size_t)count, names);
    if (length != UNCHANGED)
        return new_hash(state, out, (size_t)length);
    Py_ssize_t text_length;
    const char *text = PyUnicode_AsUTF8AndSize(call.first, &text_length);
    return text == NULL ? NULL : new_hash(state, (const uint8_t *)text, (size_t)text_length);
}

/* The normalized URL, or None if it is not valid; a new reference. */
static PyObject *normalize_one(const State *state, const struct call *call, PyObject *url)
{
    uint8_t out[ANSWER_BYTES];
    ptrdiff_t length = rewrite_object(state, call->rules, url, out);
    if (length == UNCHANGED)
        return Py_NewRef(url);
    if (length > 0)
        return new_text(out, (size_t)length);
    return PyObject_CallFunctionObjArgs(state->normalize_or_none, url, call->policy, NULL);
}

/* The pair (normalized URL, its hash), or None if it is not valid; a new reference. */
static PyObject *normalize_and_hash_one(const State *state, const struct call *call, PyObject *url)
{
    PyObject *answer = normalize_one(state, call, url);
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

static PyObject *normalize_each(const State *state, const struct call *call, answer_function answer)
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
"Normalize each URL; None for one that is not valid.");

static PyObject *normalize_many(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    State *state = get_state(module);
    struct call call;
    enum call_kind kind = read_call(state, args, count, names, state->bookmark, &call);
    if (kind == CALL_FAILED)
        return NULL;
    if (kind == CALL_UNUSUAL)
        return PyObject_Vectorcall(state->normalize_many, args, (size_t)count, names);
    PyObject *answers = normalize_each(state, &call, normalize_one);
    Py_DECREF(call.rules);
    return answers;
}

PyDoc_STRVAR(normalize_and_hash_many_doc, "normalize_and_hash_many($module, /, urls, policy='bookmark')\n--\n\n"
"Return (normalized URL, hex sha256) for each URL; None for one that is not valid.");

static PyObject *normalize_and_hash_many(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    State *state = get_state(module);
    struct call call;
    enum call_kind kind = read_call(state, args, count, names, state->bookmark, &call);
    if (kind == CALL_UNUSUAL)
        PyErr_SetString(PyExc_TypeError, "policy must be a Policy or the name of one");
    if (kind != CALL_USUAL)
        return NULL;
    PyObject *answers = normalize_each(state, &call, normalize_and_hash_one);
    Py_DECREF(call.rules);
    return answers;
}

PyDoc_STRVAR(is_simple_doc, "is_simple($module, /, url, policy='bookmark')\n--\n\n"
"Return whether the C code answers for this URL itself, without the reference.");

static PyObject *is_simple(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    State *state = get_state(module);
    uint8_t out[ANSWER_BYTES];
    struct call call;
    enum call_kind kind = read_call(state, args, count, names, state->bookmark, &call);
    if (kind == CALL_UNUSUAL)
        PyErr_SetString(PyExc_TypeError, "policy must be a Policy or the name of one");
    if (kind != CALL_USUAL)
        return NULL;
    ptrdiff_t length = rewrite_object(state, call.rules, call.first, out);
    Py_DECREF(call.rules);
    return PyBool_FromLong(length != NEEDS_REFERENCE);
}

PyDoc_STRVAR(simhash_doc, "simhash($module, text, /)\n--\n\n"
"Return the simhash of a text whose words are separated by single spaces; 0 for an empty text.");

static PyObject *simhash(PyObject *module, PyObject *text)
{
    Py_ssize_t length;
    const char *bytes = PyUnicode_AsUTF8AndSize(text, &length);
    return bytes == NULL ? NULL : PyLong_FromUnsignedLongLong(simhash_text((const uint8_t *)bytes, (size_t)length));
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
    static const char reference[] = "canonry.core.normalize", overrides[] = "canonry.core.configured_overrides";
    State *state = get_state(module);
    const char *pure = getenv("CANONRY_PURE");
    if (pure != NULL && *pure != '\0' && strcmp(pure, "0") != 0) {
        PyErr_SetString(PyExc_ImportError, "CANONRY_PURE is set: the pure Python core is used");
        return -1;
    }
    const struct rewriter *rewriter = choose_rewriter(getenv("CANONRY_SCANNING")); /* for tests */
    if (rewriter == NULL)
        rewriter = choose_rewriter(NULL);
    state->rewrite = rewriter->rewrite;
    state->sha256 = choose_sha256();
    if (!import_name(&state->normalize, reference, "normalize") ||
        !import_name(&state->normalize_many, reference, "normalize_many") ||
        !import_name(&state->normalize_or_none, reference, "normalize_or_none") ||
        !import_name(&state->canonical_hash, reference, "canonical_hash") ||
        !import_name(&state->resolve_policy, reference, "resolve_policy") ||
        !import_name(&state->takes_overrides, overrides, "TAKES_OVERRIDES") ||
        !import_name(&state->overrides_variable, overrides, "OVERRIDES_VARIABLE") ||
        !import_name(&state->settings_file, overrides, "SETTINGS_FILE") ||
        !import_name(&state->default_overrides, overrides, "DEFAULT_OVERRIDES") ||
        !import_name(&state->make_tables, "canonry.core.native.policy_tables", "make_tables") ||
        !import_name((PyObject **)&state->policy_type, "canonry.core.policy", "Policy") ||
        !intern(&state->native, "native") || !intern(&state->policy, "policy") ||
        !intern(&state->bookmark, "bookmark") || !intern(&state->article, "article@0"))
        return -1;
    state->rules_by_name = PyDict_New();
    state->rules_without_overrides = PyDict_New();
    state->policies_without_overrides = PyDict_New();
    state->rules_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &rules_spec, NULL);
    if (state->rules_by_name == NULL || state->rules_without_overrides == NULL ||
        state->policies_without_overrides == NULL || state->rules_type == NULL)
        return -1;
    return PyModule_AddStringConstant(module, "SCANNING", rewriter->name);
}

static int traverse(PyObject *module, visitproc visit, void *arg)
{
    State *state = get_state(module);
    Py_VISIT(state->normalize);
    Py_VISIT(state->normalize_many);
    Py_VISIT(state->normalize_or_none);
    Py_VISIT(state->canonical_hash);
    Py_VISIT(state->resolve_policy);
    Py_VISIT(state->make_tables);
    Py_VISIT(state->takes_overrides);
    Py_VISIT(state->policy_type);
    Py_VISIT(state->rules_type);
    Py_VISIT(state->rules_by_name);
    Py_VISIT(state->rules_without_overrides);
    Py_VISIT(state->policies_without_overrides);
    Py_VISIT(state->last_policy);
    Py_VISIT(state->last_rules);
    return 0;
}

static int clear(PyObject *module)
{
    State *state = get_state(module);
    Py_CLEAR(state->normalize);
    Py_CLEAR(state->normalize_many);
    Py_CLEAR(state->normalize_or_none);
    Py_CLEAR(state->canonical_hash);
    Py_CLEAR(state->resolve_policy);
    Py_CLEAR(state->make_tables);
    Py_CLEAR(state->takes_overrides);
    Py_CLEAR(state->policy_type);
    Py_CLEAR(state->rules_type);
    Py_CLEAR(state->rules_by_name);
    Py_CLEAR(state->rules_without_overrides);
    Py_CLEAR(state->policies_without_overrides);
    Py_CLEAR(state->overrides_variable);
    Py_CLEAR(state->settings_file);
    Py_CLEAR(state->default_overrides);
    Py_CLEAR(state->last_policy);
    Py_CLEAR(state->last_rules);
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
    {"resolve_policy", resolve_policy, METH_O, resolve_policy_doc},
    {"simhash", simhash, METH_O, simhash_doc},
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
    .m_doc = "The C code of canonry.core.native: the same answers as normalize.py, faster.",
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
