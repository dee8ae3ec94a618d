//! Small worlds in which the right verdict is known.

use std::ops::ControlFlow;

use super::*;
use crate::error::Error;
use crate::model::{LevelWeights, TreeWeights};
use crate::progress::no_progress;
use crate::train::SMALLEST_GAIN;
use crate::tree::TreeShape;

const TOPICS: usize = 10;
const NUISANCES: usize = 10;
const DIM: usize = TOPICS + NUISANCES;
/// Documents of each topic with each nuisance.
const COPIES: usize = 12;
const DOCUMENTS: usize = TOPICS * NUISANCES * COPIES;

/// What an encoder sees.
#[derive(Clone, Copy)]
enum Sees {
    /// The topic of documents and queries, and a strong nuisance.
    TopicAndNuisance,
    /// The topic and a faint nuisance.
    Topic,
    /// The nuisance alone.
    Nuisance,
}

fn unit(parts: &[(usize, f32)]) -> Vec<f32> {
    let mut row = [0f32; DIM];
    for &(at, value) in parts {
        row[at] += value;
    }
    let norm = row.iter().map(|x| x * x).sum::<f32>().sqrt();
    row.iter().map(|x| x / norm).collect()
}

fn documents(sees: Sees) -> Vec<f32> {
    (0..DOCUMENTS)
        .flat_map(|document| {
            let (topic, nuisance) = (document % TOPICS, TOPICS + document / TOPICS % NUISANCES);
            match sees {
                Sees::TopicAndNuisance => unit(&[(topic, 0.5), (nuisance, 1.0)]),
                Sees::Topic => unit(&[(topic, 1.0), (nuisance, 0.2)]),
                Sees::Nuisance => unit(&[(nuisance, 1.0)]),
            }
        })
        .collect()
}

/// Query q asks for topic q % TOPICS.
fn queries(count: usize, sees: Sees) -> Vec<f32> {
    (0..count)
        .flat_map(|query| match sees {
            Sees::TopicAndNuisance | Sees::Topic => unit(&[(query % TOPICS, 1.0)]),
            Sees::Nuisance => unit(&[(TOPICS + query % NUISANCES, 1.0)]),
        })
        .collect()
}

/// One answer of its topic for each query.
fn positives(count: usize) -> Vec<Vec<u32>> {
    (0..count)
        .map(|query| vec![(query % TOPICS + TOPICS * (7 * query % (DOCUMENTS / TOPICS))) as u32])
        .collect()
}

/// A tree of one level that sends dimension d to the leaf `leaf_of(d)`.
fn tree(leaves: usize, leaf_of: impl Fn(usize) -> Option<usize>) -> Indexer {
    let mut classifier = vec![0f32; DIM * leaves];
    for dimension in 0..DIM {
        if let Some(leaf) = leaf_of(dimension) {
            classifier[dimension * leaves + leaf] = 1.0;
        }
    }
    let level = LevelWeights { transform: None, classifier };
    Indexer::new(
        TreeShape::new(leaves as u32, 1).unwrap(),
        DIM,
        20.0,
        TreeWeights { projection: None, levels: vec![level] },
    )
    .unwrap()
}

fn by_topic() -> Indexer {
    tree(TOPICS, |dimension| (dimension < TOPICS).then_some(dimension))
}

fn by_nuisance() -> Indexer {
    tree(NUISANCES, |dimension| dimension.checked_sub(TOPICS))
}

struct World {
    base: Sees,
    trained: Sees,
    indexer: Indexer,
    queries: usize,
    positives: Vec<Vec<u32>>,
}

impl World {
    fn new(base: Sees, trained: Sees, indexer: Indexer, queries: usize) -> Self {
        Self { base, trained, indexer, queries, positives: positives(queries) }
    }

    fn verdict(&self) -> Verdict {
        let [base, trained] =
            [self.base, self.trained].map(|sees| (documents(sees), queries(self.queries, sees)));
        let leaves = self.indexer.route_rows(&trained.0);
        let held_out = HeldOut {
            positives: &self.positives,
            base: TextRows { dim: DIM, documents: &base.0, queries: &base.1 },
            trained: TextRows { dim: DIM, documents: &trained.0, queries: &trained.1 },
            leaves: &leaves,
            indexer: &self.indexer,
            seed: 0,
        };
        compute(&held_out, &mut no_progress).unwrap()
    }

    fn recommendation(&self) -> Recommendation {
        let verdict = self.verdict();
        println!("{}", verdict.sentence);
        verdict.recommendation
    }
}

/// k-means divides by the nuisance, the tree by topic.
fn method(verdict: &Verdict, method: Method) -> &MethodFigures {
    verdict.methods.iter().find(|own| own.method == method).unwrap()
}

