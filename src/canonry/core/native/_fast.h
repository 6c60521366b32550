/* What the files that speak to Python share: the state of the module and the arguments of a call. */
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
    PyObject *rules_by_name; /* Rules by policy name or id; of shipped policies only, so it stays small */
    PyObject *native, *policy, *bookmark, *article; /* interned strings */
    rewrite_function rewrite;
    sha256_function sha256;
} State;

/* The arguments of a function of (something, policy="…"). */
struct call {
    PyObject *first, *policy;
    Rules *rules; /* a new reference, if the call is CALL_USUAL */
};

/* CALL_UNUSUAL: other arguments, for example a subclass of str; the reference decides about them. */
enum call_kind { CALL_FAILED = -1, CALL_UNUSUAL = 0, CALL_USUAL = 1 };

/* Read `count` positional and then the named arguments; `otherwise` is the policy if none is given. */
enum call_kind read_call(State *state, PyObject *const *args, Py_ssize_t count, PyObject *names, PyObject *otherwise,
                         struct call *call);

PyObject *normalize_column(PyObject *module, PyObject *args);
extern const char normalize_column_doc[];

#endif
