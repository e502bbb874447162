//! Table of known models, which is the file `known.txt`; its head says where the numbers come from.

use crate::info::{ModelInfo, ThinkingControl};
use crate::money::{Price, Rates, Usd};
use crate::wire::WireFormat;

const TABLE: &str = include_str!("known.txt");

/// Returns the facts about a model. For a name that is not in the table there are no prices and limits; see
/// [`ModelInfo::unknown`]. A name with a date, such as `gpt-5-2025-08-07`, is that of the model without it.
///
/// The prices are those of October and November 2026, in dollars for a million tokens; the head of the file
/// `known.txt` names the sources.
pub fn known(wire: WireFormat, name: &str) -> ModelInfo {
    let find = |name: &str| lines().find(|line| place(line) == Some((wire, name)));
    let plain = name.strip_prefix("models/").unwrap_or(name);
    let line = find(plain).or_else(|| find(without_date(plain)));
    let unknown = ModelInfo::unknown(name, image_tokens(wire, name));
    line.and_then(|line| read(line, unknown.clone())).unwrap_or(unknown)
}

fn lines() -> impl Iterator<Item = &'static str> {
    TABLE.lines().filter(|line| !line.starts_with('#'))
}

/// Returns wire format and name of a line.
fn place(line: &str) -> Option<(WireFormat, &str)> {
    let mut words = line.split_whitespace();
    let wire = match words.next()? {
        "openai" => WireFormat::OpenAi,
        "anthropic" => WireFormat::Anthropic,
        "gemini" => WireFormat::Gemini,
        _ => return None,
    };
    Some((wire, words.next()?))
}

/// Reads the facts of a line; `None` if the line is not as the head of the table says.
fn read(line: &str, mut info: ModelInfo) -> Option<ModelInfo> {
    let mut words = line.split_whitespace().skip(2);
    let usual = rates(&mut words)?;
    info.context = Some(words.next()?.parse().ok()?);
    info.max_output = Some(words.next()?.parse().ok()?);
    let abilities = words.next()?;
    if !abilities.chars().all(|ability| "vtsh".contains(ability)) {
        return None;
    }
    info.vision = abilities.contains('v');
    info.tools = abilities.contains('t');
    info.structured_output = abilities.contains('s');
    info.temperature = abilities.contains('h');
    let thinking = words.next()?;
    info.thinking = match thinking.split_once(':').unwrap_or((thinking, "")) {
        ("never", "") => ThinkingControl::Never,
        ("budget", least) => ThinkingControl::Budget { least: least.parse().ok()? },
        ("level", "") => ThinkingControl::Level { off: false },
        ("level", "off") => ThinkingControl::Level { off: true },
        _ => return None,
    };
    let long = match words.next() {
        Some(above) => Some((above.parse().ok()?, rates(&mut words)?)),
        None => None,
    };
    info.price = Some(Price { rates: usual, long });
    words.next().is_none().then_some(info)
}

fn rates<'a>(words: &mut impl Iterator<Item = &'a str>) -> Option<Rates> {
    let mut next = || Usd::parse(words.next()?);
    Some(Rates { input: next()?, cached: next()?, cache_write: next()?, output: next()? })
}

/// Returns the name without `-YYYYMMDD` or `-YYYY-MM-DD` at its end.
fn without_date(name: &str) -> &str {
    let is_date = |date: &str| {
        let pattern: String = date.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
        pattern == "-00000000" || pattern == "-0000-00-00"
    };
    let cut = |length: usize| name.len().checked_sub(length).and_then(|at| name.split_at_checked(at));
    let found = [9, 11].into_iter().filter_map(cut).find(|(_, date)| is_date(date));
    found.map_or(name, |(name, _)| name)
}

/// Returns an upper bound for the tokens of one picture. Anthropic: 4,784, the documented most of its newer
/// models. `OpenAI` at high detail: 85 and 170 for each of at most 8 tiles, or up to 3,800 where pictures are
/// cut into patches, but for `gpt-4o-mini` 2,833 and 5,667 for each tile. Gemini: 1,120 at the usual
/// resolution, and 258 for each of at most 16 tiles before version 3. Other servers: the bound of `OpenAI`.
fn image_tokens(wire: WireFormat, name: &str) -> u32 {
    match wire {
        WireFormat::Anthropic => 4_784,
        WireFormat::Gemini => 4_128,
        _ if name.starts_with("gpt-4o-mini") => 48_169,
        WireFormat::OpenAi | WireFormat::OpenAiCompatible | WireFormat::Ollama => 4_000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usage::Usage;

    #[test]
    fn a_model_costs_what_its_provider_says() {
        let usage = Usage { input: 1_000_000, output: 100_000, cached: 500_000, ..Usage::default() };
        let cost = |wire, name: &str| known(wire, name).price.unwrap().cost(&usage).to_string();
        // 0.5 x 3 + 0.5 x 0.3 + 0.1 x 15 dollars.
        assert_eq!(cost(WireFormat::Anthropic, "claude-sonnet-4-5"), "$3.15");
        // Above 200,000 tokens: 0.5 x 2.5 + 0.5 x 0.25 + 0.1 x 15 dollars.
        assert_eq!(cost(WireFormat::Gemini, "gemini-2.5-pro"), "$2.875");
        assert_eq!(cost(WireFormat::OpenAi, "gpt-5-nano"), "$0.0675");
    }

    #[test]
    fn a_name_with_a_date_is_found_and_a_similar_name_is_not() {
        let plain = known(WireFormat::OpenAi, "gpt-4.1");
        for name in ["gpt-4.1-2025-04-14", "gpt-4.1-20250414"] {
            assert_eq!(known(WireFormat::OpenAi, name), ModelInfo { name: name.into(), ..plain.clone() });
        }
        assert_ne!(
            known(WireFormat::OpenAi, "gpt-4o-2024-05-13").price,
            known(WireFormat::OpenAi, "gpt-4o").price
        );
        let keeps_to_schemas = |name| known(WireFormat::OpenAi, name).structured_output;
        assert!(keeps_to_schemas("gpt-4o") && !keeps_to_schemas("gpt-4o-2024-05-13"));
        for (wire, name) in [
            (WireFormat::OpenAi, "gpt-4.1-turbo"),
            (WireFormat::OpenAi, "gpt-4.1-2025-04-1x"),
            (WireFormat::OpenAi, "é-2025-04-14"),
            (WireFormat::OpenAiCompatible, "gpt-4.1"),
            (WireFormat::Ollama, "qwen3"),
            (WireFormat::Anthropic, "gpt-4.1"),
        ] {
            let info = known(wire, name);
            assert_eq!((info.price, info.context, info.max_output), (None, None, None), "{name}");
        }
    }

    #[test]
    fn the_table_makes_sense() {
        let lines: Vec<&str> = lines().collect();
        assert!(lines.len() > 30);
        for line in &lines {
            let (wire, name) = place(line).unwrap();
            let info = known(wire, name);
            let price = info.price.unwrap();
            let Rates { input, cached, cache_write, output } = price.rates;
            assert!(cached <= input && input <= cache_write && cache_write < output, "{line}");
            let context = info.context.unwrap();
            assert!(info.max_output.unwrap() <= context, "{line}");
            let long_is_dearer = price.long.is_none_or(|(above, long)| {
                let rates = input <= long.input && cached <= long.cached && output <= long.output;
                rates && above < u64::from(context)
            });
            assert!(long_is_dearer, "{line}");
            assert_eq!(lines.iter().filter(|other| place(other) == place(line)).count(), 1, "{line}");
        }
    }
}
