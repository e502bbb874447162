//! Network access of a cell: programs reach the hosts that the profile lists, with a proxy or
//! without, and no others.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::Command;

use serde_json::{Value, json};

use crate::harness::{Fixture, Run};
use crate::https::Https;
use crate::server::Server;

const FREE: [&str; 2] = ["--mode", "full_auto"];

/// Host name of a test's server, which resolves to the machine on which Handfast runs.
const NAME: &str = "files.localhost";

/// Lists these hosts in the user's profile.
fn allow(fixture: &Fixture, hosts: &[String], rest: &str) {
    let folder = fixture.home().join(".config/handfast");
    std::fs::create_dir_all(&folder).unwrap();
    let hosts = serde_json::to_string(hosts).unwrap();
    let profile =
        format!("sandbox_config:\n  normal:\n    unlisted_hosts: deny\n    allowed_hosts: {hosts}\n{rest}");
    std::fs::write(folder.join("config.yaml"), profile).unwrap();
}

/// Starts a server at this address that answers "hello" in plain HTTP. Returns its port.
pub(crate) fn plain(address: &str) -> u16 {
    let listener = TcpListener::bind((address, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut head = BufReader::new(stream.try_clone().unwrap()).lines();
            while head.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
            let _gone =
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nhello\n");
        }
    });
    port
}

fn shell(fixture: &Fixture, line: &str) -> Value {
    fixture.call("shell_execute", json!({"command": line, "timeout": 300}))
}

/// Returns the audit rows about connections: the decision, and the target.
pub(crate) fn connections(fixture: &Fixture) -> Vec<(String, String)> {
    let Run { stdout, .. } = fixture.run(&["audit", "export"]);
    let rows = stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    rows.filter(|row| row["tool"] == "cell_connect")
        .map(|row| {
            let plan = match &row["plan"] {
                Value::String(text) => serde_json::from_str(text).unwrap(),
                plan => plan.clone(),
            };
            let effect = &plan["effects"][0];
            let place = format!("{}:{}", effect["host"].as_str().unwrap(), effect["port"]);
            (row["decision"].as_str().unwrap().to_owned(), place)
        })
        .collect()
}

#[test]
fn a_listed_host_is_reached_and_another_is_refused_explained_and_recorded() {
    let fixture = Fixture::new();
    let port = plain("127.0.0.2");
    allow(&fixture, &[format!("127.0.0.2:{port}")], "");
    let result = shell(&fixture, &format!("curl -sS http://127.0.0.2:{port}/"));
    assert_eq!(result["data"]["stdout"], "hello\n", "{result:#}");
    assert!(result["meta"]["sandbox"].to_string().contains("network:allowed_hosts"), "{result:#}");
    assert!(!result["meta"]["warnings"].to_string().contains("refused"), "{result:#}");
    // A program that does not use the proxy gets there too.
    let direct = shell(&fixture, &format!("curl -sS --noproxy '*' http://127.0.0.2:{port}/"));
    assert_eq!(direct["data"]["stdout"], "hello\n", "{direct:#}");
    let other = plain("127.0.0.3");
    let refused =
        shell(&fixture, &format!("curl -sS http://127.0.0.3:{other}/; curl -sS http://evil.example/"));
    let said = refused["data"]["stdout"].as_str().unwrap();
    assert!(said.starts_with("handfast: 127.0.0.3 is not listed in `allowed_hosts`; add "), "{refused:#}");
    assert!(said.contains("handfast: evil.example is not listed"), "{refused:#}");
    let warnings = refused["meta"]["warnings"].to_string();
    assert!(warnings.contains(&format!("a connection to 127.0.0.3:{other} was refused: ")), "{refused:#}");
    assert!(warnings.contains("a connection to evil.example:80 was refused: "), "{refused:#}");
    let pass = ("pass".to_owned(), format!("127.0.0.2:{port}"));
    let deny = |place: String| ("deny".to_owned(), place);
    assert_eq!(
        connections(&fixture),
        [pass.clone(), pass, deny(format!("127.0.0.3:{other}")), deny("evil.example:80".to_owned())]
    );
    let verified = fixture.run(&["audit", "verify", "--json"]);
    assert_eq!(verified.code, 0, "{}", verified.stdout);
}

