//! Setting names in files: groups as objects, or dotted names.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::{
    DistillationSettings, EncoderSettings, LossSettings, MiningSettings, ScheduleSettings, TrainConfig,
    TreeSettings,
};

use super::choices::QueryEncoderChoice;
use crate::train::error::SettingsError;

/// Reads settings; omitted ones have their defaults.
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
    let known: BTreeMap<String, Value> = known.into_iter().collect();
    let is_group = |name: &str| known.keys().any(|key| key.starts_with(&format!("{name}.")));
    let mut values = BTreeMap::new();
    for (name, value) in leaves {
        if is_group(&name) {
            // An empty group has no effect.
            match value.as_object().is_some_and(Map::is_empty) {
                true => continue,
                false => return Err(no_group(name)),
            }
        }
        if !known.contains_key(&name) {
            let last = name.rsplit('.').next().unwrap_or_default();
            let in_group = |key: &&String| key.rsplit('.').next() == Some(last);
            return Err(SettingsError::Unknown {
                near: known.keys().filter(in_group).cloned().collect(),
                name,
            });
        }
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

/// A group whose value is not an object: its type is wrong, not its name.
fn no_group(name: String) -> SettingsError {
    SettingsError::Type { name, source: serde_json::Error::custom("a group of settings is a JSON object") }
}

/// Inserts a value at its dotted name.
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

/// The grouped form only.
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

/// JSON without duplicate names in any object.
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
    use crate::train::{Decay, Init};

    fn parse(json: &str) -> Result<TrainConfig, SettingsError> {
        read(serde_json::from_str(json)?)
    }

    fn refused(json: &str) -> String {
        parse(json).unwrap_err().to_string()
    }

    #[test]
    fn settings_are_read_in_groups_and_by_dotted_names() {
        let mut config = TrainConfig::default();
        config.schedule.epochs = 3;
        config.schedule.decay = Decay::Cosine;
        config.tree.init = Init::Random;
        config.losses.weights.balance = 0.5;
        config.seed = u64::MAX;
        let given = r#"{"schedule": {"epochs": 3, "decay": "cosine"}, "tree": {}, "tree.init": "random",
            "losses": {"weights": {"balance": 0.5}}, "tree.coarse_leaves": 64, "seed": 18446744073709551615}"#;
        assert_eq!(parse(given).unwrap(), config);
        assert_eq!(parse(&serde_json::to_string(&config).unwrap()).unwrap(), config);
    }

    #[test]
    fn what_cannot_be_followed_is_refused_by_name() {
        for (json, said) in [
            (r#"{"epochs": 3}"#, "unknown setting `epochs`; did you mean `schedule.epochs`?"),
            (r#"{"schedule": {"epoch": 3}}"#, "unknown setting `schedule.epoch`"),
            (r#"{"quite_different": 3}"#, "unknown setting `quite_different`"),
            (r#"{"quite": {}}"#, "unknown setting `quite`"),
            (
                r#"{"schedule": {"learning_rate": 1}}"#,
                "did you mean `encoder.learning_rate` or `tree.learning_rate`?",
            ),
            (
                r#"{"schedule.epochs": 3, "schedule": {"epochs": 3}}"#,
                "setting `schedule.epochs` is given twice",
            ),
            (r#"{"seed": 3, "seed": 3}"#, "`seed` is there twice"),
            (r#"{"schedule.epochs": "three"}"#, "setting `schedule.epochs`: invalid type: string"),
            (r#"{"tree": 5}"#, "setting `tree`: a group of settings is a JSON object"),
            (r#"{"tree": [4, 1], "tree.height": 2}"#, "setting `tree`: a group"),
            (r#"{"losses.weights": [1, 1, 1, 1, 1]}"#, "setting `losses.weights`: a group"),
            (r#"{"tree": {"init": "luck"}}"#, "setting `tree.init`: unknown variant `luck`"),
            ("[]", "a JSON object"),
        ] {
            let found = refused(json);
            assert!(found.contains(said), "{json}: {found}");
        }
    }
}
