//! Detection of settings on the machine that prevent namespaces for cells.

use std::fs;
use std::path::Path;

use super::quoted;

/// The relevant settings of the machine.
#[derive(Clone, Debug, Default)]
pub(super) struct Machine {
    /// Value of `kernel.apparmor_restrict_unprivileged_userns`.
    pub(super) apparmor_restricts: Option<String>,
    /// Value of `kernel.unprivileged_userns_clone` in Debian's kernels.
    pub(super) unprivileged_clone: Option<String>,
    /// Value of `user.max_user_namespaces`.
    pub(super) most_namespaces: Option<String>,
    /// True if this is a container of Docker, Podman or a similar runtime.
    pub(super) container: bool,
}

/// An obstacle to namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// Ubuntu's restriction: only programs with a profile may use user namespaces.
    AppArmor,
    /// Ordinary users may not create user namespaces.
    UnprivilegedClone,
    /// The machine permits no user namespaces at all.
    NoneAllowed,
    /// The container's runtime refuses user namespaces.
    Container,
}

impl Machine {
    /// Reads the settings. A missing setting is no obstacle.
    pub(super) fn look() -> Self {
        let setting = |name: &str| {
            fs::read_to_string(Path::new("/proc/sys").join(name)).ok().map(|text| text.trim().to_owned())
        };
        Self {
            apparmor_restricts: setting("kernel/apparmor_restrict_unprivileged_userns"),
            unprivileged_clone: setting("kernel/unprivileged_userns_clone"),
            most_namespaces: setting("user/max_user_namespaces"),
            container: ["/.dockerenv", "/run/.containerenv"].iter().any(|file| Path::new(file).exists()),
        }
    }

    /// Returns the first obstacle. Later ones have no effect before it is removed.
    pub(super) fn obstacle(&self) -> Option<Obstacle> {
        let is = |setting: &Option<String>, value: &str| setting.as_deref() == Some(value);
        if is(&self.most_namespaces, "0") {
            Some(Obstacle::NoneAllowed)
        } else if is(&self.unprivileged_clone, "0") {
            Some(Obstacle::UnprivilegedClone)
        } else if self.container {
            Some(Obstacle::Container)
        } else if is(&self.apparmor_restricts, "1") {
            Some(Obstacle::AppArmor)
        } else {
            None
        }
    }
}

impl Obstacle {
    /// Returns advice for the user.
    pub(super) fn what_to_do(self, program: &Path) -> String {
        match self {
            Self::AppArmor => format!(
                "AppArmor lets only programs with a profile use user namespaces. Installing one for this program needs \
                 root:\n  sudo {} setup sandbox",
                quoted(program)
            ),
            Self::UnprivilegedClone => setting("kernel.unprivileged_userns_clone", "1"),
            Self::NoneAllowed => setting("user.max_user_namespaces", "15000"),
            Self::Container => "this is a container whose runtime refuses user namespaces. Start it with\n  \
                docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined \
                --security-opt systempaths=unconfined ...\nor run Handfast on the host"
                .to_owned(),
        }
    }
}

fn setting(name: &str, value: &str) -> String {
    format!(
        "the kernel's setting {name} forbids user namespaces. Its administrator allows them, now and after a restart, \
         with\n  echo '{name} = {value}' | sudo tee /etc/sysctl.d/60-handfast.conf && sudo sysctl --system"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_setting_is_told_from_the_others_and_named() {
        let value = |text: &str| Some(text.to_owned());
        let machine = Machine::default();
        assert_eq!(machine.obstacle(), None);
        let open = Machine {
            most_namespaces: value("15000"),
            unprivileged_clone: value("1"),
            apparmor_restricts: value("0"),
            container: false,
        };
        assert_eq!(open.obstacle(), None);
        for (machine, obstacle, word) in [
            (
                Machine { most_namespaces: value("0"), ..open.clone() },
                Obstacle::NoneAllowed,
                "user.max_user_namespaces",
            ),
            (
                Machine { unprivileged_clone: value("0"), ..open.clone() },
                Obstacle::UnprivilegedClone,
                "kernel.unprivileged_userns_clone",
            ),
            (
                Machine { apparmor_restricts: value("1"), ..open.clone() },
                Obstacle::AppArmor,
                "sudo '/a b/handfast' setup",
            ),
            (
                Machine { container: true, apparmor_restricts: value("1"), ..open },
                Obstacle::Container,
                "docker run",
            ),
        ] {
            assert_eq!(machine.obstacle(), Some(obstacle));
            let advice = obstacle.what_to_do(Path::new("/a b/handfast"));
            assert!(advice.contains(word), "{advice}");
        }
    }
}
