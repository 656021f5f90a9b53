/* Several threads mark the partitions of one send as ready, while the main thread waits for it; the receiver's threads look for theirs. */
#include "check.h"
#include <pthread.h>
enum { THREADS = 4, EACH = 8, ITEMS = 3000, ROUNDS = 5 };
static int buf[THREADS * EACH * ITEMS];
static MPI_Request request;
static int round_now;

static void *work(void *arg)
{
    int me = (int)(intptr_t)arg;
    for (int k = 0; k < EACH; k++) {
        int p = k * THREADS + me, *at = buf + p * ITEMS, flag = 0, bad = 0;
        if (check_rank == 0) {
            for (int i = 0; i < ITEMS; i++)
                at[i] = round_now * 7 + p * ITEMS + i;
            OK(MPI_Pready(p, request));
        } else {
            while (!flag)
                OK(MPI_Parrived(request, p, &flag));
            for (int i = 0; i < ITEMS; i++)
                bad += at[i] != round_now * 7 + p * ITEMS + i;
            EQ(bad, 0);
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    check_init_multiple(&argc, &argv);
    if (check_size < 2)
        return check_skip("needs two ranks");
    if (check_rank == 0)
        OK(MPI_Psend_init(buf, THREADS * EACH, ITEMS, MPI_INT, 1, 3, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
    if (check_rank == 1)
        OK(MPI_Precv_init(buf, THREADS * EACH, ITEMS, MPI_INT, 0, 3, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
    for (round_now = 0; round_now < ROUNDS && check_rank < 2; round_now++) {
        pthread_t threads[THREADS];
        memset(buf, 0, sizeof buf);
        OK(MPI_Start(&request));
        for (intptr_t t = 0; t < THREADS; t++)
            pthread_create(&threads[t], NULL, work, (void *)t);
        if (check_rank == 0)
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        for (int t = 0; t < THREADS; t++)
            pthread_join(threads[t], NULL);
        if (check_rank == 1)
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    }
    if (check_rank < 2)
        OK(MPI_Request_free(&request));
    return check_done();
}
