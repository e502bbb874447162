// Runs the script next to this file, with the tools of Handfast as functions.

import fs from "node:fs";
import path from "node:path";
import process from "node:process";
import { fileURLToPath, pathToFileURL } from "node:url";

const folder = path.dirname(fileURLToPath(import.meta.url));

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

function describedTools() {
  return fs.readFileSync(path.join(folder, "tools.json"), "utf8");
}

// Must come before the script, which could name any program.
send({ program: process.execPath });

