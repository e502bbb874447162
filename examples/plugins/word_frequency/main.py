"""Counts the words of a file of the workspace."""
import collections
import json
import pathlib
import re
import sys

LARGEST = 5_000_000


def answer(arguments, workspace):
    path = (workspace / arguments["path"]).resolve()
    if not path.is_relative_to(workspace):
        return refuse("EVALIDATION", "`path` leads out of the workspace", "name a file of the workspace")
    if not path.is_file():
        return refuse("ENOTFOUND", f"there is no file {arguments['path']}", "file_list lists the files")
    with path.open(encoding="utf-8", errors="replace") as file:
        words = re.findall(r"\w+", file.read(LARGEST).lower())
    counted = collections.Counter(words).most_common(arguments.get("most", 10))
    return {"ok": True, "data": {"words": [{"word": word, "count": count} for word, count in counted]}}


def refuse(code, message, hint):
    return {"ok": False, "error": {"code": code, "message": message, "hint": hint}}


request = json.loads(sys.stdin.readline())
workspace = pathlib.Path(request["call"]["workspace"]).resolve()
print(json.dumps(answer(request["arguments"], workspace)))
