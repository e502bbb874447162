// The tabs that are shared: those in the groups of this extension, with the debugger attached while a
// program is connected.
import { keepMemory, readMemory } from "./settings.js";
import { unshareable } from "./shareable.js";
const TITLE = "Handfast";
/** Milliseconds for which the debugger stays attached without a connection. */
const PATIENCE = 300_000;
/** Returns the URL of a tab. A tab that has just been opened has none yet. */
export function urlOf(tab) {
    return tab.url || tab.pendingUrl || "about:blank";
}
/** The shared tabs. */
export class Tabs {
    watcher;
    memory = { groups: [], attached: {}, instance: "", lost: 0 };
    attaching = new Map();
    constructor(watcher) {
        this.watcher = watcher;
    }
    async load() {
        this.memory = await readMemory();
    }
    keep() {
        void keepMemory(this.memory);
    }
    attachment(tab) {
        return this.memory.attached[tab];
    }
    isShared(tab) {
        return this.memory.groups.includes(tab.groupId);
    }
    /** Puts a tab into the group of its window. */
    async share(id) {
        const tab = await chrome.tabs.get(id);
        const reason = unshareable(urlOf(tab));
        if (reason !== undefined) {
            throw new Error(reason);
        }
        let group;
        for (const known of this.memory.groups) {
            const found = await chrome.tabGroups.get(known).catch(() => undefined);
            if (found?.windowId === tab.windowId) {
                group = known;
            }
        }
        if (group === undefined) {
            group = await chrome.tabs.group({ tabIds: [id], createProperties: { windowId: tab.windowId } });
            this.memory.groups.push(group);
            this.keep();
            await chrome.tabGroups.update(group, { title: TITLE, color: "purple" });
        }
        else {
            await chrome.tabs.group({ tabIds: [id], groupId: group });
        }
        await this.follow(await chrome.tabs.get(id));
    }
    /** Takes a tab out of its group. */
    async unshare(id) {
        await this.detach(id);
        const tab = await chrome.tabs.get(id).catch(() => undefined);
        if (tab !== undefined && this.isShared(tab)) {
            await chrome.tabs.ungroup([id]);
        }
    }
    /** Attaches the debugger to a tab that is shared now, and detaches it from one that is not any more. */
    async follow(tab) {
        const id = tab.id;
        if (id === undefined) {
            return;
        }
        if (!this.isShared(tab)) {
            await this.detach(id);
        }
        else if (unshareable(urlOf(tab)) !== undefined) {
            await this.unshare(id);
        }
        else if (this.attachment(id) !== undefined) {
            this.watcher.shown(this.describe(tab, this.attachment(id)));
        }
        else if (this.watcher.isConnected()) {
            await this.attach(tab, id);
        }
    }
    async attach(tab, id) {
        const under = this.attaching.get(id) ?? this.attachNow(tab, id);
        this.attaching.set(id, under);
        await under.finally(() => this.attaching.delete(id));
    }
    async attachNow(tab, id) {
        await chrome.debugger.attach({ tabId: id }, "1.3");
        const answer = (await chrome.debugger.sendCommand({ tabId: id }, "Page.getFrameTree"));
        const target = answer.frameTree.frame.id;
        const attachment = { attachment: crypto.randomUUID(), target, frames: [] };
        this.memory.attached[id] = attachment;
        this.keep();
        this.watcher.shown(this.describe(tab, attachment));
    }
    async detach(id) {
        if (this.lost(id)) {
            // The tab may be closed already.
            await chrome.debugger.detach({ tabId: id }).catch(() => undefined);
        }
    }
    /** Records that the debugger is detached from a tab. Returns false if it was not attached. */
    lost(id) {
        if (this.attachment(id) === undefined) {
            return false;
        }
        delete this.memory.attached[id];
        this.keep();
        this.watcher.gone(id);
        return true;
    }
    describe(tab, attachment) {
        const shown = { tab: tab.id, url: urlOf(tab), title: tab.title ?? "", ...attachment };
        if (tab.openerTabId !== undefined) {
            shown.opener = tab.openerTabId;
        }
        return shown;
    }
    /** Attaches to all shared tabs for this listener, and returns them. */
    async attachAll(instance) {
        if (this.memory.instance !== instance) {
            await this.detachAll();
            this.memory.instance = instance;
            this.keep();
        }
        const all = await chrome.tabs.query({});
        const shared = all.filter((tab) => this.isShared(tab));
        await Promise.allSettled(shared.map((tab) => this.follow(tab)));
        return shared.flatMap((tab) => {
            const attachment = this.attachment(tab.id);
            return attachment === undefined ? [] : [this.describe(tab, attachment)];
        });
    }
    async detachAll() {
        await Promise.all(Object.keys(this.memory.attached).map((id) => this.detach(Number(id))));
    }
    /** Notes that a connection has begun or ended. */
    connection(isThere) {
        this.memory.lost = isThere ? 0 : Date.now();
        this.keep();
    }
    /** Detaches from all tabs if no program has come back for a long time: it was ended without a goodbye. */
    async giveUp() {
        if (this.memory.lost > 0 && Date.now() - this.memory.lost > PATIENCE) {
            await this.detachAll();
        }
    }
    /** Stops sharing all tabs. */
    async unshareAll() {
        const all = await chrome.tabs.query({});
        await Promise.allSettled(all.filter((tab) => this.isShared(tab)).map((tab) => this.unshare(tab.id)));
    }
    /** Notes what an event says about frames in other processes. */
    note(tab, method, params) {
        const attachment = this.attachment(tab);
        if (attachment === undefined) {
            return;
        }
        if (method === "Target.attachedToTarget") {
            attachment.frames.push({ session: String(params["sessionId"]), info: params["targetInfo"] });
            this.keep();
        }
        else if (method === "Target.detachedFromTarget") {
            attachment.frames = attachment.frames.filter((frame) => frame.session !== params["sessionId"]);
            this.keep();
        }
    }
}
