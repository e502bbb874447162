// The service worker: carries calls of the paired program to the shared tabs, and their events back.
//
// Chromium ends the worker when it is idle and starts it again for an event or an alarm. So every
// listener is registered at once, and what must outlive the worker is in the storage.

import { connect, pair } from "./connection.js";
import { readLists, refusal, type Level, LEVELS } from "./methods.js";
import { change, forgetKey, readSettings, type Settings } from "./settings.js";
import { unshareable } from "./shareable.js";
import { Tabs, urlOf, type SharedTab } from "./tabs.js";

const NOT_FOUND = -32_001;
const PAUSED = -33_002;
const NOT_ALLOWED = -33_003;
/** Milliseconds until the next attempt to reach the program, while the worker is awake. */
const RETRY = 5_000;
const ALARM = "reconnect";

interface Call {
  type: "call" | "ping" | "unshare" | "bye";
  id: number;
  method: string;
  tab?: number;
  session?: string;
  params?: Record<string, unknown>;
}

/** Error of a call, as the protocol has it. */
class CallError extends Error {
  constructor(
    readonly code: number,
    message: string,
  ) {
    super(message);
  }
}

let settings: Settings;
let socket: WebSocket | undefined;
let isConnecting = false;
/** Last words of a program that was not reached or has refused. */
let problem = "";

const tabs = new Tabs({
  isConnected: () => socket !== undefined,
  shown: (tab: SharedTab) => send({ type: "tab", shown: tab }),
  gone: (tab: number) => send({ type: "tab_gone", tab }),
});
const lists = readLists();
const ready = (async () => {
  settings = await readSettings();
  await tabs.load();
})();

function send(message: unknown): void {
  if (socket?.readyState === WebSocket.OPEN && isAnnounced) {
    socket.send(JSON.stringify(message));
  }
}

/** True once the first message of the present connection is sent, which must be the state. */
let isAnnounced = false;

function state(): { browser: string; paused: boolean; level: Level } {
  const browser = /(?:Headless)?Chrome\/[\d.]+/.exec(navigator.userAgent)?.[0] ?? "Chromium";
  return { browser, paused: settings.paused, level: settings.level };
}

/** Connects to the program, if one is paired and none is connected. */
async function reach(): Promise<void> {
  await ready;
  if (socket !== undefined || isConnecting || settings.key === undefined) {
    return;
  }
  isConnecting = true;
  try {
    const admitted = await connect(settings.port, settings.key);
    const own = admitted.socket;
    socket = own;
    isAnnounced = false;
    problem = "";
    tabs.connection(true);
    own.onmessage = (event) => void take(JSON.parse(event.data as string) as Call);
    own.onclose = () => {
      if (socket === own) {
        socket = undefined;
        tabs.connection(false);
        // The debugger stays attached, so that the program goes on where it was.
        void reach();
      }
    };
    const shared = await tabs.attachAll(admitted.instance);
    if (socket === own && own.readyState === WebSocket.OPEN) {
      own.send(JSON.stringify({ type: "hello", ...state(), tabs: shared }));
      isAnnounced = true;
      // Tabs that were shared meanwhile.
      for (const tab of await chrome.tabs.query({})) {
        void tabs.follow(tab).catch(() => undefined);
      }
    }
  } catch (error) {
    problem = error instanceof Error ? error.message : String(error);
  } finally {
    isConnecting = false;
    if (socket === undefined) {
      setTimeout(() => void reach(), RETRY);
    }
  }
}

async function take(call: Call): Promise<void> {
  switch (call.type) {
    case "ping":
      return send({ type: "pong" });
    case "unshare":
      return tabs.unshare(call.tab as number);
    case "bye": {
      // Whoever says goodbye may listen a moment longer, so the next attempt waits.
      const own = socket;
      socket = undefined;
      if (own !== undefined) {
        own.onclose = null;
        own.close();
      }
      tabs.connection(false);
      setTimeout(() => void reach(), RETRY);
      return tabs.detachAll();
    }
    case "call": {
      const from = socket;
      const answer = await outcome(call);
      if (from === socket) {
        send({ type: "answer", id: call.id, ...answer });
      }
    }
  }
}

