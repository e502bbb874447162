// @ts-check
// Reads one request as a line of JSON, and writes one answer as a line of JSON.
// Types stand in comments, so that Node 20 runs this file without a build. From Node 22.18 on, write them as syntax.
const { readFileSync } = require("node:fs");

/** @type {{ arguments: { text: string }, call: { id: string } }} */
const request = JSON.parse(readFileSync(0, "utf8"));
const words = request.arguments.text.split(/\s+/).filter((word) => word !== "").length;
console.log(JSON.stringify({ ok: true, data: { words } }));
