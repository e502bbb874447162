//! Selection of the calls that are sampled.

use engine::Parent;

/// A sampler, by the names of `OTEL_TRACES_SAMPLER`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampler {
    /// True if a call that is part of a trace follows the sampling decision of its caller.
    pub by_parent: bool,
    /// Share of the other calls that are sampled.
    pub share: Share,
}

/// Share of calls that are sampled.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Share {
    /// All calls.
    All,
    /// Zero calls.
    None,
    /// About this ratio, between 0 and 1. Every program with the same ratio selects the same traces.
    Ratio(f64),
}

impl Default for Sampler {
    fn default() -> Self {
        Self { by_parent: true, share: Share::All }
    }
}

impl Sampler {
    /// Returns the sampler with the given name and optional argument, or `None` if the name is
    /// unknown. A missing or invalid ratio counts as 1.
    pub fn named(name: &str, argument: Option<&str>) -> Option<Self> {
        let ratio = argument.and_then(|text| text.trim().parse::<f64>().ok());
        let ratio = Share::Ratio(ratio.filter(|ratio| (0.0..=1.0).contains(ratio)).unwrap_or(1.0));
        let (by_parent, name) = match name.strip_prefix("parentbased_") {
            Some(rest) => (true, rest),
            None => (false, name),
        };
        let share = match name {
            "always_on" => Share::All,
            "always_off" => Share::None,
            "traceidratio" => ratio,
            _ => return None,
        };
        Some(Self { by_parent, share })
    }

    /// Returns true if a call of this trace is sampled.
    pub(crate) fn takes(self, parent: Option<&Parent>, trace: [u8; 16]) -> bool {
        match (self.share, parent.filter(|_| self.by_parent)) {
            (_, Some(parent)) => parent.sampled,
            (Share::All, None) => true,
            (Share::None, None) => false,
            (Share::Ratio(ratio), None) => {
                // The last 56 bits are random by the standard (W3C Trace Context, level 2); 53 of
                // them fit.
                let chance = trace[9..].iter().fold(0_u64, |all, byte| all << 8 | u64::from(*byte)) >> 3;
                #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
                let chance = chance as f64 / (1_u64 << 53) as f64;
                chance < ratio
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parent(sampled: bool) -> Parent {
        Parent { trace: [1; 16], span: [1; 8], sampled, state: None }
    }

    #[test]
    fn the_samplers_of_the_standard_are_known_by_their_names() {
        let takes = |name: &str, parent: Option<&Parent>| {
            Sampler::named(name, None).unwrap().takes(parent, [255; 16])
        };
        for (name, alone, followed, unfollowed) in [
            ("always_on", true, true, true),
            ("always_off", false, false, false),
            ("parentbased_always_on", true, true, false),
            ("parentbased_always_off", false, true, false),
            ("parentbased_traceidratio", true, true, false),
        ] {
            let took =
                (takes(name, None), takes(name, Some(&parent(true))), takes(name, Some(&parent(false))));
            assert_eq!(took, (alone, followed, unfollowed), "{name}");
        }
        assert_eq!(Sampler::named("jaeger_remote", None), None);
        assert_eq!(Sampler::named("parentbased_always_on", None), Some(Sampler::default()));
    }

    #[test]
    fn a_ratio_follows_about_that_part_of_the_traces() {
        let sampler = Sampler::named("traceidratio", Some("0.25")).unwrap();
        let trace = |number: u8| {
            let mut trace = [7; 16];
            trace[9] = number;
            trace
        };
        let taken = (0..=255).filter(|number| sampler.takes(None, trace(*number))).count();
        assert_eq!(taken, 64);
        for (argument, takes) in [("0", false), ("1", true), ("2", true), ("", true), ("x", true)] {
            let sampler = Sampler::named("traceidratio", Some(argument)).unwrap();
            assert_eq!(sampler.takes(None, trace(255)), takes, "{argument:?}");
        }
    }
}
