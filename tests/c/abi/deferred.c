/* Functions of the next issue raise an MPI error that says so, instead of crashing or pretending. */
#include "check.h"

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    char text[MPI_MAX_ERROR_STRING], *argvs[1] = {NULL}, port[MPI_MAX_PORT_NAME];
    int len, v = 0, codes[4], n;
    void *mem;
    MPI_Win win;
    MPI_File fh;
    MPI_Comm c;
    MPI_Request rq;
#define REFUSED(call) do { int r_ = (call); CHECK(r_ != MPI_SUCCESS, "%s", #call); if (r_) { MPI_Error_string(r_, text, &len); CHECK(len > 0); } } while (0)
    REFUSED(MPI_Win_create(&v, 4, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    REFUSED(MPI_Win_allocate(4, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &mem, &win));
    REFUSED(MPI_Win_allocate_shared(4, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &mem, &win));
    REFUSED(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN);
    REFUSED(MPI_File_open(MPI_COMM_WORLD, "/dev/null", MPI_MODE_RDONLY, MPI_INFO_NULL, &fh));
    REFUSED(MPI_Comm_spawn("true", argvs, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &c, codes));
    REFUSED(MPI_Open_port(MPI_INFO_NULL, port));
    REFUSED(MPI_Psend_init(&v, 1, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &rq));
    n = MPI_T_init_thread(MPI_THREAD_SINGLE, &v);
    (void)n; /* an MPI_T code; only must not crash */
    OK(MPI_Barrier(MPI_COMM_WORLD));
    return check_done();
}
