
// The parts of Node's globals that scripts use most.

const timers = new Map();
const rejected = new Map();
let lastTimer = 0;
let indentation = "";
let isSettled = false;

function leave(status) {
  send({ end: status & 255 });
  host.exit(status & 255);
}

function print(isError, values) {
  const text = format(...values);
  host.print(isError, `${indentation}${indentation ? text.replaceAll("\n", `\n${indentation}`) : text}\n`.toWellFormed());
}

const toOutput = (...values) => print(false, values);
const toErrors = (...values) => print(true, values);

function write(isError) {
  return { write: (text) => (host.print(isError, String(text).toWellFormed()), true), isTTY: false };
}

function setTimer(run, delay, values, repeats) {
  if (typeof run !== "function") {
    throw new TypeError("the first argument of a timer must be a function");
  }
  const after = Number(delay) >= 1 && Number(delay) <= 2 ** 31 - 1 ? Math.trunc(Number(delay)) : 1;
  lastTimer += 1;
  timers.set(lastTimer, { due: host.now() + after, every: repeats ? after : 0, run: () => run(...values) });
  return lastTimer;
}

const clearTimer = (id) => {
  timers.delete(id);
};

function clone(value, seen = new Map()) {
  if (typeof value === "function" || typeof value === "symbol") {
    throw new Error(`${String(value)} could not be cloned.`);
  }
  if (value === null || typeof value !== "object") {
    return value;
  }
  if (seen.has(value)) {
    return seen.get(value);
  }
  if (value instanceof Date) {
    return new Date(value.getTime());
  }
  const made = Array.isArray(value) ? [] : value instanceof Map ? new Map() : value instanceof Set ? new Set() : {};
  seen.set(value, made);
  if (value instanceof Map) {
    value.forEach((member, key) => made.set(clone(key, seen), clone(member, seen)));
  } else if (value instanceof Set) {
    value.forEach((member) => made.add(clone(member, seen)));
  } else {
    Object.keys(value).forEach((key) => {
      made[key] = clone(value[key], seen);
    });
  }
  return made;
}

const console = {
  log: toOutput,
  info: toOutput,
  debug: toOutput,
  dir: (value) => toOutput(value),
  table: (value) => toOutput(value),
  error: toErrors,
  warn: toErrors,
  trace: (...values) => toErrors("Trace:", ...values),
  assert: (holds, ...values) => {
    if (!holds) {
      toErrors(...(values.length > 0 ? ["Assertion failed:", ...values] : ["Assertion failed"]));
    }
  },
  group: (...values) => {
    if (values.length > 0) {
      toOutput(...values);
    }
    indentation += "  ";
  },
  groupEnd: () => {
    indentation = indentation.slice(2);
  },
};

const process = {
  argv: ["handfast", "script.mjs"],
  env: {},
  exit: (status) => leave(status ?? process.exitCode ?? 0),
  exitCode: undefined,
  nextTick: (run, ...values) => void Promise.resolve().then(() => run(...values)),
  platform: "linux",
  stderr: write(true),
  stdout: write(false),
};

Object.assign(globalThis, {
  clearImmediate: clearTimer,
  clearInterval: clearTimer,
  clearTimeout: clearTimer,
  console,
  process,
  queueMicrotask: (run) => void Promise.resolve().then(() => run()),
  setImmediate: (run, ...values) => setTimer(run, 0, values, false),
  setInterval: (run, delay, ...values) => setTimer(run, delay, values, true),
  setTimeout: (run, delay, ...values) => setTimer(run, delay, values, false),
  structuredClone: (value) => clone(value),
});

function show(error) {
  toErrors(error);
  if (error instanceof ReferenceError && /could not load module/.test(error.message)) {
    toErrors("The JavaScript engine of Handfast has no modules: use the tools, or install Node.");
  }
}

return {
  /** Notes a rejected promise, or one that is handled after all. */
  noteRejection(promise, reason, isHandled) {
    if (isHandled) {
      rejected.delete(promise);
    } else {
      rejected.set(promise, reason);
    }
  },
  /** Takes the promise of the script. */
  follow(promise) {
    promise.then(
      () => {
        isSettled = true;
      },
      (error) => {
        isSettled = true;
        show(error);
        process.exitCode = 1;
      },
    );
  },
  /** Ends the script with an error that nothing caught. */
  fail(error) {
    show(error);
    leave(1);
  },
  /** Runs the next timer, and returns false if there is none. Called when no job is left. */
  turn() {
    for (const reason of rejected.values()) {
      show(reason);
      leave(1);
    }
    let next;
    for (const [id, timer] of timers) {
      if (next === undefined || timer.due < next.timer.due) {
        next = { id, timer };
      }
    }
    if (next === undefined) {
      return false;
    }
    const { id, timer } = next;
    host.sleep(Math.max(timer.due - host.now(), 0));
    if (timer.every > 0) {
      timer.due = host.now() + timer.every;
    } else {
      timers.delete(id);
    }
    timer.run();
    return true;
  },
  /** Ends the script after everything that it waits for. */
  end() {
    if (!isSettled) {
      toErrors("Warning: Detected unsettled top-level await in script.mjs");
      leave(13);
    }
    leave(process.exitCode ?? 0);
  },
};
});
