/* Counts what a program sends through any MPI library, at the level of its calls. See README.md. */
#ifndef FERRULE_PMPI_H
#define FERRULE_PMPI_H

#include <mpi.h>
#include <stdint.h>

/* Large counts, and what else came with MPI 4; Open MPI 5 has the rest of it without the large counts. */
#define HAS_LARGE (MPI_VERSION >= 4)
#if MPI_VERSION >= 4 || (defined OMPI_MAJOR_VERSION && OMPI_MAJOR_VERSION >= 5)
#define HAS_MPI4 1
#else
#define HAS_MPI4 0
#endif

/* Words of a row: word 0 holds bytes, word 1 + k the messages of size class k (2^(k-1) to 2^k - 1 bytes; class 0: empty). */
enum { ROW_WORDS = 64 };

/* What has been sent to one peer. */
typedef uint64_t Row[ROW_WORDS];

/* A phase that is over. */
typedef struct Phase {
    int level;
    double began, ended; /* MPI_Wtime */
    Row **rows;          /* by world rank, NULL where nothing was sent */
    Row **fetched;       /* what this rank has had others send, by one-sided calls; NULL as above */
    struct Phase *next;
} Phase;

/* Calls of one collective and what this rank has put into them. */
typedef struct {
    const char *name;
    uint64_t calls, bytes;
} Collective;

/* What a persistent operation sends each time. */
typedef struct Plan {
    const char *collective; /* its name, if it is one */
    uint64_t bytes;         /* that this rank puts into the collective */
    int number;
    struct Entry {
        int world;
        uint64_t bytes;
    } *entries;
} Plan;

typedef struct {
    int rank, size; /* in MPI_COMM_WORLD */
    double began;   /* MPI_Wtime */
    double began_unix;
    int level;      /* of the present phase */
    double phase_began;
    Row **rows;     /* of the present phase */
    Row **fetched;
    Phase *first, *last;
    int direct;     /* collectives are counted as if data went straight to where it is needed */
} Profile;

extern Profile profile;

/* counts.c */
void profile_begin(void);
int profile_is_counting(void);
void profile_count(int world, uint64_t bytes);
void profile_count_on(MPI_Comm comm, int rank, uint64_t bytes);
void profile_count_fetched(int world, uint64_t bytes);
int *profile_world_ranks(MPI_Group group);
void profile_plan_begin(void);
Plan *profile_plan_end(void);
void profile_next_phase(int level);
uint64_t profile_bytes(MPI_Count count, MPI_Datatype type);
void profile_lock(void);
void profile_unlock(void);

/* persistent.c */
void profile_prepare(MPI_Request request, Plan *plan);

/* collectives.c */
void profile_note(const char *name, uint64_t bytes);
const Collective *profile_collectives(int *number);

/* output.c */
void profile_write(void);
void profile_write_alone(int code);

#endif
