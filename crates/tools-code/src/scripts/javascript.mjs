// Runs the script next to this file, with the tools of Handfast as functions.

import fs from "node:fs";
import path from "node:path";
import process from "node:process";
import { fileURLToPath, pathToFileURL } from "node:url";

const folder = path.dirname(fileURLToPath(import.meta.url));

/** Error of a tool, with its code, message, hint and data. */
class ToolError extends Error {
  constructor({ code, message, hint, data }) {
    super(`${code}: ${message}${hint ? ` (${hint})` : ""}`);
    Object.assign(this, { name: "ToolError", code, hint, data });
  }
}

/** Bytes that were read after the last whole line. */
let rest = Buffer.alloc(0);

function send(message) {
  let left = Buffer.from(`${JSON.stringify(message)}\n`);
  while (left.length > 0) {
    left = left.subarray(fs.writeSync(4, left));
  }
}

function receive() {
  const chunk = Buffer.alloc(65536);
  const pieces = [rest];
  for (;;) {
    const last = pieces[pieces.length - 1];
    const end = last.indexOf(10);
    if (end >= 0) {
      pieces[pieces.length - 1] = last.subarray(0, end);
      rest = Buffer.from(last.subarray(end + 1));
      return JSON.parse(Buffer.concat(pieces).toString());
    }
    const count = fs.readSync(3, chunk);
    if (count === 0) {
      throw new ToolError({ code: "ECANCELLED", message: "Handfast has ended this script" });
    }
    pieces.push(Buffer.from(chunk.subarray(0, count)));
  }
}

// Must come before the script, which could name any program.
send({ program: process.execPath });

const known = JSON.parse(fs.readFileSync(path.join(folder, "tools.json")));

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
process.on("exit", (status) => {
  send({ end: status & 255 });
});
process.on("uncaughtException", (error) => {
  console.error(error);
  process.exit(1);
});
try {
  await import(pathToFileURL(path.join(folder, "script.mjs")));
} catch (error) {
  console.error(error);
  process.exitCode = 1;
}
