//! The text of subtitles, in SubRip (.srt) and WebVTT.

use super::lightweight::Source;
use super::text::{Break, Page, PageText};

/// Seconds without speech after which a paragraph begins.
const PAUSE: f64 = 3.0;

pub(super) fn page(file: &str) -> Page {
    let (mut source, mut page) = (Source::of(file), PageText::new());
    let (mut ended, mut last, mut speaker) = (0.0, String::new(), String::new());
    while let Some(line) = source.next() {
        // Other lines are numbers, notes, styles and headers.
        let Some((start, end)) = line.split_once("-->") else { continue };
        let (start, end) = (seconds(start), seconds(end.trim().split(' ').next().unwrap_or_default()));
        if start - ended > PAUSE || start < ended - 60.0 {
            page.stop(Break::Paragraph);
        }
        ended = end;
        while let Some(line) = source.peek(0).filter(|line| !line.is_empty() && !line.contains("-->")) {
            source.next();
            let (text, voice) = shown(line);
            // Rolling subtitles show each line twice.
            if text.trim().is_empty() || text == last {
                continue;
            }
            page.at_line(source.number);
            if voice.as_ref().is_some_and(|voice| *voice != speaker) {
                speaker = voice.unwrap_or_default();
                page.stop(Break::Paragraph);
                page.push(&format!("{speaker}: "));
            }
            page.push(&text);
            page.stop(Break::Space);
            last = text;
        }
    }
    page.finish(None)
}

/// A time (`01:02:03,456`) in seconds.
fn seconds(time: &str) -> f64 {
    let parts = time.trim().split(':').map(|part| part.replace(',', ".").parse().unwrap_or(0.0));
    parts.take(3).fold(0.0, |sum, part: f64| 60.0 * sum + part)
}

/// A line without its tags, and the name of who speaks.
fn shown(line: &str) -> (String, Option<String>) {
    let (mut text, mut voice, mut rest) = (String::new(), None, line);
    while let Some(start) = rest.find(['<', '{']) {
        let is_tag = match rest.as_bytes()[start] {
            b'<' => rest[start + 1..].starts_with(|c: char| c.is_ascii_alphanumeric() || c == '/'),
            _ => rest[start + 1..].starts_with('\\'),
        };
        let close = if rest[start..].starts_with('<') { '>' } else { '}' };
        let end = if is_tag { rest[start..].find(close) } else { None };
        let Some(end) = end.map(|end| start + end) else {
            text.push_str(&rest[..=start]);
            rest = &rest[start + 1..];
            // Without the end of a tag, the rest has none.
            if is_tag {
                break;
            }
            continue;
        };
        text.push_str(&rest[..start]);
        let tag = &rest[start + 1..end];
        let name = tag.strip_prefix('v').filter(|rest| rest.starts_with([' ', '.']));
        voice = name.and_then(|name| name.split_once(' ')).map(|(_, name)| name.trim().to_owned()).or(voice);
        rest = &rest[end + 1..];
    }
    text.push_str(rest);
    for (entity, character) in [("&nbsp;", " "), ("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")] {
        text = text.replace(entity, character);
    }
    (text, voice)
}
