//! Profiles that are bound to a label of the model's provider (MSC's green-tea): such a profile decides where the run carries the
//! label, and nowhere else.

use std::collections::BTreeMap;

/// Profiles by the label that they are bound to.
pub(crate) type Labels = BTreeMap<String, String>;

/// The label of the MSC source, and the profile that it names after it: its file binds the two by a comment alone.
const GREEN_TEA: (&str, &str) = ("green-tea", "green_tea");

/// What the configuration binds, and the profile of the MSC source to its label, where a file writes that profile and binds neither
/// of the two otherwise.
pub(crate) fn with_built_in(mut labels: Labels, is_written: impl Fn(&str) -> bool) -> Labels {
    let (label, profile) = GREEN_TEA;
    if is_written(profile) && !labels.contains_key(label) && !labels.values().any(|bound| bound == profile) {
        labels.insert(label.to_owned(), profile.to_owned());
    }
    labels
}

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
    fn the_profile_of_the_source_is_bound_to_its_label_unless_a_file_says_otherwise() {
        let named = |pairs: &[(&str, &str)]| -> Labels {
            pairs.iter().map(|(label, profile)| ((*label).to_owned(), (*profile).to_owned())).collect()
        };
        let there = |profile: &str| profile == "green_tea";
        assert_eq!(with_built_in(Labels::new(), there), named(&[("green-tea", "green_tea")]));
        assert_eq!(with_built_in(Labels::new(), |_| false), Labels::new());
        for own in [named(&[("green-tea", "other")]), named(&[("mine", "green_tea")])] {
            assert_eq!(with_built_in(own.clone(), there), own);
        }
    }

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
