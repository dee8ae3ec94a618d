//! Writes the codes of a segment's rows.

use half::f16;

use crate::{
    codes::{self, CodeMaker, MeanMaker, Means},
    scan::Similarity,
    store::{
        config::{StoreConfig, StoreOptions},
        error::Result,
        layout::segment::*,
        rows::{Member, RowSource},
        sealed::{SealedFile, SealedWriter},
    },
};

/// Checks the lengths of the sections of codes, in constant time.
pub(super) fn check_codes(file: &SealedFile, rows: u32, dim: usize) -> Result<()> {
    let rows = if file.has(CODES) { u64::from(rows) } else { 0 };
    let blocks = rows.div_ceil(codes::BLOCK_ROWS as u64);
    let own_means = file.count(MEAN_ROWS, 8).min(rows);
    let means = if rows > 0 { own_means + 1 } else { 0 };
    let (record, mean) = (codes::supplement_bytes(dim) as u64, (dim * size_of::<f16>()) as u64);
    file.check_counts([
        ("bytes of codes", CODES, 1, blocks * codes::block_bytes(dim) as u64),
        ("bytes of codes' factors", CODE_FACTORS, 1, rows * (codes::FACTORS * 4) as u64),
        ("bytes of means' rows", MEAN_ROWS, 1, own_means * 8),
        ("bytes of means", MEANS, 1, means * mean),
        ("bytes of codes' shifts", CODE_SHIFTS, 1, rows * 4),
        ("bytes of supplements", SUPPLEMENTS, 1, rows * record),
    ])
}

/// Which rows have their own mean: those of each leaf with enough rows.
fn mean_rows(ends: &[u32]) -> Vec<[u32; 2]> {
    let firsts = std::iter::once(0).chain(ends.iter().copied());
    let spans = firsts.zip(ends).map(|(first, &end)| [first, end]);
    spans.filter(|[first, end]| (end - first) as usize >= codes::FEWEST_FOR_MEAN).collect()
}

/// Accumulates the means of rows.
pub(in crate::store) struct SegmentMeans<'a> {
    dim: usize,
    spans: &'a [[u32; 2]],
    own: MeanMaker,
    others: MeanMaker,
    means: Vec<f16>,
    rows: u32,
}

impl<'a> SegmentMeans<'a> {
    /// `spans`: the rows with their own mean.
    pub(in crate::store) fn new(dim: usize, spans: &'a [[u32; 2]]) -> Self {
        let (own, others) = (MeanMaker::new(dim), MeanMaker::new(dim));
        Self { dim, spans, own, others, means: vec![f16::ZERO; dim], rows: 0 }
    }

    /// Adds the next row.
    pub(in crate::store) fn add(&mut self, row: &[f16]) {
        match self.spans {
            [[first, end], rest @ ..] if *first <= self.rows => {
                self.own.add(row);
                if self.rows + 1 == *end {
                    self.own.finish(&mut self.means);
                    self.spans = rest;
                }
            }
            _ => self.others.add(row),
        }
        self.rows += 1;
    }

    /// `[1 + spans, dim]`; the mean of all other rows comes first.
    pub(in crate::store) fn finish(mut self) -> Vec<f16> {
        let mut others = Vec::with_capacity(self.dim);
        self.others.finish(&mut others);
        self.means[..self.dim].copy_from_slice(&others);
        self.means
    }
}

/// Computes and writes the codes of rows.
pub(in crate::store) struct Codes {
    dim: usize,
}

impl Codes {
    /// The codes of an index, if its rows should have any.
    pub(in crate::store) fn wanted(config: &StoreConfig, options: &StoreOptions) -> Option<Self> {
        let dim = config.dim as usize;
        let product = Similarity::from_code(config.similarity).is_some_and(Similarity::is_product);
        (!options.without_codes && product && dim >= codes::FEWEST_DIMENSIONS).then_some(Self { dim })
    }

    /// Writes the codes of the members' rows, which are read twice: for the means, and for the codes. `ends`
    /// are the ends of each leaf's rows.
    pub(super) fn write(
        &self,
        file: &mut SealedWriter,
        sources: &[&dyn RowSource],
        members: &[Member],
        ends: &[u32],
    ) -> Result<()> {
        let embedding = |member: &Member| sources[member.source as usize].embedding(member.row);
        let spans = mean_rows(ends);
        let mut means = SegmentMeans::new(self.dim, &spans);
        for member in members {
            means.add(embedding(member)?);
        }
        let means = means.finish();
        let bytes = codes::block_bytes(self.dim);
        let mut maker = CodeMaker::new(self.dim);
        let mut record = vec![0; codes::supplement_bytes(self.dim)];
        let mut blocks = vec![0; members.len().div_ceil(codes::BLOCK_ROWS) * bytes];
        let (mut factors, mut shifts) =
            (Vec::with_capacity(members.len()), Vec::with_capacity(members.len()));
        let (others, own) = means.split_at(self.dim);
        let mut members = members.iter();
        file.begin(SUPPLEMENTS)?;
        for (rows, mean) in Means::new(&spans, own, Some(others), self.dim, 0..members.len() as u32) {
            maker.beside(mean);
            for member in members.by_ref().take(rows) {
                let (block, place) = (factors.len() / codes::BLOCK_ROWS, factors.len() % codes::BLOCK_ROWS);
                let block = &mut blocks[block * bytes..(block + 1) * bytes];
                let made = maker.encode(embedding(member)?, place, block, Some(&mut record));
                factors.push(made.factors);
                shifts.push(made.shift);
                file.write(&record)?;
            }
        }
        file.section(CODES, &blocks)?;
        file.section(CODE_FACTORS, &factors)?;
        file.section(CODE_SHIFTS, &shifts)?;
        file.section(MEAN_ROWS, &spans)?;
        file.section(MEANS, &means)
    }
}
