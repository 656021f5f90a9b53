/* Buffers of buffered sends: one thread flushes while another detaches; both return when the message has left. */
#include "check.h"
#include <pthread.h>
enum { ROUNDS = 30, BYTES = 1 << 20 };
static char out[BYTES], in[BYTES], room[BYTES + MPI_BSEND_OVERHEAD];

static void *flush(void *x) { (void)x; OK(MPI_Buffer_flush()); return NULL; }
static void *detach(void *x)
{
    (void)x;
    void *where = NULL;
    int size = 0;
    OK(MPI_Buffer_detach(&where, &size));
    CHECK(where == room);
    EQ(size, sizeof room);
    return NULL;
}

int main(int argc, char **argv)
{
    check_init_multiple(&argc, &argv);
    int right = (check_rank + 1) % check_size, left = (check_rank + check_size - 1) % check_size;
    for (int i = 0; i < ROUNDS; i++) {
        pthread_t first, second;
        memset(out, i + 1, sizeof out);
        OK(MPI_Buffer_attach(room, sizeof room));
        OK(MPI_Bsend(out, BYTES, MPI_CHAR, right, i, MPI_COMM_WORLD));
        pthread_create(&first, NULL, i % 2 ? flush : detach, NULL);
        pthread_create(&second, NULL, i % 2 ? detach : flush, NULL);
        usleep(2000); /* long enough for both to wait */
        OK(MPI_Recv(in, BYTES, MPI_CHAR, left, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        pthread_join(first, NULL);
        pthread_join(second, NULL);
        EQ(in[0], i + 1);
        EQ(in[BYTES - 1], i + 1);
    }
    return check_done();
}
