"""The commands that the read-me and the page of the installation name, and which of them the clean root runs.

A command is a line of a fenced `sh` block, or a span in backticks that begins with one of the programs below.
Every one matches one pattern: of a command that is run, or of one that cannot run in the root, with the reason.
A command that matches none, and a pattern that no command matches, is an error, so neither side can drift.
Run as a program with the folder of the documents, it checks that, and prints the names of the ways to install.
"""

import re
import sys
from pathlib import Path

DOCUMENTS = ("README.md", "docs/INSTALL.md")

# A span that begins with one of these and goes on is a command. `deny` is the second half of a sentence about approvals.
PROGRAMS = ("handfast", "sudo", "npm", "npx", "uv", "uvx", "pip", "pipx", "python3", "~/.venv/bin/pip", "tar", "apt",
            "cargo", "docker", "gh", "cp", "deny")

# The ways to install, each with the names of its commands below, in order.
FORMS = {
    "archive": ["tar", "install"],
    "deb": ["apt"],
    "npm": ["npm files", "npx"],
    "pip": ["venv", "pip file"],
    "uv": ["uv file", "uv path", "uvx"],
}

# The commands that run, by a name for each.
RUN = {
    "tar": r"tar -xzf handfast-\S+\.tar\.gz",
    "install": r"sudo install handfast-\*/handfast /usr/local/bin",
    "apt": r"sudo apt install \./handfast_\S+\.deb",
    "apt remove": r"sudo apt remove handfast",
    "npm files": r"npm install --global --offline \./handfast-\S+\.tgz \./handfast-linux-\S+\.tgz",
    "npm remove": r"npm uninstall --global handfast @handfast/linux-x64",
    "npx": r"npx handfast mcp",
    "venv": r"python3 -m venv ~/\.venv",
    "pip file": r"~/\.venv/bin/pip install --no-index \./handfast-\*\.whl",
    "uv file": r"uv tool install --offline \./handfast-\*\.whl",
    "uv path": r"uv tool update-shell",
    "uv remove": r"uv tool uninstall handfast",
    "uvx": r"uvx handfast mcp",
    "checksums": r"sha256sum --check --ignore-missing SHA256SUMS",
    "search": r"handfast call file_search '.*'",
    "folder": r"cd ~/my-project",
    "up": r"handfast up",
    "attach": r"handfast attach claude",
    "detach": r"handfast detach claude",
    "detach any": r"handfast detach CLIENT",
    "mcp": r"handfast mcp",
    "doctor": r"handfast doctor",
    "log": r"handfast log",
    "undo": r"handfast undo",
    "screen": r"handfast approvals",
    "approve": r"handfast approvals approve ID",
    "deny": r"deny ID --message TEXT",
    "revoke": r"handfast approvals revoke LEASE",
    "csp": r"printf '.*' \| handfast csp",
    "tools": r"handfast tools --dialect D --json",
    "completions": r"handfast completions bash",
    "export": r"handfast audit export",
    "copy": r"cp -a ~/\.local/state/handfast ~/handfast-backup",
    "verify": r"handfast audit verify --state ~/handfast-backup",
}

# The commands that run in the form whose program they remove, besides those above.
REMOVE = {"deb": "apt remove", "npm": "npm remove", "uv": "uv remove"}

# The commands that cannot run in the clean root, with the reason.
CANNOT = {
    r"cargo (install .*|uninstall handfast|xtask( dist| test)?)": "the clean root has no Rust",
    r"handfast setup browser": "the root has no network, and the browser tools are optional",
    r"handfast setup languages( --from .*)?":
        "the root has no network and no package of languages; tests/functional/languages.rs installs one",
    r"docker .*": "a container engine needs a machine of its own; the package that the image installs is tried",
    r"gh attestation verify .*": "it asks the forge about a published release",
    r"(npm (un)?install --global|uv tool install|pipx install|pip install) handfast":
        "it concerns the published release in a registry; the files of the same packages are tried here",
    r"sudo handfast setup sandbox( --remove)?":
        "it changes the AppArmor profiles of the kernel, which the clean root shares with this machine",
}


class Drift(Exception):
    """A document and the patterns of this file that do not belong together."""


def commands(text):
    """Yields the commands of a document."""
    block = None
    for line in text.splitlines():
        if line.startswith("```"):
            block = None if block else line
        elif block == "```sh" and line.strip():
            yield re.sub(r"\s+# .*", "", line).strip()
        elif block is None:
            spans = re.findall(r"`([^`]+)`", line)
            yield from (span for span in spans if " " in span and span.split()[0] in PROGRAMS)


def read(folder):
    """Returns the text of each command that runs, by its name. Raises if documents and patterns differ."""
    found, unused = {}, set(CANNOT)
    for document in DOCUMENTS:
        for command in commands((Path(folder) / document).read_text()):
            names = [name for name, pattern in RUN.items() if re.fullmatch(pattern, command)]
            reasons = [pattern for pattern in CANNOT if re.fullmatch(pattern, command)]
            if len(names) + len(reasons) != 1:
                raise Drift(f"{document}: `{command}` is {'not known' if not names + reasons else 'known twice'}; "
                            "run it in xtask/dist/clean-root/follow.py, or say in commands.py why it cannot run")
            unused.difference_update(reasons)
            for name in names:
                if found.setdefault(name, command) != command:
                    raise Drift(f"{document}: `{command}` is elsewhere `{found[name]}`")
    for gone in [*(RUN[name] for name in RUN if name not in found), *unused]:
        raise Drift(f"no document has the command {gone}")
    return found


def example(folder):
    """Returns the answer that the read-me shows below its first command."""
    return re.search(r"```json\n(.*?)```", (Path(folder) / "README.md").read_text(), re.DOTALL)[1]


if __name__ == "__main__":
    try:
        read(sys.argv[1])
        print("\n".join(FORMS))
    except Drift as drift:
        sys.exit(f"commands.py: {drift}")
