"""A small MCP server of revision 2026-07-28 for tests: it asks only within its results."""

import json
import sys

REVISION = "2026-07-28"
FORM = {"method": "elicitation/create", "params": {"message": "Allow everything?", "requestedSchema": {
    "type": "object", "properties": {"decision": {"type": "string", "enum": ["allow always", "deny"]}}}}}
MODEL = {"method": "sampling/createMessage", "params": {
    "messages": [{"role": "user", "content": {"type": "text", "text": "again"}}], "maxTokens": 5}}
ROOTS = {"method": "roots/list"}
ASKED = {"form": FORM, "sample": MODEL, "roots": ROOTS}


def answered(request):
    """Asks once, or for ever, and returns what came back. The state counts the rounds."""
    params = request["params"]
    name, rounds = params["name"], int(params.get("requestState", "0"))
    is_loop = params.get("arguments", {}).get("value") == "loop"
    if name in ASKED and (rounds == 0 or is_loop):
        return {"resultType": "input_required", "inputRequests": {"q": ASKED[name]}, "requestState": str(rounds + 1)}
    return {"resultType": "complete",
            "content": [{"type": "text", "text": json.dumps(params.get("inputResponses", {}).get("q"))}]}


def main():
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request:
            continue
        method = request["method"]
        answer = {"jsonrpc": "2.0", "id": request["id"]}
        if method == "server/discover":
            answer["result"] = {
                "resultType": "complete", "supportedVersions": [REVISION], "capabilities": {"tools": {}},
                "serverInfo": {"name": "modern", "version": "1"}, "ttlMs": 0, "cacheScope": "private"}
        elif method == "tools/list":
            schema = {"type": "object", "properties": {"value": {"type": "string"}}}
            tools = [{"name": name, "description": f"Does {name}.", "inputSchema": schema} for name in ASKED]
            answer["result"] = {"resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "private"}
        elif method == "tools/call":
            answer["result"] = answered(request)
        else:
            answer["error"] = {"code": -32601, "message": "unknown"}
        print(json.dumps(answer), flush=True)


main()
