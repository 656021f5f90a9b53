/*
 * C functions that call functions of the Fortran program (MPI-5.0, 19.1.15).
 *
 * C gives user operations and error handlers no extra state, so each different Fortran function gets one of a fixed number of C
 * functions (`SLOTS` of a sort), and keeps it: an operation that is freed may still be in use.
 */
#include "callbacks.h"
#include "binding.h"
#include <pthread.h>

#define SLOTS 64
#define EACH_8(X, n)  X(n##0) X(n##1) X(n##2) X(n##3) X(n##4) X(n##5) X(n##6) X(n##7)
#define EACH_SLOT(X) EACH_8(X, 0) EACH_8(X, 01) EACH_8(X, 02) EACH_8(X, 03) EACH_8(X, 04) EACH_8(X, 05) EACH_8(X, 06) EACH_8(X, 07)

typedef void Function(void);
static pthread_mutex_t slots_lock = PTHREAD_MUTEX_INITIALIZER;

/* The slot of a function, which may be a free one; SLOTS if there is none */
static int slot_of(Function **slots, Function *function)
{
    int slot = 0;
    pthread_mutex_lock(&slots_lock);
    while (slot < SLOTS && slots[slot] && slots[slot] != function)
        slot++;
    if (slot < SLOTS)
        slots[slot] = function;
    pthread_mutex_unlock(&slots_lock);
    return slot;
}

#define ERRHANDLER(n, Type, slots) \
    static void slots##_##n(MPI_##Type *object, int *error_code, ...) \
    { \
        int handle = PMPI_##Type##_toint(*object); \
        ((FortranErrhandler *)slots[n])(&handle, error_code); \
    }
#define IN_C(Result, name, Argument, slots, prefix) \
    Result *name(Argument *function) \
    { \
        static Result *const in_c[SLOTS] = {EACH_SLOT(prefix)}; \
        int slot = slot_of(slots, (Function *)function); \
        return slot < SLOTS ? in_c[slot] : NULL; \
    }
#define SLOT_FILE(n) of_files_##n,

#ifdef MPICH_ABI
/* C passes addresses of integers as Fortran does, so it calls the Fortran function itself; only files are pointers there */
#define DIRECT(Result, name, Argument) \
    Result *name(Argument *function) \
    { \
        return (Result *)(Function *)function; \
    }
DIRECT(MPI_User_function, op_in_c, FortranOp)
DIRECT(MPI_User_function_c, op_in_c_large, FortranOpLarge)
DIRECT(MPI_Comm_errhandler_function, comm_errhandler_in_c, FortranErrhandler)
DIRECT(MPI_Win_errhandler_function, win_errhandler_in_c, FortranErrhandler)
DIRECT(MPI_Session_errhandler_function, session_errhandler_in_c, FortranErrhandler)

static Function *of_files[SLOTS];
#define FILES(n) ERRHANDLER(n, File, of_files)
EACH_SLOT(FILES)
#else
static Function *ops[SLOTS], *large_ops[SLOTS], *of_comms[SLOTS], *of_files[SLOTS], *of_wins[SLOTS], *of_sessions[SLOTS];

/* Slot numbers are octal: two digits make 0 to 63 */
#define OP(n) \
    static void op_##n(void *in, void *inout, int *len, MPI_Datatype *datatype) \
    { \
        int type = PMPI_Type_toint(*datatype); \
        ((FortranOp *)ops[n])(in, inout, len, &type); \
    } \
    static void large_op_##n(void *in, void *inout, MPI_Count *len, MPI_Datatype *datatype) \
    { \
        int type = PMPI_Type_toint(*datatype); \
        ((FortranOpLarge *)large_ops[n])(in, inout, len, &type); \
    }
EACH_SLOT(OP)

#define ERRHANDLERS(n) ERRHANDLER(n, Comm, of_comms) ERRHANDLER(n, File, of_files) ERRHANDLER(n, Win, of_wins) \
    ERRHANDLER(n, Session, of_sessions)
EACH_SLOT(ERRHANDLERS)

#define SLOT_OP(n) op_##n,
#define SLOT_LARGE_OP(n) large_op_##n,
#define SLOT_COMM(n) of_comms_##n,
#define SLOT_WIN(n) of_wins_##n,
#define SLOT_SESSION(n) of_sessions_##n,
IN_C(MPI_User_function, op_in_c, FortranOp, ops, SLOT_OP)
IN_C(MPI_User_function_c, op_in_c_large, FortranOpLarge, large_ops, SLOT_LARGE_OP)
IN_C(MPI_Comm_errhandler_function, comm_errhandler_in_c, FortranErrhandler, of_comms, SLOT_COMM)
IN_C(MPI_Win_errhandler_function, win_errhandler_in_c, FortranErrhandler, of_wins, SLOT_WIN)
IN_C(MPI_Session_errhandler_function, session_errhandler_in_c, FortranErrhandler, of_sessions, SLOT_SESSION)
#endif
IN_C(MPI_File_errhandler_function, file_errhandler_in_c, FortranErrhandler, of_files, SLOT_FILE)

int grequest_query(void *state, MPI_Status *status)
{
    Grequest *request = state;
    int error = MPI_SUCCESS;
    request->query(request->extra_state, (int *)status, &error);
    return error;
}

int grequest_free(void *state)
{
    Grequest *request = state;
    int error = MPI_SUCCESS;
    request->release(request->extra_state, &error);
    free(request);
    return error;
}

int grequest_cancel(void *state, int complete)
{
    Grequest *request = state;
    int error = MPI_SUCCESS;
    request->cancel(request->extra_state, &complete, &error);
    return error;
}

int datarep_extent(MPI_Datatype datatype, MPI_Aint *extent, void *state)
{
    Datarep *rep = state;
    int error = MPI_SUCCESS, type = PMPI_Type_toint(datatype);
    rep->extent(&type, extent, rep->extra_state, &error);
    return error;
}

#define CONVERSION(name, Count, function) \
    int name(void *userbuf, MPI_Datatype datatype, Count count, void *filebuf, MPI_Offset position, void *state) \
    { \
        Datarep *rep = state; \
        int error = MPI_SUCCESS, type = PMPI_Type_toint(datatype); \
        rep->function(userbuf, &type, &count, filebuf, &position, rep->extra_state, &error); \
        return error; \
    }
CONVERSION(datarep_read, int, read)
CONVERSION(datarep_write, int, write)
CONVERSION(datarep_read_large, MPI_Count, read_large)
CONVERSION(datarep_write_large, MPI_Count, write_large)
