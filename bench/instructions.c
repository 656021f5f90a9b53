/* For callgrind: ROUNDS windows of 8-byte messages that are already there when they are received, so that no rank spins inside
 * the measured calls. The driver divides the instructions inside MPI_Send and MPI_Recv by their calls. The ranks keep step through
 * a mapped file, outside of MPI. Usage: instructions ROUNDS FILE */
#include "bench.h"
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>
enum { WINDOW = 32 };
/* noinline wrappers give callgrind one node per kind of call, whatever the library does inside */
__attribute__((noinline)) static void measured_send(long *v, int to) { MPI_Send(v, 8, MPI_BYTE, to, 7, MPI_COMM_WORLD); }
__attribute__((noinline)) static void measured_recv(long *v, int from) { MPI_Recv(v, 8, MPI_BYTE, from, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE); }

static atomic_int *step_of;
static void in_step(void)
{
    static int turn;
    atomic_store(&step_of[rank], ++turn);
    while (atomic_load(&step_of[!rank]) < turn)
        sched_yield();
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
    for (int r = 0; r < rounds; r++)
        for (int way = 0; way < 2; way++) {
            if (rank == way)
                for (int w = 0; w < WINDOW; w++) measured_send(&v, !way);
            in_step(); /* all messages lie in the ring now */
            if (rank == !way)
                for (int w = 0; w < WINDOW; w++) measured_recv(&v, way);
            in_step();
        }
    MPI_Finalize();
    return 0;
}
