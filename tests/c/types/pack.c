/* Pack and unpack of mixed data, MPI_PACKED messages, external32 bytes compared with the standard's layout. */
#include "check.h"

static void ext(const char *what, MPI_Datatype t, const void *value, int n, const void *back, size_t mem, const unsigned char *want, int len)
{
    unsigned char buf[128], again[128];
    MPI_Aint pos = 0, size;
    (void)back;
    OK(MPI_Pack_external_size("external32", n, t, &size));
    CHECK(size == len, "%s: size %ld, expected %d", what, (long)size, len);
    memset(buf, 0x77, sizeof buf);
    OK(MPI_Pack_external("external32", value, n, t, buf, sizeof buf, &pos));
    CHECK(pos == len, "%s: %ld bytes", what, (long)pos);
    CHECK(!memcmp(buf, want, len), "%s: bytes %02x %02x %02x %02x", what, buf[0], buf[1], buf[2], buf[3]);
    pos = 0;
    memset(again, 0, sizeof again);
    OK(MPI_Unpack_external("external32", buf, len, &pos, again, n, t));
    EQ(pos, len);
    CHECK(!memcmp(again, value, mem), "%s: does not come back", what);
}

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    int i = 0x01020304, vi[2] = {-2, 1}, pos = 0, a = 0, count;
    short s = -2;
    long l = -3;
    double d = 1.5, e = 0, x[3] = {1, 2, 3}, y[3];
    char c[5] = "abcd", f[5] = "";
    float fl = -2.0f;
    ext("int", MPI_INT, &i, 1, &i, 4, (unsigned char[]){1, 2, 3, 4}, 4);
    ext("ints", MPI_INT, vi, 2, vi, 8, (unsigned char[]){0xff, 0xff, 0xff, 0xfe, 0, 0, 0, 1}, 8);
    ext("short", MPI_SHORT, &s, 1, &s, 2, (unsigned char[]){0xff, 0xfe}, 2);
    ext("double", MPI_DOUBLE, &d, 1, &d, 8, (unsigned char[]){0x3f, 0xf8, 0, 0, 0, 0, 0, 0}, 8);
    ext("float", MPI_FLOAT, &fl, 1, &fl, 4, (unsigned char[]){0xc0, 0, 0, 0}, 4);
    ext("char", MPI_CHAR, c, 4, c, 4, (unsigned char *)"abcd", 4);
    int64_t q = 0x0102030405060708;
    ext("int64", MPI_INT64_T, &q, 1, &q, 8, (unsigned char[]){1, 2, 3, 4, 5, 6, 7, 8}, 8);
    (void)l;
    /* several pieces into one buffer, sent as PACKED, received as PACKED, and as the plain type */
    char buf[200], in[200];
    OK(MPI_Pack(&i, 1, MPI_INT, buf, 200, &pos, MPI_COMM_WORLD));
    OK(MPI_Pack(&d, 1, MPI_DOUBLE, buf, 200, &pos, MPI_COMM_WORLD));
    OK(MPI_Pack(c, 5, MPI_CHAR, buf, 200, &pos, MPI_COMM_WORLD));
    MPI_Status st;
    int right = (check_rank + 1) % check_size, left = (check_rank + check_size - 1) % check_size;
    OK(MPI_Sendrecv(buf, pos, MPI_PACKED, right, 1, in, 200, MPI_PACKED, left, 1, MPI_COMM_WORLD, &st));
    OK(MPI_Get_count(&st, MPI_PACKED, &count));
    EQ(count, pos);
    pos = 0;
    OK(MPI_Unpack(in, count, &pos, &a, 1, MPI_INT, MPI_COMM_WORLD));
    OK(MPI_Unpack(in, count, &pos, &e, 1, MPI_DOUBLE, MPI_COMM_WORLD));
    OK(MPI_Unpack(in, count, &pos, f, 5, MPI_CHAR, MPI_COMM_WORLD));
    EQ(a, i);
    CHECK(e == d);
    STREQ(f, "abcd");
    pos = 0;
    OK(MPI_Pack(x, 3, MPI_DOUBLE, buf, 200, &pos, MPI_COMM_WORLD));
    OK(MPI_Sendrecv(buf, pos, MPI_PACKED, right, 1, y, 3, MPI_DOUBLE, left, 1, MPI_COMM_WORLD, &st));
    CHECK(y[0] == 1 && y[2] == 3);
    /* no room */
    pos = 190;
    FAILS2(MPI_ERR_ARG, MPI_ERR_TRUNCATE, on_mpich() ? MPI_ERR_ARG : MPI_Pack(x, 3, MPI_DOUBLE, buf, 200, &pos, MPI_COMM_WORLD));
    /* large-count twins */
    MPI_Count cp = 0, cs;
    OK(MPI_Pack_c(x, 3, MPI_DOUBLE, buf, 200, &cp, MPI_COMM_WORLD));
    EQ(cp, 24);
    OK(MPI_Pack_size_c(3, MPI_DOUBLE, MPI_COMM_WORLD, &cs));
    CHECK(cs >= 24);
    cp = 0;
    memset(y, 0, sizeof y);
    OK(MPI_Unpack_c(buf, 24, &cp, y, 3, MPI_DOUBLE, MPI_COMM_WORLD));
    CHECK(y[1] == 2);
    cp = 0;
    OK(MPI_Pack_external_c("external32", x, 3, MPI_DOUBLE, buf, 200, &cp));
    EQ(cp, 24);
    cp = 0;
    OK(MPI_Unpack_external_c("external32", buf, 24, &cp, y, 3, MPI_DOUBLE));
    CHECK(y[2] == 3);
    OK(MPI_Pack_external_size_c("external32", 3, MPI_DOUBLE, &cs));
    EQ(cs, 24);
    return check_done();
}
