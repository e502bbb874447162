// The Vercel AI SDK, unmodified, works with Handfast, driven by its own scripted model.
//
// The model makes a fixed list of calls, and takes what it needs for the next call from the text that it received.
// Prints one JSON object: what the model received, and what a user was asked. The test beside it judges that.
// Arguments: `http URL TOKEN`, or `stdio PROGRAM ARGUMENT...`.

const { ElicitationRequestSchema, createMCPClient } = require("@ai-sdk/mcp");
const { Experimental_StdioMCPTransport } = require("@ai-sdk/mcp/mcp-stdio");
const { generateText, stepCountIs, streamText } = require("ai");
const { MockLanguageModelV4, simulateReadableStream } = require("ai/test");

/** Yields each call of the model, and is sent the text that the model received. */
function* script() {
  yield ["file_read", { path: "a.txt", lines: { start: 1, end: null } }];
  yield ["file_read", { path: "picture.png" }];
  const whole = yield ["shell_execute", { command: "cat long.txt" }];
  const reference = JSON.parse(whole.match(/output_read (\{.*?\})/)[1]);
  for (let offset = null; offset !== undefined; ) {
    const part = yield ["output_read", { ...reference, offset }];
    offset = JSON.parse(part.match(/^\[about (\{.*\})\]\n/)[1]).next_offset;
  }
  const edits = [{ old_text: "one", new_text: "two", replace_all: null }];
  yield ["file_edit", { path: "a.txt", edits }];
}

/** Returns a model that plays the script. `seen` gets what it was offered and what it received. */
function scripted(seen) {
  const calls = script();
  const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } };
  const take = ({ prompt, tools }) => {
    seen.tools = tools.map((tool) => ({ name: tool.name, parameters: tool.inputSchema }));
    const last = prompt.at(-1);
    let text;
    if (last.role === "tool") {
      const { output } = last.content[0];
      const parts = output.type === "content" ? output.value : [{ type: "text", text: output.value }];
      text = parts.filter((part) => part.type === "text").map((part) => part.text).join("\n");
      const pictures = parts.filter((part) => part.type === "file");
      Object.assign(seen.answers.at(-1), {
        text,
        pictures: pictures.map((part) => `data:${part.mediaType};base64,${part.data.data}`),
      });
    }
    const { value, done } = calls.next(text);
    if (done) return { content: [{ type: "text", text: "done" }], reason: "stop" };
    const [toolName, needed] = value;
    seen.answers.push({ tool: toolName });
    // Some models give null for each argument that they do not need.
    const input = { ...needed };
    const { properties } = seen.tools.find((tool) => tool.name === toolName).parameters;
    for (const name of Object.keys(properties)) input[name] ??= null;
    const call = { toolCallId: `call_${seen.answers.length}`, toolName, input: JSON.stringify(input) };
    return { content: [{ type: "tool-call", ...call }], reason: "tool-calls" };
  };
  return new MockLanguageModelV4({
    doGenerate: async (asked) => {
      const { content, reason } = take(asked);
      return { content, finishReason: { unified: reason }, usage, warnings: [] };
    },
    doStream: async (asked) => {
      const { content, reason } = take(asked);
      const [part] = content;
      const id = "text";
      const said = [{ type: "text-start", id }, { type: "text-delta", id, delta: part.text }, { type: "text-end", id }];
      const end = { type: "finish", finishReason: { unified: reason }, usage };
      const chunks = [{ type: "stream-start", warnings: [] }, ...(part.type === "text" ? said : [part]), end];
      return { stream: simulateReadableStream({ chunks, initialDelayInMs: null, chunkDelayInMs: null }) };
    },
  });
}

async function main([carrier, first, ...rest]) {
  const seen = { asked: [], answers: [] };
  const transport =
    carrier === "http"
      ? { type: "http", url: first, headers: { Authorization: `Bearer ${rest[0]}` } }
      : new Experimental_StdioMCPTransport({ command: first, args: rest, env: process.env });
  const client = await createMCPClient({ transport, capabilities: { elicitation: {} } });
  client.onElicitationRequest(ElicitationRequestSchema, async ({ params }) => {
    seen.asked.push(params.message.split("\n")[0]);
    return { action: "accept", content: { decision: "allow once" } };
  });
  const work = { model: scripted(seen), tools: await client.tools(), prompt: "work", stopWhen: stepCountIs(100) };
  seen.said = carrier === "http" ? await streamText(work).text : (await generateText(work)).text;
  await client.close();
  console.log(JSON.stringify(seen));
}

main(process.argv.slice(2)).catch((error) => {
  console.error(error);
  process.exit(1);
});
