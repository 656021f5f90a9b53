/* Error handlers: user functions get the handle and the code, inheritance by dup, get/set/free counts, call_errhandler. */
#include "check.h"
static int called, code_seen;
static MPI_Comm comm_seen;
static void on_error(MPI_Comm *c, int *code, ...) { called++; code_seen = *code; comm_seen = *c; }
static void forgive(MPI_File *f, int *code, ...) { (void)f; called++; *code = MPI_SUCCESS; }
static void on_session(MPI_Session *s, int *code, ...) { (void)s; called += 100; code_seen = *code; }

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    MPI_Errhandler e, f;
    MPI_Comm c, d;
    int class, len;
    char text[MPI_MAX_ERROR_STRING];
    OK(MPI_Comm_create_errhandler(on_error, &e));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &c));
    OK(MPI_Comm_get_errhandler(c, &f)); EQ(f == MPI_ERRORS_RETURN, 1); /* inherited */
    if (!on_mpich()) OK(MPI_Errhandler_free(&f));
    OK(MPI_Comm_set_errhandler(c, e));
    OK(MPI_Comm_get_errhandler(c, &f)); EQ(f == e, 1); OK(MPI_Errhandler_free(&f));
    OK(MPI_Errhandler_free(&e)); EQ(e == MPI_ERRHANDLER_NULL, 1); /* lives on in c */
    int some = 1, r = MPI_Send(&some, 1, MPI_INT, 1000, 0, c);
    EQ(called, 1); EQ(comm_seen == c, 1);
    if (!on_mpich()) EQ(code_seen, r); /* the handler gets the code that the call returns; the oracle returns success */
    MPI_Error_class(code_seen, &class); EQ(class, MPI_ERR_RANK);
    OK(MPI_Comm_dup(c, &d));
    r = MPI_Recv(NULL, -1, MPI_INT, 0, 0, d, MPI_STATUS_IGNORE); EQ(called, 2); EQ(comm_seen == d, 1);
    OK(MPI_Comm_call_errhandler(d, MPI_ERR_OTHER)); EQ(called, 3); EQ(code_seen, MPI_ERR_OTHER);
    OK(MPI_Comm_set_errhandler(d, MPI_ERRORS_RETURN)); FAILS(MPI_ERR_COUNT, MPI_Bcast(NULL, -1, MPI_INT, 0, d)); EQ(called, 3);
    /* errors at completion go to the communicator's handler */
    int v[2] = {1, 2}, in;
    MPI_Request rq;
    OK(MPI_Irecv(&in, 1, MPI_INT, check_rank, 1, c, &rq)); OK(MPI_Send(v, 2, MPI_INT, check_rank, 1, c));
    r = MPI_Wait(&rq, MPI_STATUS_IGNORE); MPI_Error_class(code_seen, &class); EQ(class, MPI_ERR_TRUNCATE); EQ(called, 4); EQ(comm_seen == c, 1);
    OK(MPI_Comm_free(&c)); OK(MPI_Comm_free(&d));
    /* what the handler leaves in the code is what the call returns (9.3.1) */
    MPI_File file = MPI_FILE_NULL;
    called = 0;
    OK(MPI_File_create_errhandler(forgive, &e)); OK(MPI_File_set_errhandler(MPI_FILE_NULL, e)); OK(MPI_Errhandler_free(&e));
    r = MPI_File_open(MPI_COMM_SELF, "there/is/none", MPI_MODE_RDWR, MPI_INFO_NULL, &file); EQ(called, 1); EQ(r, MPI_SUCCESS);
    OK(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN));
    /* every class has a string of its own */
    for (int k = MPI_ERR_BUFFER; k <= MPI_ERR_ABI; k++) {
#ifndef MPI_ABI_VERSION
        if (k == 54) continue; /* no class of MPICH's ABI */
#endif
        OK(MPI_Error_class(k, &class)); EQ(class, k);
        OK(MPI_Error_string(k, text, &len)); CHECK(len > 0 && len == (int)strlen(text), "class %d: length %d", k, len);
    }
    OK(MPI_Error_string(MPI_SUCCESS, text, &len)); CHECK(len > 0);
    /* user classes, codes and strings */
    int uc, uc2, code, *last, flag;
    OK(MPI_Add_error_class(&uc)); CHECK(uc > MPI_ERR_LASTCODE, "class %d", uc);
    OK(MPI_Add_error_code(uc, &code)); OK(MPI_Add_error_string(code, "my own trouble"));
    OK(MPI_Error_string(code, text, &len)); STREQ(text, "my own trouble");
    OK(MPI_Error_class(code, &class)); EQ(class, uc);
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &last, &flag)); CHECK(on_mpich() || *last >= code, "lastusedcode %d < %d", *last, code);
    OK(MPI_Add_error_code(MPI_ERR_ARG, &code)); OK(MPI_Error_class(code, &class)); EQ(class, MPI_ERR_ARG);
    OK(MPI_Error_string(code, text, &len)); EQ(len, 0); /* no string given yet */
    OK(MPI_Remove_error_code(code));
    OK(MPI_Add_error_class(&uc2)); OK(MPI_Add_error_string(uc2, "second")); OK(MPI_Remove_error_string(uc2)); OK(MPI_Remove_error_class(uc2));
    /* sessions have handlers too */
    MPI_Session s;
    OK(MPI_Session_create_errhandler(on_session, &e));
    OK(MPI_Session_init(MPI_INFO_NULL, e, &s));
    called = 0;
    OK(MPI_Session_call_errhandler(s, MPI_ERR_INTERN)); EQ(called, 100); EQ(code_seen, MPI_ERR_INTERN);
    OK(MPI_Session_get_errhandler(s, &f)); EQ(f == e, 1); OK(MPI_Errhandler_free(&f));
    OK(MPI_Session_set_errhandler(s, MPI_ERRORS_RETURN));
    OK(MPI_Errhandler_free(&e)); OK(MPI_Session_finalize(&s));
    return check_done();
}
