"""Installs one artefact in the clean root as the documents say, and follows the read-me with it.

Runs as the user who installs. Every command of a document is run as it stands there, each in a new login shell, as in
a new terminal; what a person would choose in it is filled in (an id, a client). The first thing that is not as it
should be ends the script with 1. Reaches no network but loopback.
Arguments: the form. /handfast has the artefacts, the documents and this folder.
"""

import json
import os
import platform
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import commands
from terminal import on_a_terminal

BROUGHT = Path("/handfast")
HOME = Path.home()
PROJECT = HOME / "my-project"
DOWNLOADS = HOME / "Downloads"
CLIENT = ["/opt/client/bin/python", str(BROUGHT / "clean-root/client.py")]
# The promise: from nothing to the first call of a client that is installed.
SECONDS, COMMANDS = 60, 3
# Exit codes of a call that waits for an answer, and of one that is denied.
ASKS, DENIED = 4, 3
# The commands that start the server at once, instead of installing it.
STARTS = ("npx", "uvx")
# The documents name the files of x86-64.
ARCHITECTURE = {"x86_64": {}, "aarch64": {"amd64": "arm64", "x86_64": "aarch64", "x64": "arm64"}}[platform.machine()]


class Followed:
    """The documents' commands, and those of them that were run."""

    def __init__(self, form):
        self.form, self.texts, self.ran = form, commands.read(BROUGHT), set()

    def text(self, name):
        """Returns a command of the documents, and counts it as run."""
        self.ran.add(name)
        text = self.texts[name]
        for there, here in ARCHITECTURE.items():
            text = text.replace(there, here)
        return text

    def run(self, name, folder=PROJECT, add="", code=0, **chosen):
        """Runs a command of the documents, with what a person chooses in it. Returns what it printed."""
        text = self.text(name)
        for word, value in chosen.items():
            expect(word in text, f"`{text}` has no {word} any longer")
            text = text.replace(word, shlex.quote(value))
        return shell(text + add, folder, code)

    def left(self):
        """Returns the commands of the documents that this form should have run and has not."""
        others = {name for form in commands.FORMS if form != self.form for name in of_form(form)}
        return set(commands.RUN) - self.ran - (others - set(of_form(self.form)))


def of_form(form):
    """Returns the names of the commands that only this form runs."""
    removes = [commands.REMOVE[form]] if form in commands.REMOVE else []
    return commands.FORMS[form] + removes


def expect(true, otherwise):
    """Ends the script with this text if something is not as it should be."""
    if not true:
        sys.exit(f"follow.py: {otherwise}")


def login(text):
    """Returns the words that run a command in a new login shell. After pip's installation, its folder is in `PATH`, as
    activating it has it."""
    activated = 'PATH="$HOME/.venv/bin:$PATH"; ' if (HOME / ".venv").is_dir() else ""
    return ["/bin/bash", "--login", "-c", activated + text]


