//! Names of commits: ids, beginnings of ids, branches, tags, and ancestors of them.

use super::error::{GitError, Result};
use super::id::{ObjectId, ObjectKind};
use super::objects::Objects;

/// Steps through references and tags that are followed at most.
const STEPS: usize = 10;

/// Steps to ancestors that a name may ask for.
const ANCESTORS: usize = 10_000;

/// Least number of digits of the beginning of an id.
const LEAST_DIGITS: usize = 4;

/// Returns the commit that a caller names: an id or its beginning, `HEAD`, a branch or a tag, each with `~N` or `^N`
/// after it.
pub(crate) fn resolve(objects: &mut Objects<'_>, name: &str) -> Result<ObjectId> {
    let unknown = || GitError::UnknownRevision(tool::beginning(&tool::visible(name), 100));
    let end = name.find(['~', '^']).unwrap_or(name.len());
    let (base, mut steps) = name.split_at(end);
    let base = if base == "@" { "HEAD" } else { base };
    let start = named(objects, base)?.ok_or_else(unknown)?;
    let mut commit = peeled(objects, start)?;
    let mut left = ANCESTORS;
    while let Some(kind) = steps.chars().next() {
        let rest = steps.get(1..).unwrap_or_default();
        let digits = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
        let (number, after) = rest.split_at(digits);
        let number: usize = if number.is_empty() { 1 } else { number.parse().map_err(|_| unknown())? };
        // `^2` is the second parent, and `~2` the first parent of the first one.
        let (count, parent) = match kind {
            '~' => (number, 0),
            '^' if number > 0 => (1, number - 1),
            '^' => (0, 0),
            _ => return Err(unknown()),
        };
        left = left.checked_sub(count).ok_or_else(unknown)?;
        for _ in 0..count {
            let parents = parents(objects, &commit)?;
            commit = *parents.get(parent).ok_or_else(unknown)?;
        }
        steps = after;
    }
    Ok(commit)
}

/// Returns the object of a name without steps to ancestors.
fn named(objects: &mut Objects<'_>, name: &str) -> Result<Option<ObjectId>> {
    if let Some(id) = ObjectId::parse(&name.to_ascii_lowercase()) {
        return Ok(Some(id));
    }
    let is_plain = !name.is_empty()
        && name.len() < 1_000
        && !name.starts_with(['/', '-'])
        && name.split('/').all(|part| !part.is_empty() && !part.starts_with('.'))
        && !name.contains(|letter: char| {
            letter.is_control() || letter.is_whitespace() || "\\:?*[".contains(letter)
        });
    if !is_plain {
        return Ok(None);
    }
    let places = ["", "refs/", "refs/tags/", "refs/heads/", "refs/remotes/"];
    for place in places {
        let full = format!("{place}{name}");
        // Files beside `refs` are no references, except these.
        let is_reference =
            full.starts_with("refs/") || ["HEAD", "FETCH_HEAD", "ORIG_HEAD"].contains(&full.as_str());
        if is_reference && let Some(id) = reference(objects, &full)? {
            return Ok(Some(id));
        }
    }
    let digits = name.to_ascii_lowercase();
    if (LEAST_DIGITS..40).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        let found = objects.with_prefix(&digits)?;
        let mut commits = Vec::new();
        for id in found {
            if objects.read(&id)?.0 == ObjectKind::Commit {
                commits.push(id);
            }
        }
        if let [one] = commits.as_slice() {
            return Ok(Some(*one));
        }
    }
    Ok(None)
}

/// Follows a reference to an id.
fn reference(objects: &Objects<'_>, name: &str) -> Result<Option<ObjectId>> {
    let mut name = name.to_owned();
    for _ in 0..STEPS {
        let folder = if name.starts_with("refs/") { &objects.common } else { &objects.own };
        let text = match objects.text(&folder.join(&name)) {
            Ok(text) => text,
            // A folder of branches is no branch.
            Err(GitError::Roots(roots::RootsError::WrongKind { .. })) => None,
            Err(error) => return Err(error),
        };
        let Some(text) = text else { return packed(objects, &name) };
        let line = text.lines().next().unwrap_or_default().trim();
        if let Some(target) = line.strip_prefix("ref:") {
            let target = target.trim();
            if !target.starts_with("refs/")
                || target.split('/').any(|part| part.is_empty() || part.starts_with('.'))
            {
                return Err(GitError::Damaged("a reference leads to no branch"));
            }
            target.clone_into(&mut name);
            continue;
        }
        let id = line.split_whitespace().next().unwrap_or_default();
        return Ok(ObjectId::parse(id));
    }
    Err(GitError::Damaged("references lead to each other"))
}

/// Looks a reference up in the file of packed ones.
fn packed(objects: &Objects<'_>, name: &str) -> Result<Option<ObjectId>> {
    let text = objects.text(&objects.common.join("packed-refs"))?.unwrap_or_default();
    let found = text.lines().find_map(|line| line.split_once(' ').filter(|(_, known)| *known == name));
    Ok(found.and_then(|(id, _)| ObjectId::parse(id)))
}

/// Follows tags to a commit.
fn peeled(objects: &mut Objects<'_>, mut id: ObjectId) -> Result<ObjectId> {
    for _ in 0..STEPS {
        let (kind, content) = objects.read(&id)?;
        match kind {
            ObjectKind::Commit => return Ok(id),
            ObjectKind::Tag => {
                id = header(&content, "object ").next().ok_or(GitError::Damaged("a tag names no object"))?;
            }
            ObjectKind::Tree | ObjectKind::Blob => return Err(GitError::UnknownRevision(id.to_string())),
        }
    }
    Err(GitError::Damaged("tags lead to each other"))
}

/// Returns the parents of a commit.
fn parents(objects: &mut Objects<'_>, commit: &ObjectId) -> Result<Vec<ObjectId>> {
    let (kind, content) = objects.read(commit)?;
    if kind != ObjectKind::Commit {
        return Err(GitError::Damaged("a parent is no commit"));
    }
    Ok(header(&content, "parent ").collect())
}

/// Returns the ids of the lines in the head of a commit or tag that begin with a word.
pub(super) fn header<'a>(content: &'a [u8], word: &'a str) -> impl Iterator<Item = ObjectId> + 'a {
    let lines = content.split(|byte| *byte == b'\n').take_while(|line| !line.is_empty());
    let ids = lines.filter_map(move |line| line.strip_prefix(word.as_bytes()));
    ids.filter_map(|id| ObjectId::parse(std::str::from_utf8(id).ok()?))
}
