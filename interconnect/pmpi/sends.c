/* Point-to-point: each call that sends, and persistent requests when they are started. */
#include "pmpi.h"

#include <stdlib.h>
#include <string.h>

/* Persistent and partitioned sends that have not been freed. */
typedef struct Prepared {
    MPI_Request request;
    MPI_Comm comm;
    int dest;
    uint64_t bytes;
    struct Prepared *next;
} Prepared;

enum { BUCKETS = 1024 };
static Prepared *prepared[BUCKETS];

static Prepared **bucket_of(MPI_Request request)
{
    uintptr_t key = 0;
    memcpy(&key, &request, sizeof request < sizeof key ? sizeof request : sizeof key);
    return &prepared[(key ^ key >> 10 ^ key >> 4) % BUCKETS];
}

static void prepare(MPI_Request request, MPI_Comm comm, int dest, uint64_t bytes)
{
    Prepared *new = malloc(sizeof *new);
    profile_lock();
    Prepared **bucket = bucket_of(request);
    *new = (Prepared){ request, comm, dest, bytes, *bucket };
    *bucket = new;
    profile_unlock();
}

static void started(MPI_Request request)
{
    Prepared found = { .dest = MPI_PROC_NULL };
    profile_lock();
    for (Prepared *at = *bucket_of(request); at; at = at->next)
        if (at->request == request)
            found = *at;
    profile_unlock();
    if (found.dest != MPI_PROC_NULL)
        profile_count_on(found.comm, found.dest, found.bytes);
}

static void freed(MPI_Request request)
{
    profile_lock();
    Prepared **at = bucket_of(request);
    while (*at && (*at)->request != request)
        at = &(*at)->next;
    Prepared *gone = *at;
    if (gone)
        *at = gone->next;
    profile_unlock();
    free(gone);
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
#if MPI_VERSION >= 4
ALL(_c, MPI_Count)

int MPI_Psend_init(const void *buf, int partitions, MPI_Count count, MPI_Datatype type, int dest, int tag, MPI_Comm comm, MPI_Info info,
                   MPI_Request *req)
{
    int error = PMPI_Psend_init(buf, partitions, count, type, dest, tag, comm, info, req);
    if (error == MPI_SUCCESS)
        prepare(*req, comm, dest, profile_bytes(count, type) * (uint64_t)partitions);
    return error;
}

int MPI_Isendrecv(const void *out, int count, MPI_Datatype type, int dest, int tag, void *in, int room, MPI_Datatype in_type, int source,
                  int in_tag, MPI_Comm comm, MPI_Request *req)
{
    int error = PMPI_Isendrecv(out, count, type, dest, tag, in, room, in_type, source, in_tag, comm, req);
    if (error == MPI_SUCCESS)
        profile_count_on(comm, dest, profile_bytes(count, type));
    return error;
}
#endif

int MPI_Start(MPI_Request *request)
{
    MPI_Request started_request = *request;
    int error = PMPI_Start(request);
    if (error == MPI_SUCCESS)
        started(started_request);
    return error;
}

int MPI_Startall(int count, MPI_Request requests[])
{
    int error = PMPI_Startall(count, requests);
    for (int i = 0; error == MPI_SUCCESS && i < count; i++)
        started(requests[i]);
    return error;
}

int MPI_Request_free(MPI_Request *request)
{
    freed(*request);
    return PMPI_Request_free(request);
}
