"""A scripted model on loopback, which speaks the wire formats of the agent clients.

It speaks Anthropic's messages, OpenAI's chat completions and responses, and Gemini's `generateContent`, each streamed
if the client asks for that. A script is a generator: it yields calls `(tool, arguments)`, and is sent the text that the
client put before the model. The model calls a tool of Handfast by the name that the client offers it under; a third
part of a call makes it call exactly that name, whatever is offered.
It does not imitate a real model: what it calls never depends on the client's prompt.
"""

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def named(tools, tool):
    """Returns the name under which the client offers a tool of Handfast, or None."""
    pattern = re.compile(rf"(.*handfast.*?(__|[_./:-]))?{re.escape(tool)}", re.IGNORECASE)
    names = sorted((name for name in tools if pattern.fullmatch(name)), key=len, reverse=True)
    return names[0] if names else None


def plain(content):
    """Returns the text of a result in any of the wire formats. What is no text stays visible as JSON."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(plain(part) for part in content)
    if isinstance(content, dict):
        for key in ("text", "output", "error", "content"):
            if isinstance(content.get(key), (str, list)):
                return plain(content[key])
    return json.dumps(content)


class Model:
    """The scripted model, and what it saw."""

    def __init__(self, script, log):
        self.script, self.lock, self.log = script, threading.Lock(), log
        # Tools of the last request that offered any, by name: the description, and where the client has one, a
        # namespace. Calls as the client was told them.
        self.tools, self.calls = {}, []
        # Numbers of requests for the script, and of others, such as the one for a title.
        self.turns, self.asides, self.unknown = 0, 0, []
        self.offered_at, self.first_tools, self.words = None, None, None
        self.on_first_offer = lambda: None

    def answer(self, tools, results):
        """Returns the next call as (name, namespace, arguments, id), or last words as text."""
        with self.lock:
            if len(tools) < 3:
                self.asides += 1
                return "Work"
            self.turns += 1
            if self.first_tools is None:
                self.first_tools = dict(tools)
                self.on_first_offer()
            self.tools = tools
            if len(results) < len(self.calls):
                # The client repeats a request.
                return self.calls[-1]
            if self.words is not None:
                return self.words
            try:
                step = self.script.send(results[-1] if self.calls else None)
            except StopIteration:
                self.words = "done"
                return self.words
            except Exception as wrong:  # A client would repeat a request that fails.
                self.words = f"the script failed: {wrong!r}"
                return self.words
            wanted, arguments, *regardless = step
            name = wanted if regardless else named(tools, wanted)
            if name is None:
                self.words = f"the client offers no {wanted}"
                return self.words
            namespace = tools[name]["namespace"] if name in tools else None
            call = (name, namespace, arguments, f"call_{len(self.calls)}")
            self.calls.append(call)
            return call


def tool(description, namespace=None):
    """Makes a record of an offered tool."""
    return {"description": description or "", "namespace": namespace}


def example(schema):
    """Returns a value of a simple schema, for a question that a client wants answered as JSON."""
    if "enum" in schema:
        return schema["enum"][0]
    kind = str(schema.get("type", "string")).lower()
    if kind == "object":
        return {name: example(inner) for name, inner in schema.get("properties", {}).items()}
    return {"array": [], "boolean": False, "integer": schema.get("minimum", 1), "number": 1}.get(kind, "Work")


def anthropic(model, asked):
    """Answers a request for Anthropic's messages. Returns the events of a stream."""
    tools = {one["name"]: tool(one.get("description")) for one in asked.get("tools", [])}
    blocks = [block for message in asked["messages"] for block in message["content"] if isinstance(block, dict)]
    results = [plain(block.get("content", "")) for block in blocks if block.get("type") == "tool_result"]
    answer = model.answer(tools, results)
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": asked["model"], "content": []}
    message |= {"stop_reason": None, "stop_sequence": None, "usage": usage}
    if isinstance(answer, str):
        block, reason = {"type": "text", "text": ""}, "end_turn"
        delta = {"type": "text_delta", "text": answer}
        whole = block | {"text": answer}
    else:
        name, _, arguments, identity = answer
        block, reason = {"type": "tool_use", "id": f"toolu_{identity}", "name": name, "input": {}}, "tool_use"
        delta = {"type": "input_json_delta", "partial_json": json.dumps(arguments)}
        whole = block | {"input": arguments}
    if not asked.get("stream"):
        return message | {"content": [whole], "stop_reason": reason}
    events = [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage},
        {"type": "message_stop"},
    ]
    return [(event["type"], event) for event in events]


