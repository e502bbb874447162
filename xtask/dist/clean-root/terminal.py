"""Runs a command on a terminal, as a person does who waits for a text and then presses keys."""

import fcntl
import os
import pty
import select
import struct
import sys
import termios
import time

# Longest time for the text to appear, and for the command to end after the keys.
PATIENCE = 30


def on_a_terminal(words, folder, text, keys):
    """Runs these words, and presses the keys once the text was printed. Ends the script unless the command succeeds."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(folder)
        os.execv(words[0], words)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    printed, pressed, until = b"", False, time.monotonic() + PATIENCE
    while True:
        if not select.select([terminal], [], [], max(0, until - time.monotonic()))[0]:
            os.kill(child, 9)
            sys.exit(f"{words[-1]} {'did not end' if pressed else f'did not print {text}'}:\n{shown(printed)}")
        try:
            more = os.read(terminal, 65536)
        except OSError:
            # The terminal has no program any longer.
            more = b""
        if not more:
            break
        printed += more
        if not pressed and text.encode() in printed:
            os.write(terminal, keys.encode())
            pressed, until = True, time.monotonic() + PATIENCE
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code != 0 or not pressed:
        sys.exit(f"{words[-1]} ended with {code}{'' if pressed else f' without {text}'}:\n{shown(printed)}")


def shown(printed):
    """Returns what was printed as text."""
    return printed.decode(errors="replace")
