//! The text of PDF files.

use std::collections::{HashMap, HashSet};
use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use oxidize_pdf::parser::{PdfDocument, PdfReader};
use oxidize_pdf::text::ExtractionOptions;
use unicode_normalization::UnicodeNormalization;

use super::text::{Break, MAX_FILE_BYTES, Page, PageText, Unreadable, one_line};
use crate::data::error::DataErrorKind;
use crate::data::input::foreign;

/// The longest that a file is read. The thread ends with its page then, or never, if the page is hostile.
const LONGEST: Duration = Duration::from_secs(60);
/// Most lists and dictionaries within one another, which the library reads by recursion, and bytes of stack
/// for them. In a compressed part of a file they are not counted.
const DEEPEST: usize = 10_000;
const STACK: usize = 256 << 20;
/// Bytes before the beginning of a file that viewers accept.
const MOST_BEFORE: usize = 1024;
/// The gap between letters that is a space, in units of the size of the letters: of 0.1 to 0.3 the one with
/// the fewest words torn or joined in papers.
const SPACE: f64 = 0.15;
/// Fewest pages with the same first or last line for it to be left out, and most lines at an edge that are.
const FEWEST_REPEATED: usize = 3;
const MOST_REPEATED: usize = 5;
/// How much larger than most of the text a title is, and most of its characters.
const LARGER: f64 = 1.15;
const LONGEST_TITLE: usize = 250;

/// What is read of a file.
#[derive(Default)]
struct Pages {
    title: Option<String>,
    /// The text in the largest letters of the first page.
    largest: Option<String>,
    /// The text of each page.
    texts: Vec<String>,
    /// Why some pages could not be read.
    wrong: Option<String>,
}

/// The text with a heading for each page; without the lines that are at the top or the bottom of most pages.
pub(super) fn page(file: &[u8]) -> Result<Page, Unreadable> {
    let format = |message: String| Unreadable(DataErrorKind::Format, message);
    if !file[..file.len().min(MOST_BEFORE)].windows(5).any(|at| at == b"%PDF-") {
        let found = match file {
            [] => "it is empty",
            _ => foreign(file).map_or("it does not begin with `%PDF-`", |(found, _)| found),
        };
        return Err(format(format!("this is not a PDF document: {found}")));
    }
    if deepest(file) > DEEPEST {
        let message = format!("more than {DEEPEST} lists and dictionaries are within one another");
        return Err(Unreadable(DataErrorKind::Damaged, message));
    }
    let (send, received) = channel();
    let (bytes, until) = (file.to_vec(), Instant::now() + LONGEST);
    let read = move || {
        // Nobody may wait for it any more.
        let _ = send.send(catch_unwind(AssertUnwindSafe(|| pages(bytes, until))));
    };
    let thread = thread::Builder::new().name("pdf".to_owned()).stack_size(STACK).spawn(read);
    let thread = thread.map_err(|error| Unreadable(DataErrorKind::Open, error.to_string()))?;
    let read = received.recv_timeout(LONGEST);
    if read.is_ok() {
        // It has caught its panic.
        let _ = thread.join();
    }
    let is_locked = || file.windows(8).any(|at| at == b"/Encrypt");
    match read {
        Ok(Ok(Ok(pages))) if pages.texts.is_empty() && is_locked() => {
            Err(format("it has a password; save it without one".to_owned()))
        }
        Ok(Ok(Ok(pages))) => text(pages),
        Ok(Ok(Err(_))) if is_locked() => {
            Err(format("it has a password, or is damaged; save it without one".to_owned()))
        }
        Ok(Ok(Err(why))) => {
            Err(Unreadable(DataErrorKind::Damaged, format!("it is cut off or damaged: {why}")))
        }
        Ok(Err(_)) => Err(Unreadable(DataErrorKind::Damaged, "it is damaged".to_owned())),
        Err(_) => Err(Unreadable(
            DataErrorKind::TooLarge,
            format!("reading it takes more than {} seconds; split it", LONGEST.as_secs()),
        )),
    }
}

/// The most lists and dictionaries that are open at a place of a file.
fn deepest(file: &[u8]) -> usize {
    let (mut open, mut most) = (0_usize, 0);
    for sign in file {
        match sign {
            b'[' | b'<' => open += 1,
            b']' | b'>' => open = open.saturating_sub(1),
            _ => {}
        }
        most = most.max(open);
    }
    most
}

