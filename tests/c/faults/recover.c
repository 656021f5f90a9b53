/* Some ranks are killed at random moments while all do one kind of operation. The survivors revoke, shrink and agree until a communicator without
 * the dead works, and its results are right.
 * Arguments: kind of operation, number of ranks that die, seed. */
#include "check.h"
#include <mpi-ext.h>
#include <signal.h>
#include <sys/time.h>

enum { BIG = 200000, REQUESTS = 4 };
static const int SIZES[] = {1, 200, 3000, 50000, BIG};
static unsigned char *in, *out;
static uint64_t state;

static int class_of(int code)
{
    int class = code;
    if (code != MPI_SUCCESS)
        MPI_Error_class(code, &class);
    return class;
}

/* The only errors that a death and its consequences may have. */
static void expected(int code, const char *what)
{
    int class = class_of(code);
    CHECK(class == MPIX_ERR_PROC_FAILED || class == MPIX_ERR_PROC_FAILED_PENDING || class == MPIX_ERR_REVOKED, "%s: class %d", what, class);
}

/* Ends requests after an error, whatever becomes of them: none may wait for ever once the communicator is revoked. */
static void finish(MPI_Request *rq, int n)
{
    for (int i = 0; i < n; i++) {
        while (rq[i] != MPI_REQUEST_NULL) {
            int code = MPI_Wait(&rq[i], MPI_STATUS_IGNORE);
            if (code != MPI_SUCCESS)
                expected(code, "a request that was under way");
        }
    }
}

static int all_of(MPI_Comm comm, MPI_Request *rq, int n)
{
    for (int i = 0; i < n; i++) {
        int code = rq[i] == MPI_REQUEST_NULL ? MPI_SUCCESS : MPI_Wait(&rq[i], MPI_STATUS_IGNORE);
        if (code != MPI_SUCCESS) {
            OK(MPIX_Comm_revoke(comm));
            finish(rq, n);
            return code;
        }
    }
    return MPI_SUCCESS;
}

