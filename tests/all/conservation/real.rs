//! Real files: every word that a reader sees, found by a cruder reading of their markup than ours.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use ehi::data::Folder;

use super::{missing, words};

/// Reads all Markdown and HTML in the folder `EHI_REAL_FILES`, including ignored files.
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
        // Part of a word with markup in it.
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
    documents.folder().unwrap().notes.iter().for_each(|note| println!("{note}"));
    assert!(files[0] + files[1] > 0 && lost.is_empty(), "{} words are missing", lost.len());
}

/// Replaces letters that are not part of a comparable word.
const HOLE: char = 'ꟸ';

fn is_html(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "html" || ending == "htm")
}

/// A file without its invisible parts; `None` if it is neither Markdown nor HTML.
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
        for (start, end) in [("<desc", "</desc>"), ("<annotation", "</annotation>")] {
            text = without(&text, start, end);
        }
        return Some(entities(&tags(&text)));
    }
    if !path.extension().is_some_and(|ending| ending == "md" || ending == "markdown") {
        return None;
    }
    let (mut lines, mut is_target, mut is_front) = (String::new(), false, false);
    for (number, line) in text.lines().enumerate() {
        is_front = if number == 0 { line == "---" } else { is_front && line != "---" };
        let bare = line.trim_start_matches([' ', '>', '\t']);
        // The target of a definition may be on a separate line.
        if std::mem::take(&mut is_target) {
            continue;
        }
        // Definitions of links, and what follows a code fence.
        let is_definition = bare.starts_with('[') && bare.contains("]:") && !bare.starts_with("[^");
        is_target = is_definition && bare.trim_end().ends_with("]:");
        // Comments in front matter, and an empty title in it.
        let line = if is_front { line.split(" #").next().unwrap_or_default() } else { line };
        let is_definition = is_definition || bare.starts_with("title:");
        if !is_definition && !bare.starts_with("```") && !bare.starts_with("~~~") {
            lines += line;
            lines.push('\n');
        }
    }
    // Targets of links, footnotes, kinds of callouts, and completed tasks.
    for (start, end) in [("](", ")"), ("][", "]"), ("[^", "]"), ("[!", "]"), ("[x", "]")] {
        lines = without(&lines, start, end);
    }
    Some(entities(&tags(&wikilinks(&lines))))
}

/// A text without the targets of wikilinks that have their own words.
fn wikilinks(text: &str) -> String {
    let mut parts = text.split("[[");
    let mut kept = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let words = part.split_once("]]").and_then(|(link, after)| Some((link.split_once('|')?.1, after)));
        kept += &words.map_or_else(|| part.to_owned(), |(words, after)| format!(" {words} {after}"));
    }
    kept
}

/// A text without the parts between two marks, in upper or lower case.
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

/// A text without tags; a tag inside a word splits it in two.
fn tags(text: &str) -> String {
    let (mut kept, mut at) = (String::new(), 0);
    while let Some(begin) = text[at..].find('<').map(|begin| at + begin) {
        let inside = &text[begin + 1..];
        let name = inside.trim_start_matches('/');
        let is_tag = name.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '!' | '?'));
        let Some(length) = tag_end(inside).filter(|_| is_tag) else {
            kept += &text[at..=begin];
            at = begin + 1;
            continue;
        };
        kept += &text[at..begin];
        kept.push(' ');
        at = begin + 1 + length + 1;
    }
    kept + &text[at..]
}

/// The end of a tag, whose values may contain `>`.
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

/// A text with entities replaced by holes.
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
            // HTML also accepts a number without its end.
            None if name.starts_with('#') => {
                kept.push(HOLE);
                at += name.len();
            }
            None => kept.push('&'),
        }
    }
    kept + &text[at..]
}
