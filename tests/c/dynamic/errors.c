/* What can't be spawned, met or found is an error of its class on every rank, and the job goes on. */
#include "check.h"

int main(int argc, char **argv)
{
    MPI_Comm inter, parent;
    char port[MPI_MAX_PORT_NAME], found[MPI_MAX_PORT_NAME];
    int codes[2] = {0, 0}, sum, one = 1;
    check_init(&argc, &argv);
    OK(MPI_Comm_get_parent(&parent));
    if (parent != MPI_COMM_NULL)
        return 0;
    /* no such program */
    FAILS(MPI_ERR_SPAWN, MPI_Comm_spawn("./no-such-program", MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, codes));
    if (check_rank == 0) for (int i = 0; i < 2; i++) EQ(codes[i], MPI_ERR_SPAWN);
    /* one that isn't an MPI program, and one that fails before it is */
    FAILS(MPI_ERR_SPAWN, MPI_Comm_spawn("true", MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE));
    FAILS(MPI_ERR_SPAWN, MPI_Comm_spawn("false", MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE));
    /* numbers and hints */
    FAILS_ANY(MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 0, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE));
    FAILS_ANY(MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, -1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE));
    FAILS(MPI_ERR_ROOT, MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 1, MPI_INFO_NULL, check_size, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE));
    MPI_Info info;
    OK(MPI_Info_create(&info)); OK(MPI_Info_set(info, "soft", "5:9"));
    FAILS_ANY(MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 2, info, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE));
    OK(MPI_Info_set(info, "soft", "many"));
    FAILS_ANY(MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 2, info, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE));
    OK(MPI_Info_delete(info, "soft")); OK(MPI_Info_set(info, "wdir", "/no/such/directory"));
    FAILS(MPI_ERR_SPAWN, MPI_Comm_spawn("true", MPI_ARGV_NULL, 1, info, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE));
    OK(MPI_Info_delete(info, "wdir")); OK(MPI_Info_set(info, "path", "/no/such/directory"));
    FAILS(MPI_ERR_SPAWN, MPI_Comm_spawn("true", MPI_ARGV_NULL, 1, info, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE));
    OK(MPI_Info_free(&info));
    /* ports */
    FAILS(MPI_ERR_PORT, MPI_Comm_connect("nonsense", MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter));
    FAILS(MPI_ERR_PORT, MPI_Comm_accept("nonsense", MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter));
    OK(MPI_Open_port(MPI_INFO_NULL, port)); OK(MPI_Close_port(port));
    FAILS(MPI_ERR_PORT, MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter));
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    FAILS(MPI_ERR_PORT, MPI_Close_port(port));
    /* names */
    char service[64];
    snprintf(service, sizeof service, "errors-%d", check_rank);
    FAILS(MPI_ERR_NAME, MPI_Lookup_name(service, MPI_INFO_NULL, found));
    FAILS(MPI_ERR_SERVICE, MPI_Unpublish_name(service, MPI_INFO_NULL, port));
    OK(MPI_Publish_name(service, MPI_INFO_NULL, port));
    FAILS(MPI_ERR_SERVICE, MPI_Publish_name(service, MPI_INFO_NULL, port));
    OK(MPI_Lookup_name(service, MPI_INFO_NULL, found)); STREQ(found, port);
    OK(MPI_Unpublish_name(service, MPI_INFO_NULL, port));
    FAILS(MPI_ERR_NAME, MPI_Lookup_name(service, MPI_INFO_NULL, found));
    /* nothing of that has hurt */
    OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD)); EQ(sum, check_size);
    return check_done();
}
