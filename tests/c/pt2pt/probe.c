/* Probe, Iprobe, Mprobe, Improbe, Mrecv, Imrecv with wildcards; a matched message is nobody else's. */
#include "check.h"

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    if (check_size < 2)
        return check_skip("needs two ranks");
    static const int sizes[] = {0, 1, 8, 1000, 4096, 100000, 1 << 20};
    char *buf = alloc(1 << 20);
    MPI_Status st, st2;
    int count, flag;
    MPI_Message msg;
    MPI_Request rq;
    for (int kind = 0; kind < 4; kind++)
        for (int s = 0; s < LEN(sizes); s++) {
            int tag = kind * 10 + s, n = sizes[s];
            if (check_rank == 1) {
                fill(buf, n, tag);
                OK(MPI_Send(buf, n, MPI_BYTE, 0, tag, MPI_COMM_WORLD));
            } else if (check_rank == 0) {
                int source = s & 1 ? MPI_ANY_SOURCE : 1, want = s & 2 ? MPI_ANY_TAG : tag;
                memset(buf, 0, n);
                if (kind == 0) {
                    OK(MPI_Probe(source, want, MPI_COMM_WORLD, &st));
                } else if (kind == 1) {
                    for (flag = 0; !flag;)
                        OK(MPI_Iprobe(source, want, MPI_COMM_WORLD, &flag, &st));
                } else if (kind == 2) {
                    OK(MPI_Mprobe(source, want, MPI_COMM_WORLD, &msg, &st));
                } else
                    for (flag = 0; !flag;)
                        OK(MPI_Improbe(source, want, MPI_COMM_WORLD, &flag, &msg, &st));
                EQ(st.MPI_SOURCE, 1);
                EQ(st.MPI_TAG, tag);
                OK(MPI_Get_count(&st, MPI_BYTE, &count));
                EQ(count, n);
                if (kind < 2) {
                    OK(MPI_Recv(buf, n, MPI_BYTE, 1, tag, MPI_COMM_WORLD, &st2));
                } else {
                    OK(MPI_Iprobe(1, tag, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
                    EQ(flag, 0); /* the matched message can't be seen again */
                    if (kind == 2)
                        OK(MPI_Mrecv(buf, n, MPI_BYTE, &msg, &st2));
                    else {
                        OK(MPI_Imrecv(buf, n, MPI_BYTE, &msg, &rq));
                        OK(MPI_Wait(&rq, &st2));
                    }
                    EQ(msg == MPI_MESSAGE_NULL, 1);
                }
                EQ(st2.MPI_SOURCE, 1);
                EQ(st2.MPI_TAG, tag);
                OK(MPI_Get_count(&st2, MPI_BYTE, &count));
                EQ(count, n);
                EQ(wrong_at(buf, n, tag), -1);
            }
        }
    OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &st));
    EQ(flag, 0);
    OK(MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &msg, &st));
    EQ(flag, 0);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    /* Two matched messages received in the reverse order. */
    int a = 1, b = 2;
    if (check_rank == 1) {
        OK(MPI_Send(&a, 1, MPI_INT, 0, 1, MPI_COMM_WORLD));
        OK(MPI_Send(&b, 1, MPI_INT, 0, 1, MPI_COMM_WORLD));
    } else if (check_rank == 0) {
        MPI_Message m1, m2;
        OK(MPI_Mprobe(1, 1, MPI_COMM_WORLD, &m1, MPI_STATUS_IGNORE));
        OK(MPI_Mprobe(1, 1, MPI_COMM_WORLD, &m2, MPI_STATUS_IGNORE));
        a = b = 0;
        OK(MPI_Mrecv(&b, 1, MPI_INT, &m2, MPI_STATUS_IGNORE));
        OK(MPI_Mrecv(&a, 1, MPI_INT, &m1, MPI_STATUS_IGNORE));
        EQ(a, 1);
        EQ(b, 2);
    }
    /* PROC_NULL */
    OK(MPI_Probe(MPI_PROC_NULL, 5, MPI_COMM_WORLD, &st));
    EQ(st.MPI_SOURCE, MPI_PROC_NULL);
    EQ(st.MPI_TAG, MPI_ANY_TAG);
    OK(MPI_Iprobe(MPI_PROC_NULL, 5, MPI_COMM_WORLD, &flag, &st));
    EQ(flag, 1);
    OK(MPI_Mprobe(MPI_PROC_NULL, 5, MPI_COMM_WORLD, &msg, &st));
    EQ(msg == MPI_MESSAGE_NO_PROC, 1);
    OK(MPI_Mrecv(buf, 4, MPI_INT, &msg, &st));
    EQ(msg == MPI_MESSAGE_NULL, 1);
    EQ(st.MPI_SOURCE, MPI_PROC_NULL);
    OK(MPI_Improbe(MPI_PROC_NULL, 5, MPI_COMM_WORLD, &flag, &msg, &st));
    EQ(flag, 1);
    OK(MPI_Imrecv(buf, 4, MPI_INT, &msg, &rq));
    OK(MPI_Wait(&rq, &st));
    EQ(st.MPI_SOURCE, MPI_PROC_NULL);
    return check_done();
}
