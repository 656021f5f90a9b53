/* Ports within one job: two halves of the world connect again and again, several clients come one after another, a service's name leads to its port, two
 * processes join over a socket (with an argument). */
#include "check.h"
#include <sys/socket.h>
#include <sys/un.h>

static void use(MPI_Comm inter, int is_server)
{
    int remote, sum, one = 1, rank;
    MPI_Comm merged;
    OK(MPI_Comm_remote_size(inter, &remote)); OK(MPI_Comm_rank(inter, &rank));
    OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, inter)); EQ(sum, remote);
    OK(MPI_Intercomm_merge(inter, is_server, &merged));
    OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, merged));
    int size;
    OK(MPI_Comm_size(merged, &size)); EQ(sum, size);
    OK(MPI_Comm_disconnect(&merged));
}

int main(int argc, char **argv)
{
    char port[MPI_MAX_PORT_NAME] = "", service[] = "ferrule-connect-test";
    MPI_Comm half, inter, lead;
    check_init(&argc, &argv);
    int is_server = check_rank % 2 == 0, rank;
    OK(MPI_Comm_split(MPI_COMM_WORLD, is_server, 0, &half)); OK(MPI_Comm_rank(half, &rank));
    /* the whole halves, by name, five times */
    if (check_rank == 0) {
        OK(MPI_Open_port(MPI_INFO_NULL, port));
        OK(MPI_Publish_name(service, MPI_INFO_NULL, port));
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (check_rank == 1)
        OK(MPI_Lookup_name(service, MPI_INFO_NULL, port));
    for (int i = 0; i < 5; i++) {
        if (is_server) OK(MPI_Comm_accept(port, MPI_INFO_NULL, 0, half, &inter));
        else OK(MPI_Comm_connect(port, MPI_INFO_NULL, 0, half, &inter));
        use(inter, is_server);
        OK(MPI_Comm_disconnect(&inter)); CHECK(inter == MPI_COMM_NULL);
    }
    /* every other rank is a client for itself; all call at once, and each is accepted */
    OK(MPI_Bcast(port, sizeof port, MPI_CHAR, 0, MPI_COMM_WORLD));
    if (check_rank == 0)
        for (int i = 1; i < check_size; i++) {
            OK(MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter));
            use(inter, 1);
            OK(MPI_Comm_disconnect(&inter));
        }
    else {
        OK(MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter));
        use(inter, 0);
        OK(MPI_Comm_disconnect(&inter));
    }
    if (check_rank == 0) {
        OK(MPI_Unpublish_name(service, MPI_INFO_NULL, port));
        OK(MPI_Close_port(port));
    }
    if (argc == 1) {
        OK(MPI_Comm_free(&half));
        return check_done();
    }
    /* join: rank 0 listens at an abstract socket, rank 1 calls */
    int fd = socket(AF_UNIX, SOCK_STREAM, 0), listener = -1, number = (int)getpid();
    OK(MPI_Bcast(&number, 1, MPI_INT, 0, MPI_COMM_WORLD));
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    snprintf(at.sun_path + 1, sizeof at.sun_path - 1, "ferrule-join-%d", number);
    if (check_rank == 0) {
        listener = fd;
        CHECK(bind(listener, (struct sockaddr *)&at, sizeof at) == 0); CHECK(listen(listener, 1) == 0);
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (check_rank == 0) fd = accept(listener, NULL, NULL);
    if (check_rank == 1) CHECK(connect(fd, (struct sockaddr *)&at, sizeof at) == 0);
    if (check_rank < 2) {
        char word[4] = "abc", back[4] = "";
        OK(MPI_Comm_join(fd, &lead));
        use(lead, check_rank);
        OK(MPI_Comm_disconnect(&lead));
        /* the socket is as it was */
        CHECK(write(fd, word, 4) == 4); CHECK(read(fd, back, 4) == 4); STREQ(back, "abc");
    }
    close(fd);
    OK(MPI_Comm_free(&half));
    return check_done();
}
