/* Random updates, as in table-update benchmarks: each rank works on its part and sends numbers to random ranks in small messages, and tests
 * between the steps of its own work whether one has come. Reports million updates a second of the whole job. Usage: updates */
#include "bench.h"
enum { TABLE = 1 << 16, BATCH = 16, IN_FLIGHT = 4 };
static unsigned long table[TABLE];
static unsigned long seed;

static unsigned long next_random(void)
{
    seed = seed * 6364136223846793005ul + 1442695040888963407ul;
    return seed >> 24;
}

static MPI_Request incoming;
static unsigned long batch_in[BATCH];
static long ended; /* ranks that have told that they send no more */

/* Takes one batch if it is there; true if it was. */
static int take(void)
{
    int flag, n;
    MPI_Status status;
    MPI_Test(&incoming, &flag, &status);
    if (!flag)
        return 0;
    if (status.MPI_TAG == 1)
        ended++;
    MPI_Get_count(&status, MPI_UNSIGNED_LONG, &n);
    for (int i = 0; i < n; i++)
        table[batch_in[i] % TABLE] ^= batch_in[i];
    MPI_Irecv(batch_in, BATCH, MPI_UNSIGNED_LONG, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &incoming);
    return 1;
}

static void updates(int batches)
{
    static unsigned long out[IN_FLIGHT][BATCH];
    MPI_Request sent[IN_FLIGHT];
    for (int i = 0; i < IN_FLIGHT; i++) sent[i] = MPI_REQUEST_NULL;
    ended = 0;
    MPI_Irecv(batch_in, BATCH, MPI_UNSIGNED_LONG, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &incoming);
    for (int b = 0; b < batches; b++) {
        int free_one = b % IN_FLIGHT, flag = 0;
        while (MPI_Test(&sent[free_one], &flag, MPI_STATUS_IGNORE), !flag)
            take();
        for (int i = 0; i < BATCH; i++) out[free_one][i] = next_random();
        int to = (int)(next_random() % (unsigned long)size);
        MPI_Isend(out[free_one], BATCH, MPI_UNSIGNED_LONG, to, 0, MPI_COMM_WORLD, &sent[free_one]);
        take();
    }
    MPI_Request over;
    for (int to = 0; to < size; to++) {
        int flag = 0;
        MPI_Isend(NULL, 0, MPI_UNSIGNED_LONG, to, 1, MPI_COMM_WORLD, &over);
        while (MPI_Test(&over, &flag, MPI_STATUS_IGNORE), !flag)
            take();
    }
    while (ended < size)
        take();
    MPI_Waitall(IN_FLIGHT, sent, MPI_STATUSES_IGNORE);
    MPI_Cancel(&incoming);
    MPI_Wait(&incoming, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    bench_init(&argc, &argv);
    seed = (unsigned long)rank * 7919 + 1;
    int k = 200;
    double seconds = 0;
    for (int pass = 0; pass < 2; pass++) { /* the first finds the number of batches */
        MPI_Barrier(MPI_COMM_WORLD);
        double t = MPI_Wtime();
        updates(k);
        seconds = MPI_Wtime() - t;
        if (pass == 0)
            k = iterations(seconds / k, target_s(), 200, 1000000);
    }
    report("updates", BATCH * (long)sizeof *table, (double)k * BATCH * size / seconds / 1e6, "million/s");
    MPI_Finalize();
    return 0;
}
