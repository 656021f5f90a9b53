/* Collectives and messages of some sizes that check themselves, and that MPI_COMM_TYPE_SHARED never joins two nodes.
 * Usage: groups [long|wait|bell]    long: it takes two seconds. wait: rank 0 says so, and all wait for a message that never comes. bell: a rank that sleeps for a message
 * is woken by it, rather than by the end of its sleep, which the caller has set to a second. */
#include "check.h"

static int bell(void)
{
    enum { ROUNDS = 10 };
    int late = 0;
    double sent;
    for (int round = 0; round < ROUNDS; round++) {
        OK(MPI_Barrier(MPI_COMM_WORLD));
        if (check_rank == 0) {
            usleep(100000); /* By now the others sleep. */
            for (int to = 1; to < check_size; to++)
                OK(MPI_Send(&round, 1, MPI_INT, to, 1, MPI_COMM_WORLD));
        } else {
            int got = -1;
            sent = MPI_Wtime() + 0.1;
            OK(MPI_Recv(&got, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            late += MPI_Wtime() - sent > 0.4;
            EQ(got, round);
        }
    }
    CHECK(late < ROUNDS / 2, "%d of %d messages found nobody awake for long", late, ROUNDS);
    return check_done();
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    if (argc > 1 && strcmp(argv[1], "bell") == 0)
        return bell();
    if (argc > 1 && strcmp(argv[1], "long") == 0)
        sleep(2);
    else if (argc > 1) {
        int nothing;
        OK(MPI_Barrier(MPI_COMM_WORLD));
        if (check_rank == 0)
            printf("waiting\n"), fflush(stdout);
        OK(MPI_Recv(&nothing, 1, MPI_INT, (check_rank + 1) % check_size, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
    for (int bytes = 1; bytes <= 1 << 18; bytes *= 8) {
        unsigned char *out = malloc(bytes), *in = malloc((size_t)bytes * check_size);
        for (int i = 0; i < bytes; i++)
            out[i] = (unsigned char)(check_rank * 17 + i);
        OK(MPI_Allgather(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, MPI_COMM_WORLD));
        for (int r = 0; r < check_size; r++)
            for (int i = 0; i < bytes; i++)
                if (in[(size_t)r * bytes + i] != (unsigned char)(r * 17 + i)) {
                    CHECK(0, "%d bytes of rank %d: byte %d is wrong", bytes, r, i);
                    break;
                }
        free(out), free(in);
    }
    long mine = check_rank + 1, sum = 0;
    for (int round = 0; round < 50; round++)
        OK(MPI_Allreduce(&mine, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD));
    CHECK(sum == (long)check_size * (check_size + 1) / 2, "the sum is %ld", sum);

    char name[MPI_MAX_PROCESSOR_NAME] = {0}, *names = malloc((size_t)check_size * sizeof name);
    int length, shared, same = 0;
    MPI_Comm node;
    OK(MPI_Get_processor_name(name, &length));
    OK(MPI_Allgather(name, sizeof name, MPI_CHAR, names, sizeof name, MPI_CHAR, MPI_COMM_WORLD));
    OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node));
    OK(MPI_Comm_size(node, &shared));
    for (int r = 0; r < check_size; r++)
        same += strcmp(names + (size_t)r * sizeof name, name) == 0;
    CHECK(shared == same, "shares memory for windows with %d, but %d are under this kernel", shared, same);
    OK(MPI_Comm_free(&node));
    free(names);
    return check_done();
}
