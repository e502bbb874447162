
// Values as text, in the form in which Node prints them.

const WIDTH = 80;
const MOST_ENTRIES = 100;
const LONGEST_STRING = 10_000;
const DEPTH = 2;
const ESCAPES = { "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", "\\": "\\\\" };

function quote(text) {
  let mark = "'";
  if (text.includes("'")) {
    mark = !text.includes('"') ? '"' : !text.includes("`") && !text.includes("${") ? "`" : "'";
  }
  const escape = (character) =>
    ESCAPES[character] ??
    (character === "'" ? "\\'" : `\\x${character.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0")}`);
  const unsafe = mark === "'" ? /[\x00-\x1f\x27\x5c\x7f-\x9f]/g : /[\x00-\x1f\x5c\x7f-\x9f]/g;
  return mark + text.toWellFormed().replace(unsafe, escape) + mark;
}

function inspectString(state, text) {
  let rest = "";
  if (text.length > LONGEST_STRING) {
    const more = text.length - LONGEST_STRING;
    text = text.slice(0, LONGEST_STRING);
    rest = `... ${more} more character${more > 1 ? "s" : ""}`;
  }
  if (text.length > 16 && text.length > WIDTH - state.indent - 4) {
    return text.split(/(?<=\n)/).map(quote).join(` +\n${" ".repeat(state.indent + 2)}`) + rest;
  }
  return quote(text) + rest;
}

function inspectPrimitive(state, value) {
  switch (typeof value) {
    case "string":
      return inspectString(state, value);
    case "number":
      return Object.is(value, -0) ? "-0" : `${value}`;
    case "bigint":
      return `${value}n`;
    default:
      return String(value);
  }
}

function classOf(value) {
  for (let object = value; object !== null; object = Object.getPrototypeOf(object)) {
    const property = Object.getOwnPropertyDescriptor(object, "constructor");
    if (typeof property?.value === "function" && property.value.name !== "") {
      return property.value.name;
    }
  }
  return null;
}

function inspectFunction(value, name, tag) {
  if (/^class\b/.test(Function.prototype.toString.call(value))) {
    const parent = Object.getPrototypeOf(value)?.name;
    return `[class ${value.name || "(anonymous)"}${parent ? ` extends ${parent}` : ""}]`;
  }
  const kind = tag === "" || tag === name ? name : `${name} [${tag}]`;
  return `[${kind}${value.name ? `: ${value.name}` : " (anonymous)"}]`;
}

function inspectError(error) {
  const head = Error.prototype.toString.call(error);
  const frames = String(error.stack ?? "").split("\n");
  const own = frames.filter((frame) => frame.trim() !== "" && !/\brun\.js:|\(native\)/.test(frame));
  const stack = own.join("\n");
  return stack.startsWith(head) || stack === "" ? stack || `[${head}]` : `${head}\n${stack}`;
}

function inspectKey(key) {
  if (typeof key === "symbol") {
    return `[${String(key)}]`;
  }
  return /^[a-zA-Z_][a-zA-Z_0-9]*$/.test(key) ? key : quote(key);
}

function inspectProperty(state, value, key, depth, isElement) {
  const property = Object.getOwnPropertyDescriptor(value, key);
  let text;
  if (property === undefined || property.value !== undefined || !(property.get || property.set)) {
    state.indent += 2;
    text = inspectValue(state, property === undefined ? value[key] : property.value, depth);
    state.indent -= 2;
  } else {
    text = property.get ? (property.set ? "[Getter/Setter]" : "[Getter]") : "[Setter]";
  }
  return isElement ? text : `${inspectKey(key)}: ${text}`;
}

function inspectElements(state, value, depth) {
  const output = [];
  const shown = Math.min(value.length, MOST_ENTRIES);
  let index = 0;
  for (; index < value.length && output.length < shown; index += 1) {
    if (Object.hasOwn(value, index)) {
      output.push(inspectProperty(state, value, index, depth, true));
      continue;
    }
    const begin = index;
    while (index + 1 < value.length && !Object.hasOwn(value, index + 1)) {
      index += 1;
    }
    const holes = index - begin + 1;
    output.push(`<${holes} empty item${holes > 1 ? "s" : ""}>`);
  }
  const more = value.length - index;
  if (more > 0) {
    output.push(`... ${more} more item${more > 1 ? "s" : ""}`);
  }
  return output;
}

