//! From the shape that was compared to the one that is judged: loops over literal words written out, variables replaced.

use std::collections::BTreeMap;

use crate::raw::{Bit, Operator, RawCommand, RawNode, RawRedirect, RawStep, RawWord, printed};
use crate::{Assignment, Block, Command, MOST_STEPS, Node, Opaque, Redirect, Script, Step, Word};

pub(crate) fn settle(steps: &[RawStep]) -> Result<Script, Opaque> {
    let mut settler = Settler { variables: BTreeMap::new(), steps: 0 };
    Ok(Script { steps: settler.steps(steps)? })
}

struct Settler {
    /// The variables of the loops around, each with its value of this round.
    variables: BTreeMap<String, Word>,
    steps: usize,
}

impl Settler {
    fn steps(&mut self, steps: &[RawStep]) -> Result<Vec<Step>, Opaque> {
        steps.iter().map(|step| self.step(step)).collect()
    }

    fn step(&mut self, step: &RawStep) -> Result<Step, Opaque> {
        self.steps += 1;
        if self.steps > MOST_STEPS {
            return Err(Opaque::new("it holds too many commands"));
        }
        let node = match &step.node {
            RawNode::Command(command) => Node::Command(self.command(command)?),
            RawNode::Subshell(steps, redirects) => Node::Subshell(self.block(steps, redirects)?),
            RawNode::Group(steps, redirects) => Node::Group(self.block(steps, redirects)?),
            RawNode::If(branches, redirects) => {
                let branches = branches.iter().map(|branch| self.steps(branch)).collect::<Result<_, _>>()?;
                Node::Branches(branches, self.redirects(redirects)?)
            }
            RawNode::While(condition, body, redirects) => {
                let parts = vec![self.steps(condition)?, self.steps(body)?];
                Node::Rounds(parts, self.redirects(redirects)?)
            }
            RawNode::For { name, values, body, redirects } => self.for_loop(name, values, body, redirects)?,
        };
        Ok(Step { joint: step.joint, negated: step.negated, background: step.background, node })
    }

    fn block(&mut self, steps: &[RawStep], redirects: &[RawRedirect]) -> Result<Block, Opaque> {
        Ok(Block { steps: self.steps(steps)?, redirects: self.redirects(redirects)? })
    }

    fn for_loop(
        &mut self,
        name: &str,
        values: &[RawWord],
        body: &[RawStep],
        redirects: &[RawRedirect],
    ) -> Result<Node, Opaque> {
        if !is_harmless_name(name) {
            return Err(Opaque::new("it loops over a variable that the shell or a program looks at"));
        }
        let mut rounds = Vec::new();
        for value in values {
            let value = self.plain_word(value)?;
            let outer = self.variables.insert(name.to_owned(), value);
            let round = self.steps(body);
            match outer {
                Some(outer) => self.variables.insert(name.to_owned(), outer),
                None => self.variables.remove(name),
            };
            rounds.push(round?);
        }
        // Behind the loop the variable still has a value; using it there is not understood.
        Ok(Node::Rounds(rounds, self.redirects(redirects)?))
    }

    fn command(&mut self, command: &RawCommand) -> Result<Command, Opaque> {
        let mut settled = Command::default();
        for (name, value) in &command.assignments {
            if self.variables.contains_key(name) {
                return Err(Opaque::new("it assigns the variable of a loop"));
            }
            let value = self.word(value, &mut settled.substituted, true)?;
            settled.assignments.push(Assignment { name: name.clone(), value });
        }
        for (position, word) in command.words.iter().enumerate() {
            let word = self.word(word, &mut settled.substituted, false)?;
            if position == 0 && !word.is_literal() {
                return Err(Opaque::new("its program is a pattern or an expansion"));
            }
            if position == 0 && (word.text.is_empty() || word.text.contains('=')) {
                return Err(Opaque::new("its program is no name of a program"));
            }
            settled.words.push(word);
        }
        settled.redirects = self.redirects(&command.redirects)?;
        Ok(settled)
    }

    fn redirects(&mut self, redirects: &[RawRedirect]) -> Result<Vec<Redirect>, Opaque> {
        redirects.iter().map(|redirect| self.redirect(redirect)).collect()
    }

