// The popup: shares the present tab, and pauses.

interface Status {
  paired: boolean;
  connected: boolean;
  paused: boolean;
  shared: boolean;
  unshareable?: string;
  problem: string;
}

function element<T extends HTMLElement>(id: string): T {
  return document.getElementById(id) as T;
}

const [tab] = await chrome.tabs.query({ active: true, currentWindow: true });

async function ask(request: object): Promise<void> {
  const answer = (await chrome.runtime.sendMessage({ ...request, tab: tab?.id })) as { status?: Status; error?: string };
  element("problem").textContent = answer.error ?? "";
  const status = answer.status;
  if (status === undefined) {
    return;
  }
  const where = status.connected ? "An agent is connected." : "No agent is connected.";
  element("state").textContent = status.paired ? where : "Not paired: see the options.";
  const share = element<HTMLButtonElement>("share");
  share.textContent = status.shared ? "Stop sharing this tab" : "Share this tab";
  share.disabled = !status.shared && status.unshareable !== undefined;
  share.title = status.unshareable ?? "";
  share.onclick = () => void ask({ type: status.shared ? "unshare" : "share" });
  const pause = element<HTMLButtonElement>("pause");
  pause.textContent = status.paused ? "Go on" : "Pause";
  pause.onclick = () => void ask({ type: "pause", paused: !status.paused });
}

element("options").onclick = () => void chrome.runtime.openOptionsPage();
await ask({ type: "status" });

export {};
