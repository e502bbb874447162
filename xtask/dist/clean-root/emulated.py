"""Runs the program of the other architecture in the clean root by an emulator, and says what works there.

The emulator translates one process. It runs no program that this one starts, unless the kernel knows the emulator, so
what a command in a cell does there, and which promises `doctor` finds kept, is printed and not judged. The workflow of
a release makes a call with a command on a machine of that architecture. All else must work here.
Argument: the name of the architecture, which is that of the folder in /handfast.
"""

import json
import shlex
import subprocess
import sys
from pathlib import Path

FOLDER = Path("/handfast") / sys.argv[1]
PROGRAM = [str(FOLDER / "emulator"), str(FOLDER / "handfast")]
PROJECT = Path.home() / "my-project"


def run(*arguments, codes=(0,)):
    """Runs the program, and returns what it printed. Another exit code than these ends the script."""
    done = subprocess.run([*PROGRAM, *arguments], cwd=PROJECT, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode not in codes:
        sys.exit(f"emulated.py: {shlex.join(arguments)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def main():
    PROJECT.mkdir()
    (PROJECT / "a.txt").write_text("handfast\n")
    version = run("--version").strip()
    answer = json.loads(run("call", "file_search", json.dumps({"path": ".", "pattern": "handfast"})))
    if [match["path"] for match in answer["data"]["matches"]] != ["a.txt"]:
        sys.exit(f"emulated.py: file_search answered {answer}")
    client = subprocess.run([sys.executable, Path(__file__).with_name("client.py"), "--", *PROGRAM, "mcp"], cwd=PROJECT,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=True)
    # It exits with 1 if a promise does not hold, as under an emulator; it must get to its end all the same.
    findings = json.loads(run("doctor", "--json", codes=(0, 1)))
    kept = sum(finding["verdict"] == "holds" for finding in findings)
    arguments = json.dumps({"command": "uname -m"})
    command = json.loads(run("--no-input", "call", "--yes", "shell_execute", arguments, codes=range(10)))
    said = command["data"]["stdout"].strip() if command["ok"] else command["error"]["message"]
    print(f"{sys.argv[1]}, emulated: {version}; file_search works; MCP: {client.stdout.strip()}; "
          f"doctor: {kept} of {len(findings)} findings hold; a command: {said}")


main()
