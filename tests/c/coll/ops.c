/* Every predefined operation on every type that the standard allows it for, and refusals for the others. */
#include "check.h"
#include <complex.h>
#include <stdbool.h>
enum { N = 37 };

/* one arithmetic type: SUM PROD MIN MAX through Allreduce and Reduce_local */
#define ARITH(CT_, T, ORDERED) do { \
        CT_ in[N], out[N], loc[N]; int bad = 0; \
        for (int i = 0; i < N; i++) in[i] = (CT_)((check_rank + i) % 3 + 1); \
        OK(MPI_Allreduce(in, out, N, T, MPI_SUM, MPI_COMM_WORLD)); \
        for (int i = 0; i < N; i++) { CT_ s = 0; for (int r = 0; r < check_size; r++) s += (CT_)((r + i) % 3 + 1); bad += out[i] != s; } \
        CHECK(bad == 0, #T " sum: %d", bad); bad = 0; \
        OK(MPI_Allreduce(in, out, N, T, MPI_PROD, MPI_COMM_WORLD)); \
        for (int i = 0; i < N; i++) { CT_ s = 1; for (int r = 0; r < check_size; r++) s *= (CT_)((r + i) % 3 + 1); bad += out[i] != s; } \
        CHECK(bad == 0, #T " prod: %d", bad); bad = 0; \
        memcpy(loc, in, sizeof loc); OK(MPI_Reduce_local(in, loc, N, T, MPI_SUM)); \
        for (int i = 0; i < N; i++) bad += loc[i] != (CT_)(in[i] + in[i]); \
        CHECK(bad == 0, #T " local sum: %d", bad); \
        ORDERED(CT_, T) \
    } while (0)
#define MINMAX(CT_, T) bad = 0; OK(MPI_Allreduce(in, out, N, T, MPI_MIN, MPI_COMM_WORLD)); \
        for (int i = 0; i < N; i++) { CT_ s = in[i]; for (int r = 0; r < check_size; r++) { CT_ v = (CT_)((r + i) % 3 + 1); if (v < s) s = v; } bad += out[i] != s; } \
        OK(MPI_Allreduce(in, out, N, T, MPI_MAX, MPI_COMM_WORLD)); \
        for (int i = 0; i < N; i++) { CT_ s = in[i]; for (int r = 0; r < check_size; r++) { CT_ v = (CT_)((r + i) % 3 + 1); if (v > s) s = v; } bad += out[i] != s; } \
        CHECK(bad == 0, #T " min/max: %d", bad);
#define NONE(CT_, T) FAILS(MPI_ERR_OP, MPI_Reduce_local(in, out, N, T, MPI_MAX));
#define BITS(CT_, T) do { \
        CT_ in[N], out[N]; int bad = 0; \
        for (int i = 0; i < N; i++) in[i] = (CT_)(check_rank * 37 + i * 11 + 5); \
        static const char *names[3] = {"and", "or", "xor"}; MPI_Op ops[3] = {MPI_BAND, MPI_BOR, MPI_BXOR}; \
        for (int o = 0; o < 3; o++) { OK(MPI_Allreduce(in, out, N, T, ops[o], MPI_COMM_WORLD)); bad = 0; \
            for (int i = 0; i < N; i++) { CT_ s = (CT_)(i * 11 + 5); for (int r = 1; r < check_size; r++) { CT_ v = (CT_)(r * 37 + i * 11 + 5); \
                s = o == 0 ? s & v : o == 1 ? s | v : s ^ v; } bad += out[i] != s; } \
            CHECK(bad == 0, #T " bit %s: %d", names[o], bad); } \
    } while (0)
#define LOGIC(CT_, T) do { \
        CT_ in[N], out[N]; int bad; \
        for (int i = 0; i < N; i++) in[i] = (CT_)((check_rank + i) % 3 == 0); \
        MPI_Op ops[3] = {MPI_LAND, MPI_LOR, MPI_LXOR}; \
        for (int o = 0; o < 3; o++) { OK(MPI_Allreduce(in, out, N, T, ops[o], MPI_COMM_WORLD)); bad = 0; \
            for (int i = 0; i < N; i++) { int s = i % 3 == 0; for (int r = 1; r < check_size; r++) { int v = (r + i) % 3 == 0; \
                s = o == 0 ? s && v : o == 1 ? s || v : s != v; } bad += !!out[i] != s; } \
            CHECK(bad == 0, #T " logical %d: %d", o, bad); } \
    } while (0)
#define LOC(CT_, T) do { \
        struct { CT_ v; int i; } in[N], lo[N], hi[N]; int bad = 0; \
        for (int k = 0; k < N; k++) { in[k].v = (CT_)((check_rank * 5 + k) % 4); in[k].i = check_rank + 10; } \
        OK(MPI_Allreduce(in, lo, N, T, MPI_MINLOC, MPI_COMM_WORLD)); \
        OK(MPI_Allreduce(in, hi, N, T, MPI_MAXLOC, MPI_COMM_WORLD)); \
        for (int k = 0; k < N; k++) { int l = 0, h = 0; for (int r = 1; r < check_size; r++) { \
                if ((r * 5 + k) % 4 < (l * 5 + k) % 4) l = r; if ((r * 5 + k) % 4 > (h * 5 + k) % 4) h = r; } \
            bad += lo[k].i != l + 10 || hi[k].i != h + 10 || lo[k].v != (CT_)((l * 5 + k) % 4) || hi[k].v != (CT_)((h * 5 + k) % 4); } \
        CHECK(bad == 0, #T " loc: %d", bad); \
    } while (0)
#define INTEGER(CT_, T) do { ARITH(CT_, T, MINMAX); BITS(CT_, T); } while (0)

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
    INTEGER(signed char, MPI_SIGNED_CHAR); INTEGER(unsigned char, MPI_UNSIGNED_CHAR); INTEGER(short, MPI_SHORT); INTEGER(unsigned short, MPI_UNSIGNED_SHORT);
    INTEGER(int, MPI_INT); INTEGER(unsigned, MPI_UNSIGNED); INTEGER(long, MPI_LONG); INTEGER(unsigned long, MPI_UNSIGNED_LONG);
    INTEGER(long long, MPI_LONG_LONG); INTEGER(unsigned long long, MPI_UNSIGNED_LONG_LONG);
    INTEGER(int8_t, MPI_INT8_T); INTEGER(uint8_t, MPI_UINT8_T); INTEGER(int16_t, MPI_INT16_T); INTEGER(uint16_t, MPI_UINT16_T);
    INTEGER(int32_t, MPI_INT32_T); INTEGER(uint32_t, MPI_UINT32_T); INTEGER(int64_t, MPI_INT64_T); INTEGER(uint64_t, MPI_UINT64_T);
    INTEGER(MPI_Aint, MPI_AINT); INTEGER(MPI_Count, MPI_COUNT); INTEGER(MPI_Offset, MPI_OFFSET);
    INTEGER(int, MPI_INTEGER); INTEGER(int8_t, MPI_INTEGER1); INTEGER(int16_t, MPI_INTEGER2); INTEGER(int32_t, MPI_INTEGER4); INTEGER(int64_t, MPI_INTEGER8);
    BITS(unsigned char, MPI_BYTE);
    ARITH(float, MPI_FLOAT, MINMAX); ARITH(double, MPI_DOUBLE, MINMAX); ARITH(long double, MPI_LONG_DOUBLE, MINMAX);
    ARITH(float, MPI_REAL, MINMAX); ARITH(double, MPI_DOUBLE_PRECISION, MINMAX); ARITH(float, MPI_REAL4, MINMAX); ARITH(double, MPI_REAL8, MINMAX);
    ARITH(float complex, MPI_C_FLOAT_COMPLEX, NONE); ARITH(double complex, MPI_C_DOUBLE_COMPLEX, NONE);
    ARITH(long double complex, MPI_C_LONG_DOUBLE_COMPLEX, NONE);
    ARITH(float complex, MPI_COMPLEX, NONE); ARITH(double complex, MPI_DOUBLE_COMPLEX, NONE);
    LOGIC(int, MPI_INT); LOGIC(bool, MPI_C_BOOL); LOGIC(long, MPI_LONG); LOGIC(unsigned char, MPI_UNSIGNED_CHAR); LOGIC(int64_t, MPI_INT64_T); LOGIC(int, MPI_LOGICAL);
    LOC(float, MPI_FLOAT_INT); LOC(double, MPI_DOUBLE_INT); LOC(long, MPI_LONG_INT); LOC(int, MPI_2INT); LOC(short, MPI_SHORT_INT); LOC(long double, MPI_LONG_DOUBLE_INT);
    /* refusals */
    double d[2] = {0}, e[2] = {0};
    FAILS(MPI_ERR_OP, MPI_Allreduce(d, e, 2, MPI_DOUBLE, MPI_BAND, MPI_COMM_SELF));
    FAILS(MPI_ERR_OP, MPI_Allreduce(d, e, 1, MPI_DOUBLE, MPI_MAXLOC, MPI_COMM_SELF));
    FAILS(MPI_ERR_OP, MPI_Allreduce(d, e, 1, MPI_DOUBLE_INT, MPI_SUM, MPI_COMM_SELF));
    FAILS(MPI_ERR_OP, MPI_Allreduce(d, e, 1, MPI_BYTE, MPI_SUM, MPI_COMM_SELF));
    FAILS2(MPI_ERR_OP, MPI_ERR_ARG, MPI_Allreduce(d, e, 1, MPI_INT, MPI_REPLACE, MPI_COMM_SELF));
    FAILS(MPI_ERR_OP, MPI_Allreduce(d, e, 1, MPI_INT, MPI_OP_NULL, MPI_COMM_SELF));
    int flag;
    OK(MPI_Op_commutative(MPI_SUM, &flag)); EQ(flag, 1);
    return check_done();
}
