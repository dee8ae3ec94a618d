//! Search results as text.

use std::io::{self, Write};

use ehi::{Index, RankedBy, SearchResult, SearchStats};

use crate::escape::escaped;

/// Characters of a hit's text that are shown.
const SHOWN_CHARACTERS: usize = 160;

/// Rank, score, id, leaf, title and start of the text of each hit, then what the search cost.
pub fn write_hits(out: &mut dyn Write, index: &Index, result: &SearchResult) -> io::Result<()> {
    let has_tree = index.bundle().has_tree();
    if result.is_empty() {
        writeln!(out, "no hits")?;
    }
    for (place, hit) in result.iter().enumerate() {
        let leaf = if has_tree { format!("  leaf {}", hit.leaf.0) } else { String::new() };
        let title = start_of(&hit.document.title);
        writeln!(out, "{:>3}  {:.4}  {}{leaf}  {title}", place + 1, hit.score, escaped(&hit.id),)?;
        if !hit.document.text.is_empty() {
            writeln!(out, "     {}", start_of(&hit.document.text))?;
        }
    }
    match result.ranked_by {
        RankedBy::Hybrid { alpha: Some(alpha) } => {
            writeln!(out, "ranked by embeddings ({alpha:.2}) and words ({:.2})", 1.0 - alpha)?;
        }
        RankedBy::Hybrid { .. } => writeln!(out, "ranked by the ranks by embeddings and by words")?,
        RankedBy::Lexical => return write_cost_of_words(out, index, &result.stats),
        _ => {}
    }
    write_cost(out, index, &result.stats)
}

/// Where words alone rank, nothing is encoded and the tree is of no account.
fn write_cost_of_words(out: &mut dyn Write, index: &Index, stats: &SearchStats) -> io::Result<()> {
    writeln!(
        out,
        "ranked by words: {} of {} documents scored; words {:.2} ms, fetch {:.2} ms",
        stats.documents_visited,
        index.len(),
        ms(stats.lexical),
        ms(stats.fetch),
    )
}

fn ms(time: std::time::Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn write_cost(out: &mut dyn Write, index: &Index, stats: &SearchStats) -> io::Result<()> {
    let leaves = match stats.leaves_visited {
        0 => "without the tree".to_owned(),
        visited => format!("{visited} of {} leaves", index.bundle().model().indexer().shape().leaves()),
    };
    let beam = match stats.leaves_visited {
        0 => String::new(),
        _ => format!("beam {:.2} ms, ", ms(stats.beam)),
    };
    let words = match stats.postings_scored {
        0 => String::new(),
        _ => format!("words {:.2} ms, ", ms(stats.lexical)),
    };
    writeln!(
        out,
        "{leaves}, {} of {} documents ({:.1}%); encode {:.2} ms, {beam}scan {:.2} ms, {words}fetch {:.2} ms",
        stats.documents_visited,
        index.len(),
        stats.visited_fraction * 100.0,
        ms(stats.encode),
        ms(stats.scan),
        ms(stats.fetch),
    )
}

/// The first characters on one line: line ends and tabs of a text as spaces, what else acts on a terminal
/// escaped.
pub fn start_of(text: &str) -> String {
    let mut characters = text.chars().map(|c| if matches!(c, '\t' | '\n' | '\r') { ' ' } else { c });
    let mut start = escaped(&characters.by_ref().take(SHOWN_CHARACTERS).collect::<String>());
    if characters.next().is_some() {
        start.push('…');
    }
    start
}
