//! Search results as text.

use std::io::{self, Write};
use std::ops::Range;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use ehi::search::{QuestionWords, Signs, Snippet};
use ehi::{
    GroupBy, Hit, HitPassage, Index, QueryEncoder, RankedBy, RecalledJudgment, SearchResult, SearchStats,
};

use crate::text::{MARK, UNMARK, escaped, flowing, line_of, one_line};

/// Bytes shown of a hit's text.
pub const SHOWN: usize = 320;

/// The score that `--threshold` is compared with: that of the reranker, else the similarity, else that by
/// words. Except with judgments, it does not depend on other hits.
pub fn compared(hit: &Hit) -> f32 {
    hit.rerank_score.or(hit.scores.dense).unwrap_or(hit.score)
}

/// A compared score, rounded down: given as `--threshold`, it lets its hit pass.
pub fn floored(score: f32, digits: usize) -> String {
    let scale = 10_f64.powi(digits as i32);
    format!("{:.digits$}", (f64::from(score) * scale).floor() / scale)
}

/// Rank, score (and the similarity where that is another), id, leaf, title and the parts of the text of each
/// hit that have the most words of the question, then the cost of the search. `offset` hits were left out
/// before the first.
pub fn write_hits(
    out: &mut dyn Write,
    index: &Index,
    question: &str,
    result: &SearchResult,
    offset: usize,
) -> io::Result<()> {
    let words = QuestionWords::of(question);
    let has_tree = index.bundle().has_tree();
    let is_hybrid = matches!(result.ranked_by, RankedBy::Hybrid { .. });
    let similarity = |hit: &Hit| hit.scores.dense.filter(|dense| is_hybrid || *dense != hit.score);
    if result.is_empty() {
        writeln!(out, "no hits")?;
    }
    write_signs(out, &result.signs)?;
    let mut group = None;
    for (place, hit) in result.iter().enumerate() {
        if let Some(GroupBy { field, .. }) = &result.request.group_by {
            let field = escaped(field);
            match &hit.group {
                None => writeln!(out, "without {field}")?,
                Some(value) if group == Some(value) => {}
                Some(value) => {
                    writeln!(out, "{field}: {}", line_of(&value.to_string()))?;
                }
            }
            group = hit.group.as_ref();
        }
        let leaf = if has_tree { format!("  leaf {}", hit.leaf.0) } else { String::new() };
        let title = line_of(&hit.document.title);
        let score = match (hit.rerank_score, similarity(hit)) {
            (Some(own), _) => format!("{} (first {:.4})", floored(own, 4), hit.score),
            (None, Some(dense)) => format!("{:.4} ({})", hit.score, floored(dense, 2)),
            (None, None) => floored(hit.score, 4),
        };
        let line = format!("{:>3}  {score}  {}{leaf}  {title}", offset + place + 1, escaped(&hit.id));
        writeln!(out, "{}", line.trim_end())?;
        if hit.judged.as_ref().is_some_and(RecalledJudgment::is_noticeable) {
            write_judgment(out, hit, "     ")?;
        }
        let mut has_place = false;
        let whole = Some(0..hit.document.text.len()).filter(|_| hit.passages.is_empty());
        for part in hit.passages.iter().map(HitPassage::range).chain(whole) {
            let snippet = hit.document.snippet(part.clone(), &words, SHOWN);
            if snippet.end > 0 {
                let is_part = part != (0..hit.document.text.len());
                if let Some(place) = whereabouts(hit, &snippet, is_part) {
                    writeln!(out, "     {place}")?;
                    has_place = true;
                }
                writeln!(out, "     {}", marked(&hit.document.text, &part, &snippet))?;
            }
        }
        // A file that is only a title.
        if let Some(file) = file(hit).filter(|_| !has_place) {
            writeln!(out, "     {}", from_here(&file))?;
        }
    }
    if result.stats.reranked > 0 {
        writeln!(
            out,
            "the best {} read again by the reranker in {:.2} ms; before that:",
            result.stats.reranked,
            ms(result.stats.rerank)
        )?;
    }
    match result.ranked_by {
        RankedBy::Hybrid { alpha: Some(alpha) } => {
            let words = 1.0 - alpha;
            writeln!(
                out,
                "ranked by embeddings ({alpha:.2}) and words ({words:.2}); in brackets the similarity"
            )?;
        }
        RankedBy::Hybrid { .. } => {
            writeln!(out, "ranked by the ranks by embeddings and by words; in brackets the similarity")?;
        }
        RankedBy::Lexical => writeln!(out, "ranked by words")?,
        _ if result.iter().any(|hit| hit.rerank_score.is_none() && similarity(hit).is_some()) => {
            writeln!(out, "ranked by embeddings and judgments; in brackets the similarity")?;
        }
        _ => {}
    }
    write_cost(out, index, result.ranked_by, &result.stats)
}

