// The options: the code of a pairing, and how far agents may go.

interface Status {
  paired: boolean;
  connected: boolean;
  paused: boolean;
  level: string;
  port: number;
  problem: string;
}

function element<T extends HTMLElement>(id: string): T {
  return document.getElementById(id) as T;
}

async function ask(request: object): Promise<void> {
  const answer = (await chrome.runtime.sendMessage(request)) as { status?: Status; error?: string };
  element("problem").textContent = answer.error ?? "";
  const status = answer.status;
  if (status === undefined) {
    return;
  }
  element("pairing").hidden = status.paired;
  element("paired").hidden = !status.paired;
  const connected = status.connected ? "connected" : `not connected: no agent asks for it now (port ${status.port})`;
  element("state").textContent = `${connected}${status.paused ? ", paused" : ""}`;
  element<HTMLSelectElement>("level").value = status.level;
}

element<HTMLFormElement>("pairing").onsubmit = (event) => {
  event.preventDefault();
  const code = element<HTMLInputElement>("code").value;
  const port = Number(element<HTMLInputElement>("port").value);
  void ask({ type: "pair", code, port });
};
element("forget").onclick = () => void ask({ type: "forget" });
element<HTMLSelectElement>("level").onchange = (event) =>
  void ask({ type: "level", level: (event.target as HTMLSelectElement).value });
await ask({ type: "status" });

export {};
