/* The graph: generator, distribution, construction. See bfs.h. */
#include "bfs.h"

/* --- generator ---
 * Edge i of the Kronecker graph descends `scale` levels of the adjacency matrix, at each into one of four quadrants with probability
 * A, B, C and the rest. The random numbers are a function of (seed, i, level), so any rank can make any edge again. */
static uint64_t mixed(uint64_t z)
{
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}
/* A permutation of [0, 2^scale): multiplications by odd numbers and shifts, each of which can be undone. Without it the numbers of
 * the vertices would tell their degree. */
static uint64_t scrambled(uint64_t v, int scale)
{
    uint64_t mask = (UINT64_C(1) << scale) - 1;
    int half = scale / 2 + 1;
    v = v * UINT64_C(0x9e3779b97f4a7c15) & mask;
    v ^= v >> half;
    v = (v * UINT64_C(0xda942042e4dd58b5) + 12345) & mask;
    v ^= v >> half;
    return v;
}
pair edge_of(uint64_t seed, int64_t i, int scale)
{
    const uint32_t a = 0x91eb851f, ab = 0xc28f5c28, abc = 0xf3333333; /* 0.57, 0.57 + 0.19, 0.57 + 0.19 + 0.19 of 2^32 */
    uint64_t u = 0, v = 0, key = mixed(seed + (uint64_t)i * UINT64_C(0x9e3779b97f4a7c15));
    for (int level = 0; level < scale; level++) {
        uint32_t draw = (uint32_t)(mixed(key + (uint64_t)level * UINT64_C(0xd1342543de82ef95)) >> 32);
        u = u << 1 | (draw >= ab), v = v << 1 | ((draw >= a && draw < ab) || draw >= abc);
    }
    return (pair){(int64_t)scrambled(u, scale), (int64_t)scrambled(v, scale)};
}

/* --- exchange --- */
void *need(size_t bytes)
{
    void *p = calloc(1, bytes ? bytes : 1);
    if (!p) {
        fprintf(stderr, "bfs: no memory for %zu bytes\n", bytes);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    return p;
}
void box_add(box *b, pair item)
{
    if (b->n == b->room) {
        b->room = b->room ? 2 * b->room : 256;
        b->item = realloc(b->item, b->room * sizeof *b->item);
        if (!b->item) {
            fprintf(stderr, "bfs: no memory for %zu pairs\n", b->room);
            MPI_Abort(MPI_COMM_WORLD, 2);
        }
    }
    b->item[b->n++] = item;
}
/* Non-blocking sends to those that get something; their counts are known. */
static void swap_by_sends(mail *m, const int *rn, const int *rd)
{
    MPI_Request *request = need(2 * (size_t)size * sizeof *request);
    int k = 0;
    for (int i = 0; i < size; i++) {
        int r = (rank + i) % size;
        if (rn[r]) MPI_Irecv(m->in + rd[r], rn[r], pair_type, r, 0, MPI_COMM_WORLD, &request[k++]);
    }
    for (int i = 0; i < size; i++) {
        int r = (rank + i) % size;
        if (m->out[r].n) MPI_Isend(m->out[r].item, (int)m->out[r].n, pair_type, r, 0, MPI_COMM_WORLD, &request[k++]);
    }
    MPI_Waitall(k, request, MPI_STATUSES_IGNORE);
    free(request);
}
static void swap_by_alltoallv(mail *m, const int *sn, const int *rn, const int *rd)
{
    int *sd = need((size_t)size * sizeof *sd), all = 0;
    for (int r = 0; r < size; all += sn[r++]) sd[r] = all;
    pair *flat = need((size_t)all * sizeof *flat);
    for (int r = 0; r < size; r++)
        if (sn[r]) memcpy(flat + sd[r], m->out[r].item, (size_t)sn[r] * sizeof *flat);
    MPI_Alltoallv(flat, sn, sd, pair_type, m->in, rn, rd, pair_type, MPI_COMM_WORLD);
    free(flat); free(sd);
}
/* Delivers what is in `out` and empties it; what has arrived is in `in`. All ranks call it. */
void deliver(mail *m)
{
    int *sn = need(3 * (size_t)size * sizeof *sn), *rn = sn + size, *rd = rn + size;
    for (int r = 0; r < size; r++) sn[r] = (int)m->out[r].n;
    MPI_Alltoall(sn, 1, MPI_INT, rn, 1, MPI_INT, MPI_COMM_WORLD);
    size_t arriving = 0;
    for (int r = 0; r < size; arriving += (size_t)rn[r++]) rd[r] = (int)arriving;
    if (arriving > INT32_MAX) {
        fprintf(stderr, "bfs: more than 2^31 pairs arrive at rank %d: use more ranks\n", rank);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    if (arriving > m->room) {
        free(m->in);
        m->in = need((m->room = arriving + arriving / 4) * sizeof *m->in);
    }
    m->arrived = arriving;
    if (by_sends) swap_by_sends(m, rn, rd);
    else swap_by_alltoallv(m, sn, rn, rd);
    for (int r = 0; r < size; r++) m->out[r].n = 0;
    free(sn);
}
mail mail_new(void) { return (mail){.out = need((size_t)size * sizeof(box))}; }
void mail_free(mail *m)
{
    for (int r = 0; r < size; r++) free(m->out[r].item);
    free(m->out); free(m->in);
}

/* --- construction --- */
/* Our part of the edge list: [first, end). */
void our_edges(const graph *g, int64_t *first, int64_t *end)
{
    *first = g->edges / size * rank + (rank < g->edges % size ? rank : g->edges % size);
    *end = *first + g->edges / size + (rank < g->edges % size);
}
/* Sends each edge to the owners of both ends and builds the rows. Self-loops are left out, double edges stay (as the benchmark allows). */
void build(graph *g)
{
    int64_t first, end;
    our_edges(g, &first, &end);
    g->locals = g->vertices / size + (rank < g->vertices % size);
    g->row = need((size_t)(g->locals + 1) * sizeof *g->row);
    mail m = mail_new();
    for (int64_t i = first; i < end; i++) {
        pair e = edge_of(g->seed, i, g->scale);
        if (e.a == e.b) continue;
        box_add(&m.out[OWNER(e.a)], e);
        box_add(&m.out[OWNER(e.b)], (pair){e.b, e.a});
    }
    deliver(&m);
    for (size_t i = 0; i < m.arrived; i++) g->row[LOCAL(m.in[i].a) + 1]++;
    for (int64_t v = 0; v < g->locals; v++) g->row[v + 1] += g->row[v];
    g->column = need(m.arrived * sizeof *g->column);
    int64_t *place = need((size_t)(g->locals + 1) * sizeof *place);
    memcpy(place, g->row, (size_t)g->locals * sizeof *place);
    for (size_t i = 0; i < m.arrived; i++) g->column[place[LOCAL(m.in[i].a)]++] = m.in[i].b;
    free(place);
    mail_free(&m);
}
