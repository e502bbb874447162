// The official TypeScript client behind the gateway: lists everything, and uses one tool, resource and prompt.
//
// Arguments: PROGRAM ARGUMENT... Reads the steps as JSON from the variable STEPS. Prints one JSON object.

const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = require("@modelcontextprotocol/sdk/client/stdio.js");

async function main([command, ...args]) {
  const steps = JSON.parse(process.env.STEPS);
  const client = new Client({ name: "test", version: "1" }, { capabilities: {} });
  await client.connect(new StdioClientTransport({ command, args, env: process.env }));
  const seen = { calls: [], reads: [], prompts: [] };
  for (const server of steps.servers) {
    await client.callTool({ name: "mcp_servers", arguments: { server } });
  }
  seen.tools = (await client.listTools()).tools.map((tool) => tool.name);
  seen.resources = (await client.listResources()).resources.map((resource) => resource.uri);
  seen.templates = (await client.listResourceTemplates()).resourceTemplates.map((template) => template.uriTemplate);
  seen.listed = (await client.listPrompts()).prompts.map((prompt) => prompt.name);
  for (const [name, given] of steps.calls) {
    const result = await client.callTool({ name, arguments: given });
    seen.calls.push({ failed: result.isError === true, text: result.content[0].text });
  }
  for (const uri of steps.reads) {
    const content = (await client.readResource({ uri })).contents[0];
    seen.reads.push({ uri: content.uri, text: content.text, bytes: (content.blob ?? "").length });
  }
  for (const [name, given] of steps.prompts) {
    const filled = await client.getPrompt({ name, arguments: given });
    seen.prompts.push(filled.messages.map((message) => message.content));
  }
  await client.close();
  console.log(JSON.stringify(seen));
}

main(process.argv.slice(2)).catch((error) => {
  console.error(error);
  process.exit(1);
});
