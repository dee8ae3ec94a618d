//! `ehi facets`: the values of fields.

use std::io::Write;

use ehi::{Facet, Filter};
use serde::Serialize;

use crate::arguments::filter;
use crate::failure::Failure;
use crate::hits::say_notes;
use crate::opening::open_read_only;
use crate::printing;
use crate::store::ReportArgs;
use crate::text::{counted, escaped};

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    report: ReportArgs,
    /// Only of the documents whose metadata pass, for instance {"year": {"$gte": 2010}}; @FILE reads it from
    /// a file, - from standard input
    #[arg(long, value_name = "JSON", value_parser = filter)]
    filter: Option<Filter>,
    /// Values printed of each field, the most frequent ones
    #[arg(long, value_name = "COUNT", default_value_t = 10)]
    most: usize,
    /// Fields of the metadata, such as `lang` or `author.name`
    #[arg(required = true, value_name = "FIELD")]
    fields: Vec<String>,
}

#[derive(Serialize)]
struct Facets<'a> {
    facets: &'a [Facet],
}

pub fn run(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let index = open_read_only(&args.report.index)?;
    let facets = index.facets(args.fields.iter().map(String::as_str), args.filter.as_ref(), args.most)?;
    if args.report.json {
        return printing::json(out, &Facets { facets: &facets });
    }
    facets.iter().try_for_each(|facet| write(facet, out)).map_err(Failure::Output)?;
    if let Some(filter) = &args.filter {
        say_notes(&index.why_nothing_passes(filter)?);
    }
    Ok(())
}

fn write(facet: &Facet, out: &mut dyn Write) -> std::io::Result<()> {
    let Facet { field, values, distinct, missing, range, .. } = facet;
    write!(out, "{}: {}", escaped(field), counted(*distinct, "value"))?;
    if let Some([least, greatest]) = range {
        write!(out, ", numbers from {least} to {greatest}")?;
    }
    match missing {
        0 => writeln!(out)?,
        missing => writeln!(out, "; {} without the field", counted(*missing, "document"))?,
    }
    for value in values {
        writeln!(out, "{:>8}  {}", value.documents, escaped(&value.value.to_string()))?;
    }
    Ok(())
}