#[test]
fn without_a_list_there_is_no_way_out() {
    let fixture = Fixture::new();
    allow(&fixture, &[], "");
    let port = plain("127.0.0.2");
    let line = format!(
        "env | grep -i proxy; curl -sS -m 5 http://127.0.0.2:{port}/; curl -sS -m 5 http://127.0.0.1:880/"
    );
    let result = shell(&fixture, &line);
    assert_ne!(result["data"]["exit_code"], 0, "{result:#}");
    assert_eq!(result["data"]["stdout"], "");
    assert!(!result["meta"]["sandbox"].to_string().contains("network:allowed_hosts"), "{result:#}");
    assert!(connections(&fixture).is_empty());
}

#[test]
fn a_name_that_is_not_listed_does_not_exist_and_the_agent_is_told() {
    let fixture = Fixture::new();
    allow(&fixture, &["listed.example".to_owned()], "");
    let ask = "import socket\nfor name in ['listed.example', 'secret-0123456789.evil.example']:\n    \
               try: print(socket.gethostbyname(name))\n    except OSError as error: print(error)";
    fixture.write("ask.py", ask);
    let result = shell(&fixture, "python3 ask.py");
    let said: Vec<_> = result["data"]["stdout"].as_str().unwrap().lines().collect();
    assert_eq!(said[0], "198.18.0.1", "{result:#}");
    assert!(said[1].contains("not known"), "{result:#}");
    let warnings = result["meta"]["warnings"].to_string();
    assert!(warnings.contains("secret-0123456789.evil.example was refused"), "{result:#}");
    assert!(!warnings.contains("to listed.example"), "{result:#}");
}

#[test]
fn a_private_address_behind_a_listed_name_is_not_reached() {
    let fixture = Fixture::new();
    let port = plain("127.0.0.2");
    // The wildcard allows every host name, but no address outside the public internet.
    allow(&fixture, &["*".to_owned()], "");
    let result = shell(
        &fixture,
        &format!(
            "for host in 127.0.0.2 [::ffff:127.0.0.2] 169.254.169.254 10.0.0.1; do curl -sS -m 20 http://$host:{port}/; done"
        ),
    );
    let said = result["data"]["stdout"].as_str().unwrap();
    assert_eq!(said.matches("which is not on the public internet").count(), 4, "{result:#}");
    assert!(!said.contains("hello"), "{result:#}");
}

#[test]
fn a_session_has_a_way_out_of_its_own_and_its_own_servers_beside_it() {
    let fixture = Fixture::new();
    let port = plain("127.0.0.2");
    allow(&fixture, &[format!("127.0.0.2:{port}")], "");
    let mut first = Server::start(&fixture, &FREE);
    let session = first.background("python3 -u -m http.server 8123 --bind 127.0.0.1", false);
    first.expect(&session, 0, "^Serving HTTP");
    let line = format!("curl -sS http://localhost:8123/ | head -c 9; curl -sS http://127.0.0.2:{port}/");
    let seen = first.data("shell_execute", json!({"command": line}));
    assert_eq!(seen["stdout"], "<!DOCTYPEhello\n", "{seen:#}");
    let mut second = Server::start(&fixture, &FREE);
    let line = format!("curl -sS -m 5 http://localhost:8123/; curl -sS http://127.0.0.2:{port}/");
    let seen = second.data("shell_execute", json!({"command": line}));
    assert_eq!(seen["stdout"], "hello\n", "{seen:#}");
    first.end();
    second.end();
}

/// The two ways to the network, as a program finds them: with the proxy variables, and without.
const WAYS: [&str; 2] = ["unset NO_PROXY no_proxy", "unset HTTP_PROXY http_proxy HTTPS_PROXY https_proxy"];

