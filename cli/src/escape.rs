//! Escapes characters that a terminal interprets instead of displaying.

/// Whether the character could steer a terminal, end a line, or change the order in which a line is shown.
pub fn acts(character: char) -> bool {
    // Controls are C0, DEL and C1; the others separate lines, or override and isolate directions.
    character.is_control()
        || matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Text from data on one line, with such characters escaped, as in `\u{1b}`.
pub fn escaped(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if acts(character) {
            shown.extend(character.escape_unicode());
        } else {
            shown.push(character);
        }
    }
    shown
}
