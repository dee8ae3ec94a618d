#!/usr/bin/env python3
"""A checkpoint of a published architecture at its published size, with random weights, for benches/peers/encode.py.

    python benches/peers/random_encoder.py mpnet-base target/mpnet-base
    python benches/peers/encode.py --model target/mpnet-base --work target/encode-mpnet-base --threads 1

Speed depends on the sizes alone. The tokenizer is that of target/base-model for all of them, so that all read the
same tokens; its ids are within every vocabulary.
"""

import json
import pathlib
import shutil
import sys

import torch
import transformers

ROOT = pathlib.Path(__file__).resolve().parents[2]
# What differs from transformers' own defaults, which are those of the base models.
CONFIGS = {
    "mpnet-base": transformers.MPNetConfig(max_position_embeddings=514),
    "xlm-roberta-base": transformers.XLMRobertaConfig(
        vocab_size=250_002, max_position_embeddings=514, type_vocab_size=1, layer_norm_eps=1e-5
    ),
    "nomic-bert": transformers.NomicBertConfig(),
    "modernbert-base": transformers.ModernBertConfig(),
    # A reranker: one output.
    "minilm-l12-reranker": transformers.BertConfig(
        hidden_size=384, num_hidden_layers=12, num_attention_heads=12, intermediate_size=1536, num_labels=1
    ),
}


def main():
    name, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    torch.manual_seed(1)
    kind = transformers.AutoModelForSequenceClassification if name.endswith("reranker") else transformers.AutoModel
    model = kind.from_config(CONFIGS[name]).eval()
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder, max_shard_size="10GB")
    base = pathlib.Path(sys.argv[3]) if len(sys.argv) > 3 else ROOT / "target/base-model"
    shutil.copy(base / "tokenizer.json", folder)
    if name.endswith("reranker"):
        (folder / "tokenizer_config.json").write_text(json.dumps({"model_max_length": 512}) + "\n")
    else:
        (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 512}) + "\n")
    print(f"{name}: {sum(p.numel() for p in model.parameters()) / 1e6:.0f} M weights in {folder}")


if __name__ == "__main__":
    main()
