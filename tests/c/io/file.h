/* What the tests of files share: a file in TMPDIR that all ranks name alike, and what lies in it. */
#ifndef FILE_H
#define FILE_H
#include "check.h"
#include <fcntl.h>
#include <sys/stat.h>

/* The name of a file of this test; rank 0's TMPDIR decides. */
static inline const char *file_name(const char *what)
{
    static char names[8][512];
    static int next;
    char *name = names[next++ % 8];
    int pid = (int)getpid();
    if (check_rank == 0) {
        const char *dir = getenv("TMPDIR");
        snprintf(name, 512, "%s/%s-%d", dir ? dir : "/tmp", what, pid);
    }
    MPI_Bcast(name, 512, MPI_CHAR, 0, MPI_COMM_WORLD);
    return name;
}

/* The bytes of a file as the system has them; -1 if there is none. */
static inline long file_bytes(const char *name, unsigned char *to, size_t room)
{
    int fd = open(name, O_RDONLY);
    if (fd < 0)
        return -1;
    ssize_t got = pread(fd, to, room, 0);
    close(fd);
    return (long)got;
}

/* The size of a file; -1 if there is none. */
static inline long file_size(const char *name)
{
    struct stat st;
    return stat(name, &st) ? -1 : (long)st.st_size;
}

static inline MPI_File file_open(const char *name, int amode)
{
    MPI_File fh;
    OK(MPI_File_open(MPI_COMM_WORLD, (char *)name, amode, MPI_INFO_NULL, &fh));
    return fh;
}

/* Items that an access has moved. */
static inline int moved(MPI_Status *status, MPI_Datatype type)
{
    int count = -1;
    MPI_Get_count(status, type, &count);
    return count;
}
#endif
