/* Breadth-first search in the style of the Graph500 benchmark: Kronecker graph of 2^SIZE vertices and EDGEFACTOR edges a vertex,
 * searches from random roots, each checked by the benchmark's rules (validate.c), traversed edges per second.
 *
 * The search goes level by level: each rank looks at the neighbours of its frontier and sends (neighbour, vertex) to the neighbour's
 * owner, which takes the first vertex that names it as the parent. Neighbours that we own are taken at once, and what has been
 * sent once isn't sent again. Pairs go by MPI_Alltoallv, or with --exchange sends by MPI_Isend and MPI_Irecv.
 * The program returns 1 when a tree is wrong.
 *
 * Usage: bfs [--size SCALE] [--edgefactor E] [--roots R] [--seed S] [--exchange alltoallv|sends] [--corrupt loop|parent|lost]
 *        (default 14, 16, 8, 1, alltoallv). --corrupt spoils each tree before it is checked: the program must notice. */
#include "bfs.h"

int rank, size, by_sends;
MPI_Datatype pair_type;
static int edge_factor = 16, roots = 8;
static const char *corrupt = "";

#define SEEN(bits, v) ((bits)[(v) >> 6] >> ((v) & 63) & 1)
#define SET(bits, v) ((bits)[(v) >> 6] |= UINT64_C(1) << ((v) & 63))

/* What a search works on; allocated once. */
typedef struct {
    int64_t *parent;        /* of local vertices, -1 while not reached */
    int64_t *frontier, *next;
    uint64_t *sent;         /* a bit per vertex of the graph */
    mail m;
} search;

