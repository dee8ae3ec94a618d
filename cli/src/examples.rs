//! Examples in the help of each command.

pub const TRAIN: &str = r#"Examples:
  ehi train --base target/base-model --data my-data --out my-bundle
  ehi train --base target/base-model --pairs pairs.csv --corpus articles.csv --id key --out my-bundle
  ehi train --base target/base-model --pairs pairs.csv --index my-index --out my-bundle"#;
pub const TRAIN_RERANKER: &str = r#"Examples:
  ehi train-reranker --base target/base-model --data my-data --first-stage my-index --out my-reranker
  ehi train-reranker --base ms-marco-MiniLM-L6-v2 --pairs pairs.csv --index my-index --out my-reranker"#;
pub const CREATE: &str = r#"Examples:
  ehi create --index my-index --model my-bundle
  ehi create --index my-index --model target/base-model
  ehi create --index my-index --model nomic-embed-text-v1.5 --dim 256"#;
pub const MODEL: &str = r#"Examples:
  ehi model target/base-model
  ehi model nomic-embed-text-v1.5 --dim 256 --text "how long does tea steep?""#;
pub const INSERT: &str = r#"Examples:
  ehi insert --index my-index corpus.jsonl.gz
  ehi insert --index my-index --id key --title headline --text summary,body articles.csv
  ehi insert --index my-index --sync my-notes
  echo '{"_id": "1", "title": "Tea", "text": "Steep for three minutes.", "metadata": {"lang": "en"}}' | ehi insert --index my-index -"#;
pub const SEARCH: &str = r#"Examples:
  ehi search --index my-index --k 5 "how long does tea steep?"
  ehi search --index my-index --rerank ms-marco-MiniLM-L6-v2 "how long does tea steep?"
  ehi search --index my-index --mode lexical '+tea "three minutes" -milk'
  ehi search --index my-index --filter '{"lang": "en"}' --json "how long does tea steep?""#;
pub const EXPLAIN: &str = r#"Example:
  ehi explain --index my-index --beam 8 --exact "how long does tea steep?""#;
#[cfg(feature = "explore")]
pub const EXPLORE: &str = r#"Examples:
  ehi explore --index my-index
  ehi explore --index my-index --judge --no-open"#;
pub const LEAVES: &str = r#"Example:
  ehi leaves --index my-index --queries my-data/queries.jsonl"#;
pub const HEALTH: &str = r#"Example:
  ehi health --index my-index --json"#;
pub const GET: &str = r#"Example:
  ehi get --index my-index doc-17"#;
pub const IDS: &str = r#"Example:
  ehi ids --index my-index --filter '{"year": {"$lt": 2010}}'"#;
pub const COUNT: &str = r#"Example:
  ehi count --index my-index --filter '{"lang": "en"}'"#;
pub const EXPORT: &str = r#"Example:
  ehi export --index my-index | gzip > documents.jsonl.gz"#;
pub const DELETE: &str = r#"Examples:
  ehi delete --index my-index doc-17
  ehi delete --index my-index --filter '{"lang": "en"}'"#;
pub const COMPACT: &str = r#"Examples:
  ehi compact --index my-index
  ehi compact --index my-index --lexical english"#;
pub const TUNE: &str = r#"Examples:
  ehi tune --index my-index
  ehi tune --index my-index --queries my-data/queries.jsonl --leaves 500"#;
pub const DISTIL: &str = r#"Examples:
  ehi distil --index my-index
  ehi distil --model my-bundle --data my-data"#;
pub const CALIBRATE: &str = r#"Examples:
  ehi calibrate --index my-index
  ehi calibrate --index my-index --queries my-data/queries.jsonl"#;
pub const JUDGE: &str = r#"Examples:
  ehi judge --index my-index "how long does tea steep?" doc-17
  ehi judge --index my-index --file judgments.csv"#;
pub const JUDGMENTS: &str = r#"Example:
  ehi judgments --index my-index --format csv > judgments.csv"#;
pub const QUESTIONS: &str = r#"Examples:
  ehi questions --index my-index --log on
  ehi questions --index my-index"#;
pub const LEARN: &str = r#"Examples:
  ehi learn --index my-index
  ehi learn --index my-index --pairs clicks.tsv --half-life 90"#;
pub const FUSE: &str = r#"Examples:
  ehi fuse --index my-index
  ehi fuse --index my-index --data my-data"#;
pub const SNAPSHOT: &str = r#"Example:
  ehi snapshot --index my-index my-index-copy"#;
pub const RECOVER: &str = r#"Example:
  ehi recover --index my-index"#;
pub const REPAIR: &str = r#"Example:
  ehi repair --index my-index --model my-bundle"#;
pub const REENCODE: &str = r#"Example:
  ehi reencode --index my-index --model another-bundle"#;
pub const ROLLBACK: &str = r#"Example:
  ehi rollback --index my-index"#;
pub const DROP_PREVIOUS: &str = r#"Example:
  ehi drop-previous --index my-index"#;
pub const STATS: &str = r#"Example:
  ehi stats --index my-index --json"#;
pub const VERIFY: &str = r#"Example:
  ehi verify --index my-index"#;
pub const EVAL: &str = r#"Example:
  ehi eval --index my-index --data my-data --split test --baseline ivf"#;
#[cfg(feature = "mcp")]
pub const MCP: &str = r#"Examples:
  ehi mcp --index my-index --about "Notes on tea and how it is made"
  ehi mcp --index my-index --write"#;
