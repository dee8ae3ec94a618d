//! The frozen lower layers, run once; training reads their cached output.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use candle_core::{Device, Tensor};
use half::f16;
use half::slice::HalfFloatSliceExt;
use rayon::prelude::*;

use super::error::TrainError;
use crate::error::{Error, Result};
use crate::model::{ModelError, PackedHidden, PackedTransformer, Pooler, TOKENS_PER_BATCH, micro_batches};
use crate::progress::{OnProgress, Progress, Stage};

/// Hidden states of a set of texts below the trainable layers, as f16 in a file.
///
/// The file is read text by text and stays in the page cache as far as memory allows. Texts beyond the budget
/// are recomputed on every read and rounded to f16 like the others, so the budget affects the time of a run
/// but not its result.
pub(crate) struct FrozenCache<'a> {
    frozen: &'a Frozen,
    read: Read<'a>,
    file: File,
    /// Byte offset of each text's states; `None` for a text beyond the budget.
    starts: Vec<Option<u64>>,
}

/// The input of the frozen layers.
#[derive(Clone, Copy)]
pub(crate) struct Read<'a> {
    pub tokens: &'a [Vec<u32>],
    /// For each token, 1 if it belongs to the second of two texts; empty for single texts.
    pub types: &'a [Vec<u32>],
    /// Tokens at the start of each text that are not pooled.
    pub skip: usize,
}

/// The part of the encoder that a run does not train.
pub(crate) struct Frozen {
    pub frozen: PackedTransformer,
    /// Width of a state.
    pub dim: usize,
    /// If nothing above the frozen layers is trained, a text has a single state: its embedding.
    pub pooled: Option<Arc<Pooler>>,
    /// Vector added to the embeddings of the second text's tokens, `[m]`.
    pub second: Option<Vec<f32>>,
}

impl Frozen {
    /// States of some texts, concatenated.
    fn states(&self, read: Read<'_>, texts: &[usize]) -> candle_core::Result<Vec<f32>> {
        let tokens: Vec<&[u32]> = texts.iter().map(|&text| read.tokens[text].as_slice()).collect();
        let added = |text: usize, place: usize| {
            let second = self.second.as_deref()?;
            (*read.types.get(texts[text])?.get(place)? == 1).then_some(second)
        };
        let hidden = self.frozen.forward_with(&tokens, &added).map_err(candle_core::Error::wrap)?;
        Ok(match &self.pooled {
            Some(pooler) => pooler.packed(&hidden, read.skip),
            None => hidden.values,
        })
    }

    fn length(&self, tokens: &[u32]) -> usize {
        if self.pooled.is_some() { 1 } else { tokens.len() }
    }

    fn bytes(&self, tokens: &[u32]) -> u64 {
        (self.length(tokens) * self.dim * size_of::<f16>()) as u64
    }
}

/// Location of the cached states.
#[derive(Clone, Debug)]
pub(crate) enum CachePlace {
    /// An unnamed temporary file in this directory, removed with the run.
    Nameless(PathBuf),
    /// A named file in this directory, for later runs over the same texts.
    Kept { dir: PathBuf, name: String },
}

/// Micro-batches between two progress reports.
const BATCHES_PER_ROUND: usize = 16;

