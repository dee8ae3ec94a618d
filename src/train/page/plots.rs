//! The page's plots, as SVG without a background, so that they stand in light and dark alike.
//!
//! Colours are written as constants that the style sheet maps to those of the reader's scheme.

use std::ops::Range;

use plotters::prelude::*;

use super::html::{escaped, push};
use crate::train::report::EpochReport;
use crate::train::verdict::{ComparedMetric, FRACTIONS, Method, Verdict};
use crate::train::{LeafSizes, LoadReport};

const SIZE: (u32, u32) = (640, 360);
const INK: RGBColor = RGBColor(1, 1, 1);
const GRID: RGBColor = RGBColor(2, 2, 2);
/// Series; `style.css` has the same numbers.
const COLOURS: [RGBColor; 6] = [
    RGBColor(11, 11, 11),
    RGBColor(12, 12, 12),
    RGBColor(13, 13, 13),
    RGBColor(14, 14, 14),
    RGBColor(15, 15, 15),
    RGBColor(16, 16, 16),
];
/// Bars at most; of more leaves every so many are drawn.
const MOST_BARS: usize = 300;

/// A term of the loss by its epoch.
type LossTerm = fn(&EpochReport) -> f64;
type Drawn = Result<(), Box<dyn std::error::Error>>;

/// A line with its name in the legend.
struct Line {
    name: String,
    colour: usize,
    dashed: bool,
    points: Vec<(f64, f64)>,
}

/// The axes of a plot.
struct Axes<'a> {
    x: Range<f64>,
    y: Range<f64>,
    x_labels: usize,
    x_name: &'a str,
    y_name: &'a str,
    x_label: &'a dyn Fn(f64) -> String,
    y_label: &'a dyn Fn(f64) -> String,
}

/// A metric against the visited fraction, for every method.
pub(super) fn recall(verdict: &Verdict, metric: ComparedMetric) -> String {
    let shown = [
        (Method::BaseIvf, 1, true),
        (Method::BaseIvfBest, 2, true),
        (Method::TrainedIvf, 1, false),
        (Method::TrainedIvfBest, 2, false),
        // Last, so that it lies above the others.
        (Method::TrainedTree, 0, false),
    ];
    let mut lines = Vec::new();
    for (method, colour, dashed) in shown {
        let Some(figures) = verdict.method(method) else { continue };
        let tabled = figures.at.iter().filter_map(|point| Some((point.visited_fraction, point.figures?)));
        let measured = figures.measured.iter().map(|point| (point.visited_fraction, point.figures));
        let mut points: Vec<(f64, f64)> = tabled
            .chain(measured)
            .filter_map(|(fraction, figures)| Some((place_of(fraction)?, figures.of(metric))))
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        lines.push(Line { name: method.to_string(), colour, dashed, points });
    }
    for (method, dashed) in [(Method::TrainedExact, false), (Method::BaseExact, true)] {
        let exact = verdict.method(method).and_then(|figures| figures.at.last()?.figures);
        if let Some(figures) = exact {
            let value = figures.of(metric);
            let points = vec![(0.0, value), (last_place(), value)];
            lines.push(Line { name: method.to_string(), colour: 3, dashed, points });
        }
    }
    let lowest = lines.iter().flat_map(|line| &line.points).map(|point| point.1).fold(1.0, f64::min);
    let axes = Axes {
        x: 0.0..last_place(),
        y: ((lowest - 0.02).max(0.0) * 10.0).floor() / 10.0..1.0,
        x_labels: FRACTIONS.len(),
        x_name: "documents visited",
        y_name: &metric.to_string(),
        x_label: &|place| FRACTIONS.get(place.round() as usize).map_or_else(String::new, percent),
        y_label: &|value| format!("{:.0}%", value * 100.0),
    };
    figure(&format!("{metric} against documents visited"), &axes, &lines)
}

/// The x axis has the tabled fractions at even distances; a fraction between two of them lies
/// between them on a logarithmic scale. `None` below the first.
fn place_of(fraction: f64) -> Option<f64> {
    let right = FRACTIONS.iter().position(|&tabled| fraction <= tabled)?;
    if FRACTIONS[right] == fraction {
        return Some(right as f64);
    }
    let left = right.checked_sub(1)?;
    let share = (fraction / FRACTIONS[left]).ln() / (FRACTIONS[right] / FRACTIONS[left]).ln();
    Some(left as f64 + share)
}

