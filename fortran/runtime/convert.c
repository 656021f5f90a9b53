/* Conversions that are more than a line: strings, lengths of arrays; the common blocks; what the C library is told. */
#include "binding.h"
#include <stdio.h>

/* Aligned as gfortran aligns its common blocks */
#define COMMON __attribute__((aligned(32)))
#ifdef MPICH_ABI
COMMON __typeof__(mpipriv1_) mpipriv1_;
COMMON __typeof__(mpipriv2_) mpipriv2_;
COMMON __typeof__(mpiprivc_) mpiprivc_ = {" ", " "};
COMMON int mpifcmb5_[1], mpifcmb9_[1], mpifcmba_;
#else
COMMON int mpi_fortran_bottom_, mpi_fortran_in_place_, mpi_fortran_buffer_automatic_;
COMMON int mpi_fortran_status_ignore_[MPI_F_STATUS_SIZE], mpi_fortran_statuses_ignore_[MPI_F_STATUS_SIZE];
COMMON int mpi_fortran_errcodes_ignore_[1], mpi_fortran_unweighted_[1], mpi_fortran_weights_empty_[1];
COMMON char mpi_fortran_argv_null_[1] = " ", mpi_fortran_argvs_null_[1] = " ";
#endif

/* Tells the library the bit patterns of gfortran's logicals after it was initialised from Fortran, unless somebody has done so */
int tell_logicals(int error)
{
    int yes = 1, no = 0, known_yes, known_no, is_set = 0;
    if (error == MPI_SUCCESS)
        error = PMPI_Abi_get_fortran_booleans(sizeof yes, &known_yes, &known_no, &is_set);
    return error == MPI_SUCCESS && !is_set ? PMPI_Abi_set_fortran_booleans(sizeof yes, &yes, &no) : error;
}

/* Memory for converted arguments; a program that has none left can't go on. */
void *allocate(size_t bytes)
{
    void *memory = malloc(bytes ? bytes : 1);
    if (!memory) {
        fprintf(stderr, "MPI for Fortran: no memory for %zu bytes of converted arguments\n", bytes);
        abort();
    }
    return memory;
}

/* A Fortran string without its trailing blanks, as a C string to be freed */
char *text_in(const char *text, size_t length)
{
    while (length > 0 && text[length - 1] == ' ')
        length--;
    char *copy = allocate(length + 1);
    memcpy(copy, text, length);
    copy[length] = '\0';
    return copy;
}

/* Keys and values of infos lose leading blanks too (MPI-5.0, 10) */
char *text_in_both_ends(const char *text, size_t length)
{
    while (length > 0 && *text == ' ')
        text++, length--;
    return text_in(text, length);
}

/* A C string as a Fortran string: cut or filled with blanks; untouched after an error */
void text_out(char *text, size_t length, const char *from, int error)
{
    if (error != MPI_SUCCESS)
        return;
    size_t used = strnlen(from, length);
    memcpy(text, from, used);
    memset(text + used, ' ', length - used);
}

/* How many processes an all-to-all exchanges with; none if the communicator is invalid, which the call itself finds out */
static MPI_Count peers(const int *comm)
{
    MPI_Comm c = PMPI_Comm_fromint(*comm);
    int inter = 0, size = 0;
    if (PMPI_Comm_test_inter(c, &inter) != MPI_SUCCESS)
        return 0;
    int error = inter ? PMPI_Comm_remote_size(c, &size) : PMPI_Comm_size(c, &size);
    return error == MPI_SUCCESS ? size : 0;
}

/* Types to send are not read with MPI_IN_PLACE */
MPI_Count peers_send(const void *sendbuf, const int *comm)
{
    return sendbuf == MPI_IN_PLACE ? 0 : peers(comm);
}

MPI_Count peers_recv(const void *sendbuf, const int *comm)
{
    (void)sendbuf;
    return peers(comm);
}

static void neighbors(const int *comm, int *in, int *out)
{
    MPI_Comm c = PMPI_Comm_fromint(*comm);
    int topology = MPI_UNDEFINED, rank = 0, weighted = 0;
    *in = *out = 0;
    if (PMPI_Topo_test(c, &topology) != MPI_SUCCESS)
        return;
    if (topology == MPI_DIST_GRAPH) {
        PMPI_Dist_graph_neighbors_count(c, in, out, &weighted);
    } else if (topology == MPI_GRAPH) {
        PMPI_Comm_rank(c, &rank);
        PMPI_Graph_neighbors_count(c, rank, in);
        *out = *in;
    } else if (topology == MPI_CART) {
        PMPI_Cartdim_get(c, in);
        *out = *in = 2 * *in;
    }
}

MPI_Count neighbors_send(const void *sendbuf, const int *comm)
{
    int in, out;
    (void)sendbuf;
    neighbors(comm, &in, &out);
    return out;
}

MPI_Count neighbors_recv(const void *sendbuf, const int *comm)
{
    int in, out;
    (void)sendbuf;
    neighbors(comm, &in, &out);
    return in;
}