/// Makes a folder with the files that the real programs fetch, and starts a server of that folder.
fn world() -> (Fixture, Https) {
    let fixture = Fixture::new();
    let made = shell(
        &fixture,
        "set -e; mkdir -p served/git && cd served && echo content > file
         git init -q -b main source && cd source && git config user.email a@b && git config user.name A
         echo one > one && git add one && git commit -q -m one && cd ..
         git clone -q --bare source git/one.git && rm -rf source",
    );
    assert_eq!(made["data"]["exit_code"], 0, "{made:#}");
    let https = Https::serving(&fixture.workspace().join("served"), &[NAME]);
    fixture.write("authority.crt", &https.authority);
    let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output().unwrap();
    let sysroot = String::from_utf8(sysroot.stdout).unwrap();
    let rest = format!("    allowed_read_paths: [\".\", {:?}]\n", sysroot.trim());
    allow(&fixture, &[format!("{NAME}:{}", https.port)], &rest);
    fixture.write(
        "trust.sh",
        &format!(
            "export PATH={}/bin:$PATH URL=https://{NAME}:{}\n\
             for name in SSL_CERT_FILE CURL_CA_BUNDLE GIT_SSL_CAINFO NODE_EXTRA_CA_CERTS PIP_CERT REQUESTS_CA_BUNDLE \
             CARGO_HTTP_CAINFO npm_config_cafile; do export $name=$PWD/authority.crt; done\n",
            sysroot.trim(),
            https.port
        ),
    );
    (fixture, https)
}

/// Runs a line by each way to the network. The last line of its output must be `expected`.
#[track_caller]
fn by_every_way(fixture: &Fixture, https: &Https, line: &str, expected: &str) {
    for way in WAYS {
        https.asked.lock().clear();
        let before = connections(fixture).len();
        let result = shell(fixture, &format!(". ./trust.sh; {way}; {line}"));
        let said = result["data"]["stdout"].as_str().unwrap_or_default();
        assert_eq!(said.lines().last(), Some(expected), "{way}: {result:#}");
        assert!(!https.asked.lock().is_empty(), "{way}: nothing was asked: {result:#}");
        let all = connections(fixture);
        assert!(all.len() > before, "{way}");
        assert!(all[before..].iter().all(|(decision, _)| decision == "pass"), "{way}: {all:?}");
    }
}

#[test]
fn curl_and_git_work_through_it() {
    let (fixture, https) = world();
    by_every_way(&fixture, &https, "curl -sS $URL/file", "content");
    let line = "rm -rf clone && git clone -q $URL/git/one.git clone && cd clone && \
                git config user.email a@b && git config user.name A && \
                date +%N > two && git add two && git commit -q -m two && git push -q origin main && cat one";
    by_every_way(&fixture, &https, line, "one");
    assert!(https.asked.lock().iter().any(|line| line.contains("git-receive-pack")));
    // The control: without the authority, no client trusts this server.
    let untrusted = shell(&fixture, ". ./trust.sh; unset CURL_CA_BUNDLE SSL_CERT_FILE; curl -sS $URL/file");
    assert_eq!(untrusted["data"]["exit_code"], 60, "{untrusted:#}");
}

#[test]
fn python_and_pip_work_through_it() {
    let (fixture, https) = world();
    let line = "python3 -c 'import os, urllib.request as r; print(r.urlopen(os.environ[\"URL\"] + \"/file\").read().decode())'";
    by_every_way(&fixture, &https, &format!("{line} | head -1"), "content");
    let packed = shell(
        &fixture,
        "set -e; mkdir -p served/simple/p && python3 - <<'END'\nimport zipfile\n\
         wheel = zipfile.ZipFile('served/simple/p/p-1.0-py3-none-any.whl', 'w')\n\
         wheel.writestr('p.py', 'print(\"from p\")')\n\
         wheel.writestr('p-1.0.dist-info/METADATA', 'Metadata-Version: 2.1\\nName: p\\nVersion: 1.0\\n')\n\
         wheel.writestr('p-1.0.dist-info/WHEEL', 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')\n\
         wheel.writestr('p-1.0.dist-info/RECORD', '')\nwheel.close()\nEND\n\
         echo '<a href=\"p-1.0-py3-none-any.whl\">p-1.0-py3-none-any.whl</a>' > served/simple/p/index.html",
    );
    assert_eq!(packed["data"]["exit_code"], 0, "{packed:#}");
    let line = "rm -rf got && python3 -m pip install -q --no-cache-dir --disable-pip-version-check --target got \
                --index-url $URL/simple/ p >&2 && PYTHONPATH=got python3 -c 'import p'";
    by_every_way(&fixture, &https, line, "from p");
}