async function outcome(call: Call): Promise<{ result: unknown } | { error: { code: number; message: string } }> {
  try {
    const result = await run(call);
    // A call whose answer comes after the pause began tells nothing.
    requireAwake();
    return { result: result ?? {} };
  } catch (error) {
    return { error: describe(error) };
  }
}

/** Returns the error of a call. The browser gives those of the protocol as JSON in a message. */
function describe(error: unknown): { code: number; message: string } {
  if (error instanceof CallError) {
    return { code: error.code, message: error.message };
  }
  const message = error instanceof Error ? error.message : String(error);
  try {
    const parsed = JSON.parse(message) as { code?: number; message?: string };
    return { code: parsed.code ?? -32_000, message: parsed.message ?? message };
  } catch {
    return { code: -32_000, message };
  }
}

function requireAwake(): void {
  if (settings.paused) {
    throw new CallError(PAUSED, "the user has paused the extension");
  }
}

async function run(call: Call): Promise<unknown> {
  requireAwake();
  const refused = refusal(await lists, call.method, settings.level);
  if (refused !== undefined) {
    throw new CallError(NOT_ALLOWED, refused);
  }
  if (call.method === "tabs.create" || call.method === "Page.navigate") {
    const url = String(call.params?.["url"]);
    const reason = unshareable(url);
    if (reason !== undefined) {
      throw new CallError(NOT_ALLOWED, `${url}: ${reason}`);
    }
  }
  if (call.method === "tabs.create") {
    return create(String(call.params?.["url"]));
  }
  const id = call.tab;
  if (id === undefined || tabs.attachment(id) === undefined) {
    throw new CallError(NOT_FOUND, "the tab is not shared");
  }
  switch (call.method) {
    case "tabs.get": {
      const tab = await chrome.tabs.get(id);
      return { title: tab.title ?? "", url: urlOf(tab) };
    }
    case "tabs.activate":
      return chrome.tabs.update(id, { active: true }).then(() => ({}));
    case "tabs.close":
      return chrome.tabs.remove(id).then(() => ({}));
    default: {
      const target: chrome.debugger.DebuggerSession = { tabId: id };
      if (call.session !== undefined) {
        target.sessionId = call.session;
      }
      return chrome.debugger.sendCommand(target, call.method, call.params);
    }
  }
}

/** Opens a tab in the group. */
async function create(url: string): Promise<unknown> {
  const [window] = await chrome.windows.getAll({ windowTypes: ["normal"] });
  const tab = window === undefined
    ? (await chrome.windows.create({ url }))?.tabs?.[0]
    : await chrome.tabs.create({ url, active: true });
  if (tab?.id === undefined) {
    throw new CallError(NOT_FOUND, "the browser opened no tab");
  }
  await tabs.share(tab.id);
  return { tab: tab.id, target: tabs.attachment(tab.id)?.target };
}

/** Sets whether commands are carried. */
async function pause(paused: boolean): Promise<void> {
  settings.paused = paused;
  send({ type: "state", ...state() });
  await change({ paused });
}

/** Request of a page of this extension. */
interface Request {
  type: "status" | "share" | "unshare" | "pause" | "level" | "pair" | "forget";
  tab?: number;
  paused?: boolean;
  level?: Level;
  code?: string;
  port?: number;
}

