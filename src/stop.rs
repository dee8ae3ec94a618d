//! Rules that end a search early.

use std::fmt;
use std::str::FromStr;

/// A rule that ends a search before it has visited every leaf, so that an easy query visits fewer.
///
/// Leaves are visited in order of probability; the first one with a document is always visited, except with
/// `Mass` and `Patience`, which count empty leaves too.
///
/// Written and parsed as `patience=8`, `mass=0.9`, `documents=500`, `fraction=0.05`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Stop {
    /// After this many leaves in a row without a document among the best `k` so far; at least 1.
    Patience(usize),
    /// Once the visited leaves have this total probability; above 0, at most 1.
    Mass(f64),
    /// Before the leaf that would bring the number of scored documents, or passages, above this; at least 1.
    Documents(usize),
    /// As `Documents`, as a share of all live documents; above 0, at most 1.
    Fraction(f64),
}

/// A text that is not a [`Stop`], or a rule that would never let a search begin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{found}` is none of patience=LEAVES, mass=SHARE, documents=COUNT and fraction=SHARE; a count is from 1, a \
     share over 0 and at most 1"
)]
pub struct BadStop {
    /// The text, or the rule.
    pub found: String,
}

impl Stop {
    /// Whether its count or share is in range.
    pub(crate) fn is_valid(self) -> bool {
        match self {
            Self::Patience(count) | Self::Documents(count) => count > 0,
            Self::Mass(share) | Self::Fraction(share) => share > 0.0 && share <= 1.0,
        }
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Patience(leaves) => write!(f, "patience={leaves}"),
            Self::Mass(share) => write!(f, "mass={share}"),
            Self::Documents(count) => write!(f, "documents={count}"),
            Self::Fraction(share) => write!(f, "fraction={share}"),
        }
    }
}

impl FromStr for Stop {
    type Err = BadStop;

    fn from_str(text: &str) -> Result<Self, BadStop> {
        let (rule, value) = text.trim().split_once('=').unwrap_or_default();
        let stop = match rule {
            "patience" => value.parse().ok().map(Self::Patience),
            "mass" => value.parse().ok().map(Self::Mass),
            "documents" => value.parse().ok().map(Self::Documents),
            "fraction" => value.parse().ok().map(Self::Fraction),
            _ => None,
        };
        stop.filter(|stop| stop.is_valid()).ok_or_else(|| BadStop { found: text.to_owned() })
    }
}

impl serde::Serialize for Stop {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Stop {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_written_as_they_are_read() {
        let stops = [Stop::Patience(8), Stop::Mass(0.9), Stop::Documents(500), Stop::Fraction(0.05)];
        for stop in stops {
            assert_eq!(stop.to_string().parse(), Ok(stop));
        }
        for bad in [
            "",
            "8",
            "patience",
            "patience=0",
            "mass=0",
            "mass=1.5",
            "mass=NaN",
            "fraction=-1",
            "beam=3",
            "documents=1.5",
        ] {
            assert!(bad.parse::<Stop>().is_err(), "{bad}");
        }
    }
}
