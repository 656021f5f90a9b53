/* A process without MPI that says that it is there and sleeps: what every process of this C library needs. */
#include <stdio.h>
#include <unistd.h>

int main(void)
{
    printf("ready %d\n", (int)getpid());
    fflush(stdout);
    for (;;) pause();
}
