//! Files left by a command that wrote directly to the workspace while the program was killed. The
//! next start judges them.
//!
//! While such a command runs, a record in the folder of the changes lists what existed before. The
//! record is renewed regularly, so that the next start knows until when the command can have run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use checkpoint::Time;
use serde::{Deserialize, Serialize};
use watch::Watch;

use super::DeniedFiles;
use super::cells::{Origin, is_before, stamp_of, take_away, targets};
use super::lists::split;
use crate::change_area::ChangeArea;
use crate::protected::{ChangeJudge, News};

/// Seconds for which a command may have continued after the last renewal of its record, for example
/// if the machine was suspended.
const GRACE: i64 = 60;

/// Record of a command that writes directly.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Record {
    roots: Vec<PathBuf>,
    /// Start of the record in seconds and nanoseconds, before the command began.
    seconds: i64,
    nanoseconds: u32,
    /// Paths that its command cannot have made.
    known: BTreeSet<PathBuf>,
}

impl Record {
    /// Writes a record for a command that is about to begin. Returns the folder that contains the
    /// record, and its time.
    pub(super) fn write(
        roots: &[PathBuf],
        known: &BTreeSet<PathBuf>,
        area: &ChangeArea,
    ) -> Result<(checkpoint::Call, Time), String> {
        let failed = |error: checkpoint::Error| error.to_string();
        let call = area.folder().begin().map_err(failed)?;
        let begins = call.baseline().map_err(failed)?;
        let Time { seconds, nanoseconds } = begins;
        let record = Self { roots: roots.to_vec(), seconds, nanoseconds, known: known.clone() };
        let text = serde_json::to_vec(&record).map_err(|error| error.to_string())?;
        call.watch(&text).map_err(failed)?;
        Ok((call, begins))
    }

    fn origin(&self, file: &Path) -> Origin {
        if file.ancestors().any(|above| self.known.contains(above)) {
            return Origin::Known;
        }
        let begins = Time { seconds: self.seconds, nanoseconds: self.nanoseconds };
        if is_before(file, begins) { Origin::Older } else { Origin::Command }
    }
}

impl DeniedFiles {
    /// Takes away auto-run files that commands of killed processes left. Returns messages for the
    /// user.
    pub(crate) fn take_away_left(&self) -> Vec<String> {
        let Some(area) = &self.area else { return Vec::new() };
        let mut told = Vec::new();
        for (call, content, last) in area.take_left() {
            match serde_json::from_slice::<Record>(&content) {
                Ok(record) => told.extend(self.take_away_of(area, &record, last)),
                Err(error) => told.push(format!(
                    "an earlier process was killed while a command was writing to the workspace, and \
                     its record is damaged ({error}): check for new files, for example with `git \
                     status`"
                )),
            }
            // If the folder cannot be removed now, the next start removes it.
            drop(call.discard());
        }
        told
    }

    fn take_away_of(&self, area: &ChangeArea, record: &Record, last: Time) -> Vec<String> {
        let mut state = self.state();
        self.look_below(&mut state, &record.roots);
        if let Err(error) = self.refresh(&mut state) {
            return vec![format!(
                "the search for files left by a command of a killed process failed: {error}"
            )];
        }
        let noted = state.watch.as_ref().map(Watch::noted).unwrap_or_default();
        let (mut kept, mut told, mut taken) = (BTreeMap::new(), Vec::new(), Vec::new());
        let news = News::default();
        for path in noted {
            let Some((root, relative)) = split(&record.roots, &path) else { continue };
            let is_late = |(_, _, seconds, _): (u64, u64, i64, i64)| seconds > last.seconds + GRACE;
            let origin = record.origin(&path);
            if origin == Origin::Known || origin == Origin::Older || stamp_of(&path).is_none_or(is_late) {
                continue;
            }
            let set = self.protected_in(&mut state, root);
            let found = ChangeJudge::all(&set, root, &news).found(relative);
            for (goes, why) in targets(&found, (root, relative), |file| record.origin(&root.join(file))) {
                match take_away(area, &mut kept, root, &goes, &why) {
                    Ok(None) => {}
                    Ok(Some(_)) => taken.push(tool::path_text(&goes)),
                    Err(error) => told.push(format!("{}: {why}; {error}", tool::path_text(&goes))),
                }
            }
        }
        if self.keep == watch::WatchMode::Once {
            state.watch = None;
            state.noted = None;
        }
        if !taken.is_empty() {
            let ids: Vec<&str> = kept.values().map(String::as_str).collect();
            let more = if taken.len() > 3 { format!(" and {} more", taken.len() - 3) } else { String::new() };
            taken.truncate(3);
            told.push(format!(
                "a command of a killed process left files that would run automatically ({}{more}); \
                 they were moved out of the workspace: see `handfast changes show {}`",
                taken.join(", "),
                ids.join(" "),
            ));
        }
        told
    }
}
