//! Decision about files that would run automatically because of a call. Changes of commands, during
//! their run and after it, and planned writes of file tools are all decided here.
//!
//! The policy's list names the starting points. From them this module follows every path that leads
//! to code: git's own rules about the location and the files of a repository ([`repository`]),
//! symbolic links, and the user's settings ([`follow`]). The resulting set of files is rebuilt when
//! an entry on the way to one of them changes.

mod follow;
mod package;
mod planned;
mod repository;
mod set;
mod view;

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use policy::{Entry, auto_run};

use follow::FollowReason;
use repository::{Items, STRUCTURE};
use view::{Content, Kind, View};

pub(crate) use set::ProtectedSet;
pub(crate) use view::{LayeredView, PlannedChanges};

/// Items that each repository newly runs, cached while one set of changes is judged.
pub(crate) type News = Mutex<HashMap<PathBuf, Arc<Items>>>;

/// Judge of the changes of one folder, which compares them with the protected set before them.
pub(crate) struct ChangeJudge<'a> {
    set: &'a ProtectedSet,
    before: View<'a>,
    after: View<'a>,
    news: &'a News,
}

impl<'a> ChangeJudge<'a> {
    /// Judges the folder with the changes in `over`, which are not on the disk yet.
    pub(crate) fn new(set: &'a ProtectedSet, root: &'a Path, over: LayeredView<'a>, news: &'a News) -> Self {
        let home = set.home();
        Self {
            set,
            before: View { root, over: LayeredView::Nothing, home },
            after: View { root, over, home },
            news,
        }
    }

    /// Judges every file of the folder as a change. The caller knows the earlier content.
    pub(crate) fn all(set: &'a ProtectedSet, root: &'a Path, news: &'a News) -> Self {
        let (home, over) = (set.home(), LayeredView::Nothing);
        Self {
            set,
            before: View { root, over: LayeredView::Empty, home },
            after: View { root, over, home },
            news,
        }
    }

    /// Returns the reason why the new entry at this path, relative to the folder, makes something
    /// run automatically, if it does.
    pub(crate) fn reason(&self, path: &Path) -> Option<String> {
        self.found(path).into_iter().next().map(|(_, why)| why)
    }

    /// Returns each file that would run because of this path, with the reason. Mostly this is the
    /// path itself, otherwise a file to which the path gives a meaning.
    pub(crate) fn found(&self, path: &Path) -> Vec<(PathBuf, String)> {
        let kind = self.after.kind(path);
        let entry = match kind {
            None => return Vec::new(),
            Some(Kind::Folder) => Entry::Folder,
            Some(Kind::Link) => Entry::Link,
            Some(Kind::File) => Entry::File,
        };
        let here = |why: String| vec![(path.to_owned(), why)];
        if let Some(why) = self.set.named(path, entry) {
            return here(why);
        }
        if let Some(why) = self.led(path, kind) {
            return here(why);
        }
        if let Some(why) = self.by_content(path) {
            return here(why);
        }
        let mut found: Vec<(PathBuf, String)> = Vec::new();
        for (repository, part) in self.repositories_of(path) {
            for ((file, _), why) in self.news_of(&repository).iter() {
                if file == path {
                    found.insert(0, (file.clone(), why.clone()));
                } else if part {
                    let (shown, named) = (tool::path_text(&repository), tool::path_text(file));
                    found.push((
                        file.clone(),
                        format!("it makes `{shown}` a git repository in which {why} (`{named}`)"),
                    ));
                }
            }
        }
        found
    }

    /// Returns true if the content of a file decides about it, so that the file must be judged
    /// again after each change.
    pub(crate) fn counts_by_content(&self, path: &Path) -> bool {
        let name = repository::last_name(path).to_lowercase();
        let is_led =
            matches!(self.set.led.find(path), Some(FollowReason::Configuration | FollowReason::Scripts(_)));
        let is_git = matches!(
            auto_run(path, Entry::File, &|folder| { repository::is_repository(&self.after, folder) }),
            Some(policy::AutoRun::Git(_))
        );
        is_led || is_git || [".gitattributes", "attributes"].contains(&name.as_str())
    }

