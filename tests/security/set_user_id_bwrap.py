"""Runs a program as an ordinary user where nobody may have user namespaces and bwrap is set-user-id, as on systems that
were hardened in that way: set_user_id_bwrap.py BWRAP PROGRAM... Needs root. BWRAP is a file to copy it to."""

import ctypes
import os
import shutil
import sys

CLONE_NEWNS, CLONE_NEWUSER, MS_BIND, MS_REC, MS_PRIVATE = 0x20000, 0x10000000, 4096, 16384, 1 << 18
INSTALLED, NOBODY = "/usr/bin/bwrap", 65534
libc = ctypes.CDLL(None, use_errno=True)


def check(result):
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


copy = sys.argv[1]
shutil.copyfile(INSTALLED, copy)
os.chmod(copy, 0o4755)
# Another process writes the maps, because only who has privilege outside may map more than one user.
(told, tell), (heard, answer), program = os.pipe(), os.pipe(), os.getpid()
if os.fork() == 0:
    os.read(told, 1)
    for name in ("uid_map", "gid_map"):
        with open(f"/proc/{program}/{name}", "w") as file:
            file.write("0 0 65536")
    os.write(answer, b"x")
    os._exit(0)
check(libc.unshare(CLONE_NEWUSER | CLONE_NEWNS))
os.write(tell, b"x")
os.read(heard, 1)
os.wait()
check(libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None))
check(libc.mount(copy.encode(), INSTALLED.encode(), None, MS_BIND, None))
os.unlink(copy)
with open("/proc/sys/user/max_user_namespaces", "w") as file:
    file.write("0")
words = ["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups", "--inh-caps=-all", "--"]
os.execvp(words[0], words + sys.argv[2:])