#[test]
fn a_tree_that_finds_what_lists_miss_is_deployed() {
    let verdict = World::new(Sees::TopicAndNuisance, Sees::TopicAndNuisance, by_topic(), 60).verdict();
    assert_eq!(verdict.recommendation, Recommendation::Deploy, "{}", verdict.sentence);
    assert!(verdict.sentence.starts_with("Deploy: at 10% of the documents visited"), "{}", verdict.sentence);
    assert_eq!(verdict.decided_at, Some(0.1));
    let tree = method(&verdict, Method::TrainedTree);
    // 120 documents of the topic in a leaf, equally similar; the first 100 by number are ranked.
    let first = tree.measured[0];
    assert_eq!((first.setting, first.visited_fraction), (1, 0.1));
    // 1 leaf of 120 documents; 20 * 10 multiply-adds are 10 dot products.
    assert!((first.figures.work_fraction - 130.0 / 1200.0).abs() < 1e-12);
    let exact = method(&verdict, Method::TrainedExact);
    assert_eq!(exact.at.last().unwrap().figures.unwrap().recall_at_100, first.figures.recall_at_100);
    assert!(exact.at[..6].iter().all(|point| point.figures.is_none()));
}

#[test]
fn the_same_gain_on_few_of_the_queries_may_be_chance() {
    let mut world = World::new(Sees::TopicAndNuisance, Sees::TopicAndNuisance, by_topic(), 20);
    // All but three queries have an answer that nothing finds: another topic's, last of its list.
    for query in 3..20 {
        world.positives[query] = vec![(DOCUMENTS - TOPICS + (query + 1) % TOPICS) as u32];
    }
    let verdict = world.verdict();
    assert_eq!(verdict.recommendation, Recommendation::NoGainShown, "{}", verdict.sentence);
    let difference =
        verdict.difference(Method::TrainedTree, Method::BaseIvf, 0.1, Metric::RECALL_AT_100).unwrap();
    assert!(difference.difference > SMALLEST_GAIN);
    let needed = difference.queries_needed().unwrap();
    assert!(needed > 20, "{needed}");
    let advice = format!("about {needed} dev queries are needed to tell ");
    assert!(verdict.sentence.contains(&advice), "{}", verdict.sentence);
    assert!(verdict.sentence.ends_with("from chance; leave the index as it is."), "{}", verdict.sentence);
}

/// An encoder that has hardly changed: as many queries lost as won.
#[test]
fn differences_that_cancel_out_recommend_no_change() {
    let mut world = World::new(Sees::TopicAndNuisance, Sees::Topic, by_nuisance(), 60);
    let by_luck = |query: usize| (query * 37 % DOCUMENTS) as u32;
    world.positives = (0..60).map(|query| vec![by_luck(query)]).collect();
    let verdict = world.verdict();
    let same = Recommendation::NoGainShown;
    assert_eq!(verdict.recommendation, same, "{}", verdict.sentence);
}

/// Enough documents for the rankings that are judged.
#[test]
fn large_collections_are_decided_at_small_fractions() {
    let of = recommendation::decision_fraction;
    assert_eq!([60_000, 15_809, 5_183, 1_200, 400, 50].map(of), [0.01, 0.01, 0.02, 0.1, 0.4, 1.0]);
}

/// 16 queries of a deviation of one for a difference of about 0.87: (2.638 + 0.842) / 0.87 is 4.
#[test]
fn queries_needed_follow_from_deviation_and_difference() {
    let difference = |difference, deviation| Difference {
        value: difference,
        against: 0.0,
        difference,
        bootstrap_p: None,
        t_test_p: None,
        deviation,
    };
    assert_eq!(difference(0.87, Some(1.0)).queries_needed(), Some(16));
    assert_eq!(difference(-0.87, Some(1.0)).queries_needed(), Some(16));
    // Differences smaller than the threshold are not considered.
    let least = difference(SMALLEST_GAIN, Some(0.3)).queries_needed();
    assert_eq!(difference(0.0, Some(0.3)).queries_needed(), least);
    assert_eq!(difference(0.1, Some(0.0)).queries_needed(), None);
    assert_eq!(difference(0.1, None).queries_needed(), None);
}

#[test]
fn a_tree_no_better_than_lists_on_a_better_encoder_is_the_encoders_gain() {
    let world = World::new(Sees::Nuisance, Sees::Topic, by_topic(), 60);
    assert_eq!(world.recommendation(), Recommendation::EncoderGainOnly);
}

