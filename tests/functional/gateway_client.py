"""The official Python client behind the gateway: lists everything, and uses one tool, resource and prompt.

Arguments: PROGRAM ARGUMENT... Reads the steps as JSON from the variable STEPS. Prints one JSON object.
"""

import asyncio
import json
import os
import sys

from mcp import Client, StdioServerParameters


async def main() -> None:
    steps = json.loads(os.environ["STEPS"])
    server = StdioServerParameters(command=sys.argv[1], args=sys.argv[2:], env=dict(os.environ))
    seen: dict[str, list] = {"calls": [], "reads": [], "prompts": []}
    async with Client(server, mode=os.environ["ERA"]) as client:
        for name in steps["servers"]:
            await client.call_tool("mcp_servers", {"server": name})
        seen["tools"] = [tool.name for tool in (await client.list_tools()).tools]
        seen["resources"] = [str(resource.uri) for resource in (await client.list_resources()).resources]
        templates = await client.list_resource_templates()
        seen["templates"] = [str(template.uri_template) for template in templates.resource_templates]
        seen["listed"] = [prompt.name for prompt in (await client.list_prompts()).prompts]
        for name, given in steps["calls"]:
            result = await client.call_tool(name, given)
            seen["calls"].append({"failed": bool(result.is_error), "text": result.content[0].text})
        for uri in steps["reads"]:
            content = (await client.read_resource(uri)).contents[0]
            seen["reads"].append({"uri": str(content.uri), "text": getattr(content, "text", None),
                                  "bytes": len(getattr(content, "blob", ""))})
        for name, given in steps["prompts"]:
            filled = await client.get_prompt(name, given)
            seen["prompts"].append([message.content.model_dump(mode="json") for message in filled.messages])
    print(json.dumps(seen))


asyncio.run(main())
