/* Much at once: large puts both ways, thousands of small ones without a flush, windows over the same memory. */
#include "check.h"

static size_t bytes = 8 << 20;

static void both_ways(int allocated)
{
    unsigned char *memory, *out = malloc(bytes), *in = malloc(bytes);
    MPI_Win win;
    int next = (check_rank + 1) % check_size, before = (check_rank + check_size - 1) % check_size;
    if (allocated) OK(MPI_Win_allocate((MPI_Aint)bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win));
    else { memory = malloc(bytes); OK(MPI_Win_create(memory, (MPI_Aint)bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win)); }
    for (size_t i = 0; i < bytes; i++) out[i] = pattern((uint64_t)check_rank, i);
    OK(MPI_Win_fence(0, win));
    OK(MPI_Put(out, (int)bytes, MPI_BYTE, next, 0, (int)bytes, MPI_BYTE, win));
    OK(MPI_Win_fence(0, win));
    OK(MPI_Get(in, (int)bytes, MPI_BYTE, next, 0, (int)bytes, MPI_BYTE, win));
    OK(MPI_Win_fence(0, win));
    size_t wrong = 0;
    for (size_t i = 0; i < bytes; i++) wrong += memory[i] != pattern((uint64_t)before, i) || in[i] != out[i];
    EQ(wrong, 0);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    /* All to all in passive epochs. */
    OK(MPI_Win_lock_all(0, win));
    size_t part = bytes / (size_t)check_size;
    for (int r = 0; r < check_size; r++) OK(MPI_Put(out, (int)part, MPI_BYTE, r, (MPI_Aint)part * check_rank, (int)part, MPI_BYTE, win));
    OK(MPI_Win_unlock_all(win)); OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int r = 0; r < check_size; r++)
        for (size_t i = 0; i < part; i += 61) if (memory[part * (size_t)r + i] != pattern((uint64_t)r, i)) { CHECK(0, "byte %zu of rank %d", i, r); break; }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    /* Large accumulates both ways. */
    int n = (int)(bytes / 8 / sizeof(int)), *ones = malloc((size_t)n * sizeof(int));
    for (int i = 0; i < n; i++) ones[i] = 1 + i % 3;
    OK(MPI_Win_fence(0, win)); memset(memory, 0, (size_t)n * sizeof(int)); OK(MPI_Win_fence(0, win));
    for (int r = 0; r < check_size; r++) OK(MPI_Accumulate(ones, n, MPI_INT, r, 0, n, MPI_INT, MPI_SUM, win));
    OK(MPI_Win_fence(0, win));
    wrong = 0;
    for (int i = 0; i < n; i++) wrong += ((int *)(void *)memory)[i] != check_size * (1 + i % 3);
    EQ(wrong, 0);
    OK(MPI_Win_free(&win));
    if (!allocated) free(memory);
    free(out); free(in); free(ones);
}

static void many(void)
{
    enum { N = 5000 };
    int *memory;
    MPI_Win win;
    OK(MPI_Win_allocate(N * (MPI_Aint)sizeof(int) * check_size, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win));
    OK(MPI_Win_fence(0, win));
    static int value[N];
    for (int i = 0; i < N; i++) value[i] = check_rank * N + i;
    for (int i = 0; i < N; i++) OK(MPI_Put(&value[i], 1, MPI_INT, (check_rank + 1) % check_size, check_rank * N + i, 1, MPI_INT, win));
    OK(MPI_Win_fence(0, win));
    int before = (check_rank + check_size - 1) % check_size;
    for (int i = 0; i < N; i++) EQ(memory[before * N + i], before * N + i);
    int one = 1;
    memory[0] = 0;
    OK(MPI_Win_fence(0, win));
    for (int i = 0; i < N; i++) OK(MPI_Accumulate(&one, 1, MPI_INT, i % check_size, 0, 1, MPI_INT, MPI_SUM, win));
    OK(MPI_Win_fence(0, win));
    int sum, mine = memory[0];
    OK(MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD)); EQ(sum, N * check_size);
    OK(MPI_Win_free(&win));
}

/* Two windows over the same memory, with messages and collectives in between. */
static void overlapping(void)
{
    int memory[100] = {0}, value = check_rank + 1, got = -1, next = (check_rank + 1) % check_size, before = (check_rank + check_size - 1) % check_size;
    MPI_Win a, b;
    OK(MPI_Win_create(memory, sizeof memory, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &a));
    OK(MPI_Win_create(memory + 50, sizeof memory / 2, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &b));
    OK(MPI_Win_fence(0, a)); OK(MPI_Win_fence(0, b));
    OK(MPI_Put(&value, 1, MPI_INT, next, 60, 1, MPI_INT, a));
    OK(MPI_Sendrecv(&value, 1, MPI_INT, next, 1, &got, 1, MPI_INT, before, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)); EQ(got, before + 1);
    OK(MPI_Win_fence(0, a)); OK(MPI_Win_fence(0, b));
    OK(MPI_Get(&got, 1, MPI_INT, next, 10, 1, MPI_INT, b)); OK(MPI_Win_fence(0, b)); OK(MPI_Win_fence(0, a));
    EQ(got, check_rank + 1); EQ(memory[60], before + 1);
    OK(MPI_Win_free(&b)); OK(MPI_Win_free(&a));
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    if (argc > 1) bytes = (size_t)atoi(argv[1]) << 10;
    both_ways(0); both_ways(1); many(); overlapping();
    return check_done();
}
