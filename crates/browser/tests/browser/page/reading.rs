//! Pages as text and as HTML, in parts.

use browser::{PagePart, ReadOptions};

use crate::harness::run;
use crate::page::{open, selector};

const PAGE: &str = "<style>p{color:red}</style><h1>Title</h1><p>First  <b>bold</b>text, <a href='http://example.test/a'>link</a>.</p>
<p hidden>Hidden</p><p style='opacity:0'>Clear</p><p aria-hidden=true>Aria</p><p style='position:absolute;left:-9999px'>Away</p><p style='visibility:hidden'>Gone <span style='visibility:visible'>back</span></p>
<ul><li>One<li>Two</ul><table><tr><th>A<th>B</tr><tr><td>1<td>2</tr></table><pre>a  b
c</pre><details><summary>Sum</summary>inner</details><img alt=Logo src=data:,><script>var x = 'SCRIPT'</script><div onclick='evil()' data-x='1' style='color:red'>Div</div><img src='data:image/png;base64,AAAA'>";

#[test]
fn text_has_blocks_rows_and_nothing_hidden() {
    run(async |ground| {
        let page = open(&ground, PAGE).await;
        let part = page.read_text(&ReadOptions { links: true, ..ReadOptions::default() }).await.unwrap();
        assert_eq!(
            part.text,
            "# Title\n\nFirst boldtext, link (http://example.test/a).\n\nback\n\n- One\n- Two\n\nA | B\n1 | 2\n\na  b\nc\n\nSum\n[image: Logo]\nDiv"
        );
        assert_eq!((part.next, part.total, part.stopped.as_str()), (None, Some(part.text.len()), ""));
        let scoped = page
            .read_text(&ReadOptions { scope: Some(selector("css:table")), ..ReadOptions::default() })
            .await
            .unwrap();
        assert_eq!(scoped.text, "A | B\n1 | 2");
    });
}

#[test]
fn html_is_cleaned() {
    run(async |ground| {
        let page = open(&ground, PAGE).await;
        let html = page.read_html(&ReadOptions::default()).await.unwrap().text;
        for absent in ["SCRIPT", "color:red", "evil", "AAAA"] {
            assert!(!html.contains(absent), "{absent}: {html}");
        }
        for present in ["<h1>Title</h1>", "data-x=\"1\"", "<script></script>", "src=\"data:… ("] {
            assert!(html.contains(present), "{present}: {html}");
        }
    });
}

#[test]
fn parts_together_are_the_whole() {
    run(async |ground| {
        let path = ground.server.page("<!doctype html><p>In the frame: äöü 🙂</p>");
        let page = open(&ground, &format!("{PAGE}<iframe src='{path}'></iframe>")).await;
        let whole = page.read_text(&ReadOptions::default()).await.unwrap();
        assert!(whole.text.ends_with("In the frame: äöü 🙂"), "{}", whole.text);
        let mut joined = String::new();
        let mut offset = 0;
        loop {
            let options = ReadOptions { offset, limit: 7, ..ReadOptions::default() };
            let PagePart { text, next, .. } = page.read_text(&options).await.unwrap();
            joined.push_str(&text);
            let Some(next) = next else { break };
            assert_eq!(next, offset + 7);
            offset = next;
        }
        // A character outside the basic plane may fall on the border of two parts.
        assert_eq!(
            joined.replace('\u{fffd}', ""),
            whole.text.replace('🙂', if joined.contains('🙂') { "🙂" } else { "" })
        );
    });
}
