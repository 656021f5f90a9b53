/* Procedures of attributes; how values are kept is in attributes.c. */
#include "binding.h"
#include "callbacks.h"

static Keyval *new_keyval(FortranCopy *copy, FortranDelete *remove, MPI_Aint extra_state)
{
    Keyval *key = allocate(sizeof *key);
    *key = (Keyval){.copy = copy, .remove = remove, .extra_state = extra_state};
    return key;
}

/* A key's state is never freed: attributes may outlive the key that was freed */
#define ATTRIBUTES(of, Of, Handle) \
    void NAME(of##_create_keyval)(FortranCopy *copy, FortranDelete *remove, int *keyval, MPI_Aint *extra_state, int *ierror) \
    { \
        Keyval *key = new_keyval(copy, remove, *extra_state); \
        int error = CALL(Of##_create_keyval)(copy_of_##of, delete_of_##of, keyval, key); \
        if (error != MPI_SUCCESS) \
            free(key); \
        give(ierror, error); \
    } \
    ALIAS(of##_create_keyval) \
    void NAME(of##_set_attr)(int *object, int *keyval, MPI_Aint *value, int *ierror) \
    { \
        void *stored = stored_attribute(*value); \
        int error = CALL(Of##_set_attr)(PMPI_##Of##_fromint(*object), keyval_in(*keyval), stored); \
        if (error != MPI_SUCCESS) \
            forget_attribute(stored); \
        give(ierror, error); \
    } \
    ALIAS(of##_set_attr) \
    void NAME(of##_get_attr)(int *object, int *keyval, MPI_Aint *value, int *flag, int *ierror) \
    { \
        void *found = NULL; \
        int error = CALL(Of##_get_attr)(PMPI_##Of##_fromint(*object), keyval_in(*keyval), &found, flag); \
        if (error == MPI_SUCCESS && *flag) \
            *value = attribute_value(keyval_in(*keyval), found); \
        give(ierror, error); \
    } \
    ALIAS(of##_get_attr)
ATTRIBUTES(comm, Comm, MPI_Comm)
ATTRIBUTES(type, Type, MPI_Datatype)
ATTRIBUTES(win, Win, MPI_Win)

/* The deprecated procedures, whose values are default integers */
void NAME(keyval_create)(FortranOldCopy *copy, FortranOldDelete *remove, int *keyval, int *extra_state, int *ierror)
{
    Keyval *key = new_keyval(NULL, NULL, *extra_state);
    key->old_copy = copy;
    key->old_remove = remove;
    int error = CALL(Keyval_create)(copy_of_comm, delete_of_comm, keyval, key);
    if (error != MPI_SUCCESS)
        free(key);
    give(ierror, error);
}
ALIAS(keyval_create)

void NAME(attr_put)(int *comm, int *keyval, int *value, int *ierror)
{
    void *stored = stored_attribute(*value);
    int error = CALL(Attr_put)(PMPI_Comm_fromint(*comm), keyval_in(*keyval), stored);
    if (error != MPI_SUCCESS)
        forget_attribute(stored);
    give(ierror, error);
}
ALIAS(attr_put)

void NAME(attr_get)(int *comm, int *keyval, int *value, int *flag, int *ierror)
{
    void *found = NULL;
    int error = CALL(Attr_get)(PMPI_Comm_fromint(*comm), keyval_in(*keyval), &found, flag);
    if (error == MPI_SUCCESS && *flag)
        *value = (int)attribute_value(keyval_in(*keyval), found);
    give(ierror, error);
}
ALIAS(attr_get)
