// The official TypeScript client over stdio or HTTP: lists, reads, is asked about a write and about a command, hears of a checkpoint.
//
// Arguments: `http URL TOKEN`, or `stdio PROGRAM ARGUMENT...`. Prints one JSON object.

const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = require("@modelcontextprotocol/sdk/client/stdio.js");
const { StreamableHTTPClientTransport } = require("@modelcontextprotocol/sdk/client/streamableHttp.js");
const { CallToolResultSchema, ElicitRequestSchema, ResourceUpdatedNotificationSchema } = require("@modelcontextprotocol/sdk/types.js");

async function main([carrier, first, ...rest]) {
  const seen = { asked: [] };
  const transport =
    carrier === "http"
      ? new StreamableHTTPClientTransport(new URL(first), {
          requestInit: { headers: { Authorization: `Bearer ${rest[0]}` } },
        })
      : new StdioClientTransport({ command: first, args: rest, env: process.env });
  const client = new Client({ name: "test", version: "1" }, { capabilities: { elicitation: {} } });
  client.setRequestHandler(ElicitRequestSchema, async ({ params }) => {
    seen.asked.push(params.message.split("\n")[0]);
    return { action: "accept", content: { decision: "allow once" } };
  });
  const updated = new Promise((resolve) => {
    client.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params }) => resolve(params.uri));
  });
  await client.connect(transport);
  seen.tools = (await client.listTools()).tools.map((tool) => tool.name);
  seen.resources = (await client.listResources()).resources.map((resource) => resource.name);
  seen.templates = (await client.listResourceTemplates()).resourceTemplates.map((template) => template.name);
  seen.prompts = (await client.listPrompts()).prompts.map((prompt) => prompt.name);
  seen.read = (await client.callTool({ name: "file_read", arguments: { path: "a.txt" } })).content[0].text.split("\n")[1];
  seen.resource = (await client.readResource({ uri: "handfast://file/a.txt" })).contents[0].text;
  const ref = { type: "ref/resource", uri: "handfast://file/{+path}{?offset,max_bytes}" };
  const completed = await client.complete({ ref, argument: { name: "path", value: "a" } });
  seen.completed = completed.completion.values;
  await client.subscribeResource({ uri: "handfast://checkpoints" });
  const written = await client.callTool({ name: "file_write", arguments: { path: "b.txt", content: "written" } });
  seen.written = written.isError === false;
  seen.updated = await updated;
  const shown = await client.getPrompt({ name: "review_changes", arguments: {} });
  seen.reviewed = shown.messages[1].content.resource.text.includes("+written");
  // The request for a task changes nothing.
  const command = { name: "shell_execute", arguments: { command: "touch c.txt; echo at once" } };
  const ran = await client.callTool(command, CallToolResultSchema, { task: { ttl: 60000 } });
  seen.printed = ran.content[0].text.split("\n")[0];
  await client.close();
  console.log(JSON.stringify(seen));
}

main(process.argv.slice(2)).catch((error) => {
  console.error(error);
  process.exit(1);
});
