/* Build the tables of rules.h from a Policy, by way of the tuples that policy_tables.py makes. */
#ifndef CANONRY_POLICY_RULES_H
#define CANONRY_POLICY_RULES_H

#include <Python.h>

#include "rules.h"

/* The tables of a policy as a Python object. It is never changed after it was made, so threads may share it. */
typedef struct {
    PyObject_HEAD
    struct rules *rules; /* NULL: the tables do not fit, the reference answers everything */
} Rules;

extern PyType_Spec rules_spec;

/* The rules in a tuple (switches, fragment, names, hosts, site program, places of its records, overrides); NULL with an
 * exception set if it is not valid. */
struct rules *new_rules(PyObject *tables);

/* A zeroed array, never of size 0; NULL with MemoryError set if there is no memory. */
void *new_array(size_t count, size_t size);

#endif
