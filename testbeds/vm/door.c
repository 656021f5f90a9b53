/* The way into a guest: whoever connects to port 23 sends one line, which a shell runs with the connection as its input and output. */
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void serve(int fd)
{
    char line[65536];
    size_t length = 0;
    /* Byte by byte: what follows the line belongs to the command. */
    while (length + 1 < sizeof line && read(fd, line + length, 1) == 1 && line[length] != '\n')
        length++;
    line[length] = 0;
    for (int to = 0; to < 3; to++)
        dup2(fd, to);
    close(fd);
    execl("/bin/sh", "sh", "-c", line, (char *)0);
    _exit(127);
}

int main(void)
{
    int yes = 1, door = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(23)};
    setsockopt(door, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(door, (struct sockaddr *)&any, sizeof any) || listen(door, 16)) {
        perror("door");
        return 1;
    }
    signal(SIGCHLD, SIG_IGN);
    for (;;) {
        int fd = accept(door, 0, 0);
        if (fd < 0)
            continue;
        if (fork() == 0) {
            signal(SIGCHLD, SIG_DFL);
            setsid();
            close(door);
            serve(fd);
        }
        close(fd);
    }
}