    fn redirect(&mut self, redirect: &RawRedirect) -> Result<Redirect, Opaque> {
        let target = self.plain_word(&redirect.target)?;
        Ok(match redirect.operator {
            Operator::HereDocument => Redirect::Text(target.text),
            Operator::HereString if target.glob => {
                // Bash expands no names there, and a shell that has no here-strings would not run it.
                return Err(Opaque::new("it holds a here-string with a pattern"));
            }
            Operator::HereString => Redirect::Text(target.text + "\n"),
            _ if target.glob => return Err(Opaque::new("it redirects to a pattern of file names")),
            _ if target.text.is_empty() => return Err(Opaque::new("it redirects to nothing")),
            Operator::Read => Redirect::Read(network(target)?),
            Operator::Write
            | Operator::Append
            | Operator::Clobber
            | Operator::Both
            | Operator::BothAppend => Redirect::Write(network(target)?),
            Operator::DuplicateInput | Operator::DuplicateOutput => {
                let number = target.text.trim_end_matches('-');
                if number.len() <= 1 && number.bytes().all(|byte| byte.is_ascii_digit()) {
                    Redirect::Descriptor
                } else if redirect.operator == Operator::DuplicateOutput && redirect.descriptor.is_none() {
                    Redirect::Write(network(target)?)
                } else {
                    return Err(Opaque::new("it redirects in an unusual way"));
                }
            }
        })
    }

    /// A word that no output of a command stands in.
    fn plain_word(&mut self, word: &RawWord) -> Result<Word, Opaque> {
        let mut substituted = Vec::new();
        let word = self.word(word, &mut substituted, false)?;
        if substituted.is_empty() && !word.varies {
            Ok(word)
        } else {
            Err(Opaque::new("it holds an expansion"))
        }
    }

    fn word(
        &mut self,
        word: &RawWord,
        substituted: &mut Vec<Vec<Step>>,
        assigned: bool,
    ) -> Result<Word, Opaque> {
        let mut settled = Word::default();
        for bit in &word.bits {
            match bit {
                Bit::Text(text) => settled.text.push_str(text),
                Bit::Glob(character) => {
                    settled.text.push(*character);
                    settled.glob |= !assigned;
                }
                // Digits, never an option and never split: as a pattern of file names it stands for any text too.
                Bit::Status => {
                    settled.text.push('*');
                    settled.glob = true;
                }
                Bit::Variable { name, quoted } => {
                    let value =
                        self.variables.get(name).ok_or_else(|| Opaque::new("it holds an expansion"))?;
                    let splits =
                        |character: char| !(character.is_alphanumeric() || "_-./:,+@%=".contains(character));
                    // A glob that is no longer quoted stands for what it stood for in the list of the loop.
                    if !quoted && !value.glob && value.text.contains(splits) || value.text.is_empty() {
                        return Err(Opaque::new("it holds an expansion that could be split"));
                    }
                    // A name that a glob found may hold spaces, which split it.
                    if !quoted && value.glob && !assigned {
                        return Err(Opaque::new("it holds an expansion that could be split"));
                    }
                    settled.text.push_str(&value.text);
                    settled.glob |= value.glob;
                }
                Bit::Output { steps, quoted } => {
                    let text = printed(steps);
                    substituted.push(self.steps(steps)?);
                    match text {
                        Some(text) if *quoted || assigned => settled.text.push_str(text),
                        _ if *quoted || assigned => settled.varies = true,
                        _ => return Err(Opaque::new("it holds a substitution outside quotes")),
                    }
                }
            }
        }
        Ok(settled)
    }
}

/// Bash opens connections by these names.
fn network(target: Word) -> Result<Word, Opaque> {
    let path: Vec<&str> = target.text.split('/').filter(|part| !part.is_empty()).collect();
    if matches!(path.as_slice(), ["dev", "tcp" | "udp", ..]) {
        return Err(Opaque::new("it redirects to the network"));
    }
    Ok(target)
}

/// Whether a variable of this name means nothing to the shell and to programs: it has a small letter, as variables of scripts
/// have, and is none of those that bash looks at all the same.
fn is_harmless_name(name: &str) -> bool {
    let lower = name.chars().any(|character| character.is_ascii_lowercase());
    let known =
        ["auto_resume", "histchars", "http_proxy", "https_proxy", "ftp_proxy", "no_proxy", "all_proxy"];
    (lower && !known.contains(&name) && !name.starts_with("npm_config_") && !name.contains("PROXY"))
        || (name.len() == 1 && name != "_")
}
