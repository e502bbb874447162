//! Imports by the rules of each language, across folders and packages.

use crate::files::{Files, rows};

fn calls(files: &[(&str, &str)]) -> Vec<String> {
    rows(
        &Files::of(files).graph(),
        "MATCH (a)-[c:CALLS]->(b:Function) RETURN a.id, b.id, c.confidence, c.via",
    )
}

#[test]
fn rust_names_crates_modules_and_what_they_pass_on() {
    let found = calls(&[
        ("one/Cargo.toml", "[package]\nname = \"crate-one\"\n"),
        (
            "one/src/lib.rs",
            "mod inner;\npub use inner::deep::far as near;\npub mod block { pub fn f() { super::g() } }\nfn g() {}\n",
        ),
        ("one/src/inner/mod.rs", "pub mod deep;\n"),
        ("one/src/inner/deep.rs", "pub fn far() { crate::block::f(); self::own() }\nfn own() {}\n"),
        ("two/Cargo.toml", "[package]\nname = \"two\"\n"),
        (
            "two/src/main.rs",
            "use crate_one::{block::{self}, near};\nfn main() { near(); block::f(); crate_one::block::f() }\n",
        ),
        ("two/tests/whole/main.rs", "mod other;\nfn run() { other::help() }\n"),
        ("two/tests/whole/other.rs", "pub fn help() {}\n"),
    ]);
    assert_eq!(
        found,
        [
            "one/src/inner/deep.rs#far one/src/inner/deep.rs#own exact local",
            "one/src/inner/deep.rs#far one/src/lib.rs#block.f exact import",
            "one/src/lib.rs#block.f one/src/lib.rs#g exact local",
            "two/src/main.rs#main one/src/inner/deep.rs#far exact import",
            "two/src/main.rs#main one/src/lib.rs#block.f exact import",
            "two/tests/whole/main.rs#run two/tests/whole/other.rs#help exact import",
        ]
    );
}

#[test]
fn rust_methods_are_found_by_the_types_of_receivers() {
    let found = calls(&[(
        "src/lib.rs",
        "struct A { inner: Vec<B>, boxed: Box<dyn T> }\nstruct B;\ntrait T { fn t(&self); fn u(&self) { self.t() } }\n\
         impl T for B { fn t(&self) {} }\nimpl B { fn new() -> Self { B } fn b(&self) -> &B { self } }\n\
         impl A { fn a(&self) { for b in &self.inner { b.b().b(); } self.boxed.t(); } }\n\
         fn f<X: T>(x: X, a: Option<A>) { x.t(); if let Some(a) = a { a.a(); } let b = B::new(); b.b(); b.u(); }\n",
    )]);
    let expected = [
        "src/lib.rs#A.a src/lib.rs#B.b exact receiver_type",
        "src/lib.rs#A.a src/lib.rs#B.t inferred dynamic",
        "src/lib.rs#A.a src/lib.rs#T.t inferred receiver_type",
        "src/lib.rs#T.u src/lib.rs#B.t inferred dynamic",
        "src/lib.rs#T.u src/lib.rs#T.t exact receiver_type",
        "src/lib.rs#f src/lib.rs#A.a exact receiver_type",
        "src/lib.rs#f src/lib.rs#B.b exact receiver_type",
        "src/lib.rs#f src/lib.rs#B.new exact local",
        "src/lib.rs#f src/lib.rs#B.t inferred dynamic",
        "src/lib.rs#f src/lib.rs#T.t exact receiver_type",
        "src/lib.rs#f src/lib.rs#T.u exact inheritance",
    ];
    assert_eq!(found, expected);
}

#[test]
fn python_finds_packages_relative_names_and_folders_of_sources() {
    let found = calls(&[
        ("src/pkg/__init__.py", "from .core import run\nfrom . import util\n"),
        (
            "src/pkg/core.py",
            "from .util import help\nfrom ..pkg import util as u\ndef run():\n    help()\n    u.help()\n",
        ),
        ("src/pkg/util.py", "def help(): pass\n"),
        (
            "tests/test_core.py",
            "import pkg\nimport pkg.util\nfrom pkg import run as go\ndef test_it():\n    go()\n    pkg.util.help()\n    pkg.run()\n",
        ),
        ("tool/script.py", "from beside import f\nf()\n"),
        ("tool/beside.py", "def f(): pass\n"),
    ]);
    assert_eq!(
        found,
        [
            "src/pkg/core.py#run src/pkg/util.py#help exact import",
            "tests/test_core.py#test_it src/pkg/core.py#run exact import",
            "tests/test_core.py#test_it src/pkg/util.py#help exact import",
            "tool/script.py# tool/beside.py#f exact import",
        ]
    );
}

