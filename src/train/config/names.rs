//! The names of the settings in files: grouped as they are now, and flat as older files have them.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::{
    DistillationSettings, EncoderSettings, LossSettings, MiningSettings, ScheduleSettings, TrainConfig,
    TreeSettings,
};

use crate::train::query_encoder::QueryEncoderChoice;

/// Why settings cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// The file cannot be read, is not JSON, or no object; or an object names something twice.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// No setting has this name.
    #[error("unknown setting `{name}`{}", meant(near))]
    Unknown {
        /// The name as given.
        name: String,
        /// Names of settings that differ from it by little.
        near: Vec<String>,
    },
    /// A value of the wrong type.
    #[error("setting `{name}`: {source}")]
    Type {
        /// The setting.
        name: String,
        /// What was found, and what expected.
        source: serde_json::Error,
    },
    /// One setting under two names, an older and a newer one or a long and a short one.
    #[error("setting `{name}` is given twice")]
    Twice {
        /// The setting.
        name: String,
    },
    /// A setting of older versions with a value that this one cannot follow.
    #[error(
        "setting `{name}` was removed, because it brought nothing (docs/experiments.md); it is {found} here, \
         and only 0 is accepted"
    )]
    Removed {
        /// The setting's old name.
        name: &'static str,
        /// Its value.
        found: String,
    },
}

fn meant(near: &[String]) -> String {
    let quoted: Vec<String> = near.iter().map(|name| format!("`{name}`")).collect();
    if quoted.is_empty() { String::new() } else { format!("; did you mean {}?", quoted.join(" or ")) }
}

