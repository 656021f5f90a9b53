/* A message longer than the receive buffer: MPI_ERR_TRUNCATE, no byte beyond the buffer, and the pair goes on working. */
#include "check.h"

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    if (check_size < 2)
        return check_skip("needs two ranks");
    static const int sizes[] = {8, 200, 3000, 10000, 100000, 2000000};
    char *buf = alloc(2000000 + 64);
    for (int order = 0; order < 2; order++) /* 0: the receive is posted first; 1: the message waits */
        for (int s = 0; s < LEN(sizes); s++) {
            int n = sizes[s], room = n / 2, flag, class;
            MPI_Request rq;
            MPI_Status st;
            if (check_rank == 0) {
                fill(buf, n, s);
                if (order == 0)
                    OK(MPI_Recv(NULL, 0, MPI_INT, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
                OK(MPI_Isend(buf, n, MPI_BYTE, 1, 2, MPI_COMM_WORLD, &rq));
                OK(MPI_Send(&n, 1, MPI_INT, 1, 3, MPI_COMM_WORLD));
                OK(MPI_Wait(&rq, MPI_STATUS_IGNORE));
            } else if (check_rank == 1) {
                int follow = 0;
                memset(buf, 0x33, n + 64);
                if (order == 0) {
                    OK(MPI_Irecv(buf, room, MPI_BYTE, 0, 2, MPI_COMM_WORLD, &rq));
                    OK(MPI_Send(NULL, 0, MPI_INT, 0, 1, MPI_COMM_WORLD));
                } else {
                    for (flag = 0; !flag;)
                        OK(MPI_Iprobe(0, 2, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
                    OK(MPI_Irecv(buf, room, MPI_BYTE, 0, 2, MPI_COMM_WORLD, &rq));
                }
                int code = MPI_Wait(&rq, &st);
                MPI_Error_class(code, &class);
                EQ(class, MPI_ERR_TRUNCATE);
                EQ(st.MPI_SOURCE, 0);
                EQ(st.MPI_TAG, 2);
                for (int i = room; i < n; i++)
                    if (buf[i] != 0x33) {
                        CHECK(0, "byte %d beyond the buffer was written", i);
                        break;
                    }
                OK(MPI_Recv(&follow, 1, MPI_INT, 0, 3, MPI_COMM_WORLD, &st));
                EQ(follow, n);
            }
        }
    /* blocking and matched receives */
    if (check_rank == 0) {
        OK(MPI_Send(buf, 100, MPI_BYTE, 1, 4, MPI_COMM_WORLD));
        OK(MPI_Send(buf, 100, MPI_BYTE, 1, 5, MPI_COMM_WORLD));
        OK(MPI_Send(buf, 100, MPI_BYTE, 1, 6, MPI_COMM_WORLD));
        OK(MPI_Send(buf, 100, MPI_BYTE, 1, 7, MPI_COMM_WORLD));
    } else if (check_rank == 1) {
        MPI_Message m;
        FAILS(MPI_ERR_TRUNCATE, MPI_Recv(buf, 10, MPI_BYTE, 0, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        OK(MPI_Mprobe(0, 5, MPI_COMM_WORLD, &m, MPI_STATUS_IGNORE));
        FAILS(MPI_ERR_TRUNCATE, MPI_Mrecv(buf, 10, MPI_BYTE, &m, MPI_STATUS_IGNORE));
        /* the any forms tell which one failed */
        for (int tag = 6; tag < 8; tag++) {
            MPI_Request rq[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
            int index = -9, flag = tag == 6, code;
            OK(MPI_Irecv(buf, 10, MPI_BYTE, 0, tag, MPI_COMM_WORLD, &rq[1]));
            do
                code = tag == 6 ? MPI_Waitany(2, rq, &index, MPI_STATUS_IGNORE) : MPI_Testany(2, rq, &index, &flag, MPI_STATUS_IGNORE);
            while (!flag);
            FAILS(MPI_ERR_TRUNCATE, code);
            EQ(index, 1);
            EQ(rq[1] == MPI_REQUEST_NULL, 1);
        }
    }
    return check_done();
}
