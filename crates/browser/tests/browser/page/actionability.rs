//! Cases of what Playwright's actionability promises.

use browser::{ClickOptions, PageError, Selector};

use crate::harness::{LIMIT, page as evaluate, run};
use crate::page::{SHORT, open};

/// A page on which a click on `#b` must count once the page lets it through.
const PATIENT: [(&str, &str); 9] = [
    ("plain", "<button id=b>Go</button>"),
    (
        "enabled after 1.2 s",
        "<button id=b disabled>Go</button><script>setTimeout(() => b.disabled = false, 1200)</script>",
    ),
    (
        "covered for 1.2 s",
        "<button id=b>Go</button><div id=o style='position:fixed;inset:0;background:#fff'>Cookie notice</div><script>setTimeout(() => o.remove(), 1200)</script>",
    ),
    (
        "moving for 1 s",
        "<style>#b{position:absolute;animation:m 1s linear}@keyframes m{from{left:0}to{left:600px}}</style><button id=b style='left:600px'>Go</button>",
    ),
    (
        "hidden for 1.2 s",
        "<button id=b style='visibility:hidden'>Go</button><script>setTimeout(() => b.style.visibility = '', 1200)</script>",
    ),
    (
        "rendered again every 50 ms",
        "<div id=r></div><script>const draw = () => r.innerHTML = '<button id=b>Go</button>'; draw(); setInterval(draw, 50)</script>",
    ),
    (
        "added after 1.2 s",
        "<div id=r></div><script>setTimeout(() => r.innerHTML = '<button id=b>Go</button>', 1200)</script>",
    ),
    (
        "far down",
        "<div style='height:5000px'></div><button id=b>Go</button><div style='height:5000px'></div>",
    ),
    (
        "under a sticky header",
        "<style>header{position:sticky;top:0;height:300px;background:#eee}</style><header>Head</header><div style='height:900px'></div><button id=b>Go</button><div style='height:200px'></div>",
    ),
];

const COUNT: &str = "<script>var clicks = 0; addEventListener('click', event => { if (event.isTrusted && event.target.id == 'b') clicks++ })</script>";

#[test]
fn a_click_waits_until_its_element_can_take_it() {
    run(async |ground| {
        for (case, html) in PATIENT {
            let page = open(&ground, &format!("{html}{COUNT}")).await;
            let clicked = page.click(&Selector::parse("#b").unwrap(), ClickOptions::default(), LIMIT).await;
            assert!(clicked.is_ok(), "{case}: {clicked:?}");
            assert_eq!(evaluate::<u32>(page.tab(), "clicks").await, 1, "{case}");
            ground.session.close(page.tab().number()).await.unwrap();
        }
    });
}

/// Pages on which a click on `#b` must fail, and words of the reason.
const REFUSED: [(&str, &str); 8] = [
    ("<button id=b disabled>Go</button>", "disabled"),
    ("<fieldset disabled><button id=b>Go</button></fieldset>", "disabled"),
    ("<button id=b style='display:none'>Go</button>", "display: none"),
    ("<div style='opacity:0'><button id=b>Go</button></div>", "opacity: 0 on <div>"),
    ("<button id=b style='width:0;height:0;padding:0;border:0'></button>", "size is 0×0"),
    (
        "<button id=b>Go</button><div class='overlay dark' style='position:fixed;inset:0'><p>Cookie notice</p></div>",
        "covered by <div class=overlay> \"Cookie notice\"",
    ),
    (
        "<style>#b{position:absolute;animation:m 1s linear infinite}@keyframes m{from{left:0}to{left:600px}}</style><button id=b>Go</button>",
        "moving",
    ),
    ("<button id=b style='position:absolute;left:-500px;width:50px'>Go</button>", "outside the viewport"),
];

#[test]
fn a_click_that_is_not_possible_says_why() {
    run(async |ground| {
        for (html, reason) in REFUSED {
            let page = open(&ground, &format!("{html}{COUNT}")).await;
            let error = page
                .click(&Selector::parse("#b").unwrap(), ClickOptions::default(), SHORT)
                .await
                .unwrap_err();
            assert!(matches!(error, PageError::NotReady { .. }), "{html}: {error}");
            assert!(error.to_string().contains(reason), "{html}: {error}");
            assert_eq!(evaluate::<u32>(page.tab(), "clicks").await, 0, "{html}");
            ground.session.close(page.tab().number()).await.unwrap();
        }
    });
}
