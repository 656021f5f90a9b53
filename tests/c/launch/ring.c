// A job under any launcher: a token goes round, everybody sums and meets, rank 0 tells how many ranks each shares its memory with.
// Usage: ring [abort CODE | kill | wait | early CODE | again | linger]
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size;

static void fail(const char *what) {
    fprintf(stderr, "FAIL rank %d of %d: %s\n", rank, size, what);
    MPI_Abort(MPI_COMM_WORLD, 99);
}

static void ring(MPI_Comm comm) {
    int token = 0, next = (rank + 1) % size, before = (rank + size - 1) % size, sum = 0;
    if (rank == 0) {
        MPI_Send(&token, 1, MPI_INT, next, 7, comm);
        MPI_Recv(&token, 1, MPI_INT, before, 7, comm, MPI_STATUS_IGNORE);
        if (token != size * (size - 1) / 2) fail("the token is wrong");
    } else {
        MPI_Recv(&token, 1, MPI_INT, before, 7, comm, MPI_STATUS_IGNORE);
        token += rank;
        MPI_Send(&token, 1, MPI_INT, next, 7, comm);
    }
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm);
    if (sum != size * (size - 1) / 2) fail("the sum is wrong");
    MPI_Barrier(comm);
}

static void tell(void) {
    MPI_Comm near;
    int mates, *all = malloc(sizeof(int) * size);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &near);
    MPI_Comm_size(near, &mates);
    MPI_Gather(&mates, 1, MPI_INT, all, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("ring of %d near", size);
        for (int i = 0; i < size; i++) printf(" %d", all[i]);
        printf("\n");
    }
    MPI_Comm_free(&near);
    free(all);
}

// MPI once more, after MPI_Finalize.
static void again(void) {
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, "ring", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    MPI_Group_free(&group);
    ring(comm);
    MPI_Comm_free(&comm);
    MPI_Session_finalize(&session);
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
    const char *names[] = {"PMI_RANK", "PMIX_RANK", "PMI_ID"};
    for (int i = 0; i < 3 && !strcmp(mode, "early"); i++) {
        const char *text = getenv(names[i]);
        if (text && atoi(text) == 1) return atoi(argv[2]);
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    ring(MPI_COMM_WORLD);
    tell();
    int last = rank == size - 1, nothing;
    if (!strcmp(mode, "abort") && last) MPI_Abort(MPI_COMM_WORLD, atoi(argv[2]));
    if (!strcmp(mode, "kill") && last) raise(SIGKILL);
    if (!strcmp(mode, "wait") && rank == 0) {
        printf("waiting\n");
        fflush(stdout);
    }
    if (!strcmp(mode, "abort") || !strcmp(mode, "kill") || !strcmp(mode, "wait"))
        MPI_Recv(&nothing, 1, MPI_INT, last ? 0 : size - 1, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Finalize();
    if (!strcmp(mode, "again")) again();
    if (!strcmp(mode, "linger") && rank > 0) sleep(3);
    return 0;
}
