//! Profiles that are bound to a label of the model's provider (MSC's green-tea). A bound profile is
//! available only if the run carries the label.

use std::collections::BTreeMap;

/// Names of profiles by label.
pub(crate) type Labels = BTreeMap<String, String>;

/// Label of the MSC source, and the profile named after it. The source's file binds the two only by
/// a comment.
const GREEN_TEA: (&str, &str) = ("green-tea", "green_tea");

/// Adds the binding of the MSC source, if a file defines that profile and neither the label nor the
/// profile is bound already.
pub(crate) fn with_built_in(mut labels: Labels, is_written: impl Fn(&str) -> bool) -> Labels {
    let (label, profile) = GREEN_TEA;
    if is_written(profile) && !labels.contains_key(label) && !labels.values().any(|bound| bound == profile) {
        labels.insert(label.to_owned(), profile.to_owned());
    }
    labels
}

/// Returns the profile of the label that the run carries.
///
/// # Errors
/// If no profile is bound to the label.
pub(crate) fn profile_of(labels: &Labels, label: &str) -> Result<String, String> {
    labels.get(label).cloned().ok_or_else(|| {
        format!(
            "no profile is bound to the label `{label}`; `labels` of the configuration binds \
                 profiles to labels"
        )
    })
}

/// Checks that the chosen profile is bound to no label, or to the one that the run carries.
///
/// # Errors
/// Names the missing label.
pub(crate) fn require(labels: &Labels, profile: &str, carried: Option<&str>) -> Result<(), String> {
    let mut bound = labels.iter().filter(|(_, bound)| *bound == profile).map(|(label, _)| label.as_str());
    let Some(first) = bound.next() else { return Ok(()) };
    if std::iter::once(first).chain(bound).any(|label| Some(label) == carried) {
        return Ok(());
    }
    Err(format!(
        "the profile `{profile}` is bound to the label `{first}`; pass `--label {first}` if the \
         model's provider has this label"
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
