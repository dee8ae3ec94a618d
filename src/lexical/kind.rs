//! Which terms the posting lists of an index are of, and which version's rules found them.

use super::Analyzer;

/// Added to an analyzer's code for lists made by this version (docs/format.md).
const CURRENT: u8 = 32;

/// What the posting lists of an index are of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kind {
    pub analyzer: Analyzer,
    /// As versions before found them: in texts as they are stored, without what the encoder does not know.
    /// Such lists miss words of scripts without spaces and other forms of the same letters.
    pub is_earlier: bool,
}

impl Kind {
    /// The lists that this version makes.
    pub fn new(analyzer: Analyzer) -> Self {
        Self { analyzer, is_earlier: false }
    }

    /// As it is on disk; never 0.
    pub fn code(self) -> u8 {
        self.analyzer.code() + if self.is_earlier { 0 } else { CURRENT }
    }

    pub fn from_code(code: u8) -> Option<Self> {
        let earlier = Analyzer::from_code(code).map(|analyzer| Self { analyzer, is_earlier: true });
        earlier.or_else(|| code.checked_sub(CURRENT).and_then(Analyzer::from_code).map(Self::new))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lexical::Language;

    #[test]
    fn codes_are_read_back_and_those_of_earlier_versions_stay() {
        for analyzer in
            Language::ALL.iter().map(|&language| Analyzer::Stems(language)).chain([Analyzer::Tokens])
        {
            for is_earlier in [false, true] {
                let kind = Kind { analyzer, is_earlier };
                assert_eq!(Kind::from_code(kind.code()), Some(kind));
            }
            assert!(analyzer.code() < CURRENT);
        }
        let tokens = |is_earlier| Some(Kind { analyzer: Analyzer::Tokens, is_earlier });
        assert_eq!((Kind::from_code(1), Kind::from_code(33)), (tokens(true), tokens(false)));
        assert_eq!((Kind::from_code(0), Kind::from_code(32), Kind::from_code(200)), (None, None, None));
    }
}
