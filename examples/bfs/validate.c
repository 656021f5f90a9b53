/* The checks that the Graph500 specification asks for, on the edge list as the generator makes it (not on the rows that the search used):
 *   1. the tree has no cycle                         levels come from following parents, round by round, until nothing changes
 *   2. a tree edge joins levels that differ by one   by that construction; the root is its own parent, at level 0
 *   3. an edge of the list joins levels that differ by at most one, or two vertices that were not reached
 *   4. the tree spans the component of the root      follows from 3: no edge leaves it
 *   5. a vertex and its parent are joined by an edge of the list */
#include "bfs.h"

enum { CYCLE = 1, LEVELS = 2, NOT_AN_EDGE = 4, ROOT = 8 };
#define BATCH (INT64_C(1) << 18) /* edges that are under way at a time */

static int64_t sum(int64_t mine)
{
    int64_t all;
    MPI_Allreduce(&mine, &all, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

/* Levels of local vertices, -1 for those whose parents lead nowhere. Each round, those that got a level tell nobody; those without
 * one ask their parent's owner. Returns CYCLE when reached vertices are left without a level. */
static int find_levels(const graph *g, int64_t root, const int64_t *parent, int64_t *level)
{
    mail m = mail_new();
    int64_t open = 0;
    for (int64_t i = 0; i < g->locals; i++) {
        level[i] = GLOBAL(i) == root ? 0 : -1;
        open += parent[i] >= 0 && level[i] < 0;
    }
    for (int64_t before = -1, now; (now = sum(open)) && now != before; before = now) {
        for (int64_t i = 0; i < g->locals; i++)
            if (parent[i] >= 0 && level[i] < 0) box_add(&m.out[OWNER(parent[i])], (pair){GLOBAL(i), parent[i]});
        deliver(&m);
        for (size_t k = 0; k < m.arrived; k++) {
            int64_t l = level[LOCAL(m.in[k].b)];
            if (l >= 0) box_add(&m.out[OWNER(m.in[k].a)], (pair){m.in[k].a, l});
        }
        deliver(&m);
        open -= (int64_t)m.arrived;
        for (size_t k = 0; k < m.arrived; k++) level[LOCAL(m.in[k].a)] = m.in[k].b + 1;
    }
    mail_free(&m);
    return open ? CYCLE : 0;
}

/* Both ends of each edge learn the other's level: the pair (other end, vertex) is followed by (level of vertex, parent of vertex). */
static int check_batch(const graph *g, int64_t from, int64_t to, const int64_t *level, const int64_t *parent, char *joined, mail *ask,
                       mail *tell, int64_t *inside)
{
    int broken = 0;
    for (int64_t i = from; i < to; i++) {
        pair e = edge_of(g->seed, i, g->scale);
        box_add(&ask->out[OWNER(e.a)], e);
    }
    deliver(ask);
    for (size_t k = 0; k < ask->arrived; k++) {
        pair e = ask->in[k];
        box_add(&tell->out[OWNER(e.b)], e);
        box_add(&tell->out[OWNER(e.b)], (pair){level[LOCAL(e.a)], 0});
        if (parent[LOCAL(e.a)] == e.b) joined[LOCAL(e.a)] = 1;
    }
    deliver(tell);
    for (size_t k = 0; k < tell->arrived; k += 2) {
        pair e = tell->in[k];
        int64_t there = tell->in[k + 1].a, here = level[LOCAL(e.b)], gap = there - here;
        if (there < 0 ? here >= 0 : here < 0 || gap < -1 || gap > 1) broken = LEVELS;
        if (parent[LOCAL(e.b)] == e.a) joined[LOCAL(e.b)] = 1;
        *inside += here >= 0;
    }
    return broken;
}

const char *validate(const graph *g, int64_t root, const int64_t *parent, int64_t *traversed)
{
    int64_t *level = need((size_t)g->locals * sizeof *level), first, end, inside = 0;
    char *joined = need((size_t)g->locals);
    mail ask = mail_new(), tell = mail_new();
    int broken = 0, all;
    if (OWNER(root) == rank && parent[LOCAL(root)] != root) broken |= ROOT;
    broken |= find_levels(g, root, parent, level);
    our_edges(g, &first, &end);
    for (int64_t at = first; sum(end - at) > 0;) {
        int64_t to = end - at < BATCH ? end : at + BATCH;
        broken |= check_batch(g, at, to, level, parent, joined, &ask, &tell, &inside);
        at = to;
    }
    for (int64_t i = 0; i < g->locals; i++)
        if (parent[i] >= 0 && GLOBAL(i) != root && !joined[i]) broken |= NOT_AN_EDGE;
    *traversed = sum(inside);
    MPI_Allreduce(&broken, &all, 1, MPI_INT, MPI_BOR, MPI_COMM_WORLD);
    mail_free(&ask); mail_free(&tell);
    free(joined); free(level);
    return all & ROOT        ? "the root is not its own parent"
           : all & CYCLE     ? "parents lead in a circle or to a vertex that was not reached"
           : all & LEVELS    ? "an edge joins levels that differ by more than one, or leaves the tree"
           : all & NOT_AN_EDGE ? "a parent is no neighbour"
                             : NULL;
}
