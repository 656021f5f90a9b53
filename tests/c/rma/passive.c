/* Locks, flushes and requests (MPI-5.0, 12.3.5, 12.5.3, 12.5.4): counters that all ranks count at, a mutex made of compare and swap, messages by flags. */
#include "check.h"

static int flavor;
static long *memory;

static MPI_Win make(int n)
{
    MPI_Win win;
    if (flavor == 0) {
        memory = malloc((size_t)n * sizeof *memory);
        OK(MPI_Win_create(memory, n * (MPI_Aint)sizeof *memory, sizeof *memory, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    } else {
        OK(MPI_Win_allocate(n * (MPI_Aint)sizeof *memory, sizeof *memory, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win));
    }
    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, check_rank, 0, win));
    memset(memory, 0, (size_t)n * sizeof *memory);
    OK(MPI_Win_unlock(check_rank, win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    return win;
}
static void unmake(MPI_Win *win) { OK(MPI_Win_free(win)); if (flavor == 0) free(memory); }

/* Exclusive locks make reading and writing one step. */
static void exclusive(void)
{
    enum { ROUNDS = 50 };
    MPI_Win win = make(4);
    for (int i = 0; i < ROUNDS; i++) {
        int target = i % check_size;
        long value = -1;
        OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, win));
        OK(MPI_Get(&value, 1, MPI_LONG, target, 1, 1, MPI_LONG, win));
        OK(MPI_Win_flush(target, win));
        value++;
        OK(MPI_Put(&value, 1, MPI_LONG, target, 1, 1, MPI_LONG, win));
        OK(MPI_Win_unlock(target, win));
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    long sum = 0, mine, total = 0;
    OK(MPI_Win_lock(MPI_LOCK_SHARED, check_rank, 0, win)); mine = memory[1]; OK(MPI_Win_unlock(check_rank, win));
    OK(MPI_Allreduce(&mine, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD)); EQ(sum, (long)ROUNDS * check_size);
    /* Several targets at once; then a lock that is not checked. */
    for (int r = 0; r < check_size; r++) OK(MPI_Win_lock(MPI_LOCK_SHARED, r, 0, win));
    for (int r = 0; r < check_size; r++) { long v; OK(MPI_Get(&v, 1, MPI_LONG, r, 1, 1, MPI_LONG, win)); OK(MPI_Win_flush_local(r, win)); total += v; }
    for (int r = check_size - 1; r >= 0; r--) OK(MPI_Win_unlock(r, win));
    EQ(total, sum);
    OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, MPI_MODE_NOCHECK, win)); OK(MPI_Win_unlock(0, win));
    OK(MPI_Win_lock(MPI_LOCK_SHARED, MPI_PROC_NULL, 0, win)); OK(MPI_Win_unlock(MPI_PROC_NULL, win));
    unmake(&win);
}

static void counters(void)
{
    enum { ROUNDS = 200 };
    MPI_Win win = make(8);
    long one = 1, old, last = -1;
    char *seen = calloc((size_t)ROUNDS * (size_t)check_size, 1);
    OK(MPI_Win_lock_all(0, win));
    for (int i = 0; i < ROUNDS; i++) {
        OK(MPI_Fetch_and_op(&one, &old, MPI_LONG, 0, 2, MPI_SUM, win));
        OK(MPI_Win_flush(0, win));
        CHECK(old > last && old < (long)ROUNDS * check_size, "%ld after %ld", old, last);
        last = old; seen[old] = 1;
    }
    for (int i = 0; i < ROUNDS; i++) OK(MPI_Accumulate(&one, 1, MPI_LONG, i % check_size, 3, 1, MPI_LONG, MPI_SUM, win));
    OK(MPI_Win_flush_all(win)); OK(MPI_Win_flush_local_all(win));
    OK(MPI_Win_unlock_all(win));
    OK(MPI_Allreduce(MPI_IN_PLACE, seen, ROUNDS * check_size, MPI_CHAR, MPI_SUM, MPI_COMM_WORLD));
    for (int i = 0; i < ROUNDS * check_size; i++) EQ(seen[i], 1);
    OK(MPI_Win_lock(MPI_LOCK_SHARED, check_rank, 0, win)); long mine = memory[3]; OK(MPI_Win_unlock(check_rank, win));
    long sum; OK(MPI_Allreduce(&mine, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD)); EQ(sum, (long)ROUNDS * check_size);
    free(seen); unmake(&win);
}

/* What stands between taking and giving back is done by one at a time. */
static void mutex(void)
{
    enum { ROUNDS = 30 };
    MPI_Win win = make(4);
    long zero = 0, me = check_rank + 1, old, value;
    OK(MPI_Win_lock_all(0, win));
    for (int i = 0; i < ROUNDS; i++) {
        do {
            OK(MPI_Compare_and_swap(&me, &zero, &old, MPI_LONG, 0, 0, win)); OK(MPI_Win_flush(0, win));
        } while (old != 0);
        OK(MPI_Fetch_and_op(NULL, &value, MPI_LONG, 0, 1, MPI_NO_OP, win)); OK(MPI_Win_flush(0, win));
        value++;
        OK(MPI_Accumulate(&value, 1, MPI_LONG, 0, 1, 1, MPI_LONG, MPI_REPLACE, win)); OK(MPI_Win_flush(0, win));
        OK(MPI_Compare_and_swap(&zero, &me, &old, MPI_LONG, 0, 0, win)); OK(MPI_Win_flush(0, win)); EQ(old, me);
    }
    OK(MPI_Win_unlock_all(win)); OK(MPI_Barrier(MPI_COMM_WORLD));
    if (check_rank == 0) { OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win)); EQ(memory[1], (long)ROUNDS * check_size); EQ(memory[0], 0); OK(MPI_Win_unlock(0, win)); }
    unmake(&win);
}

