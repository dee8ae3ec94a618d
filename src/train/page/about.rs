//! What each leaf is about: its size, its words, and what is most typical of it.

use crate::ids::LeafId;
use crate::terms::{Term, TermCounts};
use crate::train::dataset::{TrainingQuery, TrainingSet};

/// Terms, documents and queries named per leaf.
const TERMS: usize = 10;
const SAMPLES: usize = 3;
/// Characters after which a text is cut.
const LONGEST: usize = 140;

/// A leaf in words.
pub(crate) struct LeafAbout {
    pub leaf: usize,
    pub documents: usize,
    pub queries: usize,
    pub terms: Vec<Term>,
    /// Titles of the documents closest to the leaf's mean; the text where there is no title.
    pub titles: Vec<String>,
    /// The queries closest to it, of those whose most probable leaf it is.
    pub asked: Vec<String>,
}

/// The trained embeddings and where they are routed.
pub(crate) struct Routed<'a> {
    pub dim: usize,
    /// `[documents, dim]` unit rows.
    pub documents: &'a [f32],
    /// `[training and dev queries, dim]` unit rows.
    pub queries: &'a [f32],
    pub document_leaves: &'a [Vec<LeafId>],
    /// The most probable leaf of each query.
    pub query_leaves: &'a [Vec<LeafId>],
    pub leaves: usize,
}

/// Every leaf in words, by its number.
///
/// Cost: one pass over the texts. Memory: that of [`TermCounts`], and `[leaves, dim]` f32.
pub(crate) fn about(set: &TrainingSet, routed: &Routed<'_>) -> Vec<LeafAbout> {
    let mut counts = TermCounts::new(routed.leaves);
    let mut sums = vec![0f32; routed.leaves * routed.dim];
    let rows = routed.documents.chunks_exact(routed.dim);
    for ((document, leaves), row) in set.documents.iter().zip(routed.document_leaves).zip(rows) {
        let text = document.embedding_text();
        for leaf in leaves {
            counts.add(leaf.index(), &text);
            let sum = &mut sums[leaf.index() * routed.dim..][..routed.dim];
            sum.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
        }
    }
    let typical = |rows: &[f32], leaves: &[Vec<LeafId>]| {
        let mut best: Vec<Vec<(f32, usize)>> = vec![Vec::new(); routed.leaves];
        let mut sizes = vec![0usize; routed.leaves];
        for (place, (row, leaves)) in rows.chunks_exact(routed.dim).zip(leaves).enumerate() {
            for leaf in leaves {
                let mean = &sums[leaf.index() * routed.dim..][..routed.dim];
                let similarity: f32 = row.iter().zip(mean).map(|(x, y)| x * y).sum();
                let best = &mut best[leaf.index()];
                let at = best.partition_point(|entry| entry.0.total_cmp(&similarity).is_ge());
                best.insert(at, (similarity, place));
                best.truncate(SAMPLES);
                sizes[leaf.index()] += 1;
            }
        }
        best.into_iter().zip(sizes)
    };
    let documents = typical(routed.documents, routed.document_leaves);
    let queries = typical(routed.queries, routed.query_leaves);
    let asked: Vec<&TrainingQuery> = set.train.iter().chain(&set.dev).collect();
    let title = |place: usize| {
        let document = &set.documents[place];
        shortened(if document.title.trim().is_empty() { &document.text } else { &document.title })
    };
    let parts = documents.zip(queries).zip(counts.distinctive(TERMS)).enumerate();
    let leaf =
        |(leaf, (((titles, documents), (texts, queries)), terms)): (usize, ((Typical, Typical), _))| {
            LeafAbout {
                leaf,
                documents,
                queries,
                terms,
                titles: titles.into_iter().map(|(_, place)| title(place)).collect(),
                asked: texts.into_iter().map(|(_, place)| shortened(&asked[place].text)).collect(),
            }
        };
    parts.map(leaf).collect()
}

/// Similarity and place of the closest, and how many there are in all.
type Typical = (Vec<(f32, usize)>, usize);

fn shortened(text: &str) -> String {
    let text = text.trim();
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", text[..end].trim_end()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Document;

    #[test]
    fn leaves_are_named_by_their_words_and_most_typical_texts() {
        let texts = ["virus cell", "virus gene", "virus host", "star gas", "star orbit"];
        let query = |text: &str| TrainingQuery {
            id: String::new(),
            text: text.to_owned(),
            positives: vec![0],
            weights: Vec::new(),
        };
        let set = TrainingSet {
            documents: texts.iter().map(|text| Document::new(*text, "", *text)).collect(),
            train: vec![query("which virus?")],
            dev: vec![query("which star?")],
            of_passages: false,
        };
        let side = |leaf: u32| vec![LeafId(leaf)];
        let about = about(
            &set,
            &Routed {
                dim: 2,
                documents: &[0.8, 0.6, 1.0, 0.0, 0.8, -0.6, 0.0, 1.0, 0.6, 0.8],
                queries: &[1.0, 0.0, 0.0, 1.0],
                document_leaves: &[side(0), side(0), side(0), side(2), side(2)],
                query_leaves: &[side(0), side(2)],
                leaves: 3,
            },
        );
        assert_eq!(about.len(), 3);
        assert_eq!((about[0].documents, about[0].queries), (3, 1));
        assert_eq!(about[0].terms[0].term, "virus");
        // The mean of the three points along the first axis.
        assert_eq!(about[0].titles[0], "virus gene");
        assert_eq!(about[2].asked, ["which star?"]);
        assert_eq!((about[1].documents, about[1].titles.len(), about[1].terms.len()), (0, 0, 0));
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let long = "é".repeat(LONGEST + 1);
        assert_eq!(shortened(&long), format!("{}…", "é".repeat(LONGEST)));
        assert_eq!(shortened(" short "), "short");
    }
}
