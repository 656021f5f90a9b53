/* Some ranks are killed at random moments while all do one kind of operation. The survivors revoke, shrink and agree until a communicator without
 * the dead works, and its results are right.
 * Arguments: kind of operation, number of ranks that die, seed. */
#include "check.h"
#include <mpi-ext.h>
#include <signal.h>
#include <sys/time.h>

enum { BIG = 200000, REQUESTS = 4, TILE = 64, WAYS_TO_CREATE = 8 };
static char file_name[] = "recovered";
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

/* Accesses to the next rank, in an epoch of each kind. An error leaves no lock behind: whoever lives may wait for it. */
static int accesses(MPI_Comm comm, MPI_Win win, unsigned char *base, int rank, int size, int n)
{
    int next = (rank + 1) % size, before = (rank + size - 1) % size, code, given, value = 1, old = 0;
    MPI_Group all, to, from;
    code = MPI_Win_fence(0, win);
    if (code == MPI_SUCCESS)
        code = MPI_Put(in, n, MPI_BYTE, next, 0, n, MPI_BYTE, win);
    if (code == MPI_SUCCESS)
        code = MPI_Win_fence(0, win);
    if (code == MPI_SUCCESS)
        CHECK(base[0] == 1 && base[n - 1] == 1, "the put of %d bytes is not there after the fence", n);
    if (code == MPI_SUCCESS)
        code = MPI_Get(out + BIG, n, MPI_BYTE, next, 0, n, MPI_BYTE, win);
    if (code == MPI_SUCCESS)
        code = MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    if (code == MPI_SUCCESS)
        CHECK(out[BIG] == 1 && out[BIG + n - 1] == 1, "the get of %d bytes is not there after the fence", n);
    if (code == MPI_SUCCESS && (code = MPI_Win_lock(MPI_LOCK_EXCLUSIVE, next, 0, win)) == MPI_SUCCESS) {
        code = MPI_Accumulate(in, n / 4, MPI_INT, next, 0, n / 4, MPI_INT, MPI_SUM, win);
        if (code == MPI_SUCCESS)
            code = MPI_Win_flush(next, win);
        given = MPI_Win_unlock(next, win);
        code = code == MPI_SUCCESS ? given : code;
    }
    if (code == MPI_SUCCESS && (code = MPI_Win_lock_all(0, win)) == MPI_SUCCESS) {
        for (int i = 0; i < size && code == MPI_SUCCESS; i++)
            code = MPI_Fetch_and_op(&value, &old, MPI_INT, i, BIG - 4, MPI_SUM, win);
        if (code == MPI_SUCCESS)
            code = MPI_Win_flush_all(win);
        given = MPI_Win_unlock_all(win);
        code = code == MPI_SUCCESS ? given : code;
    }
    if (code != MPI_SUCCESS)
        return code;
    OK(MPI_Comm_group(comm, &all));
    OK(MPI_Group_incl(all, 1, &next, &to));
    OK(MPI_Group_incl(all, 1, &before, &from));
    code = MPI_Win_post(from, 0, win);
    if (code == MPI_SUCCESS)
        code = MPI_Win_start(to, 0, win);
    if (code == MPI_SUCCESS)
        code = MPI_Put(in, n, MPI_BYTE, next, 0, n, MPI_BYTE, win);
    if (code == MPI_SUCCESS)
        code = MPI_Win_complete(win);
    if (code == MPI_SUCCESS)
        code = MPI_Win_wait(win);
    OK(MPI_Group_free(&all));
    OK(MPI_Group_free(&to));
    OK(MPI_Group_free(&from));
    return code;
}

/* A window that is made, used and freed. Freeing is collective, so it may fail, too. */
static int one_sided(MPI_Comm comm, int rank, int size, int n, int round)
{
    MPI_Win win;
    unsigned char *base = out;
    int code = round % 2 ? MPI_Win_allocate(BIG, 1, MPI_INFO_NULL, comm, &base, &win) : MPI_Win_create(out, BIG, 1, MPI_INFO_NULL, comm, &win);
    if (code != MPI_SUCCESS)
        return code;
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    code = accesses(comm, win, base, rank, size, n);
    int freed = MPI_Win_free(&win);
    return code == MPI_SUCCESS ? freed : code;
}

