//! One caller: makes random calls through its door and compares each answer with its model.

use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::command::{Failure, Result};
use crate::soak::doors::{Answer, Break, Door};
use crate::soak::model::{Broken, Model, Random};

/// Maximum number of files in a worker's folder.
const FILES: usize = 24;
/// One call in this many is interrupted.
const BREAKS: usize = 40;

/// The fate of the process behind a door.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// The process runs to the end of the soak.
    Stays,
    /// Another worker kills the process.
    Dies,
    /// The worker itself kills the process.
    Kills,
}

/// A door, the model of the changes through it, and the calls that must have rows in the audit.
pub(super) struct Worker<'place> {
    pub(super) door: Door<'place>,
    pub(super) model: Model,
    /// Ids of acknowledged calls whose rows are committed before their answers. For a door that is
    /// never killed, ids of all calls.
    pub(super) recorded: Vec<String>,
    pub(super) calls: usize,
    pub(super) breaks: usize,
    fate: Fate,
    random: Random,
    /// Part of the name of every process that the worker's commands leave running.
    pub(super) marker: String,
}

/// An acknowledged change that can be undone: its checkpoint, the file and the earlier content.
type Undo = (String, String, Option<String>);

impl<'place> Worker<'place> {
    pub(super) fn new(number: u32, door: Door<'place>, fate: Fate, seed: u64, marker: &str) -> Self {
        let random = Random::new(seed.wrapping_add(u64::from(number)));
        let model = Model::new(format!("w{number}"));
        let marker = marker.to_owned();
        Self { door, model, recorded: Vec::new(), calls: 0, breaks: 0, fate, random, marker }
    }

    /// Creates the folder and the table.
    pub(super) fn prepare(&mut self) -> Result<()> {
        let sql = format!("CREATE TABLE {} (id INTEGER PRIMARY KEY, v TEXT)", self.model.name);
        self.works("db_write", &json!({"sql": sql}))?;
        self.write_anew("f0")
    }

    /// Makes one call of a random kind, or a few related calls.
    pub(super) fn step(&mut self) -> Result<()> {
        if self.random.below(BREAKS) == 0 {
            return self.broken();
        }
        match self.random.below(100) {
            0..18 => self.write(),
            18..45 => self.read(),
            45..57 => self.edit(),
            57..62 => self.delete(),
            62..68 => self.list(),
            68..74 => self.search(),
            74..82 => self.command(),
            82..84 if self.door.has_sessions() => self.session(),
            82..89 => self.insert(),
            89..95 => self.query(),
            _ => self.wrong(),
        }
    }

    fn write(&mut self) -> Result<()> {
        let name = format!("f{}", self.random.below(FILES));
        let content = self.text();
        let before = self.model.files.get(&name).cloned();
        let arguments = json!({"path": self.model.path(&name), "content": content});
        let Some(result) = self.works("file_write", &arguments)? else { return self.write_anew(&name) };
        check(&result, "/data/size_bytes", &json!(content.len()))?;
        check(&result, "/data/created", &json!(before.is_none()))?;
        self.changed(&result, name, before, Some(content))
    }

    fn edit(&mut self) -> Result<()> {
        let Some((name, content)) = self.some_file() else { return self.write() };
        let Some(old) = content.lines().next().map(str::to_owned) else { return self.write() };
        let new = format!("stamp {}.{} edited", self.model.name, self.calls);
        let edits = json!([{"old_text": old, "new_text": new}]);
        let arguments = json!({"path": self.model.path(&name), "edits": edits});
        let Some(result) = self.works("file_edit", &arguments)? else { return self.write_anew(&name) };
        check(&result, "/data/replacements", &json!(1))?;
        let after = content.replacen(&old, &new, 1);
        self.changed(&result, name, Some(content), Some(after))
    }