/// The tree gains nothing, but exact search does.
#[test]
fn exact_search_can_gain_alone() {
    let mut world = World::new(Sees::Nuisance, Sees::TopicAndNuisance, by_nuisance(), 60);
    // The base visits the list of the query's number first, the tree leaf 0; neither holds the answer.
    let list_of_answer = |query: usize| match (query + 5) % NUISANCES {
        0 => 6,
        list => list,
    };
    world.positives =
        (0..60).map(|query| vec![(list_of_answer(query) * TOPICS + query % TOPICS) as u32]).collect();
    let verdict = world.verdict();
    assert_eq!(verdict.recommendation, Recommendation::EncoderGainOnly, "{}", verdict.sentence);
    assert!(verdict.sentence.contains("exact search finds 100%"), "{}", verdict.sentence);
    assert!(
        verdict.sentence.contains("the trained tree is not shown to be better than IVF on the base encoder"),
        "{}",
        verdict.sentence
    );
}

#[test]
fn where_lists_find_everything_there_is_no_headroom() {
    let mut world = World::new(Sees::Topic, Sees::Topic, by_topic(), 60);
    world.positives = (0..60).map(|query| vec![(query % TOPICS) as u32]).collect();
    let verdict = world.verdict();
    assert_eq!(verdict.recommendation, Recommendation::NoHeadroom, "{}", verdict.sentence);
    assert!(verdict.sentence.contains("already finds 100%"), "{}", verdict.sentence);
}

#[test]
fn a_worse_encoder_is_not_deployed() {
    let world = World::new(Sees::Topic, Sees::Nuisance, by_nuisance(), 60);
    assert_eq!(world.recommendation(), Recommendation::DoNotDeploy);
}

#[test]
fn without_dev_queries_nothing_is_said() {
    let verdict = World::new(Sees::Topic, Sees::Topic, by_topic(), 0).verdict();
    assert_eq!(verdict.recommendation, Recommendation::CannotSay);
    assert_eq!((verdict.queries, verdict.documents, verdict.leaves), (0, DOCUMENTS, 10));
    assert!(verdict.methods.is_empty() && verdict.comparisons.is_empty());
}

#[test]
fn one_query_is_measured_but_decides_nothing() {
    let verdict = World::new(Sees::TopicAndNuisance, Sees::TopicAndNuisance, by_topic(), 1).verdict();
    assert_eq!(verdict.recommendation, Recommendation::CannotSay);
    assert!(verdict.sentence.contains("1 dev query is too few"), "{}", verdict.sentence);
    assert_eq!(verdict.methods.len(), 5);
    let compared =
        verdict.difference(Method::TrainedTree, Method::BaseIvf, 0.1, Metric::RECALL_AT_100).unwrap();
    assert_eq!((compared.bootstrap_p, compared.t_test_p), (None, None));
}

/// A tree of one leaf is exact search; no smaller fraction is available for the decision.
#[test]
fn one_leaf_is_judged_as_exact_search() {
    let one = || tree(1, |_| Some(0));
    let better = World::new(Sees::Nuisance, Sees::Topic, one(), 60).verdict();
    assert_eq!(better.recommendation, Recommendation::EncoderGainOnly, "{}", better.sentence);
    assert_eq!(better.decided_at, Some(1.0));
    let tree = method(&better, Method::TrainedTree);
    assert!(tree.at[..6].iter().all(|point| point.figures.is_none()));
    let worse = World::new(Sees::Topic, Sees::Nuisance, one(), 60).verdict();
    assert_eq!(worse.recommendation, Recommendation::DoNotDeploy, "{}", worse.sentence);
}

#[test]
fn a_verdict_reads_back_as_it_was_written_and_depends_on_nothing_else() {
    let world = World::new(Sees::TopicAndNuisance, Sees::TopicAndNuisance, by_topic(), 30);
    let verdict = world.verdict();
    assert_eq!(verdict, world.verdict());
    let json = serde_json::to_string(&verdict).unwrap();
    assert_eq!(serde_json::from_str::<Verdict>(&json).unwrap(), verdict);
    assert!(json.contains(r#""recommendation":"deploy""#), "{json}");
}

#[test]
fn a_verdict_can_be_cancelled() {
    let indexer = by_topic();
    let rows = documents(Sees::Topic);
    let leaves = indexer.route_rows(&rows);
    let (queries, positives) = (queries(20, Sees::Topic), positives(20));
    let embedded = TextRows { dim: DIM, documents: &rows, queries: &queries };
    let held_out = HeldOut {
        positives: &positives,
        base: embedded,
        trained: embedded,
        leaves: &leaves,
        indexer: &indexer,
        seed: 0,
    };
    let result = compute(&held_out, &mut |p| match p.done {
        3.. => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    assert!(matches!(result, Err(Error::Cancelled)));
}
