//! Hints for a sandbox that is not available: the cause and the remedy.

use std::fs;

use rustix::io::Errno;

use crate::error::SandboxError;

/// Makes the error for `what` that the kernel refused with `errno`, with a hint for the most likely
/// cause.
pub(crate) fn unavailable(what: &str, errno: Errno) -> SandboxError {
    SandboxError::Unavailable {
        what: format!("cannot get {what}"),
        hint: hint(errno, |name| {
            fs::read_to_string(format!("/proc/sys/{name}")).ok().map(|value| value.trim().to_owned())
        }),
        source: errno.into(),
    }
}

/// Makes the error for `what` that this machine or this isolation does not offer.
pub(crate) fn not_offered(what: &str, hint: &str) -> SandboxError {
    SandboxError::Unavailable {
        what: what.to_owned(),
        hint: hint.to_owned(),
        source: std::io::ErrorKind::Unsupported.into(),
    }
}

/// Makes the error for a strict profile, which does not accept these shortcomings.
pub(crate) fn strict(shortcomings: &[String]) -> SandboxError {
    not_offered(
        &format!("the profile is strict, and {}", shortcomings.join(", ")),
        "run Handfast with a delegated control group: `systemd-run --user --scope -p \
         Delegate=yes handfast ...`, or as root; or set `strict: false` in the profile to run \
         without it, which each result reports",
    )
}

/// Chooses the hint; `setting` reads a setting of the kernel.
fn hint(errno: Errno, setting: impl Fn(&str) -> Option<String>) -> String {
    let is = |name: &str, value: &str| setting(name).as_deref() == Some(value);
    if errno == Errno::NOSYS {
        return "Handfast needs Linux 5.12 or later, and a container that allows `clone3` (it cannot \
             run inside its own sandbox)"
            .to_owned();
    }
    if is("kernel/unprivileged_userns_clone", "0") {
        return "allow user namespaces: `sysctl kernel.unprivileged_userns_clone=1`".to_owned();
    }
    if is("user/max_user_namespaces", "0") || errno == Errno::NOSPC || errno == Errno::USERS {
        return "allow more user namespaces: raise `user.max_user_namespaces` (in a container, also on \
             its host)"
            .to_owned();
    }
    if is("kernel/apparmor_restrict_unprivileged_userns", "1") {
        return "AppArmor denies user namespaces to this program: `sudo handfast setup sandbox` \
             installs a profile for it, or `sysctl kernel.apparmor_restrict_unprivileged_userns=0` \
             allows every program"
            .to_owned();
    }
    "in a container, let its seccomp and AppArmor profiles allow user namespaces and mounts, and leave `/proc` \
     uncovered (for Docker: `--security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt \
     systempaths=unconfined`)"
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hint_names_the_setting_that_is_the_cause() {
        let with = |name: &'static str, value: &'static str| {
            move |asked: &str| (asked == name).then(|| value.to_owned())
        };
        for (name, value, word) in [
            ("kernel/unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone"),
            ("user/max_user_namespaces", "0", "user.max_user_namespaces"),
            (
                "kernel/apparmor_restrict_unprivileged_userns",
                "1",
                "kernel.apparmor_restrict_unprivileged_userns",
            ),
        ] {
            assert!(hint(Errno::PERM, with(name, value)).contains(word), "{name}");
        }
        assert!(hint(Errno::NOSPC, |_| None).contains("user.max_user_namespaces"));
        assert!(hint(Errno::NOSYS, |_| None).contains("5.12"));
        assert!(hint(Errno::PERM, |_| None).contains("container"));
    }
}
