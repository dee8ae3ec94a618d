//! Compares an index with the model.

use ehi::model::Role;
use ehi::store::Notice;
use ehi::{Document, Fusion, Hit, Index, LearnedFusion, QueryEncoder, RankBy, SearchRequest};

use super::model::{Model, Slot};
use super::names;
use super::operations::{Origin, QUESTIONS};
use super::world::question;

/// The effect of rounding to f16 on a cosine.
const ROUNDING: f64 = 2e-3;
/// More passages than a document has.
const PASSAGES: usize = 9;
/// Hits of a search whose order is compared.
const K: usize = 10;

pub type Checked = Result<(), String>;

macro_rules! ensure {
    ($holds:expr, $($said:tt)*) => {
        match $holds {
            true => {}
            false => return Err(format!($($said)*)),
        }
    };
}
pub(super) use ensure;

/// Compares all answers of an index. `number` selects the questions.
pub fn compare(index: &Index, model: &Model, number: u16) -> Checked {
    let serving = &model.serving;
    let (found, expected) = (index.bundle().hash(), serving.bundle.hash());
    ensure!(found == expected, "{found} serves, not {expected}");
    let (found, expected) =
        (said(index.previous_model())?, model.kept.as_ref().map(|kept| kept.bundle.hash()));
    ensure!(found == expected, "{found:?} is kept, not {expected:?}");
    let found: Vec<Document> = said(index.iter().collect())?;
    let expected: Vec<&Document> = serving.rows.values().map(|row| &row.document).collect();
    ensure!(found.iter().eq(expected.iter().copied()), "documents are {}", differing(&found, &expected));
    let (found, expected) = (index.fusion(), serving.fusion());
    ensure!(found == expected, "words weigh {}, not {}", weights(&found), weights(&expected));
    let found = index.recall_curve();
    let expected = serving.curve_in_use();
    ensure!(found == expected, "the recall curve is {found:?}, not {expected:?}");
    let found = index.query_encoder();
    ensure!(found == serving.fast, "the query encoder is {found:?}, not {:?}", serving.fast);
    let judged = said(index.judgments())?;
    ensure!(
        judged.iter().eq(model.judgments.values()),
        "{} judgments, not {}",
        judged.len(),
        model.judgments.len()
    );
    let (found, expected) = (said(index.half_life())?, model.half_life);
    ensure!(found == expected, "the half-life is {found:?}, not {expected:?}");
    for more in 0..2 {
        let asked = question((number * 7 + more * 31) % QUESTIONS);
        dense(index, model, &asked).map_err(|error| format!("{asked:?}: {error}"))?;
        lexical(index, model, &asked).map_err(|error| format!("{asked:?} by words: {error}"))?;
        joined(index, model, &asked).map_err(|error| format!("{asked:?} by both: {error}"))?;
    }
    whole(index)
}

/// In short.
fn weights(fusion: &Option<LearnedFusion>) -> String {
    let of = |fusion: &LearnedFusion| format!("{} of {} questions", fusion.alpha, fusion.questions);
    let fast = fusion.as_ref().and_then(|fusion| fusion.fast.as_deref());
    format!("{:?}, fast {:?}", fusion.as_ref().map(of), fast.map(of))
}

pub fn said<T>(answer: ehi::Result<T>) -> Result<T, String> {
    answer.map_err(|error| error.to_string())
}

fn differing(found: &[Document], expected: &[&Document]) -> String {
    let ids = |documents: &mut dyn Iterator<Item = &Document>| -> Vec<String> {
        documents.map(|document| document.id.clone()).collect()
    };
    let more = ids(&mut found.iter().filter(|document| !expected.contains(document)));
    let fewer = ids(&mut expected.iter().copied().filter(|document| !found.contains(document)));
    format!("{} and not {}: {more:?} are not expected, {fewer:?} are missing", found.len(), expected.len())
}

