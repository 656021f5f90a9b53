/* Cancelling sends (MPI-5.0, 3.8.4): MPI_Wait returns though the receiver never receives the message; a cancelled message is gone, one that was
 * matched arrives whole. Arguments: seed, rounds. */
#include "check.h"

enum { LONG = 1 << 18, TAG = 7, NEXT = 8, DONE = 9 };

static int out[LONG], in[LONG];

static int start(int kind, int to, MPI_Request *rq)
{
    switch (kind) {
    case 0: return MPI_Issend(out, 1, MPI_INT, to, TAG, MPI_COMM_WORLD, rq);
    case 1: return MPI_Issend(out, LONG, MPI_INT, to, TAG, MPI_COMM_WORLD, rq);
    case 2: return MPI_Isend(out, LONG, MPI_INT, to, TAG, MPI_COMM_WORLD, rq);
    case 3: return MPI_Isend(out, 1, MPI_INT, to, TAG, MPI_COMM_WORLD, rq);
    default:
        OK(MPI_Ssend_init(out, LONG, MPI_INT, to, TAG, MPI_COMM_WORLD, rq));
        return MPI_Start(rq);
    }
}

static int length(int kind)
{
    return kind == 0 || kind == 3 ? 1 : LONG;
}

/* Nobody receives: the wait must end all the same, and a synchronous message must be cancelled. */
static void unreceived(int kind, int to, int test)
{
    MPI_Request rq;
    MPI_Status st;
    int cancelled = -1, done = 0;
    OK(start(kind, to, &rq));
    OK(MPI_Cancel(&rq));
    while (test && !done)
        OK(MPI_Test(&rq, &done, &st));
    if (!test)
        OK(MPI_Wait(&rq, &st));
    OK(MPI_Test_cancelled(&st, &cancelled));
    CHECK(cancelled == 1 || kind == 2 || kind == 3, "kind %d", kind);
    if (kind == 4)
        OK(MPI_Request_free(&rq));
    else
        EQ(rq == MPI_REQUEST_NULL, 1);
    OK(MPI_Send(&cancelled, 1, MPI_INT, to, DONE, MPI_COMM_WORLD));
    OK(MPI_Recv(NULL, 0, MPI_INT, to, NEXT, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
}

/* What was not cancelled is there, and nothing else. */
static void look(int kind, int from)
{
    int cancelled, flag;
    OK(MPI_Recv(&cancelled, 1, MPI_INT, from, DONE, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    if (!cancelled)
        OK(MPI_Recv(in, length(kind), MPI_INT, from, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    OK(MPI_Iprobe(MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
    EQ(flag, 0);
    OK(MPI_Send(NULL, 0, MPI_INT, from, NEXT, MPI_COMM_WORLD));
}

/* The receive may come before, after or with the cancellation. */
static void race(int round, uint64_t *state)
{
    int kind = rnd_below(state, 5), sender = round % 2, wait_us = rnd_below(state, 40), cancelled = 0;
    MPI_Status st;
    if (check_rank == sender) {
        MPI_Request rq;
        for (int i = 0; i < LONG; i++)
            out[i] = round;
        OK(start(kind, !sender, &rq));
        if (wait_us > 20)
            usleep(wait_us);
        OK(MPI_Cancel(&rq));
        OK(MPI_Wait(&rq, &st));
        OK(MPI_Test_cancelled(&st, &cancelled));
        if (kind == 4)
            OK(MPI_Request_free(&rq));
        memset(out, 0xff, sizeof out);
        if (cancelled)
            OK(MPI_Send(out, length(kind), MPI_INT, !sender, TAG, MPI_COMM_WORLD));
        OK(MPI_Send(&cancelled, 1, MPI_INT, !sender, DONE, MPI_COMM_WORLD));
    } else {
        if (wait_us % 3 == 0)
            usleep(wait_us);
        OK(MPI_Recv(in, length(kind), MPI_INT, sender, TAG, MPI_COMM_WORLD, &st));
        OK(MPI_Recv(&cancelled, 1, MPI_INT, sender, DONE, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        for (int i = 0; i < length(kind); i++)
            if (in[i] != (cancelled ? -1 : round)) {
                check_report(__FILE__, __LINE__, "round %d, kind %d: %d is %d", round, kind, i, in[i]);
                break;
            }
    }
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    uint64_t state = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    int rounds = argc > 2 ? atoi(argv[2]) : 200;
    for (int kind = 0; kind < 5; kind++)
        for (int test = 0; test < 2; test++)
            if (check_rank == 0)
                unreceived(kind, 1, test);
            else
                look(kind, 0);
    /* to oneself: a large standard message would have to be buffered, which nobody promises */
    for (int kind = 0; kind < 2; kind++) {
        MPI_Request rq;
        MPI_Status st;
        int cancelled = -1, flag;
        OK(start(kind, check_rank, &rq));
        OK(MPI_Cancel(&rq));
        OK(MPI_Wait(&rq, &st));
        OK(MPI_Test_cancelled(&st, &cancelled));
        EQ(cancelled, 1);
        OK(MPI_Iprobe(check_rank, TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
        EQ(flag, 0);
    }
    /* freed instead of waited for */
    if (check_rank == 0) {
        MPI_Request rq;
        OK(start(1, 1, &rq));
        OK(MPI_Cancel(&rq));
        OK(MPI_Request_free(&rq));
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int round = 0; round < rounds; round++)
        race(round, &state);
    return check_done();
}