/// Reads the pages one after the other.
fn pages(file: Vec<u8>, until: Instant) -> Result<Pages, String> {
    let reader = PdfReader::new(Cursor::new(file)).map_err(|error| error.to_string())?;
    let document = PdfDocument::new(reader);
    let count = document.page_count().map_err(|error| error.to_string())?;
    let title = document.metadata().ok().and_then(|own| own.title).and_then(|title| useful(&title));
    let largest = if title.is_none() { largest(&document) } else { None };
    let mut pages = Pages { title, largest, ..Pages::default() };
    let (mut left, mut failed) = (MAX_FILE_BYTES as usize, 0);
    let mut why = String::new();
    for number in 0..count {
        if Instant::now() > until {
            break;
        }
        let options = ExtractionOptions { max_extracted_bytes: Some(left), ..options() };
        match document.extract_text_from_page_with_options(number, options) {
            Ok(page) if page.truncated => {
                return Err(format!("its text has more than {MAX_FILE_BYTES} bytes"));
            }
            Ok(page) => {
                left = left.saturating_sub(page.text.len());
                pages.texts.push(plain(&page.text));
            }
            Err(error) => {
                failed += 1;
                why = error.to_string();
                pages.texts.push(String::new());
            }
        }
    }
    match failed {
        0 => Ok(pages),
        _ if failed == pages.texts.len() => Err(why),
        _ => {
            pages.wrong = Some(format!("{failed} of its {count} pages cannot be read: {why}"));
            Ok(pages)
        }
    }
}

fn options() -> ExtractionOptions {
    ExtractionOptions {
        space_threshold: SPACE,
        tj_space_threshold: SPACE,
        // Words are joined when the lines between their parts are left out.
        merge_hyphenated: false,
        ..ExtractionOptions::default()
    }
}

/// The title of the properties, unless it is a name that a program has put there.
fn useful(title: &str) -> Option<String> {
    let title = one_line(title);
    let title = match title.strip_prefix("Microsoft Word - ") {
        Some(file) => file.rsplit_once('.').map_or(file, |(name, _)| name).to_owned(),
        None => title,
    };
    let is_useful = title.contains(' ')
        && !title.starts_with("Microsoft ")
        && !title.to_lowercase().starts_with("untitled");
    is_useful.then_some(title)
}

/// The first lines in the largest letters of the first page, if they are larger than most.
fn largest(document: &PdfDocument<Cursor<Vec<u8>>>) -> Option<String> {
    struct Line {
        text: String,
        size: f64,
        y: f64,
        end: f64,
    }
    let options =
        ExtractionOptions { preserve_layout: true, max_extracted_bytes: Some(1 << 20), ..options() };
    let page = document.extract_text_from_page_with_options(0, options).ok()?;
    let (mut lines, mut sizes): (Vec<Line>, Vec<(f64, usize)>) = (Vec::new(), Vec::new());
    // The number that arXiv prints on the margin, from the bottom to the top.
    for piece in page.fragments.iter().filter(|own| own.x > 40.0 && !own.text.starts_with("arXiv:")) {
        let (text, size, end) = (plain(&piece.text), piece.font_size, piece.x + piece.width);
        sizes.push((size, text.len()));
        match lines.last_mut() {
            Some(line) if (line.y - piece.y).abs() < 0.4 * line.size.max(size) => {
                if piece.x - line.end > SPACE * size {
                    line.text.push(' ');
                }
                line.text.push_str(&text);
                (line.size, line.end) = (line.size.max(size), end);
            }
            _ => lines.push(Line { text, size, y: piece.y, end }),
        }
    }
    sizes.sort_by(|one, other| one.0.total_cmp(&other.0));
    let half = sizes.iter().map(|(_, length)| length).sum::<usize>() / 2;
    let mut before = 0;
    let usual = sizes.iter().find(|(_, length)| {
        before += length;
        before > half
    })?;
    lines.retain(|line| line.text.chars().filter(|sign| sign.is_alphabetic()).count() > 1);
    let most = lines.iter().map(|line| line.size).fold(0.0, f64::max);
    let is_large = |line: &&Line| line.size > most * 0.97;
    let title: Vec<&str> = lines
        .iter()
        .skip_while(|line| !is_large(line))
        .take_while(is_large)
        .map(|line| line.text.as_str())
        .collect();
    let title = one_line(&joined(&title));
    // Marks of footnotes.
    let title = title.trim_end_matches(|sign| " *∗†‡§¶".contains(sign)).to_owned();
    Some(title).filter(|title| most > usual.0 * LARGER && is_title(title))
}

