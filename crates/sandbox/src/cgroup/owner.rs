//! Who made a group, as its name says.

use std::fs;

const PREFIX: &str = "handfast";

/// A process, told apart from every other that had or will have its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    /// The pid namespace in which the id means something.
    namespace: String,
    pid: u32,
    /// When it started, in clock ticks since the machine did (field 22 of `/proc/PID/stat`).
    started: u64,
}

impl Owner {
    /// The process that calls this; `None` where `/proc` does not say.
    pub(crate) fn this() -> Option<Self> {
        Self::of(std::process::id())
    }

    /// The process of that id.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        Some(Self { namespace: own_namespace()?, pid, started: started(pid)? })
    }

    /// The name of its group of this number.
    pub(crate) fn name(&self, number: u32) -> String {
        format!("{PREFIX}-{}-{}-{}-{number}", self.namespace, self.pid, self.started)
    }

    /// Who made the group of that name.
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

    /// Whether it runs. What cannot be known counts as alive, so that nobody else's groups are touched.
    pub(crate) fn lives(&self) -> bool {
        match own_namespace() {
            Some(namespace) if namespace == self.namespace => started(self.pid) == Some(self.started),
            _ => true,
        }
    }
}

/// The number of the own pid namespace, from a link that reads `pid:[4026531836]`.
fn own_namespace() -> Option<String> {
    let link = fs::read_link("/proc/self/ns/pid").ok()?;
    Some(link.to_str()?.strip_prefix("pid:[")?.strip_suffix(']')?.to_owned())
}

fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is a name in parentheses and may hold anything; the field after it is the third.
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
