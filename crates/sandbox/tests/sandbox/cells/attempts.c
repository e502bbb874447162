// Attempts system calls that a cell must refuse, and prints one line for each attempt: its name,
// and 0 or the error number. With an argument, makes only the attempts that are harmless outside
// of a cell.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timex.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void say(const char *name, long result) { printf("%s %d\n", name, result < 0 ? errno : 0); fflush(stdout); }
#define TRY(name, ...) say(name, syscall(__VA_ARGS__))

// Clones with the given flags; a child that starts ends at once.
static long clone_with(unsigned long flags) {
    long pid = syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0);
    if (pid == 0) _exit(0);
    if (pid > 0) waitpid(pid, 0, 0);
    return pid;
}

static long clone3_with(unsigned long flags) {
    struct clone_args arguments = {.flags = flags, .exit_signal = SIGCHLD};
    long pid = syscall(SYS_clone3, &arguments, sizeof arguments);
    if (pid == 0) _exit(0);
    if (pid > 0) waitpid(pid, 0, 0);
    return pid;
}

// Prints the number of the signal that ends a child that calls `act`, or 0.
static void fate(const char *name, void (*act)(void)) {
    pid_t pid = fork();
    if (pid == 0) { act(); _exit(0); }
    int status = 0;
    waitpid(pid, &status, 0);
    printf("%s %d\n", name, WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    fflush(stdout);
}

#ifdef __x86_64__
static void call_i386(void) { long r; __asm__ volatile("int $0x80" : "=a"(r) : "a"(20) : "memory"); (void)r; }
static void call_x32(void) { syscall(0x40000000 | SYS_getpid); }
#endif
static void call_nothing(void) { }

int main(int count, char **arguments) {
    char buffer[4096] = {0};
    struct iovec vector = {buffer, 0};

    TRY("unshare", SYS_unshare, 0);
    if (fork() == 0) { TRY("ptrace", SYS_ptrace, PTRACE_TRACEME, 0, 0, 0); _exit(0); }
    wait(0);
    TRY("vm_readv", SYS_process_vm_readv, getpid(), &vector, 1, &vector, 1, 0);
    TRY("vm_writev", SYS_process_vm_writev, getpid(), &vector, 1, &vector, 1, 0);
    TRY("io_uring_enter", SYS_io_uring_enter, -1, 0, 0, 0, 0, 0);
    TRY("io_uring_register", SYS_io_uring_register, -1, 0, 0, 0);
    TRY("pidfd_getfd", SYS_pidfd_getfd, -1, 0, 0);
    say("clone3-plain", clone3_with(0));
    (void)arguments;
    if (count > 1) return 0;

    TRY("keyctl", SYS_keyctl, 0, -3, 1, 0, 0);
    TRY("add_key", SYS_add_key, "user", "handfast-test", "x", 1, -2);
    TRY("request_key", SYS_request_key, "user", "handfast-test", 0, 0);
    TRY("unshare-user", SYS_unshare, CLONE_NEWUSER);
    TRY("unshare-mount", SYS_unshare, CLONE_NEWNS);
    TRY("unshare-time", SYS_unshare, 0x80);
    say("clone-user", clone_with(CLONE_NEWUSER));
    say("clone-pid", clone_with(CLONE_NEWPID));
    say("clone-net", clone_with(CLONE_NEWNET));
    say("clone3-user", clone3_with(CLONE_NEWUSER));
    say("clone-plain", clone_with(0));
    TRY("setns", SYS_setns, open("/proc/self/ns/user", O_RDONLY), 0);
    TRY("mount", SYS_mount, "none", "/tmp", "tmpfs", 0, 0);
    TRY("remount", SYS_mount, "none", "/usr", 0, 32 | 4096, 0);
    TRY("umount", SYS_umount2, "/proc", 2);
    TRY("pivot_root", SYS_pivot_root, ".", ".");
    TRY("chroot", SYS_chroot, ".");
    TRY("open_tree", SYS_open_tree, AT_FDCWD, "/", 1);
    TRY("fsopen", SYS_fsopen, "tmpfs", 0);
    TRY("move_mount", SYS_move_mount, -1, "", -1, "", 0);
    TRY("mount_setattr", SYS_mount_setattr, AT_FDCWD, "/", 0, buffer, 32);
    TRY("open_tree_attr", 467, AT_FDCWD, "/", 1, buffer, 32);
    TRY("bpf", SYS_bpf, 0, buffer, 128);
    TRY("perf", SYS_perf_event_open, buffer, 0, -1, -1, 0);
    TRY("userfaultfd", SYS_userfaultfd, 1);
    TRY("io_uring_setup", SYS_io_uring_setup, 8, buffer);
    TRY("open_by_handle_at", SYS_open_by_handle_at, AT_FDCWD, buffer, 0);
    TRY("kcmp", SYS_kcmp, getpid(), getpid(), 0, 0, 0);
    TRY("fanotify", SYS_fanotify_init, 0x200, 0);
    TRY("kexec", SYS_kexec_load, 0, 0, 0, 0);
    TRY("init_module", SYS_init_module, buffer, 0, "");
    TRY("sethostname", SYS_sethostname, "x", 1);
    TRY("reboot", SYS_reboot, 0, 0, 0, 0);
    TRY("syslog", SYS_syslog, 3, buffer, sizeof buffer);
    TRY("quotactl", SYS_quotactl, 0x80000700, 0, 0, buffer);
    TRY("quotactl_fd", SYS_quotactl_fd, -1, 0x80000700, 0, buffer);
    TRY("setdomainname", SYS_setdomainname, "x", 1);
    struct timeval now = {1, 0};
    TRY("settimeofday", SYS_settimeofday, &now, 0);
    struct timespec then = {1, 0};
    TRY("clock_settime", SYS_clock_settime, CLOCK_REALTIME, &then);
    struct timex adjustment = {.modes = ADJ_TICK, .tick = 10000};
    TRY("clock_adjtime", SYS_clock_adjtime, CLOCK_REALTIME, &adjustment);
    TRY("swapon", SYS_swapon, "/dev/null", 0);
    TRY("acct", SYS_acct, 0);
    TRY("vhangup", SYS_vhangup);
    TRY("io_uring_setup-null", SYS_io_uring_setup, 1, 0);
    TRY("fspick", SYS_fspick, AT_FDCWD, "/", 0);
    TRY("finit_module", SYS_finit_module, -1, "", 0);
    TRY("delete_module", SYS_delete_module, "x", 0);
    TRY("kexec_file", SYS_kexec_file_load, -1, -1, 0, "", 0);
    TRY("mknod-device", SYS_mknodat, AT_FDCWD, "attempt-device", S_IFCHR | 0600, 0x103);
    TRY("setuid-root", SYS_setresuid, 0, 0, 0);
    TRY("realtime", SYS_sched_setscheduler, 0, SCHED_FIFO, &(struct sched_param){.sched_priority = 1});
    TRY("nice-up", SYS_setpriority, 0, 0, -5);
#ifdef __x86_64__
    TRY("iopl", SYS_iopl, 3);
    TRY("ioperm", SYS_ioperm, 0x80, 1, 1);
    TRY("modify_ldt", SYS_modify_ldt, 0, buffer, sizeof buffer);
#endif
    // The persona affects this process alone: debuggers and sanitizers set it.
    TRY("personality", SYS_personality, 0xffffffff);
    // Named objects are shared within the cell alone.
    int segment = shmget(0x68616e64, 4096, IPC_CREAT | 0600);
    say("segment", segment);
    say("segment-gone", shmctl(segment, IPC_RMID, 0));
    say("socket-vsock", socket(AF_VSOCK, SOCK_STREAM, 0));
    say("socket-bluetooth", socket(AF_BLUETOOTH, SOCK_RAW, 1));
    say("socket-can", socket(29, SOCK_RAW, 1));
    say("socket-xdp", socket(44, SOCK_RAW, 0));
    say("socket-audit", socket(AF_NETLINK, SOCK_RAW, 9));
    say("socketpair-vsock", socketpair(AF_VSOCK, SOCK_STREAM, 0, (int[2]){0}));
    say("socket-packet", socket(AF_PACKET, SOCK_DGRAM, 0));
    say("socket-alg", socket(AF_ALG, SOCK_SEQPACKET, 0));
    say("socket-uevent", socket(AF_NETLINK, SOCK_RAW, 15));
    say("socket-raw", socket(AF_INET, SOCK_RAW, 1));
    say("socket-route", socket(AF_NETLINK, SOCK_RAW, 0));
    say("socket-inet", socket(AF_INET, SOCK_STREAM, 0));
    say("socket-inet6", socket(AF_INET6, SOCK_STREAM, 0));
    say("socket-unix", socket(AF_UNIX, SOCK_STREAM, 0));

    int leader = posix_openpt(O_RDWR | O_NOCTTY);
    grantpt(leader);
    unlockpt(leader);
    int follower = open(ptsname(leader), O_RDWR | O_NOCTTY);
    char typed = 'x';
    say("terminal-size", ioctl(follower, TIOCGWINSZ, buffer));
    say("terminal-type", ioctl(follower, TIOCSTI, &typed));
    TRY("terminal-type-wide", SYS_ioctl, follower, (1UL << 32) | TIOCSTI, &typed);
    TRY("terminal-console", SYS_ioctl, follower, 0x541c, &typed);

#ifdef __x86_64__
    fate("call-i386", call_i386);
    fate("call-x32", call_x32);
#endif
    fate("call-nothing", call_nothing);
    return 0;
}
