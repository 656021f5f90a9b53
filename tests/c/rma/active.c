/* Fence; post, start, complete, wait (MPI-5.0, 12.5.1, 12.5.2); put, get and accumulate of any datatypes; on windows that are created, allocated, dynamic. */
#include "check.h"

enum { N = 64 };
static int flavor;
static double *memory;
static MPI_Aint *bases;

static MPI_Win make(void)
{
    MPI_Win win;
    if (flavor == 0) {
        memory = malloc(N * sizeof *memory);
        OK(MPI_Win_create(memory, N * sizeof *memory, sizeof *memory, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    } else if (flavor == 1) {
        OK(MPI_Win_allocate(N * sizeof *memory, sizeof *memory, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win));
    } else {
        memory = malloc(N * sizeof *memory);
        OK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win));
        OK(MPI_Win_attach(win, memory, N * sizeof *memory));
        MPI_Aint mine; OK(MPI_Get_address(memory, &mine));
        bases = malloc((size_t)check_size * sizeof *bases);
        OK(MPI_Allgather(&mine, 1, MPI_AINT, bases, 1, MPI_AINT, MPI_COMM_WORLD));
    }
    for (int i = 0; i < N; i++) memory[i] = 1000 * check_rank + i;
    return win;
}
static void unmake(MPI_Win *win)
{
    if (flavor == 2) { OK(MPI_Barrier(MPI_COMM_WORLD)); OK(MPI_Win_detach(*win, memory)); free(bases); }
    OK(MPI_Win_free(win));
    if (flavor != 1) free(memory);
}
/* Item `i` of a rank's memory. */
static MPI_Aint at(int rank, int i) { return flavor == 2 ? MPI_Aint_add(bases[rank], i * (MPI_Aint)sizeof(double)) : i; }

static void fences(void)
{
    MPI_Win win = make();
    int right = (check_rank + 1) % check_size, left = (check_rank + check_size - 1) % check_size;
    double out[8], in[N];
    for (int i = 0; i < 8; i++) out[i] = -100 * check_rank - i;
    OK(MPI_Win_fence(MPI_MODE_NOPRECEDE, win));
    OK(MPI_Put(out, 8, MPI_DOUBLE, right, at(right, 8), 8, MPI_DOUBLE, win));
    OK(MPI_Get(in, 4, MPI_DOUBLE, right, at(right, 20), 4, MPI_DOUBLE, win));
    OK(MPI_Put(out, 1, MPI_DOUBLE, MPI_PROC_NULL, 0, 1, MPI_DOUBLE, win));
    OK(MPI_Win_fence(0, win));
    for (int i = 0; i < 8; i++) EQ(memory[8 + i], -100 * left - i);
    for (int i = 0; i < 4; i++) EQ(in[i], 1000 * right + 20 + i);
    EQ(memory[7], 1000 * check_rank + 7); EQ(memory[16], 1000 * check_rank + 16);
    /* Spread on both sides, and backwards. */
    MPI_Datatype every, back;
    int ends[3] = {6, 3, 0}, lens[3] = {2, 2, 2};
    OK(MPI_Type_vector(6, 1, 2, MPI_DOUBLE, &every)); OK(MPI_Type_commit(&every));
    OK(MPI_Type_indexed(3, lens, ends, MPI_DOUBLE, &back)); OK(MPI_Type_commit(&back));
    for (int i = 0; i < 8; i++) out[i] = 7000 + 10 * check_rank + i;
    OK(MPI_Put(out, 6, MPI_DOUBLE, right, at(right, 30), 1, every, win));
    OK(MPI_Put(out, 1, back, right, at(right, 50), 6, MPI_DOUBLE, win));
    for (int i = 0; i < N; i++) in[i] = -1;
    OK(MPI_Get(in, 1, back, right, at(right, 0), 1, every, win));
    OK(MPI_Win_fence(0, win));
    for (int i = 0; i < 6; i++) EQ(memory[30 + 2 * i], 7000 + 10 * left + i);
    for (int i = 0; i < 5; i++) EQ(memory[31 + 2 * i], 1000 * check_rank + 31 + 2 * i);
    static const int order[6] = {6, 7, 3, 4, 0, 1};
    for (int i = 0; i < 6; i++) EQ(memory[50 + i], 7000 + 10 * left + order[i]);
    for (int i = 0; i < 6; i++) { int k = 2 * i; EQ(in[order[i]], k >= 8 && k < 16 ? -100 * check_rank - (k - 8) : 1000 * right + k); }
    EQ(in[2], -1); EQ(in[5], -1);
    OK(MPI_Type_free(&every)); OK(MPI_Type_free(&back));
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
    unmake(&win);
}

