//! The first opinion: the typed tree of `brush-parser`, with words split into pieces by its word parser.

mod word;

use std::cell::Cell;

use brush_parser::ast::{
    self, AndOr, AssignmentName, AssignmentValue, BinaryPredicate, CommandPrefixOrSuffixItem,
    CompoundCommand, CompoundList, ExtendedTestExpr, IoFileRedirectKind, IoFileRedirectTarget, IoRedirect,
    PipelineTimed, SeparatorOperator,
};
use brush_parser::{ParserOptions, Token, TokenizerOptions};

use crate::heredoc::{certain_to_end, here_document};
use crate::raw::{
    EXTENDED_TEST, Operator, RawCommand, RawNode, RawRedirect, RawStep, RawWord, pattern,
    refuse_extended_test,
};
use crate::{DEEPEST, Joint, Opaque};

/// Splits a text into words and operators.
pub(crate) fn tokens(text: &str) -> Result<Vec<Token>, Opaque> {
    certain_to_end(text)?;
    // The variant of this function with a cache is of no use here.
    let tokens = brush_parser::uncached_tokenize_str(text, &TokenizerOptions::default())
        .map_err(|_| other("it does not read as words"))?;
    // The parser of commands panics at such a number (0.4.0, `io_number`).
    if tokens.array_windows().any(|[number, operator]| is_no_descriptor(number, operator)) {
        return Err(other("it holds a number that no descriptor has"));
    }
    Ok(tokens)
}

/// Returns true for a number before a redirection that is too large for a descriptor.
fn is_no_descriptor(number: &Token, operator: &Token) -> bool {
    let (Token::Word(number, _), Token::Operator(operator, _)) = (number, operator) else { return false };
    operator.starts_with(['<', '>'])
        && number.bytes().all(|byte| byte.is_ascii_digit())
        && number.parse::<ast::IoFd>().is_err()
}

/// Counts the operators, including those that may be in substitutions.
pub(crate) fn operators(tokens: &[Token]) -> usize {
    let inside = |text: &str| text.bytes().filter(|byte| b"|&;<>()\n".contains(byte)).count();
    tokens
        .iter()
        .map(|token| match token {
            Token::Operator(..) => 1,
            Token::Word(text, _) if text.contains("$(") && !text.contains("<<") => inside(text),
            Token::Word(..) => 0,
        })
        .sum()
}

/// Reads the tokens of a line. The other parser has already read the line, so it is known to be shallow.
pub(crate) fn read(tokens: &[Token]) -> Result<Vec<RawStep>, Opaque> {
    Reader { options: ParserOptions::default(), read: Cell::new(0) }.parse(tokens, 0)
}

struct Reader {
    options: ParserOptions,
    /// Total length of the scripts in words that were read, in bytes. Some are read more than once
    /// until their end is found.
    read: Cell<usize>,
}

/// Maximum total length of scripts in words, in bytes: nested scripts in 32 kB come to less.
const MAX_READ: usize = 200 * 1024;

fn other(what: &'static str) -> Opaque {
    Opaque::new(what)
}

impl Reader {
    fn script(&self, text: &str, depth: usize) -> Result<Vec<RawStep>, Opaque> {
        if depth > DEEPEST {
            return Err(other("it is nested too deeply"));
        }
        self.read.set(self.read.get() + text.len());
        if self.read.get() > MAX_READ {
            return Err(other("it is too intricate"));
        }
        self.parse(&tokens(text)?, depth)
    }

    fn parse(&self, tokens: &[Token], depth: usize) -> Result<Vec<RawStep>, Opaque> {
        let program = brush_parser::parse_tokens(tokens, &self.options)
            .map_err(|_| other("it does not read as commands"))?;
        let mut steps = Vec::new();
        for command in &program.complete_commands {
            self.list(command, depth, &mut steps)?;
        }
        Ok(steps)
    }

    fn block(&self, list: &CompoundList, depth: usize) -> Result<Vec<RawStep>, Opaque> {
        if depth >= DEEPEST {
            return Err(other("it is nested too deeply"));
        }
        let mut steps = Vec::new();
        self.list(list, depth + 1, &mut steps)?;
        Ok(steps)
    }

    fn list(&self, list: &CompoundList, depth: usize, steps: &mut Vec<RawStep>) -> Result<(), Opaque> {
        for ast::CompoundListItem(and_or, separator) in &list.0 {
            self.pipeline(&and_or.first, Joint::Then, depth, steps)?;
            for next in &and_or.additional {
                match next {
                    AndOr::And(pipeline) => self.pipeline(pipeline, Joint::And, depth, steps)?,
                    AndOr::Or(pipeline) => self.pipeline(pipeline, Joint::Or, depth, steps)?,
                }
            }
            if let (SeparatorOperator::Async, Some(last)) = (separator, steps.last_mut()) {
                last.background = true;
            }
        }
        Ok(())
    }