/// Whether a text may be a title.
fn is_title(text: &str) -> bool {
    let letters = text.chars().filter(|sign| sign.is_alphabetic()).count();
    let count = text.chars().count();
    count <= LONGEST_TITLE && text.contains(' ') && 3 * letters > 2 * count
}

/// Text with letters for ligatures, and without signs that fonts without names for their letters leave.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for sign in text.chars() {
        match sign {
            '\u{fb00}'..='\u{fb06}' => plain.extend(sign.nfkc()),
            '\n' | '\t' => plain.push(sign),
            _ if sign.is_control() => plain.push(' '),
            _ => plain.push(sign),
        }
    }
    plain
}

fn text(pages: Pages) -> Result<Page, Unreadable> {
    let Pages { title, largest, texts, wrong } = pages;
    let (count, repeated) = (texts.len(), repeated(&texts));
    let unnamed = texts.iter().flat_map(|text| text.chars()).filter(|sign| *sign == '\u{fffd}').count();
    let shown = texts.iter().flat_map(|text| text.chars()).filter(|sign| !sign.is_whitespace()).count();
    if 2 * unnamed > shown {
        let note = "it has no text, because its fonts do not name their letters; a program for OCR adds it";
        return Ok(Page { note: Some(wrong.unwrap_or(note.to_owned())), ..Page::default() });
    }
    let mut page = PageText::new();
    for (text, number) in texts.iter().zip(1..) {
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        // The title is repeated on the pages after it.
        let top = if number == 1 { 0 } else { repeated_at(lines.iter(), &repeated) };
        let bottom = repeated_at(lines.iter().rev(), &repeated);
        let own = joined(lines.get(top..lines.len().saturating_sub(bottom)).unwrap_or_default());
        if own.trim().is_empty() {
            continue;
        }
        if count > 1 {
            page.begin_heading(1);
            page.push(&format!("Page {number}"));
            page.end_heading();
        }
        page.push_paragraphs(&own);
        page.stop(Break::Paragraph);
    }
    let first = || {
        let first = texts.first()?.lines().map(one_line).find(|line| !line.is_empty())?;
        let is_header = repeated.contains(&without_numbers(&first));
        Some(first)
            .filter(|first| is_title(first) && !is_header && !first.ends_with(['.', ',', ';', ':', '-']))
    };
    let page = page.titled(title.or(largest).or_else(first).unwrap_or_default());
    if page.text.is_empty() {
        let pages = if count == 1 { "page has" } else { "pages have" };
        let note = format!("its {count} {pages} no text, as those of a scan; a program for OCR adds it");
        return Ok(Page { note: Some(wrong.unwrap_or(note)), ..Page::default() });
    }
    Ok(Page { outline: page.outline.without_lines(), note: wrong, ..page })
}

/// A line without the number of its page.
fn without_numbers(line: &str) -> String {
    line.chars().filter(|sign| !sign.is_ascii_digit() && !sign.is_whitespace()).collect()
}

/// The lines near the top or the bottom of a third of the pages or more, without their numbers.
fn repeated(texts: &[String]) -> HashSet<String> {
    let mut counts: HashMap<String, usize> = HashMap::new();
    for text in texts {
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        let (first, last) = (lines.iter().take(MOST_REPEATED), lines.iter().rev().take(MOST_REPEATED));
        let edges: HashSet<String> = first.chain(last).map(|line| without_numbers(line)).collect();
        for line in edges {
            *counts.entry(line).or_default() += 1;
        }
    }
    let enough = FEWEST_REPEATED.max(texts.len().div_ceil(3));
    counts.into_iter().filter(|(_, count)| *count >= enough).map(|(line, _)| line).collect()
}

