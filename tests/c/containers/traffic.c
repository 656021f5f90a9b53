/* Traffic between all ranks that checks every byte: what must work, and how, whatever lies between the ranks.
 * Usage: traffic [small] [stream] [coll] [big] [shared N] [rounds N]    (nothing: small stream coll)
 * small: ping-pong of each pair. stream: windows of large messages of each pair. coll: collectives. big: single messages of 96 MiB, which
 * exceed the /dev/shm of a default container. shared N: MPI_COMM_TYPE_SHARED must hold exactly N ranks. rounds N: N small allreduces, the shape of an
 * iterative solver. Rank 0 prints one line. */
#include "check.h"

enum { ROUNDS = 200, WINDOW = 8, STREAM = 2 << 20, BIG = 96 << 20 };

/* A byte that depends on its place, the sender and the round. */
static unsigned char byte_at(size_t i, int from, int round) { return (unsigned char)(i * 31 + (i >> 12) + from * 7 + round); }

static void put(unsigned char *buffer, size_t bytes, int from, int round)
{
    for (size_t i = 0; i < bytes; i++)
        buffer[i] = byte_at(i, from, round);
}

static void expect(const unsigned char *buffer, size_t bytes, int from, int round, const char *what)
{
    for (size_t i = 0; i < bytes; i++)
        if (buffer[i] != byte_at(i, from, round)) {
            CHECK(0, "%s from %d: byte %zu of %zu is %d, not %d", what, from, i, bytes, buffer[i], byte_at(i, from, round));
            return;
        }
}

static double small(void)
{
    unsigned char out[1024], in[1024];
    double best = 1e9;
    for (int a = 0; a < check_size; a++)
        for (int b = a + 1; b < check_size; b++) {
            if (check_rank != a && check_rank != b)
                continue;
            int peer = check_rank == a ? b : a;
            double begin = MPI_Wtime();
            for (int i = 0; i < ROUNDS; i++) {
                int n = i % 4 ? 8 : 1 + i * 5 % 1024;
                if (check_rank == a) {
                    put(out, n, a, i);
                    OK(MPI_Send(out, n, MPI_BYTE, peer, 1, MPI_COMM_WORLD));
                }
                OK(MPI_Recv(in, n, MPI_BYTE, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
                expect(in, n, peer, i, "ping-pong");
                if (check_rank == b) {
                    put(out, n, b, i);
                    OK(MPI_Send(out, n, MPI_BYTE, peer, 1, MPI_COMM_WORLD));
                }
            }
            double each = (MPI_Wtime() - begin) / ROUNDS / 2;
            best = each < best ? each : best;
        }
    return best * 1e6;
}

static double stream(void)
{
    unsigned char *out = malloc(STREAM), *in = malloc((size_t)WINDOW * STREAM);
    MPI_Request rq[2 * WINDOW];
    double seconds = 0;
    long count = 0;
    put(out, STREAM, check_rank, 3);
    for (int a = 0; a < check_size; a++)
        for (int b = a + 1; b < check_size; b++) {
            if (check_rank != a && check_rank != b)
                continue;
            int peer = check_rank == a ? b : a;
            memset(in, 0, (size_t)WINDOW * STREAM);
            double begin = MPI_Wtime();
            for (int w = 0; w < WINDOW; w++) {
                OK(MPI_Irecv(in + (size_t)w * STREAM, STREAM, MPI_BYTE, peer, 2, MPI_COMM_WORLD, &rq[2 * w]));
                OK(MPI_Isend(out, STREAM, MPI_BYTE, peer, 2, MPI_COMM_WORLD, &rq[2 * w + 1]));
            }
            OK(MPI_Waitall(2 * WINDOW, rq, MPI_STATUSES_IGNORE));
            seconds += MPI_Wtime() - begin;
            count += WINDOW;
            for (int w = 0; w < WINDOW; w++)
                expect(in + (size_t)w * STREAM, STREAM, peer, 3, "stream");
        }
    free(out), free(in);
    return count ? count * (double)STREAM / seconds / 1e9 : 0;
}

static void collectives_of(int n)
{
    int *in = malloc(sizeof(int) * n), *out = malloc(sizeof(int) * n);
    for (int i = 0; i < n; i++)
        in[i] = check_rank + i;
    OK(MPI_Allreduce(in, out, n, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    for (int i = 0; i < n; i++)
        if (out[i] != check_size * (check_size - 1) / 2 + check_size * i) {
            CHECK(0, "allreduce of %d: element %d is %d", n, i, out[i]);
            break;
        }
    int root = n % check_size;
    for (int i = 0; i < n; i++)
        out[i] = check_rank == root ? i ^ n : -1;
    OK(MPI_Bcast(out, n, MPI_INT, root, MPI_COMM_WORLD));
    for (int i = 0; i < n; i++)
        if (out[i] != (i ^ n)) {
            CHECK(0, "bcast of %d: element %d is %d", n, i, out[i]);
            break;
        }
    int *all = malloc(sizeof(int) * n * check_size), *got = malloc(sizeof(int) * n * check_size);
    for (int i = 0; i < n * check_size; i++)
        all[i] = check_rank * 1000 + i / n;
    OK(MPI_Alltoall(all, n, MPI_INT, got, n, MPI_INT, MPI_COMM_WORLD));
    for (int i = 0; i < n * check_size; i++)
        if (got[i] != i / n * 1000 + check_rank) {
            CHECK(0, "alltoall of %d: element %d is %d", n, i, got[i]);
            break;
        }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    free(in), free(out), free(all), free(got);
}

static void big(void)
{
    unsigned char *out = malloc(BIG), *in = malloc(BIG);
    int next = (check_rank + 1) % check_size, previous = (check_rank + check_size - 1) % check_size;
    put(out, BIG, check_rank, 9);
    OK(MPI_Sendrecv(out, BIG, MPI_BYTE, next, 4, in, BIG, MPI_BYTE, previous, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    expect(in, BIG, previous, 9, "big");
    free(out), free(in);
}

static void shared(int want)
{
    MPI_Comm node;
    int size;
    OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node));
    OK(MPI_Comm_size(node, &size));
    EQ(size, want);
    OK(MPI_Comm_free(&node));
}

static void rounds(int n)
{
    for (int i = 0; i < n; i++) {
        long one = check_rank + i, all = 0;
        OK(MPI_Allreduce(&one, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD));
        EQ(all, (long)check_size * (check_size - 1) / 2 + (long)check_size * i);
    }
}

int main(int argc, char **argv)
{
    double latency = 0, bandwidth = 0;
    check_init(&argc, &argv);
    static char *usual[] = {"traffic", "small", "stream", "coll"};
    if (argc < 2)
        argc = 4, argv = usual;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "small"))
            latency = small();
        else if (!strcmp(argv[i], "stream"))
            bandwidth = stream();
        else if (!strcmp(argv[i], "coll"))
            for (int n = 1; n <= 1 << 18; n *= 8)
                collectives_of(n);
        else if (!strcmp(argv[i], "big"))
            big();
        else if (!strcmp(argv[i], "shared") && i + 1 < argc)
            shared(atoi(argv[++i]));
        else if (!strcmp(argv[i], "rounds") && i + 1 < argc)
            rounds(atoi(argv[++i]));
    }
    int failed = check_failed, all;
    OK(MPI_Allreduce(&failed, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    if (check_rank == 0)
        printf("traffic: %s; latency %.2f us, bandwidth %.2f GB/s\n", all ? "WRONG" : "right", latency, bandwidth);
    return check_done();
}
