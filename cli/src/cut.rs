//! Cutting texts between characters.

/// The last character boundary at or before a byte of a text.
pub fn floor(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_character_is_cut() {
        assert_eq!([0, 1, 2, 3, 9].map(|at| floor("aé", at)), [0, 1, 1, 3, 3]);
        assert_eq!(floor("é", 9), 2);
        assert_eq!(floor("", 1), 0);
    }
}
