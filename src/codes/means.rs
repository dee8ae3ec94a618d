//! Assigns means to the rows of a segment; codes are relative to the mean's direction.

use half::f16;

/// Consecutive rows, split where another mean begins.
///
/// # Shapes
/// `spans` `[n, 2]`, the first row and the end of each mean, ascending; `means` `[n, dim]`; `others` `[dim]`,
/// for the rows outside all spans; it may be missing if there are none.
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
    /// The means of a range of rows. Spans outside of it are skipped.
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
