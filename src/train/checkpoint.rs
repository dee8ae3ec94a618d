//! Checkpoints: one file from which a run resumes as if it had never stopped.
//!
//! A refresh depends only on the weights and the random generator at that moment. Both are stored as of the
//! last refresh, and its embeddings, targets and mined negatives are recomputed on resuming. On the CPU this
//! is bit-identical.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use candle_core::Device;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use safetensors::SafeTensors;
use serde::{Deserialize, Serialize};

use super::error::TrainError;
use super::parameters::Weights;
use super::plan::PhaseName;
use super::report::{DevFigures, EpochReport, LoadReport};

/// The file in the directory of checkpoints, safetensors followed by their CRC-32; a new one replaces the
/// previous one.
pub const CHECKPOINT_FILE: &str = "checkpoint.safetensors";

/// Key of the state in the file's metadata.
const STATE: &str = "state";

/// Hex SHA-256 of each input that must match for a run to resume from a checkpoint; the configuration is
/// hashed in its flat form.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    pub config: String,
    pub base: String,
    pub data: String,
}

/// State of the random generator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RngState {
    seed: [u8; 32],
    stream: u64,
    /// Decimal, because JSON numbers do not hold 128 bits.
    word: String,
}

/// The progress of a run, without its tensors.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct RunState {
    pub identity: Identity,
    pub phase: PhaseName,
    /// Finished epochs of this phase.
    pub epoch: usize,
    /// Finished steps of the current epoch.
    pub step_in_epoch: usize,
    /// Finished steps of the joint phase.
    pub step: usize,
    /// Steps that the optimiser has counted.
    pub optimizer_step: i32,
    pub rng: RngState,
    pub rng_at_refresh: RngState,
    pub rng_at_epoch: RngState,
    pub seconds: f64,
    pub before: DevFigures,
    pub epochs: Vec<EpochReport>,
    /// Sums over the current epoch.
    pub sums: EpochReport,
    pub indexer_epochs: Vec<EpochReport>,
    pub loads: Vec<LoadReport>,
}

impl RunState {
    /// A run before its first step.
    pub(crate) fn new(identity: Identity, rng: &ChaCha8Rng) -> Self {
        let at = RngState::of(rng);
        Self { identity, rng: at.clone(), rng_at_refresh: at.clone(), rng_at_epoch: at, ..Self::default() }
    }
}

/// The tensors of a checkpoint.
#[derive(Debug, Default)]
pub(crate) struct Tensors {
    pub now: Weights,
    pub at_start: Weights,
    pub at_refresh: Weights,
    pub first_moment: Weights,
    pub second_moment: Weights,
}

impl RngState {
    pub(crate) fn of(rng: &ChaCha8Rng) -> Self {
        let word = rng.get_word_pos().to_string();
        Self { seed: rng.get_seed(), stream: rng.get_stream(), word }
    }

    pub(crate) fn restore(&self) -> Option<ChaCha8Rng> {
        let mut rng = ChaCha8Rng::from_seed(self.seed);
        rng.set_stream(self.stream);
        rng.set_word_pos(self.word.parse().ok()?);
        Some(rng)
    }
}

fn failed(path: &Path, detail: impl ToString) -> TrainError {
    TrainError::Checkpoint { path: path.to_owned(), detail: detail.to_string() }
}

/// Writes a checkpoint atomically: after a power failure either the new or the previous one is present.
pub(crate) fn write(dir: &Path, state: &RunState, tensors: &Tensors) -> Result<(), TrainError> {
    let path = dir.join(CHECKPOINT_FILE);
    let Tensors { now, at_start, at_refresh, first_moment, second_moment } = tensors;
    let groups = [
        ("now", now),
        ("start", at_start),
        ("refresh", at_refresh),
        ("first", first_moment),
        ("second", second_moment),
    ];
    let named = groups.into_iter().flat_map(|(group, weights)| {
        weights.iter().map(move |(name, tensor)| (format!("{group}/{name}"), tensor))
    });
    let json = serde_json::to_string(state).map_err(|e| failed(&path, e))?;
    let metadata = HashMap::from([(STATE.to_owned(), json)]);
    let mut bytes = safetensors::serialize(named, Some(metadata)).map_err(|e| failed(&path, e))?;
    let crc = crc32fast::hash(&bytes);
    bytes.extend(crc.to_le_bytes());
    let partial = partial_path(&path);
    let store = || -> std::io::Result<()> {
        fs::create_dir_all(dir)?;
        // Removes the rest of an interrupted write. Opening a pipe would block, and a link would be followed.
        match fs::remove_file(&partial) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = File::options().write(true).create_new(true).open(&partial)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        fs::rename(&partial, &path)?;
        File::open(dir)?.sync_all()
    };
    store().map_err(|e| failed(&path, e))
}

