//! Judgement of the paths that a command names: files that it reads, writes, changes and runs.

use std::path::Path;

use shell_syntax::Redirect;
use tool::Access;

use crate::command::{CommandEffect, Kind, Operand};
use crate::judge::{Cause, Judgement, allow_key, is_system_path};
use crate::judge_command::{Directories, Stages};
use crate::path::LocatedPath;
use crate::spell::resolve;
use crate::suggest::MissingEntry;
use crate::{NamedWrites, PathVerdict, Policy, Rule};

impl Directories {
    /// Records a file whose content a command may write elsewhere. If `..` leads back out of a folder
    /// that may be a link, the kernel finds another file than the spelling, and nothing binds that one.
    pub(crate) fn note_source(&self, text: &str, named: &mut NamedWrites) {
        let leads_back = self.entered && !text.starts_with('/') && text.split('/').any(|part| part == "..");
        for directory in &self.paths {
            let resolved = resolve(directory, text);
            named.unbound |= leads_back || resolved.through_a_name;
            named.sources.push(resolved.path);
        }
    }
}

impl Policy {
    /// Judges the paths of a known form. A doubt about a path that it reads counts even if the
    /// command is listed.
    pub(crate) fn judge_form(
        &self,
        form: &CommandEffect,
        directories: &Directories,
        stages: &mut Stages,
        judgement: &mut Judgement,
    ) {
        for operand in &form.operands {
            for directory in &directories.paths {
                match operand.kind {
                    Kind::Written => self.judge_write(&operand.text, directory, stages, judgement),
                    Kind::Changed => self.judge_change(&operand.text, directory, stages, judgement),
                    Kind::Removed => {
                        self.judge_removal(&operand.text, directory, judgement);
                        self.judge_change(&operand.text, directory, stages, judgement);
                    }
                    Kind::Program => self.judge_script(&operand.text, directory, stages, judgement),
                    _ => {
                        if operand.kind == Kind::Revised {
                            // The operand may not be a path. A rule that denies or protects the
                            // path counts all the same.
                            let path = resolve(directory, &operand.text).path;
                            if let PathVerdict::Denied(rule) = self.path_verdict(Access::Write, &path) {
                                judgement.denied.get_or_insert_with(|| self.denied_cause(&path, rule));
                            }
                            let runs_later = self.runs_later(&path);
                            judgement.named.run_later.extend(runs_later.is_some().then_some(path));
                            judgement.runs_later = judgement.runs_later.take().or(runs_later);
                            judgement.unlisted = judgement.unlisted.take().or(judgement.runs_later.clone());
                        }
                        let led_back = directories.through_a_name && operand.text.starts_with("..");
                        let judged = self.judge_operand(operand, directory, judgement);
                        let doubt = match judged {
                            Ok(()) if led_back => Err(format!(
                                "`{}` leads back from a folder that could be a link",
                                operand.text
                            )),
                            other => other,
                        };
                        if let Err(why) = doubt {
                            stages.refuse(why);
                        }
                    }
                }
            }
        }
    }

    /// Judges the changes of an unlisted command that are denied or need an approval. The line that
    /// asks stays the same.
    pub(crate) fn judge_unlisted(
        &self,
        form: &CommandEffect,
        directories: &Directories,
        judgement: &mut Judgement,
    ) {
        for operand in &form.operands {
            for directory in &directories.paths {
                match operand.kind {
                    Kind::Removed => self.judge_removal(&operand.text, directory, judgement),
                    Kind::Written | Kind::Changed | Kind::Revised => {}
                    _ => continue,
                }
                let path = resolve(directory, &operand.text).path;
                let write = self.judge_command_write(&path);
                judgement.denied = judgement.denied.take().or(write.denied);
                judgement.runs_later = judgement.runs_later.take().or(write.runs_later);
                judgement.named.extend(write.named);
            }
        }
    }

    pub(crate) fn judge_redirects(
        &self,
        redirects: &[Redirect],
        directories: &Directories,
        stages: &mut Stages,
        judgement: &mut Judgement,
    ) {
        for redirect in redirects {
            if let Redirect::Read(source) = redirect {
                directories.note_source(&source.text, &mut judgement.named);
            }
            for directory in &directories.paths {
                match redirect {
                    Redirect::Write(target) => self.judge_write(&target.text, directory, stages, judgement),
                    Redirect::Read(source) => {
                        let operand = Operand {
                            text: source.text.clone(),
                            glob: false,
                            kind: Kind::Content,
                            uncertain: false,
                        };
                        if let Err(why) = self.judge_operand(&operand, directory, judgement) {
                            stages.refuse(why);
                        }
                    }
                    Redirect::Descriptor | Redirect::Text(_) => {}
                }
            }
        }
    }

    /// Judges a write by a command. Memory folders of a cell vanish with it, so a write there is
    /// judged like the rest of the command.
    fn judge_command_write(&self, path: &Path) -> Judgement {
        let judged = self.judge_path("write", Access::Write, path, None, false);
        if self.in_a_root(path) || !IN_MEMORY.iter().any(|folder| path.starts_with(folder)) {
            return judged;
        }
        Judgement {
            unlisted: None,
            missing: Vec::new(),
            named: NamedWrites::default(),
            changes_only_the_workspace: true,
            ..judged
        }
    }

