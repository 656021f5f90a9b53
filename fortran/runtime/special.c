/* Procedures whose arguments need more than a conversion: initialisation, buffers, strings with lengths, statuses. */
#include "binding.h"

void NAME(init)(int *ierror)
{
    give(ierror, tell_logicals(CALL(Init)(NULL, NULL)));
}
ALIAS(init)

void NAME(init_thread)(int *required, int *provided, int *ierror)
{
    give(ierror, tell_logicals(CALL(Init_thread)(NULL, NULL, *required, provided)));
}
ALIAS(init_thread)

void NAME(info_create_env)(int *info, int *ierror)
{
    MPI_Info made = MPI_INFO_NULL;
    int error = CALL(Info_create_env)(0, NULL, &made);
    *info = PMPI_Info_toint(made);
    give(ierror, error);
}
ALIAS(info_create_env)

/* The length in Fortran has no room for a null character */
void NAME(info_get)(int *info, char *key, int *valuelen, char *value, int *flag, int *ierror, size_t key_len, size_t value_len)
{
    size_t length = *valuelen > 0 ? (size_t)*valuelen : 0;
    char *name = text_in_both_ends(key, key_len), *text = allocate(length + 1);
    int error = CALL(Info_get)(PMPI_Info_fromint(*info), name, *valuelen, text, flag);
    if (error == MPI_SUCCESS && *flag)
        text_out(value, value_len < length ? value_len : length, text, error);
    if (error == MPI_SUCCESS && *flag && value_len > length)
        memset(value + length, ' ', value_len - length);
    free(name);
    free(text);
    give(ierror, error);
}
ALIAS(info_get)

void NAME(info_get_string)(int *info, char *key, int *buflen, char *value, int *flag, int *ierror, size_t key_len,
    size_t value_len)
{
    size_t length = *buflen > 0 ? (size_t)*buflen : 0;
    int wanted = length ? (int)length + 1 : *buflen;
    char *name = text_in_both_ends(key, key_len), *text = allocate(length + 1);
    int error = CALL(Info_get_string)(PMPI_Info_fromint(*info), name, &wanted, text, flag);
    if (error == MPI_SUCCESS && *flag) {
        *buflen = wanted - 1;
        if (length)
            text_out(value, value_len, text, error);
    }
    free(name);
    free(text);
    give(ierror, error);
}
ALIAS(info_get_string)

void NAME(session_get_nth_pset)(int *session, int *info, int *n, int *pset_len, char *pset_name, int *ierror, size_t name_len)
{
    size_t length = *pset_len > 0 ? (size_t)*pset_len : 0;
    int wanted = length ? (int)length + 1 : 0;
    char *text = allocate(length + 1);
    int error = CALL(Session_get_nth_pset)(PMPI_Session_fromint(*session), PMPI_Info_fromint(*info), *n, &wanted, text);
    if (error == MPI_SUCCESS) {
        if (length)
            text_out(pset_name, name_len, text, error);
        *pset_len = wanted - 1;
    }
    free(text);
    give(ierror, error);
}
ALIAS(session_get_nth_pset)

/*
 * Only mpi_f08 has an argument that can take the buffer's address. The others have a choice buffer there, which stays as it is
 * (MPI-5.0, 3.6.1).
 */
#define DETACH(name, function, parameters, ...) \
    void NAME(name)(parameters void *buffer_addr, int *size, int *ierror) \
    { \
        void *unused; \
        (void)buffer_addr; \
        give(ierror, CALL(function)(__VA_ARGS__ &unused, size)); \
    } \
    void F08(name)(parameters void **buffer_addr, int *size, int *ierror) \
    { \
        give(ierror, CALL(function)(__VA_ARGS__ buffer_addr, size)); \
    } \
    void F08(name##_c)(parameters void **buffer_addr, MPI_Count *size, int *ierror) \
    { \
        give(ierror, CALL(function##_c)(__VA_ARGS__ buffer_addr, size)); \
    }
#define OBJECT(object) int *object,
#define NO_OBJECT
DETACH(buffer_detach, Buffer_detach, NO_OBJECT, )
DETACH(comm_detach_buffer, Comm_detach_buffer, OBJECT(comm), PMPI_Comm_fromint(*comm), )
DETACH(session_detach_buffer, Session_detach_buffer, OBJECT(session), PMPI_Session_fromint(*session), )

/* Statuses of the old and of the new interface have the same layout */
void NAME(status_f2f08)(int *f_status, int *f08_status, int *ierror)
{
    memcpy(f08_status, f_status, sizeof(MPI_Status));
    give(ierror, MPI_SUCCESS);
}

void NAME(status_f082f)(int *f08_status, int *f_status, int *ierror)
{
    memcpy(f_status, f08_status, sizeof(MPI_Status));
    give(ierror, MPI_SUCCESS);
}

/* Its argument is what the compiler must not move across the call (MPI-5.0, 19.1.8) */
void NAME(f_sync_reg)(void *buffer)
{
    (void)buffer;
}
ALIAS(f_sync_reg)
