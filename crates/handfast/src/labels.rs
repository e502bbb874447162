//! Profiles that are bound to a label of the model's provider (MSC's green-tea): such a profile decides where the run carries the
//! label, and nowhere else.

use std::collections::BTreeMap;

/// Profiles by the label that they are bound to.
pub(crate) type Labels = BTreeMap<String, String>;

/// The profile of the label that the run carries.
///
/// # Errors
/// Where none is bound to it.
pub(crate) fn profile_of(labels: &Labels, label: &str) -> Result<String, String> {
    labels.get(label).cloned().ok_or_else(|| {
        format!("no profile is bound to the label `{label}`; `labels` of the configuration binds them")
    })
}

/// That the chosen profile is bound to no label, or to the one that the run carries.
///
/// # Errors
/// Names the label that is missing.
pub(crate) fn require(labels: &Labels, profile: &str, carried: Option<&str>) -> Result<(), String> {
    let mut bound = labels.iter().filter(|(_, bound)| *bound == profile).map(|(label, _)| label.as_str());
    let Some(first) = bound.next() else { return Ok(()) };
    if std::iter::once(first).chain(bound).any(|label| Some(label) == carried) {
        return Ok(());
    }
    Err(format!(
        "the profile `{profile}` is bound to the label `{first}`; `--label {first}` says that the model's provider has it"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_profile_needs_its_label_and_others_need_none() {
        let labels: Labels = [("green-tea", "green_tea"), ("own", "green_tea"), ("other", "strict")]
            .map(|(label, profile)| (label.to_owned(), profile.to_owned()))
            .into();
        assert_eq!(profile_of(&labels, "own"), Ok("green_tea".to_owned()));
        assert!(profile_of(&labels, "black-tea").is_err());
        for (profile, carried, allowed) in [
            ("normal", None, true),
            ("normal", Some("own"), true),
            ("green_tea", Some("own"), true),
            ("green_tea", Some("green-tea"), true),
            ("green_tea", Some("other"), false),
            ("green_tea", None, false),
        ] {
            assert_eq!(require(&labels, profile, carried).is_ok(), allowed, "{profile} {carried:?}");
        }
    }
}
