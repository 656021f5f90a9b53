/* Group algebra against plain arrays: incl, excl, ranges, union, intersection, difference, translate, compare. */
#include "check.h"
enum { M = 64 };
struct set { int n, at[M]; MPI_Group g; };

static int has(const struct set *s, int r) { for (int i = 0; i < s->n; i++) if (s->at[i] == r) return i; return -1; }
static void same(MPI_Group g, const int *want, int n, const char *what)
{
    int size, all[M], got[M], rank, mine = MPI_UNDEFINED;
    MPI_Group world;
    OK(MPI_Group_size(g, &size));
    CHECK(size == n, "%s: size %d, expected %d", what, size, n);
    if (size != n) return;
    for (int i = 0; i < n; i++) { all[i] = i; if (want[i] == check_rank) mine = i; }
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    OK(MPI_Group_translate_ranks(g, n, all, world, got));
    for (int i = 0; i < n; i++) CHECK(got[i] == want[i], "%s: place %d is %d, expected %d", what, i, got[i], want[i]);
    OK(MPI_Group_rank(g, &rank));
    EQ(rank, mine);
    OK(MPI_Group_free(&world));
}
static struct set random_set(uint64_t *s, MPI_Group world)
{
    struct set x = {0};
    int perm[M];
    for (int i = 0; i < check_size; i++) perm[i] = i;
    for (int i = check_size - 1; i > 0; i--) { int j = rnd_below(s, i + 1), t = perm[i]; perm[i] = perm[j]; perm[j] = t; }
    x.n = rnd_below(s, check_size + 1);
    memcpy(x.at, perm, sizeof perm);
    OK(MPI_Group_incl(world, x.n, x.at, &x.g));
    same(x.g, x.at, x.n, "incl");
    return x;
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    MPI_Group world, g;
    uint64_t s = 3;
    int want[M], n, res;
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    for (int trial = 0; trial < 200; trial++) {
        struct set a = random_set(&s, world), b = random_set(&s, world);
        memcpy(want, a.at, sizeof want); n = a.n;
        for (int i = 0; i < b.n; i++) if (has(&a, b.at[i]) < 0) want[n++] = b.at[i];
        OK(MPI_Group_union(a.g, b.g, &g)); same(g, want, n, "union"); OK(MPI_Group_free(&g));
        n = 0; for (int i = 0; i < a.n; i++) if (has(&b, a.at[i]) >= 0) want[n++] = a.at[i];
        OK(MPI_Group_intersection(a.g, b.g, &g)); same(g, want, n, "intersection"); if (g != MPI_GROUP_EMPTY) OK(MPI_Group_free(&g));
        n = 0; for (int i = 0; i < a.n; i++) if (has(&b, a.at[i]) < 0) want[n++] = a.at[i];
        OK(MPI_Group_difference(a.g, b.g, &g)); same(g, want, n, "difference"); if (g != MPI_GROUP_EMPTY) OK(MPI_Group_free(&g));
        int drop[M], k = a.n ? rnd_below(&s, a.n + 1) : 0;
        for (int i = 0; i < k; i++) drop[i] = i * (a.n / (k ? k : 1));
        n = 0; for (int i = 0; i < a.n; i++) { int out = 0; for (int j = 0; j < k; j++) out |= drop[j] == i; if (!out) want[n++] = a.at[i]; }
        OK(MPI_Group_excl(a.g, k, drop, &g)); same(g, want, n, "excl"); if (g != MPI_GROUP_EMPTY) OK(MPI_Group_free(&g));
        OK(MPI_Group_compare(a.g, b.g, &res));
        int ident = a.n == b.n && !memcmp(a.at, b.at, a.n * sizeof(int)), similar = a.n == b.n;
        for (int i = 0; i < a.n && similar; i++) similar = has(&b, a.at[i]) >= 0;
        EQ(res, ident ? MPI_IDENT : similar ? MPI_SIMILAR : MPI_UNEQUAL);
        int all[M], got[M];
        for (int i = 0; i < a.n; i++) all[i] = i;
        OK(MPI_Group_translate_ranks(a.g, a.n, all, b.g, got));
        for (int i = 0; i < a.n; i++) { int j = has(&b, a.at[i]); EQ(got[i], j < 0 ? MPI_UNDEFINED : j); }
        if (a.g != MPI_GROUP_EMPTY) OK(MPI_Group_free(&a.g));
        if (b.g != MPI_GROUP_EMPTY) OK(MPI_Group_free(&b.g));
    }
    int r[2][3] = {{check_size - 1, 0, -2}, {0, 0, 1}}, first[1][3] = {{0, check_size - 1, 1}};
    n = 0; for (int i = check_size - 1; i >= 0; i -= 2) want[n++] = i;
    OK(MPI_Group_range_incl(world, 1, r, &g)); same(g, want, n, "range_incl"); OK(MPI_Group_free(&g));
    n = 0; for (int i = 0; i < check_size; i++) if ((check_size - 1 - i) % 2) want[n++] = i;
    OK(MPI_Group_range_excl(world, 1, r, &g)); same(g, want, n, "range_excl"); if (g != MPI_GROUP_EMPTY) OK(MPI_Group_free(&g));
    OK(MPI_Group_range_excl(world, 1, first, &g)); OK(MPI_Group_size(g, &n)); EQ(n, 0); if (g != MPI_GROUP_EMPTY) OK(MPI_Group_free(&g));
    int null = MPI_PROC_NULL, out = 0;
    OK(MPI_Group_translate_ranks(world, 1, &null, world, &out)); EQ(out, MPI_PROC_NULL);
    OK(MPI_Group_rank(MPI_GROUP_EMPTY, &n)); EQ(n, MPI_UNDEFINED);
    OK(MPI_Group_compare(MPI_GROUP_EMPTY, world, &res)); EQ(res, MPI_UNEQUAL);
    OK(MPI_Group_free(&world));
    EQ(world == MPI_GROUP_NULL, 1);
    return check_done();
}
