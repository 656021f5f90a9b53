/* Sessions: psets, groups, communicators without the world model, together with it, several at once, one after another. */
#include "check.h"

static void session_work(int expect_world)
{
    MPI_Session s;
    MPI_Group g;
    MPI_Comm c;
    MPI_Info info;
    int n, len, size, rank, sum, found = 0;
    char name[MPI_MAX_PSET_NAME_LEN], value[MPI_MAX_INFO_VAL];
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &s));
    OK(MPI_Session_get_num_psets(s, MPI_INFO_NULL, &n)); CHECK(n >= 2, "psets: %d", n);
    for (int i = 0; i < n; i++) {
        len = 0;
        OK(MPI_Session_get_nth_pset(s, MPI_INFO_NULL, i, &len, NULL));
        CHECK(len > 1);
        len = sizeof name;
        OK(MPI_Session_get_nth_pset(s, MPI_INFO_NULL, i, &len, name));
        found += !strcasecmp(name, "mpi://WORLD") ? 1 : !strcasecmp(name, "mpi://SELF") ? 10 : 0;
    }
    EQ(found, 11);
    FAILS_ANY(MPI_Group_from_session_pset(s, "no://such", &g));
    OK(MPI_Session_get_pset_info(s, "mpi://WORLD", &info));
    int flag, vlen = sizeof value;
    OK(MPI_Info_get_string(info, "mpi_size", &vlen, value, &flag)); EQ(flag, 1); if (expect_world > 0) EQ(atoi(value), expect_world);
    OK(MPI_Info_free(&info));
    OK(MPI_Session_get_info(s, &info)); vlen = sizeof value; OK(MPI_Info_get_string(info, "thread_level", &vlen, value, &flag)); OK(MPI_Info_free(&info));
    OK(MPI_Group_from_session_pset(s, "mpi://WORLD", &g));
    OK(MPI_Group_size(g, &size)); OK(MPI_Group_rank(g, &rank));
    OK(MPI_Comm_create_from_group(g, "tag one", MPI_INFO_NULL, MPI_ERRORS_RETURN, &c));
    MPI_Comm c2;
    OK(MPI_Comm_create_from_group(g, "tag two", MPI_INFO_NULL, MPI_ERRORS_RETURN, &c2));
    int one = 1;
    OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, c)); EQ(sum, size);
    OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, c2)); EQ(sum, size * (size - 1) / 2);
    if (size > 1) { /* an inter-communicator from groups: evens and odds */
        int mine[64], other[64], nm = 0, no = 0;
        for (int r = 0; r < size; r++) { if (r % 2 == rank % 2) mine[nm++] = r; else other[no++] = r; }
        MPI_Group gm, go;
        MPI_Comm ic;
        OK(MPI_Group_incl(g, nm, mine, &gm)); OK(MPI_Group_incl(g, no, other, &go));
        OK(MPI_Intercomm_create_from_groups(gm, 0, go, 0, "inter", MPI_INFO_NULL, MPI_ERRORS_RETURN, &ic));
        int rs;
        OK(MPI_Comm_remote_size(ic, &rs)); EQ(rs, no);
        OK(MPI_Barrier(ic));
        OK(MPI_Comm_free(&ic)); OK(MPI_Group_free(&gm)); OK(MPI_Group_free(&go));
    }
    OK(MPI_Comm_free(&c)); OK(MPI_Comm_free(&c2)); OK(MPI_Group_free(&g));
    OK(MPI_Group_from_session_pset(s, "mpi://SELF", &g)); OK(MPI_Group_size(g, &n)); EQ(n, 1); OK(MPI_Group_free(&g));
    OK(MPI_Session_finalize(&s)); EQ(s == MPI_SESSION_NULL, 1);
}

int main(int argc, char **argv)
{
    int flag;
    session_work(0); /* before the world model */
    session_work(0);
    MPI_Initialized(&flag);
    EQ(flag, 0);
    if (arg_is(argc, argv, "only"))
        return check_failed != 0;
    check_init(&argc, &argv);
    session_work(check_size); /* inside it */
    return check_done();
}