def completion(model, asked):
    """Answers a request for OpenAI's chat completions."""
    tools = {one["function"]["name"]: tool(one["function"].get("description")) for one in asked.get("tools") or []}
    results = [plain(message["content"]) for message in asked["messages"] if message["role"] == "tool"]
    answer = model.answer(tools, results)
    said = {"id": "c", "created": 0, "model": asked["model"]}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    if isinstance(answer, str):
        message, reason = {"role": "assistant", "content": answer}, "stop"
    else:
        name, _, arguments, identity = answer
        function = {"name": name, "arguments": json.dumps(arguments)}
        call = {"index": 0, "id": identity, "type": "function", "function": function}
        message, reason = {"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls"
    if not asked.get("stream"):
        choice = {"index": 0, "message": message, "finish_reason": reason}
        return said | {"object": "chat.completion", "choices": [choice], "usage": usage}
    chunks = []
    for delta, ended in [(message, None), ({}, reason)]:
        choice = {"index": 0, "delta": delta, "finish_reason": ended}
        chunks.append(said | {"object": "chat.completion.chunk", "choices": [choice]})
    chunks.append(said | {"object": "chat.completion.chunk", "choices": [], "usage": usage})
    return [(None, chunk) for chunk in chunks] + [(None, "[DONE]")]


def nested(description):
    """Returns the tools that Codex's `exec` describes: its model calls them from a program."""
    parts = re.split(r"^#{2,3} `([\w.]+)`.*\n", description, flags=re.MULTILINE)
    return {name: tool(text, "exec") for name, text in zip(parts[1::2], parts[2::2])}


def offered(items):
    """Returns the tools of a request for OpenAI's responses, with those of namespaces and of Codex's `exec`."""
    tools = {}
    for one in items:
        for inner in one["tools"] if one["type"] == "namespace" else [one]:
            name, namespace = inner.get("name", inner["type"]), one["name"] if inner is not one else None
            whole = f"{namespace}__{name}" if namespace and namespace.startswith("mcp__") else name
            tools[whole] = tool(inner.get("description"), namespace)
            if name == "exec":
                tools |= nested(inner["description"])
    return tools


def program(name, arguments):
    """Returns a program for Codex's `exec` that calls a tool and shows its result."""
    call = f"const result = await tools.{name}({json.dumps(arguments)});"
    return f"{call} for (const part of result.content ?? [result]) text(part.text ?? part);"


def response(model, asked):
    """Answers a request for OpenAI's responses."""
    items = asked["input"] if isinstance(asked["input"], list) else []
    later = [one for item in items if item.get("type") == "additional_tools" for one in item["tools"]]
    tools = offered([*(asked.get("tools") or []), *later])
    results = [plain(item["output"]) for item in items if item.get("type", "").endswith("_call_output")]
    answer = model.answer(tools, results)
    if isinstance(answer, str):
        text = {"type": "output_text", "text": answer, "annotations": []}
        item = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [text]}
    else:
        name, namespace, arguments, identity = answer
        item = {"id": f"fc_{identity}", "call_id": identity, "status": "completed"}
        if namespace == "exec" or "exec" in tools:
            item |= {"type": "custom_tool_call", "name": "exec", "input": program(name, arguments)}
        elif isinstance(arguments, str):
            item |= {"type": "custom_tool_call", "name": name, "input": arguments}
        else:
            item |= {"type": "function_call", "name": name, "arguments": json.dumps(arguments)}
            if namespace is not None:
                item |= {"name": name.removeprefix(f"{namespace}__"), "namespace": namespace}
    body = {"id": "r", "object": "response", "created_at": 0, "model": asked["model"], "output": []}
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    usage |= {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    ended = body | {"status": "completed", "output": [item], "usage": usage}
    if not asked.get("stream"):
        return ended
    events = [
        {"type": "response.created", "response": body | {"status": "in_progress"}},
        {"type": "response.output_item.added", "output_index": 0, "item": item | {"status": "in_progress"}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": ended},
    ]
    return [(event["type"], event) for event in events]


def content(model, asked, is_streamed):
    """Answers a request for Gemini's content."""
    lists = [one.get("functionDeclarations") or [] for one in asked.get("tools") or []]
    tools = {one["name"]: tool(one.get("description")) for declared in lists for one in declared}
    parts = [part for message in asked.get("contents", []) for part in message.get("parts", [])]
    results = [plain(part["functionResponse"]["response"]) for part in parts if "functionResponse" in part]
    answer = model.answer(tools, results)
    if isinstance(answer, str):
        wanted = asked.get("generationConfig", {})
        schema = wanted.get("responseJsonSchema") or wanted.get("responseSchema")
        part = {"text": json.dumps(example(schema)) if schema else answer}
    else:
        name, _, arguments, identity = answer
        part = {"functionCall": {"id": identity, "name": name, "args": arguments}}
    candidate = {"index": 0, "content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}
    usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
    body = {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "scripted", "responseId": "r"}
    return [(None, body)] if is_streamed else body


def answered(model, path, asked):
    """Returns the answer to a request: a list of events, a body, or None for an unknown path."""
    path = path.split("?")[0]
    if path.endswith("/messages"):
        return anthropic(model, asked)
    if path.endswith("/count_tokens"):
        return {"input_tokens": 1}
    if path.endswith("/chat/completions"):
        return completion(model, asked)
    if path.endswith("/responses"):
        return response(model, asked)
    if path.endswith("enerateContent"):
        return content(model, asked, path.endswith(":streamGenerateContent"))
    if path.endswith(":countTokens"):
        return {"totalTokens": 1}
    return None


def serve(model):
    """Starts the model's server, and returns it. Its address is `http://127.0.0.1:{server.server_port}`."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def do_GET(self):
            model.unknown.append(f"GET {self.path}")
            self.send(404, "application/json", "{}")

        def do_POST(self):
            asked = self.rfile.read(int(self.headers.get("content-length", 0)))
            if self.headers.get("content-encoding"):
                return self.send(415, "application/json", "{}")
            with model.lock, model.log.open("ab") as log:
                log.write(asked + b"\n")
            answer = answered(model, self.path, json.loads(asked or b"{}"))
            if answer is None:
                model.unknown.append(f"POST {self.path}")
                return self.send(404, "application/json", "{}")
            if isinstance(answer, dict):
                return self.send(200, "application/json", json.dumps(answer))
            lines = []
            for event, data in answer:
                head = f"event: {event}\n" if event else ""
                lines.append(f"{head}data: {data if isinstance(data, str) else json.dumps(data)}\n\n")
            return self.send(200, "text/event-stream", "".join(lines))

        def send(self, status, kind, body):
            body = body.encode()
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server
