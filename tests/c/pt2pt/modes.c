/* Every send mode, blocking and not, against every receive form, over a ladder of sizes (short, eager, rendezvous). */
#include "check.h"

static const size_t SIZES[] = {0, 1, 7, 8, 63, 64, 65, 1000, 2048, 2049, 4096, 8191, 16384, 65536, 65537, 262144, 1 << 20, (4 << 20) + 3};
enum { SEND, SSEND, BSEND, RSEND, ISEND, ISSEND, IBSEND, IRSEND, MODES };

static void send_by(int mode, const void *buf, int n, int dest, int tag)
{
    MPI_Request rq = MPI_REQUEST_NULL;
    switch (mode) {
    case SEND: OK(MPI_Send(buf, n, MPI_BYTE, dest, tag, MPI_COMM_WORLD)); break;
    case SSEND: OK(MPI_Ssend(buf, n, MPI_BYTE, dest, tag, MPI_COMM_WORLD)); break;
    case BSEND: OK(MPI_Bsend(buf, n, MPI_BYTE, dest, tag, MPI_COMM_WORLD)); break;
    case RSEND: OK(MPI_Rsend(buf, n, MPI_BYTE, dest, tag, MPI_COMM_WORLD)); break;
    case ISEND: OK(MPI_Isend(buf, n, MPI_BYTE, dest, tag, MPI_COMM_WORLD, &rq)); break;
    case ISSEND: OK(MPI_Issend(buf, n, MPI_BYTE, dest, tag, MPI_COMM_WORLD, &rq)); break;
    case IBSEND: OK(MPI_Ibsend(buf, n, MPI_BYTE, dest, tag, MPI_COMM_WORLD, &rq)); break;
    case IRSEND: OK(MPI_Irsend(buf, n, MPI_BYTE, dest, tag, MPI_COMM_WORLD, &rq)); break;
    }
    OK(MPI_Wait(&rq, MPI_STATUS_IGNORE));
    EQ(rq == MPI_REQUEST_NULL, 1);
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    if (check_size < 2)
        return check_skip("needs two ranks");
    size_t most = SIZES[LEN(SIZES) - 1];
    char *out = alloc(most), *in = alloc(most + 16);
    int attach = (int)most + MPI_BSEND_OVERHEAD;
    void *pool = alloc(attach);
    OK(MPI_Buffer_attach(pool, attach));
    int pairs = check_size / 2, me = check_rank, peer = me ^ 1;
    for (int mode = 0; mode < MODES && me < 2 * pairs; mode++)
        for (int s = 0; s < LEN(SIZES); s++)
            for (int way = 0; way < 2; way++) {
                int n = (int)SIZES[s], tag = mode * 100 + s;
                uint64_t id = (uint64_t)(tag * 2 + way);
                int ready = mode == RSEND || mode == IRSEND;
                if ((me & 1) == way) { /* the sender of this round */
                    fill(out, n, id + 7919 * me);
                    if (ready)
                        OK(MPI_Recv(NULL, 0, MPI_BYTE, peer, 9999, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
                    send_by(mode, out, n, peer, tag);
                } else {
                    MPI_Request rq;
                    MPI_Status st;
                    int count = -1;
                    memset(in, 0x55, n + 16);
                    if (ready || (s & 1)) {
                        OK(MPI_Irecv(in, n + 8, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &rq));
                        if (ready)
                            OK(MPI_Send(NULL, 0, MPI_BYTE, peer, 9999, MPI_COMM_WORLD));
                        OK(MPI_Wait(&rq, &st));
                    } else
                        OK(MPI_Recv(in, n + 8, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &st));
                    OK(MPI_Get_count(&st, MPI_BYTE, &count));
                    EQ(count, n);
                    EQ(st.MPI_SOURCE, peer);
                    EQ(st.MPI_TAG, tag);
                    EQ(wrong_at(in, n, id + 7919 * peer), -1);
                    EQ(in[n], 0x55);
                }
            }
    void *back;
    int size;
    OK(MPI_Buffer_detach(&back, &size));
    EQ(size, attach);
    EQ(back == pool, 1);
    return check_done();
}
