/* What the surroundings of a process allow; no MPI in it. One word on a line for each question:
 * probe cma      "allowed", or the errno's name with which process_vm_readv of a child fails
 * probe shm N    "allowed" if N MiB of a file in /dev/shm can be touched, else "too small" (a library that just touches it dies of SIGBUS)
 * probe quota    CPUs that the cgroup allows, or "none" */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static int cma(void)
{
    static long word = 42;
    long seen = 0;
    pid_t child = fork();
    if (!child)
        pause(), _exit(0);
    struct iovec mine = {&seen, sizeof seen}, theirs = {&word, sizeof word};
    ssize_t n = process_vm_readv(child, &mine, 1, &theirs, 1, 0);
    puts(n == (ssize_t)sizeof seen && seen == 42 ? "allowed" : strerrorname_np(errno));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    return 0;
}

static int shm(long mib)
{
    char name[64];
    snprintf(name, sizeof name, "/dev/shm/probe-%d", getpid());
    int fd = open(name, O_CREAT | O_RDWR, 0600), bad = fd < 0 || posix_fallocate(fd, 0, mib << 20);
    unlink(name);
    puts(bad ? "too small" : "allowed");
    return 0;
}

static int quota(void)
{
    long limit = -1, period = 0;
    FILE *file = fopen("/sys/fs/cgroup/cpu.max", "r");
    if (file) {
        if (fscanf(file, "%ld %ld", &limit, &period) != 2)
            limit = -1;
    } else if ((file = fopen("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "r")) && fscanf(file, "%ld", &limit) == 1)
        period = 100000;
    if (limit > 0 && period > 0)
        printf("%g\n", (double)limit / period);
    else
        puts("none");
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "cma"))
        return cma();
    if (argc > 2 && !strcmp(argv[1], "shm"))
        return shm(atol(argv[2]));
    if (argc > 1 && !strcmp(argv[1], "quota"))
        return quota();
    fprintf(stderr, "usage: probe cma | shm MIB | quota\n");
    return 2;
}
