/** Error of a tool, with its code, message, hint and data. */
class ToolError extends Error {
  constructor({ code, message, hint, data }) {
    super(`${code}: ${message}${hint ? ` (${hint})` : ""}`);
    Object.assign(this, { name: "ToolError", code, hint, data });
  }
}

const known = JSON.parse(describedTools());

function functionOf(name) {
  const [, names, required] = known[name];
  const call = (args = {}) => {
    if (args === null || typeof args !== "object" || Array.isArray(args)) {
      throw new TypeError(`tools.${name}() takes one object with ${names.join(", ")}`);
    }
    const unknown = Object.keys(args).find((given) => !names.includes(given));
    if (unknown !== undefined) {
      throw new TypeError(`tools.${name}() has no argument ${unknown}; it has ${names.join(", ")}`);
    }
    const missing = required.find((needed) => args[needed] === undefined);
    if (missing !== undefined) {
      throw new TypeError(`tools.${name}() lacks the argument ${missing}`);
    }
    send({ tool: name, arguments: args });
    const answer = receive();
    if (answer.error) {
      throw new ToolError(answer.error);
    }
    return answer.data;
  };
  return Object.defineProperty(call, "name", { value: name });
}

const tools = new Proxy(Object.create(null), {
  get(made, name) {
    if (typeof name !== "string" || name === "then") {
      return undefined;
    }
    if (!(name in known)) {
      throw new TypeError(`there is no tool named ${name}; Object.keys(tools) lists them`);
    }
    made[name] ??= functionOf(name);
    return made[name];
  },
  has: (_, name) => name in known,
  ownKeys: () => Object.keys(known),
  getOwnPropertyDescriptor: (_, name) =>
    name in known ? { enumerable: true, configurable: true, writable: true, value: tools[name] } : undefined,
});

Object.assign(globalThis, { tools, ToolError });