/// Every document is found, by the cosine of its embedding, or that of its best passage.
fn dense(index: &Index, model: &Model, asked: &str) -> Checked {
    let serving = &model.serving;
    let all = serving.rows.len();
    let text = asked;
    let request = SearchRequest::dense().encoder(QueryEncoder::Full).k(all + 3).no_memory();
    let passages = (model.origin == Origin::Passages).then_some(PASSAGES);
    let exact = SearchRequest { passages, ..request.clone() }.exact();
    let exact = said(index.search_with(asked, &exact))?;
    ensure!(exact.len() == all, "{} hits of {all} documents", exact.len());
    let asked = serving.coder.embed(asked, Role::Query);
    let cosine = |stored: &[f32]| -> f64 {
        asked.iter().zip(stored).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()
    };
    for hit in &exact {
        let row = serving.rows.get(&hit.id).ok_or_else(|| format!("{} is found", hit.id))?;
        if row.unsure {
            continue;
        }
        let expected = match model.origin {
            Origin::Passages if row.given.is_none() => of_passages(serving, hit, &cosine)?,
            _ => cosine(&serving.embedding(row)),
        };
        let difference = (expected - f64::from(hit.score)).abs();
        ensure!(difference < ROUNDING, "{} scores {}, not {expected} ({row:?})", hit.id, hit.score);
    }
    let reached = |request: SearchRequest| hits(index, text, &request);
    let (all_leaves, exact) = (reached(request.clone().beam(usize::MAX))?, reached(request.exact())?);
    ensure!(all_leaves == exact, "a full beam is not exact search");
    Ok(())
}

/// The best of a hit's passages, which cover its whole text.
fn of_passages(serving: &Slot, hit: &Hit, cosine: &dyn Fn(&[f32]) -> f64) -> Result<f64, String> {
    let Document { title, text, .. } = &hit.document;
    let (mut best, mut covered) = (f64::NEG_INFINITY, vec![false; text.len()]);
    for passage in &hit.passages {
        let part = format!("{title} {}", &text[passage.start..passage.end]);
        let expected = cosine(&serving.coder.embed(&part, Role::Document));
        let difference = (expected - f64::from(passage.score)).abs();
        ensure!(difference < ROUNDING, "{part:?} of {} scores {}, not {expected}", hit.id, passage.score);
        best = best.max(expected);
        covered[passage.start..passage.end].fill(true);
    }
    let left = covered.iter().zip(text.chars()).any(|(covered, own)| !covered && own.is_alphanumeric());
    ensure!(!left, "{:?} are not all of {text:?}", hit.passages);
    Ok(best)
}

/// Exactly the documents that share a term with the question are found.
fn lexical(index: &Index, model: &Model, asked: &str) -> Checked {
    let serving = &model.serving;
    ensure!(index.is_lexical() == model.lexical, "it has words: {}", index.is_lexical());
    if !model.lexical {
        ensure!(
            index.search_with(asked, &SearchRequest::lexical()).is_err(),
            "words are found in an index without"
        );
        return Ok(());
    }
    let terms = |text: &str| terms(model, text);
    let asked_for = terms(asked);
    let matches = |document: &Document| {
        let own = [&document.title, &document.text].map(|text| terms(text)).concat();
        own.iter().any(|term| asked_for.contains(term))
    };
    let rows = serving.rows.values().filter(|row| matches(&row.document));
    let expected: Vec<&str> = rows.map(|row| row.document.id.as_str()).collect();
    let request = SearchRequest::lexical().k(serving.rows.len() + 3).no_memory();
    let found = said(index.search_with(asked, &request))?;
    let mut found: Vec<&str> = found.iter().map(|hit| hit.id.as_str()).collect();
    found.sort_unstable();
    ensure!(found == expected, "{found:?}, not {expected:?}");
    Ok(())
}