def shell(text, folder=PROJECT, code=0):
    """Runs a command line to its end, and returns what it printed. Another exit code than this one ends the script."""
    began = time.monotonic()
    done = subprocess.run(login(text), cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    print(f"{time.monotonic() - began:5.1f} s  {text[:100]}", file=sys.stderr)
    expect(done.returncode == code,
           f"`{text}` ended with {done.returncode}, not {code}:\n{done.stdout}{done.stderr}")
    return done.stdout


def has(program):
    """Returns true if a new shell finds this program."""
    return subprocess.run(login(f"command -v {program}"), capture_output=True).returncode == 0


def with_sudo(text):
    """Returns a command with `sudo` where the page says that an npm of the system needs it."""
    return f"sudo {text}" if text.startswith("npm ") and os.getuid() != 0 else text


def begin():
    """Makes the folders of a user who has downloaded the files of this machine, and a project."""
    for program in ("handfast", "cargo", "rustc"):
        expect(not has(program), f"the clean root has {program} already")
    names = ["amd64", "x86_64", "x64"]
    names = [ARCHITECTURE.get(name, name) for name in names]
    DOWNLOADS.mkdir()
    for file in (BROUGHT / "artefacts").iterdir():
        of_no_architecture = file.suffix in ("", ".json") or re.fullmatch(r"handfast-[\d.]+\.tgz", file.name)
        if of_no_architecture or any(re.search(rf"[-_]{name}\b", file.name) for name in names):
            shutil.copy(file, DOWNLOADS)
    PROJECT.mkdir()
    (PROJECT / "a.txt").write_text("handfast\n")
    for name in "bcdef":
        (PROJECT / f"{name}.txt").write_text("something else\n")


def install(followed):
    """Installs, attaches a client and makes a call with it. Returns the seconds and the commands that it took."""
    steps = [name for name in commands.FORMS[followed.form] if name not in STARTS]
    began = time.monotonic()
    for name in steps:
        shell(with_sudo(followed.text(name)), DOWNLOADS)
    # Claude Code is not installed here, so its configuration is written by force; the official client reads it.
    followed.run("attach", add=" --force")
    shell(shlex.join([*CLIENT, str(HOME / ".claude.json")]))
    return time.monotonic() - began, len(steps) + 1


def by_hand(followed):
    """Makes the calls of the read-me that need no server, and compares the first with the answer that it shows."""
    followed.run("checksums", DOWNLOADS)
    answer = json.loads(followed.run("search"))
    shown = json.loads(commands.example(BROUGHT))
    expect({key: answer[key] for key in shown} == shown, f"the read-me shows {shown}, but the answer is {answer}")
    expect("rule" in answer["meta"], "the answer does not name the rule")
    doctor = followed.run("doctor")
    answer = followed.run("csp")
    expect("STATUS OK" in answer and "a.txt" in answer, f"CSP/1 answered {answer}")
    dialects = re.search(r"`--dialect elophanto`(.*)\.$", (BROUGHT / "README.md").read_text(), re.MULTILINE)[1]
    for dialect in ["elophanto", *re.findall(r"`(\w+)`", dialects)]:
        tools = json.loads(followed.run("tools", D=dialect))
        expect(tools, f"the dialect {dialect} has no tools")
    expect("complete" in followed.run("completions"), "no completions were printed")
    for name in ["mcp", *(name for name in commands.FORMS[followed.form] if name in STARTS)]:
        # Where uvx finds the package, as the registry is not here.
        offline = f"UV_OFFLINE=1 UV_FIND_LINKS={DOWNLOADS} " if name == "uvx" else ""
        shell(offline + shlex.join([*CLIENT, "--"]) + " " + followed.text(name))
    return doctor.splitlines()[0]


def serve(followed):
    """Serves the project and reaches each door with the token that is printed."""
    text = f"{followed.text('folder')}\n{followed.text('up')}"
    server = subprocess.Popen(login(text), cwd=HOME, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                              start_new_session=True)
    printed = ""
    while not re.search(r"^by hand:\n.+\n", printed, re.MULTILINE):
        line = server.stdout.readline()
        expect(line, f"`handfast up` ended:\n{printed}")
        printed += line
    try:
        base = re.search(r"http://[\d.:]+", printed)[0]
        expect(f"on `{base}`" in (BROUGHT / "README.md").read_text(), f"the read-me does not name {base}")
        answer = json.loads(shell(re.search(r"^by hand:\n +(curl .+)$", printed, re.MULTILINE)[1]))
        expect(answer["ok"] and "a.txt" in json.dumps(answer["data"]), f"the printed curl answered {answer}")
        token = re.search(r"agents' token: (\S+)", printed)[1]
        hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "curl", "version": "1"}}}
        post = f"curl --silent --fail --max-time 20 {base}/mcp -H 'Content-Type: application/json' " \
            f"-H 'Accept: application/json, text/event-stream' -d {shlex.quote(json.dumps(hello))}"
        answer = shell(f"{post} -H 'Authorization: Bearer {token}'")
        expect('"serverInfo"' in answer, f"/mcp answered {answer}")
        # curl exits with 22 for 401.
        shell(f"{post} -H 'Authorization: Bearer wrong'", code=22)
        key = re.search(r"`/metrics` for the token in `(~/.+?)`", (BROUGHT / "README.md").read_text())[1]
        metrics = shell(f"curl --silent --fail {base}/metrics -H \"Authorization: Bearer $(cat {key})\"")
        expect("handfast_" in metrics, f"/metrics answered {metrics}")
    finally:
        # As a terminal does for Ctrl-C: to every process of the command.
        os.killpg(server.pid, signal.SIGINT)
        code = server.wait(timeout=30)
    # 128 and the number of the signal, as shells have it.
    expect(code == 128 + signal.SIGINT, f"after Ctrl-C, `handfast up` ended with {code}")


