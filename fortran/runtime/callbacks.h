/* Functions of the Fortran program that C calls: types, and how they become C functions (callbacks.c). */
#ifndef FERRULE_FORTRAN_CALLBACKS_H
#define FERRULE_FORTRAN_CALLBACKS_H

#include <mpi.h>

/* User operations; vectors are addresses in every binding */
typedef void FortranOp(void *invec, void *inoutvec, int *len, int *datatype);
typedef void FortranOpLarge(void *invec, void *inoutvec, MPI_Count *len, int *datatype);
/* Error handlers of all objects */
typedef void FortranErrhandler(int *object, int *error_code);
/* Attributes, with values of MPI_ADDRESS_KIND and, of MPI_KEYVAL_CREATE, with default integers */
typedef void FortranCopy(int *object, int *keyval, MPI_Aint *extra_state, MPI_Aint *in, MPI_Aint *out, int *flag, int *ierror);
typedef void FortranDelete(int *object, int *keyval, MPI_Aint *value, MPI_Aint *extra_state, int *ierror);
typedef void FortranOldCopy(int *comm, int *keyval, int *extra_state, int *in, int *out, int *flag, int *ierror);
typedef void FortranOldDelete(int *comm, int *keyval, int *value, int *extra_state, int *ierror);
/* Generalized requests */
typedef void FortranQuery(MPI_Aint *extra_state, int *status, int *ierror);
typedef void FortranFree(MPI_Aint *extra_state, int *ierror);
typedef void FortranCancel(MPI_Aint *extra_state, int *complete, int *ierror);
/* Data representations */
typedef void FortranExtent(int *datatype, MPI_Aint *extent, MPI_Aint *extra_state, int *ierror);
typedef void FortranConversion(void *userbuf, int *datatype, int *count, void *filebuf, MPI_Offset *position,
    MPI_Aint *extra_state, int *ierror);
typedef void FortranConversionLarge(void *userbuf, int *datatype, MPI_Count *count, void *filebuf, MPI_Offset *position,
    MPI_Aint *extra_state, int *ierror);

/* C functions that call these; null if there are too many different ones */
MPI_User_function *op_in_c(FortranOp *function);
MPI_User_function_c *op_in_c_large(FortranOpLarge *function);
MPI_Comm_errhandler_function *comm_errhandler_in_c(FortranErrhandler *function);
MPI_File_errhandler_function *file_errhandler_in_c(FortranErrhandler *function);
MPI_Win_errhandler_function *win_errhandler_in_c(FortranErrhandler *function);
MPI_Session_errhandler_function *session_errhandler_in_c(FortranErrhandler *function);

/*
 * What a generalized request's functions get as extra state. They are passed a copy of the program's extra state (`kept`), or, as programs for
 * MPICH know it, the program's variable itself.
 */
typedef struct {
    FortranQuery *query;
    FortranFree *release;
    FortranCancel *cancel;
    MPI_Aint kept, *extra_state;
} Grequest;
int grequest_query(void *state, MPI_Status *status);
int grequest_free(void *state);
int grequest_cancel(void *state, int complete);

/* What a data representation's functions get, likewise; it stays as long as MPI does */
typedef struct {
    FortranConversion *read, *write;
    FortranConversionLarge *read_large, *write_large;
    FortranExtent *extent;
    MPI_Aint kept, *extra_state;
} Datarep;
int datarep_extent(MPI_Datatype datatype, MPI_Aint *extent, void *state);
int datarep_read(void *userbuf, MPI_Datatype datatype, int count, void *filebuf, MPI_Offset position, void *state);
int datarep_write(void *userbuf, MPI_Datatype datatype, int count, void *filebuf, MPI_Offset position, void *state);
int datarep_read_large(void *userbuf, MPI_Datatype datatype, MPI_Count count, void *filebuf, MPI_Offset position, void *state);
int datarep_write_large(void *userbuf, MPI_Datatype datatype, MPI_Count count, void *filebuf, MPI_Offset position, void *state);

/* Attribute keys (attributes.c) */
typedef struct {
    FortranCopy *copy;
    FortranDelete *remove;
    FortranOldCopy *old_copy;
    FortranOldDelete *old_remove;
    MPI_Aint extra_state;
} Keyval;
int copy_of_comm(MPI_Comm comm, int keyval, void *state, void *in, void *out, int *flag);
int copy_of_type(MPI_Datatype datatype, int keyval, void *state, void *in, void *out, int *flag);
int copy_of_win(MPI_Win win, int keyval, void *state, void *in, void *out, int *flag);
int delete_of_comm(MPI_Comm comm, int keyval, void *value, void *state);
int delete_of_type(MPI_Datatype datatype, int keyval, void *value, void *state);
int delete_of_win(MPI_Win win, int keyval, void *value, void *state);
void *stored_attribute(MPI_Aint value);
void forget_attribute(void *stored);
MPI_Aint attribute_value(int keyval, void *found);

#endif