/* To the next, from the one before; blocking and not, eager and not. */
static int ring(MPI_Comm comm, int rank, int size, int n, int round)
{
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    if (round % 2)
        return MPI_Sendrecv(in, n, MPI_BYTE, next, 1, out, n, MPI_BYTE, before, 1, comm, MPI_STATUS_IGNORE);
    MPI_Request rq[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    int code = MPI_Irecv(out, n, MPI_BYTE, before, 2, comm, &rq[0]);
    if (code == MPI_SUCCESS)
        code = round % 4 ? MPI_Isend(in, n, MPI_BYTE, next, 2, comm, &rq[1]) : MPI_Issend(in, n, MPI_BYTE, next, 2, comm, &rq[1]);
    if (code == MPI_SUCCESS)
        return all_of(comm, rq, 2);
    OK(MPIX_Comm_revoke(comm));
    finish(rq, 2);
    return code;
}

static int collective(MPI_Comm comm, int size, int n, int kind, int root)
{
    switch (kind) {
    case 0: return MPI_Allreduce(in, out, n, MPI_UNSIGNED_CHAR, MPI_SUM, comm);
    case 1: return MPI_Bcast(in, n, MPI_BYTE, root, comm);
    case 2: return MPI_Alltoall(in, n / size, MPI_BYTE, out, n / size, MPI_BYTE, comm);
    case 3: return MPI_Barrier(comm);
    case 4: return MPI_Reduce(in, out, n, MPI_UNSIGNED_CHAR, MPI_MAX, root, comm);
    default: {
        MPI_Comm copy;
        int code = kind == 5 ? MPI_Comm_dup(comm, &copy) : MPI_Comm_split(comm, root % 2, 0, &copy);
        return code == MPI_SUCCESS ? MPI_Comm_free(&copy) : code;
    }
    }
}

static int nonblocking(MPI_Comm comm, int size, int n, int root)
{
    MPI_Request rq[REQUESTS] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    int code = MPI_Iallreduce(in, out, n, MPI_UNSIGNED_CHAR, MPI_SUM, comm, &rq[0]);
    if (code == MPI_SUCCESS)
        code = MPI_Ibarrier(comm, &rq[1]);
    if (code == MPI_SUCCESS)
        code = MPI_Ibcast(in, n, MPI_BYTE, root, comm, &rq[2]);
    if (code == MPI_SUCCESS)
        code = MPI_Ialltoall(in, n / size, MPI_BYTE, out + BIG, n / size, MPI_BYTE, comm, &rq[3]);
    if (code == MPI_SUCCESS)
        return all_of(comm, rq, REQUESTS);
    OK(MPIX_Comm_revoke(comm));
    finish(rq, REQUESTS);
    return code;
}

/* Rank 0 hears from anybody, who hears from it. */
static int any_source(MPI_Comm comm, int rank, int size, int n, int round)
{
    if (rank > 0) {
        int code = MPI_Send(in, n, MPI_BYTE, 0, 3, comm);
        return code == MPI_SUCCESS ? MPI_Recv(out, 1, MPI_BYTE, 0, 4, comm, MPI_STATUS_IGNORE) : code;
    }
    for (int i = 1; i < size; i++) {
        MPI_Status status;
        int code;
        if (round % 2) {
            code = MPI_Recv(out, BIG, MPI_BYTE, MPI_ANY_SOURCE, 3, comm, &status);
        } else {
            MPI_Request rq;
            code = MPI_Irecv(out, BIG, MPI_BYTE, MPI_ANY_SOURCE, 3, comm, &rq);
            if (code == MPI_SUCCESS)
                code = MPI_Wait(&rq, &status);
            if (class_of(code) == MPIX_ERR_PROC_FAILED_PENDING) {
                CHECK(rq != MPI_REQUEST_NULL, "the request is gone although it is pending");
                OK(MPI_Cancel(&rq));
                OK(MPI_Wait(&rq, MPI_STATUS_IGNORE));
            }
        }
        if (code == MPI_SUCCESS)
            code = MPI_Send(in, 1, MPI_BYTE, status.MPI_SOURCE, 4, comm);
        if (code != MPI_SUCCESS)
            return code;
    }
    return MPI_SUCCESS;
}

/* All must be told the same: the bits that all have, and the same outcome. */
static int agree(MPI_Comm comm, int rank, int round)
{
    int flag = ~(1 << (rank % 16)), code;
    if (round % 2) {
        code = MPIX_Comm_agree(comm, &flag);
    } else {
        MPI_Request rq;
        OK(MPIX_Comm_iagree(comm, &flag, &rq));
        code = MPI_Wait(&rq, MPI_STATUS_IGNORE);
    }
    CHECK(!(flag & 1 << (rank % 16)), "flag %x", (unsigned)flag);
    CHECK((flag & 0x7fff0000) == 0x7fff0000, "flag %x", (unsigned)flag);
    return code;
}

static int shrink(MPI_Comm comm, int size, int round)
{
    MPI_Comm smaller;
    int now;
    if (round % 2) {
        OK(MPIX_Comm_shrink(comm, &smaller));
    } else {
        MPI_Request rq;
        OK(MPIX_Comm_ishrink(comm, &smaller, &rq));
        OK(MPI_Wait(&rq, MPI_STATUS_IGNORE));
    }
    OK(MPI_Comm_size(smaller, &now));
    OK(MPI_Comm_free(&smaller));
    return now < size ? MPIX_ERR_PROC_FAILED : MPI_SUCCESS;
}

/* Goes on until a process has failed. */
static void work(MPI_Comm comm, const char *kind)
{
    int rank, size, code = MPI_SUCCESS;
    OK(MPI_Comm_rank(comm, &rank));
    OK(MPI_Comm_size(comm, &size));
    for (int round = 0; code == MPI_SUCCESS; round++) {
        int n = SIZES[rnd_below(&state, LEN(SIZES))], what = rnd_below(&state, 7), root = rnd_below(&state, size);
        if (!strcmp(kind, "ring"))
            code = ring(comm, rank, size, n, round);
        else if (!strcmp(kind, "collective"))
            code = collective(comm, size, n, what, root);
        else if (!strcmp(kind, "nonblocking"))
            code = nonblocking(comm, size, n, root);
        else if (!strcmp(kind, "any_source"))
            code = any_source(comm, rank, size, n, round);
        else if (!strcmp(kind, "agree"))
            code = agree(comm, rank, round);
        else
            code = shrink(comm, size, round);
    }
    expected(code, kind);
}

/* A communicator that works for all who are left. */
static MPI_Comm recover(MPI_Comm comm)
{
    int revoked = 0;
    OK(MPIX_Comm_revoke(comm));
    OK(MPIX_Comm_is_revoked(comm, &revoked));
    EQ(revoked, 1);
    FAILS(MPIX_ERR_REVOKED, MPI_Barrier(comm));
    FAILS(MPIX_ERR_REVOKED, MPI_Send(in, 1, MPI_BYTE, 0, 9, comm));
    FAILS(MPIX_ERR_REVOKED, MPI_Recv(in, 1, MPI_BYTE, 0, 9, comm, MPI_STATUS_IGNORE));
    for (;;) {
        MPI_Comm new;
        int one = 1, sum = 0, size, flag;
        OK(MPIX_Comm_shrink(comm, &new));
        OK(MPI_Comm_size(new, &size));
        flag = MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, new) == MPI_SUCCESS;
        if (flag)
            EQ(sum, size);
        int code = MPIX_Comm_agree(new, &flag);
        if (code == MPI_SUCCESS && flag) {
            OK(MPI_Comm_free(&comm));
            return new;
        }
        if (code != MPI_SUCCESS)
            expected(code, "agreement");
        OK(MPIX_Comm_revoke(new));
        OK(MPI_Comm_free(&new));
    }
}

static void die(int signal)
{
    (void)signal;
    raise(SIGKILL);
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    const char *kind = argc > 1 ? argv[1] : "ring";
    int deaths = argc > 2 ? atoi(argv[2]) : 1, dying = 0, sum = 0, want = 0, size;
    state = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
    in = alloc(2 * BIG);
    out = alloc(2 * BIG);
    memset(in, 1, 2 * BIG);
    for (int rank = 0, left = deaths; rank < check_size; rank++) {
        int dies = rnd_below(&state, check_size - rank) < left;
        long us = 1 + rnd_below(&state, 30000);
        left -= dies;
        want += dies ? 0 : rank;
        if (dies && rank == check_rank) {
            struct itimerval timer = {{0, 0}, {0, us}};
            signal(SIGALRM, die);
            setitimer(ITIMER_REAL, &timer, NULL);
            dying = 1;
        }
    }
    MPI_Comm comm;
    OK(MPIX_Comm_shrink(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_size(comm, &size));
    while (size > check_size - deaths) {
        /* They have done different numbers of rounds. */
        state = strtoull(argc > 3 ? argv[3] : "1", NULL, 10) + (uint64_t)size;
        work(comm, kind);
        comm = recover(comm);
        OK(MPI_Comm_size(comm, &size));
    }
    CHECK(!dying, "a rank that had to die lives");
    EQ(size, check_size - deaths);
    OK(MPI_Allreduce(&check_rank, &sum, 1, MPI_INT, MPI_SUM, comm));
    EQ(sum, want);
    check_survivors(&comm);
    OK(MPI_Finalize());
    return check_failed != 0;
}
