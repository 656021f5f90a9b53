/* Jobs of separate mpiexecs connect: "server FILE N" leaves its port in a file and serves N clients, "client FILE" calls it. "wait FILE" spawns two ranks, writes FILE
 * and waits until it is killed. */
#include "check.h"

static void use(MPI_Comm inter, int high)
{
    int remote, sum, one = 1, size;
    MPI_Comm merged;
    OK(MPI_Comm_remote_size(inter, &remote));
    OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, inter)); EQ(sum, remote);
    OK(MPI_Intercomm_merge(inter, high, &merged)); OK(MPI_Comm_size(merged, &size));
    OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, merged)); EQ(sum, size); EQ(size, check_size + remote);
    static char text[500000];
    memset(text, high ? 'c' : 's', sizeof text);
    OK(MPI_Bcast(text, sizeof text, MPI_CHAR, size - 1, merged)); EQ(text[sizeof text - 1], 'c');
    OK(MPI_Comm_free(&merged));
}

static void write_file(const char *name, const char *text)
{
    char other[4096];
    snprintf(other, sizeof other, "%s.new", name);
    FILE *file = fopen(other, "w");
    fputs(text, file);
    fclose(file);
    rename(other, name);
}

int main(int argc, char **argv)
{
    char port[MPI_MAX_PORT_NAME] = "";
    MPI_Comm inter, parent;
    check_init(&argc, &argv);
    OK(MPI_Comm_get_parent(&parent));
    if (parent != MPI_COMM_NULL || !strcmp(argv[1], "wait")) {
        if (parent == MPI_COMM_NULL) {
            OK(MPI_Comm_spawn(argv[0], argv + 1, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE));
            if (check_rank == 0) write_file(argv[2], "spawned\n");
            OK(MPI_Barrier(inter));
        }
        int never;
        MPI_Recv(&never, 1, MPI_INT, MPI_ANY_SOURCE, 0, parent == MPI_COMM_NULL ? inter : parent, MPI_STATUS_IGNORE);
        return 1;
    }
    if (!strcmp(argv[1], "server")) {
        OK(MPI_Open_port(MPI_INFO_NULL, port));
        if (check_rank == 0) write_file(argv[2], port);
        for (int i = 0; i < atoi(argv[3]); i++) {
            OK(MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter));
            use(inter, 0);
            OK(MPI_Comm_disconnect(&inter));
        }
        OK(MPI_Close_port(port));
    } else {
        FILE *file = fopen(argv[2], "r");
        CHECK(file && fgets(port, sizeof port, file));
        OK(MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter));
        use(inter, 1);
        OK(MPI_Comm_disconnect(&inter));
    }
    return check_done();
}