/// Prints the judgment that moved a hit, if one did.
pub fn write_judgment(out: &mut dyn Write, hit: &Hit, indent: &str) -> io::Result<()> {
    hit.judged.as_ref().map_or(Ok(()), |judged| writeln!(out, "{indent}{}", judgment_line(judged)))
}

/// How far a judgment moved its document, and what was judged.
pub fn judgment_line(judged: &RecalledJudgment) -> String {
    let RecalledJudgment { question, similarity, grade, stale, moved, .. } = judged;
    let stale = if *stale { "; the document was replaced since" } else { "" };
    let way = if *moved < 0.0 { "lowered" } else { "raised" };
    format!(
        "{way} by {:.2} of the range of scores: judged {grade} for `{}` (similarity {similarity:.2}{stale})",
        moved.abs(),
        line_of(question)
    )
}

/// Prints required and excluded terms on one line, if the question has operators.
pub fn write_signs(out: &mut dyn Write, signs: &Signs) -> io::Result<()> {
    match signs.to_string() {
        meant if meant.is_empty() || signs.ignored => Ok(()),
        meant => writeln!(out, "{}", escaped(&meant)),
    }
}

/// Prints notes on a result to standard error.
pub fn say_notes(notes: &[String]) {
    notes.iter().for_each(|note| eprintln!("note: {}", escaped(note)));
}

/// The embedded units.
pub fn unit(index: &Index) -> &'static str {
    if index.passages().is_some() { "passages" } else { "documents" }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// The cost of a search, on one line.
pub fn write_cost(
    out: &mut dyn Write,
    index: &Index,
    ranked_by: RankedBy,
    stats: &SearchStats,
) -> io::Result<()> {
    let (all, unit) = match ranked_by {
        RankedBy::Lexical => (index.len(), "documents"),
        _ => (index.embeddings(), unit(index)),
    };
    let (leaves, routing) = match stats.leaves_visited {
        0 => ("without the tree".to_owned(), String::new()),
        visited => (
            format!("{visited} of {} leaves", index.bundle().model().indexer().shape().leaves()),
            format!(", {:.1}% with routing", stats.work_fraction * 100.0),
        ),
    };
    let (encode, encoding) = match stats.encoder {
        Some(QueryEncoder::Fast) => ("encode (fast)", stats.encode),
        // Also used if the fast one is unsure.
        Some(QueryEncoder::Full) => ("encode (full)", stats.encode),
        None => ("encode", Duration::ZERO),
    };
    let times = [
        (encode, encoding),
        ("beam", stats.beam),
        ("scan", stats.scan),
        ("words", stats.lexical),
        ("fetch", stats.fetch),
    ];
    let times = times.iter().filter(|(_, time)| !time.is_zero());
    let times: Vec<String> = times.map(|(name, time)| format!("{name} {:.2} ms", ms(*time))).collect();
    let (visited, share) = (stats.documents_visited, stats.visited_fraction * 100.0);
    writeln!(out, "{leaves}, {visited} of {all} {unit} ({share:.1}%){routing}; {}", times.join(", "))
}