static void accumulates(void)
{
    MPI_Win win = make();
    double one = 1, old[2] = {-1, -1}, two[2] = {2, 3};
    for (int i = 0; i < N; i++) memory[i] = i;
    OK(MPI_Win_fence(0, win));
    for (int r = 0; r < check_size; r++) {
        OK(MPI_Accumulate(&one, 1, MPI_DOUBLE, r, at(r, 0), 1, MPI_DOUBLE, MPI_SUM, win));
        double mine = check_rank;
        OK(MPI_Accumulate(&mine, 1, MPI_DOUBLE, r, at(r, 1), 1, MPI_DOUBLE, MPI_MAX, win));
        OK(MPI_Accumulate(two, 2, MPI_DOUBLE, r, at(r, 2), 2, MPI_DOUBLE, MPI_PROD, win));
    }
    OK(MPI_Win_fence(0, win));
    double product = 1, other = 1;
    for (int r = 0; r < check_size; r++) { product *= 2; other *= 3; }
    EQ(memory[0], check_size); EQ(memory[1], check_size > 1 ? check_size - 1 : 1); EQ(memory[2], 2 * product); EQ(memory[3], 3 * other);
    OK(MPI_Win_fence(0, win));
    int next = (check_rank + 1) % check_size;
    OK(MPI_Get_accumulate(two, 2, MPI_DOUBLE, old, 2, MPI_DOUBLE, next, at(next, 10), 2, MPI_DOUBLE, MPI_REPLACE, win));
    OK(MPI_Win_fence(0, win));
    EQ(old[0], 10); EQ(old[1], 11); EQ(memory[10], 2); EQ(memory[11], 3);
    OK(MPI_Get_accumulate(NULL, 0, MPI_DATATYPE_NULL, old, 2, MPI_DOUBLE, next, at(next, 10), 2, MPI_DOUBLE, MPI_NO_OP, win));
    OK(MPI_Win_fence(0, win));
    EQ(old[0], 2); EQ(old[1], 3); EQ(memory[10], 2);
    /* Of a derived type, element by element. */
    MPI_Datatype every;
    OK(MPI_Type_vector(3, 1, 3, MPI_DOUBLE, &every)); OK(MPI_Type_commit(&every));
    double three[3] = {5, 6, 7};
    OK(MPI_Accumulate(three, 3, MPI_DOUBLE, next, at(next, 20), 1, every, MPI_SUM, win));
    OK(MPI_Win_fence(0, win));
    for (int i = 0; i < 9; i++) EQ(memory[20 + i], 20 + i + (i % 3 ? 0 : 5 + i / 3));
    OK(MPI_Type_free(&every));
    unmake(&win);
}

/* Pairs with a gap, through a window of bytes. */
static void pairs(void)
{
    struct { double v; int i; } *pair, mine = {0.5 * check_rank, check_rank};
    MPI_Win win;
    OK(MPI_Win_allocate(4 * sizeof *pair, sizeof *pair, MPI_INFO_NULL, MPI_COMM_WORLD, &pair, &win));
    for (int i = 0; i < 4; i++) { pair[i].v = 0.1; pair[i].i = -1; }
    OK(MPI_Win_fence(0, win));
    OK(MPI_Accumulate(&mine, 1, MPI_DOUBLE_INT, 0, 1, 1, MPI_DOUBLE_INT, MPI_MAXLOC, win));
    OK(MPI_Win_fence(0, win));
    if (check_rank == 0) { EQ(pair[1].i, check_size > 1 ? check_size - 1 : -1); EQ(pair[0].i, -1); EQ(pair[2].i, -1); }
    OK(MPI_Win_free(&win));
}

static void pscw(void)
{
    MPI_Win win = make();
    MPI_Group world, to, from;
    int right = (check_rank + 1) % check_size, left = (check_rank + check_size - 1) % check_size, flag;
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    OK(MPI_Group_incl(world, 1, &right, &to)); OK(MPI_Group_incl(world, 1, &left, &from));
    for (int round = 0; round < 20; round++) {
        double value = 100 * round + check_rank, got = -1;
        OK(MPI_Win_post(from, 0, win));
        OK(MPI_Win_start(to, 0, win));
        OK(MPI_Put(&value, 1, MPI_DOUBLE, right, at(right, 3), 1, MPI_DOUBLE, win));
        OK(MPI_Get(&got, 1, MPI_DOUBLE, right, at(right, 5), 1, MPI_DOUBLE, win));
        OK(MPI_Win_complete(win));
        EQ(got, 1000 * right + 5);
        if (round % 2) {
            OK(MPI_Win_wait(win));
        } else {
            do OK(MPI_Win_test(win, &flag)); while (!flag);
        }
        EQ(memory[3], 100 * round + left);
    }
    /* Posted and started with no checks, after a barrier; then with empty groups. */
    OK(MPI_Win_post(world, MPI_MODE_NOCHECK, win)); OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Win_start(world, MPI_MODE_NOCHECK, win));
    for (int r = 0; r < check_size; r++) { double v = check_rank; OK(MPI_Put(&v, 1, MPI_DOUBLE, r, at(r, 10 + check_rank), 1, MPI_DOUBLE, win)); }
    OK(MPI_Win_complete(win)); OK(MPI_Win_wait(win));
    for (int r = 0; r < check_size; r++) EQ(memory[10 + r], r);
    OK(MPI_Win_post(MPI_GROUP_EMPTY, 0, win)); OK(MPI_Win_start(MPI_GROUP_EMPTY, 0, win)); OK(MPI_Win_complete(win)); OK(MPI_Win_wait(win));
    OK(MPI_Group_free(&world)); OK(MPI_Group_free(&to)); OK(MPI_Group_free(&from));
    unmake(&win);
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    for (flavor = 0; flavor < 3; flavor++) {
        fences();
        accumulates();
        pscw();
    }
    pairs();
    return check_done();
}
