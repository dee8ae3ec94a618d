//! Models whose prompts are given only in their model cards, by published name.
//!
//! `docs/models.md` has the sources. The user's settings override a folder's prompts, which override these.
//! Models fine-tuned from these have other names and get no prompts: they may have been trained without.

use std::path::{Component, Path};

use crate::model::error::ModelError;
use crate::model::files::{self, CARD_FILE};
use crate::model::settings::EncoderSettings;

struct Family {
    /// With their owners, separated by spaces.
    names: &'static str,
    query: &'static str,
    document: &'static str,
}

const FAMILIES: [Family; 4] = [
    Family {
        names: "intfloat/e5-small intfloat/e5-base intfloat/e5-large \
                intfloat/e5-small-v2 intfloat/e5-base-v2 intfloat/e5-large-v2 \
                intfloat/multilingual-e5-small intfloat/multilingual-e5-base intfloat/multilingual-e5-large",
        query: "query: ",
        document: "passage: ",
    },
    Family {
        names: "baai/bge-small-en baai/bge-base-en baai/bge-large-en \
                baai/bge-small-en-v1.5 baai/bge-base-en-v1.5 baai/bge-large-en-v1.5 \
                mixedbread-ai/mxbai-embed-large-v1 mixedbread-ai/mxbai-embed-xsmall-v1",
        query: "Represent this sentence for searching relevant passages: ",
        document: "",
    },
    Family {
        names: "baai/bge-small-zh baai/bge-base-zh baai/bge-large-zh \
                baai/bge-small-zh-v1.5 baai/bge-base-zh-v1.5 baai/bge-large-zh-v1.5",
        query: "\u{4e3a}\u{8fd9}\u{4e2a}\u{53e5}\u{5b50}\u{751f}\u{6210}\u{8868}\u{793a}\u{4ee5}\u{7528}\
                \u{4e8e}\u{68c0}\u{7d22}\u{76f8}\u{5173}\u{6587}\u{7ae0}\u{ff1a}",
        document: "",
    },
    Family {
        names: "nomic-ai/nomic-embed-text-v1 nomic-ai/nomic-embed-text-v1.5 \
                nomic-ai/nomic-embed-text-v1-unsupervised nomic-ai/nomic-embed-text-v1-ablated",
        query: "search_query: ",
        document: "search_document: ",
    },
];

/// The prompts that the card of the model in `dir` gives.
///
/// # Errors
/// Those of reading its card.
pub(super) fn prompts(dir: &Path) -> Result<EncoderSettings, ModelError> {
    let names = names(dir)?;
    let family = FAMILIES.iter().find(|family| names.iter().any(|name| family.has(name)));
    let prompt = |text: fn(&Family) -> &'static str| {
        family.map(text).filter(|text| !text.is_empty()).map(str::to_owned)
    };
    let (query_prompt, document_prompt) = (prompt(|own| own.query), prompt(|own| own.document));
    Ok(EncoderSettings { query_prompt, document_prompt, dim: None })
}

impl Family {
    /// Whether a name, in lower case, is that of one of its models, with or without the owner.
    fn has(&self, name: &str) -> bool {
        self.names.split(' ').filter_map(|own| own.split_once('/')).any(|(owner, bare)| {
            let own = name.strip_prefix(owner).map_or(name, |rest| rest.trim_start_matches(['/', '_', '-']));
            own == bare
        })
    }
}

/// Possible names of the model: from its folder, also in a hub's cache, and from its card.
fn names(dir: &Path) -> Result<Vec<String>, ModelError> {
    let whole = std::fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned());
    let mut names: Vec<String> =
        [dir, &whole].iter().filter_map(|dir| dir.file_name()?.to_str().map(str::to_lowercase)).collect();
    // `models--owner--name/snapshots/hash`
    let cached = whole.components().filter_map(|part| match part {
        Component::Normal(part) => part.to_str()?.strip_prefix("models--"),
        _ => None,
    });
    names.extend(cached.map(|name| name.replace("--", "/").to_lowercase()));
    let card = dir.join(CARD_FILE);
    if card.is_file() {
        const MOST: u64 = 4 << 20;
        let text = files::read(&card, MOST)?;
        names.extend(named(&String::from_utf8_lossy(&text)));
    }
    Ok(names)
}

/// The name of the first entry of `model-index` in a card's front matter.
fn named(card: &str) -> Option<String> {
    let (front, _) = card.strip_prefix("---")?.split_once("\n---")?;
    let (_, index) = front.split_once("\nmodel-index:")?;
    let entry = index.lines().map(str::trim).find(|line| !line.is_empty())?;
    let name = entry.strip_prefix("- name:")?;
    Some(name.trim().trim_matches(['"', '\'']).to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str) -> Option<(&'static str, &'static str)> {
        let family = FAMILIES.iter().find(|family| family.has(&name.to_lowercase()))?;
        Some((family.query, family.document))
    }

    #[test]
    fn names_are_those_of_published_models() {
        let e5 = Some(("query: ", "passage: "));
        for name in ["e5-small-v2", "intfloat/E5-base", "intfloat_multilingual-e5-large"] {
            assert_eq!(of(name), e5, "{name}");
        }
        assert_eq!(of("nomic-ai/nomic-embed-text-v1.5").unwrap().1, "search_document: ");
        assert!(of("BAAI/bge-base-en-v1.5").unwrap().0.starts_with("Represent"));
        for name in ["my-e5-small-v2", "bge-m3", "e5-small-v2-finetuned", "e5", "intfloat/e5-mistral"] {
            assert_eq!(of(name), None, "{name}");
        }
    }

    #[test]
    fn a_card_has_a_name() {
        let card = "---\ntags:\n- mteb\nmodel-index:\n- name: e5-small-v2\n  results:\n---\n# Text\n";
        assert_eq!(named(card).unwrap(), "e5-small-v2");
        assert_eq!(named("# No front matter\nmodel-index:\n- name: x\n"), None);
        assert_eq!(named("---\ntags: x\n---\nmodel-index:\n- name: x\n---\n"), None);
    }
}
