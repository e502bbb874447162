// The list of the methods that may be used, by level. The program at the other end reads the same file.

export type Level = "reading" | "interaction" | "destructive";

export const LEVELS: readonly Level[] = ["reading", "interaction", "destructive"];

export interface Lists {
  readonly methods: ReadonlyMap<string, Level>;
  readonly events: ReadonlySet<string>;
}

type File = Record<Level | "events", string[]>;

/** Returns the lists, as the packaged file has them. */
export async function readLists(): Promise<Lists> {
  const response = await fetch(chrome.runtime.getURL("methods.json"));
  const file = (await response.json()) as File;
  const entries = LEVELS.flatMap((level) => file[level].map((name): [string, Level] => [name, level]));
  return { methods: new Map(entries), events: new Set(file.events) };
}

/** Returns why a method is not used; undefined if it may be. */
export function refusal(lists: Lists, method: string, limit: Level): string | undefined {
  const level = lists.methods.get(method);
  if (level === undefined) {
    return `${method} is not used in the user's browser`;
  }
  if (LEVELS.indexOf(level) > LEVELS.indexOf(limit)) {
    return `${method} is ${level}, and the extension lets ${limit} pass`;
  }
  return undefined;
}
