/* Requests crossing threads: one thread posts, another completes; Grequests completed elsewhere; a thread blocked in a
 * receive while others work; wakeups from sleep. */
#include "check.h"
#include <pthread.h>
enum { N = 300 };
static MPI_Request rq[N], greq;
static int in[N];
static volatile int posted;

static void *completer(void *x)
{
    (void)x;
    for (int done = 0; done < N; done++) {
        while (__atomic_load_n(&posted, __ATOMIC_ACQUIRE) <= done) usleep(10);
        OK(MPI_Wait(&rq[done], MPI_STATUS_IGNORE));
    }
    return NULL;
}
static void *blocked(void *x) { OK(MPI_Recv(x, 1, MPI_INT, MPI_ANY_SOURCE, 500, MPI_COMM_WORLD, MPI_STATUS_IGNORE)); return NULL; }
static void *later(void *x) { (void)x; usleep(50000); OK(MPI_Grequest_complete(greq)); return NULL; }
static int query(void *x, MPI_Status *st) { (void)x; MPI_Status_set_elements(st, MPI_INT, 1); MPI_Status_set_cancelled(st, 0); return 0; }
static int nothing(void *x) { (void)x; return 0; }
static int cancel(void *x, int c) { (void)x; (void)c; return 0; }

int main(int argc, char **argv)
{
    check_init_multiple(&argc, &argv);
    int p = check_size, right = (check_rank + 1) % p, left = (check_rank + p - 1) % p, late = -1;
    pthread_t t, b, g;
    pthread_create(&b, NULL, blocked, &late); /* waits through all of the following */
    pthread_create(&t, NULL, completer, NULL);
    for (int i = 0; i < N; i++) {
        OK(MPI_Irecv(&in[i], 1, MPI_INT, left, i, MPI_COMM_WORLD, &rq[i]));
        __atomic_store_n(&posted, i + 1, __ATOMIC_RELEASE);
        int v = i * 3;
        OK(MPI_Send(&v, 1, MPI_INT, right, i, MPI_COMM_WORLD));
    }
    pthread_join(t, NULL);
    for (int i = 0; i < N; i++) EQ(in[i], i * 3);
    MPI_Request mine;
    OK(MPI_Grequest_start(query, nothing, cancel, NULL, &greq));
    mine = greq;
    pthread_create(&g, NULL, later, NULL);
    OK(MPI_Wait(&mine, MPI_STATUS_IGNORE));
    pthread_join(g, NULL);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    usleep(100000); /* long enough for the blocked thread to have gone to sleep */
    int v = 77;
    OK(MPI_Send(&v, 1, MPI_INT, right, 500, MPI_COMM_WORLD));
    pthread_join(b, NULL);
    EQ(late, 77);
    return check_done();
}