impl<'a> FrozenCache<'a> {
    /// Runs the frozen layers over the texts that fit into `budget` bytes, in order, or reuses the file of an
    /// earlier run. Subtracts the bytes used from the budget.
    pub(crate) fn compute(
        frozen: &'a Frozen,
        read: Read<'a>,
        place: &CachePlace,
        budget: &mut u64,
        on_progress: &mut OnProgress<'_>,
    ) -> Result<Self> {
        let tokens = read.tokens;
        let _span = tracing::info_span!("train_frozen", texts = tokens.len()).entered();
        let mut starts = vec![None; tokens.len()];
        let mut end = 0;
        for (start, text) in starts.iter_mut().zip(tokens) {
            let bytes = frozen.bytes(text);
            if end + bytes > *budget {
                break;
            }
            *start = Some(end);
            end += bytes;
        }
        *budget -= end;
        let fitting = starts.iter().flatten().count();
        if fitting < tokens.len() {
            tracing::info!(cached = fitting, texts = tokens.len(), "the rest does not fit the cache");
        }
        let fresh = |file: &File, on_progress: &mut OnProgress<'_>| {
            fill(file, frozen, (read, fitting), &starts, place.dir(), on_progress)
        };
        let file = match place {
            CachePlace::Nameless(dir) => {
                let file = tempfile::tempfile_in(dir).map_err(|source| cache_error(dir, source))?;
                fresh(&file, on_progress)?;
                file
            }
            CachePlace::Kept { dir, name } => {
                let error = |source| cache_error(dir, source);
                std::fs::create_dir_all(dir).map_err(error)?;
                let path = dir.join(format!("{name}-{fitting}.states"));
                match open_kept(&path, end).map_err(error)? {
                    Some(file) => file,
                    None => {
                        let partial = tempfile::NamedTempFile::new_in(dir).map_err(error)?;
                        fresh(partial.as_file(), on_progress)?;
                        seal(partial.as_file(), end).map_err(error)?;
                        partial.persist(&path).map_err(|e| error(e.error))?
                    }
                }
            }
        };
        Ok(Self { frozen, read, file, starts })
    }

    /// Number of texts.
    pub(crate) fn texts(&self) -> usize {
        self.starts.len()
    }

    /// Number of states of one text.
    pub(crate) fn length(&self, text: usize) -> usize {
        self.frozen.length(&self.read.tokens[text])
    }

    /// Tokens at the start of each text that are not pooled.
    pub(crate) fn skip(&self) -> usize {
        self.read.skip
    }

    /// Token ids of one text.
    pub(crate) fn tokens(&self, text: usize) -> &[u32] {
        &self.read.tokens[text]
    }

    /// `[states, dim]` of one text, written over `out`.
    fn read(&self, text: usize, out: &mut [f32]) -> candle_core::Result<()> {
        let mut states = vec![f16::ZERO; out.len()];
        match self.starts[text] {
            Some(start) => {
                let read = self.file.read_exact_at(bytemuck::cast_slice_mut(&mut states), start);
                read.map_err(candle_core::Error::from)?;
            }
            None => states = half(&self.frozen.states(self.read, &[text])?),
        }
        states.convert_to_f32_slice(out);
        Ok(())
    }

    /// A padded batch `[texts, longest, dim]` f32 in main memory, padding zero, with the lengths.
    pub(crate) fn padded(&self, texts: &[usize]) -> candle_core::Result<(Tensor, Vec<usize>)> {
        let lengths: Vec<usize> = texts.iter().map(|&t| self.length(t)).collect();
        let longest = lengths.iter().copied().max().unwrap_or(0);
        let mut flat = vec![0f32; texts.len() * longest * self.frozen.dim];
        for ((row, &text), &length) in
            flat.chunks_exact_mut(longest * self.frozen.dim).zip(texts).zip(&lengths)
        {
            self.read(text, &mut row[..length * self.frozen.dim])?;
        }
        let batch = Tensor::from_vec(flat, (texts.len(), longest, self.frozen.dim), &Device::Cpu)?;
        Ok((batch, lengths))
    }

    /// The texts concatenated, without padding.
    pub(crate) fn packed(&self, texts: &[usize]) -> candle_core::Result<PackedHidden> {
        let lengths: Vec<usize> = texts.iter().map(|&t| self.length(t)).collect();
        let mut values = vec![0f32; lengths.iter().sum::<usize>() * self.frozen.dim];
        let mut rest = values.as_mut_slice();
        for (&text, &length) in texts.iter().zip(&lengths) {
            let (row, head) = rest.split_at_mut(length * self.frozen.dim);
            self.read(text, row)?;
            rest = head;
        }
        Ok(PackedHidden { values, lengths })
    }
}

impl CachePlace {
    fn dir(&self) -> &Path {
        match self {
            Self::Nameless(dir) | Self::Kept { dir, .. } => dir,
        }
    }
}

fn cache_error(dir: &Path, source: io::Error) -> Error {
    TrainError::Cache { dir: dir.to_owned(), source }.into()
}

/// Runs the frozen layers and writes each text's states to their place.
fn fill(
    file: &File,
    frozen: &Frozen,
    (read, fitting): (Read<'_>, usize),
    starts: &[Option<u64>],
    dir: &Path,
    on_progress: &mut OnProgress<'_>,
) -> Result<()> {
    let tokens = &read.tokens[..fitting];
    let mut done = 0;
    for round in micro_batches(tokens, TOKENS_PER_BATCH).chunks(BATCHES_PER_ROUND) {
        round.par_iter().try_for_each(|batch| -> Result<()> {
            let states = half(&frozen.states(read, batch).map_err(ModelError::from)?);
            let mut rest = states.as_slice();
            for &text in batch {
                let (own, head) = rest.split_at(frozen.length(&tokens[text]) * frozen.dim);
                rest = head;
                if let Some(start) = starts[text] {
                    let written = file.write_all_at(bytemuck::cast_slice(own), start);
                    written.map_err(|source| cache_error(dir, source))?;
                }
            }
            Ok(())
        })?;
        done += round.iter().map(Vec::len).sum::<usize>();
        Progress::new(Stage::FrozenLayers, done, tokens.len()).tell(on_progress, Error::Cancelled)?;
    }
    Ok(())
}

/// The trailer of a kept file: a mark and the CRC-32 of everything before it.
const SEAL: [u8; 4] = *b"EHIS";
const BYTES_PER_READ: usize = 1 << 20;

fn checksum(file: &File, end: u64) -> io::Result<u32> {
    let mut crc = crc32fast::Hasher::new();
    let mut buffer = vec![0; BYTES_PER_READ];
    let mut at = 0;
    while at < end {
        let part = (end - at).min(BYTES_PER_READ as u64) as usize;
        file.read_exact_at(&mut buffer[..part], at)?;
        crc.update(&buffer[..part]);
        at += part as u64;
    }
    Ok(crc.finalize())
}

fn seal(file: &File, end: u64) -> io::Result<()> {
    let crc = checksum(file, end)?;
    file.write_all_at(&[SEAL, crc.to_le_bytes()].concat(), end)?;
    file.sync_all()
}

/// The file of an earlier run, if it is complete; an incomplete one is recomputed.
fn open_kept(path: &Path, end: u64) -> io::Result<Option<File>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e),
    };
    let mut found = [0; 8];
    let whole = file.metadata()?.len() == end + 8 && file.read_exact_at(&mut found, end).is_ok();
    let expected = [SEAL, checksum(&file, if whole { end } else { 0 })?.to_le_bytes()].concat();
    if whole && found[..] == expected {
        return Ok(Some(file));
    }
    tracing::warn!(path = %path.display(), "cached states are damaged, and are worked out anew");
    Ok(None)
}

