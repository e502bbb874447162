//! Money and prices, in whole numbers.

use std::fmt;
use std::iter::Sum;

use crate::usage::Usage;

/// Trillionths of a dollar in one dollar.
const PER_DOLLAR: u64 = 1_000_000_000_000;

/// Tokens that a price is given for.
const PER_PRICE: u128 = 1_000_000;

/// Amount of US dollars, in trillionths, so that the price of a single token is a whole number. At most 18
/// million dollars; what would be more stays there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct Usd(u64);

impl Usd {
    /// Amount of nothing.
    pub const ZERO: Self = Self(0);

    /// Largest amount.
    pub const MAX: Self = Self(u64::MAX);

    /// Creates an amount of trillionths, which [`Usd::trillionths`] gave.
    pub const fn from_trillionths(trillionths: u64) -> Self {
        Self(trillionths)
    }

    /// Returns the amount in trillionths of a dollar, to be stored.
    pub const fn trillionths(self) -> u64 {
        self.0
    }

    /// Reads an amount such as `2.50`: digits, with at most twelve after a point. `None` for any other text.
    pub fn parse(text: &str) -> Option<Self> {
        let (dollars, part) = text.split_once('.').unwrap_or((text, ""));
        let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if dollars.is_empty() || !is_digits(dollars) || !is_digits(part) || part.len() > 12 {
            return None;
        }
        let part = format!("{part:0<12}");
        let whole = dollars.parse::<u64>().ok()?.checked_mul(PER_DOLLAR)?;
        whole.checked_add(part.parse().ok()?).map(Self)
    }

    /// Returns the amount in dollars, rounded as such numbers are.
    pub fn dollars(self) -> f64 {
        let part = |value: u64| f64::from(u32::try_from(value).unwrap_or(u32::MAX));
        let millionths = self.0 % PER_DOLLAR / 1_000_000;
        part(self.0 / PER_DOLLAR) + part(millionths) / 1e6 + part(self.0 % 1_000_000) / 1e12
    }

    /// Returns the sum, at most the largest amount.
    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// Returns the difference, at least nothing.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl fmt::Display for Usd {
    /// Writes dollars with at least two digits after the point, and no more than are needed.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = format!("{:012}", self.0 % PER_DOLLAR);
        let needed = part.trim_end_matches('0').len().max(2);
        write!(formatter, "${}.{}", self.0 / PER_DOLLAR, part.get(..needed).unwrap_or(&part))
    }
}

impl Sum for Usd {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::ZERO, Self::saturating_add)
    }
}

/// Prices of a model for a million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rates {
    /// Input that the cache does not touch.
    pub input: Usd,
    /// Input that is read from the cache.
    pub cached: Usd,
    /// Input that is written to the cache, for the shortest time that the provider offers.
    pub cache_write: Usd,
    /// Output, thinking included.
    pub output: Usd,
}

/// Price of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Price {
    /// Rates of a request.
    pub rates: Rates,
    /// Rates of a request with more input tokens than this number, for all of its tokens.
    pub long: Option<(u64, Rates)>,
}

impl Price {
    /// Price of a model that costs nothing, such as one on this machine.
    pub const FREE: Self = Self {
        rates: Rates { input: Usd::ZERO, cached: Usd::ZERO, cache_write: Usd::ZERO, output: Usd::ZERO },
        long: None,
    };

    /// Returns the cost of an answer, rounded up.
    pub fn cost(&self, usage: &Usage) -> Usd {
        let rates = self.rates_of(usage.input);
        let cached = usage.cached.min(usage.input);
        let written = usage.cache_written.min(usage.input - cached);
        let fresh = usage.input - cached - written;
        sum(&[
            (fresh, rates.input),
            (cached, rates.cached),
            (written, rates.cache_write),
            (usage.output, rates.output),
        ])
    }

    /// Returns the most that an answer with at most these tokens can cost, wherever its input comes from.
    pub fn most(&self, input: u64, output: u64) -> Usd {
        let of = |rates: &Rates| {
            sum(&[(input, rates.input.max(rates.cached).max(rates.cache_write)), (output, rates.output)])
        };
        let long = self.long.filter(|(above, _)| input > *above).map_or(Usd::ZERO, |(_, rates)| of(&rates));
        of(&self.rates).max(long)
    }

    fn rates_of(&self, input: u64) -> Rates {
        match self.long {
            Some((above, rates)) if input > above => rates,
            _ => self.rates,
        }
    }
}

fn sum(parts: &[(u64, Usd)]) -> Usd {
    let products = parts.iter().map(|(tokens, rate)| u128::from(*tokens) * u128::from(rate.0));
    let total = products.fold(0, u128::saturating_add);
    Usd(u64::try_from(total.div_ceil(PER_PRICE)).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn usd(text: &str) -> Usd {
        Usd::parse(text).unwrap()
    }

    fn price() -> Price {
        let rates = |input: &str, output: &str| Rates {
            input: usd(input),
            cached: usd("0.1"),
            cache_write: usd("2.5"),
            output: usd(output),
        };
        Price { rates: rates("2", "10"), long: Some((200_000, rates("4", "15"))) }
    }

    #[test]
    fn an_amount_is_read_and_written_exactly() {
        for text in ["0.00", "2.50", "0.000000000001", "18446744.073709551615"] {
            assert_eq!(usd(text).to_string(), format!("${text}"));
        }
        assert_eq!(usd("3").trillionths(), 3_000_000_000_000);
        for text in ["", ".5", "-1", "1e3", "1,5", "0.0000000000001", "99999999999999", "1.2.3", "٣"] {
            assert_eq!(Usd::parse(text), None, "{text}");
        }
        assert!((usd("12.345678").dollars() - 12.345_678).abs() < 1e-12);
    }

    #[test]
    fn an_answer_costs_what_its_tokens_cost() {
        let usage = Usage { input: 1_000, cached: 600, cache_written: 300, output: 50, ..Usage::default() };
        // 100 at 2, 600 at 0.1, 300 at 2.5 and 50 at 10 dollars a million.
        assert_eq!(price().cost(&usage), usd("0.001510"));
        let long = Usage { input: 300_000, output: 1_000, ..Usage::default() };
        assert_eq!(price().cost(&long), usd("1.215"));
        assert_eq!(Price::FREE.cost(&long), Usd::ZERO);
        // The least part of money counts as a whole one.
        let rates = Rates { output: Usd::from_trillionths(1), ..Rates::default() };
        let usage = Usage { output: 1, ..Usage::default() };
        assert_eq!(Price { rates, long: None }.cost(&usage), Usd::from_trillionths(1));
    }

    #[test]
    fn a_cost_beyond_all_money_stays_at_the_largest_amount() {
        let usage = Usage { input: u64::MAX, output: u64::MAX, ..Usage::default() };
        assert_eq!(price().cost(&usage), Usd::MAX);
    }

    proptest! {
        /// No answer within the tokens of an estimate costs more than the estimate.
        #[test]
        fn the_most_is_never_less_than_the_cost(
            (most_input, input) in (0_u64..400_000).prop_flat_map(|most| (Just(most), 0..=most)),
            (most_output, output) in (0_u64..100_000).prop_flat_map(|most| (Just(most), 0..=most)),
            cached in 0_u64..400_000,
            cache_written in 0_u64..400_000,
        ) {
            let usage = Usage { input, cached, cache_written, output, ..Usage::default() };
            prop_assert!(price().cost(&usage) <= price().most(most_input, most_output));
        }
    }
}
