// What the user has set, and what outlives the sleep of the worker.
const DEFAULTS = { paused: false, level: "interaction", port: 7600 };
export async function readSettings() {
    const kept = await chrome.storage.local.get(null);
    return { ...DEFAULTS, ...kept };
}
export async function change(settings) {
    await chrome.storage.local.set(settings);
}
export async function forgetKey() {
    await chrome.storage.local.remove("key");
}
export async function readMemory() {
    const kept = await chrome.storage.session.get(null);
    return { groups: [], attached: {}, instance: "", lost: 0, ...kept };
}
export async function keepMemory(memory) {
    await chrome.storage.session.set(memory);
}