/// Reads the checkpoint of a directory, if it has one.
pub(crate) fn read(dir: &Path, identity: &Identity) -> Result<Option<(RunState, Tensors)>, TrainError> {
    let path = dir.join(CHECKPOINT_FILE);
    match fs::metadata(&path) {
        // Opening a pipe would block.
        Ok(found) if !found.is_file() => return Err(failed(&path, "it is not a file")),
        Ok(_) => {}
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(failed(&path, e)),
    }
    let bytes = fs::read(&path).map_err(|e| failed(&path, e))?;
    let sound =
        bytes.split_last_chunk::<4>().filter(|(own, crc)| crc32fast::hash(own).to_le_bytes() == **crc);
    let (bytes, _) = sound.ok_or_else(|| failed(&path, "it is damaged: its checksum is wrong"))?;
    let (_, header) = SafeTensors::read_metadata(bytes).map_err(|e| failed(&path, e))?;
    let json = header.metadata().as_ref().and_then(|m| m.get(STATE));
    let json = json.ok_or_else(|| failed(&path, "it holds no state"))?;
    let state: RunState = serde_json::from_str(json).map_err(|e| failed(&path, e))?;
    for (what, found, expected) in [
        ("options", &state.identity.config, &identity.config),
        ("base model", &state.identity.base, &identity.base),
        ("documents or questions", &state.identity.data, &identity.data),
    ] {
        if found != expected {
            return Err(TrainError::OtherRun { path, what });
        }
    }
    let all = candle_core::safetensors::load_buffer(bytes, &Device::Cpu).map_err(|e| failed(&path, e))?;
    let mut groups: BTreeMap<&str, Weights> = BTreeMap::new();
    for (name, tensor) in &all {
        let (group, name) = name.split_once('/').unwrap_or_default();
        groups.entry(group).or_default().insert(name.to_owned(), tensor.clone());
    }
    let mut group = |name| groups.remove(name).unwrap_or_default();
    let tensors = Tensors {
        now: group("now"),
        at_start: group("start"),
        at_refresh: group("refresh"),
        first_moment: group("first"),
        second_moment: group("second"),
    };
    Ok(Some((state, tensors)))
}

fn partial_path(path: &Path) -> PathBuf {
    path.with_extension("safetensors.partial")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::Rng;

    #[test]
    fn no_changed_byte_is_believed() {
        let dir = tempfile::tempdir().unwrap();
        let identity = || Identity { config: "c".to_owned(), base: "b".to_owned(), data: "d".to_owned() };
        let mut state = RunState::new(identity(), &ChaCha8Rng::seed_from_u64(3));
        state.epoch = 3;
        let mut tensors = Tensors::default();
        tensors.now.insert(
            "w".to_owned(),
            candle_core::Tensor::zeros(4, candle_core::DType::F32, &Device::Cpu).unwrap(),
        );
        write(dir.path(), &state, &tensors).unwrap();
        let (read_back, _) = read(dir.path(), &identity()).unwrap().unwrap();
        assert_eq!(read_back.epoch, 3);
        let path = dir.path().join(CHECKPOINT_FILE);
        let sound = fs::read(&path).unwrap();
        for at in 0..sound.len() {
            let mut bytes = sound.clone();
            bytes[at] ^= 1;
            fs::write(&path, &bytes).unwrap();
            let found = read(dir.path(), &identity());
            assert!(matches!(found, Err(TrainError::Checkpoint { .. })), "byte {at}: {found:?}");
        }
        // Whatever is at the target path is replaced.
        let victim = dir.path().join("victim");
        fs::write(&victim, "kept").unwrap();
        std::os::unix::fs::symlink(&victim, partial_path(&path)).unwrap();
        write(dir.path(), &state, &tensors).unwrap();
        assert_eq!(fs::read(&victim).unwrap(), b"kept");
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(matches!(read(dir.path(), &identity()), Err(TrainError::Checkpoint { .. })));
    }

    #[test]
    fn the_generator_goes_on_where_it_was() {
        let mut rng = ChaCha8Rng::seed_from_u64(9);
        let _: u64 = rng.random();
        let _: u32 = rng.random();
        let state = RngState::of(&rng);
        let state: RngState = serde_json::from_str(&serde_json::to_string(&state).unwrap()).unwrap();
        let mut again = state.restore().unwrap();
        assert_eq!(rng.random::<u64>(), again.random::<u64>());
    }
}
