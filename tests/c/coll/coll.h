/* One collective call in each of its forms, chosen by the program's argument:
 * "blocking", "nonblocking", "persistent", and the three large-count twins with "_c". */
#ifndef COLL_H
#define COLL_H
#include "check.h"
static int coll_form, coll_big;

static inline void coll_args(int argc, char **argv)
{
    const char *form = argc > 1 ? argv[1] : "blocking";
    coll_form = !strncmp(form, "nonblocking", 11) ? 1 : !strncmp(form, "persistent", 10) ? 2 : 0;
    coll_big = strlen(form) > 2 && !strcmp(form + strlen(form) - 2, "_c");
}

static inline void coll_wait(MPI_Request *rq)
{
    static int turn;
    if (turn++ & 1) {
        for (int flag = 0; !flag;)
            OK(MPI_Test(rq, &flag, MPI_STATUS_IGNORE));
    } else
        OK(MPI_Wait(rq, MPI_STATUS_IGNORE));
}

/* COLL(Bcast, bcast, "what must be repeated before each start", arguments without communicator..., communicator).
 * `prepare` restores the buffers: a persistent collective runs three times. */
#define COLL_(NAME, name, SUFFIX, prepare, ...) do { \
        MPI_Request rq_ = MPI_REQUEST_NULL; \
        if (coll_form == 0) { \
            prepare; \
            OK(MPI_##NAME##SUFFIX(__VA_ARGS__)); \
        } else if (coll_form == 1) { \
            prepare; \
            OK(MPI_I##name##SUFFIX(__VA_ARGS__, &rq_)); \
            coll_wait(&rq_); \
            EQ(rq_ == MPI_REQUEST_NULL, 1); \
        } else { \
            OK(MPI_##NAME##_init##SUFFIX(__VA_ARGS__, MPI_INFO_NULL, &rq_)); \
            for (int round_ = 0; round_ < 3; round_++) { \
                prepare; \
                OK(MPI_Start(&rq_)); \
                coll_wait(&rq_); \
            } \
            OK(MPI_Request_free(&rq_)); \
        } \
    } while (0)
#define COLL(NAME, name, prepare, ...) do { \
        if (coll_big) COLL_(NAME, name, _c, prepare, __VA_ARGS__); \
        else COLL_(NAME, name, , prepare, __VA_ARGS__); \
    } while (0)
/* Count arrays differ in type between the two: pass both. */
#define COLLV(NAME, name, prepare, SMALL, BIG) do { \
        if (coll_big) COLLV_(NAME, name, _c, prepare, BIG); \
        else COLLV_(NAME, name, , prepare, SMALL); \
    } while (0)
#define ARGS(...) __VA_ARGS__
#define COLLV_(NAME, name, SUFFIX, prepare, ...) COLL_(NAME, name, SUFFIX, prepare, __VA_ARGS__)

/* Types that the collectives run over: extent in ints, and which ints of an element are data. */
struct ctype { MPI_Datatype t; int extent, size; int at[3]; };
static struct ctype CT[4];
static inline void coll_types(void)
{
    MPI_Datatype v;
    CT[0] = (struct ctype){MPI_INT, 1, 1, {0}};
    OK(MPI_Type_contiguous(3, MPI_INT, &CT[1].t)); /* one contiguous block of three */
    CT[1].extent = CT[1].size = 3, CT[1].at[1] = 1, CT[1].at[2] = 2;
    OK(MPI_Type_vector(2, 1, 2, MPI_INT, &v)); /* a hole in the middle and one at the end */
    OK(MPI_Type_create_resized(v, 0, 4 * sizeof(int), &CT[2].t));
    OK(MPI_Type_free(&v));
    CT[2].extent = 4, CT[2].size = 2, CT[2].at[1] = 2;
    OK(MPI_Type_dup(MPI_INT, &CT[3].t));
    CT[3].extent = CT[3].size = 1;
    for (int i = 1; i < 4; i++)
        OK(MPI_Type_commit(&CT[i].t));
}
static inline void coll_types_free(void)
{
    for (int i = 1; i < 4; i++)
        OK(MPI_Type_free(&CT[i].t));
}
/* The value of data int `k` of the block that `from` holds for `to` in test `id`. */
static inline int value(int id, int from, int to, int k) { return (int)(((unsigned)id * 31 + from) * 1009u + to * 101u + k * 7u) & 0x7fffffff; }
/* Writes `count` elements of type `c` at `buf` (ints), data only. */
static inline void put_block(int *buf, const struct ctype *c, int count, int id, int from, int to)
{
    for (int e = 0, k = 0; e < count; e++)
        for (int j = 0; j < c->size; j++, k++)
            buf[e * c->extent + c->at[j]] = value(id, from, to, k);
}
/* Wrong data ints in a block. */
static inline int bad_block(const int *buf, const struct ctype *c, int count, int id, int from, int to)
{
    int bad = 0;
    for (int e = 0, k = 0; e < count; e++)
        for (int j = 0; j < c->size; j++, k++)
            bad += buf[e * c->extent + c->at[j]] != value(id, from, to, k);
    return bad;
}
static const int COUNTS[] = {0, 1, 3, 17, 250, 2100, 20000};
#endif
