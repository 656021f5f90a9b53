/* Procedures that take functions of the program: operations, error handlers, generalized requests, data representations. */
#include "binding.h"
#include "callbacks.h"

FortranConversion mpi_conversion_fn_null_;
FortranConversionLarge mpi_conversion_fn_null_c_;

/* All slots for different functions are taken (callbacks.c) */
static int too_many(void)
{
    PMPI_Comm_call_errhandler(MPI_COMM_SELF, MPI_ERR_INTERN);
    return MPI_ERR_INTERN;
}

/* Where the functions of a generalized request or a data representation find their extra state */
static MPI_Aint *state_of(MPI_Aint *given, MPI_Aint *kept)
{
#ifdef MPICH_ABI
    (void)kept;
    return given;
#else
    (void)given;
    return kept;
#endif
}

void NAME(op_create)(FortranOp *function, int *commute, int *op, int *ierror)
{
    MPI_Op made = MPI_OP_NULL;
    MPI_User_function *in_c = op_in_c(function);
    int error = in_c ? CALL(Op_create)(in_c, *commute, &made) : too_many();
    *op = PMPI_Op_toint(made);
    give(ierror, error);
}
ALIAS(op_create)

void F08(op_create_c)(FortranOpLarge *function, int *commute, int *op, int *ierror)
{
    MPI_Op made = MPI_OP_NULL;
    MPI_User_function_c *in_c = op_in_c_large(function);
    int error = in_c ? CALL(Op_create_c)(in_c, *commute, &made) : too_many();
    *op = PMPI_Op_toint(made);
    give(ierror, error);
}

#define ERRHANDLER(of, Of) \
    void NAME(of##_create_errhandler)(FortranErrhandler *function, int *errhandler, int *ierror) \
    { \
        MPI_Errhandler made = MPI_ERRHANDLER_NULL; \
        MPI_##Of##_errhandler_function *in_c = of##_errhandler_in_c(function); \
        int error = in_c ? CALL(Of##_create_errhandler)(in_c, &made) : too_many(); \
        *errhandler = PMPI_Errhandler_toint(made); \
        give(ierror, error); \
    } \
    ALIAS(of##_create_errhandler)
ERRHANDLER(comm, Comm)
ERRHANDLER(file, File)
ERRHANDLER(win, Win)
ERRHANDLER(session, Session)

void NAME(grequest_start)(FortranQuery *query, FortranFree *release, FortranCancel *cancel, MPI_Aint *extra_state,
    int *request, int *ierror)
{
    MPI_Request made = MPI_REQUEST_NULL;
    Grequest *state = allocate(sizeof *state);
    *state = (Grequest){query, release, cancel, *extra_state, state_of(extra_state, &state->kept)};
    int error = CALL(Grequest_start)(grequest_query, grequest_free, grequest_cancel, state, &made);
    if (error != MPI_SUCCESS)
        free(state);
    *request = PMPI_Request_toint(made);
    give(ierror, error);
}
ALIAS(grequest_start)

void NAME(register_datarep)(char *datarep, FortranConversion *read, FortranConversion *write, FortranExtent *extent,
    MPI_Aint *extra_state, int *ierror, size_t datarep_len)
{
    char *name = text_in(datarep, datarep_len);
    Datarep *state = allocate(sizeof *state);
    *state = (Datarep){.read = read, .write = write, .extent = extent, .kept = *extra_state, .extra_state = state_of(extra_state, &state->kept)};
    int error = CALL(Register_datarep)(name, read == mpi_conversion_fn_null_ ? MPI_CONVERSION_FN_NULL : datarep_read,
        write == mpi_conversion_fn_null_ ? MPI_CONVERSION_FN_NULL : datarep_write, datarep_extent, state);
    if (error != MPI_SUCCESS)
        free(state);
    free(name);
    give(ierror, error);
}
ALIAS(register_datarep)

void F08(register_datarep_c)(char *datarep, FortranConversionLarge *read, FortranConversionLarge *write, FortranExtent *extent,
    MPI_Aint *extra_state, int *ierror, size_t datarep_len)
{
    char *name = text_in(datarep, datarep_len);
    Datarep *state = allocate(sizeof *state);
    *state = (Datarep){.read_large = read, .write_large = write, .extent = extent, .kept = *extra_state, .extra_state = state_of(extra_state, &state->kept)};
    int error = CALL(Register_datarep_c)(name,
        read == mpi_conversion_fn_null_c_ ? MPI_CONVERSION_FN_NULL_C : datarep_read_large,
        write == mpi_conversion_fn_null_c_ ? MPI_CONVERSION_FN_NULL_C : datarep_write_large, datarep_extent, state);
    if (error != MPI_SUCCESS)
        free(state);
    free(name);
    give(ierror, error);
}