/// The words of a text: no two words of the vocabulary share a stem.
fn terms(model: &Model, text: &str) -> Vec<String> {
    if model.origin == Origin::Stems {
        let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
        return words.map(str::to_lowercase).collect();
    }
    let encoder = model.serving.coder.bundle.model().encoder().unwrap();
    let tokens = |text: &str| encoder.tokenize(text, Role::Document).unwrap();
    if text.is_empty() {
        return Vec::new();
    }
    // Those around a word of the vocabulary.
    let around = tokens("tree").len() / 2;
    let all = tokens(text);
    all[around..all.len() - around].iter().map(u32::to_string).collect()
}

/// Both scores are combined with the weight that belongs to the model, for either encoder.
fn joined(index: &Index, model: &Model, asked: &str) -> Checked {
    let serving = &model.serving;
    for encoder in [QueryEncoder::Full, QueryEncoder::Fast] {
        let by = |mode| SearchRequest::of(mode).encoder(encoder).k(K);
        let found = index.search_with(asked, &by(RankBy::Dense));
        if encoder == QueryEncoder::Fast && serving.fast.is_none() {
            ensure!(found.is_err(), "there is a fast encoder");
            continue;
        }
        // The fast encoder passes questions that it is unsure of to the full one.
        let read_by = said(found)?.stats.encoder;
        let (alpha, words_help) = serving.weight(read_by.unwrap_or(encoder));
        let mut best = hits(index, asked, &by(RankBy::Dense))?;
        if model.lexical {
            let expected = hits(index, asked, &by(RankBy::Hybrid(Fusion::Convex(alpha))))?;
            let found = hits(index, asked, &by(RankBy::Hybrid(Fusion::Learned)))?;
            ensure!(found == expected, "{encoder:?}: {found:?}, not {expected:?} with the weight {alpha}");
            best = if words_help { expected } else { best };
        }
        let found = hits(index, asked, &by(RankBy::Best))?;
        ensure!(alike(&found, &best, 1e-5), "{encoder:?}: at best {found:?}, not {best:?}");
    }
    Ok(())
}

/// Ids and scores.
pub fn hits(index: &Index, asked: &str, request: &SearchRequest) -> Result<Vec<(String, f32)>, String> {
    let request = request.clone().ids_only();
    Ok(said(index.search_with(asked, &request))?.into_iter().map(|hit| (hit.id, hit.score)).collect())
}

/// Whether scores are the same apart from rounding, which may change the order of documents.
fn alike(found: &[(String, f32)], expected: &[(String, f32)], rounding: f32) -> bool {
    let near = |(found, expected): (&(String, f32), &(String, f32))| (found.1 - expected.1).abs() < rounding;
    found.len() == expected.len() && found.iter().zip(expected).all(near)
}

/// Checks that it is sound, and contains no unknown files.
fn whole(index: &Index) -> Checked {
    let report = said(index.verify())?;
    ensure!(report.is_sound(), "{:?}", report.problems);
    let mut named = Vec::new();
    for warning in &report.warnings {
        match warning {
            Notice::Unused { file } | Notice::Begun { file } => named.push(file.clone()),
            Notice::Unfinished { .. }
            | Notice::TakenOver { .. }
            | Notice::Waiting { .. }
            | Notice::TornLog { .. } => {}
            other => return Err(format!("{other}")),
        }
    }
    let mut strange = names::strange(index.path()).map_err(|error| error.to_string())?;
    if index.is_read_only() {
        // The next writer must remove it.
        strange.retain(|path| !named.iter().any(|named| path.starts_with(named)));
    }
    ensure!(strange.is_empty(), "{strange:?} is nobody's; `verify` names {named:?}");
    let current = names::Current::read(index.path()).map_err(|error| error.to_string())?;
    let others = said(index.stats())?.bytes.other_models;
    let has_others = current.kept != 0 || current.unfinished != 0;
    ensure!((others > 0) == has_others, "{others} bytes of other models with {current:?}");
    Ok(())
}
