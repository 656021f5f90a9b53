/* Point-to-point: pt2pt latency|bandwidth|bibandwidth|rate SIZES [cold]
 * latency: ping-pong between ranks 0 and 1, half the round trip. bandwidth: windows of 64 messages and one answer.
 * bibandwidth: both ways at once. rate: size/2 pairs, messages per second of all together. cold: buffers walk through 64 MiB. */
#include "bench.h"
enum { WINDOW = 64, COLD = 64 << 20 };
static char *out, *in;
static size_t step, wrap;
static MPI_Request rq[2 * WINDOW];

static size_t place(long i) { return wrap ? (size_t)i * step % wrap : 0; }

static double latency(int n, int k)
{
    double t = MPI_Wtime();
    for (int i = 0; i < k; i++)
        if (rank == 0) {
            MPI_Send(out + place(i), n, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
            MPI_Recv(in + place(i), n, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else if (rank == 1) {
            MPI_Recv(in + place(i), n, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(out + place(i), n, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
        }
    return (MPI_Wtime() - t) / k / 2;
}
/* Seconds per message; every rank of the first half streams to its partner. */
static double stream(int n, int k, int both)
{
    int half = size / 2, sender = rank < half, peer = sender ? rank + half : rank - half, ack = 0;
    double t = MPI_Wtime();
    for (int i = 0; i < k; i++) {
        int used = 0;
        if (!sender || both)
            for (int w = 0; w < WINDOW; w++)
                MPI_Irecv(in + place(i * WINDOW + w), n, MPI_BYTE, peer, 2, MPI_COMM_WORLD, &rq[used++]);
        if (sender || both)
            for (int w = 0; w < WINDOW; w++)
                MPI_Isend(out + place(i * WINDOW + w), n, MPI_BYTE, peer, 2, MPI_COMM_WORLD, &rq[used++]);
        MPI_Waitall(used, rq, MPI_STATUSES_IGNORE);
        if (sender)
            MPI_Recv(&ack, 1, MPI_INT, peer, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else
            MPI_Send(&ack, 1, MPI_INT, peer, 3, MPI_COMM_WORLD);
    }
    return (MPI_Wtime() - t) / k / WINDOW;
}

int main(int argc, char **argv)
{
    bench_init(&argc, &argv);
    const char *what = argc > 1 ? argv[1] : "latency";
    long sizes[32];
    int ns = sizes_of(argc > 2 ? argv[2] : "8,1024,65536", sizes, 32), cold = argc > 3 && !strcmp(argv[3], "cold");
    int is_latency = !strcmp(what, "latency"), both = !strcmp(what, "bibandwidth"), rate = !strcmp(what, "rate");
    char row[64];
    long most = 0;
    for (int i = 0; i < ns; i++)
        most = sizes[i] > most ? sizes[i] : most;
    size_t room = cold ? COLD + most : most;
    out = buffer(room), in = buffer(room);
    snprintf(row, sizeof row, "%s%s", what, cold ? " cold" : "");
    for (int s = 0; s < ns; s++) {
        int n = (int)sizes[s], warm = is_latency ? 50 : 4;
        step = ((size_t)n + 4095) & ~(size_t)4095, wrap = cold ? COLD / (step ? step : 1) * step : 0;
        MPI_Barrier(MPI_COMM_WORLD);
        /* Twice: the first time memory is touched and connections are made, which would give too few iterations. */
        double one = is_latency ? (latency(n, warm), 2 * latency(n, warm)) : (stream(n, warm, both), WINDOW * stream(n, warm, both));
        int k = iterations(one, target_s(), 4, 2000000);
        MPI_Barrier(MPI_COMM_WORLD);
        double t = is_latency ? latency(n, k) : stream(n, k, both);
        if (is_latency)
            report(row, n, t * 1e6, "us");
        else if (rate) {
            double mine = rank < size / 2 ? 1 / t : 0, all = 0;
            MPI_Reduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
            report(row, n, all / 1e6, "million/s");
        } else
            report(row, n, n * (both ? 2 : 1) / t / 1e9, "GB/s");
    }
    MPI_Finalize();
    return 0;
}
