//! The whole path: pair, share, navigate, read, act, and go on after the connection broke.

use std::time::{Duration, Instant};

use browser::{BrowserError, ClickOptions, Clip, Format, Page, Selector, SnapshotOptions};
use serde_json::json;

use super::driven::{Cable, Lender, UserChromium, at_shop, paired, server, until};
use crate::harness::{LIMIT, profile, run_alone};
use crate::server::Answer;

const COUNTER: &str = "<!doctype html><title>Shop</title><h1>Shop</h1>
    <button onclick=\"this.nextSibling.textContent += 'x'\">Count</button><p>count </p>";

async fn look(page: &Page) -> String {
    page.snapshot(&SnapshotOptions::default()).await.unwrap().text
}

/// Returns the reference of an element in a snapshot.
fn reference(snapshot: &str, name: &str) -> Selector {
    let line = snapshot.lines().find(|line| line.contains(name)).unwrap();
    let word = line
        .split(['[', ']', ' '])
        .find(|word| word.strip_prefix('e').is_some_and(|number| number.parse::<u32>().is_ok()));
    Selector::parse(word.unwrap()).unwrap()
}

async fn click(page: &Page, element: &Selector) -> Duration {
    let began = Instant::now();
    page.tab().begin_action().await.unwrap();
    page.click(element, ClickOptions::default(), LIMIT).await.unwrap();
    began.elapsed()
}

#[test]
fn a_lent_browser_is_used_and_goes_on_in_its_tab_after_the_connection_broke() {
    run_alone(async {
        let server = server().await;
        let (shop, next) =
            (at_shop(&server.page(COUNTER)), at_shop(&server.page("<title>Next</title><h1>Next</h1>")));
        let private = at_shop(&server.page("<title>Private</title>private"));
        let (chromium, lender) = (UserChromium::start("whole").await, Lender::new());
        let cable = Cable::to(lender.port).await;
        let options = chromium.options().await;
        lender.pair(&options, cable.port).await;
        let _private = chromium.open(&private).await;
        let user_tab = chromium.open(&shop).await;
        assert_eq!(options.share(&shop).await["status"]["shared"], true);
        let began = Instant::now();
        let running = lender.borrow_browser().await;
        println!("connected after {:?}", began.elapsed());
        assert!(running.is_users() && running.version().contains("Chrome/"), "{}", running.version());
        // The other tab is not seen.
        let tabs = running.session().tabs().await;
        assert_eq!(tabs.len(), 1, "{tabs:?}");
        assert_eq!((tabs[0].url.as_str(), tabs[0].title.as_str()), (shop.as_str(), "Shop"));
        let page = running.page(tabs[0].tab).unwrap();
        let snapshot = look(&page).await;
        let count = reference(&snapshot, "Count");
        println!("clicked in {:?}", click(&page, &count).await);
        println!("clicked again in {:?}", click(&page, &count).await);
        let picture = page.tab().screenshot(Clip::Viewport, Format::Png, 4_000_000).await.unwrap();
        assert!(picture.bytes.starts_with(b"\x89PNG"));
        // A tab that the agent opens is in the group.
        let opened = running.session().navigate(None, &next, None, LIMIT).await.unwrap();
        assert!(opened.loaded && opened.title == "Next", "{opened:?}");
        let groups = options
            .evaluate(
                "chrome.tabs.query({}).then(async all => { const own = all.filter(tab => tab.groupId >= 0); \
                       const group = await chrome.tabGroups.get(own[0].groupId); \
                       return [group.title, own.map(tab => tab.title).sort().join()]; })",
            )
            .await;
        assert_eq!(groups, json!(["Handfast", "Next,Shop"]));
        // The connection breaks, and the same reference in the same tab goes on.
        let connections = cable.connections();
        cable.pull();
        until("it is broken", || async { !options.is_connected().await }).await;
        cable.plug_in();
        // A call waits until the extension is back.
        click(&page, &count).await;
        assert!(cable.connections() > connections);
        assert!(look(&page).await.contains("count xxx"), "{}", look(&page).await);
        // Changes while it was broken are seen afterwards.
        cable.pull();
        until("it is broken", || async { !options.is_connected().await }).await;
        user_tab.evaluate(&format!("location.href = '{next}'")).await;
        until("the user's tab is there", || async { user_tab.evaluate("document.title").await == "Next" })
            .await;
        cable.plug_in();
        until("the extension comes back", || async { lender.ready().await.is_ok() }).await;
        until("the tab shows the new page", || async { page.tab().url() == next }).await;
        assert!(look(&page).await.contains("Next"));
        lender.end();
    });
}

