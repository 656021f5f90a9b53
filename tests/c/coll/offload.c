/* Non-blocking collectives as workers run them (tests/offload.py): offload MODE [ROUNDS]
 * rounds       several collectives under way at once, of sizes around those in which workers copy; reductions bit for bit as the blocking ones
 * outstanding  more operations than a worker takes at a time, posted in another order on each of two communicators
 * hint         a communicator with ferrule_offload=true and one with false
 * long         a derived type, and buffers larger than any that is copied at once
 * persist      persistent collectives, among them some in which a rank may be rounds ahead of others
 * verdicts     collectives that workers run by default, and one for each reason why the ranks run others
 * die          the last rank is killed while the others wait for it */
#include "check.h"
#include <signal.h>
enum { PMAX = 16, PER = 6 };
static int N, ME;

static void block(int *buf, int n, int id, int from, int to)
{
    for (int i = 0; i < n; i++) buf[i] = id * 31 + from * 1009 + to * 101 + i * 7;
}
static int wrong(const int *buf, int n, int id, int from, int to)
{
    for (int i = 0; i < n; i++)
        if (buf[i] != id * 31 + from * 1009 + to * 101 + i * 7) return 1;
    return 0;
}

/* One round: all of these are under way together. */
static void one_round(MPI_Comm comm, int id, int n)
{
    int *send = malloc(sizeof(int) * n * N), *recv = malloc(sizeof(int) * n * N), *all = malloc(sizeof(int) * n * N);
    int *mine = malloc(sizeof(int) * n), *data = malloc(sizeof(int) * n);
    double *sum = malloc(sizeof(double) * n), *model = malloc(sizeof(double) * n), *scan = malloc(sizeof(double) * n), *before = malloc(sizeof(double) * n);
    int root = id % N;
    MPI_Request rq[PER];
    for (int to = 0; to < N; to++) block(send + n * to, n, id, ME, to);
    block(mine, n, id, ME, 0);
    memset(recv, 0xee, sizeof(int) * n * N), memset(all, 0xee, sizeof(int) * n * N), memset(data, 0xee, sizeof(int) * n);
    if (ME == root) block(data, n, id, root, 77);
    for (int i = 0; i < n; i++) before[i] = sum[i] = 1.0 / (1 + id + ME * 3 + i % 1000) * (i % 2 ? -1 : 1e9);
    OK(MPI_Ialltoall(send, n, MPI_INT, recv, n, MPI_INT, comm, &rq[0]));
    OK(MPI_Iallgather(mine, n, MPI_INT, all, n, MPI_INT, comm, &rq[1]));
    OK(MPI_Ibcast(data, n, MPI_INT, root, comm, &rq[2]));
    OK(MPI_Iallreduce(MPI_IN_PLACE, sum, n, MPI_DOUBLE, MPI_SUM, comm, &rq[3]));
    OK(MPI_Iscan(before, scan, n, MPI_DOUBLE, MPI_PROD, comm, &rq[4]));
    OK(MPI_Ibarrier(comm, &rq[5]));
    if (id % 2) OK(MPI_Waitall(PER, rq, MPI_STATUSES_IGNORE));
    else
        for (int left = PER; left > 0; left--) {
            int which;
            OK(MPI_Waitany(PER, rq, &which, MPI_STATUS_IGNORE));
        }
    for (int from = 0; from < N; from++) {
        CHECK(!wrong(recv + n * from, n, id, from, ME), "round %d: alltoall from %d", id, from);
        CHECK(!wrong(all + n * from, n, id, from, 0), "round %d: allgather from %d", id, from);
    }
    CHECK(!wrong(data, n, id, root, 77), "round %d: bcast from %d", id, root);
    /* In place, too: the order of the operands may depend on that. */
    memcpy(model, before, sizeof(double) * n);
    OK(MPI_Allreduce(MPI_IN_PLACE, model, n, MPI_DOUBLE, MPI_SUM, comm));
    CHECK(!memcmp(sum, model, sizeof(double) * n), "round %d: allreduce has other bits", id);
    OK(MPI_Scan(before, model, n, MPI_DOUBLE, MPI_PROD, comm));
    CHECK(!memcmp(scan, model, sizeof(double) * n), "round %d: scan has other bits", id);
    free(send), free(recv), free(all), free(mine), free(data), free(sum), free(model), free(scan), free(before);
}

static void rounds(int count)
{
    static const int SIZES[] = {1, 100, 16384, 16385, 40000, 3000, 100000};
    for (int id = 0; id < count; id++) one_round(MPI_COMM_WORLD, id, SIZES[id % 7]);
}

