//! The text of source code, with the lines that declare items as headings.

use super::lightweight::{Source, indent};
use super::text::{Page, is_in};
use crate::outline::{Outline, Part};

/// Whether a lowercase extension is that of a programming language.
pub(super) fn is_code(extension: &str) -> bool {
    EXTENSIONS.split_whitespace().any(|own| own == extension)
}

const EXTENSIONS: &str = "bash c cc clj cpp cs cu cxx dart ex exs go h hh hpp hs java jl js jsx kt kts lua m mjs ml nim \
    php pl pm proto ps1 py pyi r rb rs scala sh sql swift ts tsx vue zig zsh";

/// Words before the one that says what is declared.
const MODIFIERS: &str = "pub export default async static public private protected internal abstract final sealed open \
    override virtual unsafe inline partial suspend data declare local readonly const extern native synchronized create \
    or replace temporary case companion";
/// Words that say what is declared.
const KINDS: &str = "fn func fun def defp class struct enum union trait impl interface module mod namespace function \
    object protocol extension record macro_rules! defmodule sub procedure table view trigger message service type \
    mixin";
/// Words before a parenthesis that declare nothing.
const CONTROL: &str = "if else for while switch match catch return do try with elif unless until when case throw new \
    await yield assert sizeof foreach lock using synchronized defer go select loop and or not in";

/// The text of a file, unchanged.
pub(super) fn page(file: &str) -> Page {
    let (mut source, mut parts) = (Source::of(file), Vec::new());
    // The indentation of the open items, the start of what stands above the next one, and the mark that ends
    // a comment or a text of several lines.
    let (mut open, mut above, mut until): (Vec<usize>, Option<Part>, Option<&str>) = (Vec::new(), None, None);
    let mut begins = true;
    while let Some(line) = source.next() {
        let margin = indent(line);
        let text = &line[margin..];
        if text.is_empty() {
            (begins, above) = (true, above.filter(|_| until.is_some()));
            continue;
        }
        let part = Part { start: (source.start + margin) as u32, line: source.number, level: 0 };
        let was = until;
        until = within(text, until);
        let is_above = was == Some("*/") || is_above(text);
        if is_above {
            above = above.or(Some(part));
        }
        let next = || source.peek(0).unwrap_or_default().trim();
        if !is_above && was.or(until).is_none() && declares(text, margin, next) {
            while open.last().is_some_and(|own| *own >= margin) {
                open.pop();
            }
            open.push(margin);
            if let Some(above) = above {
                parts.truncate(
                    parts.iter().rposition(|own: &Part| own.start < above.start).map_or(0, |last| last + 1),
                );
                parts.push(Part { level: Part::ABOVE, ..above });
            }
            parts.push(Part { level: open.len().min(6) as u8, ..part });
            begins = true;
        } else if begins {
            parts.push(part);
            begins = false;
        }
        if !is_above {
            above = None;
        }
    }
    let text = file.trim_end();
    parts.retain(|part| (part.start as usize) < text.len());
    let start = text.len() - text.trim_start().len();
    parts.iter_mut().for_each(|part| part.start = part.start.saturating_sub(start as u32));
    Page {
        text: text.trim_start().to_owned(),
        outline: Outline::new(parts).unwrap_or_default(),
        ..Page::default()
    }
}

/// The mark that ends the comment or text in which a line ends.
fn within<'a>(text: &str, until: Option<&'a str>) -> Option<&'a str> {
    if let Some(end) = until {
        return Some(end).filter(|end| !text.contains(*end));
    }
    for (start, end) in [("/*", "*/"), ("\"\"\"", "\"\"\""), ("'''", "'''"), ("--[[", "]]")] {
        if let Some(rest) = text.strip_prefix(start) {
            return Some(end).filter(|end| !rest.contains(*end));
        }
    }
    None
}

/// Whether a line is a comment, an attribute or a decorator, which belongs to the item below.
fn is_above(text: &str) -> bool {
    let is_directive = ["#include", "#define", "#if", "#endif", "#else", "#undef", "#pragma", "#import"];
    let starts = |marks: &[&str]| marks.iter().any(|mark| text.starts_with(mark));
    starts(&["//", "/*", "#", "@", "--", ";;", "template"]) && !starts(&is_directive)
        || text.starts_with('[') && text.ends_with(']')
}

/// Whether a line declares a function, a class or the like.
fn declares<'a>(text: &str, margin: usize, next: impl Fn() -> &'a str) -> bool {
    // No declaration is shorter, and no one reads a longer one.
    if !(5..500).contains(&text.len()) {
        return false;
    }
    let bare = |word: &str| word.split(['(', '<', ':', '{']).next().unwrap_or_default().to_lowercase();
    let mut words =
        text.split_whitespace().skip_while(|word| is_in(MODIFIERS, &bare(word)) || *word == "\"C\"");
    let (kind, name) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let is_name =
        name.starts_with(|c: char| c.is_alphabetic() || "_$\"`(*".contains(c)) || kind.starts_with("impl<");
    let few = text.split_whitespace().count() <= 4;
    let is_kind = is_in(KINDS, &kind.split('<').next().unwrap_or_default().to_lowercase());
    if is_kind && is_name && !name.starts_with("(*") {
        let is_one = few || text.contains(['(', '{', ':', '<', '=']);
        return is_one && (!text.ends_with(';') || text.contains(['{', '(']));
    }
    // Functions without such a word, as in C, Java and classes of JavaScript.
    let Some((before, _)) = text.split_once('(') else { return false };
    let before = before.trim_end();
    let first = bare(text.split_whitespace().next().unwrap_or_default());
    let is_assigned = before.contains(['=', '.', '"', '\'', '{', '}', ';', '!', '+', '|', '&', ',']);
    if is_in(CONTROL, &first) || before.is_empty() || text.ends_with([';', ',']) && margin > 0 {
        return false;
    }
    let is_arrow = margin == 0 && before.contains('=') && (text.ends_with("=> {") || text.ends_with("=>"));
    let opens = text.ends_with('{') || text.ends_with("{}") || next() == "{";
    let has_type = before.split_whitespace().count() > 1 && margin == 0 && text.ends_with([')', ',', '(']);
    // A call with a function or a text in it, as in tests of JavaScript.
    let is_call = ["=>", "function", "\"", "'"].iter().any(|own| text.contains(own));
    is_arrow || !is_call && !is_assigned && (opens || has_type && !text.ends_with(';'))
}
