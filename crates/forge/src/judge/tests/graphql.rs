//! GraphQL: what reads, and everything that parsers could differ about.

use super::*;

#[test]
fn queries_read() {
    for text in [
        "{ viewer { login } }",
        "query a($n: Int = 1) { search(query: \"mutation {a}\", first: $n) { ...f } } fragment f on X { mutation: id }",
        "# mutation { mergePullRequest }\nquery { mutation }",
        "query A { a } query B { b }",
        "query { a(text: \"\"\"\n } mutation { x }\n\"\"\") }",
        "query ($x: [[Int!]!]!) @d(a: {b: [1, 2]}) { a }",
    ] {
        assert_eq!(document(text), "reads", "{text}");
    }
    assert_eq!(
        asks(r#"{"query":"{a}","operationName":null,"variables":{},"extensions":{"client":"x"}}"#),
        "reads"
    );
    assert_eq!(words(&whole("POST", "/api/graphql", JSON, br#"{"query":"{a}"}"#)), "reads");
    assert_eq!(words(&whole("GET", "/graphql?query=%7Ba%7D", &[], b"")), "reads");
    assert_eq!(words(&whole("GET", "/graphql", &[], b"")), "reads");
}

#[test]
fn mutations_write_under_their_names_in_the_schema() {
    for (text, said) in [
        ("mutation { mergePullRequest(input: {}) { id } }", "GraphQL mutation mergePullRequest"),
        ("mutation M { viewer: deleteRef { id } b: addStar { id } }", "GraphQL mutation deleteRef, addStar"),
        ("query Q { a } mutation M { addStar { id } }", "GraphQL mutation addStar"),
        (
            "mutation M { ...f } fragment f on Mutation { ...g } fragment g on Mutation { ...f closeIssue { id } }",
            "GraphQL mutation closeIssue",
        ),
        (
            "mutation { ... on Mutation { ... @include(if: true) { addStar { id } } } }",
            "GraphQL mutation addStar",
        ),
        ("subscription { changed { id } }", "GraphQL subscription changed"),
        ("#\nmutation#\n{a}", "GraphQL mutation a"),
    ] {
        assert_eq!(document(text), said);
    }
    assert_eq!(
        words(&whole("GET", "/graphql?query=mutation%7BaddStar%7D", &[], b"")),
        "GraphQL mutation addStar"
    );
    let many: String = (0..100).map(|at| format!(" a{at}")).collect();
    let said = document(&format!("mutation {{{many} }}"));
    assert!(said.ends_with("a9, 40 more") && said.len() < 200, "{said}");
}

#[test]
fn documents_that_parsers_may_differ_about_write() {
    for text in [
        "",
        "# nothing",
        "fragment f on X { a }",
        "type Query { a: Int }",
        "{ a } extend type Query { b: Int }",
        "schema { mutation: M }",
        "{ a ",
        "{ a } }",
        "{ a } mutation",
        "query mutation { a } { b } x",
        "{ }",
        "\u{feff}{ a }",
        "# a\rmutation { b }\n{ a }",
        "{ a }\r",
        "# a\u{2028}mutation { b }\n{ a }",
        "{\u{a0}a }",
        "{ a(b: \"\n\") }",
    ] {
        assert!(document(text).contains("(not understood: "), "{text:?}");
    }
    // Deeper than the parser's own stack.
    for (open, close) in [("{a", "}"), ("(b:[", "]"), ("{b:", "}")] {
        let deep = format!("{{ a(b: {}1{}) }}", open.repeat(100_000), close.repeat(100_000));
        is_unclear(&document(&deep));
    }
    is_unclear(&document(&format!("query(${}) {{ a }}", "a: [".repeat(50_000))));
    is_unclear(&document(&format!("{{ {} }}", "a ".repeat(25_000))));
}

#[test]
fn bodies_that_are_not_one_plain_query_write() {
    for body in [
        r#"[{"query":"{a}"}]"#,
        r#"{"query":"{a}","query":"mutation {b}"}"#,
        r#"{"query":"mutation {b}","qu\u0065ry":"{a}"}"#,
        r#"{"query":"{a}","variables":{"x":1,"x":2}}"#,
        r#"{"query":"{a}","id":"1"}"#,
        r#"{"query":"{a}","Query":"mutation {b}"}"#,
        r#"{"extensions":{"persistedQuery":{"version":1,"sha256Hash":"a"}}}"#,
        r#"{"query":"{a}","extensions":{"persistedQuery":{"version":1,"sha256Hash":"a"}}}"#,
        r#"{"query":null}"#,
        r#"{"query":["{a}"]}"#,
        r#"{"query":"{a}"} {"query":"mutation {b}"}"#,
        r#"{"query":"{a}""#,
        "\u{feff}{\"query\":\"{a}\"}",
        "query=%7Ba%7D",
        "",
    ] {
        is_unclear(&asks(body));
    }
    let good = br#"{"query":"{a}"}"#;
    let wide: Vec<u8> =
        std::str::from_utf8(good).unwrap().encode_utf16().flat_map(u16::to_le_bytes).collect();
    is_unclear(&words(&whole("POST", "/graphql", JSON, &wide)));
    for kind in
        ["application/json; charset=utf-16", "application/graphql", "text/plain", "multipart/form-data", ""]
    {
        is_unclear(&words(&whole("POST", "/graphql", &[("content-type", kind.as_bytes())], good)));
    }
    let twice = [JSON[0], ("content-type", b"text/plain".as_slice())];
    is_unclear(&words(&whole("POST", "/graphql", &twice, good)));
    is_unclear(&words(&whole("POST", "/graphql", &[], good)));
    is_unclear(&words(&whole("POST", "/graphql?query=mutation%7Bb%7D", JSON, good)));
    for target in ["/graphql/", "/GraphQL", "/x/graphql", "/graphql;x"] {
        assert_eq!(words(&whole("POST", target, JSON, good)), format!("POST {target}"));
    }
    for query in ["query=%7Ba%7D&query=mutation%7Bb%7D", "query=%7Ba%7D&id=1", "extensions=%7B%7D", "id=1"] {
        is_unclear(&words(&whole("GET", &format!("/graphql?{query}"), &[], b"")));
    }
    is_unclear(&words(&whole("GET", "/v2/GraphQL?query=mutation%7Bb%7D", &[], b"")));
    let long = format!(r#"{{"query":"{{a}}","operationName":"{}"}}"#, "a".repeat(2 * 1024 * 1024));
    is_unclear(&asks(&long));
}
