/* Every predefined type: size, extent, name, envelope, a message with itself; match_size; value_index; bottom addresses. */
#include "check.h"
#include <complex.h>
#include <stdbool.h>
#include <wchar.h>
struct known { MPI_Datatype t; const char *name; int size; int extent; };
struct fi { float a; int b; }; struct di { double a; int b; }; struct li { long a; int b; }; struct si { short a; int b; }; struct ldi { long double a; int b; };

int main(int argc, char **argv)
{
    check_init(&argc, &argv);
#define T(t, c) {t, #t, sizeof(c), sizeof(c)}
    struct known all[] = {
        T(MPI_AINT, MPI_Aint), T(MPI_COUNT, MPI_Count), T(MPI_OFFSET, MPI_Offset), T(MPI_PACKED, char), T(MPI_SHORT, short), T(MPI_INT, int),
        T(MPI_LONG, long), T(MPI_LONG_LONG, long long), T(MPI_UNSIGNED_SHORT, short), T(MPI_UNSIGNED, int), T(MPI_UNSIGNED_LONG, long),
        T(MPI_UNSIGNED_LONG_LONG, long long), T(MPI_FLOAT, float), T(MPI_C_FLOAT_COMPLEX, float complex), T(MPI_DOUBLE, double),
        T(MPI_C_DOUBLE_COMPLEX, double complex), T(MPI_LONG_DOUBLE, long double), T(MPI_C_LONG_DOUBLE_COMPLEX, long double complex),
        T(MPI_C_BOOL, bool), T(MPI_WCHAR, wchar_t), T(MPI_INT8_T, int8_t), T(MPI_UINT8_T, int8_t), T(MPI_CHAR, char), T(MPI_SIGNED_CHAR, char),
        T(MPI_UNSIGNED_CHAR, char), T(MPI_BYTE, char), T(MPI_INT16_T, int16_t), T(MPI_UINT16_T, int16_t), T(MPI_INT32_T, int32_t),
        T(MPI_UINT32_T, int32_t), T(MPI_INT64_T, int64_t), T(MPI_UINT64_T, int64_t),
        {MPI_INTEGER, "MPI_INTEGER", 4, 4}, {MPI_REAL, "MPI_REAL", 4, 4}, {MPI_DOUBLE_PRECISION, "MPI_DOUBLE_PRECISION", 8, 8},
        {MPI_COMPLEX, "MPI_COMPLEX", 8, 8}, {MPI_DOUBLE_COMPLEX, "MPI_DOUBLE_COMPLEX", 16, 16}, {MPI_CHARACTER, "MPI_CHARACTER", 1, 1},
        {MPI_LOGICAL, "MPI_LOGICAL", 4, 4}, {MPI_INTEGER1, "MPI_INTEGER1", 1, 1}, {MPI_INTEGER2, "MPI_INTEGER2", 2, 2},
        {MPI_INTEGER4, "MPI_INTEGER4", 4, 4}, {MPI_INTEGER8, "MPI_INTEGER8", 8, 8}, {MPI_REAL4, "MPI_REAL4", 4, 4}, {MPI_REAL8, "MPI_REAL8", 8, 8},
        {MPI_COMPLEX8, "MPI_COMPLEX8", 8, 8}, {MPI_COMPLEX16, "MPI_COMPLEX16", 16, 16},
        {MPI_FLOAT_INT, "MPI_FLOAT_INT", 8, sizeof(struct fi)}, {MPI_DOUBLE_INT, "MPI_DOUBLE_INT", 12, sizeof(struct di)},
        {MPI_LONG_INT, "MPI_LONG_INT", 12, sizeof(struct li)}, {MPI_SHORT_INT, "MPI_SHORT_INT", 6, sizeof(struct si)},
        {MPI_2INT, "MPI_2INT", 8, 8}, {MPI_LONG_DOUBLE_INT, "MPI_LONG_DOUBLE_INT", 20, sizeof(struct ldi)},
    };
    char name[MPI_MAX_OBJECT_NAME], *a = alloc(4096), *b = alloc(4096);
    for (int i = 0; i < LEN(all); i++) {
        int size, len, ni, na, nt, combiner;
        MPI_Aint lb, ext;
        MPI_Status st;
        OK(MPI_Type_size(all[i].t, &size));
        CHECK(size == all[i].size, "%s: size %d, expected %d", all[i].name, size, all[i].size);
        OK(MPI_Type_get_extent(all[i].t, &lb, &ext));
        CHECK(lb == 0 && ext == all[i].extent, "%s: extent %ld, expected %d", all[i].name, (long)ext, all[i].extent);
        OK(MPI_Type_get_name(all[i].t, name, &len));
        if (strcmp(name, "MPI_LONG_LONG_INT") && strcmp(name, "MPI_C_COMPLEX")) /* the other names of two types */
            STREQ(name, all[i].name);
        EQ(len, (int)strlen(name));
        OK(MPI_Type_get_envelope(all[i].t, &ni, &na, &nt, &combiner));
        EQ(combiner, MPI_COMBINER_NAMED);
        OK(MPI_Sendrecv(a, 100, all[i].t, check_rank, 1, b, 100, all[i].t, check_rank, 1, MPI_COMM_WORLD, &st));
        OK(MPI_Get_count(&st, all[i].t, &len));
        EQ(len, 100);
    }
    MPI_Datatype t;
    int size;
    static const int classes[] = {MPI_TYPECLASS_REAL, MPI_TYPECLASS_INTEGER, MPI_TYPECLASS_COMPLEX};
    static const int sizes[3][2] = {{4, 8}, {4, 8}, {8, 16}};
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 2; k++) {
            OK(MPI_Type_match_size(classes[i], sizes[i][k], &t));
            OK(MPI_Type_size(t, &size));
            EQ(size, sizes[i][k]);
        }
    FAILS(MPI_ERR_ARG, MPI_Type_match_size(MPI_TYPECLASS_REAL, 7, &t));
    OK(MPI_Type_get_value_index(MPI_DOUBLE, MPI_INT, &t)); EQ(t == MPI_DOUBLE_INT, 1);
    OK(MPI_Type_get_value_index(MPI_INT, MPI_INT, &t)); EQ(t == MPI_2INT, 1);
    OK(MPI_Type_get_value_index(MPI_LONG, MPI_INT, &t)); EQ(t == MPI_LONG_INT, 1);
    /* absolute addresses */
    int v[3] = {1, 2, 3}, w[3] = {0, 0, 0};
    MPI_Aint av, aw;
    OK(MPI_Get_address(v, &av));
    OK(MPI_Get_address(w, &aw));
    EQ(MPI_Aint_add(av, 4), (MPI_Aint)&v[1]);
    EQ(MPI_Aint_diff((MPI_Aint)&v[2], av), 8);
    MPI_Datatype tv, tw;
    int three = 3;
    OK(MPI_Type_create_hindexed(1, &three, &av, MPI_INT, &tv));
    OK(MPI_Type_create_hindexed(1, &three, &aw, MPI_INT, &tw));
    OK(MPI_Type_commit(&tv));
    OK(MPI_Type_commit(&tw));
    OK(MPI_Sendrecv(MPI_BOTTOM, 1, tv, check_rank, 1, MPI_BOTTOM, 1, tw, check_rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    EQ(w[2], 3);
    OK(MPI_Bcast(MPI_BOTTOM, 1, tw, 0, MPI_COMM_WORLD));
    OK(MPI_Type_free(&tv));
    OK(MPI_Type_free(&tw));
    return check_done();
}