/* The ranks post on the communicators in opposite orders, and no operation of the first can end before all of the second are posted. */
static void outstanding(void)
{
    enum { MANY = 2500, INTS = 3 };
    MPI_Comm comm[2];
    MPI_Request *rq = malloc(sizeof *rq * 2 * MANY);
    int *buf = malloc(sizeof(int) * 2 * MANY * INTS);
    for (int c = 0; c < 2; c++) OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm[c]));
    for (int k = 0; k < 2 * MANY; k++) {
        int c = (k < MANY) ^ (ME % 2), i = k % MANY;
        int *at = buf + (c * MANY + i) * INTS;
        memset(at, 0xee, sizeof(int) * INTS);
        if (ME == i % N) block(at, INTS, i, c, 5);
        OK(MPI_Ibcast(at, INTS, MPI_INT, i % N, comm[c], &rq[k]));
    }
    OK(MPI_Waitall(2 * MANY, rq, MPI_STATUSES_IGNORE));
    for (int k = 0; k < 2 * MANY; k++)
        CHECK(!wrong(buf + k * INTS, INTS, k % MANY, k / MANY, 5), "bcast %d", k);
    for (int c = 0; c < 2; c++) OK(MPI_Comm_free(&comm[c]));
    free(rq), free(buf);
}

static void hint(void)
{
    for (int want = 0; want < 2; want++) {
        MPI_Comm comm;
        MPI_Info info, got;
        char text[16];
        int flag, len = sizeof text;
        OK(MPI_Info_create(&info));
        OK(MPI_Info_set(info, "ferrule_offload", want ? "true" : "false"));
        OK(MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &comm));
        OK(MPI_Comm_get_info(comm, &got));
        OK(MPI_Info_get_string(got, "ferrule_offload", &len, text, &flag));
        EQ(flag, 1);
        STREQ(text, want ? "true" : "false");
        for (int id = 0; id < 3; id++) one_round(comm, id, 500 + id);
        OK(MPI_Info_free(&info));
        OK(MPI_Info_free(&got));
        OK(MPI_Comm_free(&comm));
    }
}

static void long_ones(void)
{
    enum { BLOCKS = 70000 };
    MPI_Datatype holes;
    MPI_Request rq;
    OK(MPI_Type_vector(BLOCKS, 1, 2, MPI_INT, &holes));
    OK(MPI_Type_commit(&holes));
    int *from = malloc(sizeof(int) * 2 * BLOCKS), *into = malloc(sizeof(int) * BLOCKS * N);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < BLOCKS; i++) from[2 * i] = i * 3 + ME + round, from[2 * i + 1] = -1;
        memset(into, 0xee, sizeof(int) * BLOCKS * N);
        OK(MPI_Iallgather(from, 1, holes, into, BLOCKS, MPI_INT, MPI_COMM_WORLD, &rq));
        OK(MPI_Wait(&rq, MPI_STATUS_IGNORE));
        for (int r = 0; r < N; r++)
            for (int i = 0; i < BLOCKS; i++)
                if (into[r * BLOCKS + i] != i * 3 + r + round) { CHECK(0, "rank %d, place %d", r, i); break; }
        OK(MPI_Ibcast(from, 1, holes, 0, MPI_COMM_WORLD, &rq));
        OK(MPI_Wait(&rq, MPI_STATUS_IGNORE));
        for (int i = 0; i < BLOCKS; i++)
            if (from[2 * i] != i * 3 + round || from[2 * i + 1] != -1) { CHECK(0, "place %d", i); break; }
    }
    OK(MPI_Type_free(&holes));
    free(from), free(into);
}

static void persist(int count)
{
    enum { INTS = 3000, MANY = 20000 };
    int *send = malloc(sizeof(int) * INTS * N), *recv = malloc(sizeof(int) * INTS * N), *data = malloc(sizeof(int) * MANY);
    double *sum = malloc(sizeof(double) * MANY), *total = malloc(sizeof(double) * MANY);
    MPI_Request rq[3];
    OK(MPI_Alltoall_init(send, INTS, MPI_INT, recv, INTS, MPI_INT, MPI_COMM_WORLD, MPI_INFO_NULL, &rq[0]));
    OK(MPI_Bcast_init(data, MANY, MPI_INT, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &rq[1]));
    OK(MPI_Reduce_init(sum, total, MANY, MPI_DOUBLE, MPI_SUM, N - 1, MPI_COMM_WORLD, MPI_INFO_NULL, &rq[2]));
    for (int id = 0; id < count; id++) {
        /* Now and then all of them; mostly those that let a rank get ahead. */
        int first = id % 7 ? 1 : 0;
        for (int to = 0; to < N; to++) block(send + INTS * to, INTS, id, ME, to);
        if (ME == 0) block(data, MANY, id, 0, 77);
        for (int i = 0; i < MANY; i++) sum[i] = id + ME + i % 100;
        OK(MPI_Startall(3 - first, rq + first));
        OK(MPI_Waitall(3 - first, rq + first, MPI_STATUSES_IGNORE));
        for (int from = 0; from < N && !first; from++) CHECK(!wrong(recv + INTS * from, INTS, id, from, ME), "round %d: alltoall from %d", id, from);
        CHECK(!wrong(data, MANY, id, 0, 77), "round %d: bcast", id);
        for (int i = 0; i < MANY && ME == N - 1; i++)
            if (total[i] != N * (id + i % 100) + N * (N - 1) / 2) { CHECK(0, "round %d: reduce, place %d", id, i); break; }
    }
    for (int k = 0; k < 3; k++) OK(MPI_Request_free(&rq[k]));
    free(send), free(recv), free(data), free(sum), free(total);
}

