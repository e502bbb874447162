//! Numbers within a range, digit by digit.

/// Largest number of digits before a point. All such numbers are exact in floats of 64 bits.
const MOST_DIGITS: u32 = 15;
/// Largest number of digits after a point.
const MOST_DECIMALS: u8 = 6;
/// Largest absolute value.
pub(crate) const LARGEST: i64 = 10_i64.pow(MOST_DIGITS) - 1;

/// Range of numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Range {
    /// Least whole number.
    pub(crate) least: i64,
    /// Largest whole number, at least `least`.
    pub(crate) most: i64,
    /// True if numbers between two whole numbers of the range are part of it. Others, between its ends and the
    /// nearest whole numbers, are never written.
    pub(crate) has_decimals: bool,
}

/// Beginning of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Digits {
    is_negative: bool,
    count: u32,
    value: i64,
    decimals: Option<u8>,
}

impl Range {
    /// Returns a shortest number.
    pub(crate) fn shortest(&self) -> Vec<u8> {
        0_i64.clamp(self.least, self.most).to_string().into_bytes()
    }

    /// Returns the least and largest whole number of the range whose absolute value begins with `digits`
    /// and has `more` further digits.
    fn within(&self, digits: &Digits, more: u32) -> Option<(i64, i64)> {
        let factor = 10_i64.checked_pow(more)?;
        let low = digits.value.checked_mul(factor)?;
        let high = low.checked_add(factor - 1)?;
        let (low, high) = if digits.is_negative { (-high, -low) } else { (low, high) };
        let (low, high) = (low.max(self.least), high.min(self.most));
        (low <= high).then_some((low, high))
    }

    /// Returns the further digits of a shortest whole number of the range that begins with `digits`.
    fn rest_of(&self, digits: &Digits) -> Option<Vec<u8>> {
        if digits.count == 0 {
            // A minus may have come, and nothing else.
            return Some(if digits.is_negative {
                let nearest = (-1_i64).min(self.most);
                (nearest >= self.least).then(|| nearest.unsigned_abs().to_string().into_bytes())?
            } else {
                self.shortest()
            });
        }
        let more = if digits.value == 0 { 0 } else { MOST_DIGITS.saturating_sub(digits.count) };
        let (low, high) = (0..=more).find_map(|more| self.within(digits, more))?;
        let nearest = if digits.is_negative { high } else { low };
        let text = nearest.unsigned_abs().to_string();
        let known = usize::try_from(digits.count).unwrap_or(0);
        text.get(known..).map(|rest| rest.as_bytes().to_vec())
    }

    /// Returns true if a point may follow, because all numbers up to the next whole one are in the range.
    fn takes_point(&self, digits: &Digits) -> bool {
        let value = if digits.is_negative { -digits.value } else { digits.value };
        let next = if digits.is_negative { value - 1 } else { value + 1 };
        let is_inside = |number| (self.least..=self.most).contains(&number);
        self.has_decimals && digits.count > 0 && is_inside(value) && is_inside(next)
    }

    /// Returns the beginning with one more byte.
    pub(crate) fn step(&self, mut digits: Digits, byte: u8) -> Option<Digits> {
        if let Some(decimals) = digits.decimals {
            digits.decimals = Some(decimals + 1);
            return (byte.is_ascii_digit() && decimals < MOST_DECIMALS).then_some(digits);
        }
        match byte {
            b'-' if digits == Digits::default() => digits.is_negative = true,
            b'.' if self.takes_point(&digits) => {
                digits.decimals = Some(0);
                return Some(digits);
            }
            b'0'..=b'9' => {
                if digits.count > 0 && digits.value == 0 || digits.count == MOST_DIGITS {
                    return None;
                }
                digits.value = digits.value * 10 + i64::from(byte - b'0');
                digits.count += 1;
            }
            _ => return None,
        }
        // Zero with a minus is a number too, and needed before decimals.
        self.rest_of(&digits).map(|_| digits)
    }

    /// Returns the bytes that make the beginning a number.
    pub(crate) fn rest(&self, digits: &Digits) -> Vec<u8> {
        match digits.decimals {
            Some(0) => b"0".to_vec(),
            Some(_) => Vec::new(),
            None => self.rest_of(digits).unwrap_or_default(),
        }
    }
}
