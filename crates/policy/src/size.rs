//! Sizes and times of limits as people write them: a number, or a number with a unit.

use std::fmt;

use schemars::{Schema, SchemaGenerator, json_schema};
use serde::Deserializer;
use serde::de::{Error, Unexpected, Visitor};

/// Units of bytes. A single letter is not a unit, because it could mean either of two.
const BYTES: [(&str, u64); 9] = [
    ("b", 1),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
];

/// Units of time.
const SECONDS: [(&str, u64); 4] = [("s", 1), ("m", 60), ("h", 3_600), ("d", 86_400)];

/// Reads a number of bytes, optionally with a unit.
pub(crate) fn bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let form = "a number of bytes, or one with a unit, such as 512MiB or 4GB";
    deserializer.deserialize_option(Amount { units: &BYTES, form })
}

/// Reads a number of seconds, optionally with a unit.
pub(crate) fn seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let form = "a number of seconds, or one with a unit, such as 30m or 8h";
    deserializer.deserialize_option(Amount { units: &SECONDS, form })
}

/// Returns the JSON Schema of what [`bytes`] reads.
pub(crate) fn bytes_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": ["integer", "string"],
        "minimum": 0,
        "pattern": "^\\s*[0-9][0-9_]*\\s*(([kKmMgGtT][iI]?)?[bB])?\\s*$",
        "x-type": "bytes"
    })
}

/// Returns the JSON Schema of what [`seconds`] reads.
pub(crate) fn seconds_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": ["integer", "string"],
        "minimum": 0,
        "pattern": "^\\s*[0-9][0-9_]*\\s*[sSmMhHdD]?\\s*$",
        "x-type": "duration"
    })
}

struct Amount {
    units: &'static [(&'static str, u64)],
    form: &'static str,
}

impl Amount {
    fn read(&self, text: &str) -> Option<u64> {
        let text = text.trim();
        let digits =
            text.find(|letter: char| !letter.is_ascii_digit() && letter != '_').unwrap_or(text.len());
        let (count, unit) = text.split_at_checked(digits)?;
        let count: u64 = count.replace('_', "").parse().ok()?;
        let unit = unit.trim_start().to_ascii_lowercase();
        if unit.is_empty() {
            return Some(count);
        }
        let (_, size) = self.units.iter().find(|(name, _)| *name == unit)?;
        count.checked_mul(*size)
    }
}

impl<'de> Visitor<'de> for Amount {
    type Value = Option<u64>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.form)
    }

    fn visit_none<E: Error>(self) -> Result<Option<u64>, E> {
        Ok(None)
    }

    fn visit_unit<E: Error>(self) -> Result<Option<u64>, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<u64>, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_u64<E: Error>(self, count: u64) -> Result<Option<u64>, E> {
        Ok(Some(count))
    }

    fn visit_i64<E: Error>(self, count: i64) -> Result<Option<u64>, E> {
        u64::try_from(count).map(Some).map_err(|_| E::invalid_value(Unexpected::Signed(count), &self))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Option<u64>, E> {
        self.read(text)
            .map(Some)
            .ok_or_else(|| E::custom(format!("`{text}` is not a valid amount; write {}", self.form)))
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    struct Amounts {
        #[serde(default, deserialize_with = "bytes")]
        bytes: Option<u64>,
        #[serde(default, deserialize_with = "seconds")]
        seconds: Option<u64>,
    }

    #[test]
    fn sizes_and_times_have_units_and_what_has_another_form_is_told_the_right_one() {
        let read = |text: &str| serde_json::from_str::<Amounts>(text);
        for (text, expected) in [
            ("4096", 4096),
            ("\"4096\"", 4096),
            ("\"4GB\"", 4_000_000_000),
            ("\"4 gb\"", 4_000_000_000),
            ("\"512MiB\"", 512 << 20),
            ("\"1_000 KiB\"", 1_024_000),
        ] {
            assert_eq!(read(&format!("{{\"bytes\": {text}}}")).unwrap().bytes, Some(expected), "{text}");
        }
        for (text, expected) in [("90", 90), ("\"30m\"", 1_800), ("\"8h\"", 28_800)] {
            assert_eq!(read(&format!("{{\"seconds\": {text}}}")).unwrap().seconds, Some(expected), "{text}");
        }
        assert_eq!(read("{\"bytes\": null}").unwrap().bytes, None);
        for wrong in ["\"4G\"", "\"4 gigs\"", "\"\"", "\"1.5GB\"", "-1", "true", "\"99999999999TB\"", "[]"] {
            let error = read(&format!("{{\"bytes\": {wrong}}}")).unwrap_err().to_string();
            assert!(error.contains("such as 512MiB or 4GB"), "{wrong}: {error}");
        }
    }
}