fn last_place() -> f64 {
    (FRACTIONS.len() - 1) as f64
}

fn percent(fraction: &f64) -> String {
    format!("{:.0}%", fraction * 100.0)
}

/// The terms of the loss over epochs.
pub(super) fn losses(epochs: &[EpochReport]) -> String {
    let parts: [(&str, LossTerm); 6] = [
        ("total", |e| e.loss),
        ("siamese", |e| e.siamese),
        ("indexing", |e| e.indexing),
        ("intra-leaf", |e| e.intra_leaf),
        ("balance", |e| e.balance),
        ("distillation", |e| e.distillation),
    ];
    let mut lines: Vec<Line> = parts
        .into_iter()
        .enumerate()
        .map(|(colour, (name, part))| Line {
            name: name.to_owned(),
            colour,
            dashed: false,
            points: epochs.iter().map(|epoch| (epoch.epoch as f64, part(epoch))).collect(),
        })
        .collect();
    // A term that takes no part is 0 throughout.
    lines.retain(|line| line.points.iter().any(|point| point.1 != 0.0));
    over_epochs("Loss terms over epochs, unweighted but for the total", "loss", &lines)
}

/// Expected documents per leaf at each refresh, and that of an even load.
pub(super) fn loads(loads: &[LoadReport]) -> String {
    let line = |name: &str, colour, dashed, of: fn(&LoadReport) -> f64| Line {
        name: name.to_owned(),
        colour,
        dashed,
        points: loads.iter().map(|load| (load.epoch as f64, of(load))).collect(),
    };
    let lines = [
        line("expected documents per leaf", 0, false, |load| load.expected_documents_per_leaf),
        line("of an even load", 3, true, |load| load.ideal_documents_per_leaf),
    ];
    over_epochs("Expected documents per leaf over epochs", "documents", &lines)
}

fn over_epochs(title: &str, y_name: &str, lines: &[Line]) -> String {
    let points = || lines.iter().flat_map(|line| &line.points);
    let first = points().map(|point| point.0).fold(f64::INFINITY, f64::min);
    let last = points().map(|point| point.0).fold(0.0, f64::max);
    let highest = points().map(|point| point.1).fold(0.0, f64::max);
    let axes = Axes {
        // One epoch alone still needs a width.
        x: first.min(last)..last.max(first.min(last) + 1.0),
        y: 0.0..if highest > 0.0 { highest * 1.05 } else { 1.0 },
        x_labels: 11,
        x_name: "epochs",
        y_name,
        x_label: &|epoch| if epoch.fract() == 0.0 { format!("{epoch:.0}") } else { String::new() },
        y_label: &|value| if highest < 5.0 { format!("{value:.2}") } else { format!("{value:.0}") },
    };
    figure(title, &axes, lines)
}

/// Sizes of the leaves, largest first: documents, and queries.
pub(super) fn leaf_sizes(sizes: &LeafSizes) -> String {
    let both = [
        ("Documents per leaf", "documents", 0, &sizes.documents),
        ("Queries per leaf", "queries", 1, &sizes.queries),
    ];
    both.into_iter().map(|(title, name, colour, sizes)| bars(title, name, colour, sizes)).collect()
}

fn bars(title: &str, name: &str, colour: usize, sizes: &[usize]) -> String {
    let mut sorted: Vec<usize> = sizes.to_vec();
    sorted.sort_unstable_by(|a, b| b.cmp(a));
    let every = sorted.len().div_ceil(MOST_BARS).max(1);
    let largest = sorted.first().copied().unwrap_or(0).max(1) as f64;
    let axes = Axes {
        x: 0.0..sorted.len().max(1) as f64,
        y: 0.0..largest * 1.05,
        x_labels: 6,
        x_name: "leaves, largest first",
        y_name: name,
        x_label: &|leaf| format!("{leaf:.0}"),
        y_label: &|value| format!("{value:.0}"),
    };
    let mut svg = String::new();
    let drawn = draw(&mut svg, &axes, |chart| {
        let bars = sorted.iter().enumerate().step_by(every).map(|(place, &size)| {
            let left = place as f64;
            // A gap between bars where they are wide enough to show one.
            let width = every as f64 * if sorted.len() <= 80 { 0.8 } else { 1.0 };
            Rectangle::new([(left, 0.0), (left + width, size as f64)], COLOURS[colour].filled())
        });
        chart.draw_series(bars)?;
        Ok(())
    });
    wrap(title, &svg, drawn, &[])
}

