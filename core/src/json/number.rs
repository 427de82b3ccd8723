//! Whole numbers in JSON's number grammar, exactly: `6`, `6.0`, `60e-1` and `0.6e1` are all six.

/// The value of a JSON number as a whole number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Integer {
    /// A whole number; minus zero is zero.
    Exactly { negative: bool, magnitude: u64 },
    /// It has a fraction other than zero.
    Fraction,
    /// Its magnitude does not fit into 64 bits.
    TooLarge,
}

/// The value of `number`, which the scanner has checked against the grammar.
pub(crate) fn integer(number: &str) -> Integer {
    let (negative, unsigned) = match number.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, number),
    };
    // Most numbers are plain digits.
    if let Ok(magnitude) = unsigned.parse() {
        return Integer::Exactly {
            negative: negative && magnitude != 0,
            magnitude,
        };
    }
    let (decimal, exponent) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, "0"));
    let (whole, fraction) = decimal.split_once('.').unwrap_or((decimal, ""));

    // How many digits are before the point once the exponent has moved it.
    let point =
        small_exponent(exponent).saturating_add(i64::try_from(whole.len()).unwrap_or(i64::MAX));
    let digits = whole.bytes().chain(fraction.bytes());
    let mut magnitude: u64 = 0;
    let mut place: i64 = 0;
    for byte in digits {
        let digit = u64::from(byte.wrapping_sub(b'0'));
        if place < point {
            match magnitude
                .checked_mul(10)
                .and_then(|tens| tens.checked_add(digit))
            {
                Some(next) => magnitude = next,
                None => return Integer::TooLarge,
            }
        } else if digit != 0 {
            return Integer::Fraction;
        }
        place = place.saturating_add(1);
    }
    // Zeros that the exponent adds. At most twenty fit, so this ends soon for any exponent.
    while magnitude != 0 && place < point {
        match magnitude.checked_mul(10) {
            Some(next) => magnitude = next,
            None => return Integer::TooLarge,
        }
        place = place.saturating_add(1);
    }
    Integer::Exactly {
        negative: negative && magnitude != 0,
        magnitude,
    }
}

/// The exponent, saturated: an input in memory has too few digits for larger ones to differ.
fn small_exponent(exponent: &str) -> i64 {
    let (negative, digits) = match exponent.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, exponent.strip_prefix('+').unwrap_or(exponent)),
    };
    let magnitude = digits.bytes().fold(0_i64, |value, byte| {
        value
            .saturating_mul(10)
            .saturating_add(i64::from(byte.wrapping_sub(b'0')))
    });
    if negative {
        magnitude.saturating_neg()
    } else {
        magnitude
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_exact_in_every_notation() {
        let plus = |magnitude| Integer::Exactly {
            negative: false,
            magnitude,
        };
        let minus = |magnitude| Integer::Exactly {
            negative: true,
            magnitude,
        };
        for (text, expected) in [
            ("0", plus(0)),
            ("-0", plus(0)),
            ("-0.0e9", plus(0)),
            ("6", plus(6)),
            ("-1", minus(1)),
            ("6.0", plus(6)),
            ("6e0", plus(6)),
            ("60e-1", plus(6)),
            ("0.6E+1", plus(6)),
            ("0.0006e4", plus(6)),
            ("6.5", Integer::Fraction),
            ("65e-1", Integer::Fraction),
            ("1e-9999999999999999999999", Integer::Fraction),
            ("0e99999999999999999999999", plus(0)),
            ("18446744073709551615", plus(u64::MAX)),
            ("18446744073709551616", Integer::TooLarge),
            ("1e19", plus(10_000_000_000_000_000_000)),
            ("1e20", Integer::TooLarge),
            ("1e400", Integer::TooLarge),
        ] {
            assert_eq!(integer(text), expected, "{text}");
        }
    }
}
