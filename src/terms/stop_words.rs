//! English words that do not indicate a subject.

/// In byte order, lower case, as the tokens are cut: "isn't" gives "isn" and "t".
#[rustfmt::skip]
pub(super) const STOP_WORDS: &[&str] = &[
    "about", "above", "after", "again", "against", "ain", "al", "all", "along", "also", "although",
    "always", "am", "among", "an", "and", "any", "are", "aren", "as", "at", "be", "became", "because",
    "become", "been", "before", "being", "below", "between", "both", "but", "by", "can", "cannot",
    "could", "couldn", "did", "didn", "do", "does", "doesn", "doing", "don", "done", "down", "due",
    "during", "each", "either", "et", "etc", "even", "ever", "every", "few", "for", "from", "further",
    "had", "hadn", "has", "hasn", "have", "haven", "having", "he", "hence", "her", "here", "hers",
    "herself", "him", "himself", "his", "how", "however", "if", "in", "into", "is", "isn", "it", "its",
    "itself", "just", "like", "ll", "made", "make", "many", "may", "me", "might", "mightn", "more",
    "most", "much", "must", "mustn", "my", "myself", "needn", "neither", "no", "nor", "not", "now",
    "of", "off", "often", "on", "once", "one", "only", "or", "other", "our", "ours", "ourselves",
    "out", "over", "own", "per", "re", "same", "several", "shall", "shan", "she", "should", "shouldn",
    "since", "so", "some", "such", "than", "that", "the", "their", "theirs", "them", "themselves",
    "then", "there", "therefore", "these", "they", "this", "those", "though", "through", "thus", "to",
    "too", "two", "under", "until", "up", "upon", "us", "use", "used", "using", "ve", "very", "via",
    "was", "wasn", "we", "were", "weren", "what", "when", "where", "whereas", "whether", "which",
    "while", "who", "whom", "whose", "why", "will", "with", "within", "without", "won", "would",
    "wouldn", "yet", "you", "your", "yours", "yourself", "yourselves",
];

#[cfg(test)]
mod tests {
    use super::STOP_WORDS;

    /// The list must be sorted for binary search.
    #[test]
    fn the_list_is_in_order() {
        assert!(STOP_WORDS.is_sorted_by(|a, b| a < b));
    }
}
