//! Which rows of a segment share a mean, by whose direction their codes are made.

use half::f16;

/// Consecutive rows, cut where another mean begins.
///
/// # Shapes
/// `spans` `[n, 2]`, the first row of each mean and the one behind its last, ascending; `means` `[n, dim]`;
/// `others` `[dim]`, of the rows that no span has, which need not be there if there are none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Means<'a> {
    spans: &'a [[u32; 2]],
    means: &'a [f16],
    others: Option<&'a [f16]>,
    dim: usize,
    next: u32,
    end: u32,
}

impl<'a> Means<'a> {
    /// Those of some rows. Spans that do not reach them are passed over.
    pub fn new(
        spans: &'a [[u32; 2]],
        means: &'a [f16],
        others: Option<&'a [f16]>,
        dim: usize,
        rows: std::ops::Range<u32>,
    ) -> Self {
        let (next, end) = (rows.start, rows.end);
        Self { spans, means, others, dim, next, end }
    }
}

impl<'a> Iterator for Means<'a> {
    /// A number of rows, at least 1, and the direction of their mean, `[dim]`.
    type Item = (usize, Option<&'a [f16]>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.next >= self.end {
            return None;
        }
        while let [[_, end], rest @ ..] = self.spans
            && *end <= self.next
        {
            self.spans = rest;
            self.means = self.means.get(self.dim..).unwrap_or_default();
        }
        let (end, mean) = match self.spans {
            [[first, end], ..] if *first <= self.next => (*end, self.means.get(..self.dim)),
            [[first, _], ..] => (*first, self.others),
            [] => (self.end, self.others),
        };
        let end = end.min(self.end);
        let rows = (end - self.next) as usize;
        self.next = end;
        Some((rows, mean))
    }
}