/// Where a snippet is: its file and line, and its headings; for a part of a text that is not from a file, its
/// bytes.
fn whereabouts(hit: &Hit, snippet: &Snippet, is_part: bool) -> Option<String> {
    let place = match (file(hit), snippet.line) {
        (Some(file), Some(line)) => format!("{}:{line}", from_here(&file)),
        (Some(file), None) => from_here(&file),
        (None, Some(line)) => format!("{}:{line}", escaped(&hit.id)),
        (None, None) if is_part => format!("bytes {} to {}", snippet.start, snippet.end),
        (None, None) => return None,
    };
    let headings: Vec<_> = snippet.headings.iter().map(|heading| line_of(heading)).collect();
    let between = if headings.is_empty() { "" } else { "  " };
    Some(format!("{place}{between}{}", headings.join(" › ")))
}

/// The file of a hit; `None` if no folder is known.
pub fn file(hit: &Hit) -> Option<PathBuf> {
    let field = |name: &str| hit.document.metadata.as_ref()?.get(name)?.as_str();
    let name = hit.id.strip_prefix(field("prefix").unwrap_or_default()).unwrap_or(&hit.id);
    let folder = field("source").filter(|source| source.starts_with('/'))?;
    // Anybody can give a document such an id.
    let is_below = Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
    is_below.then(|| Path::new(folder).join(name))
}

/// A path from the working directory, if it is below that.
fn from_here(path: &Path) -> String {
    let here = std::env::current_dir().ok().and_then(|here| path.strip_prefix(here).ok());
    escaped(&here.unwrap_or(path).display().to_string())
}

/// A snippet of a part of a text on one line, with the words of the question marked.
fn marked(text: &str, part: &Range<usize>, snippet: &Snippet) -> String {
    let (mut shown, mut at) = (String::new(), snippet.start);
    let plain = |part: Range<usize>| flowing(text, part).replace([MARK, UNMARK], "\u{fffd}");
    for mark in &snippet.marks {
        shown += &plain(at..mark.start);
        shown.push(MARK);
        shown += &plain(mark.clone());
        shown.push(UNMARK);
        at = mark.end;
    }
    shown += &plain(at..snippet.end);
    let before = if begins_within(text, part, snippet) { "…" } else { "" };
    let behind = if snippet.end < part.end { "…" } else { "" };
    let line = one_line(&shown);
    let pieces = line.split_inclusive([MARK, UNMARK]).map(|piece| {
        let own = piece.trim_end_matches([MARK, UNMARK]);
        escaped(own) + &piece[own.len()..]
    });
    format!("{before}{}{behind}", pieces.collect::<String>())
}

/// Whether a snippet leaves out text before it, besides its headings.
pub fn begins_within(text: &str, part: &Range<usize>, snippet: &Snippet) -> bool {
    let is_heading = |line: &str| snippet.headings.iter().any(|heading| line.starts_with(heading));
    let left = text.get(part.start..snippet.start).unwrap_or_default();
    left.lines().any(|line| !line.trim().is_empty() && !is_heading(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snippet_is_where_the_words_of_the_question_are() {
        let words = QuestionWords::of("What does Zebra, eat?");
        let shown = |text: &str, words: &QuestionWords| {
            let whole = 0..text.len();
            marked(text, &whole, &words.snippet(text, SHOWN)).replace(MARK, "[").replace(UNMARK, "]")
        };
        assert_eq!(shown("A short text\nof a zebra.", &words), "A short text · of a [zebra].");
        assert_eq!(shown("\u{1b}[1m \u{fdd0}zebra", &words), "\\u{1b}[1m \u{fffd}[zebra]");
        let long = format!("{}The ZEBRA is there. {}", "nothing of it. ".repeat(20), "é ".repeat(200));
        let found = shown(&long, &words);
        assert!(found.starts_with("…The [ZEBRA] is") && found.ends_with('…'), "{found}");
        assert!(found.chars().count() < 2 * SHOWN);
        assert!(shown(&long, &QuestionWords::default()).starts_with("nothing of it."));
        assert_eq!(shown("", &words), "");
    }

    #[test]
    fn a_score_that_is_shown_is_not_above_the_own() {
        for (score, digits, expected) in
            [(0.999_96, 4, "0.9999"), (0.5, 2, "0.50"), (-0.121, 2, "-0.13"), (6.987_66, 4, "6.9876")]
        {
            assert_eq!(floored(score, digits), expected);
            assert!(expected.parse::<f64>().unwrap() as f32 <= score);
        }
    }
}
