/* A rank dies in the middle of collectives; the error handler returns. The others get MPI_ERR_PROC_ABORTED in one of them, nobody waits
 * for ever, also not with a large message for a rank that has left already, and a communicator of the survivors works.
 * Arguments: seed. */
#include "check.h"
#include <signal.h>

enum { BIG = 1 << 20, KINDS = 7 };

/* One collective on the world, any kind and size: its return code. */
static int one(int kind, int n, int root, char *in, char *out)
{
    switch (kind) {
    case 0: return MPI_Allreduce(in, out, n, MPI_UNSIGNED_CHAR, MPI_SUM, MPI_COMM_WORLD);
    case 1: return MPI_Bcast(in, n, MPI_BYTE, root, MPI_COMM_WORLD);
    case 2: return MPI_Alltoall(in, n, MPI_BYTE, out, n, MPI_BYTE, MPI_COMM_WORLD);
    case 3: return MPI_Allgather(in, n, MPI_BYTE, out, n, MPI_BYTE, MPI_COMM_WORLD);
    case 4: return MPI_Barrier(MPI_COMM_WORLD);
    case 5: return MPI_Reduce(in, out, n, MPI_UNSIGNED_CHAR, MPI_MAX, root, MPI_COMM_WORLD);
    default: {
        MPI_Request rq;
        int code = MPI_Igather(in, n, MPI_BYTE, out, n, MPI_BYTE, root, MPI_COMM_WORLD, &rq);
        return code == MPI_SUCCESS ? MPI_Wait(&rq, MPI_STATUS_IGNORE) : code;
    }
    }
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    uint64_t state = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    static const int SIZES[] = {8, 3000, 20000, 200000, BIG};
    int victim = rnd_below(&state, check_size), last = rnd_below(&state, 40), class = MPI_SUCCESS;
    char *in = alloc(BIG * (size_t)check_size), *out = alloc(BIG * (size_t)check_size);
    memset(in, 1, BIG * (size_t)check_size);
    for (int i = 0; i < last + 100 && class == MPI_SUCCESS; i++) {
        int kind = rnd_below(&state, KINDS), n = SIZES[rnd_below(&state, LEN(SIZES))], root = rnd_below(&state, check_size);
        if (check_rank == victim && i == last)
            raise(SIGKILL);
        int code = one(kind, n, root, in, out);
        if (code != MPI_SUCCESS)
            MPI_Error_class(code, &class);
    }
    EQ(class, ERR_LOST);
    MPI_Group world, alive;
    MPI_Comm survivors;
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    OK(MPI_Group_excl(world, 1, &victim, &alive));
    OK(MPI_Comm_create_group(MPI_COMM_WORLD, alive, 5, &survivors));
    for (int i = 0; i < 20; i++) {
        memset(in, i, BIG);
        OK(MPI_Allreduce(in, out, BIG, MPI_UNSIGNED_CHAR, MPI_SUM, survivors));
        EQ((unsigned char)out[BIG - 1], (unsigned char)(i * (check_size - 1)));
        OK(MPI_Allgather(in, BIG, MPI_BYTE, out, BIG, MPI_BYTE, survivors));
        EQ(out[BIG * (check_size - 1) - 1], i);
    }
    check_survivors(&survivors);
    OK(MPI_Group_free(&alive));
    OK(MPI_Group_free(&world));
    OK(MPI_Finalize());
    return check_failed != 0;
}
