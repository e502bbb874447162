"""A small MCP server over HTTP for tests: its one tool repeats the header Authorization."""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOOL = {"name": "who", "description": "Tells.", "inputSchema": {"type": "object", "properties": {}}}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, message=None):
        body = json.dumps(message).encode() if message else b""
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.answer(405)

    do_DELETE = do_GET

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "id" not in request:
            return self.answer(202)
        method = request["method"]
        if method == "initialize":
            result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                      "serverInfo": {"name": "http", "version": "1"}}
        elif method == "tools/list":
            result = {"tools": [TOOL]}
        elif method == "tools/call":
            # Its length and reversed form show what a cover of secrets would hide.
            token = self.headers.get("Authorization", "none")
            result = {"content": [{"type": "text", "text": f"{len(token)} {token[::-1]}"}]}
        else:
            error = {"code": -32601, "message": "unknown"}
            return self.answer(200, {"jsonrpc": "2.0", "id": request["id"], "error": error})
        self.answer(200, {"jsonrpc": "2.0", "id": request["id"], "result": result})


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port)
sys.stdout.flush()
server.serve_forever()
