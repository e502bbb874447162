"""The second engine of `cargo xtask eval cypher`: graphdblite, in a process of its own.

Each line of standard input is an object with a statement that makes a graph (`create`) and `queries`. For each
query it prints a line: the `rows`, each as the list of its columns `c0`, `c1` and so on, or the `error`. A query that
takes longer than 10 seconds ends the process, because the engine cannot be interrupted.
"""

import json
import math
import os
import resource
import signal
import sys
import tempfile

import graphdblite

SECONDS = 10
MEMORY = 2 << 30


def plain(value):
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


def answer(database, query):
    signal.alarm(SECONDS)
    try:
        rows = database.query(query)
    except (graphdblite.GraphDBError, ValueError) as error:
        return {"error": f"{type(error).__name__}: {error}"}
    finally:
        signal.alarm(0)
    return {"rows": [[plain(row[f"c{at}"]) for at in range(len(row))] for row in rows]}


def main():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    with tempfile.TemporaryDirectory() as folder:
        for number, line in enumerate(sys.stdin):
            asked = json.loads(line)
            path = os.path.join(folder, f"{number}.db")
            with graphdblite.Database(path) as database:
                database.execute(asked["create"])
                for query in asked["queries"]:
                    print(json.dumps(answer(database, query)), flush=True)
            for name in os.listdir(folder):
                os.remove(os.path.join(folder, name))


main()