/// What became of a setting of the flat form.
enum Now {
    /// It has this name.
    Named(&'static str),
    /// It is gone; JSON of the value that turned it off.
    Removed(&'static str),
}

use Now::{Named, Removed};

/// The settings of the flat form, which all files had before settings were grouped, in its order.
const FLAT: [(&str, Now); 46] = [
    ("branching_factor", Named("tree.branching_factor")),
    ("height", Named("tree.height")),
    ("coarse_leaves", Named("tree.coarse_leaves")),
    ("leaves_per_document", Named("tree.leaves_per_document")),
    ("seed", Named("seed")),
    ("epochs", Named("schedule.epochs")),
    ("pairs_per_epoch", Named("schedule.pairs_per_epoch")),
    ("batch_size", Named("schedule.batch_size")),
    ("encoder_learning_rate", Named("encoder.learning_rate")),
    ("indexer_learning_rate", Named("tree.learning_rate")),
    ("weight_decay", Named("encoder.weight_decay")),
    ("warmup_fraction", Named("schedule.warmup_fraction")),
    ("schedule", Named("schedule.decay")),
    ("final_learning_rate_fraction", Named("schedule.final_learning_rate_fraction")),
    ("gradient_clip", Removed("0.0")),
    ("dropout", Removed("0.0")),
    ("precision", Named("encoder.precision")),
    ("loss_weights", Named("losses.weights")),
    ("siamese", Named("losses.siamese")),
    ("siamese_temperature", Named("losses.siamese_temperature")),
    ("margin", Named("losses.margin")),
    ("dissimilarity_threshold", Named("losses.dissimilarity_threshold")),
    ("intra_leaf", Named("losses.intra_leaf")),
    ("refresh_interval", Named("schedule.refresh_interval")),
    ("negatives", Named("mining.negatives")),
    ("mining_beam", Named("mining.beam")),
    ("mining_depth", Named("mining.depth")),
    ("init", Named("tree.init")),
    ("logit_scale", Named("tree.logit_scale")),
    ("init_scale", Named("tree.init_scale")),
    ("transform", Named("tree.transform")),
    ("routing_dim", Named("tree.routing_dim")),
    ("trainable_layers", Named("encoder.trainable_layers")),
    ("train_embeddings", Named("encoder.train_embeddings")),
    ("max_query_tokens", Named("encoder.max_query_tokens")),
    ("max_document_tokens", Named("encoder.max_document_tokens")),
    ("pseudo_pairs_per_pair", Removed("0.0")),
    ("pseudo_sentences", Named("distillation.sentences")),
    ("distilled_texts_per_step", Removed("0")),
    ("distillation_texts", Named("distillation.texts")),
    ("distillation_depth", Named("distillation.depth")),
    ("distillation_temperature", Named("distillation.temperature")),
    ("distillation_positive_share", Named("distillation.positive_share")),
    ("indexer_epochs", Named("schedule.indexer_epochs")),
    ("early_stopping_patience", Named("schedule.early_stopping_patience")),
    ("dev_fraction", Named("dev_fraction")),
];

/// Reads settings in the grouped form, the flat one or both; those that are not named have their default.
pub(super) fn read(given: Strict) -> Result<TrainConfig, SettingsError> {
    let mut leaves = Vec::new();
    match given.0 {
        Value::Object(map) => flatten("", map, &mut leaves),
        _ => return Err(serde_json::Error::custom("settings are a JSON object").into()),
    }
    let mut whole = match serde_json::to_value(TrainConfig::default())? {
        Value::Object(map) => map,
        _ => Map::new(),
    };
    let mut known = Vec::new();
    flatten("", whole.clone(), &mut known);
    let known = known.into_iter().collect();
    let mut values = BTreeMap::new();
    for (given, value) in leaves {
        let Some(name) = current(&given, &value, &known)? else { continue };
        if values.insert(name.clone(), value).is_some() {
            return Err(SettingsError::Twice { name });
        }
    }
    // One at a time, so that an error can name its setting.
    let mut config = TrainConfig::default();
    for (name, value) in values {
        put(&mut whole, &name, value);
        let built = Grouped::deserialize(Value::Object(whole.clone()));
        config = built.map_err(|source| SettingsError::Type { name, source })?;
    }
    Ok(config)
}

/// The flat form of a configuration, in the bytes in which it was written: what tells a checkpoint's run.
pub(crate) fn flat_json(config: &TrainConfig) -> serde_json::Result<String> {
    let grouped = serde_json::to_value(config)?;
    let mut fields = Vec::with_capacity(FLAT.len());
    for (name, now) in &FLAT {
        let value = match now {
            // A value of serde_json would put its fields into another order.
            Named("losses.weights") => serde_json::to_string(&config.losses.weights)?,
            Named(path) => {
                let pointer = format!("/{}", path.replace('.', "/"));
                grouped.pointer(&pointer).unwrap_or(&Value::Null).to_string()
            }
            Removed(off) => (*off).to_owned(),
        };
        fields.push(format!("\"{name}\":{value}"));
    }
    Ok(format!("{{{}}}", fields.join(",")))
}

/// The settings in some groups, each with its dotted name.
fn flatten(group: &str, map: Map<String, Value>, leaves: &mut Vec<(String, Value)>) {
    for (name, value) in map {
        let name = if group.is_empty() { name } else { format!("{group}.{name}") };
        match value {
            Value::Object(map) if !map.is_empty() => flatten(&name, map, leaves),
            value => leaves.push((name, value)),
        }
    }
}

/// The name that a setting has now; `None` where it says nothing, as an empty group does, or a removed
/// setting that is off.
fn current(
    given: &str,
    value: &Value,
    known: &BTreeMap<String, Value>,
) -> Result<Option<String>, SettingsError> {
    if known.contains_key(given) {
        return Ok(Some(given.to_owned()));
    }
    let is_group = |name: &str| known.keys().any(|key| key.starts_with(&format!("{name}.")));
    if is_group(given) && value.as_object().is_some_and(Map::is_empty) {
        return Ok(None);
    }
    for (flat, now) in &FLAT {
        let Some(rest) = given.strip_prefix(flat).filter(|rest| rest.is_empty() || rest.starts_with('.'))
        else {
            continue;
        };
        match now {
            Removed(_) if value.as_f64() == Some(0.0) => return Ok(None),
            Removed(_) => return Err(SettingsError::Removed { name: flat, found: value.to_string() }),
            Named(path) => {
                let name = format!("{path}{rest}");
                if known.contains_key(&name) {
                    return Ok(Some(name));
                }
                if is_group(&name) {
                    return Err(no_group(name));
                }
            }
        }
    }
    if is_group(given) {
        return Err(no_group(given.to_owned()));
    }
    Err(SettingsError::Unknown { name: given.to_owned(), near: near(given, known) })
}

/// A group with a value that is none: its type is wrong, not its name.
fn no_group(name: String) -> SettingsError {
    SettingsError::Type { name, source: serde_json::Error::custom("a group of settings is a JSON object") }
}

/// The settings whose names are nearest to one that is unknown, if any is near.
fn near(given: &str, known: &BTreeMap<String, Value>) -> Vec<String> {
    let last = |name: &str| name.rsplit('.').next().unwrap_or_default().to_owned();
    let mut spellings: Vec<(String, &str)> = Vec::new();
    for name in known.keys() {
        spellings.extend([(name.clone(), name.as_str()), (last(name), name.as_str())]);
    }
    for (flat, now) in &FLAT {
        if let Named(path) = now {
            spellings.push(((*flat).to_owned(), *path));
        }
    }
    let distance = |spelling: &str| edits(given, spelling).min(edits(&last(given), spelling));
    let most = last(given).chars().count().div_ceil(3);
    let least = spellings.iter().map(|(spelling, _)| distance(spelling)).min().unwrap_or(usize::MAX);
    let mut near: Vec<String> = spellings
        .iter()
        .filter(|(spelling, _)| least <= most && distance(spelling) == least)
        .map(|(_, name)| (*name).to_owned())
        .collect();
    near.sort_unstable();
    near.dedup();
    near
}

/// Levenshtein distance: characters to insert, delete or replace.
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, &y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

/// Puts a value where its dotted name says.
fn put(whole: &mut Map<String, Value>, name: &str, value: Value) {
    match name.split_once('.') {
        None => {
            whole.insert(name.to_owned(), value);
        }
        Some((group, rest)) => {
            let group = whole.entry(group).or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(group) = group {
                put(group, rest, value);
            }
        }
    }
}

/// The grouped form alone, read as it is.
#[derive(Deserialize)]
#[serde(remote = "TrainConfig", deny_unknown_fields)]
struct Grouped {
    seed: u64,
    dev_fraction: f64,
    encoder: EncoderSettings,
    tree: TreeSettings,
    schedule: ScheduleSettings,
    losses: LossSettings,
    mining: MiningSettings,
    distillation: DistillationSettings,
    query_encoder: QueryEncoderChoice,
}

impl<'de> Deserialize<'de> for TrainConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read(Strict::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// JSON in which no object has a name twice.
pub(super) struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(Self)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(Strict(value)) = seq.next_element()? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some((name, Strict(value))) = entries.next_entry::<String, Strict>()? {
            if map.contains_key(&name) {
                return Err(A::Error::custom(format_args!("`{name}` is there twice")));
            }
            map.insert(name, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::train::{Decay, Init, TrainReport};

    fn parse(json: &str) -> Result<TrainConfig, SettingsError> {
        read(serde_json::from_str(json)?)
    }

    fn refused(json: &str) -> String {
        parse(json).unwrap_err().to_string()
    }

    /// The default configuration as it was written before settings were grouped, byte for byte.
    const FLAT_DEFAULT: &str = r#"{"branching_factor":null,"height":1,"coarse_leaves":64,"leaves_per_document":1,"seed":0,"epochs":10,"pairs_per_epoch":0,"batch_size":64,"encoder_learning_rate":0.0001,"indexer_learning_rate":0.001,"weight_decay":0.01,"warmup_fraction":0.1,"schedule":"linear","final_learning_rate_fraction":0.1,"gradient_clip":0.0,"dropout":0.0,"precision":"f32","loss_weights":{"siamese":1.0,"indexing":0.8,"intra_leaf":0.2,"balance":0.2,"distillation":0.2},"siamese":"contrastive","siamese_temperature":0.05,"margin":0.3,"dissimilarity_threshold":0.9,"intra_leaf":"triplet","refresh_interval":5,"negatives":"in_batch","mining_beam":4,"mining_depth":64,"init":"kmeans","logit_scale":20.0,"init_scale":20.0,"transform":false,"routing_dim":null,"trainable_layers":1,"train_embeddings":false,"max_query_tokens":64,"max_document_tokens":160,"pseudo_pairs_per_pair":0.0,"pseudo_sentences":1,"distilled_texts_per_step":0,"distillation_texts":100000,"distillation_depth":100,"distillation_temperature":0.05,"distillation_positive_share":0.5,"indexer_epochs":60,"early_stopping_patience":0,"dev_fraction":0.1}"#;

    #[test]
    fn flat_and_grouped_forms_say_the_same() {
        assert_eq!(flat_json(&TrainConfig::default()).unwrap(), FLAT_DEFAULT);
        assert_eq!(parse(FLAT_DEFAULT).unwrap(), TrainConfig::default());
        let flat = r#"{"epochs": 3, "schedule": "cosine", "negatives": "index", "loss_weights": {"balance": 0.5},
            "pseudo_sentences": 2, "coarse_leaves": null, "init": "random", "seed": 18446744073709551615}"#;
        let config = parse(flat).unwrap();
        assert_eq!((config.schedule.epochs, config.schedule.decay), (3, Decay::Cosine));
        assert_eq!((config.tree.coarse_leaves, config.tree.init), (None, Init::Random));
        assert_eq!((config.losses.weights.balance, config.losses.weights.siamese), (0.5, 1.0));
        assert_eq!((config.distillation.sentences, config.seed), (2, u64::MAX));
        let json = serde_json::to_string(&config).unwrap();
        assert_eq!(serde_json::from_str::<TrainConfig>(&json).unwrap(), config);
        assert_eq!(parse(&flat_json(&config).unwrap()).unwrap(), config);
        let grouped = r#"{"schedule": {"epochs": 3, "decay": "cosine"}, "mining.negatives": "index", "tree": {},
            "losses": {"weights": {"balance": 0.5}}, "distillation.sentences": 2, "init": "random",
            "tree.coarse_leaves": null, "seed": 18446744073709551615}"#;
        assert_eq!(parse(grouped).unwrap(), config);
    }

    #[test]
    fn a_report_of_the_flat_form_is_read() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/models/scifact-minilm/training.json");
        let report: TrainReport = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let mut expected = TrainConfig::default();
        (expected.tree.branching_factor, expected.tree.routing_dim) = (Some(518), Some(64));
        assert_eq!(report.config, expected);
    }

    #[test]
    fn what_cannot_be_followed_is_refused_by_name() {
        for (json, said) in [
            (r#"{"epoks": 3}"#, "unknown setting `epoks`; did you mean `schedule.epochs`?"),
            (
                r#"{"schedule": {"epoch": 3}}"#,
                "unknown setting `schedule.epoch`; did you mean `schedule.epochs`?",
            ),
            (r#"{"epochs": {"of": 3}}"#, "unknown setting `epochs.of`"),
            (r#"{"quite_different": 3}"#, "unknown setting `quite_different`"),
            (r#"{"quite": {}}"#, "unknown setting `quite`"),
            (r#"{"distilation_depth": 3}"#, "did you mean `distillation.depth`?"),
            (
                r#"{"schedule": {"learning_rate": 1}}"#,
                "did you mean `encoder.learning_rate` or `tree.learning_rate`?",
            ),
            (r#"{"epochs": 3, "schedule": {"epochs": 3}}"#, "setting `schedule.epochs` is given twice"),
            (r#"{"epochs": 3, "epochs": 3}"#, "`epochs` is there twice"),
            (r#"{"epochs": "three"}"#, "setting `schedule.epochs`: invalid type: string"),
            (r#"{"tree": 5}"#, "setting `tree`: a group of settings is a JSON object"),
            (r#"{"tree": [4, 1], "tree.height": 2}"#, "setting `tree`: a group"),
            (r#"{"encoder": []}"#, "setting `encoder`: a group"),
            (r#"{"loss_weights": [1, 1, 1, 1, 1]}"#, "setting `losses.weights`: a group"),
            (r#"{"tree": {"init": "luck"}}"#, "setting `tree.init`: unknown variant `luck`"),
            ("[]", "a JSON object"),
        ] {
            let found = refused(json);
            assert!(found.contains(said), "{json}: {found}");
        }
    }

    #[test]
    fn removed_settings_are_accepted_where_they_were_off() {
        for name in ["dropout", "gradient_clip", "pseudo_pairs_per_pair", "distilled_texts_per_step"] {
            assert_eq!(parse(&format!("{{\"{name}\": 0}}")).unwrap(), TrainConfig::default());
            let error = parse(&format!("{{\"{name}\": 0.5}}")).unwrap_err();
            assert!(error.to_string().contains("was removed"), "{error}");
            assert!(matches!(error, SettingsError::Removed { name: found, .. } if found == name));
        }
        assert!(matches!(parse(r#"{"dropout": "0"}"#), Err(SettingsError::Removed { .. })));
    }
}
