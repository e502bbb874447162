"""An MCP server over HTTP that wants a login, and its authorization server, which makes mistakes on demand.

The first line of its output is its port. `POST /control` with a JSON object changes what it does next."""

import base64
import hashlib
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlencode, urlsplit

TOOL = {"name": "who", "description": "Tells.", "inputSchema": {"type": "object", "properties": {}}}
settings, codes, seen = {}, {}, []
valid = {"access": set(), "refresh": set(), "count": 0}


def tokens():
    valid["count"] += 1
    access, refresh = (f"{kind}-token-{valid['count']:04}-0123456789" for kind in ("access", "refresh"))
    valid["access"] = {access}
    valid["refresh"] = {refresh}
    return {"access_token": access, "token_type": "Bearer", "refresh_token": refresh,
            "expires_in": settings.get("expires_in", 3600), "scope": "notes"}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    @property
    def base(self):
        return f"http://localhost:{self.server.server_port}"

    def answer(self, status, message=None, **headers):
        body = json.dumps(message).encode() if message is not None else b""
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        path = urlsplit(self.path)
        if path.path == "/.well-known/oauth-protected-resource/mcp":
            self.answer(200, {"resource": settings.get("resource", f"{self.base}/mcp"), "scopes_supported": ["notes"],
                              "authorization_servers": [settings.get("authorization_server", self.base)]})
        elif path.path == "/.well-known/oauth-authorization-server":
            self.answer(200, {
                "issuer": settings.get("issuer", self.base), "response_types_supported": ["code"],
                "authorization_endpoint": f"{self.base}/authorize",
                "token_endpoint": settings.get("token_endpoint", f"{self.base}/token"),
                "registration_endpoint": f"{self.base}/register", "code_challenge_methods_supported": ["S256"],
                "grant_types_supported": ["authorization_code", "refresh_token"],
                "token_endpoint_auth_methods_supported": ["none"],
                "authorization_response_iss_parameter_supported": True})
        elif path.path == "/authorize":
            asked = {name: values[0] for name, values in parse_qs(path.query).items()}
            codes["code-1"] = asked
            back = {"code": "code-1", "state": asked["state"], "iss": self.base}
            back.update(settings.get("back", {}))
            self.answer(302, Location=asked["redirect_uri"] + "?" + urlencode(back))
        elif path.path == "/seen":
            self.answer(200, seen)
        else:
            self.answer(404)

    do_DELETE = do_GET

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/control":
            settings.clear()
            settings.update(json.loads(body))
            if "revoke" in settings:
                valid["access"], valid["refresh"] = set(), set()
            if "expire" in settings:
                valid["access"] = set()
            return self.answer(200, {})
        if self.path == "/register":
            asked = json.loads(body)
            seen.append(["register", asked])
            return self.answer(201, {"client_id": "client-1", **asked})
        if self.path == "/token":
            return self.token({name: values[0] for name, values in parse_qs(body.decode()).items()})
        self.mcp(json.loads(body))

    def token(self, asked):
        seen.append(["token", {name: asked.get(name) for name in ("grant_type", "resource", "client_id")}])
        if asked.get("resource") != f"{self.base}/mcp" or asked.get("client_id") != "client-1":
            return self.answer(400, {"error": "invalid_target"})
        if asked["grant_type"] == "refresh_token":
            good = asked["refresh_token"] in valid["refresh"]
        else:
            of_code = codes.pop(asked["code"], {})
            digest = hashlib.sha256(asked["code_verifier"].encode()).digest()
            challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
            good = (of_code.get("code_challenge") == challenge and of_code.get("redirect_uri") == asked["redirect_uri"])
        return self.answer(200, tokens()) if good else self.answer(400, {"error": "invalid_grant"})

    def mcp(self, request):
        token = self.headers.get("Authorization", "")
        if token:
            seen.append(["mcp", token[:12]])
        if token.removeprefix("Bearer ") not in valid["access"]:
            metadata = f"{self.base}/.well-known/oauth-protected-resource/mcp"
            challenge = f'Bearer resource_metadata="{settings.get("metadata", metadata)}"'
            return self.answer(401, WWW_Authenticate=challenge)
        if "id" not in request:
            return self.answer(202)
        method = request["method"]
        if method == "initialize":
            result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                      "serverInfo": {"name": "http", "version": "1"}}
        elif method == "tools/list":
            result = {"tools": [TOOL]}
        elif method == "tools/call":
            # The reversed form shows what a cover of secrets would hide.
            result = {"content": [{"type": "text", "text": token[::-1]}]}
        else:
            error = {"code": -32601, "message": "unknown"}
            return self.answer(200, {"jsonrpc": "2.0", "id": request["id"], "error": error})
        self.answer(200, {"jsonrpc": "2.0", "id": request["id"], "result": result})


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port)
sys.stdout.flush()
server.serve_forever()
