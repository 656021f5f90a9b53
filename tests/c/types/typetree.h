/* Random datatypes beside a naive model: the type map as a list of (displacement, predefined type). */
#ifndef TYPETREE_H
#define TYPETREE_H
#include "check.h"
enum { MAP_MAX = 4000 };
static int allow_empty; /* blocks of length zero, about whose bounds the oracle is wrong */

struct entry { MPI_Aint disp; int basic; };
struct model { int n, marked; MPI_Aint lb, ub; struct entry map[MAP_MAX]; };
struct basic { MPI_Datatype type; int size, align; };
static struct basic BASIC[6];
static inline void basics(void)
{
    BASIC[0] = (struct basic){MPI_CHAR, 1, 1};
    BASIC[1] = (struct basic){MPI_SHORT, 2, 2};
    BASIC[2] = (struct basic){MPI_INT, 4, 4};
    BASIC[3] = (struct basic){MPI_DOUBLE, 8, 8};
    BASIC[4] = (struct basic){MPI_C_DOUBLE_COMPLEX, 16, 8};
    BASIC[5] = (struct basic){MPI_INT64_T, 8, 8};
}
static inline MPI_Aint model_size(const struct model *m)
{
    MPI_Aint sum = 0;
    for (int i = 0; i < m->n; i++)
        sum += BASIC[m->map[i].basic].size;
    return sum;
}
static inline void true_bounds(const struct model *m, MPI_Aint *lb, MPI_Aint *ub)
{
    *lb = *ub = 0;
    for (int i = 0; i < m->n; i++) {
        MPI_Aint a = m->map[i].disp, b = a + BASIC[m->map[i].basic].size;
        if (i == 0 || a < *lb) *lb = a;
        if (i == 0 || b > *ub) *ub = b;
    }
}
/* Appends `count` copies of `in` at `at`; the bounds become those of the union (sticky only while `first`). */
static inline void put(struct model *out, const struct model *in, int count, MPI_Aint at, int *first)
{
    if (in->n == 0 && !in->marked)
        return; /* nothing in it, so it has no bounds */
    for (int k = 0; k < count; k++) {
        out->marked |= in->marked;
        MPI_Aint d = at + k * (in->ub - in->lb);
        for (int i = 0; i < in->n && out->n < MAP_MAX; i++)
            out->map[out->n++] = (struct entry){in->map[i].disp + d, in->map[i].basic};
        MPI_Aint lb = in->lb + d, ub = in->ub + d;
        if (*first || lb < out->lb) out->lb = lb;
        if (*first || ub > out->ub) out->ub = ub;
        *first = 0;
    }
}
/* A random type of at most `depth` constructors; the model goes to *m. Displacements stay in 0..~100 kB. */
static MPI_Datatype random_type(uint64_t *s, int depth, struct model *m)
{
    MPI_Datatype t, old;
    memset(m, 0, offsetof(struct model, map));
    if (depth == 0 || rnd_below(s, 8) == 0) {
        int b = rnd_below(s, 6);
        m->n = 1, m->lb = 0, m->ub = BASIC[b].size;
        m->map[0] = (struct entry){0, b};
        OK(MPI_Type_dup(BASIC[b].type, &t));
        return t;
    }
    struct model *in = malloc(sizeof *in);
    int first = 1, kind = rnd_below(s, 11);
    old = random_type(s, depth - 1, in);
    MPI_Aint ext = in->ub - in->lb;
    int many = in->n > 60 ? 1 : 4;
    int count = 1 + rnd_below(s, many), bl = 1 + rnd_below(s, many > 1 ? 3 : 1), lens[5], disp[5];
    MPI_Aint hdisp[5];
    int n = 1 + rnd_below(s, many), at = 0;
    for (int i = 0; i < n; i++) {
        lens[i] = allow_empty ? rnd_below(s, 3) : 1 + rnd_below(s, 2);
        disp[i] = at + rnd_below(s, 2);
        at = disp[i] + lens[i] + rnd_below(s, 2);
        hdisp[i] = disp[i] * ext + 8 * i;
    }
    switch (kind) {
    case 0:
        OK(MPI_Type_contiguous(count, old, &t));
        put(m, in, count, 0, &first);
        break;
    case 1: {
        int stride = bl + rnd_below(s, 3);
        OK(MPI_Type_vector(count, bl, stride, old, &t));
        for (int i = 0; i < count; i++) put(m, in, bl, i * stride * ext, &first);
        break;
    }
    case 2: {
        MPI_Aint stride = bl * ext + 8 * rnd_below(s, 4);
        OK(MPI_Type_create_hvector(count, bl, stride, old, &t));
        for (int i = 0; i < count; i++) put(m, in, bl, i * stride, &first);
        break;
    }
    case 3:
        OK(MPI_Type_indexed(n, lens, disp, old, &t));
        for (int i = 0; i < n; i++) put(m, in, lens[i], disp[i] * ext, &first);
        break;
    case 4:
        OK(MPI_Type_create_hindexed(n, lens, hdisp, old, &t));
        for (int i = 0; i < n; i++) put(m, in, lens[i], hdisp[i], &first);
        break;
    case 5:
        for (int i = 0; i < n; i++) disp[i] = i * (bl + 1) + 1;
        OK(MPI_Type_create_indexed_block(n, bl, disp, old, &t));
        for (int i = 0; i < n; i++) put(m, in, bl, disp[i] * ext, &first);
        break;
    case 6:
        for (int i = 0; i < n; i++) hdisp[i] = (n - 1 - i) * ((bl + 1) * ext + 16); /* descending */
        OK(MPI_Type_create_hindexed_block(n, bl, hdisp, old, &t));
        for (int i = 0; i < n; i++) put(m, in, bl, hdisp[i], &first);
        break;
    case 7: { /* two parts, one after the other */
        struct model *b = malloc(sizeof *b);
        MPI_Datatype two[2] = {old, random_type(s, depth - 1, b)};
        /* Markers made by resized and subarray hide the bounds of parts without them (MPI-5.0 5.1.6): mark both or none. */
        for (int k = 0; k < 2; k++) {
            struct model *part = k ? b : in, *other = k ? in : b;
            if (!part->marked && other->marked) {
                MPI_Datatype plain = two[k];
                OK(MPI_Type_create_resized(plain, part->lb, part->ub - part->lb, &two[k]));
                OK(MPI_Type_free(&plain));
                part->marked = 1;
            }
        }
        old = two[0];
        int ls[2] = {bl, 1 + rnd_below(s, b->n > 60 ? 1 : 2)};
        MPI_Aint hd[2] = {0, bl * ext + in->lb - b->lb + 16};
        OK(MPI_Type_create_struct(2, ls, hd, two, &t));
        put(m, in, ls[0], 0, &first);
        put(m, b, ls[1], hd[1], &first);
        /* the epsilon of a struct: its extent is rounded up to the alignment of its parts */
        OK(MPI_Type_free(&two[1]));
        MPI_Aint lb, ex;
        OK(MPI_Type_get_extent(t, &lb, &ex)); /* the amount of padding is the implementation's choice */
        CHECK(lb == m->lb && ex >= m->ub - m->lb && ex < m->ub - m->lb + 16, "lb %ld extent %ld model %ld %ld", (long)lb, (long)ex, (long)m->lb, (long)m->ub);
        m->ub = m->lb + ex;
        free(b);
        break;
    }
    case 8: {
        MPI_Aint lb = -8 * rnd_below(s, 3), e = in->ub - lb + 8 * rnd_below(s, 3);
        if (e < 8) e = 8;
        OK(MPI_Type_create_resized(old, lb, e, &t));
        *m = *in;
        m->lb = lb, m->ub = lb + e, m->marked = 1;
        break;
    }
    case 9: {
        int sizes[2] = {3 + rnd_below(s, 2), 2 + rnd_below(s, 3)}, sub[2] = {1 + rnd_below(s, 2), 1 + rnd_below(s, 2)};
        int start[2] = {rnd_below(s, sizes[0] - sub[0] + 1), rnd_below(s, sizes[1] - sub[1] + 1)};
        if (in->n > 60) sub[0] = sub[1] = 1;
        int c = rnd_below(s, 2), slow = c ? 0 : 1, fast = c ? 1 : 0;
        OK(MPI_Type_create_subarray(2, sizes, sub, start, c ? MPI_ORDER_C : MPI_ORDER_FORTRAN, old, &t));
        for (int i = 0; i < sub[slow]; i++)
            put(m, in, sub[fast], ((start[slow] + i) * sizes[fast] + start[fast]) * ext, &first);
        m->lb = 0, m->ub = sizes[0] * sizes[1] * ext; /* the bounds are those of the whole array */
        break;
    }
    default:
        OK(MPI_Type_dup(old, &t));
        *m = *in;
    }
    m->marked |= kind == 9;
    free(in);
    OK(MPI_Type_free(&old));
    return t;
}
#endif
