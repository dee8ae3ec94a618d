//! Setting names in files: groups as objects, or dotted names.

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use super::TrainConfig;
use crate::serialize::Strict;
use crate::train::error::SettingsError;

impl Serialize for TrainConfig {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for TrainConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read(Strict::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// Reads settings; omitted ones have their defaults.
pub(super) fn read(given: Strict) -> Result<TrainConfig, SettingsError> {
    let mut leaves = Vec::new();
    match given.0 {
        Value::Object(map) => flatten("", map, &mut leaves),
        _ => return Err(serde_json::Error::custom("settings are a JSON object").into()),
    }
    let mut whole = serde_json::to_value(TrainConfig::default())?;
    let mut known = Vec::new();
    flatten("", whole.as_object().cloned().unwrap_or_default(), &mut known);
    let is_group = |name: &str| known.iter().any(|(key, _)| key.starts_with(&format!("{name}.")));
    let mut values = BTreeMap::new();
    for (name, value) in leaves {
        if is_group(&name) {
            // An empty group has no effect.
            if value.as_object().is_some_and(Map::is_empty) {
                continue;
            }
            let source = serde_json::Error::custom("a group of settings is a JSON object");
            return Err(SettingsError::Type { name, source });
        }
        if known.iter().all(|(key, _)| *key != name) {
            let last = name.rsplit('.').next();
            let near = known.iter().map(|(key, _)| key).filter(|key| key.rsplit('.').next() == last);
            return Err(SettingsError::Unknown { near: near.cloned().collect(), name });
        }
        if values.insert(name.clone(), value).is_some() {
            return Err(SettingsError::Twice { name });
        }
    }
    // One at a time, so that an error can name its setting.
    let mut config = TrainConfig::default();
    for (name, value) in values {
        if let Some(own) = whole.pointer_mut(&format!("/{}", name.replace('.', "/"))) {
            *own = value;
        }
        let built = TrainConfig::deserialize(&whole);
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
            (r#"{"seed": 3, "seed": 3}"#, "the key `seed` appears twice"),
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