#[test]
fn a_session_that_ends_leaves_the_tabs_and_takes_the_debugger_away() {
    run_alone(async {
        let server = server().await;
        let shop = at_shop(&server.page(COUNTER));
        let (chromium, options, lender) = paired("leaving").await;
        let _tab = chromium.open(&shop).await;
        options.share(&shop).await;
        let running = lender.borrow_browser().await;
        let attached = "chrome.debugger.getTargets().then(all => all.filter(one => one.tabId && one.attached && one.url.includes('shop.test')).length)";
        assert_eq!(running.session().tabs().await.len(), 1);
        // The test's own session is attached to the first tab, and the debugger to both.
        running.session().navigate(None, &shop, None, LIMIT).await.unwrap();
        assert_eq!(options.evaluate(attached).await, 2);
        drop(running);
        lender.end();
        let shared = "chrome.tabs.query({}).then(all => all.filter(tab => tab.groupId >= 0).length)";
        until("nobody is connected", || async { !options.is_connected().await }).await;
        until("the debugger is detached", || async { options.evaluate(attached).await == 1 }).await;
        assert_eq!(options.evaluate(shared).await, 2, "the tabs stay in their group");
        // The next session sees them again.
        let running = lender.borrow_browser().await;
        assert_eq!(running.session().tabs().await[0].url, shop);
        drop(running);
        lender.end();
    });
}

#[test]
fn a_page_that_opens_a_tab_opens_it_in_the_group_and_a_tab_that_leaves_it_is_gone() {
    run_alone(async {
        let server = server().await;
        let next = at_shop(&server.page("<title>Next</title>next"));
        let shop = at_shop(
            &server.page(&format!("<!doctype html><button onclick=\"window.open('{next}')\">Open</button>")),
        );
        let (chromium, options, lender) = paired("opened").await;
        let _tab = chromium.open(&shop).await;
        options.share(&shop).await;
        let running = lender.borrow_browser().await;
        let page = running.page(1).unwrap();
        click(&page, &Selector::parse("button").unwrap()).await;
        until("the new tab is shared", || async { running.session().tabs().await.len() == 2 }).await;
        until("its page is known", || async { running.session().tab(2).unwrap().url() == next }).await;
        // The user drags a tab out of the group.
        options
            .evaluate("chrome.tabs.query({}).then(all => chrome.tabs.ungroup(all.find(tab => tab.title === 'Next').id))")
            .await;
        until("the tab is gone", || async { running.session().tabs().await.len() == 1 }).await;
        lender.end();
    });
}

#[test]
fn frames_of_other_sites_in_a_shared_page_are_read_and_used() {
    run_alone(async {
        let server = server().await;
        let inner = at_shop(&server.page("<button onclick=\"this.textContent = 'pressed'\">Inner</button>"));
        let inner = inner.replace("shop.test", "bank.test");
        let shop =
            at_shop(&server.page(&format!("<!doctype html><h1>Outer</h1><iframe src='{inner}'></iframe>")));
        let (chromium, lender) = (UserChromium::start("frames").await, Lender::new());
        let cable = Cable::to(lender.port).await;
        let options = chromium.options().await;
        lender.pair(&options, cable.port).await;
        let _tab = chromium.open(&shop).await;
        options.share(&shop).await;
        let running = lender.borrow_browser().await;
        let page = running.page(1).unwrap();
        until("the frame is read", || async { look(&page).await.contains("Inner") }).await;
        let line = look(&page).await;
        let word =
            line.split(['[', ']', ' ', '\n']).find(|word| word.starts_with("f2e") || word.starts_with("f1e"));
        click(&page, &Selector::parse(word.unwrap()).unwrap()).await;
        until("it is pressed", || async { look(&page).await.contains("pressed") }).await;
        cable.pull();
        until("it is broken", || async { !options.is_connected().await }).await;
        cable.plug_in();
        until("the frame is still read", || async { look(&page).await.contains("pressed") }).await;
        lender.end();
    });
}