    fn delete(&mut self) -> Result<()> {
        let Some((name, content)) = self.some_file() else { return self.write() };
        let arguments = json!({"path": self.model.path(&name)});
        let Some(result) = self.works("file_delete", &arguments)? else { return self.write_anew(&name) };
        check(&result, "/data/deleted", &json!(true))?;
        self.changed(&result, name, Some(content), None)
    }

    /// Runs a command that makes one file out of another.
    fn command(&mut self) -> Result<()> {
        let Some((name, content)) = self.some_file() else { return self.write() };
        let made = format!("c{}", self.random.below(FILES));
        if made == name {
            return self.read();
        }
        let before = self.model.files.get(&made).cloned();
        let (from, to) = (self.model.path(&name), self.model.path(&made));
        let line = format!("tr a-z A-Z < {from} > {to} && head -n 1 {from}");
        let Some(result) = self.works("shell_execute", &json!({"command": line}))? else {
            return self.write_anew(&made);
        };
        check(&result, "/data/exit_code", &json!(0))?;
        let first = content.lines().next().unwrap_or_default();
        check(&result, "/data/stdout", &json!(format!("{first}\n")))?;
        self.changed(&result, made, before, Some(content.to_ascii_uppercase()))
    }

    /// Applies an acknowledged change to the model, and undoes one in eight.
    fn changed(
        &mut self,
        result: &Value,
        name: String,
        before: Option<String>,
        after: Option<String>,
    ) -> Result<()> {
        let is_same = before == after;
        self.set(&name, after);
        if is_same || self.random.below(8) > 0 {
            return Ok(());
        }
        let Some(checkpoint) = result["meta"]["checkpoint"].as_str() else {
            return Err(Failure(format!("a change has no checkpoint: {result}")));
        };
        self.undo((checkpoint.to_owned(), name, before))
    }

    fn undo(&mut self, (checkpoint, name, before): Undo) -> Result<()> {
        let Some(result) = self.works("checkpoint_restore", &json!({"id": checkpoint}))? else {
            return self.write_anew(&name);
        };
        check(&result, "/data/paths", &json!(1))?;
        self.set(&name, before);
        Ok(())
    }

    fn read(&mut self) -> Result<()> {
        let Some((name, content)) = self.some_file() else { return self.write() };
        let arguments = json!({"path": self.model.path(&name)});
        let Some(result) = self.works("file_read", &arguments)? else { return Ok(()) };
        check(&result, "/data/content", &json!(content))
    }

    fn list(&mut self) -> Result<()> {
        if self.model.files.is_empty() {
            return self.write();
        }
        let arguments = json!({"path": self.model.name, "details": false});
        let Some(result) = self.works("file_list", &arguments)? else { return Ok(()) };
        let mut names = result["data"]["names"].as_array().cloned().unwrap_or_default();
        names.sort_by_key(|name| name.as_str().map(str::to_owned));
        let expected: Vec<Value> = self.model.files.keys().map(|name| json!(name)).collect();
        check(&json!({"names": names}), "/names", &json!(expected))
    }

    fn search(&mut self) -> Result<()> {
        let Some((_, content)) = self.some_file() else { return self.write() };
        let stamp = content.lines().next().unwrap_or_default().to_owned();
        let arguments = json!({"pattern": stamp, "literal": true, "path": self.model.name});
        let Some(result) = self.works("file_search", &arguments)? else { return Ok(()) };
        let matches = result["data"]["matches"].as_array().cloned().unwrap_or_default();
        let found: Vec<Value> = matches.into_iter().map(|mut each| each["path"].take()).collect();
        let having = self.model.files.iter().filter(|(_, text)| text.contains(&stamp));
        let expected: Vec<Value> = having.map(|(name, _)| json!(self.model.path(name))).collect();
        check(&json!({"paths": found}), "/paths", &json!(expected))
    }

