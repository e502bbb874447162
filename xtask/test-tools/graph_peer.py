"""The peer of the benchmark of the code graph: Kuzu, in a process of its own, on one thread.

Argument: a folder with functions.csv (id, name, file) and calls.csv (from, to, line). It prints an object when these
are loaded. Then each line of standard input is an object with a `query` and its `parameters`, and it prints how many
`seconds` the rows took and how many `rows` there were.
"""

import json
import sys
import time

import kuzu


def main():
    folder = sys.argv[1]
    connection = kuzu.Connection(kuzu.Database("", buffer_pool_size=2 << 30), num_threads=1)
    began = time.process_time()
    connection.execute("CREATE NODE TABLE Function(id INT64, name STRING, file STRING, PRIMARY KEY(id))")
    connection.execute("CREATE REL TABLE CALLS(FROM Function TO Function, line INT64)")
    connection.execute(f"COPY Function FROM '{folder}/functions.csv'")
    connection.execute(f"COPY CALLS FROM '{folder}/calls.csv'")
    took = time.process_time() - began
    print(json.dumps({"loaded": f"Kuzu {kuzu.__version__}, loaded in {took:.1f} CPU seconds"}), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        began = time.perf_counter()
        rows = connection.execute(asked["query"], asked["parameters"]).get_all()
        took = time.perf_counter() - began
        print(json.dumps({"seconds": took, "rows": len(rows)}), flush=True)


main()