static void sum_of(void *in, void *inout, int *n, MPI_Datatype *t)
{
    (void)t;
    for (int i = 0; i < *n; i++) ((double *)inout)[i] += ((double *)in)[i];
}

static void verdicts(void)
{
    enum { INTS = 16384 };
    int *send = calloc(INTS * N, sizeof(int)), *recv = calloc(INTS * N, sizeof(int)), counts[PMAX], places[PMAX];
    double *vector = calloc(INTS, sizeof(double));
    MPI_Comm kept;
    MPI_Info info;
    MPI_Op op;
    MPI_Request rq;
    static const int SIZES[] = {INTS, 1, 100, INTS};
    for (int k = 0; k < 4; k++) {
        OK(MPI_Ialltoall(send, SIZES[k], MPI_INT, recv, SIZES[k], MPI_INT, MPI_COMM_WORLD, &rq));
        OK(MPI_Wait(&rq, MPI_STATUS_IGNORE));
    }
    for (int r = 0; r < N; r++) counts[r] = INTS, places[r] = INTS * r;
    OK(MPI_Ialltoallv(send, counts, places, MPI_INT, recv, counts, places, MPI_INT, MPI_COMM_WORLD, &rq));
    OK(MPI_Wait(&rq, MPI_STATUS_IGNORE));
    OK(MPI_Op_create(sum_of, 1, &op));
    OK(MPI_Iallreduce(MPI_IN_PLACE, vector, INTS, MPI_DOUBLE, op, MPI_COMM_WORLD, &rq));
    OK(MPI_Wait(&rq, MPI_STATUS_IGNORE));
    OK(MPI_Op_free(&op));
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "ferrule_offload", "false"));
    OK(MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &kept));
    OK(MPI_Comm_set_name(kept, "kept"));
    OK(MPI_Ibcast(send, INTS, MPI_INT, 0, kept, &rq));
    OK(MPI_Wait(&rq, MPI_STATUS_IGNORE));
    OK(MPI_Comm_free(&kept));
    OK(MPI_Info_free(&info));
    OK(MPI_Ibcast(send, INTS, MPI_INT, 0, MPI_COMM_SELF, &rq));
    OK(MPI_Wait(&rq, MPI_STATUS_IGNORE));
    OK(MPI_Bcast_init(send, INTS, MPI_INT, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &rq));
    for (int k = 0; k < 3; k++) {
        OK(MPI_Start(&rq));
        OK(MPI_Wait(&rq, MPI_STATUS_IGNORE));
    }
    OK(MPI_Request_free(&rq));
    free(send), free(recv), free(vector);
}

static void die(void)
{
    enum { INTS = 50000 };
    int *buf = calloc(INTS, sizeof(int)), code = MPI_SUCCESS, class = MPI_SUCCESS;
    MPI_Comm survivors;
    MPI_Request rq;
    OK(MPI_Comm_split(MPI_COMM_WORLD, ME == N - 1, ME, &survivors));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Ibcast(buf, INTS, MPI_INT, 0, MPI_COMM_WORLD, &rq));
    OK(MPI_Wait(&rq, MPI_STATUS_IGNORE));
    /* It dies when the broadcast is over everywhere. */
    for (int r = 0; r < N - 1; r++) {
        if (ME == r) OK(MPI_Send(NULL, 0, MPI_INT, N - 1, 4, MPI_COMM_WORLD));
        if (ME == N - 1) OK(MPI_Recv(NULL, 0, MPI_INT, r, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
    if (ME == N - 1) raise(SIGKILL);
    code = MPI_Iallreduce(MPI_IN_PLACE, buf, INTS, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &rq);
    if (code == MPI_SUCCESS) code = MPI_Wait(&rq, MPI_STATUS_IGNORE);
    OK(MPI_Error_class(code, &class));
    EQ(class, ERR_LOST);
    /* The others still work with each other. */
    for (int i = 0; i < INTS; i++) buf[i] = i;
    OK(MPI_Iallreduce(MPI_IN_PLACE, buf, INTS, MPI_INT, MPI_SUM, survivors, &rq));
    OK(MPI_Wait(&rq, MPI_STATUS_IGNORE));
    for (int i = 0; i < INTS; i++)
        if (buf[i] != i * (N - 1)) { CHECK(0, "place %d", i); break; }
    free(buf);
    check_survivors(&survivors);
    MPI_Finalize();
    exit(check_failed != 0);
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "rounds";
    check_init(&argc, &argv);
    OK(MPI_Comm_size(MPI_COMM_WORLD, &N));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &ME));
    CHECK(N <= PMAX, "at most %d ranks", PMAX);
    if (!strcmp(mode, "outstanding")) outstanding();
    else if (!strcmp(mode, "hint")) hint();
    else if (!strcmp(mode, "long")) long_ones();
    else if (!strcmp(mode, "persist")) persist(argc > 2 ? atoi(argv[2]) : 20);
    else if (!strcmp(mode, "verdicts")) verdicts();
    else if (!strcmp(mode, "die")) die();
    else rounds(argc > 2 ? atoi(argv[2]) : 14);
    return check_done();
}
