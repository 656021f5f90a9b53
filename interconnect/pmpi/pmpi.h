/* Counts what a program sends through any MPI library, at the level of its calls. See README.md. */
#ifndef FERRULE_PMPI_H
#define FERRULE_PMPI_H

#include <mpi.h>
#include <stdint.h>

/* Words of a row: word 0 holds bytes, word 1 + k the messages of size class k (2^(k-1) to 2^k - 1 bytes; class 0: empty). */
enum { ROW_WORDS = 64 };

/* What has been sent to one peer. */
typedef uint64_t Row[ROW_WORDS];

/* A phase that is over. */
typedef struct Phase {
    int level;
    double began, ended; /* MPI_Wtime */
    Row **rows;          /* by world rank, NULL where nothing was sent */
    struct Phase *next;
} Phase;

/* Calls of one collective and what this rank has put into them. */
typedef struct {
    const char *name;
    uint64_t calls, bytes;
} Collective;

typedef struct {
    int rank, size; /* in MPI_COMM_WORLD */
    double began;   /* MPI_Wtime */
    double began_unix;
    int level;      /* of the present phase */
    double phase_began;
    Row **rows;     /* of the present phase */
    Phase *first, *last;
    int direct;     /* collectives are counted as if data went straight to where it is needed */
} Profile;

extern Profile profile;

/* counts.c */
void profile_begin(void);
void profile_count(int world, uint64_t bytes);
void profile_count_on(MPI_Comm comm, int rank, uint64_t bytes);
void profile_next_phase(int level);
uint64_t profile_bytes(MPI_Count count, MPI_Datatype type);
void profile_lock(void);
void profile_unlock(void);

/* collectives.c */
const Collective *profile_collectives(int *number);

/* output.c */
void profile_write(void);
void profile_write_alone(int code);

#endif