def undo(followed):
    """Changes a file by a command in a cell, and undoes that."""
    arguments = json.dumps({"command": "echo changed > a.txt"})
    answer = json.loads(shell(f"handfast call shell_execute {shlex.quote(arguments)}"))
    expect(answer["ok"] and (PROJECT / "a.txt").read_text() == "changed\n", f"the call answered {answer}")
    expect("echo changed > a.txt" in followed.run("log"), "the log does not have the command")
    on_a_terminal(login(followed.text("undo")), PROJECT, "Undo which?", "1\n")
    expect((PROJECT / "a.txt").read_text() == "handfast\n", "undo did not restore the file")
    return len(answer["meta"]["sandbox"])


def approve(followed):
    """Answers questions: approves, denies, and revokes a permission for a time."""
    def write(name, code=0):
        arguments = shlex.quote(json.dumps({"path": str(HOME / name), "content": "x"}))
        answer = json.loads(shell(f"handfast --no-input call file_write {arguments}", code=code))
        expect((HOME / name).exists() == (code == 0), f"the call for {name} answered {answer}")
        return answer

    def ask(name):
        answer = write(name, ASKS)
        expect(answer["error"]["code"] == "EAPPROVAL", f"no question: {answer}")
        return answer["error"]["approval_id"]

    question = ask("once.txt")
    on_a_terminal(login(followed.text("screen")), PROJECT, "file_write", "q")
    followed.run("approve", ID=question)
    write("once.txt")
    words = followed.text("deny").replace("ID", ask("denied.txt")).replace("TEXT", "'not now'")
    shell(f"handfast approvals {words}")
    answer = write("denied.txt", DENIED)
    expect("not now" in answer["error"]["message"], f"the message to the agent is missing: {answer}")
    followed.run("approve", add=" --scope project", ID=ask("leased.txt"))
    write("leased.txt")
    (HOME / "leased.txt").unlink()
    write("leased.txt")
    (HOME / "leased.txt").unlink()
    leases = json.loads(shell("handfast approvals leases --json"))
    expect(len(leases) == 1, f"one lease is in force: {leases}")
    followed.run("revoke", LEASE=leases[0]["id"])
    ask("leased.txt")


def detach(followed):
    """Takes Handfast out of Claude Code again, and attaches and detaches every other client that the read-me names."""
    configuration = HOME / ".claude.json"
    expect("handfast" in configuration.read_text(), "Claude Code was not attached")
    followed.run("detach")
    # A file that the attachment made is removed again.
    expect(not configuration.exists() or "handfast" not in configuration.read_text(), "Claude Code is still attached")
    others = re.search(r"^It does the same for (.*?);", (BROUGHT / "README.md").read_text(), re.MULTILINE)[1]
    others = re.findall(r"`(\w+)`", others)
    expect(len(others) > 5, f"the read-me names only the clients {others}")
    attach = followed.text("attach")
    for client in others:
        shown = shell(f"{attach.replace('claude', client)} --dry-run --force")
        expect("handfast" in shown, f"attach {client} --dry-run shows {shown}")
        shell(f"{attach.replace('claude', client)} --force")
        followed.run("detach any", CLIENT=client)
    return len(others) + 1


def remove(followed):
    """Backs the state up as the page says, then removes the program by its own client, where it has one."""
    rows = followed.run("export").splitlines()
    expect(len(rows) > 10 and all(json.loads(row) for row in rows), "the audit has too few rows")
    followed.run("copy")
    followed.run("verify")
    if followed.form in commands.REMOVE:
        text = followed.text(commands.REMOVE[followed.form])
        if followed.form == "deb":
            # apt asks its user before it removes something.
            on_a_terminal(login(text), HOME, "continue? [Y/n]", "y\n")
        else:
            shell(with_sudo(text))
        expect(not has("handfast"), "the program is still there")


def main():
    form = sys.argv[1]
    followed = Followed(form)
    begin()
    seconds, count = install(followed)
    head = by_hand(followed)
    serve(followed)
    bounds = undo(followed)
    approve(followed)
    clients = detach(followed)
    remove(followed)
    expect(not followed.left(), f"commands of the documents were not run: {followed.left()}")
    expect(seconds <= SECONDS and count <= COMMANDS,
           f"the first call took {seconds:.1f} s and {count} commands, more than {SECONDS} s or {COMMANDS}")
    user = "root" if os.getuid() == 0 else "an ordinary user"
    print(f"{form}, {user}: first call after {seconds:.1f} s and {count} commands; {len(followed.ran)} commands of the "
          f"documents work, {clients} clients attached, {bounds} bounds on a command; doctor: {head}")


main()