fn figure(title: &str, axes: &Axes<'_>, lines: &[Line]) -> String {
    let mut svg = String::new();
    let drawn = draw(&mut svg, axes, |chart| {
        for line in lines {
            let colour = COLOURS[line.colour % COLOURS.len()];
            let points = || line.points.iter().copied();
            if line.dashed {
                chart.draw_series(DashedLineSeries::new(points(), 6, 5, colour.stroke_width(2)))?;
            } else {
                chart.draw_series(LineSeries::new(points(), colour.stroke_width(2)))?;
                if line.points.len() <= 30 {
                    chart.draw_series(points().map(|point| Circle::new(point, 3, colour.filled())))?;
                }
            }
        }
        Ok(())
    });
    wrap(title, &svg, drawn, lines)
}

type Chart<'a, 'b> = ChartContext<
    'a,
    SVGBackend<'b>,
    Cartesian2d<plotters::coord::types::RangedCoordf64, plotters::coord::types::RangedCoordf64>,
>;

fn draw(svg: &mut String, axes: &Axes<'_>, series: impl FnOnce(&mut Chart<'_, '_>) -> Drawn) -> Drawn {
    let root = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    let mut chart = ChartBuilder::on(&root)
        .margin(12)
        .margin_right(32)
        .x_label_area_size(54)
        .y_label_area_size(72)
        .build_cartesian_2d(axes.x.clone(), axes.y.clone())?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .bold_line_style(GRID)
        .light_line_style(TRANSPARENT)
        .axis_style(INK)
        .label_style(("sans-serif", 19, &INK))
        .axis_desc_style(("sans-serif", 19, &INK))
        .x_labels(axes.x_labels)
        .y_labels(6)
        .x_desc(axes.x_name)
        .y_desc(axes.y_name)
        .x_label_formatter(&|x| (axes.x_label)(*x))
        .y_label_formatter(&|y| (axes.y_label)(*y))
        .draw()?;
    series(&mut chart)?;
    drop(chart);
    root.present()?;
    Ok(())
}

/// A plot with its title and legend; a plot that could not be drawn says so in its place.
fn wrap(title: &str, svg: &str, drawn: Drawn, lines: &[Line]) -> String {
    let title = escaped(title);
    let mut out = format!("<figure>\n<figcaption>{title}</figcaption>\n");
    match drawn {
        Ok(()) => push(&mut out, format_args!("<div role=\"img\" aria-label=\"{title}\">{svg}</div>\n")),
        Err(error) => push(&mut out, format_args!("<p>Not drawn: {}</p>\n", escaped(&error.to_string()))),
    }
    if !lines.is_empty() {
        out.push_str("<ul class=\"legend\">\n");
        for line in lines {
            let dashed = if line.dashed { " dashed" } else { "" };
            let (colour, name) = (line.colour % COLOURS.len(), escaped(&line.name));
            push(&mut out, format_args!("<li><span class=\"key s{colour}{dashed}\"></span>{name}</li>\n"));
        }
        out.push_str("</ul>\n");
    }
    out.push_str("</figure>\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_are_placed_between_their_neighbours() {
        assert_eq!(place_of(0.01), Some(0.0));
        assert_eq!(place_of(1.0), Some(6.0));
        assert_eq!(place_of(0.005), None);
        assert_eq!(place_of(1.5), None);
        let between = place_of((0.1f64 * 0.2).sqrt()).unwrap();
        assert!((between - 3.5).abs() < 1e-12, "{between}");
    }

    #[test]
    fn one_epoch_and_no_epochs_are_drawn() {
        let epoch = EpochReport { epoch: 1, loss: 0.5, ..EpochReport::default() };
        for plot in [losses(&[epoch]), losses(&[]), loads(&[]), leaf_sizes(&LeafSizes::default())] {
            assert!(plot.contains("<svg") && !plot.contains("Not drawn"), "{plot}");
        }
        // Terms that take no part are left out.
        assert_eq!(losses(&[epoch]).matches("<li>").count(), 1);
    }

    #[test]
    fn many_leaves_are_thinned() {
        let sizes = LeafSizes { documents: (0..5_000).collect(), queries: vec![1; 5_000] };
        let bars = leaf_sizes(&sizes).matches("<rect").count();
        assert!(bars <= 2 * MOST_BARS, "{bars}");
    }
}
