// What the user has set, and what outlives the sleep of the worker.

import type { Level } from "./methods.js";

/** Settings that outlive the browser. */
export interface Settings {
  /** Key of the pairing, in base64. */
  key?: string;
  paused: boolean;
  level: Level;
  port: number;
}

const DEFAULTS: Settings = { paused: false, level: "interaction", port: 7600 };

export async function readSettings(): Promise<Settings> {
  const kept = await chrome.storage.local.get<Partial<Settings>>(null);
  return { ...DEFAULTS, ...kept };
}

export async function change(settings: Partial<Settings>): Promise<void> {
  await chrome.storage.local.set(settings);
}

export async function forgetKey(): Promise<void> {
  await chrome.storage.local.remove("key");
}

/** A frame in another process, with its session of the debugger. */
export interface Frame {
  session: string;
  info: unknown;
}

/** Attachment of the debugger to a tab. */
export interface Attachment {
  attachment: string;
  target: string;
  frames: Frame[];
}

/** State that outlives the sleep of the worker, and not the browser. */
export interface Memory {
  /** Groups of tabs that are shared. */
  groups: number[];
  /** Attached tabs. */
  attached: Record<number, Attachment>;
  /** Listener that the debugger was attached for. */
  instance: string;
  /** Time of the end of the last connection, in milliseconds; 0 while there is one. */
  lost: number;
}

export async function readMemory(): Promise<Memory> {
  const kept = await chrome.storage.session.get<Partial<Memory>>(null);
  return { groups: [], attached: {}, instance: "", lost: 0, ...kept };
}

export async function keepMemory(memory: Memory): Promise<void> {
  await chrome.storage.session.set(memory);
}
