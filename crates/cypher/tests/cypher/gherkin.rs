//! A reader of the feature files of the openCypher test suite: the part of Gherkin that they use.

use std::collections::BTreeMap;

/// A scenario with the placeholders of its outline filled in.
#[derive(Debug, Clone)]
pub(crate) struct Scenario {
    pub(crate) name: String,
    pub(crate) steps: Vec<Step>,
}

/// One step.
#[derive(Debug, Clone, Default)]
pub(crate) struct Step {
    pub(crate) text: String,
    pub(crate) document: Option<String>,
    pub(crate) table: Vec<Vec<String>>,
}

/// Reads all scenarios of a feature file; an outline gives one for each of its examples.
pub(crate) fn scenarios(text: &str) -> Vec<Scenario> {
    let mut reader = Reader { lines: text.lines().collect(), at: 0 };
    let mut background = Vec::new();
    let mut scenarios = Vec::new();
    while let Some(line) = reader.next_line() {
        if line.starts_with("Background:") {
            background = reader.steps();
        } else if let Some(name) = line.strip_prefix("Scenario Outline:") {
            let steps = reader.steps();
            for (number, example) in reader.examples().iter().enumerate() {
                let name = format!("{} #{}", name.trim(), number + 1);
                let steps = background.iter().chain(&steps).map(|step| step.filled(example)).collect();
                scenarios.push(Scenario { name, steps });
            }
        } else if let Some(name) = line.strip_prefix("Scenario:") {
            let steps = background.iter().cloned().chain(reader.steps()).collect();
            scenarios.push(Scenario { name: name.trim().to_owned(), steps });
        }
    }
    scenarios
}

struct Reader<'a> {
    lines: Vec<&'a str>,
    at: usize,
}

impl Reader<'_> {
    /// Returns the next line that is no comment and no tag.
    fn next_line(&mut self) -> Option<String> {
        let line = self.peek()?;
        self.at += 1;
        Some(line)
    }

    fn peek(&mut self) -> Option<String> {
        loop {
            let line = self.lines.get(self.at)?.trim();
            if !line.is_empty() && !line.starts_with('#') && !line.starts_with('@') {
                return Some(line.to_owned());
            }
            self.at += 1;
        }
    }

    fn steps(&mut self) -> Vec<Step> {
        let mut steps: Vec<Step> = Vec::new();
        while let Some(line) = self.peek() {
            let keyword =
                ["Given ", "When ", "Then ", "And ", "But "].iter().find(|word| line.starts_with(**word));
            if let Some(keyword) = keyword {
                self.at += 1;
                steps.push(Step { text: line[keyword.len()..].trim().to_owned(), ..Step::default() });
            } else if line == "\"\"\"" {
                let document = self.document();
                steps.last_mut().unwrap().document = Some(document);
            } else if line.starts_with('|') {
                self.at += 1;
                steps.last_mut().unwrap().table.push(cells(&line));
            } else {
                return steps;
            }
        }
        steps
    }

    fn document(&mut self) -> String {
        let indentation = self.lines[self.at].find('"').unwrap_or(0);
        self.at += 1;
        let mut lines = Vec::new();
        while self.lines[self.at].trim() != "\"\"\"" {
            let line = self.lines[self.at];
            let blank = line.len() - line.trim_start().len();
            lines.push(&line[blank.min(indentation)..]);
            self.at += 1;
        }
        self.at += 1;
        lines.join("\n")
    }

    fn examples(&mut self) -> Vec<BTreeMap<String, String>> {
        let mut examples = Vec::new();
        while self.peek().is_some_and(|line| line.starts_with("Examples:")) {
            self.at += 1;
            let mut rows = Vec::new();
            while let Some(line) = self.peek().filter(|line| line.starts_with('|')) {
                self.at += 1;
                rows.push(cells(&line));
            }
            let names = rows.remove(0);
            examples.extend(rows.into_iter().map(|row| names.iter().cloned().zip(row).collect()));
        }
        examples
    }
}

impl Step {
    fn filled(&self, example: &BTreeMap<String, String>) -> Self {
        let fill = |text: &str| {
            let replaced = example.iter().map(|(name, value)| (format!("<{name}>"), value));
            replaced.fold(text.to_owned(), |text, (name, value)| text.replace(&name, value))
        };
        Self {
            text: fill(&self.text),
            document: self.document.as_deref().map(fill),
            table: self.table.iter().map(|row| row.iter().map(|cell| fill(cell)).collect()).collect(),
        }
    }
}

/// Splits a line of a table, and resolves the escapes of Gherkin.
fn cells(line: &str) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut characters = line.trim().trim_start_matches('|').chars().peekable();
    while let Some(character) = characters.next() {
        let cell = cells.last_mut().unwrap();
        match (character, characters.peek()) {
            ('\\', Some('|' | '\\')) => cell.extend(characters.next()),
            ('\\', Some('n')) => {
                characters.next();
                cell.push('\n');
            }
            ('|', _) => cells.push(String::new()),
            _ => cell.push(character),
        }
    }
    cells.pop();
    cells.iter().map(|cell| cell.trim().to_owned()).collect()
}
