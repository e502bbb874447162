// Pages that may be shared, by their URL. `shareable.rs` has the same rule.
const LOOPBACK = /^(localhost|.*\.localhost|127\.\d+\.\d+\.\d+|0\.0\.0\.0|\[::1?\]|\[::ffff:7f[0-9a-f]{2}:[0-9a-f]{1,4}\]|\[::ffff:0:0\])$/;
/** Returns why a page is not shared with an agent; undefined if it may be. */
export function unshareable(text) {
    const url = URL.parse(text);
    if (url === null) {
        return "only http and https pages are shared";
    }
    if (url.protocol === "about:" && url.pathname === "blank") {
        return undefined;
    }
    if (url.protocol !== "http:" && url.protocol !== "https:") {
        return "only http and https pages are shared";
    }
    // The policy of an agent takes these addresses for the network of its own session.
    return LOOPBACK.test(url.hostname.replace(/\.$/, "")) ? "pages of servers on this machine are not shared" : undefined;
}
