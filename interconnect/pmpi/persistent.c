/* Persistent operations: what an init call has planned counts at each start. */
#include "pmpi.h"

#include <stdlib.h>
#include <string.h>

/* A request that has not been freed. */
typedef struct Prepared {
    MPI_Request request;
    Plan *plan;
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

void profile_prepare(MPI_Request request, Plan *plan)
{
    Prepared *new = malloc(sizeof *new);
    profile_lock();
    Prepared **bucket = bucket_of(request);
    *new = (Prepared){ request, plan, *bucket };
    *bucket = new;
    profile_unlock();
}

static void started(MPI_Request request)
{
    const Plan *plan = NULL;
    profile_lock();
    for (Prepared *at = *bucket_of(request); at && !plan; at = at->next)
        if (at->request == request)
            plan = at->plan;
    profile_unlock();
    /* It stays: a request that is being started isn't freed. */
    if (!plan)
        return;
    if (plan->collective)
        profile_note(plan->collective, plan->bytes);
    for (int i = 0; i < plan->number; i++)
        profile_count(plan->entries[i].world, plan->entries[i].bytes);
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
    if (gone) {
        free(gone->plan->entries);
        free(gone->plan);
        free(gone);
    }
}

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