#[test]
fn a_lent_browser_outlives_the_sleep_of_its_worker() {
    run_alone(async {
        let server = server().await;
        let shop = at_shop(&server.page(COUNTER));
        let (chromium, options, lender) = paired("asleep").await;
        let _tab = chromium.open(&shop).await;
        options.share(&shop).await;
        let running = lender.borrow_browser().await;
        let page = running.page(1).unwrap();
        let count = reference(&look(&page).await, "Count");
        click(&page, &count).await;
        options.stop_workers().await;
        // Anything wakes it: an alarm, an event of a tab, or a page of the extension.
        assert_eq!(options.ask(&json!({"type": "status"})).await["status"]["paired"], true);
        until("it comes back", || async { lender.ready().await.is_ok() }).await;
        click(&page, &count).await;
        assert!(look(&page).await.contains("count xx"), "{}", look(&page).await);
        lender.end();
    });
}

#[test]
fn a_pairing_outlives_the_browser_and_no_tab_is_shared_after_its_start() {
    run_alone(async {
        let server = server().await;
        let shop = at_shop(&server.page(COUNTER));
        let folder = profile("restarted");
        let lender = Lender::new();
        let running = {
            let chromium = UserChromium::start_in(&folder).await;
            let options = chromium.options().await;
            lender.pair(&options, lender.port).await;
            let _tab = chromium.open(&shop).await;
            options.share(&shop).await;
            let running = lender.borrow_browser().await;
            assert_eq!(running.session().tabs().await.len(), 1);
            chromium.quit().await;
            running
        };
        until("the browser is gone", || async {
            running.session().tabs().await.iter().all(|tab| tab.title.is_empty())
        })
        .await;
        let chromium = UserChromium::start_in(&folder).await;
        let options = chromium.options().await;
        assert_eq!(options.ask(&json!({"type": "status"})).await["status"]["paired"], true);
        until("it comes back", || async { lender.ready().await.is_ok() }).await;
        until("its old tabs are gone", || async { running.session().tabs().await.is_empty() }).await;
        let _tab = chromium.open(&shop).await;
        options.share(&shop).await;
        until("the new tab is there", || async { running.session().tabs().await.len() == 1 }).await;
        lender.end();
    });
}

#[test]
fn cookies_come_from_shared_pages_alone_and_only_if_the_user_lets_them() {
    run_alone(async {
        let server = server().await;
        let setting = |cookie: &str| {
            let headers = vec![("Content-Type", "text/html".to_owned()), ("Set-Cookie", cookie.to_owned())];
            server.answer(Answer { headers, body: b"<title>c</title>".to_vec(), ..Answer::default() })
        };
        let shop = at_shop(&setting("shop=1"));
        let bank = at_shop(&setting("bank=1")).replace("shop.test", "bank.test");
        let (chromium, options, lender) = paired("cookies").await;
        let (_shop, _bank) = (chromium.open(&shop).await, chromium.open(&bank).await);
        options.share(&shop).await;
        let running = lender.borrow_browser().await;
        let refused = running.session().cookies("").await.unwrap_err();
        assert!(
            matches!(&refused, BrowserError::NotShared { reason } if reason.contains("destructive")),
            "{refused}"
        );
        let closing = running.session().close(1).await.unwrap_err();
        assert!(matches!(closing, BrowserError::NotShared { .. }), "{closing}");
        options.ask(&json!({"type": "level", "level": "destructive"})).await;
        until("the level is known", || async { running.session().cookies("").await.is_ok() }).await;
        let names: Vec<String> =
            running.session().cookies("").await.unwrap().into_iter().map(|cookie| cookie.name).collect();
        assert_eq!(names, ["shop"]);
        running.session().close(1).await.unwrap();
        lender.end();
    });
}
