/* external32 byte by byte, portable and byte-wise file types in it, its end of file and its error; representations of the program. */
#include "file.h"

static long file_holds(const char *name, const unsigned char *want, long bytes)
{
    static unsigned char got[4096];
    long n = file_bytes(name, got, sizeof got);
    if (n != bytes)
        return n == 0 ? -1000 : -n;
    for (long i = 0; i < bytes; i++)
        if (got[i] != want[i])
            return i + 1;
    return 0;
}

static void external32(const char *name)
{
    MPI_File fh;
    MPI_Status st;
    MPI_Aint extent = -1;
    MPI_Datatype pair, every, memory;
    MPI_Count large = -1;
    struct { long l; short s; } out[3] = {{1, 2}, {-3, 4}, {5, -6}}, in[3];
    int lens[2] = {1, 1};
    MPI_Aint at[2] = {offsetof(__typeof__(out[0]), l), offsetof(__typeof__(out[0]), s)};
    MPI_Datatype types[2] = {MPI_LONG, MPI_SHORT};
    OK(MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &fh));
    OK(MPI_File_get_type_extent(fh, MPI_LONG, &extent));
    EQ(extent, sizeof(long));
    OK(MPI_File_set_view(fh, 1, MPI_BYTE, MPI_BYTE, "external32", MPI_INFO_NULL));
    OK(MPI_File_get_type_extent(fh, MPI_LONG, &extent));
    STRICT(EQ(extent, 4));
    OK(MPI_File_get_type_extent_c(fh, MPI_LONG, &large));
    STRICT(EQ(large, 4));
    static const int ints[2] = {258, -2};
    static const unsigned char big_endian[] = {0, 0, 0, 1, 2, 255, 255, 255, 254};
    int ints_back[2] = {0, 0};
    OK(MPI_File_write_at(fh, 0, ints, 2, MPI_INT, &st));
    EQ(file_holds(name, big_endian, sizeof big_endian), 0);
    OK(MPI_File_read_at(fh, 0, ints_back, 2, MPI_INT, &st));
    CHECK(!memcmp(ints, ints_back, sizeof ints));
    if (on_mpich()) { /* it crashes when a struct or MPI_LONG is written in external32 */
        OK(MPI_File_close(&fh));
        return;
    }
    OK(MPI_File_set_size(fh, 0));
    OK(MPI_Type_create_struct(2, lens, at, types, &pair));
    OK(MPI_Type_create_resized(pair, 0, sizeof out[0], &memory));
    OK(MPI_Type_commit(&memory));
    OK(MPI_File_write(fh, out, 3, memory, &st));
    EQ(moved(&st, memory), 3);
    static const unsigned char want[] = {0, 0, 0, 0, 1, 0, 2, 255, 255, 255, 253, 0, 4, 0, 0, 0, 5, 255, 250};
    EQ(file_holds(name, want, sizeof want), 0);
    memset(in, 0, sizeof in);
    OK(MPI_File_read_at(fh, 0, in, 3, memory, &st));
    EQ(moved(&st, memory), 3);
    for (int i = 0; i < 3; i++)
        CHECK(in[i].l == out[i].l && in[i].s == out[i].s);
    /* the file ends inside of the second item */
    OK(MPI_File_set_size(fh, 1 + 6 + 5));
    memset(in, 0x11, sizeof in);
    OK(MPI_File_read_at(fh, 0, in, 3, memory, &st));
    int elements = -1;
    OK(MPI_Get_elements(&st, memory, &elements));
    STRICT(EQ(elements, 3));
    STRICT(CHECK(in[0].l == 1 && in[0].s == 2 && in[1].l == -3 && in[1].s == 0x1111));
    long wide = 1L << 40;
    STRICT(FAILS(MPI_ERR_CONVERSION, MPI_File_write_at(fh, 0, &wide, 1, MPI_LONG, &st)));
    /* displacements in elements follow the sizes in the file, those in bytes stay */
    static const long values[4] = {7, 8, 9, 10};
    OK(MPI_File_set_size(fh, 0));
    OK(MPI_Type_vector(2, 1, 2, MPI_LONG, &every));
    OK(MPI_Type_commit(&every));
    OK(MPI_File_set_view(fh, 0, MPI_LONG, every, "external32", MPI_INFO_NULL));
    OK(MPI_File_write_all(fh, values, 4, MPI_LONG, &st));
    static const unsigned char spread[] = {0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 10};
    STRICT(EQ(file_holds(name, spread, sizeof spread), 0));
    OK(MPI_Type_free(&every));
    OK(MPI_File_set_size(fh, 0));
    OK(MPI_Type_create_hvector(2, 1, 6, MPI_LONG, &every));
    OK(MPI_Type_commit(&every));
    OK(MPI_File_set_view(fh, 0, MPI_LONG, every, "external32", MPI_INFO_NULL));
    OK(MPI_File_write(fh, values, 2, MPI_LONG, &st));
    static const unsigned char bytes[] = {0, 0, 0, 7, 0, 0, 0, 0, 0, 8};
    STRICT(EQ(file_holds(name, bytes, sizeof bytes), 0));
    OK(MPI_Type_free(&every));
    OK(MPI_Type_free(&pair));
    OK(MPI_Type_free(&memory));
    OK(MPI_File_close(&fh));
}