    /// Judges a file that is written: as a separate write, which passes only if its path is listed.
    fn judge_write(&self, text: &str, directory: &Path, stages: &mut Stages, judgement: &mut Judgement) {
        if ["/dev/null", "/dev/stdout", "/dev/stderr", "/dev/fd/1", "/dev/fd/2", "-"].contains(&text) {
            return;
        }
        let resolved = resolve(directory, text);
        let write = self.judge_command_write(&resolved.path);
        if write.allowed.is_none() || resolved.through_a_name {
            stages
                .refuse(format!("it writes `{text}`, which is not listed in `{}`", allow_key(Access::Write)));
        } else if let Some(cause) = &write.allowed {
            stages.acts(cause.clone());
        }
        merge(write, judgement);
    }

    /// Judges a file that a listed command creates, changes or removes.
    fn judge_change(&self, text: &str, directory: &Path, stages: &mut Stages, judgement: &mut Judgement) {
        let resolved = resolve(directory, text);
        let change = self.judge_command_write(&resolved.path);
        if resolved.through_a_name {
            stages.refuse(format!("`{text}` goes through a folder and back, and the folder could be a link"));
        }
        if self.workspace.starts_with(&resolved.path) {
            stages.refuse(format!("`{text}` is the whole workspace"));
        }
        if self.commands.lists_program(&resolved.path, &self.workspace) {
            stages.refuse(format!("`{text}` is a program that `allowed_exec_command` lists"));
        }
        merge(change, judgement);
    }

    /// Judges a file or folder that a command removes, with everything below it.
    fn judge_removal(&self, text: &str, directory: &Path, judgement: &mut Judgement) {
        let path = resolve(directory, text).path;
        // Other lines ask about a whole root and about paths outside the roots, or call them dangerous.
        if !self.in_a_root(&path) || self.roots.iter().any(|root| root.path == path) {
            return;
        }
        let denied = self.judge_path("remove", Access::Write, &path, None, true).denied;
        judgement.denied = judgement.denied.take().or(denied);
    }

    /// Judges a script or program that a listed interpreter runs. It must lie in a root, so that no
    /// other user can have put it there.
    fn judge_script(&self, text: &str, directory: &Path, stages: &mut Stages, judgement: &mut Judgement) {
        let path = resolve(directory, text).path;
        self.judge_named(&path, judgement);
        if !self.in_a_root(&path) || path.starts_with("/proc") || path.starts_with("/dev") {
            stages.refuse(format!("`{text}` is not a script of the workspace"));
        }
    }

    /// Returns the verdict on a path that a command may open, and records a denial.
    pub(crate) fn judge_named(&self, path: &Path, judgement: &mut Judgement) -> PathVerdict<'_> {
        let verdict = self.path_verdict(Access::Read, path);
        if let PathVerdict::Denied(rule) = verdict {
            judgement.denied.get_or_insert_with(|| self.denied_cause(path, rule));
        }
        verdict
    }

    /// Judges one path that a read-only command names.
    ///
    /// # Errors
    /// Returns the reason if the target of the word is uncertain, so that the command does not pass
    /// by line 7.
    fn judge_operand(
        &self,
        operand: &Operand,
        directory: &Path,
        judgement: &mut Judgement,
    ) -> Result<(), String> {
        let text = operand.text.as_str();
        let resolved = resolve(directory, text);
        let path = resolved.path.as_path();
        let verdict = self.judge_named(path, judgement);
        let certainly_a_path = !operand.uncertain || text.starts_with('/') || text.starts_with("..");
        let of_git = matches!(operand.kind, Kind::Revision | Kind::Revised);
        if operand.glob
            && (operand.kind == Kind::Content || of_git)
            && let Some(rule) = self.reads.could_deny(&LocatedPath::of(path, &self.workspace))
        {
            return Err(format!("`{text}` could match a file denied by {rule}"));
        }
        if matches!(verdict, PathVerdict::Denied(_)) || !certainly_a_path {
            return Ok(());
        }
        if verdict == PathVerdict::Outside && (self.in_a_root(path) || !is_system_path(path)) {
            judgement.missing.push(MissingEntry::Path(Access::Read, path.to_owned()));
            judgement.unlisted.get_or_insert_with(|| Cause {
                rule: self.no_entry("allowed_read_paths"),
                reason: format!(
                    "`{text}` is {}, which is not listed in `allowed_read_paths`",
                    path.display()
                ),
                hint: Some(self.add_path(Access::Read)),
            });
        }
        if resolved.through_a_name {
            return Err(format!("`{text}` goes through a folder and back, and the folder could be a link"));
        }
        Ok(())
    }

    fn denied_cause(&self, path: &Path, rule: &Rule) -> Cause {
        Cause {
            reason: self.why_denied(rule, || format!("{} is denied by {rule}", path.display())),
            hint: Some(self.how_to_change(rule)),
            rule: rule.clone(),
        }
    }
}

/// Folders that every cell has empty, in memory.
const IN_MEMORY: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];

/// Merges the verdict of the lines before the seventh on a write.
fn merge(write: Judgement, judgement: &mut Judgement) {
    judgement.denied = judgement.denied.take().or(write.denied);
    judgement.runs_later = judgement.runs_later.take().or(write.runs_later);
    judgement.unlisted = judgement.unlisted.take().or(write.unlisted);
    judgement.named.extend(write.named);
    judgement.changes_only_the_workspace &= write.changes_only_the_workspace;
    judgement.missing.extend(write.missing);
}
