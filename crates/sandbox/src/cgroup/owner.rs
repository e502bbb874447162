//! Owner of a control group, as encoded in the group's name.

use std::fs;

const PREFIX: &str = "handfast";

/// Number of the trial group, made to check whether this process may make groups.
pub(super) const TRIAL: u32 = 0;
/// Number of the group that the program itself moves into.
pub(super) const ASIDE: u32 = 1;
/// A process, distinguished from every other process that had or will have its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    /// Pid namespace to which the id belongs.
    namespace: String,
    pid: u32,
    /// Start time in clock ticks since boot (field 22 of `/proc/PID/stat`).
    started: u64,
}

impl Owner {
    /// Returns the calling process, or `None` if `/proc` does not show it.
    pub(crate) fn this() -> Option<Self> {
        Self::of(std::process::id())
    }

    /// Returns the process of this id.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        Some(Self { namespace: own_namespace()?, pid, started: started(pid)? })
    }

    /// Returns the name of the owner's group of this number.
    pub(crate) fn name(&self, number: u32) -> String {
        format!("{PREFIX}-{}-{}-{}-{number}", self.namespace, self.pid, self.started)
    }

    /// Parses the owner from a group's name.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        let mut parts = name.strip_prefix(PREFIX)?.strip_prefix('-')?.split('-');
        let owner = Self {
            namespace: parts.next()?.to_owned(),
            pid: parts.next()?.parse().ok()?,
            started: parts.next()?.parse().ok()?,
        };
        let _number: u32 = parts.next()?.parse().ok()?;
        parts.next().is_none().then_some(owner)
    }

    /// Returns true if the process runs. An unknown process counts as running, so that no foreign
    /// group is touched.
    pub(crate) fn lives(&self) -> bool {
        match own_namespace() {
            Some(namespace) if namespace == self.namespace => started(self.pid) == Some(self.started),
            _ => true,
        }
    }
}

/// Returns the number of this process's pid namespace, from a link such as `pid:[4026531836]`.
fn own_namespace() -> Option<String> {
    let link = fs::read_link("/proc/self/ns/pid").ok()?;
    Some(link.to_str()?.strip_prefix("pid:[")?.strip_suffix(']')?.to_owned())
}

fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is a name in parentheses and may contain any character; the third field
    // follows it.
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_who_made_the_group_and_foreign_names_tell_nothing() {
        let this = Owner::this().unwrap();
        assert_eq!(Owner::of_name(&this.name(7)), Some(this));
        for foreign in
            ["", "handfast", "handfast-1-2-3", "handfast-1-2-3-4-5", "handfast-1-x-3-4", "user.slice"]
        {
            assert_eq!(Owner::of_name(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn a_process_lives_under_its_id_and_start_together() {
        let this = Owner::this().unwrap();
        assert!(this.lives());
        assert!(!Owner { started: this.started + 1, ..this.clone() }.lives(), "another had that id");
        assert!(!Owner { pid: u32::MAX, ..this.clone() }.lives());
        assert!(
            Owner { namespace: "1".to_owned(), pid: u32::MAX, ..this }.lives(),
            "ids of another namespace"
        );
    }
}
