"""Writes the seeds of the fuzz targets: small sound inputs, one folder for each target.

    python3 fuzz/seeds/make.py
"""

import gzip
import json
import pathlib
import struct

HERE = pathlib.Path(__file__).parent


def write(target, name, content):
    folder = HERE / target
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(content)


def safetensors(tensors):
    header, data = {}, b""
    for name, shape in tensors.items():
        count = 1
        for size in shape:
            count *= size
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + 4 * count]}
        data += b"".join(struct.pack("<f", 1 - 0.3 * (i % 5)) for i in range(count))
    head = json.dumps(header).encode()
    return struct.pack("<Q", len(head)) + head + data


def choice(index, of):
    """How `arbitrary` reads variant `index` of an enum with `of` variants."""
    return struct.pack("<I", (index * 2**32 + of - 1) // of)


DOCUMENTS = b"""{"_id": "a", "title": "Trees", "text": "have leaves", "metadata": {"year": 2020, "tags": ["x", null]}}
{"_id": "b", "text": "\\u00e9\\n", "title": null, "other": [1.5e3, true]}
"""
write("jsonl", "plain", DOCUMENTS)
write("jsonl", "gzip", gzip.compress(DOCUMENTS, mtime=0))
write("jsonl", "mark-and-crlf", b"\xef\xbb\xbf" + DOCUMENTS.replace(b"\n", b"\r\n\r\n"))
write("jsonl", "not-utf8", DOCUMENTS + b"\xff\n" + DOCUMENTS)

write("qrels", "beir", b"query-id\tcorpus-id\tscore\nq1\td1\t1\nq1\td2\t0\nq2\td1\t-2\n")
write("qrels", "trec", b"q1 0 d1 1\nq1 0 d2 0\nq2 0 d1 -2\n")

# The metadata is behind the byte that no JSON has.
write("store_payload", "whole", b'{"title":"T","text":"x"}\xff{"n":[1,-1,0.1,1e300,18446744073709551615]}')
write("store_payload", "null-metadata", b'{"text":""}\xffnull')
write("store_payload", "nested", b'{"text":"x"}\xff' + b"[" * 70 + b"]" * 70)

# Likewise.
write("filter", "operators", b'{"a": 1, "b.c": {"$gte": 2.5, "$lt": 1e3}, "d": {"$in": ["x", null]}}\xff{"a": 1, "b": {"c": 7}, "d": ["x"]}')
write("filter", "joined", b'{"$or": [{"$ids": ["a", "id-1"]}, {"$not": {"e": {"$exists": true}}}], "$nor": [{"f": {"$ne": [1]}}]}\xff{"f": [1]}')

# Six bytes an operation: a put, a flush, a reader, a delete, a snapshot, a reopening.
write("store_operations", "each", bytes([0, 1, 9, 0, 6, 9, 0, 0, 0, 0, 15, 0, 0, 0, 0, 7, 1, 0, 0, 0]) + bytes(number for kind in (14, 13, 12, 11, 15) for number in (kind, 0, 0, 0, 0)))


def field(content):
    return struct.pack("<I", len(content)) + content


# Length and checksum are put before it by the target.
PUT = field(b"id") + field(b'{"text":"x"}') + field(b"null") + struct.pack("<I", 7) + struct.pack("<I4e", 4, 1, -0.5, 0, 2)
write("store_commit", "puts", struct.pack("<I", 2) + PUT + PUT.replace(b"id", b"di") + struct.pack("<I", 0))
write("store_commit", "deletes", struct.pack("<II", 0, 2) + field(b"a") + field("é".encode()))

M, INNER, VOCAB, POSITIONS = 4, 4, 6, 8
CONFIG = {"model_type": "bert", "vocab_size": VOCAB, "hidden_size": M, "num_hidden_layers": 1,
          "num_attention_heads": 2, "intermediate_size": INNER, "max_position_embeddings": POSITIONS,
          "type_vocab_size": 2, "layer_norm_eps": 1e-12, "hidden_act": "gelu",
          "position_embedding_type": "absolute"}
MODULES = [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
           {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]
ENCODER = {"embeddings.word_embeddings.weight": [VOCAB, M], "embeddings.position_embeddings.weight": [POSITIONS, M],
           "embeddings.token_type_embeddings.weight": [2, M], "embeddings.LayerNorm.weight": [M],
           "embeddings.LayerNorm.bias": [M]}
for part, (out, inner) in {"attention.self.query": (M, M), "attention.self.key": (M, M),
                           "attention.self.value": (M, M), "attention.output.dense": (M, M),
                           "intermediate.dense": (INNER, M), "output.dense": (M, INNER)}.items():
    ENCODER[f"encoder.layer.0.{part}.weight"] = [out, inner]
    ENCODER[f"encoder.layer.0.{part}.bias"] = [out]
for part in ["attention.output.LayerNorm", "output.LayerNorm"]:
    ENCODER[f"encoder.layer.0.{part}.weight"] = [M]
    ENCODER[f"encoder.layer.0.{part}.bias"] = [M]
INDEXER = {"levels.0.transform": [M, M], "levels.0.classifier": [M, 2],
           "levels.1.transform": [M + 2, M + 2], "levels.1.classifier": [M + 2, 2]}
MANIFEST = {"format_version": 1, "dim": M, "branching_factor": 2, "height": 2,
            "logit_scale": 20.0, "files": {"config.json": "0" * 64, "model.safetensors": "0" * 64,
                                           "indexer.safetensors": "0" * 64, "tokenizer.json": "0" * 64}}
write("bundle", "manifest", choice(0, 4) + json.dumps(MANIFEST).encode())
for index, (name, content) in enumerate([
    ("config", json.dumps(CONFIG).encode()),
    ("modules", json.dumps(MODULES).encode()),
    ("pooling", b'{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false}'),
    ("sentence-bert", b'{"max_seq_length": 8, "do_lower_case": false}'),
    ("prompts", b'{"prompts": {"query": "a ", "passage": "b "}, "default_prompt_name": "query"}'),
    ("encoder", safetensors(ENCODER)),
    ("indexer", safetensors(INDEXER)),
]):
    write("bundle", name, choice(2, 4) + choice(index, 7) + content)

write("collection", "rows", b"7\tone passage\twith a tab\n8\tanother\r\n\nno tab\n")
write("collection", "qrels", b"1\t0\t7\t1\n1 0 8 2\n2\t0\t7\t0\n")
write("extreme", "labels", b"""{"uid": "a", "title": "Trees", "content": "have leaves"}
{"uid": "b", "title": "", "content": null}
""")
write("extreme", "points", b"""{"uid": "p", "title": "leaves", "target_ind": [0, 2], "target_rel": [1.0, 0.5]}
{"uid": "q", "title": "none"}
{"uid": "r", "title": "all", "target_ind": [1]}
""")

WORDS = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "a": 4, "##a": 5, "b": 6, "-": 7}
TEMPLATE = {"type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [2], "tokens": ["[CLS]"]}}}
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
METASPACE = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True}
ROBERTA = {"type": "RobertaProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2], "trim_offsets": True,
           "add_prefix_space": False}


def added(token, **flags):
    return {"id": 2, "content": token, "single_word": False, "lstrip": False, "rstrip": False,
            "normalized": False, "special": True} | flags


def tokenizer(name, model, normalizer=None, pre_tokenizer=None, post_processor=None, tokens=()):
    write("tokenizer", name, json.dumps({
        "version": "1.0", "added_tokens": list(tokens), "normalizer": normalizer, "pre_tokenizer": pre_tokenizer,
        "post_processor": post_processor, "model": model}).encode())


tokenizer("word-piece", {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                         "max_input_chars_per_word": 100, "vocab": WORDS},
          {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None,
           "lowercase": True}, {"type": "BertPreTokenizer"}, TEMPLATE, [added("[CLS]")])
tokenizer("unigram", {"type": "Unigram", "unk_id": 0, "byte_fallback": False,
                      "vocab": [["<unk>", 0.0], ["\u2581a", -1.5], ["b", -2.0], ["\u2581", -3.0]]},
          {"type": "Sequence", "normalizers": [{"type": "Nmt"}, {"type": "NFKC"},
                                               {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}]},
          {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, METASPACE]}, ROBERTA,
          [added("<mask>", lstrip=True, rstrip=True)])
tokenizer("bpe", {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "",
                  "end_of_word_suffix": "", "fuse_unk": False, "vocab": {"a": 0, "b": 1, "ab": 2, "\u0120": 3},
                  "merges": ["a b"]},
          {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u2581"}, {"type": "Lowercase"},
                                               {"type": "Strip", "strip_left": True, "strip_right": False}]},
          BYTE_LEVEL, {"type": "Sequence", "processors": [BYTE_LEVEL, TEMPLATE]}, [added("b", normalized=True)])
tokenizer("word-level", {"type": "WordLevel", "vocab": WORDS, "unk_token": "[UNK]"},
          {"type": "Precompiled", "precompiled_charsmap": "CAAAAAAAAAAAAAAAYWIA"},
          {"type": "Sequence", "pretokenizers": [
              {"type": "Split", "pattern": {"Regex": "a+(?!b)"}, "behavior": "Isolated", "invert": False},
              {"type": "FixedLength", "length": 3}, {"type": "Digits", "individual_digits": True},
              {"type": "Punctuation", "behavior": "Removed"}, {"type": "CharDelimiterSplit", "delimiter": "x"}]})
