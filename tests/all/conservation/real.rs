//! Real files: every word of them that a reader sees, by a reading of their markup that is cruder than ours.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use ehi::data::Folder;

use super::{missing, words};

/// Reads all Markdown and HTML in the folder `EHI_REAL_FILES`, ignored files too.
///
/// `EHI_REAL_FILES=FOLDER cargo test --test all conservation::real -- --ignored --nocapture`
#[test]
#[ignore = "reads the folder that EHI_REAL_FILES names"]
fn every_word_of_real_files_is_in_their_documents() {
    let root = PathBuf::from(std::env::var_os("EHI_REAL_FILES").expect("EHI_REAL_FILES names a folder"));
    let (mut files, mut all, mut lost) = ([0, 0], 0, Vec::new());
    let mut documents = Folder::open(&root).unwrap().with_ignored().documents();
    for document in &mut documents {
        let document = match document {
            Ok(document) => document,
            Err(error) => {
                println!("{error}");
                continue;
            }
        };
        let path = root.join(&document.id);
        let Some(seen) = readable(&path, &fs::read_to_string(&path).unwrap()) else { continue };
        files[usize::from(is_html(&path))] += 1;
        let seen: BTreeSet<&str> = words(&seen).filter(|word| !word.contains(HOLE)).collect();
        all += seen.len();
        let mut missing = missing(seen, std::slice::from_ref(&document));
        // A part of a word with markup in it.
        missing.retain(|word| !document.title.contains(*word) && !document.text.contains(*word));
        if !missing.is_empty() {
            println!("{}: {missing:?}", path.display());
            lost.extend(missing.into_iter().map(str::to_owned));
        }
    }
    println!(
        "{} of Markdown and {} of HTML, {all} words, {} of them missing",
        files[0],
        files[1],
        lost.len()
    );
    documents.report().notes.iter().for_each(|note| println!("{note}"));
    assert!(files[0] + files[1] > 0 && lost.is_empty(), "{} words are missing", lost.len());
}

/// A letter that stands for what is no part of a word that can be compared.
const HOLE: char = 'ꟸ';

fn is_html(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "html" || ending == "htm")
}

/// A file without what no reader sees; none where it is neither Markdown nor HTML.
fn readable(path: &Path, text: &str) -> Option<String> {
    let mut text = text.to_owned();
    for (start, end) in
        [("<!--", "-->"), ("<script", "</script>"), ("<style", "</style>"), ("<template", "</template>")]
    {
        text = without(&text, start, end);
    }
    if is_html(path) {
        for (start, end) in [("<noscript", "</noscript>"), ("<iframe", "</iframe>"), ("<object", "</object>")]
        {
            text = without(&text, start, end);
        }
        // The content of the last is no markup.
        for (start, end) in
            [("<desc", "</desc>"), ("<annotation", "</annotation>"), ("<textarea", "</textarea>")]
        {
            text = without(&text, start, end);
        }
        return Some(entities(&tags(&text)));
    }
    if !path.extension().is_some_and(|ending| ending == "md" || ending == "markdown") {
        return None;
    }
    let (mut lines, mut is_target) = (String::new(), false);
    for line in text.lines() {
        let bare = line.trim_start_matches([' ', '>', '\t']);
        // The target of a definition may be on a line of its own.
        if std::mem::take(&mut is_target) {
            continue;
        }
        // Definitions of links, and what is behind a fence of code.
        let is_definition = bare.starts_with('[') && bare.contains("]:") && !bare.starts_with("[^");
        is_target = is_definition && bare.trim_end().ends_with("]:");
        // A title of front matter that is empty.
        let is_definition = is_definition || bare.starts_with("title:");
        if !is_definition && !bare.starts_with("```") && !bare.starts_with("~~~") {
            lines += line;
            lines.push('\n');
        }
    }
    for (start, end) in [("](", ")"), ("][", "]"), ("[^", "]"), ("[!", "]")] {
        lines = without(&lines, start, end);
    }
    Some(entities(&tags(&lines)))
}

/// A text without what is between two marks, in upper or lower case.
fn without(text: &str, start: &str, end: &str) -> String {
    let lower = text.to_ascii_lowercase();
    let (mut kept, mut at) = (String::new(), 0);
    while let Some(begin) = lower[at..].find(start).map(|begin| at + begin) {
        let inside = begin + start.len();
        let line = lower[inside..].lines().next().unwrap_or_default();
        let balanced = closing(line).filter(|_| end == ")");
        let length = balanced.or_else(|| lower[inside..].find(end));
        let Some(length) = length else { break };
        kept += &text[at..begin];
        kept.push(' ');
        at = inside + length + end.len();
    }
    kept + &text[at..]
}

/// Where the bracket of a link's target closes.
fn closing(inside: &str) -> Option<usize> {
    let mut open = 1;
    let closes = |(_, c): &(usize, char)| {
        open += i32::from(*c == '(') - i32::from(*c == ')');
        open == 0
    };
    inside.char_indices().find(closes).map(|(at, _)| at)
}

/// A text without tags. Those within a line of text are no bound of words.
fn tags(text: &str) -> String {
    const WITHIN: [&str; 18] = [
        "a", "b", "i", "em", "strong", "code", "span", "wbr", "sup", "sub", "u", "small", "font", "kbd",
        "var", "tt", "mark", "abbr",
    ];
    let (mut kept, mut at) = (String::new(), 0);
    while let Some(begin) = text[at..].find('<').map(|begin| at + begin) {
        let inside = &text[begin + 1..];
        let name: String =
            inside.trim_start_matches('/').chars().take_while(char::is_ascii_alphanumeric).collect();
        let Some(length) = tag_end(inside).filter(|_| !name.is_empty() || inside.starts_with(['!', '?']))
        else {
            kept += &text[at..=begin];
            at = begin + 1;
            continue;
        };
        kept += &text[at..begin];
        if !WITHIN.contains(&name.to_ascii_lowercase().as_str()) {
            kept.push(' ');
        }
        at = begin + 1 + length + 1;
    }
    kept + &text[at..]
}

/// Where a tag ends, whose values may hold a `>`.
fn tag_end(inside: &str) -> Option<usize> {
    let mut quote = None;
    let ends = |(_, c): &(usize, char)| {
        match quote {
            Some(open) if *c == open => quote = None,
            None if *c == '>' => return true,
            None if matches!(c, '"' | '\'') => quote = Some(*c),
            _ => {}
        }
        false
    };
    inside.char_indices().find(ends).map(|(at, _)| at)
}

/// A text with holes in the place of entities.
fn entities(text: &str) -> String {
    let (mut kept, mut at) = (String::new(), 0);
    while let Some(begin) = text[at..].find('&').map(|begin| at + begin) {
        let name: String =
            text[begin + 1..].chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '#').collect();
        kept += &text[at..begin];
        at = begin + 1;
        match text[at + name.len()..].strip_prefix(';') {
            Some(_) => {
                kept.push(HOLE);
                at += name.len() + 1;
            }
            // HTML reads a number without its end, too.
            None if name.starts_with('#') => {
                kept.push(HOLE);
                at += name.len();
            }
            None => kept.push('&'),
        }
    }
    kept + &text[at..]
}