    fn insert(&mut self) -> Result<()> {
        let value = format!("row {} of {}", self.calls, self.model.name);
        let sql = format!("INSERT INTO {} (v) VALUES (?)", self.model.name);
        let Some(result) = self.works("db_write", &json!({"sql": sql, "params": [value]}))? else {
            // The row may or may not exist.
            return self.look_at_rows(Some(value));
        };
        check(&result, "/data/affected_rows", &json!(1))?;
        self.model.rows.push(value);
        check(&result, "/data/last_insert_id", &json!(self.model.rows.len()))
    }

    fn query(&mut self) -> Result<()> {
        self.look_at_rows(None)
    }

    /// Compares the count and the last row with the model. `unknown` is the value of a row that may
    /// exist.
    pub(super) fn look_at_rows(&mut self, unknown: Option<String>) -> Result<()> {
        let table = &self.model.name;
        let sql = format!(
            "SELECT (SELECT count(*) FROM {table}) AS n, (SELECT v FROM {table} ORDER BY id DESC LIMIT 1) AS v"
        );
        let arguments = json!({"sql": sql});
        let mut result = self.works("db_query", &arguments)?;
        while result.is_none() && unknown.is_some() {
            result = self.works("db_query", &arguments)?;
        }
        let Some(result) = result else { return Ok(()) };
        if let Some(value) = unknown.filter(|value| result["data"]["rows"][0]["v"] == **value) {
            self.model.rows.push(value);
        }
        check(&result, "/data/rows/0/n", &json!(self.model.rows.len()))?;
        check(&result, "/data/rows/0/v", &json!(self.model.rows.last()))
    }

    /// Runs a command in the background that echoes its input.
    fn session(&mut self) -> Result<()> {
        let word = format!("echo-{}", self.calls);
        let line = format!("exec -a {} cat", self.marker);
        let Some(started) = self.works("shell_execute", &json!({"command": line, "background": true}))?
        else {
            return Ok(());
        };
        let id = started["data"]["session_id"].clone();
        let typed = json!({"action": "write", "session_id": id, "text": format!("{word}\n")});
        let read = json!({"action": "read", "session_id": id, "regex": word, "wait": 60});
        let close = json!({"action": "close", "session_id": id});
        // A server that was killed meanwhile has lost its sessions.
        let accepted = if self.fate == Fate::Stays { "" } else { "ENOTFOUND" };
        if self.works_or("shell_session", &typed, accepted)?.is_none() {
            return Ok(());
        }
        let Some(result) = self.works_or("shell_session", &read, accepted)? else { return Ok(()) };
        check(&result, "/data/content", &json!(format!("{word}\n")))?;
        self.works_or("shell_session", &close, accepted).map(drop)
    }

    fn wrong(&mut self) -> Result<()> {
        let missing = self.model.path("never");
        let (tool, arguments, code) = match self.random.below(4) {
            0 => ("file_write", json!({"path": 7}), "EVALIDATION"),
            1 => ("file_read", json!({"path": missing}), "ENOTFOUND"),
            2 => ("checkpoint_restore", json!({"id": "never"}), "ENOTFOUND"),
            _ => ("file_write", json!({"path": "../outside", "content": "x"}), "EAPPROVAL"),
        };
        self.calls += 1;
        let Answer::Result(result) = self.door.call(tool, &arguments)? else { return Ok(()) };
        self.note(tool, &result);
        check(&result, "/error/code", &json!(code))?;
        check(&result, "/error/effect", &json!("none"))
    }

