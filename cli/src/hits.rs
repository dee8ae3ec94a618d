//! Search results as text.

use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use ehi::search::{QuestionWords, Signs};
use ehi::{
    Document, Hit, HitPassage, Index, QueryEncoder, RankedBy, RecalledJudgment, SearchResult, SearchStats,
};

use crate::text::{escaped, line_of, one_line};

/// Bytes shown of a hit's text.
const SHOWN: usize = 160;

/// Rank, score, id, leaf, title and a passage of the text of each hit, then the cost of the search. The
/// passage is the start or, if words rank, the part with the most words of the question.
pub fn write_hits(
    out: &mut dyn Write,
    index: &Index,
    question: &str,
    result: &SearchResult,
) -> io::Result<()> {
    let words = match result.ranked_by {
        RankedBy::Dense => QuestionWords::default(),
        _ => QuestionWords::of(question),
    };
    let has_tree = index.bundle().has_tree();
    if result.is_empty() {
        writeln!(out, "no hits")?;
    }
    write_signs(out, &result.signs)?;
    for (place, hit) in result.iter().enumerate() {
        let leaf = if has_tree { format!("  leaf {}", hit.leaf.0) } else { String::new() };
        let title = line_of(&hit.document.title);
        let score = match hit.rerank_score {
            Some(own) => format!("{own:.4} (first {:.4})", hit.score),
            None => format!("{:.4}", hit.score),
        };
        writeln!(out, "{:>3}  {score}  {}{leaf}  {title}", place + 1, escaped(&hit.id))?;
        if hit.judged.as_ref().is_some_and(RecalledJudgment::is_noticeable) {
            write_judgment(out, hit, "     ")?;
        }
        if hit.passages.is_empty() && !hit.document.text.is_empty() {
            writeln!(out, "     {}", passage(&hit.document.text, &words))?;
        }
        for own in &hit.passages {
            let text = hit.document.text.get(own.start..own.end).unwrap_or_default();
            writeln!(out, "     {}", where_in_file(hit, own, words.snippet(text, SHOWN).start))?;
            if !text.is_empty() {
                writeln!(out, "     {}", passage(text, &words))?;
            }
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
            writeln!(out, "ranked by embeddings ({alpha:.2}) and words ({:.2})", 1.0 - alpha)?;
        }
        RankedBy::Hybrid { .. } => writeln!(out, "ranked by the ranks by embeddings and by words")?,
        RankedBy::Lexical => writeln!(out, "ranked by words")?,
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
    format!(
        "{moved:+.4} of the range of scores, because it was judged for `{}` (similarity {similarity:.2}, grade \
         {grade}{stale})",
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

/// Where the shown part of a passage is: its file and line, or the bytes of the passage, and its headings.
fn where_in_file(hit: &Hit, passage: &HitPassage, shown: usize) -> String {
    let Document { text, outline, .. } = &hit.document;
    let at = passage.start + shown;
    let place = match outline.line(text, at) {
        Some(line) => format!("{}:{line}", escaped(&file(hit))),
        None => format!("bytes {} to {}", passage.start, passage.end),
    };
    let headings: Vec<_> = outline.headings(text, at).into_iter().map(line_of).collect();
    let between = if headings.is_empty() { "" } else { "  " };
    format!("{place}{between}{}", headings.join(" › "))
}

/// The file of a hit, from the working directory if it is below that; its id if no folder is known.
fn file(hit: &Hit) -> String {
    let field = |name: &str| hit.document.metadata.as_ref()?.get(name)?.as_str();
    let name = hit.id.strip_prefix(field("prefix").unwrap_or_default()).unwrap_or(&hit.id);
    let Some(folder) = field("source").filter(|source| source.starts_with('/')) else {
        return hit.id.clone();
    };
    let path = Path::new(folder).join(name);
    let here = std::env::current_dir().ok().and_then(|here| path.strip_prefix(here).ok());
    here.unwrap_or(&path).display().to_string()
}

/// The part of a text with the most of some words, on one line.
fn passage(text: &str, words: &QuestionWords) -> String {
    let part = words.snippet(text, SHOWN);
    let before = if part.start > 0 { "…" } else { "" };
    let behind = if part.end < text.len() { "…" } else { "" };
    format!("{before}{}{behind}", escaped(&one_line(&text[part.start..part.end])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_passage_is_where_the_words_of_the_question_are() {
        let words = QuestionWords::of("What does Zebra, eat?");
        assert_eq!(passage("A short text of a zebra.", &words), "A short text of a zebra.");
        let long = format!("{}The ZEBRA is there. {}", "nothing of it. ".repeat(20), "é ".repeat(200));
        let found = passage(&long, &words);
        assert!(found.starts_with('…') && found.contains("The ZEBRA is") && found.ends_with('…'), "{found}");
        assert!(found.chars().count() < 2 * SHOWN);
        assert!(passage(&long, &QuestionWords::default()).starts_with("nothing of it."));
        assert_eq!(passage("", &words), "");
    }
}
