/* Breadth-first search in the style of the Graph500 benchmark: what its three files share.
 *   graph.c     Kronecker generator, exchange of pairs, distribution and compressed rows
 *   validate.c  the benchmark's checks of a parent tree
 *   bfs.c       the search and the program
 * Vertices are dealt out one by one: vertex v belongs to rank v mod size, where it is number v / size. */
#ifndef BFS_H
#define BFS_H
#include <inttypes.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct { int64_t a, b; } pair; /* an edge, or a vertex and what is said about it */
typedef struct { pair *item; size_t n, room; } box;
/* Pairs for each rank, and those that arrived at the last `deliver`. */
typedef struct { box *out; pair *in; size_t arrived, room; } mail;

typedef struct {
    int scale;         /* 2^scale vertices */
    uint64_t seed;
    int64_t vertices, edges;
    int64_t locals;    /* vertices that we own */
    int64_t *row;      /* neighbours of local vertex i: column[row[i] .. row[i + 1]) */
    int64_t *column;
} graph;

extern int rank, size, by_sends;
extern MPI_Datatype pair_type; /* two MPI_INT64_T */

#define OWNER(v) ((int)((v) % size))
#define LOCAL(v) ((v) / size)
#define GLOBAL(i) ((i) * size + rank)

void *need(size_t bytes); /* zeroed; ends the job when there is no memory */
mail mail_new(void);
void mail_free(mail *m);
void box_add(box *b, pair item);
void deliver(mail *m);

pair edge_of(uint64_t seed, int64_t i, int scale);
void our_edges(const graph *g, int64_t *first, int64_t *end);
void build(graph *g);

/* Checks `parent` (of local vertices, -1 for those not reached) of a search from `root`. Returns a text for the first rule that is
 * broken on any rank, or NULL; `traversed` gets the number of edges of the list in the component. All ranks call it. */
const char *validate(const graph *g, int64_t root, const int64_t *parent, int64_t *traversed);
#endif
