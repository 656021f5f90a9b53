/* Buffered sends: attached buffer, per communicator, per session, automatic; full buffer; detach waits; flush. */
#include "check.h"

static void exchange(MPI_Comm comm, int messages, int bytes)
{
    int rank, size, count;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    char *buf = alloc(bytes);
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    for (int i = 0; i < messages; i++) {
        fill(buf, bytes, i * 64 + rank);
        OK(MPI_Bsend(buf, bytes, MPI_BYTE, to, i, comm));
        memset(buf, 0, bytes); /* the buffer is ours again */
    }
    for (int i = messages - 1; i >= 0; i--) { /* the reverse order: all of them were buffered */
        MPI_Status st;
        OK(MPI_Recv(buf, bytes, MPI_BYTE, from, i, comm, &st));
        OK(MPI_Get_count(&st, MPI_BYTE, &count));
        EQ(count, bytes);
        EQ(wrong_at(buf, bytes, i * 64 + from), -1);
    }
    free(buf);
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    enum { BYTES = 30000, MESSAGES = 8 };
    int room = MESSAGES * (BYTES + MPI_BSEND_OVERHEAD), size, flag;
    char *pool = alloc(room), *pool2 = alloc(room), *back = NULL;
    MPI_Request rq;
    OK(MPI_Buffer_attach(pool, room));
    exchange(MPI_COMM_WORLD, MESSAGES, BYTES);
    OK(MPI_Buffer_flush());
    exchange(MPI_COMM_WORLD, MESSAGES, BYTES); /* space is reused */
    OK(MPI_Buffer_flush());
    exchange(MPI_COMM_WORLD, MESSAGES, 10);
    OK(MPI_Buffer_iflush(&rq));
    OK(MPI_Wait(&rq, MPI_STATUS_IGNORE));
    OK(MPI_Buffer_detach(&back, &size));
    EQ(back == pool, 1);
    EQ(size, room);
    /* Too small. */
    OK(MPI_Buffer_attach(pool, 1000));
    FAILS(MPI_ERR_BUFFER, MPI_Bsend(pool2, 5000, MPI_BYTE, check_rank, 0, MPI_COMM_WORLD));
    OK(MPI_Buffer_detach(&back, &size));
    /* One buffer per communicator. */
    MPI_Comm a, b;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &a));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &b));
    OK(MPI_Comm_attach_buffer(a, pool, room));
    OK(MPI_Comm_attach_buffer(b, pool2, room));
    exchange(a, MESSAGES, BYTES);
    exchange(b, MESSAGES, BYTES);
    OK(MPI_Comm_flush_buffer(a));
    OK(MPI_Comm_iflush_buffer(b, &rq));
    OK(MPI_Wait(&rq, MPI_STATUS_IGNORE));
    OK(MPI_Comm_detach_buffer(a, &back, &size));
    EQ(back == pool, 1);
    EQ(size, room);
    OK(MPI_Comm_detach_buffer(b, &back, &size));
    EQ(back == pool2, 1);
    /* Automatic buffering. */
    OK(MPI_Comm_attach_buffer(a, MPI_BUFFER_AUTOMATIC, 0));
    exchange(a, 3 * MESSAGES, BYTES);
    OK(MPI_Comm_detach_buffer(a, &back, &size));
    EQ(back == MPI_BUFFER_AUTOMATIC, 1);
    OK(MPI_Buffer_attach(MPI_BUFFER_AUTOMATIC, 0));
    exchange(MPI_COMM_WORLD, 2 * MESSAGES, 2 * BYTES);
    OK(MPI_Buffer_detach(&back, &size));
    EQ(back == MPI_BUFFER_AUTOMATIC, 1);
    OK(MPI_Comm_free(&a));
    OK(MPI_Comm_free(&b));
    /* Session buffer. */
    MPI_Session session;
    MPI_Group group;
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &group));
    OK(MPI_Comm_create_from_group(group, "bsend", MPI_INFO_NULL, MPI_ERRORS_RETURN, &a));
    OK(MPI_Session_attach_buffer(session, pool, room));
    exchange(a, MESSAGES, BYTES);
    OK(MPI_Session_flush_buffer(session));
    exchange(a, MESSAGES, BYTES);
    OK(MPI_Session_iflush_buffer(session, &rq));
    for (flag = 0; !flag;)
        OK(MPI_Test(&rq, &flag, MPI_STATUS_IGNORE));
    OK(MPI_Session_detach_buffer(session, &back, &size));
    EQ(back == pool, 1);
    OK(MPI_Comm_free(&a));
    OK(MPI_Group_free(&group));
    OK(MPI_Session_finalize(&session));
    return check_done();
}
