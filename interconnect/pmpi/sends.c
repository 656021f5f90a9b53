/* Point-to-point: each call that sends. Persistent and partitioned sends count when they are started (persistent.c). */
#include "pmpi.h"

/* The plan of sending `bytes` bytes to `dest`. */
static void prepare(MPI_Request request, MPI_Comm comm, int dest, uint64_t bytes)
{
    profile_plan_begin();
    profile_count_on(comm, dest, bytes);
    profile_prepare(request, profile_plan_end());
}

#define SEND(NAME, COUNT)                                                                                                \
    int MPI_##NAME(const void *buf, COUNT count, MPI_Datatype type, int dest, int tag, MPI_Comm comm)                    \
    {                                                                                                                    \
        int error = PMPI_##NAME(buf, count, type, dest, tag, comm);                                                      \
        if (error == MPI_SUCCESS)                                                                                        \
            profile_count_on(comm, dest, profile_bytes(count, type));                                                    \
        return error;                                                                                                    \
    }

#define ISEND(NAME, COUNT)                                                                                               \
    int MPI_##NAME(const void *buf, COUNT count, MPI_Datatype type, int dest, int tag, MPI_Comm comm, MPI_Request *req)  \
    {                                                                                                                    \
        int error = PMPI_##NAME(buf, count, type, dest, tag, comm, req);                                                 \
        if (error == MPI_SUCCESS)                                                                                        \
            profile_count_on(comm, dest, profile_bytes(count, type));                                                    \
        return error;                                                                                                    \
    }

#define SEND_INIT(NAME, COUNT)                                                                                           \
    int MPI_##NAME(const void *buf, COUNT count, MPI_Datatype type, int dest, int tag, MPI_Comm comm, MPI_Request *req)  \
    {                                                                                                                    \
        int error = PMPI_##NAME(buf, count, type, dest, tag, comm, req);                                                 \
        if (error == MPI_SUCCESS)                                                                                        \
            prepare(*req, comm, dest, profile_bytes(count, type));                                                       \
        return error;                                                                                                    \
    }

#define SENDRECV(NAME, COUNT)                                                                                            \
    int MPI_##NAME(const void *out, COUNT count, MPI_Datatype type, int dest, int tag, void *in, COUNT room,             \
                   MPI_Datatype in_type, int source, int in_tag, MPI_Comm comm, MPI_Status *status)                      \
    {                                                                                                                    \
        int error = PMPI_##NAME(out, count, type, dest, tag, in, room, in_type, source, in_tag, comm, status);           \
        if (error == MPI_SUCCESS)                                                                                        \
            profile_count_on(comm, dest, profile_bytes(count, type));                                                    \
        return error;                                                                                                    \
    }

#define SENDRECV_REPLACE(NAME, COUNT)                                                                                    \
    int MPI_##NAME(void *buf, COUNT count, MPI_Datatype type, int dest, int tag, int source, int in_tag, MPI_Comm comm,  \
                   MPI_Status *status)                                                                                   \
    {                                                                                                                    \
        int error = PMPI_##NAME(buf, count, type, dest, tag, source, in_tag, comm, status);                              \
        if (error == MPI_SUCCESS)                                                                                        \
            profile_count_on(comm, dest, profile_bytes(count, type));                                                    \
        return error;                                                                                                    \
    }

#define ALL(SUFFIX, COUNT)                                                                                               \
    SEND(Send##SUFFIX, COUNT) SEND(Bsend##SUFFIX, COUNT) SEND(Ssend##SUFFIX, COUNT) SEND(Rsend##SUFFIX, COUNT)           \
    ISEND(Isend##SUFFIX, COUNT) ISEND(Ibsend##SUFFIX, COUNT) ISEND(Issend##SUFFIX, COUNT) ISEND(Irsend##SUFFIX, COUNT)   \
    SEND_INIT(Send_init##SUFFIX, COUNT) SEND_INIT(Bsend_init##SUFFIX, COUNT) SEND_INIT(Ssend_init##SUFFIX, COUNT)        \
    SEND_INIT(Rsend_init##SUFFIX, COUNT) SENDRECV(Sendrecv##SUFFIX, COUNT) SENDRECV_REPLACE(Sendrecv_replace##SUFFIX, COUNT)

ALL(, int)
#if HAS_LARGE
ALL(_c, MPI_Count)
#endif

#if HAS_MPI4
int MPI_Psend_init(const void *buf, int partitions, MPI_Count count, MPI_Datatype type, int dest, int tag, MPI_Comm comm, MPI_Info info,
                   MPI_Request *req)
{
    int error = PMPI_Psend_init(buf, partitions, count, type, dest, tag, comm, info, req);
    if (error == MPI_SUCCESS)
        prepare(*req, comm, dest, profile_bytes(count, type) * (uint64_t)partitions);
    return error;
}

#define ISENDRECV(NAME, COUNT)                                                                                           \
    int MPI_##NAME(const void *out, COUNT count, MPI_Datatype type, int dest, int tag, void *in, COUNT room,             \
                   MPI_Datatype in_type, int source, int in_tag, MPI_Comm comm, MPI_Request *req)                        \
    {                                                                                                                    \
        int error = PMPI_##NAME(out, count, type, dest, tag, in, room, in_type, source, in_tag, comm, req);              \
        if (error == MPI_SUCCESS)                                                                                        \
            profile_count_on(comm, dest, profile_bytes(count, type));                                                    \
        return error;                                                                                                    \
    }

#define ISENDRECV_REPLACE(NAME, COUNT)                                                                                   \
    int MPI_##NAME(void *buf, COUNT count, MPI_Datatype type, int dest, int tag, int source, int in_tag, MPI_Comm comm,  \
                   MPI_Request *req)                                                                                     \
    {                                                                                                                    \
        int error = PMPI_##NAME(buf, count, type, dest, tag, source, in_tag, comm, req);                                 \
        if (error == MPI_SUCCESS)                                                                                        \
            profile_count_on(comm, dest, profile_bytes(count, type));                                                    \
        return error;                                                                                                    \
    }

ISENDRECV(Isendrecv, int)
ISENDRECV_REPLACE(Isendrecv_replace, int)
#if HAS_LARGE
ISENDRECV(Isendrecv_c, MPI_Count)
ISENDRECV_REPLACE(Isendrecv_replace_c, MPI_Count)
#endif
#endif
