//! A training run as one page for a browser: the verdict, tables, plots, and the leaves in words.
//!
//! The page needs no script and nothing from outside, and every text in it is escaped.

mod about;
mod html;
mod plots;

pub(crate) use about::{LeafAbout, Routed, about};

use html::{Cells, escaped, list, push, table};

use super::report::TrainReport;
use super::verdict::{
    ComparedMetric, Comparison, FRACTIONS, Figures, Method, MethodFigures, Recommendation, Verdict,
};

/// Leaves shown with samples; the others follow in a table that opens on demand.
const LEAVES_IN_FULL: usize = 20;
/// Leaves in that table at most.
const LEAVES_IN_TABLE: usize = 1_000;

/// A figure of a method.
type Part = fn(&Figures) -> f64;

/// The page of a run, as UTF-8 HTML.
pub(crate) fn render(report: &TrainReport, leaves: &[LeafAbout]) -> String {
    let mut out = String::from("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    out.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    push(
        &mut out,
        format_args!("<title>Training report</title>\n<style>\n{}</style>\n", include_str!("style.css")),
    );
    out.push_str("</head>\n<body>\n<h1>Training report</h1>\n");
    if let Some(verdict) = &report.verdict {
        let mood = match verdict.recommendation {
            Recommendation::Deploy => "good",
            Recommendation::DoNotDeploy => "bad",
            _ => "warn",
        };
        push(&mut out, format_args!("<p class=\"verdict {mood}\">{}</p>\n", escaped(&verdict.sentence)));
    }
    push(
        &mut out,
        format_args!(
            "<p>{} documents; {} training queries with {} pairs; {} dev queries, never trained on; {} \
             epochs in \
             {:.0} s, seed {}, ehi {}.</p>\n",
            report.documents,
            report.train_queries,
            report.train_pairs,
            report.dev_queries,
            report.epochs.len(),
            report.seconds,
            report.config.seed,
            escaped(&report.version),
        ),
    );
    if let Some(verdict) = report.verdict.as_ref().filter(|verdict| !verdict.methods.is_empty()) {
        quality(&mut out, verdict);
    }
    out.push_str("<h2>Loss</h2>\n<div class=\"plots\">\n");
    out.push_str(&plots::losses(&report.epochs));
    out.push_str("</div>\n<h2>Load of the leaves</h2>\n");
    load(&mut out, report);
    about_leaves(&mut out, leaves);
    out.push_str("</body>\n</html>\n");
    out
}

fn quality(out: &mut String, verdict: &Verdict) {
    out.push_str("<h2>Before and after, on the dev queries</h2>\n");
    push(
        out,
        format_args!(
            "<p class=\"faint\">Means over {} queries, with documents cut as in training. Visited are the \
             documents \
             whose score was computed. Base and trained are the encoders. IVF has as many k-means lists as the tree has leaves ({}), mean of four \
             seeds; \u{201c}best lists\u{201d} has the number of lists that does best at each fraction on these very \
             queries, which flatters it. A dash: the method visits more even at its smallest setting.</p>\n",
            verdict.queries, verdict.leaves,
        ),
    );
    out.push_str("<div class=\"plots\">\n");
    out.push_str(&plots::recall(verdict, ComparedMetric::RecallAt100));
    out.push_str(&plots::recall(verdict, ComparedMetric::RecallAt10));
    out.push_str("</div>\n");
    let parts: [(&str, Part); 4] = [
        ("Recall@100, %, by documents visited", |f| f.recall_at_100),
        ("Recall@10, %, by documents visited", |f| f.recall_at_10),
        ("nDCG@10, %, by documents visited", |f| f.ndcg_at_10),
        ("Work, %: documents scored and the cost of choosing them, over documents", |f| f.work_fraction),
    ];
    let mut head = vec![String::new()];
    head.extend(FRACTIONS.iter().map(|fraction| format!("{:.0}%", fraction * 100.0)));
    for (caption, part) in parts {
        let rows: Vec<Cells> = verdict.methods.iter().map(|method| method_row(method, part)).collect();
        out.push_str(&table(caption, &head, &rows));
    }
    let head = ["", "visited", "metric", "this", "that", "points", "p, bootstrap", "p, t-test"];
    let rows: Vec<Cells> = verdict.comparisons.iter().filter_map(comparison_row).collect();
    let caption = "Differences in points, with two-sided p-values over the queries";
    out.push_str(&table(caption, &head.map(str::to_owned), &rows));
}

