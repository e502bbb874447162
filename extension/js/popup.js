// The popup: shares the present tab, and pauses.
function element(id) {
    return document.getElementById(id);
}
const [tab] = await chrome.tabs.query({ active: true, currentWindow: true });
async function ask(request) {
    const answer = (await chrome.runtime.sendMessage({ ...request, tab: tab?.id }));
    element("problem").textContent = answer.error ?? "";
    const status = answer.status;
    if (status === undefined) {
        return;
    }
    const where = status.connected ? "An agent is connected." : "No agent is connected.";
    element("state").textContent = status.paired ? where : "Not paired: see the options.";
    const share = element("share");
    share.textContent = status.shared ? "Stop sharing this tab" : "Share this tab";
    share.disabled = !status.shared && status.unshareable !== undefined;
    share.title = status.unshareable ?? "";
    share.onclick = () => void ask({ type: status.shared ? "unshare" : "share" });
    const pause = element("pause");
    pause.textContent = status.paused ? "Go on" : "Pause";
    pause.onclick = () => void ask({ type: "pause", paused: !status.paused });
}
element("options").onclick = () => void chrome.runtime.openOptionsPage();
await ask({ type: "status" });
export {};
