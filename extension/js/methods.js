// The list of the methods that may be used, by level. The program at the other end reads the same file.
export const LEVELS = ["reading", "interaction", "destructive"];
/** Returns the lists, as the packaged file has them. */
export async function readLists() {
    const response = await fetch(chrome.runtime.getURL("methods.json"));
    const file = (await response.json());
    const entries = LEVELS.flatMap((level) => file[level].map((name) => [name, level]));
    return { methods: new Map(entries), events: new Set(file.events) };
}
/** Returns why a method is not used; undefined if it may be. */
export function refusal(lists, method, limit) {
    const level = lists.methods.get(method);
    if (level === undefined) {
        return `${method} is not used in the user's browser`;
    }
    if (LEVELS.indexOf(level) > LEVELS.indexOf(limit)) {
        return `${method} is ${level}, and the extension lets ${limit} pass`;
    }
    return undefined;
}
