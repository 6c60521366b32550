/* The state of the module and the arguments of a call, shared by the files that use the Python API. */
#ifndef CANONRY_FAST_H
#define CANONRY_FAST_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "policy_rules.h"
#include "sha256.h"
#include "url.h"

typedef struct {
    PyObject *normalize, *normalize_many, *normalize_or_none, *canonical_hash; /* the reference */
    PyObject *resolve_policy, *make_tables;
    PyTypeObject *policy_type, *rules_type;
    PyObject *takes_overrides; /* frozenset of the names that depend on the overrides file */
    PyObject *overrides_variable, *settings_file, *default_overrides; /* what may name that file, and its default place */
    PyObject *rules_without_overrides; /* dict of such a name to its Rules where no file is configured */
    PyObject *policies_without_overrides; /* the same for its Policy */
    PyObject *rules_by_name; /* dict of name or id to Rules; only shipped policies, so it stays small */
    PyObject *last_policy; /* of the last call, a Policy or a key of rules_by_name: most programs use one again and again */
    Rules *last_rules;
    PyObject *native, *policy, *bookmark, *article; /* interned strings */
    rewrite_function rewrite;
    sha256_function sha256;
} State;

/* The arguments of a function (first, policy="…"), where `first` is a URL or several. */
struct call {
    PyObject *first, *policy;
    Rules *rules; /* a new reference if read_call returned CALL_USUAL */
};

/* CALL_FAILED: an exception is set. CALL_UNUSUAL: the arguments are for the reference, for example a subclass of str. */
enum call_kind { CALL_FAILED = -1, CALL_UNUSUAL = 0, CALL_USUAL = 1 };

/* Read `count` positional arguments, then the named ones. */
enum call_kind read_call(State *state, PyObject *const *args, Py_ssize_t count, PyObject *names,
                         PyObject *default_policy, struct call *call);

PyObject *normalize_column(PyObject *module, PyObject *args);
extern const char normalize_column_doc[];

#endif
