"""Prints the calls that scip-python finds within a package, for `cargo xtask eval oracles`.

python3 calls_of_python.py FOLDER INDEX

SCIP knows references, not calls: a reference to a function or class that an opening parenthesis follows is a call,
and any other one is not decided. A line without any reference is one that the type checker takes for unreachable, and a name without one is of an
object that it does not know.
Calls by operators and of functions without a name are in no index.
"""

import json
import re
import sys
from pathlib import Path


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def fields(data):
    """Yields number and value of each field of a protobuf message."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(data, at)
        elif kind == 2:
            length, at = varint(data, at)
            value, at = data[at : at + length], at + length
        else:
            raise ValueError(f"wire type {kind}")
        yield key >> 3, value


def numbers(data):
    found, at = [], 0
    while at < len(data):
        value, at = varint(data, at)
        found.append(value)
    return found


def documents(index):
    """Yields the path and the occurrences (range, symbol, roles) of each document."""
    for number, value in fields(index):
        if number != 2:
            continue
        path, occurrences = "", []
        for inner, part in fields(value):
            if inner == 1:
                path = part.decode()
            elif inner == 2:
                occurrence = dict(fields(part))
                symbol = occurrence.get(2, b"").decode()
                occurrences.append((numbers(occurrence.get(1, b"")), symbol, occurrence.get(3, 0)))
        yield path, occurrences


root, index = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).read_bytes()
all_documents = list(documents(index))
definitions = {}
for path, occurrences in all_documents:
    for where, symbol, roles in occurrences:
        if roles & 1 and not symbol.startswith("local "):
            definitions.setdefault(symbol, (path, where[0] + 1))

edges, undecided, outside, silent = [], [], 0, []
for path, occurrences in all_documents:
    lines = (root / path).read_text().split("\n")
    spoken = {where[0] for where, _, _ in occurrences}
    starts = {(where[0], where[1]) for where, _, _ in occurrences}
    for at, text in enumerate(lines):
        for call in re.finditer(r"(\w+)\s*\(", text):
            if (at, call.start()) not in starts:
                silent.append({"file": path, "line": at + 1, "name": call[1]})
    silent += [{"file": path, "line": at + 1, "name": ""} for at in range(len(lines)) if at not in spoken]
    for where, symbol, roles in occurrences:
        line, start = where[0], where[1]
        end_line, end = (where[2], where[3]) if len(where) == 4 else (line, where[2])
        is_callable = symbol.endswith("().") or symbol.endswith("#")
        name = re.split(r"[/#]", symbol.rstrip("#.()"))[-1].strip("`")
        if roles & 1:
            continue
        if not is_callable:
            # A variable or parameter may hold a function.
            if lines[end_line][end:].lstrip().startswith(("(", "[")):
                undecided.append({"file": path, "line": line + 1, "name": ""})
            continue
        after = lines[end_line][end:].lstrip()
        before = lines[line][:start].rstrip()
        place = definitions.get(symbol)
        if place is None:
            outside += 1
        elif after.startswith("(") and not before.endswith(("@", "def", "class")):
            edges.append({"file": path, "line": line + 1, "name": name, "to_file": place[0], "to_line": place[1]})
        else:
            undecided.append({"file": path, "line": line + 1, "name": name})
print(json.dumps({"edges": edges, "undecided": undecided + silent, "outside": outside}))
