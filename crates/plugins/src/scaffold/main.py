"""Reads one request as a line of JSON, and writes one answer as a line of JSON."""
import json
import sys

request = json.loads(sys.stdin.readline())
words = len(request["arguments"]["text"].split())
print(json.dumps({"ok": True, "data": {"words": words}}))
