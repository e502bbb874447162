// The tabs that are shared: those in the groups of this extension, with the debugger attached while a
// program is connected.

import { keepMemory, readMemory, type Attachment, type Memory } from "./settings.js";
import { unshareable } from "./shareable.js";

const TITLE = "Handfast";
/** Milliseconds for which the debugger stays attached without a connection. */
const PATIENCE = 300_000;

/** A tab as the program sees it. */
export interface SharedTab extends Attachment {
  tab: number;
  url: string;
  title: string;
  opener?: number;
}

/** Returns the URL of a tab. A tab that has just been opened has none yet. */
export function urlOf(tab: chrome.tabs.Tab): string {
  return tab.url || tab.pendingUrl || "about:blank";
}

/** Listener to changes of the tabs. */
export interface Watcher {
  /** True while tabs are to be attached. */
  isConnected(): boolean;
  shown(tab: SharedTab): void;
  gone(tab: number): void;
}

/** The shared tabs. */
export class Tabs {
  private memory: Memory = { groups: [], attached: {}, instance: "", lost: 0 };
  private readonly attaching = new Map<number, Promise<void>>();

  constructor(private readonly watcher: Watcher) {}

  async load(): Promise<void> {
    this.memory = await readMemory();
  }

  private keep(): void {
    void keepMemory(this.memory);
  }

  attachment(tab: number): Attachment | undefined {
    return this.memory.attached[tab];
  }

  isShared(tab: chrome.tabs.Tab): boolean {
    return this.memory.groups.includes(tab.groupId);
  }

  /** Puts a tab into the group of its window. */
  async share(id: number): Promise<void> {
    const tab = await chrome.tabs.get(id);
    const reason = unshareable(urlOf(tab));
    if (reason !== undefined) {
      throw new Error(reason);
    }
    let group: number | undefined;
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
    } else {
      await chrome.tabs.group({ tabIds: [id], groupId: group });
    }
    await this.follow(await chrome.tabs.get(id));
  }

  /** Takes a tab out of its group. */
  async unshare(id: number): Promise<void> {
    await this.detach(id);
    const tab = await chrome.tabs.get(id).catch(() => undefined);
    if (tab !== undefined && this.isShared(tab)) {
      await chrome.tabs.ungroup([id]);
    }
  }

  /** Attaches the debugger to a tab that is shared now, and detaches it from one that is not any more. */
  async follow(tab: chrome.tabs.Tab): Promise<void> {
    const id = tab.id;
    if (id === undefined) {
      return;
    }
    if (!this.isShared(tab)) {
      await this.detach(id);
    } else if (unshareable(urlOf(tab)) !== undefined) {
      await this.unshare(id);
    } else if (this.attachment(id) !== undefined) {
      this.watcher.shown(this.describe(tab, this.attachment(id) as Attachment));
    } else if (this.watcher.isConnected()) {
      await this.attach(tab, id);
    }
  }

  private async attach(tab: chrome.tabs.Tab, id: number): Promise<void> {
    const under = this.attaching.get(id) ?? this.attachNow(tab, id);
    this.attaching.set(id, under);
    await under.finally(() => this.attaching.delete(id));
  }

  private async attachNow(tab: chrome.tabs.Tab, id: number): Promise<void> {
    await chrome.debugger.attach({ tabId: id }, "1.3");
    const answer = (await chrome.debugger.sendCommand({ tabId: id }, "Page.getFrameTree")) as {
      frameTree: { frame: { id: string } };
    };
    const target = answer.frameTree.frame.id;
    const attachment = { attachment: crypto.randomUUID(), target, frames: [] };
    this.memory.attached[id] = attachment;
    this.keep();
    this.watcher.shown(this.describe(tab, attachment));
  }

  private async detach(id: number): Promise<void> {
    if (this.lost(id)) {
      // The tab may be closed already.
      await chrome.debugger.detach({ tabId: id }).catch(() => undefined);
    }
  }

  /** Records that the debugger is detached from a tab. Returns false if it was not attached. */
  lost(id: number): boolean {
    if (this.attachment(id) === undefined) {
      return false;
    }
    delete this.memory.attached[id];
    this.keep();
    this.watcher.gone(id);
    return true;
  }

  private describe(tab: chrome.tabs.Tab, attachment: Attachment): SharedTab {
    const shown: SharedTab = { tab: tab.id as number, url: urlOf(tab), title: tab.title ?? "", ...attachment };
    if (tab.openerTabId !== undefined) {
      shown.opener = tab.openerTabId;
    }
    return shown;
  }

  /** Attaches to all shared tabs for this listener, and returns them. */
  async attachAll(instance: string): Promise<SharedTab[]> {
    if (this.memory.instance !== instance) {
      await this.detachAll();
      this.memory.instance = instance;
      this.keep();
    }
    const all = await chrome.tabs.query({});
    const shared = all.filter((tab) => this.isShared(tab));
    await Promise.allSettled(shared.map((tab) => this.follow(tab)));
    return shared.flatMap((tab) => {
      const attachment = this.attachment(tab.id as number);
      return attachment === undefined ? [] : [this.describe(tab, attachment)];
    });
  }

  async detachAll(): Promise<void> {
    await Promise.all(Object.keys(this.memory.attached).map((id) => this.detach(Number(id))));
  }

  /** Notes that a connection has begun or ended. */
  connection(isThere: boolean): void {
    this.memory.lost = isThere ? 0 : Date.now();
    this.keep();
  }

  /** Detaches from all tabs if no program has come back for a long time: it was ended without a goodbye. */
  async giveUp(): Promise<void> {
    if (this.memory.lost > 0 && Date.now() - this.memory.lost > PATIENCE) {
      await this.detachAll();
    }
  }

  /** Stops sharing all tabs. */
  async unshareAll(): Promise<void> {
    const all = await chrome.tabs.query({});
    await Promise.allSettled(all.filter((tab) => this.isShared(tab)).map((tab) => this.unshare(tab.id as number)));
  }

  /** Notes what an event says about frames in other processes. */
  note(tab: number, method: string, params: Record<string, unknown>): void {
    const attachment = this.attachment(tab);
    if (attachment === undefined) {
      return;
    }
    if (method === "Target.attachedToTarget") {
      attachment.frames.push({ session: String(params["sessionId"]), info: params["targetInfo"] });
      this.keep();
    } else if (method === "Target.detachedFromTarget") {
      attachment.frames = attachment.frames.filter((frame) => frame.session !== params["sessionId"]);
      this.keep();
    }
  }
}