#[test]
fn scripts_find_files_packages_and_mapped_paths() {
    let found = calls(&[
        (
            "tsconfig.json",
            "{ // with a comment\n \"compilerOptions\": { \"baseUrl\": \".\", \"paths\": { \"@lib/*\": [\"libs/*/src\"], }, } }",
        ),
        ("libs/a/src/index.ts", "export * from './deep.js';\nexport { default as named } from './named';\n"),
        ("libs/a/src/deep.ts", "export function deep() {}\n"),
        ("libs/a/src/named.ts", "export default function () { return 1 }\n"),
        (
            "packages/p/package.json",
            "{ \"name\": \"@scope/p\", \"exports\": { \".\": { \"import\": \"./dist/main.js\" } } }",
        ),
        ("packages/p/src/index.ts", "export const p = () => {};\n"),
        ("old.js", "function f() {}\nmodule.exports = { f, g: function () {} };\n"),
        (
            "app/main.ts",
            "import { deep } from '@lib/a';\nimport { p } from '@scope/p';\nimport * as old from '../old';\n\
                         const { g } = require('../old');\nexport function run() { deep(); p(); old.f(); g(); }\n",
        ),
    ]);
    assert_eq!(
        found,
        [
            "app/main.ts#run libs/a/src/deep.ts#deep exact import",
            "app/main.ts#run old.js#f exact import",
            "app/main.ts#run old.js#g inferred dynamic",
            "app/main.ts#run packages/p/src/index.ts#p exact import",
        ]
    );
}

#[test]
fn go_finds_packages_by_the_module_and_methods_by_types() {
    let found = calls(&[
        ("go.mod", "module example.org/m\n\ngo 1.22\n"),
        (
            "main.go",
            "package main\n\nimport (\n\tk \"example.org/m/kit\"\n)\n\nfunc main() {\n\ts := k.New()\n\ts.Run()\n\tvar r k.Runner = s\n\tr.Run()\n\thelp()\n}\n",
        ),
        ("other.go", "package main\n\nfunc help() {}\n"),
        (
            "kit/kit.go",
            "package kit\n\ntype Runner interface{ Run() }\n\ntype Server struct{ base }\n\nfunc New() *Server { return &Server{} }\n\nfunc (s *Server) Run() { s.log() }\n",
        ),
        ("kit/base.go", "package kit\n\ntype base struct{}\n\nfunc (b *base) log() {}\n"),
    ]);
    assert_eq!(
        found,
        [
            "kit/kit.go#Server.Run kit/base.go#base.log exact inheritance",
            "main.go#main kit/kit.go#New exact import",
            "main.go#main kit/kit.go#Runner.Run exact receiver_type",
            "main.go#main kit/kit.go#Server.Run exact receiver_type",
            "main.go#main other.go#help exact import",
        ]
    );
}

