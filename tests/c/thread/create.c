/* Threads make communicators at the same time, each in all the ways that don't need a common order (MPI-5.0, 7.4.2, 11.6). */
#include "check.h"
#include <pthread.h>

#define THREADS 4
#define ROUNDS 25

static MPI_Comm base[THREADS];

static void use(MPI_Comm *comm)
{
    int size, one = 1, sum = 0;
    OK(MPI_Comm_size(*comm, &size));
    OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, *comm));
    EQ(sum, size);
    OK(MPI_Comm_free(comm));
}

static void *work(void *arg)
{
    int id = (int)(intptr_t)arg, rank;
    MPI_Group group;
    OK(MPI_Comm_rank(base[id], &rank));
    OK(MPI_Comm_group(base[id], &group));
    for (int i = 0; i < ROUNDS; i++) {
        MPI_Comm later, part, grouped, fresh, again;
        MPI_Request request;
        char tag[32];
        snprintf(tag, sizeof tag, "test://thread/%d", id);
        OK(MPI_Comm_idup(base[id], &later, &request));
        OK(MPI_Comm_split(base[id], rank % 2, -rank, &part));
        OK(MPI_Comm_create_group(MPI_COMM_WORLD, group, 100 + id, &grouped));
        OK(MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &fresh));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        OK(MPI_Comm_dup(later, &again));
        use(&later);
        use(&part);
        use(&grouped);
        use(&fresh);
        use(&again);
    }
    OK(MPI_Group_free(&group));
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    check_init_multiple(&argc, &argv);
    for (int i = 0; i < THREADS; i++) OK(MPI_Comm_dup(MPI_COMM_WORLD, &base[i]));
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, (void *)(intptr_t)i);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++) OK(MPI_Comm_free(&base[i]));
    return check_done();
}
