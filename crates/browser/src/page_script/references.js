// References: numbers of elements, stable for an element's life, and passed on to its successor when
// a page renders the same thing again.

const numbers = new WeakMap(); // element -> number
const entries = new Map(); // number -> { element: WeakRef, role, name }
const ENTRY_LIMIT = 200_000;
let nextNumber = firstNumber;
let groups = new Map(); // key of lines that look alike -> their numbers, of the last whole walk
let uniqueGroups = new Map();

function remember(element, number, role, name) {
  const entry = entries.get(number);
  if (entry && entry.element.deref() === element) {
    entry.role = role;
    entry.name = name;
    return;
  }
  numbers.set(element, number);
  entries.set(number, { element: new WeakRef(element), role, name });
  if (entries.size > ENTRY_LIMIT) entries.delete(entries.keys().next().value);
}

/// Returns the number of an element, a new one if it has none.
function numberOf(element) {
  const known = numbers.get(element);
  if (known !== undefined && entries.has(known)) return known;
  const role = roleOf(element);
  const number = known === undefined ? nextNumber++ : known;
  remember(element, number, role, nameOf(element, role));
  return number;
}

/// Returns the element of a number while it is in the document.
function attached(number) {
  const entry = entries.get(number);
  const element = entry && entry.element.deref();
  return element && isConnected(element) ? element : null;
}

/// Gives numbers to the lines of a walk that want one.
///
/// An element without a number takes over that of an element that has left the document, if both
/// are the only ones of their role and name, or hold the same place among as many lines of the same
/// role, name and row. Only whole walks know what else there is.
function assign(lines, isWhole) {
  const byKey = new Map();
  const byName = new Map();
  for (const line of lines) {
    if (!line.wants) continue;
    const name = `${line.role}\n${line.name}`;
    push(byName, name, line);
    push(byKey, `${name}\n${line.context ? line.context.name : ''}`, line);
  }
  const taken = new Set();
  if (isWhole) {
    takeOver(byName, uniqueGroups, taken, (group) => group.length === 1);
    takeOver(byKey, groups, taken, () => true);
  }
  for (const line of lines) {
    if (!line.wants) continue;
    const known = numbers.get(line.element);
    const number = known === undefined ? nextNumber++ : known;
    remember(line.element, number, line.role, line.name);
    line.number = number;
  }
  if (isWhole) {
    groups = numbersOf(byKey);
    uniqueGroups = numbersOf(byName);
  }
}

function push(map, key, line) {
  const group = map.get(key);
  if (group) group.push(line);
  else map.set(key, [line]);
}

function takeOver(now, before, taken, isFit) {
  for (const [key, lines] of now) {
    const old = before.get(key);
    if (!old || old.length !== lines.length || !isFit(lines)) continue;
    for (let index = 0; index < lines.length; index += 1) {
      const element = lines[index].element;
      const number = old[index];
      if (numbers.has(element) || taken.has(number) || attached(number)) continue;
      taken.add(number);
      numbers.set(element, number);
    }
  }
}

function numbersOf(map) {
  const result = new Map();
  for (const [key, lines] of map) result.set(key, lines.map((line) => line.number));
  return result;
}

/// Returns the element of a number. One that has left the document is looked for again.
function resolveNumber(number) {
  const element = attached(number);
  if (element) return { element, isNew: false };
  const entry = entries.get(number);
  if (!entry) {
    const known = nextNumber > firstNumber ? ` This document has references from ${firstNumber} to ${nextNumber - 1}.` : '';
    return { problem: 'unknown', detail: `belongs to no element of the present document.${known} Read the page again.` };
  }
  new Walk(null).run();
  const successor = attached(number);
  if (successor) return { element: successor, isNew: true };
  const shown = `${entry.role || 'element'} "${entry.name}"`;
  const others = uniqueGroups.get(`${entry.role}\n${entry.name}`);
  const now = others ? others.length : 0;
  return {
    problem: 'gone',
    detail: `was ${shown}, which has left the page; ${now === 0 ? 'none' : now} like it ${now === 1 ? 'is' : 'are'} there now. Read the page again.`,
  };
}
