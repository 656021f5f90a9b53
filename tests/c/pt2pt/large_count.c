/* The large-count twins of point-to-point: same semantics as their int versions. A count over 2^31 with a tiny type map
 * is covered in types/large_count.c (no memory needed); "huge" here sends more than 2 GiB for real. */
#include "check.h"

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    int peer = check_rank ^ 1, flag;
    if (check_size < 2)
        return check_skip("needs two ranks");
    MPI_Comm c = MPI_COMM_WORLD;
    MPI_Status st, sts[2];
    MPI_Request rq[2];
    MPI_Count n = 5000, got, room = 200000;
    MPI_Message msg;
    char *a = alloc(n), *b = alloc(n), *pool = alloc(room), *back;
    if (check_rank >= 2)
        return check_done();
    fill(a, n, check_rank);
#define VERIFY() do { OK(MPI_Get_count_c(&st, MPI_BYTE, &got)); EQ(got, n); EQ(wrong_at(b, n, peer), -1); memset(b, 0, n); } while (0)
    OK(MPI_Buffer_attach_c(pool, room));
    for (int mode = 0; mode < 8; mode++) {
        OK(MPI_Irecv_c(b, n, MPI_BYTE, peer, mode, c, &rq[0]));
        OK(MPI_Sendrecv_c(NULL, 0, MPI_BYTE, peer, 99, NULL, 0, MPI_BYTE, peer, 99, c, MPI_STATUS_IGNORE));
        rq[1] = MPI_REQUEST_NULL;
        switch (mode) {
        case 0: OK(MPI_Send_c(a, n, MPI_BYTE, peer, mode, c)); break;
        case 1: OK(MPI_Ssend_c(a, n, MPI_BYTE, peer, mode, c)); break;
        case 2: OK(MPI_Bsend_c(a, n, MPI_BYTE, peer, mode, c)); break;
        case 3: OK(MPI_Rsend_c(a, n, MPI_BYTE, peer, mode, c)); break;
        case 4: OK(MPI_Isend_c(a, n, MPI_BYTE, peer, mode, c, &rq[1])); break;
        case 5: OK(MPI_Issend_c(a, n, MPI_BYTE, peer, mode, c, &rq[1])); break;
        case 6: OK(MPI_Ibsend_c(a, n, MPI_BYTE, peer, mode, c, &rq[1])); break;
        case 7: OK(MPI_Irsend_c(a, n, MPI_BYTE, peer, mode, c, &rq[1])); break;
        }
        OK(MPI_Waitall(2, rq, sts));
        st = sts[0];
        VERIFY();
    }
    OK(MPI_Buffer_detach_c(&back, &got));
    EQ(got, room);
    OK(MPI_Sendrecv_c(a, n, MPI_BYTE, peer, 1, b, n, MPI_BYTE, peer, 1, c, &st));
    VERIFY();
    memcpy(b, a, n);
    OK(MPI_Sendrecv_replace_c(b, n, MPI_BYTE, peer, 1, peer, 1, c, &st));
    VERIFY();
    OK(MPI_Isendrecv_c(a, n, MPI_BYTE, peer, 1, b, n, MPI_BYTE, peer, 1, c, &rq[0]));
    OK(MPI_Wait(&rq[0], &st));
    VERIFY();
    memcpy(b, a, n);
    OK(MPI_Isendrecv_replace_c(b, n, MPI_BYTE, peer, 1, peer, 1, c, &rq[0]));
    OK(MPI_Wait(&rq[0], &st));
    VERIFY();
    OK(MPI_Send_init_c(a, n, MPI_BYTE, peer, 2, c, &rq[0]));
    OK(MPI_Recv_init_c(b, n, MPI_BYTE, peer, 2, c, &rq[1]));
    for (int i = 0; i < 3; i++) {
        OK(MPI_Startall(2, rq));
        OK(MPI_Waitall(2, rq, sts));
        st = sts[1];
        VERIFY();
    }
    OK(MPI_Request_free(&rq[0]));
    OK(MPI_Request_free(&rq[1]));
    OK(MPI_Isend_c(a, n, MPI_BYTE, peer, 3, c, &rq[0]));
    OK(MPI_Mprobe(peer, 3, c, &msg, &st));
    OK(MPI_Mrecv_c(b, n, MPI_BYTE, &msg, &st));
    VERIFY();
    OK(MPI_Wait(&rq[0], MPI_STATUS_IGNORE));
    OK(MPI_Isend_c(a, n, MPI_BYTE, peer, 3, c, &rq[0]));
    for (flag = 0; !flag;)
        OK(MPI_Improbe(peer, 3, c, &flag, &msg, &st));
    OK(MPI_Imrecv_c(b, n, MPI_BYTE, &msg, &rq[1]));
    OK(MPI_Waitall(2, rq, sts));
    st = sts[1];
    VERIFY();
    if (arg_is(argc, argv, "huge")) {
        MPI_Count m = ((MPI_Count)1 << 31) + 4096;
        char *h = malloc(m);
        if (check_rank == 0) {
            memset(h, 1, m);
            h[0] = 2, h[m / 2] = 3, h[m - 1] = 4;
            OK(MPI_Send_c(h, m, MPI_BYTE, 1, 5, c));
        } else {
            OK(MPI_Recv_c(h, m, MPI_BYTE, 0, 5, c, &st));
            OK(MPI_Get_count_c(&st, MPI_BYTE, &got));
            EQ(got, m);
            EQ(h[0] * 100 + h[m / 2] * 10 + h[m - 1], 234);
        }
        free(h);
    }
    return check_done();
}