/// How many lines from an edge on are repeated ones, or empty. Of numbers alone only the outermost one is
/// left out, as others may be those of a table.
fn repeated_at<'a>(lines: impl Iterator<Item = &'a &'a str>, repeated: &HashSet<String>) -> usize {
    let (mut length, mut found) = (0, 0);
    for (line, place) in lines.zip(1..) {
        let key = without_numbers(line);
        if line.is_empty() {
            continue;
        }
        if found == MOST_REPEATED || found > 0 && key.is_empty() || !repeated.contains(&key) {
            break;
        }
        (length, found) = (place, found + 1);
    }
    length
}

/// The lines, with the words joined that are divided at their ends. The hyphen stays except within a word.
fn joined(lines: &[&str]) -> String {
    let mut joined = String::new();
    for line in lines {
        let before = joined.strip_suffix('-').and_then(|text| text.chars().next_back());
        match (before, line.chars().next()) {
            (Some(before), Some(next)) if !before.is_whitespace() && !next.is_whitespace() => {
                let is_word = next.is_lowercase() || before.is_uppercase();
                if before.is_alphabetic() && next.is_alphabetic() && is_word {
                    joined.pop();
                }
            }
            _ if joined.is_empty() => {}
            _ => joined.push('\n'),
        }
        joined.push_str(line);
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A document of pages with lines of text.
    fn document(pages: &[&[&str]], info: &str) -> Vec<u8> {
        let mut objects = vec![
            "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
            String::new(),
            "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>".to_owned(),
            format!("<< {info} >>"),
        ];
        let mut kids = String::new();
        for lines in pages {
            let shown: String = lines.iter().map(|line| format!("({line}) Tj 0 -14 Td ")).collect();
            let content = format!("BT /F1 12 Tf 72 720 Td {shown}ET");
            let number = objects.len() + 1;
            kids += &format!("{number} 0 R ");
            objects.push(format!(
                "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {} 0 R \
                 /Resources << /Font << /F1 3 0 R >> >> >>",
                number + 1
            ));
            objects.push(format!("<< /Length {} >>\nstream\n{content}\nendstream", content.len()));
        }
        objects[1] = format!("<< /Type /Pages /Kids [{kids}] /Count {} >>", pages.len());
        let (mut file, mut places) = ("%PDF-1.4\n".to_owned(), String::new());
        for (object, number) in objects.iter().zip(1..) {
            places += &format!("{:010} 00000 n \n", file.len());
            file += &format!("{number} 0 obj\n{object}\nendobj\n");
        }
        let (start, size) = (file.len(), objects.len() + 1);
        file +=
            &format!("xref\n0 {size}\n0000000000 65535 f \n{places}trailer\n<< /Size {size} /Root 1 0 R ");
        file += &format!("/Info 4 0 R >>\nstartxref\n{start}\n%%EOF\n");
        file.into_bytes()
    }

    #[test]
    fn pages_are_headings_and_their_repeated_lines_are_left_out() {
        let file = document(
            &[
                &["On Birds", "The heron is a long-", "legged bird.", "1"],
                &["On Birds", "The stork.", "2"],
                &["On Birds", "3"],
                &["On Birds", "The ibis.", "4"],
            ],
            "/Title (About Birds)",
        );
        let read = page(&file).unwrap();
        assert_eq!(read.title, "About Birds");
        assert!(
            read.text.starts_with("Page 1\n\nOn Birds\nThe heron is a longlegged bird.\n\nPage 2"),
            "{}",
            read.text
        );
        assert!(read.text.ends_with("Page 2\n\nThe stork.\n\nPage 4\n\nThe ibis."), "{}", read.text);
        let at = read.text.find("ibis").unwrap();
        assert_eq!(read.outline.headings(&read.text, at), ["Page 4"]);
        assert_eq!(read.outline.line(&read.text, at), None);
        let single = page(&document(&[&["The heron."]], "/Title (x.dvi)")).unwrap();
        assert_eq!((&*single.title, &*single.text), ("", "The heron."));
    }

    #[test]
    fn lines_at_the_edges_are_left_out_before_words_are_joined() {
        let file = document(
            &[
                &["Words", "Birds are simpli-", "Volume 1", "1"],
                &["of Time-", "Sharing and", "more", "Volume 2", "2"],
                &["Herons", "Volume 3", "3"],
                &["Storks", "7", "8", "Volume 4", "4"],
            ],
            "",
        );
        let text = "Page 1\n\nWords\nBirds are simpli-\n\nPage 2\n\nof Time-Sharing and\nmore\n\nPage 3\n\nHerons\n\n\
                    Page 4\n\nStorks\n7\n8";
        assert_eq!(page(&file).unwrap().text, text);
        assert_eq!(joined(&["INTRO-", "DUCTION a-", "b 3016-", "09 -", "c"]), "INTRODUCTION ab 3016-09 -\nc");
    }

    #[test]
    fn a_title_is_that_of_the_properties_or_in_large_letters_or_the_first_line() {
        let words = "Birds that live near the water and eat fish.";
        let large = ") Tj /F1 24 Tf (On Herons of the) Tj 0 -28 Td (North*) Tj /F1 12 Tf (";
        for (lines, info, title) in [
            (vec![words, large, words], "", "On Herons of the North"),
            (vec![words, large, words], "/Title (untitled document)", "On Herons of the North"),
            (vec![words, large, words], "/Title (Microsoft Word - x.doc)", "On Herons of the North"),
            (vec![words, large, words], "/Title (Microsoft Word - Herons v1.2.doc)", "Herons v1.2"),
            (vec!["On Storks", words], "", "On Storks"),
            (vec![words, "On Storks"], "", ""),
            (vec!["3 x = 7"], "", ""),
        ] {
            assert_eq!(page(&document(&[&lines], info)).unwrap().title, title, "{lines:?}");
        }
    }

    #[test]
    fn letters_without_names_are_no_text() {
        let read = |text: &str| {
            let texts = vec![text.to_owned()];
            super::text(Pages { texts, ..Pages::default() }).unwrap()
        };
        let note = "it has no text, because its fonts do not name their letters; a program for OCR adds it";
        let unnamed = read("\u{fffd}\u{fffd}\u{fffd} a b");
        assert_eq!((&*unnamed.text, unnamed.note.as_deref()), ("", Some(note)));
        assert_eq!(read("\u{fffd} a b").text, "\u{fffd} a b");
    }

    #[test]
    fn broken_and_hostile_files_are_errors() {
        for (file, expected) in [
            (&b""[..], "this is not a PDF document: it is empty"),
            (b"hello", "this is not a PDF document: it does not begin with `%PDF-`"),
            (b"PK\x03\x04", "this is not a PDF document: a ZIP archive"),
            (b"%PDF-1.4\n", "it is cut off or damaged"),
            (b"%PDF-1.4\n/Encrypt", "it has a password, or is damaged"),
        ] {
            let message = page(file).unwrap_err().1;
            assert!(message.starts_with(expected), "{message}");
        }
        let scan = page(&document(&[&[], &[]], "")).unwrap();
        assert_eq!((&*scan.text, &*scan.title), ("", ""));
        assert_eq!(
            scan.note.as_deref(),
            Some("its 2 pages have no text, as those of a scan; a program for OCR adds it")
        );
        let whole = document(&[&["The heron.", "The stork."]], "");
        for end in (0..whole.len()).step_by(7) {
            let _ = page(&whole[..end]);
        }
        // Values within values, in the catalog and on a page, pages within themselves, and a count of pages.
        let text = String::from_utf8(whole).unwrap();
        for (from, to) in [
            ("/Type /Catalog", format!("/Type /Catalog /A {}", "[".repeat(1_000_000))),
            ("/Type /Catalog", format!("/Type /Catalog /A {}", "<</A ".repeat(1_000_000))),
            ("BT /F1", format!("{} BT /F1", "[".repeat(1_000_000))),
            ("/Kids [5 0 R ]", "/Kids [2 0 R 2 0 R ]".to_owned()),
            ("/Count 1", "/Count 999999999".to_owned()),
            ("/Parent 2 0 R", "/Parent 5 0 R".to_owned()),
        ] {
            assert!(text.contains(from), "{from}");
            let started = Instant::now();
            let _ = page(text.replacen(from, &to, 1).as_bytes());
            assert!(started.elapsed() < LONGEST / 2, "{from} {}", &to[..30.min(to.len())]);
        }
    }
}
