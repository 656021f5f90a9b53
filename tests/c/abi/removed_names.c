/* Names that MPI-3.0 removed do what MPI-1.1 says: inline functions of mpi_removed.h, or the functions of a library that still has them. */
#define FERRULE_COMPAT_MPI1
#include "check.h"

struct particle {
    int kind;
    double place[3];
};

static int called;

static void on_error(MPI_Comm *comm, int *code, ...)
{
    CHECK(*comm == MPI_COMM_SELF && *code != MPI_SUCCESS);
    called++;
}

static void structures(void)
{
    struct particle some[2] = {{1, {2, 3, 4}}, {5, {6, 7, 8}}}, copy[2] = {{0}};
    MPI_Aint start, kind, place, next;
    MPI_Datatype type, types[4] = {MPI_LB, MPI_INT, MPI_DOUBLE, MPI_UB};
    int lengths[4] = {1, 1, 3, 1}, size;
    MPI_Address(&some[0], &start);
    MPI_Address(&some[0].kind, &kind);
    MPI_Address(&some[0].place, &place);
    MPI_Address(&some[1], &next);
    MPI_Aint displacements[4] = {0, kind - start, place - start, next - start};
    MPI_Type_struct(4, lengths, displacements, types, &type);
    MPI_Type_commit(&type);
    MPI_Aint lb, ub, extent;
    MPI_Type_lb(type, &lb);
    MPI_Type_ub(type, &ub);
    MPI_Type_extent(type, &extent);
    MPI_Type_size(type, &size);
    CHECK(lb == 0 && ub == (MPI_Aint)sizeof some[0] && extent == ub && size == (int)(sizeof(int) + 3 * sizeof(double)));
    MPI_Sendrecv(some, 2, type, 0, 1, copy, 2, type, 0, 1, MPI_COMM_SELF, MPI_STATUS_IGNORE);
    CHECK(copy[1].kind == 5 && copy[1].place[2] == 8 && copy[0].place[0] == 2);
    MPI_Type_free(&type);
    /* Bounds outside of the data, the lower one below 0 */
    MPI_Aint apart[3] = {-8, 4, 40};
    MPI_Datatype three[3] = {MPI_LB, MPI_INT, MPI_UB};
    MPI_Type_struct(3, lengths, apart, three, &type);
    MPI_Type_lb(type, &lb);
    MPI_Type_extent(type, &extent);
    CHECK(lb == -8 && extent == 48);
    MPI_Type_free(&type);
    MPI_Type_struct(1, lengths, &apart[1], &three[1], &type);
    MPI_Type_lb(type, &lb);
    MPI_Type_extent(type, &extent);
    CHECK(lb == 4 && extent == 4);
    MPI_Type_free(&type);
}

static void vectors(void)
{
    int data[12], out[12], lengths[2] = {2, 1};
    MPI_Aint displacements[2] = {0, 5 * sizeof(int)}, extent;
    MPI_Datatype type;
    for (int i = 0; i < 12; i++)
        data[i] = i, out[i] = -1;
    MPI_Type_hvector(3, 1, 4 * sizeof(int), MPI_INT, &type);
    MPI_Type_commit(&type);
    MPI_Sendrecv(data, 1, type, 0, 1, out, 3, MPI_INT, 0, 1, MPI_COMM_SELF, MPI_STATUS_IGNORE);
    CHECK(out[0] == 0 && out[1] == 4 && out[2] == 8);
    MPI_Type_free(&type);
    MPI_Type_hindexed(2, lengths, displacements, MPI_INT, &type);
    MPI_Type_extent(type, &extent);
    CHECK(extent == 6 * (MPI_Aint)sizeof(int));
    MPI_Type_free(&type);
}

static void handlers(void)
{
    MPI_Handler_function *function = on_error;
    MPI_Errhandler handler, found;
    MPI_Errhandler_create(function, &handler);
    MPI_Errhandler_set(MPI_COMM_SELF, handler);
    MPI_Errhandler_get(MPI_COMM_SELF, &found);
    CHECK(found == handler);
    int code = MPI_Send(NULL, -1, MPI_INT, 0, 0, MPI_COMM_SELF);
    STRICT(CHECK(code != MPI_SUCCESS)); /* an error that a handler has seen is none to MPICH */
    CHECK(called == 1);
    MPI_Errhandler_set(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
    MPI_Errhandler_free(&found);
    MPI_Errhandler_free(&handler);
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    structures();
    vectors();
    handlers();
    return check_done();
}
