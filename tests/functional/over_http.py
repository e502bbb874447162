"""The official MCP client over HTTP: lists, reads, is asked about a write, hears progress.

Arguments: the URL, the agents' token, the era of the protocol (`legacy` or `auto`).
Prints one JSON object.
"""

import asyncio
import json
import sys

from mcp import Client, types
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client


async def main():
    url, token, era = sys.argv[1:]
    seen = {"asked": [], "progress": []}

    async def allow_once(_context, params):
        seen["asked"].append(params.message.splitlines()[0])
        return types.ElicitResult(action="accept", content={"decision": "allow once"})

    async def progressed(done, _total, _message):
        seen["progress"].append(done)

    http = create_mcp_http_client(headers={"Authorization": f"Bearer {token}"})
    transport = streamable_http_client(url, http_client=http)
    async with Client(transport, mode=era, elicitation_callback=allow_once) as client:
        seen["tools"] = [tool.name for tool in (await client.list_tools()).tools]
        read = await client.call_tool("file_read", {"path": "a.txt"})
        seen["read"] = read.content[0].text.split("\n", 1)[1]
        resource = await client.read_resource("handfast://file/a.txt")
        seen["resource"] = resource.contents[0].text
        seen["prompts"] = [prompt.name for prompt in (await client.list_prompts()).prompts]
        written = await client.call_tool("file_write", {"path": "b.txt", "content": "written"})
        seen["written"] = not written.is_error
        ran = await client.call_tool(
            "shell_execute", {"command": "sleep 6; echo done"}, progress_callback=progressed
        )
        seen["ran"] = ran.content[0].text
    print(json.dumps(seen))


asyncio.run(main())