    fn pipeline(
        &self,
        pipeline: &ast::Pipeline,
        joint: Joint,
        depth: usize,
        steps: &mut Vec<RawStep>,
    ) -> Result<(), Opaque> {
        for (position, command) in pipeline.seq.iter().enumerate() {
            let mut node = self.command(command, depth)?;
            if position == 0
                && let Some(timed) = &pipeline.timed
            {
                // The other parser takes `time` for a program, and so does the code that judges it
                // as a wrapper.
                let RawNode::Command(RawCommand { assignments, words, .. }) = &mut node else {
                    return Err(other("it takes the time of a group"));
                };
                if !assignments.is_empty() {
                    return Err(other("it takes the time of a command with assignments"));
                }
                if matches!(timed, PipelineTimed::TimedWithPosixOutput(_)) {
                    words.insert(0, RawWord::text("-p"));
                }
                words.insert(0, RawWord::text("time"));
            }
            steps.push(RawStep {
                joint: if position == 0 { joint } else { Joint::Pipe },
                negated: position == 0 && pipeline.bang,
                background: false,
                node,
            });
        }
        Ok(())
    }

    fn command(&self, command: &ast::Command, depth: usize) -> Result<RawNode, Opaque> {
        match command {
            ast::Command::Simple(simple) => {
                let command = self.simple(simple, depth)?;
                refuse_extended_test(&command)?;
                Ok(RawNode::Command(command))
            }
            ast::Command::Compound(compound, redirects) => {
                let redirects = match redirects {
                    Some(redirects) => self.redirects(&redirects.0, depth)?,
                    None => Vec::new(),
                };
                self.compound(compound, redirects, depth)
            }
            ast::Command::Function(_) => Err(other("it defines a function")),
            ast::Command::ExtendedTest(test, redirects) => {
                let mut command = RawCommand::default();
                command.words.push(RawWord::text(EXTENDED_TEST));
                self.condition(&test.expr, depth, &mut command.words)?;
                command.words.push(RawWord::text("]]"));
                if let Some(redirects) = redirects {
                    command.redirects = self.redirects(&redirects.0, depth)?;
                }
                Ok(RawNode::Command(command))
            }
        }
    }

    fn compound(
        &self,
        compound: &CompoundCommand,
        redirects: Vec<RawRedirect>,
        depth: usize,
    ) -> Result<RawNode, Opaque> {
        Ok(match compound {
            CompoundCommand::BraceGroup(group) => RawNode::Group(self.block(&group.list, depth)?, redirects),
            CompoundCommand::Subshell(shell) => RawNode::Subshell(self.block(&shell.list, depth)?, redirects),
            CompoundCommand::IfClause(clause) => {
                let mut branches =
                    vec![self.block(&clause.condition, depth)?, self.block(&clause.then, depth)?];
                for alternative in clause.elses.iter().flatten() {
                    if let Some(condition) = &alternative.condition {
                        branches.push(self.block(condition, depth)?);
                    }
                    branches.push(self.block(&alternative.body, depth)?);
                }
                RawNode::If(branches, redirects)
            }
            CompoundCommand::WhileClause(clause) | CompoundCommand::UntilClause(clause) => {
                RawNode::While(self.block(&clause.0, depth)?, self.block(&clause.1.list, depth)?, redirects)
            }
            CompoundCommand::ForClause(clause) => RawNode::For {
                name: clause.variable_name.clone(),
                values: clause
                    .values
                    .as_deref()
                    .ok_or_else(|| other("it loops over its own arguments"))?
                    .iter()
                    .map(|word| self.word(word, depth))
                    .collect::<Result<_, _>>()?,
                body: self.block(&clause.body.list, depth)?,
                redirects,
            },
            CompoundCommand::CaseClause(clause) => {
                let mut words = vec![self.word(&clause.value, depth)?];
                let mut branches = Vec::new();
                for item in &clause.cases {
                    for pattern in &item.patterns {
                        words.push(self.word(pattern, depth)?);
                    }
                    branches.push(match &item.cmd {
                        Some(list) => self.block(list, depth)?,
                        None => Vec::new(),
                    });
                }
                RawNode::Case { words, branches, redirects }
            }
            _ => return Err(other("it holds a construct that is not read")),
        })
    }

