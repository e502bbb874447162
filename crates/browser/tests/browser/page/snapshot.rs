//! Snapshots of real pages.

use browser::{Selector, SnapshotKind, SnapshotOptions};

use crate::harness::{page as evaluate, run};
use crate::page::open;

const FORM: &str = r#"<title>Orders</title>
<header><nav aria-label="Main"><a href="/a">Home</a></nav></header>
<main><h1>Orders</h1><p>See the <a href="/c">guide</a> for more.</p>
<form aria-label="Order"><label>Email <input type="email" value="a@b" required></label>
<label for="p">Password</label><input id="p" type="password" value="hunter2">
<select aria-label="Size"><option>Small<option selected>Large</select>
<label><input type="checkbox" checked> Agree</label>
<textarea placeholder="Notes">hello</textarea>
<span id="l1">Send</span><button aria-labelledby="l1 l2" disabled></button><span id="l2">order</span></form>
<img src="data:," alt="A logo"><input type="image" src="data:," alt="Go">
<details><summary>More</summary>inner text</details>
<div contenteditable>edit me</div><div id="host"></div></main>"#;

#[test]
fn a_snapshot_shows_roles_names_states_and_values() {
    run(async |ground| {
        let page = open(&ground, FORM).await;
        evaluate::<()>(page.tab(), r#"void (document.getElementById("host").attachShadow({mode: "open"}).innerHTML = "<button>In shadow</button>")"#).await;
        let snapshot = page.snapshot(&SnapshotOptions::default()).await.unwrap();
        assert_eq!(
            snapshot.text,
            r#"banner e1
 navigation "Main" e2
  link "Home" e3
main e4
 heading "Orders" 1
 "See the"
 link "guide" e5
 "for more."
 form "Order" e6
  textbox "Email" e7 required value="a@b"
  textbox "Password" e8 password, filled
  combobox "Size" e9 options: Small, Large value="Large"
  checkbox "Agree" e10 checked
  textbox "Notes" e11 value="hello"
  "Send"
  button "Send order" e12 disabled
  "order"
 img "A logo"
 button "Go" e13
 button "More" e14 collapsed
 textbox e15 value="edit me"
 button "In shadow" e16
"#
        );
        assert_eq!(snapshot.title, "Orders");
        assert!(!snapshot.is_shortened);
    });
}

#[test]
fn a_long_page_fits_the_budget() {
    run(async |ground| {
        let rows: String = (0..1000)
        .map(|row| format!("<tr><td><input type=checkbox aria-label='Select {row}'><td>{row}<td><a href='/{row}'>User {row}</a><td>user{row}@example.com<td><button>Edit</button> <button>Delete</button></tr>"))
        .collect();
        let page = open(&ground, &format!("<h1>Users</h1><table>{rows}</table><button>End</button>")).await;
        let snapshot = page.snapshot(&SnapshotOptions::default()).await.unwrap();
        assert!(snapshot.tokens <= 8000 && snapshot.is_shortened, "{}", snapshot.tokens);
        assert!(snapshot.text.contains("… 990 more rows like this"), "{}", snapshot.text);
        assert!(snapshot.text.contains("button \"End\""));
        let found = page
            .snapshot(&SnapshotOptions {
                query: Some("user777@ delete".into()),
                ..SnapshotOptions::default()
            })
            .await
            .unwrap();
        assert_eq!(found.kind, SnapshotKind::Matches);
        assert_eq!(found.text.lines().count(), 2, "{}", found.text);
        let scope = Some(Selector::parse("css:tr:nth-child(500)").unwrap());
        let row = page.snapshot(&SnapshotOptions { scope, ..SnapshotOptions::default() }).await.unwrap();
        assert!(row.text.starts_with("row \"499 | user499@example.com\""), "{}", row.text);
        assert_eq!(row.lines, 5);
    });
}