    /// Returns the reason why a path counts to which the user's settings lead.
    fn led(&self, path: &Path, kind: Option<Kind>) -> Option<String> {
        if kind == Some(Kind::Folder) || self.set.led.is_empty() {
            return None;
        }
        match self.set.led.find(path) {
            Some(FollowReason::Runs(why)) => Some(why),
            Some(FollowReason::Configuration) => {
                let known = repository::items_of_settings(&self.before, path);
                let new = repository::items_of_settings(&self.after, path);
                new.into_iter().find(|(item, _)| !known.contains_key(item)).map(|(_, why)| why)
            }
            Some(FollowReason::Scripts(words)) => {
                let why = package::change(&self.before.read(path), &self.after.read(path), &words);
                why.filter(|_| {
                    repository::identity(&self.before, path) != repository::identity(&self.after, path)
                })
            }
            None if kind == Some(Kind::Link) && self.set.led.has_below(path) => {
                Some("its target contains files that run automatically".to_owned())
            }
            None => None,
        }
    }

    /// Judges files of a worktree that git reads and whose content decides.
    fn by_content(&self, path: &Path) -> Option<String> {
        match repository::last_name(path).to_lowercase().as_str() {
            ".gitmodules" => {
                let (old, new) = (self.before.read(path), self.after.read(path));
                let Content::Bytes(new) = new else { return Some("it cannot be read".to_owned()) };
                let old = if let Content::Bytes(old) = old { policy::git_settings(&old) } else { None };
                let Some(new) = policy::git_settings(&new) else {
                    return Some("it cannot be parsed as git's configuration".to_owned());
                };
                let old = old.unwrap_or_default();
                let mut odd = new.iter().filter(|setting| !setting.runs_nothing() && !old.contains(setting));
                odd.next().map(|setting| format!("it sets `{}`, which may run a program", setting.name()))
            }
            ".gitattributes" => self.attributes(path),
            "attributes" if path.parent().is_some_and(|folder| repository::last_name(folder) == "info") => {
                self.attributes(path)
            }
            _ => None,
        }
    }

    /// Judges attributes that newly name a program of the repository's configuration.
    fn attributes(&self, path: &Path) -> Option<String> {
        let mut settings = Vec::new();
        let mut of_macros = Vec::new();
        for above in path.ancestors().skip(1) {
            for repository in [above.to_owned(), above.join(".git")] {
                let repository = match self.after.kind(&repository) {
                    Some(Kind::File) => repository::pointed_to(&self.after, &repository),
                    Some(_) => Some(repository),
                    None => None,
                };
                let Some(repository) =
                    repository.filter(|folder| repository::is_repository(&self.after, folder))
                else {
                    continue;
                };
                let shared = repository::shared_folder(&self.after, &repository);
                for file in
                    [repository.join("config"), shared.join("config"), repository.join("config.worktree")]
                {
                    settings.extend(repository::settings(&self.after, &file, &mut Vec::new()));
                }
                of_macros.extend([shared.join("info/attributes"), above.join(".gitattributes")]);
            }
        }
        for file in &self.set.users {
            settings.extend(repository::settings(&self.before, file, &mut Vec::new()));
        }
        let drivers = repository::drivers(&settings);
        let is_lfs = |(kind, name): &(String, String)| {
            let mut own = settings.iter().filter(|setting| {
                setting.section == *kind
                    && setting.subsection.as_ref() == Some(name)
                    && !setting.runs_nothing()
            });
            own.all(|setting| setting.value.starts_with("git-lfs ") || setting.key == "required")
        };
        // A driver that the user has installed for all repositories does the same in each of them.
        let drivers: BTreeSet<(String, String)> =
            drivers.into_iter().filter(|driver| !is_lfs(driver)).collect();
        if drivers.is_empty() {
            return None;
        }
        let bytes = |content| match content {
            Content::Bytes(content) => Some(content),
            Content::Absent => Some(Vec::new()),
            Content::Unknown(_) => None,
        };
        let mut macros = BTreeSet::new();
        for file in of_macros {
            let text = bytes(self.before.read(&file)).unwrap_or_default();
            macros.extend(repository::macros(&text, &drivers));
        }
        let old = bytes(self.before.read(path)).unwrap_or_default();
        let Some(new) = bytes(self.after.read(path)) else {
            return Some("it names programs of the configuration, which git runs".to_owned());
        };
        let attribute = repository::new_driver(&old, &new, &drivers, &macros)?;
        Some(format!("`{}` makes git run a program of its configuration", tool::visible(&attribute)))
    }

