/* Values, sizes and conversions that the standard ABI fixes. */
#include "check.h"

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    EQ((intptr_t)MPI_COMM_WORLD, 0x101); EQ((intptr_t)MPI_COMM_SELF, 0x102); EQ((intptr_t)MPI_INT, 0x209); EQ((intptr_t)MPI_SUM, 0x21);
    EQ((intptr_t)MPI_IN_PLACE, 1); EQ((intptr_t)MPI_BOTTOM, 0); EQ((intptr_t)MPI_BUFFER_AUTOMATIC, 2); EQ(MPI_ANY_SOURCE, -1); EQ(MPI_ANY_TAG, -2);
    EQ(MPI_PROC_NULL, -3); EQ(MPI_ROOT, -4); EQ(MPI_UNDEFINED, -32766); EQ(MPI_THREAD_MULTIPLE, 4096); EQ(sizeof(MPI_Status), 32);
    EQ(sizeof(MPI_Aint), 8); EQ(sizeof(MPI_Count), 8); EQ(sizeof(MPI_Offset), 8); EQ(sizeof(MPI_Comm), sizeof(void *));
    /* integers of handles: predefined ones keep their value, others survive the round trip */
typedef MPI_Datatype MPI_Type; /* the name that the conversions use */
#define ROUND(T, h) do { MPI_##T x_ = (h); int i_ = MPI_##T##_toint(x_); EQ(MPI_##T##_fromint(i_) == x_, 1); } while (0)
#define SAME(T, h) EQ(MPI_##T##_toint(h), (int)(intptr_t)(h)); ROUND(T, h)
    SAME(Comm, MPI_COMM_WORLD); SAME(Comm, MPI_COMM_SELF); SAME(Comm, MPI_COMM_NULL); SAME(Group, MPI_GROUP_EMPTY); SAME(Group, MPI_GROUP_NULL);
    SAME(Type, MPI_DOUBLE); SAME(Type, MPI_DATATYPE_NULL); SAME(Op, MPI_MAX); SAME(Op, MPI_OP_NULL); SAME(Info, MPI_INFO_ENV); SAME(Info, MPI_INFO_NULL);
    SAME(Errhandler, MPI_ERRORS_RETURN); SAME(Request, MPI_REQUEST_NULL); SAME(Message, MPI_MESSAGE_NO_PROC); SAME(Session, MPI_SESSION_NULL); SAME(Win, MPI_WIN_NULL); SAME(File, MPI_FILE_NULL);
    MPI_Comm c; MPI_Group g; MPI_Datatype t; MPI_Info i; MPI_Request r; int v;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &c)); ROUND(Comm, c); OK(MPI_Comm_free(&c));
    OK(MPI_Comm_group(MPI_COMM_WORLD, &g)); ROUND(Group, g); OK(MPI_Group_free(&g));
    OK(MPI_Type_contiguous(2, MPI_INT, &t)); ROUND(Type, t); OK(MPI_Type_free(&t));
    OK(MPI_Info_create(&i)); ROUND(Info, i); OK(MPI_Info_free(&i));
    OK(MPI_Irecv(&v, 1, MPI_INT, check_rank, 1, MPI_COMM_WORLD, &r)); ROUND(Request, r); OK(MPI_Cancel(&r)); OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    /* what mpi.h makes of the conversions to Fortran */
#define FORTRAN(T, h) do { MPI_Fint f_ = MPI_##T##_c2f(h); EQ(f_, PMPI_##T##_c2f(h)); EQ(MPI_##T##_f2c(f_) == (h) && PMPI_##T##_f2c(f_) == (h), 1); } while (0)
    FORTRAN(Comm, MPI_COMM_WORLD); FORTRAN(Group, MPI_GROUP_EMPTY); FORTRAN(Type, MPI_DOUBLE); FORTRAN(Op, MPI_MAX); FORTRAN(Info, MPI_INFO_ENV); FORTRAN(Errhandler, MPI_ERRORS_RETURN);
    FORTRAN(Request, MPI_REQUEST_NULL); FORTRAN(Message, MPI_MESSAGE_NO_PROC); FORTRAN(Session, MPI_SESSION_NULL); FORTRAN(Win, MPI_WIN_NULL); FORTRAN(File, MPI_FILE_NULL);
    MPI_Fint integers[MPI_F_STATUS_SIZE]; MPI_Status s = {.MPI_SOURCE = 1, .MPI_TAG = 2, .MPI_ERROR = 3}, copy;
    EQ(MPI_Status_c2f(&s, integers), MPI_SUCCESS); EQ(integers[MPI_F_SOURCE], 1); EQ(integers[MPI_F_TAG], 2); EQ(integers[MPI_F_ERROR], 3);
    EQ(MPI_Status_f2c(integers, &copy), MPI_SUCCESS); EQ(copy.MPI_SOURCE, 1); EQ(copy.MPI_TAG, 2); EQ(copy.MPI_ERROR, 3);
    /* handles of user objects never collide with the reserved range */
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &c)); CHECK((uintptr_t)c >= 4096, "handle %p", (void *)c); OK(MPI_Comm_free(&c));
    return check_done();
}