static void requests(void)
{
    enum { N = 100 };
    MPI_Win win = make(N);
    MPI_Request r[4];
    MPI_Status s[4];
    long out[N], in[N], old[2] = {-1, -1}, add[2] = {5, 6};
    int next = (check_rank + 1) % check_size;
    for (int i = 0; i < N; i++) { out[i] = 100 * check_rank + i; in[i] = -1; }
    OK(MPI_Win_lock_all(0, win));
    OK(MPI_Rput(out, 50, MPI_LONG, next, 0, 50, MPI_LONG, win, &r[0])); OK(MPI_Wait(&r[0], &s[0])); CHECK(r[0] == MPI_REQUEST_NULL);
    OK(MPI_Win_flush(next, win));
    OK(MPI_Rget(in, 50, MPI_LONG, next, 0, 50, MPI_LONG, win, &r[0]));
    OK(MPI_Raccumulate(add, 2, MPI_LONG, next, 60, 2, MPI_LONG, MPI_SUM, win, &r[1]));
    OK(MPI_Rget_accumulate(add, 2, MPI_LONG, old, 2, MPI_LONG, next, 60, 2, MPI_LONG, MPI_SUM, win, &r[2]));
    OK(MPI_Rput(out, 1, MPI_LONG, MPI_PROC_NULL, 0, 1, MPI_LONG, win, &r[3]));
    OK(MPI_Waitall(4, r, s));
    for (int i = 0; i < 50; i++) EQ(in[i], 100 * check_rank + i);
    EQ(old[0], 5); EQ(old[1], 6);
    OK(MPI_Win_unlock_all(win)); OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Win_lock(MPI_LOCK_SHARED, check_rank, 0, win)); EQ(memory[60], 10); EQ(memory[61], 12); OK(MPI_Win_unlock(check_rank, win));
    unmake(&win);
}

/* Accumulates of one origin keep their order: the last one stays. */
static void order(void)
{
    enum { ROUNDS = 300 };
    MPI_Win win = make(check_size + 1);
    static long value[ROUNDS + 1];
    for (long i = 1; i <= ROUNDS; i++) value[i] = i;
    OK(MPI_Win_lock_all(0, win));
    for (int i = 1; i <= ROUNDS; i++)
        for (int r = 0; r < check_size; r++) OK(MPI_Accumulate(&value[i], 1, MPI_LONG, r, check_rank, 1, MPI_LONG, MPI_REPLACE, win));
    OK(MPI_Win_unlock_all(win)); OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Win_lock(MPI_LOCK_SHARED, check_rank, 0, win));
    for (int r = 0; r < check_size; r++) EQ(memory[r], ROUNDS);
    OK(MPI_Win_unlock(check_rank, win));
    unmake(&win);
}

/* One polls a word in its own memory until another one has written it. */
static void flags(void)
{
    MPI_Win win = make(2);
    OK(MPI_Win_lock_all(0, win));
    long token = 7;
    if (check_rank == 0 && check_size > 1) {
        OK(MPI_Put(&token, 1, MPI_LONG, 1, 0, 1, MPI_LONG, win)); OK(MPI_Win_flush(1, win));
        OK(MPI_Accumulate(&token, 1, MPI_LONG, 1, 1, 1, MPI_LONG, MPI_REPLACE, win)); OK(MPI_Win_flush(1, win));
    } else if (check_rank == 1) {
        int flag;
        while (*(volatile long *)&memory[1] != 7) {
            OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
            OK(MPI_Win_sync(win));
        }
        OK(MPI_Win_sync(win)); EQ(memory[0], 7);
    }
    OK(MPI_Win_unlock_all(win));
    unmake(&win);
}

/* Rank 0 does nothing but lock and unlock its own memory until all others, who need that lock, have been there: it gives way to them. */
static void gives_way(void)
{
    MPI_Win win = make(check_size);
    long one = 1;
    if (check_rank) {
        OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win));
        OK(MPI_Put(&one, 1, MPI_LONG, 0, check_rank, 1, MPI_LONG, win));
        OK(MPI_Win_unlock(0, win));
    }
    for (long there = 0; check_rank == 0 && there < check_size - 1;) {
        OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win));
        there = 0;
        for (int r = 1; r < check_size; r++) there += memory[r];
        OK(MPI_Win_unlock(0, win));
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    unmake(&win);
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    for (flavor = 0; flavor < 2; flavor++) { exclusive(); counters(); mutex(); requests(); order(); flags(); gives_way(); }
    return check_done();
}