static void take(search *s, int64_t v, int64_t parent, int64_t *n)
{
    if (s->parent[LOCAL(v)] >= 0) return;
    s->parent[LOCAL(v)] = parent;
    s->next[(*n)++] = LOCAL(v);
}
/* Fills s->parent; returns the number of levels. */
static int run(const graph *g, int64_t root, search *s)
{
    int64_t now = 0, next = 0, reached = 1;
    int levels = 0;
    memset(s->sent, 0, (size_t)(g->vertices / 64 + 1) * sizeof *s->sent);
    for (int64_t i = 0; i < g->locals; i++) s->parent[i] = -1;
    if (OWNER(root) == rank) {
        s->parent[LOCAL(root)] = root;
        s->frontier[now++] = LOCAL(root);
    }
    for (; reached; levels++) {
        for (int64_t f = 0; f < now; f++) {
            int64_t i = s->frontier[f], v = GLOBAL(i);
            for (int64_t k = g->row[i]; k < g->row[i + 1]; k++) {
                int64_t w = g->column[k];
                if (OWNER(w) == rank) {
                    take(s, w, v, &next);
                } else if (!SEEN(s->sent, w)) {
                    SET(s->sent, w);
                    box_add(&s->m.out[OWNER(w)], (pair){w, v});
                }
            }
        }
        deliver(&s->m);
        for (size_t k = 0; k < s->m.arrived; k++) take(s, s->m.in[k].a, s->m.in[k].b, &next);
        MPI_Allreduce(&next, &reached, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
        int64_t *swap = s->frontier;
        s->frontier = s->next, s->next = swap;
        now = next, next = 0;
    }
    return levels;
}
/* The first vertex at or after `v` that has a neighbour, the same on all ranks; -1 when the graph has no edge. */
static int64_t connected_from(const graph *g, int64_t v)
{
    int64_t best = INT64_MAX, all; /* distance from v, around the end */
    for (int64_t i = 0; i < g->locals; i++) {
        int64_t away = (GLOBAL(i) - v + g->vertices) % g->vertices;
        if (g->row[i + 1] > g->row[i] && away < best) best = away;
    }
    MPI_Allreduce(&best, &all, 1, MPI_INT64_T, MPI_MIN, MPI_COMM_WORLD);
    return all == INT64_MAX ? -1 : (v + all) % g->vertices;
}

/* Makes the tree wrong at one vertex of each rank: it becomes its own parent, or gets a parent that is most likely no neighbour, or is
 * said not to have been reached. */
static void spoil(const graph *g, int64_t root, int64_t *parent)
{
    for (int64_t i = g->locals - 1; i >= 0; i--)
        if (parent[i] >= 0 && GLOBAL(i) != root && g->row[i + 1] - g->row[i] < 4) {
            parent[i] = !strcmp(corrupt, "loop") ? GLOBAL(i) : !strcmp(corrupt, "parent") ? (parent[i] + 1) % g->vertices : -1;
            return;
        }
}

static void usage(void)
{
    if (!rank)
        fprintf(stderr, "usage: bfs [--size SCALE 1..34] [--edgefactor E] [--roots R] [--seed S] [--exchange alltoallv|sends]\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
}
static void options(int argc, char **argv, graph *g)
{
    for (int i = 1; i < argc; i += 2) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (!*value) usage();
        else if (!strcmp(argv[i], "--size")) g->scale = atoi(value);
        else if (!strcmp(argv[i], "--edgefactor")) edge_factor = atoi(value);
        else if (!strcmp(argv[i], "--roots")) roots = atoi(value);
        else if (!strcmp(argv[i], "--seed")) g->seed = strtoull(value, NULL, 10);
        else if (!strcmp(argv[i], "--corrupt")) corrupt = value;
        else if (!strcmp(argv[i], "--exchange") && (!strcmp(value, "sends") || !strcmp(value, "alltoallv"))) by_sends = *value == 's';
        else usage();
    }
    if (g->scale < 1 || g->scale > 34 || edge_factor < 1 || edge_factor > 1024 || roots < 1) usage();
    g->vertices = INT64_C(1) << g->scale, g->edges = g->vertices * edge_factor;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    graph g = {.scale = 14, .seed = 1};
    options(argc, argv, &g);
    MPI_Type_contiguous(2, MPI_INT64_T, &pair_type);
    MPI_Type_commit(&pair_type);
    build(&g);
    search s = {need((size_t)g.locals * sizeof(int64_t)), need((size_t)g.locals * sizeof(int64_t)), need((size_t)g.locals * sizeof(int64_t)),
                need((size_t)(g.vertices / 64 + 1) * sizeof(uint64_t)), mail_new()};

    double seconds = 0, inverse_rates = 0;
    const char *wrong = NULL;
    int deepest = 0, done = 0;
    int64_t most = 0;
    for (int k = -1; k < roots && !wrong; k++) { /* the first warms up */
        int64_t root = connected_from(&g, edge_of(g.seed ^ 0x726f6f74, k + 1, g.scale).a), traversed;
        if (root < 0) wrong = "the graph has no edge";
        if (wrong) break;
        MPI_Barrier(MPI_COMM_WORLD);
        double t = MPI_Wtime(), worst;
        int levels = run(&g, root, &s);
        t = MPI_Wtime() - t;
        MPI_Allreduce(&t, &worst, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        if (k < 0) continue;
        if (*corrupt) spoil(&g, root, s.parent);
        wrong = validate(&g, root, s.parent, &traversed);
        seconds += worst, inverse_rates += worst / (double)traversed, done++;
        deepest = levels > deepest ? levels : deepest, most = traversed > most ? traversed : most;
    }
    if (!rank) {
        printf("bfs 2^%d vertices, %" PRId64 " edges by %s: %d searches, at most %d levels and %" PRId64 " edges: %s%s\n", g.scale, g.edges,
               by_sends ? "sends" : "alltoallv", done, deepest, most, wrong ? "WRONG: " : "right", wrong ? wrong : "");
        printf("RESULT bfs ranks=%d seconds=%.6f mteps=%.3f\n", size, done ? seconds / done : 0, done ? done / inverse_rates * 1e-6 : 0);
    }
    mail_free(&s.m);
    free(s.parent); free(s.frontier); free(s.next); free(s.sent); free(g.row); free(g.column);
    MPI_Type_free(&pair_type);
    MPI_Finalize();
    return wrong != NULL;
}