fn half(values: &[f32]) -> Vec<f16> {
    let mut half = vec![f16::ZERO; values.len()];
    half.convert_from_f32_slice(values);
    half
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use super::*;
    use crate::model::EncoderPrecision;
    use crate::model::config::Activation;
    use crate::model::random_transformer;
    use crate::model::{PoolingMode, Step};
    use crate::progress::no_progress;

    fn frozen(pooled: bool) -> Frozen {
        let (transformer, _) = random_transformer(Activation::GeluErf, 4);
        let dim = transformer.config.hidden_size;
        Frozen {
            frozen: PackedTransformer::new(&transformer, 1, EncoderPrecision::F32).unwrap(),
            dim,
            pooled: pooled
                .then(|| Arc::new(Pooler::new(vec![PoolingMode::Mean], vec![Step::Normalise], dim, None))),
            second: None,
        }
    }

    fn texts() -> Vec<Vec<u32>> {
        (3..9).map(|n| (1..n).collect()).collect()
    }

    fn rows(cache: &FrozenCache<'_>) -> (Vec<f32>, Vec<usize>) {
        let (batch, lengths) = cache.padded(&[4, 0, 5]).unwrap();
        (batch.flatten_all().unwrap().to_vec1().unwrap(), lengths)
    }

    #[test]
    fn what_does_not_fit_is_run_anew_with_the_same_result() {
        let (frozen, tokens, dir) = (frozen(false), texts(), tempfile::tempdir().unwrap());
        let place = CachePlace::Nameless(dir.path().to_owned());
        let run = |mut budget: u64| {
            let cache = FrozenCache::compute(
                &frozen,
                Read { tokens: &tokens, types: &[], skip: 0 },
                &place,
                &mut budget,
                &mut no_progress,
            )
            .unwrap();
            (rows(&cache), cache.starts.iter().flatten().count())
        };
        let ((all, lengths), cached) = run(u64::MAX);
        let ((none, _), not_cached) = run(0);
        assert_eq!((cached, not_cached), (6, 0));
        assert_eq!(lengths, [6, 2, 7]);
        assert!(all.iter().any(|&x| x != 0.0));
        // A text run alone and in a micro-batch may differ in the last bits before rounding.
        assert!(all.iter().zip(&none).all(|(a, b)| (a - b).abs() <= 2e-3 * a.abs().max(1.0)));
        assert!(std::fs::read_dir(dir.path()).unwrap().next().is_none());
    }

    #[test]
    fn a_kept_file_serves_again_and_a_damaged_one_does_not() {
        let (frozen, tokens, dir) = (frozen(true), texts(), tempfile::tempdir().unwrap());
        let place = CachePlace::Kept { dir: dir.path().to_owned(), name: "states".to_owned() };
        let run = || {
            let mut ran = 0;
            let mut count = |_: Progress| {
                ran += 1;
                ControlFlow::Continue(())
            };
            let cache = FrozenCache::compute(
                &frozen,
                Read { tokens: &tokens, types: &[], skip: 0 },
                &place,
                &mut u64::MAX.clone(),
                &mut count,
            )
            .unwrap();
            (rows(&cache), ran)
        };
        let first = run();
        assert_eq!((first.1, &first.0.1), (1, &vec![1, 1, 1]));
        assert_eq!(run(), (first.0.clone(), 0));
        let path = std::fs::read_dir(dir.path()).unwrap().next().unwrap().unwrap().path();
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[10] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(run(), first);
    }
}
