/* A rank dies while communicators are made; the error handler returns. Whoever gets an error enters nothing more, so the others must not wait
 * for it either: everybody gets MPI_ERR_PROC_ABORTED. Then the survivors make communicators of all kinds among themselves.
 * Arguments: seed. */
#include "check.h"
#include <signal.h>

enum { KINDS = 12 };

static MPI_Comm base, half, inter;
static MPI_Group everybody;

static int create(int kind, MPI_Comm *out)
{
    MPI_Request rq;
    int code, dims[1], periods[1] = {1}, left, right, me, n;
    MPI_Comm_rank(base, &me);
    MPI_Comm_size(base, &n);
    dims[0] = n;
    left = (me + n - 1) % n, right = (me + 1) % n;
    switch (kind) {
    case 0: return MPI_Comm_dup(base, out);
    case 1:
        code = MPI_Comm_idup(base, out, &rq);
        return code == MPI_SUCCESS ? MPI_Wait(&rq, MPI_STATUS_IGNORE) : code;
    case 2: return MPI_Comm_split(base, me % 3, -me, out);
    case 3: return MPI_Comm_create(base, everybody, out);
    case 4: return MPI_Comm_create_group(base, everybody, 9, out);
    case 5: return MPI_Comm_split_type(base, MPI_COMM_TYPE_SHARED, me, MPI_INFO_NULL, out);
    case 6: return MPI_Cart_create(base, 1, dims, periods, 1, out);
    case 7: return MPI_Dist_graph_create_adjacent(base, 1, &left, MPI_UNWEIGHTED, 1, &right, MPI_UNWEIGHTED, MPI_INFO_NULL, 1, out);
    case 8: return MPI_Comm_dup(inter, out);
    case 9: return MPI_Intercomm_merge(inter, me % 2, out);
    case 10: return MPI_Comm_split(inter, 0, -me, out);
    default: return MPI_Comm_create_from_group(everybody, "survive", MPI_INFO_NULL, MPI_ERRORS_RETURN, out);
    }
}

/* `base`'s even and odd members as two halves, and an inter-communicator of these. */
static void prepare(void)
{
    int me;
    OK(MPI_Comm_rank(base, &me));
    OK(MPI_Comm_group(base, &everybody));
    OK(MPI_Comm_split(base, me % 2, me, &half));
    OK(MPI_Intercomm_create(half, 0, base, !(me % 2), 4, &inter));
}

static void done(void)
{
    OK(MPI_Comm_free(&inter));
    OK(MPI_Comm_free(&half));
    OK(MPI_Group_free(&everybody));
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    uint64_t state = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    int victim = rnd_below(&state, check_size), last = rnd_below(&state, 30), class = MPI_SUCCESS;
    base = MPI_COMM_WORLD;
    prepare();
    for (int i = 0; i < last + 100 && class == MPI_SUCCESS; i++) {
        int kind = rnd_below(&state, KINDS);
        MPI_Comm made = MPI_COMM_NULL;
        if (check_rank == victim && i == last)
            raise(SIGKILL);
        int code = create(kind, &made);
        if (code != MPI_SUCCESS)
            MPI_Error_class(code, &class);
        else if (made != MPI_COMM_NULL)
            OK(MPI_Comm_free(&made));
    }
    EQ(class, ERR_LOST);
    /* each kind that needs the dead one fails at once from now on */
    for (int kind = check_rank % KINDS; kind < KINDS; kind += check_size) {
        MPI_Comm made = MPI_COMM_NULL;
        int code = create(kind, &made), now;
        MPI_Error_class(code, &now);
        EQ(now, ERR_LOST);
    }
    MPI_Group alive;
    MPI_Comm survivors;
    OK(MPI_Group_excl(everybody, 1, &victim, &alive));
    OK(MPI_Comm_create_group(MPI_COMM_WORLD, alive, 5, &survivors));
    done();
    OK(MPI_Group_free(&alive));
    base = survivors;
    prepare();
    for (int kind = 0; kind < KINDS; kind++) {
        MPI_Comm made = MPI_COMM_NULL;
        OK(create(kind, &made));
        CHECK(made != MPI_COMM_NULL);
        OK(MPI_Barrier(made));
        OK(MPI_Comm_disconnect(&made));
    }
    done();
    check_survivors(&survivors);
    OK(MPI_Finalize());
    return check_failed != 0;
}
