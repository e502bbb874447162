"""Attaches unmodified agent clients to Handfast and drives them with a scripted model.

Each run has a home folder and a workspace of its own. It attaches the client with `handfast attach`, starts the client
in its default settings, lets the scripted model make calls, and judges the evidence (see `trial`). Prints one line for
each client, and exits with 1 if an assertion failed or a client is missing. It reaches nothing outside this machine.
"""

import argparse
import sys
import traceback
from pathlib import Path

from agents import AGENTS
from trial import KINDS, Trial


def attempt(options, name, kind):
    """Runs one kind of attachment of a client, and returns the run with its assertions."""
    trial = Trial(options, name, kind)
    try:
        trial.run_all()
    except Exception:
        trial.check("the run itself works", False, traceback.format_exc())
    finally:
        trial.end()
    return trial


def main():
    """Drives the clients that the command line names, and prints what came out."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", type=Path, required=True, help="program to attach")
    parser.add_argument("--modules", type=Path, required=True, help="node_modules with the clients")
    parser.add_argument("--folder", type=Path, required=True, help="folder for the runs, which stay there")
    parser.add_argument("--kind", action="append", choices=list(KINDS), help="only this kind of attachment")
    parser.add_argument("clients", nargs="*", metavar="CLIENT", help=f"only these: {', '.join(AGENTS)}")
    options = parser.parse_args()
    unknown = [name for name in options.clients if name not in AGENTS]
    if unknown:
        parser.error(f"unknown client {unknown[0]}; known are {', '.join(AGENTS)}")
    for path in ("binary", "modules", "folder"):
        setattr(options, path, getattr(options, path).absolute())
    row = "{:<10} {:<12} {:>9} {:>9} {:>6} {:>7}  {}".format
    print(row("client", "version", "attach ms", "start ms", "calls", "checks", "verdict"), flush=True)
    failed = []
    for name in options.clients or AGENTS:
        trials = [attempt(options, name, kind) for kind in AGENTS[name].kinds if kind in (options.kind or KINDS)]
        wrong = [(trial, check) for trial in trials for check in trial.checks if not check.holds]
        bad = {trial.kind for trial, _ in wrong}
        parts = [f"{trial.kind} {'FAILED' if trial.kind in bad else 'ok'}" for trial in trials]
        first = trials[0]
        calls, checks = sum(len(trial.calls()) for trial in trials), sum(len(trial.checks) for trial in trials)
        cells = (name, first.version, first.handshake, first.milliseconds, calls, checks, ", ".join(parts))
        print(row(*cells), flush=True)
        failed += wrong
    for trial, check in failed:
        print(f"\nFAILED {trial.name} {trial.kind}: {check.what}\n  {check.detail}\n  (files of the run: {trial.root})")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
