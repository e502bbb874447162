//! `sandbox_config`: the profiles by name, and MSC's `allowed_paths` next to the profiles or in them.

use std::fmt;

use policy::{DEFAULT_PROFILE, ListEntry, ProfileSource, Profiles};
use schemars::{Schema, SchemaGenerator, json_schema};
use serde::Deserializer;
use serde::de::{MapAccess, Visitor};

/// Key that stands for both lists of allowed paths: in a profile for its own lists, next to the
/// profiles for those of `normal`.
const ALLOWED_PATHS: &str = "allowed_paths";

pub(super) fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Profiles, D::Error> {
    deserializer.deserialize_map(ProfilesVisitor)
}

/// Returns the JSON Schema of what [`read`] accepts.
pub(super) fn schema(generator: &mut SchemaGenerator) -> Schema {
    let paths = generator.subschema_for::<Vec<ListEntry>>();
    let profile = generator.subschema_for::<ProfileSource>();
    json_schema!({
        "type": "object",
        "properties": { ALLOWED_PATHS: paths },
        "additionalProperties": profile
    })
}

struct ProfilesVisitor;

impl<'de> Visitor<'de> for ProfilesVisitor {
    type Value = Profiles;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("profiles by name")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Profiles, A::Error> {
        let mut profiles = Profiles::new();
        let mut beside: Option<Vec<ListEntry>> = None;
        while let Some(name) = map.next_key::<String>()? {
            if name == ALLOWED_PATHS {
                beside = Some(map.next_value()?);
            } else {
                profiles.insert(name, map.next_value::<ProfileSource>()?);
            }
        }
        if let Some(paths) = beside {
            let normal = profiles.entry(DEFAULT_PROFILE.to_owned()).or_default();
            normal.allowed_paths.get_or_insert_default().extend(paths);
        }
        Ok(profiles.into_iter().map(|(name, profile)| (name, profile.spelled_out())).collect())
    }
}