/* A representation of ints as decimal text of 8 bytes; `state` counts the calls. */
static int text_extent(MPI_Datatype type, MPI_Aint *extent, void *state)
{
    ++*(int *)state;
    *extent = 8;
    return type == MPI_INT ? MPI_SUCCESS : MPI_ERR_TYPE;
}

/* Where int `i` of a buffer of `type` is. */
static int *place(void *buf, MPI_Datatype type, MPI_Offset i)
{
    MPI_Aint lb, extent;
    MPI_Type_get_extent(type, &lb, &extent);
    return (int *)((char *)buf + i * extent);
}

static int fail_now;
static int to_text(void *buf, MPI_Datatype type, int count, void *file, MPI_Offset position, void *state)
{
    ++*(int *)state;
    for (int i = 0; i < count; i++) {
        char text[16];
        snprintf(text, sizeof text, "%8d", *place(buf, type, position + i));
        memcpy((char *)file + 8 * i, text, 8);
    }
    return fail_now ? MPI_ERR_OTHER : MPI_SUCCESS;
}

static int from_text(void *buf, MPI_Datatype type, int count, void *file, MPI_Offset position, void *state)
{
    ++*(int *)state;
    for (int i = 0; i < count; i++) {
        char text[9] = {0};
        memcpy(text, (char *)file + 8 * i, 8);
        *place(buf, type, position + i) = atoi(text);
    }
    return MPI_SUCCESS;
}

static int same_extent(MPI_Datatype type, MPI_Aint *extent, void *state)
{
    MPI_Aint lb;
    (void)state;
    return MPI_Type_get_extent(type, &lb, extent);
}

static void of_the_program(const char *name)
{
    static int calls, out[6] = {1, -2, 3, 44, 555, -6666}, in[12];
    MPI_File fh;
    MPI_Status st;
    MPI_Datatype spread;
    char rep[MPI_MAX_DATAREP_STRING];
    MPI_Offset disp;
    MPI_Datatype etype, filetype;
    OK(MPI_Register_datarep("plain", MPI_CONVERSION_FN_NULL, MPI_CONVERSION_FN_NULL, same_extent, NULL));
    FAILS(MPI_ERR_DUP_DATAREP, MPI_Register_datarep("plain", MPI_CONVERSION_FN_NULL, MPI_CONVERSION_FN_NULL, same_extent, NULL));
    if (on_mpich())
        return; /* it has no conversions by the program */
    OK(MPI_Register_datarep("decimal", from_text, to_text, text_extent, &calls));
    FAILS(MPI_ERR_DUP_DATAREP, MPI_Register_datarep("decimal", from_text, to_text, text_extent, &calls));
    FAILS(MPI_ERR_DUP_DATAREP, MPI_Register_datarep("native", from_text, to_text, text_extent, &calls));
    OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &fh));
    OK(MPI_File_set_view(fh, 0, MPI_INT, MPI_INT, "decimal", MPI_INFO_NULL));
    OK(MPI_File_get_view(fh, &disp, &etype, &filetype, rep));
    STREQ(rep, "decimal");
    OK(MPI_File_write_at_all(fh, 6 * check_rank, out, 6, MPI_INT, &st));
    EQ(moved(&st, MPI_INT), 6);
    OK(MPI_File_sync(fh));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    EQ(file_size(name), 48 * check_size);
    static const char want[] = "       1      -2       3      44     555   -6666";
    if (check_size == 1)
        EQ(file_holds(name, (const unsigned char *)want, 48), 0);
    OK(MPI_Type_create_resized(MPI_INT, 0, 8, &spread));
    OK(MPI_Type_commit(&spread));
    OK(MPI_File_read_at_all(fh, 6 * check_rank, in, 6, spread, &st));
    EQ(moved(&st, MPI_INT), 6);
    for (int i = 0; i < 6; i++)
        CHECK(in[2 * i] == out[i] && in[2 * i + 1] == 0);
    CHECK(calls > 0);
    OK(MPI_File_read_at(fh, 6 * check_size - 1, in, 3, MPI_INT, &st)); /* the end of the file */
    EQ(moved(&st, MPI_INT), 1);
    fail_now = 1;
    FAILS(MPI_ERR_CONVERSION, MPI_File_write_at_all(fh, 6 * check_rank, out, 6, MPI_INT, &st));
    fail_now = 0;
    FAILS(MPI_ERR_CONVERSION, MPI_File_write_at(fh, 0, out, 1, MPI_FLOAT, &st)); /* text_extent knows ints */
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_File_set_view(fh, 0, MPI_INT, MPI_INT, "plain", MPI_INFO_NULL));
    OK(MPI_File_write_at_all(fh, 6 * check_rank, out, 6, MPI_INT, &st));
    OK(MPI_File_read_at_all(fh, 6 * check_rank, in, 6, MPI_INT, &st));
    CHECK(!memcmp(in, out, sizeof out));
    OK(MPI_File_set_view(fh, 0, MPI_INT, MPI_INT, "internal", MPI_INFO_NULL));
    OK(MPI_File_read_at_all(fh, 6 * check_rank, in, 6, MPI_INT, &st));
    CHECK(!memcmp(in, out, sizeof out));
    OK(MPI_Type_free(&spread));
    OK(MPI_File_close(&fh));
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    const char *name = file_name("external32"), *other = file_name("program");
    if (check_rank == 0) {
        external32(name);
        unlink(name);
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    of_the_program(other);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (check_rank == 0)
        unlink(other);
    return check_done();
}
