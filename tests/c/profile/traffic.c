/* Sends known numbers of messages; tests/profile.py says what must be counted. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int rank, size;
static char out[1 << 20], in[1 << 20];

static int next(void) { return (rank + 1) % size; }
static int previous(void) { return (rank + size - 1) % size; }

/* `n` messages of `bytes` bytes around the ring. */
static void ring(int n, int bytes)
{
    for (int i = 0; i < n; i++)
        MPI_Sendrecv(out, bytes, MPI_BYTE, next(), 1, in, bytes, MPI_BYTE, previous(), 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* Every way to send, one message of 8 bytes each; to the next rank. */
static void modes(void)
{
    MPI_Request in_request, requests[2];
    double value = rank;
    static char room[4096];
    MPI_Buffer_attach(room, sizeof room);
#define RECEIVE MPI_Irecv(in, 8, MPI_BYTE, previous(), 2, MPI_COMM_WORLD, &in_request)
#define DONE MPI_Wait(&in_request, MPI_STATUS_IGNORE)
    RECEIVE; MPI_Send(&value, 1, MPI_DOUBLE, next(), 2, MPI_COMM_WORLD); DONE;
    RECEIVE; MPI_Ssend(&value, 1, MPI_DOUBLE, next(), 2, MPI_COMM_WORLD); DONE;
    RECEIVE; MPI_Bsend(&value, 1, MPI_DOUBLE, next(), 2, MPI_COMM_WORLD); DONE;
    RECEIVE; MPI_Barrier(MPI_COMM_WORLD); MPI_Rsend(&value, 1, MPI_DOUBLE, next(), 2, MPI_COMM_WORLD); DONE;
    RECEIVE; MPI_Isend(&value, 1, MPI_DOUBLE, next(), 2, MPI_COMM_WORLD, requests); MPI_Wait(requests, MPI_STATUS_IGNORE); DONE;
    RECEIVE; MPI_Issend(&value, 1, MPI_DOUBLE, next(), 2, MPI_COMM_WORLD, requests); MPI_Wait(requests, MPI_STATUS_IGNORE); DONE;
    RECEIVE; MPI_Ibsend(&value, 1, MPI_DOUBLE, next(), 2, MPI_COMM_WORLD, requests); MPI_Wait(requests, MPI_STATUS_IGNORE); DONE;
    MPI_Send_init(&value, 1, MPI_DOUBLE, next(), 2, MPI_COMM_WORLD, requests);
    for (int i = 0; i < 3; i++) { RECEIVE; MPI_Start(requests); MPI_Wait(requests, MPI_STATUS_IGNORE); DONE; }
    RECEIVE; MPI_Startall(1, requests); MPI_Wait(requests, MPI_STATUS_IGNORE); DONE;
    MPI_Request_free(requests);
    MPI_Sendrecv_replace(&value, 1, MPI_DOUBLE, next(), 2, previous(), 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Send(&value, 1, MPI_DOUBLE, MPI_PROC_NULL, 2, MPI_COMM_WORLD);
    void *at; int length;
    MPI_Buffer_detach(&at, &length);
}

/* Known accesses to the window of the next rank, some to the previous one's, and to a file of its own. */
static void accesses(void)
{
    static char data[1000];
    char name[64];
    int one = 1, old, *memory;
    MPI_Win win;
    MPI_File file;
    MPI_Win_allocate(4096, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    MPI_Win_lock_all(0, win);
    for (int i = 0; i < 3; i++) MPI_Put(out, 100, MPI_BYTE, next(), 0, 100, MPI_BYTE, win);
    for (int i = 0; i < 2; i++) MPI_Get(in, 50, MPI_BYTE, previous(), 200, 50, MPI_BYTE, win);
    MPI_Get(in, 0, MPI_BYTE, previous(), 200, 0, MPI_BYTE, win); /* nothing is moved */
    MPI_Accumulate(out, 8, MPI_INT, next(), 400, 8, MPI_INT, MPI_SUM, win);
    MPI_Fetch_and_op(&one, &old, MPI_INT, next(), 800, MPI_SUM, win);
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
    snprintf(name, sizeof name, "/tmp/ferrule-accesses-%d", (int)getpid());
    MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file);
    MPI_File_write_at(file, 0, data, 1000, MPI_BYTE, MPI_STATUS_IGNORE);
    MPI_File_write_at_all(file, 1000, data, 500, MPI_BYTE, MPI_STATUS_IGNORE);
    MPI_File_read_at(file, 1400, data, 1000, MPI_BYTE, MPI_STATUS_IGNORE); /* 100 are there */
    MPI_File_close(&file);
}

static void nap(double seconds)
{
    struct timespec t = { (time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9) };
    nanosleep(&t, NULL);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "ring";
    int victim = argc > 2 ? atoi(argv[2]) : 1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (!strcmp(what, "ring")) {
        ring(10, 100);
    } else if (!strcmp(what, "sizes")) {
        /* From 0 to 1 MiB: all protocols. */
        ring(2, 0);
        for (int bytes = 1; bytes <= 1 << 20; bytes *= 2)
            ring(1, bytes);
    } else if (!strcmp(what, "modes")) {
        modes();
    } else if (!strcmp(what, "self")) {
        MPI_Sendrecv(out, 3000, MPI_BYTE, rank, 1, in, 3000, MPI_BYTE, rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (!strcmp(what, "vector")) {
        /* 100 doubles in 200: what is counted is what is sent. */
        MPI_Datatype every_other;
        MPI_Type_vector(100, 1, 2, MPI_DOUBLE, &every_other);
        MPI_Type_commit(&every_other);
        MPI_Sendrecv(out, 1, every_other, next(), 1, in, 1, every_other, previous(), 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Type_free(&every_other);
    } else if (!strcmp(what, "alltoall")) {
        MPI_Alltoall(out, 5000, MPI_BYTE, in, 5000, MPI_BYTE, MPI_COMM_WORLD);
    } else if (!strcmp(what, "bcast")) {
        MPI_Bcast(out, 1000, MPI_BYTE, 0, MPI_COMM_WORLD);
    } else if (!strcmp(what, "split")) {
        /* The even ranks and the odd ones, turned round: peers are world ranks all the same. */
        MPI_Comm half;
        MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
        MPI_Comm_set_name(half, rank % 2 ? "odd" : "even");
        int own, members;
        MPI_Comm_rank(half, &own);
        MPI_Comm_size(half, &members);
        MPI_Pcontrol(9);
        for (int i = 0; i < 4; i++)
            MPI_Sendrecv(out, 77, MPI_BYTE, (own + 1) % members, 1, in, 77, MPI_BYTE, (own + members - 1) % members, 1, half, MPI_STATUS_IGNORE);
        int sum;
        MPI_Allreduce(&own, &sum, 1, MPI_INT, MPI_SUM, half);
        MPI_Request request;
        MPI_Ibcast(out, 10, MPI_BYTE, 0, half, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Comm_free(&half);
    } else if (!strcmp(what, "phases")) {
        ring(1, 100);
        MPI_Pcontrol(5);
        ring(2, 100);
        MPI_Pcontrol(2); /* flush: nothing */
        ring(1, 100);
        MPI_Pcontrol(0); /* pause */
        ring(7, 100);
        MPI_Pcontrol(1); /* go on */
        ring(4, 100);
        MPI_Pcontrol(5);
        ring(5, 100);
    } else if (!strcmp(what, "naps")) {
        for (int i = 1; i <= 3; i++) {
            ring(i, 50);
            nap(0.5);
        }
    } else if (!strcmp(what, "accesses")) {
        accesses();
        if (argc > 2) { /* until it is killed */
            puts("ready");
            fflush(stdout);
            MPI_Recv(in, 1, MPI_BYTE, previous(), 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
    } else if (!strcmp(what, "linger")) {
        ring(1, 50);
        puts("ready");
        fflush(stdout);
        nap(1000);
    } else if (!strcmp(what, "kill") || !strcmp(what, "abort") || !strcmp(what, "exit")) {
        ring(10, 100);
        MPI_Pcontrol(3);
        ring(1, 100);
        MPI_Barrier(MPI_COMM_SELF);
        if (rank == victim) {
            if (!strcmp(what, "kill"))
                raise(SIGKILL);
            if (!strcmp(what, "abort"))
                MPI_Abort(MPI_COMM_WORLD, 3);
            exit(4);
        }
    } else {
        fprintf(stderr, "traffic: what is '%s'?\n", what);
        return 2;
    }
    MPI_Finalize();
    return 0;
}