/* Collective writes and reads of tiles that alternate between the ranks, and of ranges by the shared pointer; non-blocking and split ones, too. */
static int file_accesses(MPI_File file, MPI_Datatype tiles, int rank, int size, int n)
{
    MPI_Request rq;
    int code = MPI_File_set_view(file, rank * TILE, MPI_BYTE, tiles, "native", MPI_INFO_NULL);
    memset(out, 0, (size_t)n);
    if (code == MPI_SUCCESS)
        code = MPI_File_write_at_all(file, 0, in, n, MPI_BYTE, MPI_STATUS_IGNORE);
    if (code == MPI_SUCCESS)
        code = MPI_File_sync(file);
    if (code == MPI_SUCCESS)
        code = MPI_File_read_at_all(file, 0, out, n, MPI_BYTE, MPI_STATUS_IGNORE);
    if (code == MPI_SUCCESS)
        CHECK(!memcmp(in, out, (size_t)n), "not what was written is read");
    if (code == MPI_SUCCESS && (code = MPI_File_iwrite_at_all(file, 0, in, n, MPI_BYTE, &rq)) == MPI_SUCCESS)
        code = MPI_Wait(&rq, MPI_STATUS_IGNORE);
    if (code == MPI_SUCCESS && (code = MPI_File_write_at_all_begin(file, 0, in, n, MPI_BYTE)) == MPI_SUCCESS)
        code = MPI_File_write_at_all_end(file, in, MPI_STATUS_IGNORE);
    if (code == MPI_SUCCESS)
        code = MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL);
    if (code == MPI_SUCCESS)
        code = MPI_File_write_ordered(file, in, n, MPI_BYTE, MPI_STATUS_IGNORE);
    if (code == MPI_SUCCESS)
        code = MPI_File_write_shared(file, in, n, MPI_BYTE, MPI_STATUS_IGNORE);
    if (code == MPI_SUCCESS)
        code = MPI_File_set_size(file, (MPI_Offset)n * size);
    return code;
}

static int files(MPI_Comm comm, int rank, int size, int n)
{
    MPI_File file;
    MPI_Datatype tiles;
    int code = MPI_File_open(comm, file_name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    if (code != MPI_SUCCESS)
        return code;
    OK(MPI_Type_vector(BIG / TILE, TILE, TILE * size, MPI_BYTE, &tiles));
    OK(MPI_Type_commit(&tiles));
    code = file_accesses(file, tiles, rank, size, n);
    OK(MPI_Type_free(&tiles));
    int closed = MPI_File_close(&file);
    return code == MPI_SUCCESS ? closed : code;
}

/* Two halves, and a communicator between them. */
static int between(MPI_Comm comm, int rank, int size, MPI_Comm *merged)
{
    MPI_Comm half, inter;
    int upper = rank >= size / 2, code = MPI_Comm_split(comm, upper, rank, &half);
    if (code != MPI_SUCCESS)
        return code;
    code = MPI_Intercomm_create(half, 0, comm, upper ? 0 : size / 2, 5, &inter);
    if (code == MPI_SUCCESS) {
        code = MPI_Intercomm_merge(inter, upper, merged);
        OK(MPI_Comm_free(&inter));
    }
    OK(MPI_Comm_free(&half));
    return code;
}

/* A communicator that is made, used and freed. */
static int create(MPI_Comm comm, int rank, int size, int what)
{
    int code, one = 1, zero = 0, next = (rank + 1) % size, before = (rank + size - 1) % size;
    MPI_Comm made = MPI_COMM_NULL;
    MPI_Group group;
    MPI_Request rq;
    OK(MPI_Comm_group(comm, &group));
    switch (what) {
    case 0: code = MPI_Comm_dup(comm, &made); break;
    case 1:
        code = MPI_Comm_idup(comm, &made, &rq);
        if (code == MPI_SUCCESS)
            code = MPI_Wait(&rq, MPI_STATUS_IGNORE);
        break;
    case 2: code = MPI_Comm_split(comm, rank % 2, -rank, &made); break;
    case 3: code = MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &made); break;
    case 4: code = MPI_Comm_create_group(comm, group, 6, &made); break;
    case 5: code = MPI_Cart_create(comm, 1, &size, &zero, 1, &made); break;
    case 6: code = MPI_Dist_graph_create_adjacent(comm, 1, &before, &one, 1, &next, &one, MPI_INFO_NULL, 0, &made); break;
    default: code = size > 1 ? between(comm, rank, size, &made) : MPI_Comm_dup(comm, &made);
    }
    OK(MPI_Group_free(&group));
    if (code != MPI_SUCCESS)
        return code;
    code = MPI_Barrier(made);
    OK(MPI_Comm_free(&made));
    return code;
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
        else if (!strcmp(kind, "one_sided"))
            code = one_sided(comm, rank, size, n, round);
        else if (!strcmp(kind, "files"))
            code = files(comm, rank, size, n);
        else if (!strcmp(kind, "create"))
            code = create(comm, rank, size, round % WAYS_TO_CREATE);
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
    OK(MPI_Comm_rank(comm, &size));
    if (size == 0 && !strcmp(kind, "files"))
        unlink(file_name); /* it may never have been made */
    check_survivors(&comm);
    OK(MPI_Finalize());
    return check_failed != 0;
}