async function answer(request: Request): Promise<unknown> {
  await ready;
  switch (request.type) {
    case "share":
      await tabs.share(request.tab as number);
      void reach();
      break;
    case "unshare":
      await tabs.unshare(request.tab as number);
      break;
    case "pause":
      await pause(request.paused === true);
      break;
    case "level":
      if (request.level !== undefined && LEVELS.includes(request.level)) {
        settings.level = request.level;
        send({ type: "state", ...state() });
        await change({ level: request.level });
      }
      break;
    case "pair": {
      if (settings.key !== undefined) {
        throw new Error("this browser is paired already: forget the pairing first");
      }
      const port = request.port ?? settings.port;
      const key = await pair(port, request.code ?? "");
      settings = { ...settings, key, port };
      await change({ key, port });
      void reach();
      break;
    }
    case "forget":
      delete settings.key;
      await forgetKey();
      await tabs.detachAll();
      socket?.close();
      break;
    case "status":
      void reach();
  }
  const tab = request.tab === undefined ? undefined : await chrome.tabs.get(request.tab).catch(() => undefined);
  return {
    paired: settings.key !== undefined,
    connected: socket !== undefined && isAnnounced,
    paused: settings.paused,
    level: settings.level,
    port: settings.port,
    problem,
    shared: tab !== undefined && tabs.isShared(tab),
    unshareable: tab === undefined ? undefined : unshareable(urlOf(tab)),
  };
}

chrome.runtime.onMessage.addListener((request: Request, sender, reply) => {
  // Only the pages of this extension speak to it: no other extension, and no page of the web.
  if (sender.id !== chrome.runtime.id || sender.origin !== location.origin) {
    return false;
  }
  answer(request).then(
    (status) => reply({ status }),
    (error: unknown) => reply({ error: error instanceof Error ? error.message : String(error) }),
  );
  return true;
});

chrome.debugger.onEvent.addListener((source, method, params) => {
  void ready.then(async () => {
    const tab = source.tabId;
    if (tab === undefined || tabs.attachment(tab) === undefined) {
      return;
    }
    const fields = (params ?? {}) as Record<string, unknown>;
    tabs.note(tab, method, fields);
    if (settings.paused) {
      return;
    }
    if (method === "Page.frameNavigated" && source.sessionId === undefined) {
      const frame = fields["frame"] as { url: string; parentId?: string };
      const isError = frame.url.startsWith("chrome-error://");
      if (frame.parentId === undefined && !isError && unshareable(frame.url) !== undefined) {
        return tabs.unshare(tab);
      }
    }
    if ((loaded ?? (await lists)).events.has(method)) {
      send({ type: "event", tab, session: source.sessionId, method, params: fields });
    }
  });
});

/** The lists, once they are read: events then keep their order. */
let loaded: Awaited<typeof lists> | undefined;
void lists.then((read) => (loaded = read));

chrome.debugger.onDetach.addListener((source, reason) => {
  void ready.then(async () => {
    const id = source.tabId;
    if (id === undefined || !tabs.lost(id)) {
      return;
    }
    if (reason === "canceled_by_user") {
      // The user has closed the bar of the debugger.
      await tabs.unshareAll();
    } else {
      const tab = await chrome.tabs.get(id).catch(() => undefined);
      if (tab !== undefined) {
        await tabs.follow(tab).catch(() => undefined);
      }
    }
  });
});

chrome.tabs.onUpdated.addListener((_id, changed, tab) => {
  if (changed.groupId !== undefined || changed.url !== undefined || changed.title !== undefined) {
    void ready.then(() => tabs.follow(tab)).catch(() => undefined);
  }
});

chrome.tabs.onRemoved.addListener((id) => {
  void ready.then(() => tabs.lost(id));
});

chrome.tabs.onCreated.addListener((tab) => {
  void ready.then(async () => {
    // A page of a shared tab has opened it.
    if (tab.openerTabId !== undefined && tab.id !== undefined && tabs.attachment(tab.openerTabId) !== undefined) {
      await tabs.share(tab.id).catch(() => undefined);
    }
  });
});

chrome.alarms.onAlarm.addListener((alarm) => {
  if (alarm.name === ALARM) {
    void reach().then(() => tabs.giveUp());
  }
});

async function wake(): Promise<void> {
  await chrome.alarms.create(ALARM, { periodInMinutes: 0.5 });
  await reach();
}

chrome.runtime.onInstalled.addListener(() => void wake());
chrome.runtime.onStartup.addListener(() => void wake());
void wake();
