/* More requests at a time than 20 bits can count, and as many info objects: no handle runs out. */
#include "check.h"
enum { N = 1200000 };

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    int *got = alloc(N * sizeof(int));
    MPI_Request *rq = alloc(N * sizeof(MPI_Request));
    for (int i = 0; i < N; i++)
        OK(MPI_Irecv(&got[i], 1, MPI_INT, 0, i % 1000, MPI_COMM_SELF, &rq[i]));
    for (int i = 0; i < N; i += 99999)
        CHECK(MPI_Request_fromint(MPI_Request_toint(rq[i])) == rq[i], "request %d does not survive its integer", i);
    for (int i = 1; i < N; i++)
        if (rq[i] == rq[i - 1]) {
            CHECK(0, "requests %d and %d have one handle", i - 1, i);
            break;
        }
    for (int i = 0; i < N; i++)
        OK(MPI_Send(&i, 1, MPI_INT, 0, i % 1000, MPI_COMM_SELF));
    OK(MPI_Waitall(N, rq, MPI_STATUSES_IGNORE));
    for (int i = 0; i < N; i++)
        if (got[i] != i || rq[i] != MPI_REQUEST_NULL) {
            CHECK(0, "receive %d got %d", i, got[i]);
            break;
        }
    MPI_Info *info = alloc(N * sizeof(MPI_Info));
    for (int i = 0; i < N; i++)
        OK(MPI_Info_create(&info[i]));
    for (int i = 0; i < N; i++)
        OK(MPI_Info_free(&info[i]));
    free(info);
    free(rq);
    free(got);
    return check_done();
}
