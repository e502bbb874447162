"""An agent at work on a real repository, through the official MCP client.

Prints one JSON object: what it saw at each step. The test beside it judges that.
Arguments: the program, the workspace, the state folder, the home folder, the era of the protocol (`legacy` or `auto`).
"""

import asyncio
import json
import os
import sys

from mcp import Client, StdioServerParameters, types


async def main() -> None:
    program, workspace, state, home, era = sys.argv[1:]
    asked: list[str] = []

    async def allow_once(context, params: types.ElicitRequestParams) -> types.ElicitResult:
        asked.append(params.message)
        choices = params.requested_schema["properties"]["decision"]["enum"]
        return types.ElicitResult(action="accept", content={"decision": choices[0]})

    server = StdioServerParameters(
        command=program,
        args=["--workspace", workspace, "--state", state, "mcp"],
        env={"HOME": home, "PATH": os.environ["PATH"], "XDG_CONFIG_HOME": os.environ["XDG_CONFIG_HOME"]},
    )
    seen: dict[str, object] = {}
    async with Client(server, mode=era, elicitation_callback=allow_once) as client:
        tools = await client.list_tools()
        seen["tools"] = [tool.name for tool in tools.tools]

        async def call(name: str, **arguments: object) -> types.CallToolResult:
            return await client.call_tool(name, arguments, read_timeout_seconds=900)

        def record(result: types.CallToolResult) -> dict:
            assert not result.is_error, result
            return json.loads(result.content[0].text)

        def read_text(result: types.CallToolResult) -> tuple[dict, str]:
            """The other fields stand in the first line, the text behind it."""
            assert not result.is_error, result
            fields, text = result.content[0].text.split("\n", 1)
            return json.loads(fields.removeprefix("[about ").removesuffix("]")), text

        listed = record(await call("file_list", path="crates/tool/src"))
        seen["listed"] = [entry["name"] for entry in listed["entries"]]

        found = record(await call("file_search", pattern="Level::Moderate => \"moderate\"", literal=True))
        match = found["matches"][0]
        seen["found"] = match["path"]

        line = match["line"]
        part = await call("file_read", path=match["path"], lines={"start": line - 1, "end": line + 1})
        seen["range"] = read_text(part)[1]

        fields, whole = read_text(await call("file_read", path=match["path"]))
        end, version = whole[-80:], fields["version"]
        right, wrong = 'Level::Moderate => "moderate"', 'Level::Moderate => "moderately"'
        test = '''
#[cfg(test)]
mod tests {
    #[test]
    fn the_name_on_the_wire_is_the_serialized_one() {
        let level = super::Level::Moderate;
        assert_eq!(serde_json::to_value(level).unwrap(), level.as_str());
    }
}
'''

        async def edit(*edits: tuple[str, str], **arguments: object) -> types.CallToolResult:
            changes = [{"old_text": old, "new_text": new} for old, new in edits]
            return await call("file_edit", path=match["path"], edits=changes, **arguments)

        edited = await edit((right, wrong), (end, end + test), version=version)
        seen["diff"] = read_text(edited)[1]
        seen["outdated"] = (await edit((wrong, "x"), version=version, strategy="check")).content[0].text

        tests = {"command": "cargo test --package tool --lib level", "timeout": 900}
        seen["failing"] = (await call("shell_execute", **tests)).content[0].text

        assert not (await edit((wrong, right))).is_error
        seen["passing"] = (await call("shell_execute", **tests)).content[0].text

        denied = await call("file_read", path=".env")
        seen["denied"] = {"is_error": denied.is_error, "text": denied.content[0].text}
    seen["asked"] = asked
    print(json.dumps(seen))


asyncio.run(main())