    /// Adds the words of `[[ ]]` in their order, each test with its operator.
    // BOUNDED: by `MAX_TOKENS` and `MAX_OPERATORS`, which count before anything is parsed.
    fn condition(
        &self,
        expression: &ExtendedTestExpr,
        depth: usize,
        words: &mut Vec<RawWord>,
    ) -> Result<(), Opaque> {
        match expression {
            ExtendedTestExpr::And(left, right) | ExtendedTestExpr::Or(left, right) => {
                self.condition(left, depth, words)?;
                let and = matches!(expression, ExtendedTestExpr::And(..));
                words.push(RawWord::text(if and { "&&" } else { "||" }));
                self.condition(right, depth, words)?;
            }
            ExtendedTestExpr::Not(inner) => {
                words.push(RawWord::text("!"));
                self.condition(inner, depth, words)?;
            }
            ExtendedTestExpr::Parenthesized(inner) => {
                words.push(RawWord::text("("));
                self.condition(inner, depth, words)?;
                words.push(RawWord::text(")"));
            }
            ExtendedTestExpr::UnaryTest(operator, word) => {
                words.push(RawWord::text(&operator.to_string()));
                words.push(self.word(word, depth)?);
            }
            ExtendedTestExpr::BinaryTest(operator, left, right) => {
                words.push(self.word(left, depth)?);
                words.push(RawWord::text(&operator.to_string()));
                words.push(match operator {
                    BinaryPredicate::StringMatchesRegex => pattern(&right.value)?,
                    _ => self.word(right, depth)?,
                });
            }
        }
        Ok(())
    }

    fn simple(&self, simple: &ast::SimpleCommand, depth: usize) -> Result<RawCommand, Opaque> {
        let mut command = RawCommand::default();
        for item in simple.prefix.iter().flat_map(|prefix| &prefix.0) {
            match item {
                CommandPrefixOrSuffixItem::IoRedirect(redirect) => {
                    command.redirects.push(self.redirect(redirect, depth)?);
                }
                CommandPrefixOrSuffixItem::AssignmentWord(assignment, _) => {
                    let (AssignmentName::VariableName(name), AssignmentValue::Scalar(value), false) =
                        (&assignment.name, &assignment.value, assignment.append)
                    else {
                        return Err(other("it assigns in another way than by `NAME=VALUE`"));
                    };
                    command.assignments.push((name.clone(), self.word(value, depth)?));
                }
                _ => return Err(other("it holds a process substitution")),
            }
        }
        if let Some(word) = &simple.word_or_name {
            command.words.push(self.word(word, depth)?);
        }
        for item in simple.suffix.iter().flat_map(|suffix| &suffix.0) {
            match item {
                CommandPrefixOrSuffixItem::IoRedirect(redirect) => {
                    command.redirects.push(self.redirect(redirect, depth)?);
                }
                CommandPrefixOrSuffixItem::Word(word)
                | CommandPrefixOrSuffixItem::AssignmentWord(_, word) => {
                    command.words.push(self.word(word, depth)?);
                }
                CommandPrefixOrSuffixItem::ProcessSubstitution(..) => {
                    return Err(other("it holds a process substitution"));
                }
            }
        }
        Ok(command)
    }

    fn redirects(&self, redirects: &[IoRedirect], depth: usize) -> Result<Vec<RawRedirect>, Opaque> {
        redirects.iter().map(|redirect| self.redirect(redirect, depth)).collect()
    }

    fn redirect(&self, redirect: &IoRedirect, depth: usize) -> Result<RawRedirect, Opaque> {
        let number = |descriptor: Option<i32>| {
            descriptor
                .map(|number| u32::try_from(number).map_err(|_| other("it names no descriptor")))
                .transpose()
        };
        Ok(match redirect {
            IoRedirect::File(descriptor, kind, target) => {
                let operator = match kind {
                    IoFileRedirectKind::Read => Operator::Read,
                    IoFileRedirectKind::Write => Operator::Write,
                    IoFileRedirectKind::Append => Operator::Append,
                    IoFileRedirectKind::Clobber => Operator::Clobber,
                    IoFileRedirectKind::DuplicateInput => Operator::DuplicateInput,
                    IoFileRedirectKind::DuplicateOutput => Operator::DuplicateOutput,
                    IoFileRedirectKind::ReadAndWrite => return Err(other("it holds `<>`")),
                };
                let target = match target {
                    IoFileRedirectTarget::Filename(word) | IoFileRedirectTarget::Duplicate(word) => {
                        self.word(word, depth)?
                    }
                    IoFileRedirectTarget::Fd(number) => RawWord::text(&number.to_string()),
                    IoFileRedirectTarget::ProcessSubstitution(..) => {
                        return Err(other("it holds a process substitution"));
                    }
                };
                RawRedirect { descriptor: number(*descriptor)?, operator, target }
            }
            IoRedirect::OutputAndError(word, append) => RawRedirect {
                descriptor: None,
                operator: if *append { Operator::BothAppend } else { Operator::Both },
                target: self.word(word, depth)?,
            },
            IoRedirect::HereString(descriptor, word) => RawRedirect {
                descriptor: number(*descriptor)?,
                operator: Operator::HereString,
                target: self.word(word, depth)?,
            },
            IoRedirect::HereDocument(descriptor, document) => RawRedirect {
                descriptor: number(*descriptor)?,
                operator: Operator::HereDocument,
                target: here_document(
                    &document.doc.value,
                    document.remove_tabs,
                    !document.requires_expansion,
                )?,
            },
        })
    }
}