#[test]
fn java_and_csharp_find_types_of_packages() {
    let found = calls(&[
        (
            "a/Main.java",
            "package a;\nimport b.*;\nclass Main { Shape shape; void run() { shape.draw(); new Circle(1).grow(); help(); } void help() {} }\n",
        ),
        ("b/Shape.java", "package b;\npublic interface Shape { void draw(); }\n"),
        (
            "b/Circle.java",
            "package b;\npublic class Circle implements Shape { Circle(int r) {} public void draw() {} Circle grow() { return this; } }\n",
        ),
        (
            "Main.cs",
            "using Kit.Shapes;\nnamespace App { class Main { IShape shape; void Run() { shape.Draw(); var c = new Circle(); c.Grow(); } } }\n",
        ),
        (
            "Circle.cs",
            "namespace Kit.Shapes;\npublic interface IShape { void Draw(); }\npublic class Circle : IShape { public void Draw() {} public Circle Grow() => this; }\n",
        ),
    ]);
    assert_eq!(
        found,
        [
            "Main.cs#App.Main.Run Circle.cs#Circle.Draw inferred dynamic",
            "Main.cs#App.Main.Run Circle.cs#Circle.Grow exact receiver_type",
            "Main.cs#App.Main.Run Circle.cs#IShape.Draw exact receiver_type",
            "a/Main.java#Main.run a/Main.java#Main.help exact local",
            "a/Main.java#Main.run b/Circle.java#Circle.Circle exact import",
            "a/Main.java#Main.run b/Circle.java#Circle.draw inferred dynamic",
            "a/Main.java#Main.run b/Circle.java#Circle.grow exact receiver_type",
            "a/Main.java#Main.run b/Shape.java#Shape.draw exact receiver_type",
        ]
    );
}

#[test]
fn a_call_of_which_only_the_name_is_known_stays_apart() {
    let graph = Files::of(&[
        ("a.py", "def f(x):\n    x.only_here()\n    x.everywhere()\n"),
        ("b.py", "class B:\n    def only_here(self): pass\n"),
    ])
    .graph();
    assert_eq!(rows(&graph, "MATCH (a)-[:CALLS]->(b) RETURN b.id"), Vec::<String>::new());
    assert_eq!(
        rows(&graph, "MATCH (a)-[c:MAY_CALL]->(b) RETURN b.id, c.confidence"),
        ["b.py#B.only_here name_only"]
    );
    assert_eq!(rows(&graph, "MATCH (f:File {path: 'a.py'}) RETURN f.unresolved_calls"), ["2"]);
}

#[test]
fn relationships_of_types_are_there() {
    let graph = Files::of(&[(
        "a.ts",
        "interface I { m(): void }\nabstract class A implements I { abstract m(): void; x: B }\n\
         class B extends A { m() { super.m(); } }\nexport class C { b(): B { return new B() } }\n",
    )])
    .graph();
    let found = |relation: &str| {
        rows(&graph, &format!("MATCH (a)-[:{relation}]->(b) RETURN a.qualified_name, b.qualified_name"))
    };
    assert_eq!(found("IMPLEMENTS"), ["A I"]);
    assert_eq!(found("INHERITS"), ["B A"]);
    assert_eq!(found("OVERRIDES"), ["A.m I.m", "B.m A.m"]);
    assert_eq!(found("INSTANTIATES"), ["C.b B"]);
    assert_eq!(found("RETURNS_TYPE"), ["C.b B"]);
    assert_eq!(found("HAS_TYPE"), ["A.x B"]);
}

#[test]
fn decorators_lead_to_what_they_decorate() {
    let graph = Files::of(&[("a.py", "def mark(f):\n    return f\n\n@mark\ndef g(): pass\n")]).graph();
    assert_eq!(rows(&graph, "MATCH (a)-[:DECORATES]->(b) RETURN a.name, b.name"), ["mark g"]);
}

#[test]
fn a_program_without_a_library_has_the_modules_beside_it() {
    let machine = "pub struct Engine {}\nimpl Engine {\n    pub fn start(&self) {}\n}\n";
    let main = "mod machine;\nuse crate::machine::Engine;\nfn go(e: &Engine) { e.start(); }\n";
    let calls = "MATCH (a)-[:CALLS]->(b:Method) RETURN a.id, b.id";
    let found = |files: &[(&str, &str)]| {
        let mut all = Files::default();
        for (path, text) in files {
            all.0.insert((*path).to_owned(), text.as_bytes().to_vec());
        }
        rows(&all.graph(), calls)
    };
    let alone = found(&[("src/machine.rs", machine), ("src/main.rs", main)]);
    assert_eq!(alone, ["src/main.rs#go src/machine.rs#Engine.start"]);
    // With a library, a module of the same name belongs to it.
    let both = found(&[
        ("src/lib.rs", "mod machine;\n"),
        ("src/machine.rs", machine),
        ("src/main.rs", "fn main() {}\n"),
    ]);
    assert_eq!(both, Vec::<String>::new());
}