    /// Lists the repositories of which a path may be a part. The flag is true if the path may be
    /// the reason why the folder is a repository.
    fn repositories_of(&self, path: &Path) -> Vec<(PathBuf, bool)> {
        let names: Vec<&OsStr> = path.iter().collect();
        let mut all = Vec::new();
        let mut folder = PathBuf::new();
        for (index, name) in names.iter().enumerate() {
            let is_last = index + 1 == names.len();
            let text = name.to_string_lossy();
            let is_part = STRUCTURE.iter().any(|part| part.eq_ignore_ascii_case(&text));
            // The content of these folders decides nothing; their existence does.
            let is_bulk = ["objects", "refs"].iter().any(|bulk| bulk.eq_ignore_ascii_case(&text));
            let comes_with_it = || !self.before.exists(&folder.join(name));
            // Each new folder among the changes of a command is asked about separately.
            let is_asked = !is_bulk || is_last || matches!(self.after.over, LayeredView::Planned(_));
            if is_part && is_asked && repository::is_repository(&self.after, &folder) {
                let makes = ["HEAD", "objects", "refs", "commondir"]
                    .iter()
                    .any(|part| part.eq_ignore_ascii_case(&text));
                if !is_bulk || is_last || comes_with_it() {
                    all.push((folder.clone(), makes));
                }
            }
            folder.push(name);
            if text.eq_ignore_ascii_case(".git") && is_last {
                match self.after.kind(&folder) {
                    Some(Kind::File) => all.push((folder.clone(), true)),
                    Some(_) => all.push((folder.clone(), false)),
                    None => {}
                }
            }
        }
        all
    }

    /// Returns the items that a repository runs after the changes and did not run before. For a
    /// file called `.git` the repository to which it leads counts.
    fn news_of(&self, repository: &Path) -> Arc<Items> {
        let mut all = self.news.lock();
        if let Some(known) = all.get(repository) {
            return known.clone();
        }
        let news = Arc::new(self.find_news(repository));
        all.insert(repository.to_owned(), news.clone());
        news
    }

    fn find_news(&self, repository: &Path) -> Items {
        let is_pointer = self.after.kind(repository) == Some(Kind::File);
        let folder = if is_pointer {
            let elsewhere = || {
                let identity = repository::identity(&self.after, repository);
                let is_new = identity != repository::identity(&self.before, repository);
                let why = "it points git to a repository elsewhere".to_owned();
                let items = is_new.then(|| ((repository.to_owned(), identity), why));
                items.into_iter().collect()
            };
            match repository::pointed_to(&self.after, repository) {
                Some(folder) if repository::is_repository(&self.after, &folder) => {
                    let shared = repository::shared_folder(&self.after, &folder);
                    if shared.is_absolute() && !self.set.outer.contains(&shared) {
                        return elsewhere();
                    }
                    folder
                }
                _ => return elsewhere(),
            }
        } else {
            repository.to_owned()
        };
        let mut news = repository::items(&self.after, &folder);
        let shared = repository::shared_folder(&self.after, &folder);
        for known in BTreeSet::from([folder, shared]) {
            if repository::is_repository(&self.before, &known) {
                for item in repository::items(&self.before, &known).keys() {
                    news.remove(item);
                }
            }
        }
        news
    }
}

#[cfg(test)]
mod tests;
