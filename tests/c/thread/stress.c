/* MPI_THREAD_MULTIPLE: threads do point-to-point on shared and own communicators, collectives on dup'ed ones, probes with
 * matched receives, waits on each other's messages, communicator creation, all at once. */
#include "check.h"
#include <pthread.h>
enum { THREADS = 4, ROUNDS = 150, BIG = 40000 };
static MPI_Comm own[THREADS], shared;
static int fails;
#define T_CHECK(cond, what) do { if (!(cond)) { fprintf(stderr, "rank %d: %s:%d: %s\n", check_rank, __FILE__, __LINE__, what); __atomic_add_fetch(&fails, 1, __ATOMIC_RELAXED); } } while (0)

static void *ring(void *arg) /* each thread its own tag on one communicator */
{
    int id = (int)(intptr_t)arg, p = check_size, right = (check_rank + 1) % p, left = (check_rank + p - 1) % p;
    int *out = alloc(BIG * sizeof(int)), *in = alloc(BIG * sizeof(int));
    for (int i = 0; i < ROUNDS; i++) {
        int n = i % 10 == 9 ? BIG : i % 3 ? 1 : 900;
        for (int k = 0; k < n; k += 97) out[k] = i * 1000 + id * 100 + check_rank + k;
        MPI_Request rq[2];
        MPI_Status st[2];
        OK(MPI_Irecv(in, n, MPI_INT, left, id, shared, &rq[0]));
        OK(MPI_Isend(out, n, MPI_INT, right, id, shared, &rq[1]));
        OK(MPI_Waitall(2, rq, st));
        T_CHECK(st[0].MPI_TAG == id && st[0].MPI_SOURCE == left, "status");
        for (int k = 0; k < n; k += 97)
            if (in[k] != i * 1000 + id * 100 + left + k) { T_CHECK(0, "data"); break; }
    }
    free(out); free(in);
    return NULL;
}
static void *collectives(void *arg)
{
    int id = (int)(intptr_t)arg, p = check_size;
    for (int i = 0; i < ROUNDS; i++) {
        int a = check_rank + i + id, sum = -1, b = check_rank == i % p ? i + id : -1, all[64];
        OK(MPI_Allreduce(&a, &sum, 1, MPI_INT, MPI_SUM, own[id]));
        T_CHECK(sum == p * (p - 1) / 2 + p * (i + id), "allreduce");
        OK(MPI_Bcast(&b, 1, MPI_INT, i % p, own[id]));
        T_CHECK(b == i + id, "bcast");
        if (i % 5 == 0) {
            OK(MPI_Allgather(&a, 1, MPI_INT, all, 1, MPI_INT, own[id]));
            T_CHECK(all[p - 1] == p - 1 + i + id, "allgather");
        }
        if (i % 50 == 0) { MPI_Comm c; OK(MPI_Comm_dup(own[id], &c)); OK(MPI_Barrier(c)); OK(MPI_Comm_free(&c)); }
    }
    return NULL;
}
static void *matched(void *arg) /* all threads of rank 0 drain one stream with Mprobe; each message exactly once */
{
    (void)arg;
    static int seen[THREADS * ROUNDS * 64];
    int id = (int)(intptr_t)arg, n = ROUNDS;
    if (check_rank) {
        for (int i = 0; i < n; i++) { int v = (check_rank * THREADS + id) * ROUNDS + i; OK(MPI_Send(&v, 1, MPI_INT, 0, 700, shared)); }
    } else
        for (int i = 0; i < n * (check_size - 1); i++) {
            MPI_Message m;
            int v = -1;
            OK(MPI_Mprobe(MPI_ANY_SOURCE, 700, shared, &m, MPI_STATUS_IGNORE));
            OK(MPI_Mrecv(&v, 1, MPI_INT, &m, MPI_STATUS_IGNORE));
            T_CHECK(v >= 0 && __atomic_add_fetch(&seen[v], 1, __ATOMIC_RELAXED) == 1, "message twice");
        }
    return NULL;
}
static void *handoff(void *arg) /* one thread sends to another of the same process */
{
    int id = (int)(intptr_t)arg, v;
    for (int i = 0; i < ROUNDS; i++) {
        if (id % 2) { OK(MPI_Recv(&v, 1, MPI_INT, check_rank, 800 + id, shared, MPI_STATUS_IGNORE)); T_CHECK(v == i, "handoff"); }
        else OK(MPI_Ssend(&i, 1, MPI_INT, check_rank, 800 + id + 1, shared));
    }
    return NULL;
}
static void together(void *(*f)(void *))
{
    pthread_t t[THREADS];
    for (int i = 0; i < THREADS; i++) pthread_create(&t[i], NULL, f, (void *)(intptr_t)i);
    for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
}
static void *mixed(void *arg)
{
    int id = (int)(intptr_t)arg;
    return id < 2 ? ring(arg) : collectives(arg);
}

int main(int argc, char **argv)
{
    check_init_multiple(&argc, &argv);
    for (int i = 0; i < THREADS; i++) OK(MPI_Comm_dup(MPI_COMM_WORLD, &own[i]));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &shared));
    together(ring);
    together(collectives);
    if (check_size > 1) together(matched);
    together(handoff);
    together(mixed);
    for (int i = 0; i < THREADS; i++) OK(MPI_Comm_free(&own[i]));
    OK(MPI_Comm_free(&shared));
    check_failed += fails;
    return check_done();
}
