/* For callgrind: ROUNDS windows of 8-byte messages that are already there when they are received, so that no rank spins inside
 * the measured calls. First by MPI_Send and MPI_Recv, then by MPI_Irecv, MPI_Isend and MPI_Waitall with the receives posted ahead.
 * The driver divides the instructions inside the measured functions by their messages. The ranks keep step through a mapped
 * file, outside of MPI. Usage: instructions ROUNDS FILE */
#include "bench.h"
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>
enum { WINDOW = 32 };
static MPI_Request requests[WINDOW];
/* noinline wrappers give callgrind one node per kind of call, whatever the library does inside */
#define MEASURED __attribute__((noinline, no_icf)) static void
MEASURED measured_send(long *v, int to) { MPI_Send(v, 8, MPI_BYTE, to, 7, MPI_COMM_WORLD); }
MEASURED measured_recv(long *v, int from) { MPI_Recv(v, 8, MPI_BYTE, from, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE); }
MEASURED measured_isend(long *v, int to, MPI_Request *r) { MPI_Isend(v, 8, MPI_BYTE, to, 7, MPI_COMM_WORLD, r); }
MEASURED measured_irecv(long *v, int from, MPI_Request *r) { MPI_Irecv(v, 8, MPI_BYTE, from, 7, MPI_COMM_WORLD, r); }
MEASURED measured_wait_sent(void) { MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE); }
MEASURED measured_wait_received(void) { MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE); }

static atomic_int *step_of;
static void in_step(void)
{
    static int turn;
    atomic_store(&step_of[rank], ++turn);
    while (atomic_load(&step_of[!rank]) < turn)
        sched_yield();
}
static void blocking(int from)
{
    long v = 42;
    if (rank == from)
        for (int w = 0; w < WINDOW; w++) measured_send(&v, !from);
    in_step(); /* all messages lie in the ring now */
    if (rank != from)
        for (int w = 0; w < WINDOW; w++) measured_recv(&v, from);
    in_step();
}
static void posted(int from)
{
    static long v[WINDOW];
    if (rank != from)
        for (int w = 0; w < WINDOW; w++) measured_irecv(&v[w], from, &requests[w]);
    in_step();
    if (rank == from) {
        for (int w = 0; w < WINDOW; w++) measured_isend(&v[w], !from, &requests[w]);
        measured_wait_sent();
    }
    in_step();
    if (rank != from)
        measured_wait_received();
    in_step();
}

int main(int argc, char **argv)
{
    bench_init(&argc, &argv);
    int rounds = argc > 1 ? atoi(argv[1]) : 200;
    long v = 42;
    int fd = open(argv[2], O_RDWR | O_CREAT, 0600);
    if (fd < 0 || ftruncate(fd, 4096) || size != 2)
        MPI_Abort(MPI_COMM_WORLD, 1);
    step_of = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    for (int i = 0; i < 50; i++) { /* connections, calibration, first uses */
        if (rank == 0) { MPI_Send(&v, 8, MPI_BYTE, 1, 1, MPI_COMM_WORLD); MPI_Recv(&v, 8, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE); }
        if (rank == 1) { MPI_Recv(&v, 8, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE); MPI_Send(&v, 8, MPI_BYTE, 0, 1, MPI_COMM_WORLD); }
    }
    for (int r = 0; r < rounds; r++) {
        for (int from = 0; from < 2; from++) {
            blocking(from);
            posted(from);
        }
        /* Every 64th poll looks at more than shared memory; one more in each round moves it through all the measured calls. */
        int flag;
        MPI_Iprobe(!rank, 99, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        in_step();
    }
    MPI_Finalize();
    return 0;
}
