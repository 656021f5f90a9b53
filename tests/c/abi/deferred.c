/* Functions of the next issue raise an MPI error that says so, instead of crashing or pretending. */
#include "check.h"

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    char text[MPI_MAX_ERROR_STRING], *argvs[1] = {NULL}, port[MPI_MAX_PORT_NAME];
    int len, v = 0, codes[4], n;
    MPI_Comm c;
    MPI_Request rq;
#define REFUSED(call) do { int r_ = (call); CHECK(r_ != MPI_SUCCESS, "%s", #call); if (r_) { MPI_Error_string(r_, text, &len); CHECK(len > 0); } } while (0)
    REFUSED(MPI_Comm_spawn("true", argvs, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &c, codes));
    REFUSED(MPI_Open_port(MPI_INFO_NULL, port));
    REFUSED(MPI_Psend_init(&v, 1, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &rq));
    n = MPI_T_init_thread(MPI_THREAD_SINGLE, &v);
    (void)n; /* an MPI_T code; only must not crash */
    OK(MPI_Barrier(MPI_COMM_WORLD));
    return check_done();
}
