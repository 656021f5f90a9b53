/* Files: collective writes and reads of an array that is dealt out among the ranks in small blocks, and of one range a rank, beside plain pread and pwrite of the same
 * bytes by each rank. The file lies in TMPDIR and stays in the page cache. Usage: files BYTES_PER_RANK [BLOCK] */
#include "bench.h"
#include <fcntl.h>
#include <unistd.h>

static char *data;
static long bytes, block;
static MPI_File file;
static int plain;

static void all(int writes)
{
    if (writes) MPI_File_write_at_all(file, 0, data, (int)bytes, MPI_CHAR, MPI_STATUS_IGNORE);
    else MPI_File_read_at_all(file, 0, data, (int)bytes, MPI_CHAR, MPI_STATUS_IGNORE);
}

static void alone(int writes)
{
    ssize_t done = writes ? pwrite(plain, data, (size_t)bytes, rank * bytes) : pread(plain, data, (size_t)bytes, rank * bytes);
    if (done != bytes) MPI_Abort(MPI_COMM_WORLD, 3);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void measure(const char *row, void (*step)(int), int writes)
{
    step(writes);
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = MPI_Wtime();
    step(writes);
    int k = iterations(MPI_Wtime() - begin, target_s(), 3, 10000);
    MPI_Barrier(MPI_COMM_WORLD);
    begin = MPI_Wtime();
    for (int i = 0; i < k; i++) step(writes);
    MPI_Barrier(MPI_COMM_WORLD);
    report(row, bytes, (double)bytes * size * k / (MPI_Wtime() - begin) / 1e9, "GB/s");
}

int main(int argc, char **argv)
{
    char path[4096];
    const char *folder = getenv("TMPDIR");
    MPI_Datatype tile;
    bench_init(&argc, &argv);
    bytes = argc > 1 ? atol(argv[1]) : 4 << 20, block = argc > 2 ? atol(argv[2]) : 4096;
    if (bytes <= 0 || block <= 0 || bytes % block) {
        if (rank == 0) fprintf(stderr, "usage: files BYTES_PER_RANK [BLOCK], BLOCK a divisor of the bytes\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    int pid = (int)getpid();
    MPI_Bcast(&pid, 1, MPI_INT, 0, MPI_COMM_WORLD);
    snprintf(path, sizeof path, "%s/bench-files-%d", folder ? folder : "/tmp", pid);
    data = buffer((size_t)bytes);
    if (MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file) != MPI_SUCCESS)
        MPI_Abort(MPI_COMM_WORLD, 3);
    plain = open(path, O_RDWR);
    for (int writes = 1; writes >= 0; writes--) measure(writes ? "pwrite by each rank" : "pread by each rank", alone, writes);
    MPI_File_set_view(file, rank * bytes, MPI_CHAR, MPI_CHAR, "native", MPI_INFO_NULL);
    for (int writes = 1; writes >= 0; writes--) measure(writes ? "write_at_all ranges" : "read_at_all ranges", all, writes);
    MPI_Type_vector((int)(bytes / block), (int)block, (int)(block * size), MPI_CHAR, &tile);
    MPI_Type_commit(&tile);
    MPI_File_set_view(file, rank * block, MPI_CHAR, tile, "native", MPI_INFO_NULL);
    for (int writes = 1; writes >= 0; writes--) measure(writes ? "write_at_all blocks" : "read_at_all blocks", all, writes);
    MPI_Type_free(&tile);
    close(plain);
    MPI_File_close(&file);
    MPI_Finalize();
    return 0;
}
