/* A process without MPI that has the buffers of peers.c, says that it is there and sleeps: what such a program needs without any library. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char in[65536];

int main(void)
{
    memset(in, 1, sizeof in);
    __asm__ volatile("" : : "r"(in) : "memory");
    printf("ready %d\n", (int)getpid());
    fflush(stdout);
    for (;;) pause();
}
