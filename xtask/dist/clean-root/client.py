"""Makes the first call of an installed client: the official MCP client of Python, configured by `handfast attach`.

It reads the entry in Claude Code's configuration, starts the program that the entry names, as Claude Code does, lists
the tools and searches the files. Exits with 1 if anything of that fails.
Arguments: the configuration; or `--`, then a program with its arguments, which is started instead.
"""

import asyncio
import json
import sys
from pathlib import Path

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


def server(arguments):
    """Returns the program to start."""
    if arguments[0] == "--":
        return StdioServerParameters(command=arguments[1], args=arguments[2:])
    entry = json.loads(Path(arguments[0]).read_text())["mcpServers"]["handfast"]
    return StdioServerParameters(command=entry["command"], args=entry["args"])


async def main():
    async with stdio_client(server(sys.argv[1:])) as (reads, writes), ClientSession(reads, writes) as session:
        await session.initialize()
        tools = [tool.name for tool in (await session.list_tools()).tools]
        if "file_search" not in tools:
            raise SystemExit(f"client: file_search is not among the tools: {tools}")
        answer = await session.call_tool("file_search", {"path": ".", "pattern": "handfast"})
        text = "".join(part.text for part in answer.content if part.type == "text")
        failed = getattr(answer, "is_error", getattr(answer, "isError", None))
        if failed is not False or "a.txt" not in text:
            raise SystemExit(f"client: the call failed: {answer}")
        print(f"{len(tools)} tools; file_search found a.txt")


asyncio.run(main())
