"""An unmodified agent framework works with Handfast, driven by a scripted model.

The model is a small HTTP server with OpenAI's chat completions and responses, streamed if the client asks for that.
It makes a fixed list of calls, and takes what it needs for the next call from the text that it received.
Prints one JSON object: what the model received, and what a user was asked. The test beside it judges that.
Arguments: the client, then `http URL TOKEN`, or `stdio PROGRAM ARGUMENT...`.
"""

import asyncio
import json
import os
import re
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def script():
    """Yields each call of the model, and is sent the text that the model received."""
    yield "file_read", {"path": "a.txt", "lines": {"start": 1, "end": None}}
    yield "file_read", {"path": "picture.png"}
    text = yield "shell_execute", {"command": "cat long.txt"}
    reference = json.loads(re.search(r"output_read (\{.*?\})", text)[1])
    offset = None
    while True:
        text = yield "output_read", {**reference, "offset": offset}
        offset = json.loads(re.match(r"\[about (\{.*\})\]\n", text)[1]).get("next_offset")
        if offset is None:
            break
    edits = [{"old_text": "one", "new_text": "two", "replace_all": None}]
    yield "file_edit", {"path": "a.txt", "edits": edits}


class Model:
    """The scripted model: what it was offered, and what it received for each call."""

    def __init__(self):
        self.tools, self.answers = [], []
        self.script = script()

    def take(self, tools, content):
        """Takes the answer of the last call, if there is one. Returns the next call, or the last words."""
        self.tools = tools
        try:
            if content is None:
                call = next(self.script)
            else:
                parts = [{"text": content}] if isinstance(content, str) else content
                text = "\n".join(part["text"] for part in parts if "text" in part)
                urls = [part["image_url"] for part in parts if "image_url" in part]
                pictures = [url["url"] if isinstance(url, dict) else url for url in urls]
                self.answers[-1] |= {"text": text, "pictures": pictures}
                call = self.script.send(text)
        except StopIteration:
            return None, "done"
        except Exception as wrong:
            # A client would repeat a request that fails.
            return None, repr(wrong)
        name, arguments = call
        self.answers.append({"tool": name})
        # Some models give null for each argument that they do not need.
        properties = next(tool["parameters"]["properties"] for tool in tools if tool["name"] == name)
        return {"name": name, "arguments": json.dumps(dict.fromkeys(properties) | arguments)}, None


def completion(model, asked):
    """Returns the message of a chat completion, and why it ends."""
    last = asked["messages"][-1]
    tools = [tool["function"] for tool in asked["tools"]]
    call, said = model.take(tools, last["content"] if last["role"] == "tool" else None)
    if call is None:
        return {"role": "assistant", "content": said}, "stop"
    call = {"id": f"call_{len(model.answers)}", "type": "function", "function": call}
    return {"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls"


def response(model, asked):
    """Returns the item of a response."""
    last = asked["input"][-1] if isinstance(asked["input"], list) else {}
    call, said = model.take(asked["tools"], last.get("output"))
    number = len(model.answers)
    if call is None:
        text = {"type": "output_text", "text": said, "annotations": []}
        return {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [text]}
    return {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "status": "completed", **call}


def serve(model):
    """Starts the model's server, and returns its address."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def do_POST(self):
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            if self.path.endswith("/responses"):
                body = {"id": "r", "object": "response", "created_at": 0, "model": "scripted", "status": "completed"}
                body |= {"output": [response(model, asked)], "tools": [], "tool_choice": "auto"}
                return self.send("application/json", json.dumps(body | {"parallel_tool_calls": False}))
            message, reason = completion(model, asked)
            said = {"id": "c", "created": 0, "model": "scripted"}
            if not asked.get("stream"):
                choice = {"index": 0, "message": message, "finish_reason": reason}
                body = said | {"object": "chat.completion", "choices": [choice]}
                return self.send("application/json", json.dumps(body))
            calls = [{"index": 0, **call} for call in message.pop("tool_calls", [])]
            deltas = [(message | ({"tool_calls": calls} if calls else {}), None), ({}, reason)]
            events = []
            for delta, ended in deltas:
                choice = {"index": 0, "delta": delta, "finish_reason": ended}
                events.append(json.dumps(said | {"object": "chat.completion.chunk", "choices": [choice]}))
            self.send("text/event-stream", "".join(f"data: {event}\n\n" for event in [*events, "[DONE]"]))

        def send(self, kind, body):
            body = body.encode()
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/v1"


async def langchain(address, asked, carrier, first, *rest):
    from langchain.agents import create_agent
    from langchain_mcp_adapters.callbacks import Callbacks
    from langchain_mcp_adapters.client import MultiServerMCPClient
    from langchain_openai import ChatOpenAI
    from mcp.types import ElicitResult

    async def allow_once(_mcp, params, _context):
        asked.append(params.message.splitlines()[0])
        return ElicitResult(action="accept", content={"decision": "allow once"})

    connection = {"transport": "stdio", "command": first, "args": rest, "env": dict(os.environ)}
    if carrier == "http":
        connection = {"transport": "http", "url": first, "headers": {"Authorization": f"Bearer {rest[0]}"}}
    # As its manual shows it, each call has a session of its own, and over stdio a process of its own.
    client = MultiServerMCPClient({"handfast": connection}, callbacks=Callbacks(on_elicitation=allow_once))
    model = ChatOpenAI(model="scripted", base_url=address, api_key="none", streaming=carrier == "http")
    agent = create_agent(model, await client.get_tools())
    task = {"messages": [{"role": "user", "content": "work"}]}
    ended = await agent.ainvoke(task, {"recursion_limit": 100})
    return ended["messages"][-1].content


async def openai_agents(address, _asked, carrier, first, *rest):
    from agents import Agent, AsyncOpenAI, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, set_tracing_disabled
    from agents.mcp import MCPServerStdio, MCPServerStreamableHttp

    set_tracing_disabled(True)
    client = AsyncOpenAI(base_url=address, api_key="none")
    if carrier == "http":
        headers = {"Authorization": f"Bearer {rest[0]}"}
        server = MCPServerStreamableHttp({"url": first, "headers": headers})
        model, strict = OpenAIResponsesModel("scripted", client), False
    else:
        server = MCPServerStdio({"command": first, "args": list(rest), "env": dict(os.environ)})
        model, strict = OpenAIChatCompletionsModel("scripted", client), True
    async with server:
        config = {"convert_schemas_to_strict": strict}
        agent = Agent("agent", mcp_servers=[server], model=model, mcp_config=config)
        if carrier == "http":
            return (await Runner.run(agent, "work", max_turns=100)).final_output
        ran = Runner.run_streamed(agent, "work", max_turns=100)
        async for _ in ran.stream_events():
            pass
        return ran.final_output


async def main(client, *rest):
    model, asked = Model(), []
    run = {"langchain": langchain, "openai_agents": openai_agents}[client]
    said = await run(serve(model), asked, *rest)
    print(json.dumps({"said": said, "asked": asked, "tools": model.tools, "answers": model.answers}))


asyncio.run(main(*sys.argv[1:]))
