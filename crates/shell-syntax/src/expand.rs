//! Conversion of the compared shape to the judged one: loops over literal words are unrolled, and
//! variables are replaced.

use crate::raw::{Operator, Part, RawCommand, RawNode, RawRedirect, RawStep, RawWord, printed};
use crate::variables::{AssignedVariables, Variables, is_of_the_script};
use crate::{Assignment, Block, Command, Joint, MAX_STEPS, Node, Opaque, Redirect, Script, Step, Word};

pub(crate) fn settle(steps: &[RawStep]) -> Result<Script, Opaque> {
    let mut settler = Settler { variables: Variables::default(), steps: 0 };
    Ok(Script { steps: settler.steps(steps)? })
}

struct Settler {
    variables: Variables,
    steps: usize,
}

impl Settler {
    /// Settles steps in their order. An assignment applies to later steps as long as it has
    /// certainly run.
    fn steps(&mut self, steps: &[RawStep]) -> Result<Vec<Step>, Opaque> {
        let mut settled = Vec::with_capacity(steps.len());
        // Assignments of steps after `&&`: they apply up to the end of their chain, and are
        // uncertain afterwards.
        let mut tentative = AssignedVariables::default();
        for (at, step) in steps.iter().enumerate() {
            let rest = steps.get(at + 1..).unwrap_or_default();
            if matches!(step.joint, Joint::Then | Joint::Or) {
                self.variables.forget(&std::mem::take(&mut tentative));
            }
            let is_last = rest.iter().position(|next| next.joint == Joint::Then).unwrap_or(rest.len());
            let in_background =
                step.background || rest.get(..is_last).unwrap_or_default().iter().any(|next| next.background);
            let piped =
                step.joint == Joint::Pipe || rest.first().is_some_and(|next| next.joint == Joint::Pipe);
            let before = (in_background || piped).then(|| self.variables.clone());
            let node = self.node(&step.node)?;
            settled.push(Step {
                joint: step.joint,
                negated: step.negated,
                background: step.background,
                node,
            });
            let assigned = || AssignedVariables::by_steps(std::slice::from_ref(step));
            match (before, step.joint) {
                // The step ran in a subshell, unless the shell deviates from the standard.
                (Some(before), _) => {
                    self.variables = before;
                    self.variables.forget(&assigned());
                }
                (None, Joint::Or) => self.variables.forget(&assigned()),
                (None, Joint::And) => tentative.names.extend(assigned().names),
                (None, Joint::Then | Joint::Pipe) => {}
            }
        }
        self.variables.forget(&tentative);
        Ok(settled)
    }

    fn node(&mut self, node: &RawNode) -> Result<Node, Opaque> {
        self.steps += 1;
        if self.steps > MAX_STEPS {
            return Err(Opaque::new("it holds too many commands"));
        }
        Ok(match node {
            RawNode::Command(command) => Node::Command(self.command(command)?),
            RawNode::Subshell(steps, redirects) => {
                let redirects = self.redirects(redirects)?;
                let before = self.variables.clone();
                let steps = self.steps(steps)?;
                self.variables = before;
                Node::Subshell(Block { steps, redirects })
            }
            RawNode::Group(steps, redirects) => {
                let redirects = self.redirects(redirects)?;
                Node::Group(Block { steps: self.steps(steps)?, redirects })
            }
            RawNode::If(branches, redirects) => {
                let redirects = self.redirects(redirects)?;
                Node::Branches(self.parts(branches)?, redirects)
            }
            RawNode::While(condition, body, redirects) => {
                let redirects = self.redirects(redirects)?;
                Node::Rounds(self.parts(&[condition.clone(), body.clone()])?, redirects)
            }
            RawNode::For { name, values, body, redirects } => self.for_loop(name, values, body, redirects)?,
            RawNode::Case { words, branches, redirects } => {
                let redirects = self.redirects(redirects)?;
                let mut parts = Vec::new();
                for word in words {
                    // The word is only compared, so only the scripts that run for it count.
                    self.word(word, &mut parts, true)?;
                }
                parts.extend(self.parts(branches)?);
                Node::Branches(parts, redirects)
            }
        })
    }