function inspectMembers(state, value, depth, show) {
  const output = [];
  state.indent += 2;
  for (const member of value) {
    if (output.length >= MOST_ENTRIES) {
      const more = value.size - MOST_ENTRIES;
      output.push(`... ${more} more item${more > 1 ? "s" : ""}`);
      break;
    }
    output.push(show(member));
  }
  state.indent -= 2;
  return output;
}

/** Puts short elements of a long array next to each other. */
function group(state, output, value) {
  const hasMore = output.length > MOST_ENTRIES;
  const count = hasMore ? output.length - 1 : output.length;
  const lengths = output.slice(0, count).map((text) => text.length + 2);
  const total = lengths.reduce((sum, length) => sum + length, 0);
  const most = Math.max(...lengths);
  if (most * 3 + state.indent >= WIDTH || (total / most <= 5 && most > 8)) {
    return output;
  }
  const biased = Math.max(most - 3 - Math.sqrt(most - total / output.length), 1);
  const columns = Math.min(
    Math.round(Math.sqrt(2.5 * biased * count) / biased),
    Math.floor((WIDTH - state.indent) / most),
    12,
  );
  if (columns <= 1) {
    return output;
  }
  const widths = [];
  for (let column = 0; column < columns; column += 1) {
    let width = 0;
    for (let at = column; at < count; at += columns) {
      width = Math.max(width, lengths[at]);
    }
    widths.push(width);
  }
  const isNumeric = value !== undefined && Array.prototype.every.call(value, (element) => /number|bigint/.test(typeof element));
  const lines = [];
  for (let begin = 0; begin < count; begin += columns) {
    const end = Math.min(begin + columns, count);
    let line = "";
    for (let at = begin; at < end; at += 1) {
      const width = widths[at - begin];
      if (at < end - 1) {
        line += isNumeric ? `${output[at]}, `.padStart(width) : `${output[at]}, `.padEnd(width);
      } else {
        line += isNumeric ? output[at].padStart(width - 2) : output[at];
      }
    }
    lines.push(line);
  }
  return hasMore ? [...lines, output[count]] : lines;
}

function join(state, output, base, [open, close], isList, depth, value) {
  const entries = output.length;
  const grouped = isList && entries > 6 ? group(state, output, value) : output;
  const start = grouped.length + state.indent + open.length + base.length + 10;
  if (state.deepest - depth < 3 && entries === grouped.length) {
    const total = grouped.reduce((sum, text) => sum + text.length, grouped.length + start);
    const line = grouped.join(", ");
    if (total <= WIDTH && !base.includes("\n") && !line.includes("\n")) {
      return `${base ? `${base} ` : ""}${open} ${line} ${close}`;
    }
  }
  const margin = `\n${" ".repeat(state.indent)}`;
  return `${base ? `${base} ` : ""}${open}${margin}  ${grouped.join(`,${margin}  `)}${margin}${close}`;
}

