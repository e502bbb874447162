"""Runs a command on a machine with a folder that hangs: nobody answers a request for anything in it.

Usage: hanging_folder.py FOLDER COMMAND...

Prints what the command printed, and then one line: the number of requests that it made to the folder,
and the number of requests of a control, which lists the folder.
"""

import ctypes
import os
import struct
import subprocess
import sys
import threading

libc = ctypes.CDLL(None, use_errno=True)


def check(result):
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


class Requests(threading.Thread):
    """Takes requests, and answers none of them."""

    def __init__(self, device):
        super().__init__(daemon=True)
        self.device, self.count, self.came = device, 0, threading.Event()

    def run(self):
        while True:
            try:
                os.read(self.device, 1 << 18)
            except OSError:
                return
            self.count += 1
            self.came.set()


folder, command = sys.argv[1], sys.argv[2:]
# A mount namespace of its own, from which nothing gets out.
check(libc.unshare(0x00020000))
check(libc.mount(b"none", b"/", None, 0x4000 | 0x40000, None))
device = os.open("/dev/fuse", os.O_RDWR)
options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other"
check(libc.mount(b"hanging", folder.encode(), b"fuse.hanging", 0, options.encode()))
# The first request is about the protocol (FUSE_INIT); without an answer nothing else is asked.
length, operation, unique = struct.unpack_from("=IIQ", os.read(device, 1 << 18))
assert operation == 26, operation
answer = struct.pack("=IIIIHHIIHHI28x", 7, 31, 0, 0, 12, 9, 131072, 1, 0, 0, 0)
os.write(device, struct.pack("=IiQ", 16 + len(answer), 0, unique) + answer)

requests = Requests(device)
requests.start()
child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
try:
    out, err = child.communicate(timeout=60)
except subprocess.TimeoutExpired:
    print("it hangs, with requests:", requests.count)
    sys.stdout.flush()
    child.kill()
    # Only the end of the connection ends a request that was taken.
    os._exit(1)
sys.stdout.buffer.write(out)
sys.stderr.buffer.write(err)
sys.stderr.flush()
made = requests.count
requests.came.clear()
# By its path, because the search path leads into the folder.
control = subprocess.Popen(["/bin/ls", folder + "/bin"], stdin=subprocess.DEVNULL)
requests.came.wait()
print(made, requests.count - made)
sys.stdout.flush()
# Nothing waits for the control, for the same reason.
control.kill()
os._exit(0)
