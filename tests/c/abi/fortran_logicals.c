/* What a program says of Fortran's .TRUE. and .FALSE. holds in reductions of Fortran logicals, and only there. */
#include "check.h"

/* .TRUE. on the first rank only. */
static void reduce(MPI_Datatype type, const void *yes, const void *no, size_t size, const char *what)
{
    unsigned char all[16], any[16], odd[16];
    const void *mine = check_rank == 0 ? yes : no;
    OK(MPI_Allreduce(mine, all, 1, type, MPI_LAND, MPI_COMM_WORLD));
    CHECK(!memcmp(all, check_size == 1 ? yes : no, size), "%s: MPI_LAND", what);
    OK(MPI_Allreduce(mine, any, 1, type, MPI_LOR, MPI_COMM_WORLD));
    CHECK(!memcmp(any, yes, size), "%s: MPI_LOR", what);
    OK(MPI_Allreduce(mine, odd, 1, type, MPI_LXOR, MPI_COMM_WORLD));
    CHECK(!memcmp(odd, yes, size), "%s: MPI_LXOR", what);
    OK(MPI_Allreduce(yes, all, 1, type, MPI_LAND, MPI_COMM_WORLD));
    CHECK(!memcmp(all, yes, size), "%s: MPI_LAND of true", what);
}

int main(int argc, char **argv)
{
    int yes = -1, no = 0, one = 1, y = 5, n = 5, set = 7;
    int64_t yes8 = 0x0102030405060708, no8 = -2;
    check_init(&argc, &argv);
    OK(MPI_Abi_get_fortran_booleans(4, &y, &n, &set));
    EQ(set, 0);
    reduce(MPI_LOGICAL, &one, &no, 4, "not told");
    OK(MPI_Abi_set_fortran_booleans(4, &yes, &no));
    OK(MPI_Abi_get_fortran_booleans(4, &y, &n, &set));
    EQ(set, 1); EQ(y, yes); EQ(n, no);
    FAILS(MPI_ERR_ABI, MPI_Abi_set_fortran_booleans(4, &one, &no));
    FAILS(MPI_ERR_ARG, MPI_Abi_set_fortran_booleans(3, &yes, &no));
    FAILS(MPI_ERR_ARG, MPI_Abi_set_fortran_booleans(4, &yes, NULL));
    reduce(MPI_LOGICAL, &yes, &no, 4, "LOGICAL");
    reduce(MPI_LOGICAL4, &yes, &no, 4, "LOGICAL*4");
    reduce(MPI_INT, &one, &no, 4, "int");
    OK(MPI_Abi_set_fortran_booleans(8, &yes8, &no8));
    reduce(MPI_LOGICAL8, &yes8, &no8, 8, "LOGICAL*8");
    return check_done();
}
