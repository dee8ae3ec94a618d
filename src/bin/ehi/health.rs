//! `ehi health`

use std::io::{self, Write};

use ehi::health::{Health, RoutingHealth};
use serde::Serialize;

use crate::escape::escaped;
use crate::failure::Failure;
use crate::opening::open_read_only;
use crate::printing;
use crate::store::ReportArgs;

/// The figures, and the advice as sentences.
#[derive(Serialize)]
struct Report<'a> {
    health: &'a Health,
    words: Vec<String>,
}

pub fn run(args: &ReportArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let health = open_read_only(&args.index)?.health()?;
    if args.json {
        let words: Vec<String> = health.advice.iter().map(ToString::to_string).collect();
        printing::json(out, &Report { health: &health, words })
    } else {
        write_health(out, &health).map_err(Failure::Output)
    }
}

fn write_health(out: &mut dyn Write, health: &Health) -> io::Result<()> {
    writeln!(out, "documents      {}", health.documents)?;
    if health.leaves == 1 {
        writeln!(out, "tree           none: searches score every document")?;
        return write_advice(out, health);
    }
    write!(out, "leaves         {}, {} empty", health.leaves, health.empty_leaves)?;
    match health.largest_leaf {
        Some(largest) => {
            writeln!(out, "; the largest is {} with {} documents", largest.leaf.0, largest.documents)?;
        }
        None => writeln!(out)?,
    }
    write!(
        out,
        "load           {:.1} expected documents per leaf, {:.2} times even",
        health.expected_documents_per_leaf, health.skew
    )?;
    match health.trained_skew {
        Some(trained) => writeln!(out, " ({trained:.2} in training)")?,
        None => writeln!(out)?,
    }
    write_routing(out, "new documents", &health.documents_routing)?;
    write_routing(out, "queries", &health.queries_routing)?;
    let (documents, queries) = (&health.documents_routing, &health.queries_routing);
    if documents.reference.is_none() && queries.reference.is_none() {
        writeln!(out, "no reference is known: the model was trained before routing was recorded")?;
    }
    write_advice(out, health)
}

fn write_advice(out: &mut dyn Write, health: &Health) -> io::Result<()> {
    for advice in &health.advice {
        writeln!(out, "advice: {}", escaped(&advice.to_string()))?;
    }
    for remedy in &health.remedies {
        writeln!(out, "remedy: {remedy}")?;
    }
    if health.advice.is_empty() {
        writeln!(out, "nothing stands out")?;
    }
    Ok(())
}

fn write_routing(out: &mut dyn Write, name: &str, routing: &RoutingHealth) -> io::Result<()> {
    let Some(recent) = &routing.recent else {
        return writeln!(out, "{name:<14} none");
    };
    write!(
        out,
        "{name:<14} the newest {}: entropy {:.2} nats, most probable leaf {:.2}",
        recent.rows, recent.mean_entropy, recent.mean_top_probability
    )?;
    if let Some(trained) = &routing.reference {
        write!(out, "; in training {:.2} nats, {:.2}", trained.mean_entropy, trained.mean_top_probability)?;
    }
    if let Some((shift, chance)) = routing.shift.zip(routing.shift_by_chance) {
        let (shift, chance) = (shift * 100.0, chance * 100.0);
        write!(out, "; {shift:.0}% go to other leaves ({chance:.0}% by chance)")?;
    }
    writeln!(out)
}
