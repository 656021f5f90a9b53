/* Wrong arguments of point-to-point calls: the right error class through MPI_ERRORS_RETURN, no side effect afterwards. */
#include "check.h"

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    MPI_Comm w = MPI_COMM_WORLD, nul = MPI_COMM_NULL;
    int v[4] = {0}, p = check_size, flag, n;
    MPI_Request rq = MPI_REQUEST_NULL;
    MPI_Status st;
    MPI_Message m;
    MPI_Datatype raw, dnul = MPI_DATATYPE_NULL;
    OK(MPI_Type_contiguous(2, MPI_INT, &raw)); /* never committed */
    int *ub, tag_ub;
    OK(MPI_Comm_get_attr(w, MPI_TAG_UB, &ub, &flag));
    tag_ub = *ub;
/* (call) as a function of buffer, count, type, rank, tag, communicator */
#define SENDS(F, ...) do { \
        FAILS(MPI_ERR_COUNT, F(v, -1, MPI_INT, 0, 0, w, ##__VA_ARGS__)); \
        FAILS(MPI_ERR_TYPE, F(v, 1, dnul, 0, 0, w, ##__VA_ARGS__)); \
        FAILS(MPI_ERR_TYPE, F(v, 1, raw, 0, 0, w, ##__VA_ARGS__)); \
        FAILS(MPI_ERR_RANK, F(v, 1, MPI_INT, p, 0, w, ##__VA_ARGS__)); \
        FAILS(MPI_ERR_RANK, F(v, 1, MPI_INT, -10, 0, w, ##__VA_ARGS__)); \
        FAILS(MPI_ERR_RANK, F(v, 1, MPI_INT, MPI_ANY_SOURCE, 0, w, ##__VA_ARGS__)); \
        FAILS(MPI_ERR_TAG, F(v, 1, MPI_INT, 0, -7, w, ##__VA_ARGS__)); \
        FAILS(MPI_ERR_TAG, F(v, 1, MPI_INT, 0, MPI_ANY_TAG, w, ##__VA_ARGS__)); \
        if (tag_ub < INT32_MAX) FAILS(MPI_ERR_TAG, F(v, 1, MPI_INT, 0, tag_ub + 1, w, ##__VA_ARGS__)); \
        FAILS(MPI_ERR_COMM, F(v, 1, MPI_INT, 0, 0, nul, ##__VA_ARGS__)); \
        FAILS(MPI_ERR_BUFFER, F(NULL, 1, MPI_INT, 0, 0, w, ##__VA_ARGS__)); \
    } while (0)
#define RECVS(F, ...) do { \
        FAILS(MPI_ERR_COUNT, F(v, -1, MPI_INT, 0, 0, w, ##__VA_ARGS__)); \
        FAILS(MPI_ERR_TYPE, F(v, 1, dnul, 0, 0, w, ##__VA_ARGS__)); \
        FAILS(MPI_ERR_TYPE, F(v, 1, raw, 0, 0, w, ##__VA_ARGS__)); \
        FAILS(MPI_ERR_RANK, F(v, 1, MPI_INT, p, 0, w, ##__VA_ARGS__)); \
        FAILS(MPI_ERR_RANK, F(v, 1, MPI_INT, -10, 0, w, ##__VA_ARGS__)); \
        FAILS(MPI_ERR_TAG, F(v, 1, MPI_INT, 0, -7, w, ##__VA_ARGS__)); \
        FAILS(MPI_ERR_COMM, F(v, 1, MPI_INT, 0, 0, nul, ##__VA_ARGS__)); \
        FAILS(MPI_ERR_BUFFER, F(NULL, 1, MPI_INT, 0, 0, w, ##__VA_ARGS__)); \
    } while (0)
    SENDS(MPI_Send); SENDS(MPI_Ssend); SENDS(MPI_Rsend); SENDS(MPI_Bsend);
    SENDS(MPI_Isend, &rq); SENDS(MPI_Issend, &rq); SENDS(MPI_Irsend, &rq); SENDS(MPI_Ibsend, &rq);
    SENDS(MPI_Send_init, &rq); SENDS(MPI_Ssend_init, &rq); SENDS(MPI_Rsend_init, &rq); SENDS(MPI_Bsend_init, &rq);
    SENDS(MPI_Send_c); SENDS(MPI_Isend_c, &rq); SENDS(MPI_Ssend_c); SENDS(MPI_Send_init_c, &rq);
    RECVS(MPI_Recv, &st); RECVS(MPI_Irecv, &rq); RECVS(MPI_Recv_init, &rq);
    RECVS(MPI_Recv_c, &st); RECVS(MPI_Irecv_c, &rq); RECVS(MPI_Recv_init_c, &rq);
    FAILS(MPI_ERR_RANK, MPI_Probe(p, 0, w, &st)); FAILS(MPI_ERR_TAG, MPI_Probe(0, -9, w, &st)); FAILS(MPI_ERR_COMM, MPI_Probe(0, 0, nul, &st));
    FAILS(MPI_ERR_RANK, MPI_Iprobe(p, 0, w, &flag, &st)); FAILS(MPI_ERR_TAG, MPI_Iprobe(0, -9, w, &flag, &st)); FAILS(MPI_ERR_COMM, MPI_Iprobe(0, 0, nul, &flag, &st));
    FAILS(MPI_ERR_RANK, MPI_Mprobe(p, 0, w, &m, &st)); FAILS(MPI_ERR_COMM, MPI_Improbe(0, 0, nul, &flag, &m, &st));
    m = MPI_MESSAGE_NULL;
    FAILS2(MPI_ERR_REQUEST, MPI_ERR_ARG, MPI_Mrecv(v, 1, MPI_INT, &m, &st));
    FAILS2(MPI_ERR_REQUEST, MPI_ERR_ARG, MPI_Imrecv(v, 1, MPI_INT, &m, &rq));
    FAILS(MPI_ERR_COUNT, MPI_Sendrecv(v, -1, MPI_INT, 0, 0, v, 1, MPI_INT, 0, 0, w, &st));
    FAILS(MPI_ERR_COUNT, MPI_Sendrecv(v, 1, MPI_INT, 0, 0, v, -1, MPI_INT, 0, 0, w, &st));
    FAILS(MPI_ERR_TYPE, MPI_Sendrecv(v, 1, dnul, 0, 0, v, 1, MPI_INT, 0, 0, w, &st));
    FAILS(MPI_ERR_TYPE, MPI_Sendrecv(v, 1, MPI_INT, 0, 0, v, 1, dnul, 0, 0, w, &st));
    FAILS(MPI_ERR_RANK, MPI_Sendrecv(v, 1, MPI_INT, p, 0, v, 1, MPI_INT, 0, 0, w, &st));
    FAILS(MPI_ERR_RANK, MPI_Sendrecv(v, 1, MPI_INT, 0, 0, v, 1, MPI_INT, p, 0, w, &st));
    FAILS(MPI_ERR_TAG, MPI_Sendrecv(v, 1, MPI_INT, 0, -5, v, 1, MPI_INT, 0, 0, w, &st));
    FAILS(MPI_ERR_COMM, MPI_Sendrecv(v, 1, MPI_INT, 0, 0, v, 1, MPI_INT, 0, 0, nul, &st));
    FAILS(MPI_ERR_COUNT, MPI_Sendrecv_replace(v, -1, MPI_INT, 0, 0, 0, 0, w, &st));
    FAILS(MPI_ERR_RANK, MPI_Sendrecv_replace(v, 1, MPI_INT, p, 0, 0, 0, w, &st));
    FAILS(MPI_ERR_COMM, MPI_Isendrecv(v, 1, MPI_INT, 0, 0, v, 1, MPI_INT, 0, 0, nul, &rq));
    rq = MPI_REQUEST_NULL;
    FAILS(MPI_ERR_REQUEST, MPI_Start(&rq));
    FAILS(MPI_ERR_REQUEST, MPI_Request_free(&rq));
    FAILS(MPI_ERR_REQUEST, MPI_Cancel(&rq));
    FAILS2(MPI_ERR_COUNT, MPI_ERR_ARG, MPI_Waitall(-1, &rq, &st));
    FAILS2(MPI_ERR_COUNT, MPI_ERR_ARG, MPI_Testall(-1, &rq, &flag, &st));
    STRICT(FAILS2(MPI_ERR_COUNT, MPI_ERR_ARG, MPI_Waitany(-1, &rq, &n, &st)));
    OK(MPI_Irecv(v, 1, MPI_INT, check_rank, 3, w, &rq)); /* not persistent */
    FAILS(MPI_ERR_REQUEST, MPI_Start(&rq));
    OK(MPI_Cancel(&rq)); OK(MPI_Wait(&rq, &st));
    FAILS(MPI_ERR_TYPE, MPI_Get_count(&st, dnul, &n));
    FAILS_ANY(MPI_Buffer_attach(v, -1));
    FAILS_ANY(MPI_Comm_rank(nul, &n)); FAILS(MPI_ERR_COMM, MPI_Comm_rank(nul, &n)); FAILS(MPI_ERR_COMM, MPI_Comm_size(nul, &n));
    STRICT(FAILS(MPI_ERR_COMM, MPI_Comm_remote_size(w, &n)));
    FAILS(MPI_ERR_ARG, MPI_Comm_rank(w, NULL));
    OK(MPI_Type_free(&raw));
    /* nothing of all that is left in flight */
    OK(MPI_Barrier(w));
    OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, w, &flag, &st)); EQ(flag, 0);
    OK(MPI_Barrier(w)); /* what follows must not be seen by the probe of a slow rank */
    int out = check_rank, in = -1;
    OK(MPI_Sendrecv(&out, 1, MPI_INT, (check_rank + 1) % p, 0, &in, 1, MPI_INT, (check_rank + p - 1) % p, 0, w, &st)); EQ(in, (check_rank + p - 1) % p);
    return check_done();
}