    /// Settles parts, each of which runs once, several times or not at all.
    fn parts(&mut self, parts: &[Vec<RawStep>]) -> Result<Vec<Vec<Step>>, Opaque> {
        self.variables.forget(&AssignedVariables::by_parts(parts));
        let before = self.variables.clone();
        let mut settled = Vec::with_capacity(parts.len());
        for part in parts {
            settled.push(self.steps(part)?);
            self.variables = before.clone();
        }
        Ok(settled)
    }

    fn for_loop(
        &mut self,
        name: &str,
        values: &[RawWord],
        body: &[RawStep],
        redirects: &[RawRedirect],
    ) -> Result<Node, Opaque> {
        if !is_of_the_script(name) {
            return Err(Opaque::new("it loops over a variable that the shell or a program looks at"));
        }
        let redirects = self.redirects(redirects)?;
        let mut rounds = Vec::new();
        let mut known = Vec::new();
        for value in values {
            let value = self.word(value, &mut rounds, false)?;
            known.push(Some(value).filter(|value| !value.varies));
        }
        // One round with an unknown value stands for all of them.
        if known.contains(&None) {
            known = vec![None];
        }
        self.variables.forget(&AssignedVariables::by_steps(body));
        let before = self.variables.clone();
        for value in known {
            self.variables.set(name, value);
            rounds.push(self.steps(body)?);
            self.variables = before.clone();
        }
        self.variables.set(name, None);
        Ok(Node::Rounds(rounds, redirects))
    }

    fn command(&mut self, command: &RawCommand) -> Result<Command, Opaque> {
        let mut settled = Command::default();
        // Without a program each assignment applies from the next assignment on.
        let for_itself = command.words.is_empty();
        for (name, value) in &command.assignments {
            let value = self.word(value, &mut settled.substituted, true)?;
            if for_itself {
                self.variables.set(name, Some(value.clone()).filter(Word::is_literal));
            }
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
        if !for_itself {
            self.variables.forget(&AssignedVariables::by_command(command));
        }
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
                // Bash expands no file names there, and a shell without here-strings would not run
                // the line.
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

    /// Settles a word that contains no output of a command.
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
                Part::Text(text) => settled.text.push_str(text),
                Part::Glob(character) => {
                    settled.text.push(*character);
                    settled.glob |= !assigned;
                }
                Part::Digits if assigned => settled.unknown("$?", false),
                // The value consists of digits: never an option, and never split. As a pattern of
                // file names it may stand for any text.
                Part::Digits => {
                    settled.text.push('*');
                    settled.glob = true;
                }
                Part::Variable { name, quoted, changed } => {
                    let value = self.variables.get(name).filter(|value| {
                        let splits = |character: char| {
                            !(character.is_alphanumeric() || "_-./:,+@%=".contains(character))
                        };
                        let whole = *quoted || assigned;
                        // A file name that a glob found may contain spaces, which split it.
                        !changed
                            && (whole
                                || !(value.glob || value.text.is_empty() || value.text.contains(splits)))
                    });
                    match value {
                        // An unquoted glob stands for the same names as in the list of the loop.
                        Some(value) => {
                            settled.text.push_str(&value.text);
                            settled.glob |= value.glob;
                        }
                        None => settled.unknown(&format!("${name}"), !quoted && !assigned),
                    }
                }
                Part::Output { steps, quoted } => {
                    let text = printed(steps);
                    // The script runs in a subshell.
                    let before = self.variables.clone();
                    substituted.push(self.steps(steps)?);
                    self.variables = before;
                    match text {
                        Some(text) if *quoted || assigned => settled.text.push_str(text),
                        _ => settled.unknown("$()", !quoted && !assigned),
                    }
                }
            }
        }
        Ok(settled)
    }
}

impl Word {
    fn unknown(&mut self, spelled: &str, splits: bool) {
        self.text.push_str(spelled);
        self.varies = true;
        self.splits |= splits;
    }
}

/// Refuses the names by which bash opens network connections.
fn network(target: Word) -> Result<Word, Opaque> {
    let path: Vec<&str> = target.text.split('/').filter(|part| !part.is_empty()).collect();
    if matches!(path.as_slice(), ["dev", "tcp" | "udp", ..]) {
        return Err(Opaque::new("it redirects to the network"));
    }
    Ok(target)
}
