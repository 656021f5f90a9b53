/* MPI_COMM_SPAWN and MPI_COMM_SPAWN_MULTIPLE: arrays of strings, each list ended by a blank string (MPI-5.0, 11.8). */
#include "binding.h"

/* One list of arguments: strings of `length` bytes, `stride` bytes apart, up to the first blank one */
static char **list_in(const char *strings, size_t length, size_t stride)
{
    size_t n = 0;
    char **list = NULL;
    for (;;) {
        char **longer = realloc(list, (n + 1) * sizeof *list);
        if (!longer)
            abort();
        list = longer;
        list[n] = text_in(strings + n * stride, length);
        if (list[n][0] == '\0')
            break;
        n++;
    }
    free(list[n]);
    list[n] = NULL;
    return list;
}

static void list_free(char **list)
{
    for (char **item = list; item && *item; item++)
        free(*item);
    free(list);
}

void NAME(comm_spawn)(char *command, char *argv, int *maxprocs, int *info, int *root, int *comm, int *intercomm,
    int *array_of_errcodes, int *ierror, size_t command_len, size_t argv_len)
{
    MPI_Comm made = MPI_COMM_NULL, from = PMPI_Comm_fromint(*comm);
    int rank = -1;
    PMPI_Comm_rank(from, &rank);
    /* Other processes than the root may pass anything */
    int read = rank == *root;
    char *program = read ? text_in(command, command_len) : NULL;
    char **list = read && !is_argv_null(argv) ? list_in(argv, argv_len, argv_len) : MPI_ARGV_NULL;
    int error = CALL(Comm_spawn)(program, list, *maxprocs, PMPI_Info_fromint(*info), *root, from, &made,
        errcodes_in(array_of_errcodes));
    *intercomm = PMPI_Comm_toint(made);
    list_free(list);
    free(program);
    give(ierror, error);
}
ALIAS(comm_spawn)

void NAME(comm_spawn_multiple)(int *count, char *array_of_commands, char *array_of_argv, int *array_of_maxprocs,
    int *array_of_info, int *root, int *comm, int *intercomm, int *array_of_errcodes, int *ierror, size_t command_len,
    size_t argv_len)
{
    MPI_Comm made = MPI_COMM_NULL, from = PMPI_Comm_fromint(*comm);
    int rank = -1;
    PMPI_Comm_rank(from, &rank);
    size_t n = rank == *root && *count > 0 ? (size_t)*count : 0;
    char **programs = allocate(n * sizeof *programs);
    char ***lists = is_argvs_null(array_of_argv) ? MPI_ARGVS_NULL : allocate(n * sizeof *lists);
    MPI_Info *infos = allocate(n * sizeof *infos);
    for (size_t i = 0; i < n; i++) {
        programs[i] = text_in(array_of_commands + i * command_len, command_len);
        infos[i] = PMPI_Info_fromint(array_of_info[i]);
        /* Column-major (count, *): the arguments of command i are n strings apart */
        if (lists)
            lists[i] = list_in(array_of_argv + i * argv_len, argv_len, n * argv_len);
    }
    int error = CALL(Comm_spawn_multiple)(*count, programs, lists, array_of_maxprocs, infos, *root, from, &made,
        errcodes_in(array_of_errcodes));
    *intercomm = PMPI_Comm_toint(made);
    for (size_t i = 0; i < n; i++) {
        free(programs[i]);
        if (lists)
            list_free(lists[i]);
    }
    free(programs);
    free(lists);
    free(infos);
    give(ierror, error);
}
ALIAS(comm_spawn_multiple)
