//! The names of a checkpoint's tensors.

use super::super::config::Family;

/// One scheme of naming and joining tensors in a family's checkpoints.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub word: &'static str,
    pub position: &'static str,
    pub types: &'static str,
    pub embedding_norm: &'static str,
    /// Prefix of a layer's number.
    pub layers: &'static str,
    /// Queries, keys and values: three maps, or one with their stacked rows.
    pub projections: &'static [&'static str],
    pub attention_output: &'static str,
    pub attention_norm: &'static str,
    /// The first step of the feed-forward: one map; if gated, two, the activated one first, or one map with
    /// the stacked rows of both.
    pub inner: &'static [&'static str],
    pub output: &'static str,
    pub output_norm: &'static str,
    pub relative_bias: &'static str,
    pub final_norm: &'static str,
}

impl Family {
    /// The layouts of the family's checkpoints.
    pub(in crate::model) fn layouts(self) -> &'static [Layout] {
        match self {
            Self::Bert => std::slice::from_ref(&BERT),
            Self::DistilBert => std::slice::from_ref(&DISTILBERT),
            Self::MpNet => std::slice::from_ref(&MPNET),
            Self::NomicBert => &NOMIC_BERT,
            Self::ModernBert => std::slice::from_ref(&MODERNBERT),
            Self::Model2vec | Self::StaticEmbedding => &STATIC,
        }
    }
}

const BERT: Layout = Layout {
    word: "embeddings.word_embeddings.weight",
    position: "embeddings.position_embeddings.weight",
    types: "embeddings.token_type_embeddings.weight",
    embedding_norm: "embeddings.LayerNorm",
    layers: "encoder.layer",
    projections: &["attention.self.query", "attention.self.key", "attention.self.value"],
    attention_output: "attention.output.dense",
    attention_norm: "attention.output.LayerNorm",
    inner: &["intermediate.dense"],
    output: "output.dense",
    output_norm: "output.LayerNorm",
    relative_bias: "",
    final_norm: "",
};

const DISTILBERT: Layout = Layout {
    layers: "transformer.layer",
    projections: &["attention.q_lin", "attention.k_lin", "attention.v_lin"],
    attention_output: "attention.out_lin",
    attention_norm: "sa_layer_norm",
    inner: &["ffn.lin1"],
    output: "ffn.lin2",
    output_norm: "output_layer_norm",
    ..BERT
};

const MPNET: Layout = Layout {
    projections: &["attention.attn.q", "attention.attn.k", "attention.attn.v"],
    attention_output: "attention.attn.o",
    attention_norm: "attention.LayerNorm",
    relative_bias: "encoder.relative_attention_bias.weight",
    ..BERT
};

/// The published names, and those of transformers from release 5 on.
static NOMIC_BERT: [Layout; 2] = [
    Layout {
        embedding_norm: "emb_ln",
        layers: "encoder.layers",
        projections: &["attn.Wqkv"],
        attention_output: "attn.out_proj",
        attention_norm: "norm1",
        inner: &["mlp.fc12", "mlp.fc11"],
        output: "mlp.fc2",
        output_norm: "norm2",
        ..BERT
    },
    Layout {
        layers: "layers",
        projections: &["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
        attention_output: "self_attn.o_proj",
        attention_norm: "post_attention_layernorm",
        inner: &["mlp.gate_proj", "mlp.up_proj"],
        output: "mlp.down_proj",
        output_norm: "post_mlp_layernorm",
        ..BERT
    },
];

const MODERNBERT: Layout = Layout {
    word: "embeddings.tok_embeddings.weight",
    position: "",
    types: "",
    embedding_norm: "embeddings.norm",
    layers: "layers",
    projections: &["attn.Wqkv"],
    attention_output: "attn.Wo",
    attention_norm: "attn_norm",
    inner: &["mlp.Wi"],
    output: "mlp.Wo",
    output_norm: "mlp_norm",
    relative_bias: "",
    final_norm: "final_norm",
};

/// model2vec's, and that of sentence-transformers' StaticEmbedding.
const STATIC: [Layout; 2] =
    [Layout { word: "embeddings", ..NO_LAYERS }, Layout { word: "embedding.weight", ..NO_LAYERS }];

const NO_LAYERS: Layout = Layout { position: "", types: "", embedding_norm: "", layers: "", ..BERT };

/// In model2vec's files, each token's row in the table, and the factor of the row.
pub(super) const MAPPING: &str = "mapping";
pub(super) const WEIGHTS: &str = "weights";

/// Names of a static encoder's table, and of the tensors with a number for each token.
pub(in crate::model) const STATIC_TABLES: [&str; 2] = [STATIC[0].word, STATIC[1].word];
pub(in crate::model) const TOKEN_ROWS: [&str; 2] = [MAPPING, WEIGHTS];
