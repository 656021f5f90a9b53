/* Inter-communicators: create, groups, sizes, point-to-point, merge in both orders, dup, split, create, compare. */
#include "check.h"

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    if (check_size < 2) return check_skip("needs two ranks");
    int left = (check_size + 1) / 2, side = check_rank >= left, lr, ln, rn, flag, res;
    MPI_Comm local, inter, c, d;
    MPI_Group g;
    OK(MPI_Comm_split(MPI_COMM_WORLD, side, 0, &local));
    OK(MPI_Intercomm_create(local, 0, MPI_COMM_WORLD, side ? 0 : left, 9, &inter));
    OK(MPI_Comm_test_inter(inter, &flag)); EQ(flag, 1);
    OK(MPI_Comm_rank(inter, &lr)); OK(MPI_Comm_size(inter, &ln)); OK(MPI_Comm_remote_size(inter, &rn));
    EQ(ln + rn, check_size); EQ(ln, side ? check_size - left : left); EQ(lr, side ? check_rank - left : check_rank);
    OK(MPI_Comm_remote_group(inter, &g)); OK(MPI_Group_size(g, &res)); EQ(res, rn); OK(MPI_Group_rank(g, &res)); EQ(res, MPI_UNDEFINED); OK(MPI_Group_free(&g));
    OK(MPI_Comm_group(inter, &g)); OK(MPI_Group_rank(g, &res)); EQ(res, lr); OK(MPI_Group_free(&g));
    /* ranks of a message are those of the remote group */
    for (int to = 0; to < rn; to++) { int v = check_rank * 100 + to; MPI_Request rq; OK(MPI_Isend(&v, 1, MPI_INT, to, 4, inter, &rq)); OK(MPI_Wait(&rq, MPI_STATUS_IGNORE)); }
    for (int k = 0; k < rn; k++) {
        int v; MPI_Status st;
        OK(MPI_Recv(&v, 1, MPI_INT, k % 2 ? MPI_ANY_SOURCE : k, 4, inter, &st));
        EQ(v, (st.MPI_SOURCE + (side ? 0 : left)) * 100 + lr);
        if (k % 2) break;
    }
    OK(MPI_Barrier(inter));
    for (MPI_Status st;;) { int v; OK(MPI_Iprobe(MPI_ANY_SOURCE, 4, inter, &flag, &st)); if (!flag) break; OK(MPI_Recv(&v, 1, MPI_INT, st.MPI_SOURCE, 4, inter, &st)); }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int high = 0; high < 2; high++) { /* left low or left high */
        int r, n;
        OK(MPI_Intercomm_merge(inter, side ^ high, &c));
        OK(MPI_Comm_rank(c, &r)); OK(MPI_Comm_size(c, &n)); EQ(n, check_size);
        EQ(r, high ? (side ? lr : rn + lr) : check_rank);
        int sum = 0, one = 1;
        OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, c)); EQ(sum, check_size);
        OK(MPI_Comm_free(&c));
    }
    OK(MPI_Intercomm_merge(inter, 0, &c)); OK(MPI_Comm_free(&c)); /* both the same: any order, but it works */
    OK(MPI_Comm_dup(inter, &c)); OK(MPI_Comm_compare(c, inter, &res)); EQ(res, MPI_CONGRUENT); OK(MPI_Comm_test_inter(c, &flag)); EQ(flag, 1);
    OK(MPI_Barrier(c)); OK(MPI_Comm_free(&c));
    MPI_Request rq;
    OK(MPI_Comm_idup(inter, &c, &rq)); OK(MPI_Wait(&rq, MPI_STATUS_IGNORE)); OK(MPI_Barrier(c)); OK(MPI_Comm_free(&c));
    OK(MPI_Comm_compare(inter, MPI_COMM_WORLD, &res)); EQ(res, MPI_UNEQUAL);
    /* split by parity: pairs of sub-groups; a colour without anybody on the other side gives COMM_NULL */
    OK(MPI_Comm_split(inter, lr % 2, lr, &c));
    int other = 0;
    for (int i = 0; i < rn; i++) other += i % 2 == lr % 2;
    EQ(c == MPI_COMM_NULL, other == 0);
    if (c != MPI_COMM_NULL) { int n; OK(MPI_Comm_remote_size(c, &n)); EQ(n, other); OK(MPI_Barrier(c)); OK(MPI_Comm_free(&c)); }
    /* create with the first of each side only */
    int zero = 0;
    MPI_Group lg;
    OK(MPI_Comm_group(inter, &lg)); OK(MPI_Group_incl(lg, 1, &zero, &g));
    OK(MPI_Comm_create(inter, g, &d));
    EQ(d != MPI_COMM_NULL, lr == 0);
    if (d != MPI_COMM_NULL) { int n; OK(MPI_Comm_remote_size(d, &n)); EQ(n, 1); OK(MPI_Comm_free(&d)); }
    OK(MPI_Group_free(&g)); OK(MPI_Group_free(&lg));
    OK(MPI_Comm_free(&inter)); OK(MPI_Comm_free(&local));
    return check_done();
}
