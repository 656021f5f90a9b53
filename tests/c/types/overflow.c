/* Counts whose bytes are more than memory can hold: an error, and no byte of a buffer is touched. Large enough counts make the product wrap
 * around to a small number, which would pass every check of room. */
#include "check.h"

#define ROOM 64

static unsigned char buf[ROOM], out[ROOM];

/* Each call must fail, and leave `out` as it was. */
#define TOO_LARGE(call) do { memset(out, 0x5a, ROOM); FAILS2(MPI_ERR_COUNT, MPI_ERR_ARG, call); \
    for (int k_ = 0; k_ < ROOM; k_++) if (out[k_] != 0x5a) { CHECK(0, #call ": wrote byte %d", k_); break; } } while (0)

static void with_type(MPI_Datatype t, MPI_Count n)
{
    MPI_Comm self = MPI_COMM_SELF, world = MPI_COMM_WORLD;
    MPI_Count at = 0, size, zero[64] = {0}, counts[64];
    MPI_Aint none[64] = {0};
    MPI_Datatype types[64];
    MPI_Request rq;
    MPI_Status st;
    MPI_Message message;
    for (int i = 0; i < 64; i++) counts[i] = n, types[i] = t;
    TOO_LARGE(MPI_Pack_c(buf, n, t, out, ROOM, &at, self));
    EQ(at, 0);
    TOO_LARGE(MPI_Unpack_c(buf, ROOM, &at, out, n, t, self));
    EQ(at, 0);
    OK(MPI_Pack_size_c(n, t, self, &size));
    EQ(size, MPI_UNDEFINED);
    TOO_LARGE(MPI_Send_c(buf, n, t, MPI_PROC_NULL, 1, self));
    TOO_LARGE(MPI_Isend_c(buf, n, t, 0, 1, self, &rq));
    TOO_LARGE(MPI_Bsend_c(buf, n, t, 0, 1, self));
    TOO_LARGE(MPI_Send_init_c(buf, n, t, 0, 1, self, &rq));
    TOO_LARGE(MPI_Recv_c(out, n, t, 0, 1, self, &st));
    TOO_LARGE(MPI_Irecv_c(out, n, t, 0, 1, self, &rq));
    TOO_LARGE(MPI_Sendrecv_replace_c(out, n, t, 0, 1, 0, 1, self, &st));
    OK(MPI_Send(buf, 4, MPI_CHAR, 0, 2, self));
    OK(MPI_Mprobe(0, 2, self, &message, &st));
    TOO_LARGE(MPI_Mrecv_c(out, n, t, &message, &st));
    TOO_LARGE(MPI_Imrecv_c(out, n, t, &message, &rq));
    FAILS(MPI_ERR_BUFFER, MPI_Mrecv(NULL, 4, MPI_CHAR, &message, &st));
    OK(MPI_Mrecv(out, 4, MPI_CHAR, &message, &st));
    TOO_LARGE(MPI_Bcast_c(out, n, t, 0, world));
    TOO_LARGE(MPI_Gather_c(buf, n, t, out, n, t, 0, self));
    TOO_LARGE(MPI_Allgather_c(MPI_IN_PLACE, 0, t, out, n, t, world));
    TOO_LARGE(MPI_Alltoall_c(MPI_IN_PLACE, 0, t, out, n, t, world));
    TOO_LARGE(MPI_Alltoallv_c(buf, zero, none, t, out, counts, none, t, world));
    TOO_LARGE(MPI_Alltoallw_c(buf, counts, none, types, out, zero, none, types, world));
    TOO_LARGE(MPI_Status_set_elements_c(&st, MPI_DOUBLE, n));
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    MPI_Datatype gaps, bytes;
    MPI_Count counts[64], total = (MPI_Count)1 << 62;
    OK(MPI_Buffer_attach(MPI_BUFFER_AUTOMATIC, 0));
    with_type(MPI_INT, (MPI_Count)1 << 61);     /* 2^63: negative as a signed number */
    with_type(MPI_INT, (MPI_Count)1 << 62);     /* 2^64: zero */
    with_type(MPI_INT, ((MPI_Count)1 << 62) + 1); /* 2^64 + 4: four */
    OK(MPI_Type_vector(2, 1, 2, MPI_INT, &gaps));
    OK(MPI_Type_commit(&gaps));
    with_type(gaps, (MPI_Count)1 << 60);
    with_type(gaps, ((MPI_Count)1 << 61) + 1);
    OK(MPI_Type_free(&gaps));
    /* reductions */
    MPI_Comm world = MPI_COMM_WORLD;
    MPI_Count n = ((MPI_Count)1 << 62) + 1;
    for (int i = 0; i < 64; i++) counts[i] = total;
    TOO_LARGE(MPI_Reduce_local_c(buf, out, n, MPI_INT, MPI_SUM));
    TOO_LARGE(MPI_Allreduce_c(buf, out, n, MPI_INT, MPI_SUM, world));
    TOO_LARGE(MPI_Scan_c(buf, out, n, MPI_INT, MPI_SUM, world));
    TOO_LARGE(MPI_Reduce_scatter_block_c(buf, out, n, MPI_INT, MPI_SUM, world));
    /* each block fits, but not their sum */
    if (check_size >= 4) {
        OK(MPI_Type_contiguous(1, MPI_CHAR, &bytes));
        OK(MPI_Type_commit(&bytes));
        MPI_Aint none[64] = {0};
        TOO_LARGE(MPI_Reduce_scatter_c(buf, out, counts, MPI_INT8_T, MPI_SUM, world));
        TOO_LARGE(MPI_Reduce_scatter_block_c(buf, out, total, MPI_INT8_T, MPI_SUM, world));
        TOO_LARGE(MPI_Allgather_c(MPI_IN_PLACE, 0, bytes, out, total, bytes, world));
        TOO_LARGE(MPI_Allgatherv_c(MPI_IN_PLACE, 0, bytes, out, counts, none, bytes, world));
        OK(MPI_Type_free(&bytes));
    }
    int one = 1, all = 0;
    OK(MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, world));
    EQ(all, check_size);
    return check_done();
}