function inspectObject(state, value, depth) {
  const name = classOf(value);
  const own = value[Symbol.toStringTag];
  const tag = typeof own === "string" && own !== "" ? own : "";
  const prefix = (fallback, size) => {
    const shown = name ?? `[${fallback}: null prototype]`;
    return `${shown}${size === undefined ? "" : `(${size})`} ${tag !== "" && tag !== name ? `[${tag}] ` : ""}`;
  };
  const isShown = (key) => Object.prototype.propertyIsEnumerable.call(value, key);
  let keys = [...Object.keys(value), ...Object.getOwnPropertySymbols(value).filter(isShown)];
  let braces = ["{", "}"];
  let [base, isList] = ["", false];
  let members = () => [];
  if (Array.isArray(value) || ArrayBuffer.isView(value) && !(value instanceof DataView)) {
    const isPlain = Array.isArray(value) && name === "Array";
    keys = keys.filter((key) => typeof key === "symbol" || !/^(0|[1-9][0-9]*)$/.test(key));
    braces = [`${isPlain ? "" : prefix("Array", value.length)}[`, "]"];
    if (value.length === 0 && keys.length === 0) {
      return `${braces[0]}]`;
    }
    isList = true;
    members = () => inspectElements(state, value, depth + 1);
  } else if (value instanceof Set) {
    braces[0] = `${prefix("Set", value.size)}{`;
    members = () => inspectMembers(state, value, depth, (member) => inspectValue(state, member, depth + 1));
    if (value.size === 0 && keys.length === 0) {
      return `${braces[0]}}`;
    }
  } else if (value instanceof Map) {
    braces[0] = `${prefix("Map", value.size)}{`;
    members = () =>
      inspectMembers(state, value, depth, ([key, member]) =>
        `${inspectValue(state, key, depth + 1)} => ${inspectValue(state, member, depth + 1)}`);
    if (value.size === 0 && keys.length === 0) {
      return `${braces[0]}}`;
    }
  } else if (typeof value === "function") {
    base = inspectFunction(value, name ?? "Function", tag);
  } else if (value instanceof RegExp) {
    base = RegExp.prototype.toString.call(value);
  } else if (value instanceof Date) {
    base = Number.isNaN(value.getTime()) ? "Invalid Date" : value.toISOString();
  } else if (value instanceof Error) {
    base = inspectError(value);
    keys = keys.filter((key) => key !== "stack" && key !== "message" && !(key === "name" && base.includes(value.name)));
    if (Object.hasOwn(value, "cause") && !keys.includes("cause")) {
      keys.push("cause");
    }
  } else if (value instanceof Promise) {
    const { state: now, result } = host.settled(value);
    braces[0] = "Promise {";
    members = () =>
      now === "pending" ? ["<pending>"] : [`${now === "rejected" ? "<rejected> " : ""}${inspectValue(state, result, depth + 1)}`];
  } else if (value instanceof Number || value instanceof String || value instanceof Boolean) {
    keys = keys.filter((key) => !(value instanceof String && /^[0-9]+$/.test(String(key))));
    base = `[${name}: ${inspectPrimitive(state, value.valueOf())}]`;
  } else if (name === "Object" && tag === "") {
    if (keys.length === 0) {
      return "{}";
    }
  } else {
    braces[0] = `${prefix("Object")}{`;
    if (keys.length === 0) {
      return `${braces[0]}}`;
    }
  }
  if (base !== "" && keys.length === 0) {
    return base;
  }
  if (depth > DEPTH) {
    return `[${Array.isArray(value) ? "Array" : tag || name || "Object: null prototype"}]`;
  }
  state.seen.push(value);
  state.deepest = depth;
  const output = members();
  for (const key of keys) {
    output.push(inspectProperty(state, value, key, depth + 1, false));
  }
  state.seen.pop();
  const number = state.circular.get(value);
  if (number !== undefined) {
    const mark = `<ref *${number}>`;
    if (base === "") {
      braces[0] = `${mark} ${braces[0]}`;
    } else {
      base = `${mark} ${base}`;
    }
  }
  return join(state, output, base, braces, isList, depth, isList ? value : undefined);
}

function inspectValue(state, value, depth) {
  if (value === null || (typeof value !== "object" && typeof value !== "function")) {
    return inspectPrimitive(state, value);
  }
  if (state.seen.includes(value)) {
    if (!state.circular.has(value)) {
      state.circular.set(value, state.circular.size + 1);
    }
    return `[Circular *${state.circular.get(value)}]`;
  }
  return inspectObject(state, value, depth);
}

function inspect(value) {
  return inspectValue({ indent: 0, deepest: 0, seen: [], circular: new Map() }, value, 0);
}

function formatPart(kind, value) {
  switch (kind) {
    case "s":
      return typeof value === "bigint" ? `${value}n` : Object.is(value, -0) ? "-0" : typeof value === "object" ? inspect(value) : String(value);
    case "d":
      return typeof value === "bigint" ? `${value}n` : typeof value === "symbol" ? "NaN" : inspect(Number(value));
    case "i":
      return typeof value === "bigint" ? `${value}n` : typeof value === "symbol" ? "NaN" : inspect(Number.parseInt(value, 10));
    case "f":
      return typeof value === "symbol" ? "NaN" : inspect(Number.parseFloat(value));
    case "j":
      return JSON.stringify(value) ?? "undefined";
    case "c":
      return "";
    default:
      return inspect(value);
  }
}

/** Returns the text of one line of the console. */
function format(...values) {
  let text = "";
  if (typeof values[0] === "string" && values.length > 1) {
    const pattern = values.shift();
    text = pattern.replace(/%([sdifjoOc%])/g, (whole, kind) =>
      kind === "%" ? "%" : values.length === 0 ? whole : formatPart(kind, values.shift()));
    if (values.length > 0) {
      text += " ";
    }
  }
  return text + values.map((value) => (typeof value === "string" ? value : inspect(value))).join(" ");
}
