/* deny LIST COMMAND...: runs COMMAND with system calls of LIST refused (EPERM) by seccomp, as container engines do.
 * process_vm: process_vm_readv/writev; pidfd: pidfd_open, pidfd_getfd. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    struct sock_filter code[64];
    int n = 0;
#define STEP(...) code[n++] = (struct sock_filter)__VA_ARGS__
#define REFUSE(call) do { STEP(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (call), 0, 1)); STEP(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)); } while (0)
    if (argc < 3)
        return 2;
    STEP(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)));
    if (strstr(argv[1], "process_vm")) { REFUSE(SYS_process_vm_readv); REFUSE(SYS_process_vm_writev); }
    if (strstr(argv[1], "pidfd")) { REFUSE(SYS_pidfd_open); REFUSE(438 /* pidfd_getfd */); }
    STEP(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    struct sock_fprog program = {(unsigned short)n, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
        perror("seccomp");
        return 3;
    }
    execvp(argv[2], argv + 2);
    perror(argv[2]);
    return 127;
}