    /// Interrupts a call. All of its files are changed or none, regardless of the moment.
    fn broken(&mut self) -> Result<()> {
        let [a, b] = ["a", "b"].map(|end| format!("lost/{}-{}{end}", self.model.name, self.calls));
        let text = format!("{}\n", self.calls);
        let line = format!("mkdir -p lost; printf '{text}' > {a}; {} printf '{text}' > {b}", self.pause());
        let (tool, arguments) = if self.random.below(3) == 0 {
            ("file_write", json!({"path": a, "content": text}))
        } else {
            ("shell_execute", json!({"command": line, "on_timeout": "discard"}))
        };
        let both = tool == "shell_execute";
        let state = |text: Option<String>| {
            let second = if both { text.clone() } else { None };
            vec![(a.clone(), text), (b.clone(), second)]
        };
        self.model.broke_off(Broken { before: state(None), after: state(Some(text.clone())) });
        let after = Duration::from_millis(u64::try_from(self.random.below(80)).unwrap_or_default());
        let how = match self.random.below(4) {
            0 if self.fate == Fate::Kills => Break::Signal(Signal::SIGTERM, after),
            1 | 2 if self.fate == Fate::Kills => Break::Signal(Signal::SIGKILL, after),
            _ => Break::Disconnect(after),
        };
        self.calls += 1;
        self.breaks += 1;
        let broken = self.door.broken_call(tool, &arguments, how);
        broken.map_err(|failure| Failure(format!("{tool} {arguments}, broken off by {how:?}: {failure}")))
    }

    /// Returns a wait for the middle of a command. In half of the calls the wait is longer than the
    /// soak's patience.
    fn pause(&mut self) -> String {
        if self.random.below(2) == 0 {
            String::new()
        } else {
            format!("(exec -a {} sleep 300);", self.marker)
        }
    }

    /// Makes a call that must work. Returns `None` if the soak interrupted it.
    fn works(&mut self, tool: &str, arguments: &Value) -> Result<Option<Value>> {
        self.works_or(tool, arguments, "")
    }

    /// Makes a call that must work or fail with the error `accepted`. Returns `None` in the latter
    /// case and if the soak interrupted the call.
    fn works_or(&mut self, tool: &str, arguments: &Value, accepted: &str) -> Result<Option<Value>> {
        self.calls += 1;
        let Answer::Result(result) = self.door.call(tool, arguments)? else { return Ok(None) };
        self.note(tool, &result);
        if result["ok"] == true {
            return Ok(Some(result));
        }
        if !accepted.is_empty() && result["error"]["code"] == accepted {
            return Ok(None);
        }
        Err(Failure(format!("WRONG ANSWER of {tool} {arguments}: {result}")))
    }

    fn note(&mut self, tool: &str, result: &Value) {
        let reads = ["file_read", "file_list", "file_search", "db_query", "shell_session"].contains(&tool);
        if self.fate != Fate::Stays && reads && result["ok"] == true {
            return;
        }
        self.recorded.extend(result["meta"]["call_id"].as_str().map(str::to_owned));
    }

    /// Writes a file until a write is acknowledged, regardless of an earlier, unacknowledged change.
    fn write_anew(&mut self, name: &str) -> Result<()> {
        loop {
            let content = self.text();
            let arguments = json!({"path": self.model.path(name), "content": content});
            if self.works("file_write", &arguments)?.is_some() {
                self.set(name, Some(content));
                return Ok(());
            }
        }
    }

    fn set(&mut self, name: &str, content: Option<String>) {
        match content {
            Some(content) => self.model.files.insert(name.to_owned(), content),
            None => self.model.files.remove(name),
        };
    }

    fn some_file(&mut self) -> Option<(String, String)> {
        let chosen = self.random.below(self.model.files.len());
        self.model.files.iter().nth(chosen).map(|(name, content)| (name.clone(), content.clone()))
    }

    /// Returns a text whose first line is in no other file.
    fn text(&mut self) -> String {
        let lines = 1 << self.random.below(9);
        let first = format!("stamp {}.{} first\n", self.model.name, self.calls);
        first + &format!("line of {}\n", self.model.name).repeat(lines)
    }
}

fn check(result: &Value, place: &str, expected: &Value) -> Result<()> {
    let found = result.pointer(place).unwrap_or(&Value::Null);
    if found == expected {
        return Ok(());
    }
    Err(Failure(format!(
        "WRONG ANSWER: {place} is {found:.400} and must be {expected:.400}, in {result:.600}"
    )))
}
