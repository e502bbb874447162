// The options: the code of a pairing, and how far agents may go.
function element(id) {
    return document.getElementById(id);
}
async function ask(request) {
    const answer = (await chrome.runtime.sendMessage(request));
    element("problem").textContent = answer.error ?? "";
    const status = answer.status;
    if (status === undefined) {
        return;
    }
    element("pairing").hidden = status.paired;
    element("paired").hidden = !status.paired;
    const connected = status.connected ? "connected" : `not connected: no agent asks for it now (port ${status.port})`;
    element("state").textContent = `${connected}${status.paused ? ", paused" : ""}`;
    element("level").value = status.level;
}
element("pairing").onsubmit = (event) => {
    event.preventDefault();
    const code = element("code").value;
    const port = Number(element("port").value);
    void ask({ type: "pair", code, port });
};
element("forget").onclick = () => void ask({ type: "forget" });
element("level").onchange = (event) => void ask({ type: "level", level: event.target.value });
await ask({ type: "status" });
export {};
