//! Options of a search, for the commands that search.

use ehi::search::DEFAULT_K;
use ehi::{Filter, Query, Stop};

#[derive(clap::Args)]
pub struct QueryArgs {
    /// Hits at most
    #[arg(long, short, default_value_t = DEFAULT_K)]
    k: usize,
    /// Leaves to visit and no more, or `all`. If absent, as many as `--recall` takes, or all where `--stop`
    /// says when to stop
    #[arg(long, short, value_name = "LEAVES", value_parser = beam)]
    beam: Option<usize>,
    /// Visit as many leaves as it takes to find this share of exact search's hits, on average; 0.95 if
    /// absent. Every document is scored where there are few, and where `ehi calibrate` has not measured it
    #[arg(long, value_name = "SHARE", conflicts_with_all = ["beam", "stop"])]
    recall: Option<f64>,
    /// Stop earlier, by the first rule that applies: patience=LEAVES, mass=SHARE, documents=COUNT,
    /// fraction=SHARE
    #[arg(long, value_name = "RULE", value_delimiter = ',')]
    stop: Vec<Stop>,
    /// Search among the documents whose metadata pass, for instance {"year": {"$gte": 2010}, "lang": "en"}
    #[arg(long, value_name = "JSON")]
    filter: Option<Filter>,
    /// Whether codes may rule documents out, so that fewer embeddings are read. By default they may, but for
    /// searches that score every document
    #[arg(long, value_name = "BOOL")]
    codes: Option<bool>,
}

impl QueryArgs {
    /// The query with these options.
    pub fn apply<'a, I>(&'a self, query: Query<'a, I>) -> Query<'a, I> {
        let mut query = query.k(self.k);
        if let Some(beam) = self.beam {
            query = query.beam(beam);
        }
        if let Some(recall) = self.recall {
            query = query.recall(recall);
        }
        for &stop in &self.stop {
            query = query.stop(stop);
        }
        if let Some(filter) = &self.filter {
            query = query.filter(filter);
        }
        if let Some(codes) = self.codes {
            query = query.codes(codes);
        }
        query
    }
}

fn beam(text: &str) -> Result<usize, String> {
    match text {
        "all" => Ok(usize::MAX),
        _ => text.parse().map_err(|_| "expected a number of leaves, or `all`".to_owned()),
    }
}