#[test]
fn node_and_npm_work_through_it() {
    let (fixture, https) = world();
    // Node's own client does not use a proxy by default, so this line tests programs without proxy
    // support.
    let line =
        "node -e 'fetch(process.env.URL + \"/file\").then(a => a.text()).then(t => process.stdout.write(t))'";
    by_every_way(&fixture, &https, line, "content");
    let url = format!("https://{NAME}:{}", https.port);
    let packed = shell(
        &fixture,
        &format!(
            r#"set -e; mkdir -p served/npm/t package && cd package
            echo '{{"name": "p", "version": "1.0.0", "main": "i.js"}}' > package.json && echo 'console.log("from p")' > i.js
            tar czf ../served/npm/t/p-1.0.0.tgz -C .. package
            echo '{{"name": "p", "dist-tags": {{"latest": "1.0.0"}}, "versions": {{"1.0.0": {{"name": "p", "version": "1.0.0",
                "dist": {{"tarball": "{url}/npm/t/p-1.0.0.tgz"}}}}}}}}' > ../served/npm/p"#
        ),
    );
    assert_eq!(packed["data"]["exit_code"], 0, "{packed:#}");
    let line = "rm -rf n ~/.npm/* && mkdir n && cd n && echo '{}' > package.json && \
                npm install --no-audit --no-fund --registry $URL/npm p >&2 && node -e 'require(\"p\")'";
    by_every_way(&fixture, &https, line, "from p");
}

#[test]
fn cargo_works_through_it() {
    let (fixture, https) = world();
    let url = format!("https://{NAME}:{}", https.port);
    let packed = shell(
        &fixture,
        &format!(
            r#"set -e; mkdir -p served/cargo/1 served/cargo/crates p-1.0.0/src user/src user/.cargo
            printf '[package]\nname = "p"\nversion = "1.0.0"\nedition = "2021"\n' > p-1.0.0/Cargo.toml
            echo 'pub fn said() -> &'"'"'static str {{ "from p" }}' > p-1.0.0/src/lib.rs
            tar czf served/cargo/crates/p-1.0.0.crate p-1.0.0
            sum=$(sha256sum served/cargo/crates/p-1.0.0.crate | cut -d' ' -f1)
            echo '{{"dl": "{url}/cargo/crates/{{crate}}-{{version}}.crate"}}' > served/cargo/config.json
            echo '{{"name":"p","vers":"1.0.0","deps":[],"cksum":"'$sum'","features":{{}},"yanked":false}}' > served/cargo/1/p
            printf '[registries.here]\nindex = "sparse+{url}/cargo/"\n' > user/.cargo/config.toml
            printf '[package]\nname = "user"\nversion = "1.0.0"\nedition = "2021"\n[dependencies]\np = {{ version = "1", registry = "here" }}\n' > user/Cargo.toml
            echo 'fn main() {{ println!("{{}}", p::said()) }}' > user/src/main.rs"#
        ),
    );
    assert_eq!(packed["data"]["exit_code"], 0, "{packed:#}");
    let line = "rm -rf /tmp/cargo && export CARGO_HOME=/tmp/cargo && cd user && rm -rf Cargo.lock target && cargo run -q";
    by_every_way(&fixture, &https, line, "from p");
}
