/* MPI_THREAD_MULTIPLE: threads that sleep in MPI wake each other. While one thread watches for all, others' messages come in, are
 * completed by it, and it must wake them; when it returns, another one must watch. Each wait is long enough to sleep. Run with a long
 * FERRULE_SLEEP_MS: a lost wake-up then takes so long that the test times out. */
#include "check.h"
#include <pthread.h>
#include <unistd.h>
enum { THREADS = 4, ROUNDS = 1500, NAPS = 25, NAP_US = 8000 };
static MPI_Comm own[THREADS];
static int fails, with_naps;
#define T_CHECK(cond, what) do { if (!(cond)) { fprintf(stderr, "rank %d: %s:%d: %s\n", check_rank, __FILE__, __LINE__, what); __atomic_add_fetch(&fails, 1, __ATOMIC_RELAXED); } } while (0)

/* A thread of rank r answers the thread of the next rank with the same number, each time with another kind of wait. */
static void take(int id, int round, int from, int *v)
{
    MPI_Request rq[2];
    MPI_Message m;
    int none, which;
    switch ((round + id) % 4) {
    case 0: OK(MPI_Recv(v, 1, MPI_INT, from, id, MPI_COMM_WORLD, MPI_STATUS_IGNORE)); break;
    case 1:
        OK(MPI_Irecv(v, 1, MPI_INT, from, id, MPI_COMM_WORLD, &rq[0]));
        OK(MPI_Waitall(1, rq, MPI_STATUSES_IGNORE));
        break;
    case 2:
        OK(MPI_Mprobe(from, id, MPI_COMM_WORLD, &m, MPI_STATUS_IGNORE));
        OK(MPI_Mrecv(v, 1, MPI_INT, &m, MPI_STATUS_IGNORE));
        break;
    default: /* the second one never gets a message */
        OK(MPI_Irecv(v, 1, MPI_INT, from, id, MPI_COMM_WORLD, &rq[0]));
        OK(MPI_Irecv(&none, 1, MPI_INT, from, 900 + id, MPI_COMM_WORLD, &rq[1]));
        OK(MPI_Waitany(2, rq, &which, MPI_STATUS_IGNORE));
        T_CHECK(which == 0, "which");
        OK(MPI_Cancel(&rq[1]));
        OK(MPI_Wait(&rq[1], MPI_STATUS_IGNORE));
    }
}
static void *cross(void *arg)
{
    int id = (int)(intptr_t)arg, right = (check_rank + 1) % check_size, left = (check_rank + check_size - 1) % check_size, v;
    int rounds = with_naps ? NAPS : ROUNDS;
    for (int i = 0; i < rounds; i++) {
        /* one thread after the other lets the others wait */
        if (with_naps && i % THREADS == id && check_rank == i % check_size) usleep(NAP_US);
        v = i;
        OK(MPI_Send(&v, 1, MPI_INT, right, id, MPI_COMM_WORLD));
        v = -1;
        take(id, i, left, &v);
        T_CHECK(v == i, "value");
        if (with_naps && i % 3 == 0) {
            int sum = -1;
            OK(MPI_Allreduce(&id, &sum, 1, MPI_INT, MPI_SUM, own[id]));
            T_CHECK(sum == id * check_size, "sum");
        }
    }
    return NULL;
}

static int query(void *extra, MPI_Status *st) { (void)extra; return MPI_Status_set_elements(st, MPI_BYTE, 0); }
static int nothing(void *extra) { (void)extra; return MPI_SUCCESS; }
static int cancelled(void *extra, int complete) { (void)extra; (void)complete; return MPI_SUCCESS; }
static MPI_Request general;
static void *waits_for_program(void *arg) { (void)arg; OK(MPI_Wait(&general, MPI_STATUS_IGNORE)); return NULL; }
static void *waits_for_self(void *arg)
{
    int v = -1;
    (void)arg;
    OK(MPI_Recv(&v, 1, MPI_INT, 0, 5, MPI_COMM_SELF, MPI_STATUS_IGNORE));
    T_CHECK(v == 17, "to self");
    return NULL;
}
/* What only another thread of this process brings: no bell of a peer rings. */
static void at_home(void)
{
    for (int i = 0; i < NAPS; i++) {
        pthread_t a, b;
        int v = 17;
        OK(MPI_Grequest_start(query, nothing, cancelled, NULL, &general));
        MPI_Request handle = general; /* Wait clears the other one */
        pthread_create(&a, NULL, waits_for_program, NULL);
        pthread_create(&b, NULL, waits_for_self, NULL);
        usleep(NAP_US);
        if (i % 2) OK(MPI_Grequest_complete(handle));
        OK(MPI_Send(&v, 1, MPI_INT, 0, 5, MPI_COMM_SELF));
        if (i % 2 == 0) OK(MPI_Grequest_complete(handle));
        pthread_join(a, NULL);
        pthread_join(b, NULL);
    }
}
static void together(void)
{
    pthread_t t[THREADS];
    for (int i = 0; i < THREADS; i++) pthread_create(&t[i], NULL, cross, (void *)(intptr_t)i);
    for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
}

int main(int argc, char **argv)
{
    check_init_multiple(&argc, &argv);
    for (int i = 0; i < THREADS; i++) OK(MPI_Comm_dup(MPI_COMM_WORLD, &own[i]));
    together();
    with_naps = 1;
    together();
    at_home();
    for (int i = 0; i < THREADS; i++) OK(MPI_Comm_free(&own[i]));
    check_failed += fails;
    return check_done();
}
