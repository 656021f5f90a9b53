/* A user-defined operation gets a datatype that it can ask about, also when the program has freed the type since the call. */
#include "check.h"

enum { ITEMS = 5, EXTENT = 16 };

static int calls;

static void add_spread(void *in, void *inout, int *n, MPI_Datatype *t)
{
    MPI_Aint lb, extent;
    int size, integers, addresses, types, combiner;
    calls++;
    OK(MPI_Type_get_extent(*t, &lb, &extent));
    EQ(extent, EXTENT);
    OK(MPI_Type_size(*t, &size));
    EQ(size, 2 * sizeof(int));
    OK(MPI_Type_get_envelope(*t, &integers, &addresses, &types, &combiner));
    EQ(combiner, MPI_COMBINER_RESIZED);
    for (int i = 0; i < *n; i++) {
        int *a = (int *)((char *)in + i * extent), *b = (int *)((char *)inout + i * extent);
        b[0] += a[0];
        b[2] += a[2];
    }
}

static MPI_Datatype spread(void)
{
    MPI_Datatype pair, type;
    OK(MPI_Type_vector(2, 1, 2, MPI_INT, &pair));
    OK(MPI_Type_create_resized(pair, 0, EXTENT, &type));
    OK(MPI_Type_commit(&type));
    OK(MPI_Type_free(&pair));
    return type;
}

static void prepare(int *from, int *into, int round)
{
    for (int i = 0; i < 4 * ITEMS; i++) from[i] = i + check_rank + round, into[i] = -9;
}

static void verify(const int *into, int round)
{
    int others = check_size * (check_size - 1) / 2;
    for (int i = 0; i < 4 * ITEMS; i++) EQ(into[i], i % 2 ? -9 : check_size * (i + round) + others);
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    int from[4 * ITEMS], into[4 * ITEMS];
    MPI_Op add;
    MPI_Request request, other;
    OK(MPI_Op_create(add_spread, 1, &add));
    for (int round = 0; round < 3; round++) {
        MPI_Datatype type = spread(), later;
        prepare(from, into, round);
        OK(MPI_Iallreduce(from, into, ITEMS, type, add, MPI_COMM_WORLD, &request));
        OK(MPI_Type_free(&type));
        later = spread(); /* may get what the freed one had */
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        verify(into, round);
        OK(MPI_Type_free(&later));
    }
    /* two persistent ones of one type, which is freed before they are started */
    MPI_Datatype type = spread();
    int into2[4 * ITEMS];
    OK(MPI_Allreduce_init(from, into, ITEMS, type, add, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
    OK(MPI_Allreduce_init(from, into2, ITEMS, type, add, MPI_COMM_WORLD, MPI_INFO_NULL, &other));
    OK(MPI_Type_free(&type));
    OK(MPI_Op_free(&add));
    for (int round = 0; round < 3; round++) {
        prepare(from, into, round);
        prepare(from, into2, round);
        OK(MPI_Start(&request));
        OK(MPI_Start(&other));
        OK(MPI_Wait(&other, MPI_STATUS_IGNORE));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        verify(into, round);
        verify(into2, round);
    }
    OK(MPI_Request_free(&request));
    OK(MPI_Request_free(&other));
    int all = 0;
    OK(MPI_Allreduce(&calls, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CHECK(check_size == 1 || all > 0, "the operation was never called");
    return check_done();
}
