// @ts-check
// Answers one request after the other, each a line of JSON: `mode: serve` in plugin.yaml.
// Types stand in comments, so that Node 20 runs this file without a build. From Node 22.18 on, write them as syntax.
const readline = require("node:readline");

/** @typedef {{ code: string, message: string, hint?: string }} Refusal */

/** @param {unknown} value */
function typeOf(value) {
    if (value === null) return "null";
    return Array.isArray(value) ? "array" : typeof value;
}

/**
 * @param {{ json: string, path: string }} given
 * @returns {{ ok: true, data: object } | { ok: false, error: Refusal }}
 */
function answer(given) {
    let value;
    try {
        value = JSON.parse(given.json);
    } catch {
        return { ok: false, error: { code: "EVALIDATION", message: "`json` is not JSON", hint: "send valid JSON" } };
    }
    for (const name of given.path.split(".")) {
        if (value === null || typeof value !== "object" || !Object.hasOwn(value, name)) {
            return { ok: false, error: { code: "ENOTFOUND", message: `there is no ${name}` } };
        }
        value = value[name];
    }
    return { ok: true, data: { value: JSON.stringify(value), type: typeOf(value) } };
}

readline.createInterface({ input: process.stdin }).on("line", (line) => {
    console.log(JSON.stringify(answer(JSON.parse(line).arguments)));
});