fn method_row(method: &MethodFigures, part: Part) -> Cells {
    let figure = |figures: Option<Figures>| match figures {
        Some(figures) => format!("{:.1}", part(&figures) * 100.0),
        None => "\u{2013}".to_owned(),
    };
    [method.method.to_string()]
        .into_iter()
        .chain(method.at.iter().map(|point| figure(point.figures)))
        .collect()
}

fn comparison_row(comparison: &Comparison) -> Option<Cells> {
    let difference = comparison.difference?;
    let p = |p: Option<f64>| p.map_or_else(|| "\u{2013}".to_owned(), |p| format!("{p:.4}"));
    Some(vec![
        format!("{} against {}", comparison.method, comparison.against),
        match comparison.method {
            Method::TrainedExact => "all".to_owned(),
            _ => format!("{:.0}%", comparison.visited_fraction * 100.0),
        },
        comparison.metric.to_string(),
        format!("{:.1}%", difference.value * 100.0),
        format!("{:.1}%", difference.against * 100.0),
        format!("{:+.1}", difference.difference * 100.0),
        p(difference.bootstrap_p),
        p(difference.t_test_p),
    ])
}

fn load(out: &mut String, report: &TrainReport) {
    let (before, after) = (&report.before, &report.after);
    let row = |name: &str, before: String, after: String| vec![name.to_owned(), before, after];
    let one = |value: f64| format!("{value:.1}");
    let rows = [
        row(
            "expected documents per leaf",
            one(before.expected_documents_per_leaf),
            one(after.expected_documents_per_leaf),
        ),
        row("of an even load", one(before.ideal_documents_per_leaf), one(after.ideal_documents_per_leaf)),
        row("empty leaves", before.empty_leaves.to_string(), after.empty_leaves.to_string()),
    ];
    out.push_str(&table("", &["", "before", "after"].map(str::to_owned), &rows));
    out.push_str("<div class=\"plots\">\n");
    out.push_str(&plots::loads(&report.loads));
    out.push_str(&plots::leaf_sizes(&report.leaf_sizes));
    out.push_str("</div>\n");
}

fn about_leaves(out: &mut String, leaves: &[LeafAbout]) {
    let mut order: Vec<&LeafAbout> = leaves.iter().collect();
    order.sort_by_key(|leaf| (std::cmp::Reverse(leaf.documents), leaf.leaf));
    let (full, rest) = order.split_at(order.len().min(LEAVES_IN_FULL));
    out.push_str("<h2>What the leaves are about</h2>\n");
    out.push_str(
        "<p class=\"faint\">Largest first: the words that a leaf\u{2019}s documents use more than the \
         others, the \
         documents closest to its mean, and the closest of the queries that it is most probable for.</p>\n\
         <div class=\"leaves\">\n",
    );
    for leaf in full {
        push(
            out,
            format_args!(
                "<section class=\"leaf\">\n<h3>Leaf {}</h3>\n<p class=\"faint\">{}, {}</p>\n<p \
                 class=\"terms\">",
                leaf.leaf,
                counted(leaf.documents, "document", "documents"),
                counted(leaf.queries, "query", "queries"),
            ),
        );
        for term in &leaf.terms {
            push(out, format_args!("<span>{}</span>", escaped(&term.term)));
        }
        out.push_str("</p>\n");
        for (title, texts) in [("Documents", &leaf.titles), ("Queries", &leaf.asked)] {
            if !texts.is_empty() {
                push(out, format_args!("<h4>{title}</h4>\n{}", list(texts)));
            }
        }
        out.push_str("</section>\n");
    }
    out.push_str("</div>\n");
    if rest.is_empty() {
        return;
    }
    push(
        out,
        format_args!("<details>\n<summary>{}</summary>\n", counted(rest.len(), "more leaf", "more leaves")),
    );
    let rows: Vec<Cells> = rest
        .iter()
        .take(LEAVES_IN_TABLE)
        .map(|leaf| {
            let terms: Vec<&str> = leaf.terms.iter().map(|term| term.term.as_str()).collect();
            vec![
                leaf.leaf.to_string(),
                leaf.documents.to_string(),
                leaf.queries.to_string(),
                terms.join(", "),
            ]
        })
        .collect();
    let head = ["leaf", "documents", "queries", "words"].map(str::to_owned);
    push(out, format_args!("<div class=\"words\">\n{}</div>\n", table("", &head, &rows)));
    if rest.len() > LEAVES_IN_TABLE {
        push(
            out,
            format_args!(
                "<p>{} smaller ones are not listed; training.json has the sizes of all.</p>\n",
                rest.len() - LEAVES_IN_TABLE
            ),
        );
    }
    out.push_str("</details>\n");
}

fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}
