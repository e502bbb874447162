//! Settings of a browser, and the arguments that Chromium is started with.

/// Settings of a browser.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Size of the viewport of every tab, in CSS pixels: width and height.
    pub viewport: (u32, u32),
    /// Script that runs in the isolated world of every frame before anything else does. Its
    /// variables stay for the functions that are called there later.
    pub world_script: &'static str,
    /// Maximum size of a file that a page downloads by itself, in bytes.
    pub download_limit: u64,
    /// Absolute path of the folder for the profile, as the browser sees it. One browser owns it.
    pub profile: String,
    /// Proxy for all traffic, as `--proxy-server` takes it, for example `http://127.0.0.1:8080`.
    /// `None` for direct connections.
    pub proxy: Option<String>,
    /// True if shared memory goes to files in the folder for temporary files, because `/dev/shm` is
    /// small or absent.
    pub avoids_dev_shm: bool,
    /// True if the browser shows windows on a screen.
    pub has_windows: bool,
}

impl Settings {
    /// Returns settings with a folder for the profile: 1280 x 720, no proxy, downloads by pages up
    /// to 100 MiB.
    pub fn new(profile: impl Into<String>) -> Self {
        Self {
            viewport: (1280, 720),
            world_script: "",
            download_limit: 100 * 1024 * 1024,
            profile: profile.into(),
            proxy: None,
            avoids_dev_shm: false,
            has_windows: false,
        }
    }

    /// Returns the arguments for Chromium, without the name of the program.
    pub fn arguments(&self) -> Vec<String> {
        let (width, height) = self.viewport;
        let mut arguments: Vec<String> = FLAGS.iter().map(|flag| (*flag).to_owned()).collect();
        arguments.push(format!("--disable-features={}", DISABLED_FEATURES.join(",")));
        arguments.push(format!("--user-data-dir={}", self.profile));
        arguments.push(format!("--window-size={width},{height}"));
        if !self.has_windows {
            arguments.push("--headless".to_owned());
        }
        if let Some(proxy) = &self.proxy {
            // Connections to loopback addresses go around the proxy: they reach the servers of the
            // network that the browser is in, which are those of its session.
            arguments.push(format!("--proxy-server={proxy}"));
        }
        if self.avoids_dev_shm {
            arguments.push("--disable-dev-shm-usage".to_owned());
        }
        arguments
    }
}

/// Arguments that always hold.
const FLAGS: [&str; 27] = [
    // Commands come through descriptor 3 and answers go through 4. No port is opened.
    "--remote-debugging-pipe",
    // The caller's cell is the sandbox; Chromium's own needs rights that the cell does not give.
    "--no-sandbox",
    // Sites get processes of their own, as on a desktop. The headless shell would mix them.
    "--site-per-process",
    // No questions about a default browser, a profile or what is new.
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-default-apps",
    "--disable-search-engine-choice-screen",
    // The browser contacts nobody by itself: no updates, reports, field trials, safe browsing.
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-domain-reliability",
    "--disable-client-side-phishing-detection",
    "--disable-sync",
    "--disable-breakpad",
    "--disable-crash-reporter",
    "--metrics-recording-only",
    "--no-pings",
    // UDP would go around the proxy: no QUIC, and WebRTC through the proxy or not at all.
    "--disable-quic",
    "--force-webrtc-ip-handling-policy",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    // Names are resolved by the proxy, and never ahead of a connection.
    "--dns-prefetch-disable",
    // Tabs behind others are drawn and run at full speed, or waiting for a frame would take long.
    "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding",
    // Passwords are kept nowhere but in the profile, without asking a keyring of the desktop.
    "--password-store=basic",
    // No sound goes out.
    "--mute-audio",
    // Extensions of the machine's installation stay out.
    "--disable-extensions",
    // Scroll bars would cover content in pictures.
    "--hide-scrollbars",
];

/// Features that are turned off, one a line with its reason.
const DISABLED_FEATURES: [&str; 6] = [
    // Offers to translate pages, which asks a server.
    "Translate",
    // Fetches hints about pages from a server.
    "OptimizationHints",
    // Finds devices in the local network.
    "MediaRouter",
    // Connects ahead of a click, which would look like a visit.
    "PreconnectToSearch",
    // Keeps pages that were left alive in memory, with their scripts and connections.
    "BackForwardCache",
    // Tries https first and hides which URL was asked for.
    "HttpsUpgrades",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_caller_names_is_in_the_arguments() {
        let plain = Settings::new("/profile").arguments();
        for wanted in
            ["--remote-debugging-pipe", "--user-data-dir=/profile", "--headless", "--window-size=1280,720"]
        {
            assert!(plain.iter().any(|argument| argument == wanted), "{wanted}");
        }
        assert!(
            !plain.iter().any(|argument| argument.starts_with("--proxy") || argument.contains("dev-shm"))
        );
        let proxy = Some("http://127.0.0.1:1".to_owned());
        let more =
            Settings { proxy, avoids_dev_shm: true, has_windows: true, ..Settings::new("/p") }.arguments();
        for wanted in ["--proxy-server=http://127.0.0.1:1", "--disable-dev-shm-usage"] {
            assert!(more.iter().any(|argument| argument == wanted), "{wanted}");
        }
        assert!(!more.iter().any(|argument| argument == "--headless"));
    }
}
