use std::path::Path;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const MAX_TOKENS: usize = 128;

fn rules() -> TextRules {
    TextRules { max_tokens: MAX_TOKENS, ..TextRules::default() }
}

/// A tokenizer file with these parts and a vocabulary of single letters, marks and some words.
fn file(edit: impl FnOnce(&mut Value)) -> Value {
    let mut vocab = serde_json::Map::new();
    let words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "word", "##s", "-", ".", "好", "的", "é", "ee"];
    let letters = ('a'..='z').flat_map(|letter| [letter.to_string(), format!("##{letter}")]);
    for (id, word) in words.map(str::to_owned).into_iter().chain(letters).enumerate() {
        vocab.insert(word, json!(id));
    }
    let special = |token: &str, id: u32| json!({"id": token, "ids": [id], "tokens": [token]});
    let mut file = json!({
        "version": "1.0", "truncation": {"max_length": 7, "strategy": "LongestFirst", "stride": 0},
        "padding": null,
        "added_tokens": [{"id": 2, "content": "[CLS]", "single_word": false, "lstrip": false,
            "rstrip": false, "normalized": false, "special": true}],
        "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
            "strip_accents": null, "lowercase": true},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}},
                {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "[SEP]", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"[CLS]": special("[CLS]", 2), "[SEP]": special("[SEP]", 3)}},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100, "vocab": vocab},
    });
    edit(&mut file);
    file
}

fn load(file: &Value) -> Result<TextTokenizer, ModelError> {
    TextTokenizer::from_bytes(file.to_string().as_bytes(), Path::new("a/tokenizer.json"), rules(), 1000)
}

fn refused(edit: impl FnOnce(&mut Value)) -> String {
    match load(&file(edit)) {
        Err(ModelError::Tokenizer { path, message }) => {
            assert_eq!(path, Path::new("a/tokenizer.json"));
            message
        }
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it loaded"),
    }
}

/// The ids of a whole text by the tokenizers library's own reading of the file.
fn reference(file: &Value, text: &str) -> Vec<u32> {
    let mut tokenizer = Tokenizer::from_bytes(file.to_string()).unwrap();
    tokenizer.with_padding(None);
    let cut = tokenizers::TruncationParams { max_length: MAX_TOKENS, ..Default::default() };
    tokenizer.with_truncation(Some(cut)).unwrap();
    tokenizer.encode_fast(text, true).unwrap().get_ids().to_vec()
}

#[test]
fn starts_end_at_words() {
    assert_eq!(start("ab cd", 10), Start::Whole("ab cd"));
    assert_eq!(start("ab cd ef", 4), Start::Chars("ab c"));
    assert_eq!(start("ab cd ef", 6), Start::Words("ab cd"));
    assert_eq!(start("abcdefgh ij", 4), Start::Chars("abcd"));
    // White space in the first half would leave half of what may be read.
    assert_eq!(start("a bcdefgh", 8), Start::Chars("a bcdefg"));
    // A cut inside a character moves to its end.
    assert_eq!(start("\u{e9}\u{e9}\u{e9}", 3), Start::Chars("\u{e9}\u{e9}"));
}

#[test]
fn head_is_longer_than_what_is_read() {
    let tokenizer = load(&file(|_| ())).unwrap();
    let text = "好".repeat(MAX_TOKENS * MOST_BYTES_PER_TOKEN);
    let head = tokenizer.head(&text);
    assert!(head.len() > tokenizer.most && head.len() < tokenizer.most + 5);
    assert_eq!(tokenizer.head("ab"), "ab");
    assert_eq!(tokenizer.encode(head).unwrap(), tokenizer.encode(&text).unwrap());
}

/// No more of a text is processed than the limit allows, whatever its content.
#[test]
fn giant_texts_without_words_cost_little() {
    let file = file(|_| ());
    let tokenizer = load(&file).unwrap();
    for (unit, ids) in [("好", MAX_TOKENS), ("-", MAX_TOKENS), ("x", 3), (" ", 2), ("\u{200b}", 2)] {
        let text = unit.repeat((20 << 20) / unit.len());
        let started = std::time::Instant::now();
        let found = tokenizer.encode(&text).unwrap();
        assert_eq!(found.len(), ids, "{unit:?}");
        assert!(started.elapsed().as_secs() < 5, "{unit:?} took {:?}", started.elapsed());
        // A fiftieth of it gives the same.
        let part = &text[..whole_chars(&text, text.len() / 50)];
        assert_eq!(found, reference(&file, part), "{unit:?}");
    }
}

/// A few bytes of several kinds of text, repeated.
fn texts() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => "[a-z]{1,12} ",
        2 => "[好的]{1,40}",
        2 => "[-.!]{1,40}",
        1 => "[a-z]{90,110}",
        1 => "[\u{e9}\u{fdfa}\u{2019}€]{1,60}",
        1 => "[a-z]{1000,3000}",
    ];
    (prop::collection::vec(piece, 1..60), 1usize..40)
        .prop_map(|(pieces, times)| pieces.concat().repeat(times))
}

proptest! {
    // Texts of up to some megabytes.
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The rule of the module: the text cut off does not change the ids, unless words of thousands of bytes
    /// leave the part that is read with fewer tokens than the model takes.
    #[test]
    fn ids_are_those_of_the_whole_text(text in texts()) {
        let file = file(|_| ());
        let tokenizer = load(&file).unwrap();
        let read = &text[..whole_chars(&text, tokenizer.most - CLEARANCE)];
        if text.len() <= tokenizer.most || reference(&file, read).len() == MAX_TOKENS {
            prop_assert_eq!(tokenizer.encode(&text).unwrap(), reference(&file, &text));
        }
    }

    /// If they do, the ids are those of the part that is read.
    #[test]
    fn ids_of_giant_words_are_those_of_what_is_read(
        words in prop::collection::vec("[a-z]{1000,3000} ", 1..4), times in 1usize..60,
    ) {
        let file = file(|_| ());
        let tokenizer = load(&file).unwrap();
        let text = words.concat().repeat(times);
        let (Start::Whole(read) | Start::Words(read) | Start::Chars(read)) = start(&text, tokenizer.most);
        prop_assert_eq!(tokenizer.encode(&text).unwrap(), reference(&file, read));
    }

    /// The same where the first cut falls anywhere in a text.
    #[test]
    fn ids_do_not_depend_on_where_the_cut_falls(text in texts(), first in CLEARANCE..3 * CLEARANCE) {
        let file = file(|_| ());
        let mut tokenizer = load(&file).unwrap();
        tokenizer.first = first;
        tokenizer.most = 1 << 30;
        prop_assert_eq!(tokenizer.encode(&text).unwrap(), reference(&file, &text));
    }
}

/// Parts of the pipelines that published encoders have.
fn honest() -> Vec<(&'static str, Value)> {
    let regex = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
    let (cls, sep) = (json!(["[CLS]", 2]), json!(["[SEP]", 3]));
    let strip = json!({"type": "Strip", "strip_left": true, "strip_right": true});
    let byte_level =
        json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true});
    let metaspace =
        json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true});
    let squeeze = json!({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "});
    let unigram = json!({"type": "Unigram", "unk_id": 1, "byte_fallback": false, "vocab":
        [["<s>", 0.0], ["<unk>", 0.0], ["▁", -2.0], ["▁word", -3.0], ["s", -4.0], ["word", -3.5],
        ["好", -5.0]]});
    let bpe = json!({"dropout": null, "unk_token": null, "continuing_subword_prefix": "",
        "end_of_word_suffix": "", "fuse_unk": false,
        "vocab": {"w": 0, "o": 1, "r": 2, "d": 3, "s": 4, "Ġ": 5, "wo": 6, "rd": 7, "word": 8,
            "Ġword": 9, "å": 10, "¥": 11, "½": 12},
        "merges": ["#version: 0.2", "w o", "r d", "wo rd", "Ġ word"]});
    let mut pairs = bpe.clone();
    pairs["merges"] = json!([["w", "o"], ["r", "d"], ["wo", "rd"], ["Ġ", "word"]]);
    pairs["type"] = json!("BPE");
    vec![
        ("bert", file(|_| ())),
        (
            "distilbert, without type of the model",
            file(|f| {
                f["model"].as_object_mut().unwrap().remove("type");
            }),
        ),
        (
            "mpnet",
            file(|f| {
                f["post_processor"] = json!({"type": "RobertaProcessing", "sep": sep, "cls": cls,
                "trim_offsets": true, "add_prefix_space": false});
            }),
        ),
        (
            "bert processing and a sequence",
            file(|f| {
                f["post_processor"] = json!({"type": "Sequence", "processors": [byte_level,
                {"type": "BertProcessing", "sep": sep, "cls": cls}]});
                f["normalizer"] = json!({"type": "Sequence", "normalizers": [{"type": "NFKD"},
                {"type": "Lowercase"}, {"type": "StripAccents"},
                {"type": "Sequence", "normalizers": [strip]}]});
                f["pre_tokenizer"] = json!({"type": "Sequence", "pretokenizers": [
                {"type": "Whitespace"}, {"type": "Punctuation", "behavior": "Isolated"},
                {"type": "Digits", "individual_digits": true}]});
            }),
        ),
        (
            "xlm-r",
            file(|f| {
                f["normalizer"] =
                    json!({"type": "Sequence", "normalizers": [{"type": "Nmt"}, {"type": "NFKC"}, squeeze]});
                f["pre_tokenizer"] =
                    json!({"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, metaspace]});
                f["model"] = unigram.clone();
            }),
        ),
        (
            "albert",
            file(|f| {
                let quotes = json!({"type": "Replace", "pattern": {"String": "``"}, "content": "\""});
                f["normalizer"] = json!({"type": "Sequence", "normalizers": [quotes, {"type": "NFKD"},
                {"type": "StripAccents"}, {"type": "Lowercase"}, squeeze]});
                f["pre_tokenizer"] = metaspace.clone();
                f["model"] = unigram.clone();
            }),
        ),
        (
            "llama",
            file(|f| {
                f["normalizer"] = json!({"type": "Sequence", "normalizers": [
                    {"type": "Prepend", "prepend": "▁"},
                {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]});
                f["pre_tokenizer"] = Value::Null;
                f["model"] = unigram;
            }),
        ),
        (
            "gpt-2",
            file(|f| {
                f["normalizer"] = Value::Null;
                f["pre_tokenizer"] = byte_level.clone();
                f["post_processor"] = byte_level.clone();
                f["model"] = bpe;
            }),
        ),
        (
            "roberta with a split",
            file(|f| {
                f["normalizer"] = json!({"type": "NFC"});
                let split = json!({"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated",
                    "invert": false});
                let mut plain = byte_level.clone();
                plain["use_regex"] = json!(false);
                f["pre_tokenizer"] = json!({"type": "Sequence", "pretokenizers": [split, plain]});
                f["model"] = pairs;
            }),
        ),
        (
            "words",
            file(|f| {
                f["normalizer"] = Value::Null;
                f["model"] =
                    json!({"type": "WordLevel", "vocab": {"[UNK]": 0, "word": 1}, "unk_token": "[UNK]"});
            }),
        ),
    ]
}

/// This module and the tokenizers library read files identically.
#[test]
fn honest_files_give_the_same_ids_as_ever() {
    for (name, file) in honest() {
        let tokenizer = load(&file).unwrap_or_else(|error| panic!("{name}: {error}"));
        let long = "a word ".repeat(9000);
        for text in ["", "word words", "  Two  word's\n好的 ``x'' [CLS] é", &long, "ﷺ-wordsword"] {
            let found = tokenizer.encode(text);
            let expected = reference(&file, text);
            match expected.is_empty() {
                true => assert!(found.is_err(), "{name}"),
                false => assert_eq!(found.unwrap(), expected, "{name}: {:?}", &text[..text.len().min(30)]),
            }
        }
    }
}

#[test]
fn normalizers_that_multiply_a_text_are_refused() {
    let replace = |content: &str| json!({"type": "Replace", "pattern": {"String": "a"}, "content": content});
    let message = refused(|f| {
        f["normalizer"] = json!({"type": "Sequence", "normalizers": vec![replace(&"a".repeat(10)); 12]});
    });
    assert!(message.contains("1000000000000 times"), "{message}");
    // An added token is normalised when the file is read.
    let message = refused(|f| {
        f["normalizer"] = replace(&"a".repeat(500));
        let token = |n| {
            json!({"id": n, "content": format!("{n}{}", "a".repeat(500)), "single_word": false,
            "lstrip": false, "rstrip": false, "normalized": true, "special": false})
        };
        f["added_tokens"] = (0..100).map(token).collect();
    });
    assert!(message.contains("added tokens"), "{message}");
    // Each byte of a text may become an empty match.
    let regex = json!({"type": "Replace", "pattern": {"Regex": "(?=a)|$"}, "content": "b".repeat(600)});
    assert!(refused(|f| f["normalizer"] = regex).contains("1201 times"));
    let prepend = json!({"type": "Prepend", "prepend": "a".repeat(100)});
    assert!(refused(|f| f["normalizer"] = prepend).contains("more than one character"));
    assert!(
        refused(|f| f["normalizer"] = json!({"type": "Sequence",
        "normalizers": vec![json!({"type": "Strip", "strip_left": true, "strip_right": true}); 33]}))
        .contains("more than 32 normalizers")
    );
}

/// An accepted part that multiplies a text reduces the length that is read.
#[test]
fn growth_lowers_what_is_read() {
    let grown = |content: usize| {
        let file = file(|f| {
            f["normalizer"] =
                json!({"type": "Replace", "pattern": {"String": "a"}, "content": "b".repeat(content)});
        });
        load(&file).unwrap()
    };
    let tokenizer = grown(1);
    assert_eq!((tokenizer.first, tokenizer.most), (64 * MAX_TOKENS, 512 * MAX_TOKENS));
    let tokenizer = grown(256);
    assert_eq!((tokenizer.first, tokenizer.most), (16 * MAX_TOKENS, 16 * MAX_TOKENS));
    assert_eq!(tokenizer.encode(&"a".repeat(20 << 20)).unwrap().len(), 3);
}

#[test]
fn post_processors_that_add_too_much_are_refused() {
    let special = json!({"SpecialToken": {"id": "[CLS]", "type_id": 0}});
    let text = json!({"Sequence": {"id": "A", "type_id": 0}});
    let with = |pieces: Vec<Value>| refused(|f| f["post_processor"]["single"] = json!(pieces));
    let message = with([vec![special.clone(); 600], vec![text.clone()]].concat());
    assert!(message.contains("600 special tokens") && message.contains("128"), "{message}");
    assert!(with(vec![text.clone(); 2]).contains("2 places"));
    assert!(with(vec![special.clone()]).contains("0 places"));
    assert!(with(vec![json!({"Sequence": {"id": "B", "type_id": 0}})]).contains("second one"));
    assert!(with(vec![text.clone(), json!({"SpecialToken": {"id": "[X]", "type_id": 0}})]).contains("`[X]`"));
    let message = refused(|f| f["post_processor"]["special_tokens"]["[CLS]"]["tokens"] = json!([]));
    assert!(message.contains("1 ids and 0 tokens"), "{message}");
    let message = refused(|f| {
        let template = f["post_processor"].clone();
        f["post_processor"] = json!({"type": "Sequence", "processors": [template, template]});
    });
    assert!(message.contains("more than one post-processor"), "{message}");
    // The type and the shape disagree, and the library goes by the shape.
    let message = refused(|f| f["post_processor"]["type"] = json!("ByteLevel"));
    assert!(message.contains("which is not known") || message.contains("has no setting"), "{message}");
}

#[test]
fn parts_that_would_panic_or_hang_are_refused() {
    type Edit = fn(&mut Value);
    let cases: [(&str, Edit); 14] = [
        ("length of a FixedLength", |f| f["pre_tokenizer"] = json!({"type": "FixedLength", "length": 0})),
        ("write the text anew", |f| {
            let part = json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true});
            f["pre_tokenizer"] = json!({"type": "Sequence", "pretokenizers": [part, part, part]});
        }),
        ("character map", |f| {
            f["normalizer"] = json!({"type": "Precompiled", "precompiled_charsmap": "AAAA"})
        }),
        ("normalizer: data did not match", |f| f["normalizer"] = json!({"type": "Replacement"})),
        ("type is `\"Replacement\"`, which is not known", |f| {
            f["normalizer"] = json!({"type": "Replacement", "pattern": {"String": "a"}, "content": "b"});
        }),
        ("no setting `strip_all`", |f| {
            f["normalizer"] =
                json!({"type": "Strip", "strip_left": true, "strip_right": true, "strip_all": true});
        }),
        ("more than 32 patterns", |f| {
            let part = json!({"type": "Replace", "pattern": {"Regex": "a"}, "content": "a"});
            f["normalizer"] = json!({"type": "Sequence", "normalizers": vec![part; 33]});
        }),
        ("max_input_chars_per_word", |f| f["model"]["max_input_chars_per_word"] = json!(1u64 << 40)),
        ("continuing_subword_prefix has", |f| {
            f["model"]["continuing_subword_prefix"] = json!("#".repeat(1 << 20))
        }),
        ("an entry of", |f| f["model"]["vocab"]["x".repeat(1 << 20)] = json!(4)),
        ("not one of a model `CharLevel`", |f| f["model"]["type"] = json!("CharLevel")),
        ("not one of a model `Unigram`", |f| f["model"]["type"] = json!("Unigram")),
        ("makes no entry", |f| {
            f["model"] = json!({"type": "BPE", "vocab": {"aa": 0, "bb": 1}, "merges": [["aa", "bb"]]});
        }),
        ("dropout", |f| {
            f["model"] = json!({"type": "BPE", "dropout": 0.5, "vocab": {"a": 0}, "merges": []});
        }),
    ];
    for (expected, edit) in cases {
        let message = refused(edit);
        assert!(message.contains(expected), "{expected}: {message}");
    }
    // A prefix longer than the right part, and one that ends inside a character.
    for (prefix, right) in [("##", "b"), ("#", "é")] {
        let message = refused(|f| {
            f["model"] = json!({"type": "BPE", "vocab": {"a": 0, "b": 1, "é": 2}, "merges": [["a", right]],
                "continuing_subword_prefix": prefix});
        });
        assert!(message.contains("makes no entry"), "{message}");
    }
    assert!(refused(|f| f["version"] = json!("2.0")).contains("version"));
}

/// A deep or large value is refused while reading, at any place.
#[test]
fn large_and_deep_parts_are_refused() {
    let message = refused(|f| f["normalizer"] = json!(vec![Value::Null; 300_000]));
    assert!(message.contains("at most 1048576 are read"), "{message}");
    let whole = file(|f| f["normalizer"] = Value::Null).to_string();
    for deep in ["[".repeat(100_000), format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000))] {
        let text = whole.replace("\"normalizer\":null", &format!("\"normalizer\":{deep}"));
        assert_ne!(text, whole);
        assert!(TextTokenizer::from_bytes(text.as_bytes(), Path::new(""), rules(), 9).is_err());
    }
    let twice = whole.replace("\"normalizer\":null", "\"normalizer\":null,\"normalizer\":{\"type\":\"NFC\"}");
    let error = TextTokenizer::from_bytes(twice.as_bytes(), Path::new(""), rules(), 9).err().unwrap();
    assert!(error.to_string().contains("duplicate field"), "{error}");
}

/// Ids that the encoder has no row for, and no ids at all, are errors of the text.
#[test]
fn ids_are_checked_before_the_encoder_gets_them() {
    let file = file(|f| f["model"]["vocab"]["word"] = json!(5000));
    let error = load(&file).unwrap().encode("a word").unwrap_err();
    assert!(error.to_string().contains("token id 5000"), "{error}");
}

/// Pointers to all values of a file.
fn pointers(value: &Value) -> Vec<String> {
    let mut found = vec![String::new()];
    match value {
        Value::Array(values) => {
            for (place, value) in values.iter().enumerate() {
                found.extend(pointers(value).into_iter().map(|rest| format!("/{place}{rest}")));
            }
        }
        Value::Object(fields) => {
            for (name, value) in fields {
                let name = name.replace('~', "~0").replace('/', "~1");
                found.extend(pointers(value).into_iter().map(|rest| format!("/{name}{rest}")));
            }
        }
        _ => {}
    }
    found
}

proptest! {
    /// Values of valid files swapped with others: either refused or usable, never an uncaught panic or
    /// unbounded memory or time.
    #[test]
    fn shuffled_files_are_refused_or_of_use(
        which: prop::sample::Index,
        edits in prop::collection::vec(any::<[prop::sample::Index; 3]>(), 1..6),
    ) {
        let files: Vec<Value> = honest().into_iter().map(|(_, file)| file).collect();
        let odd = [json!(null), json!(0), json!(-1), json!(u64::MAX), json!(1e308), json!(""), json!("a"),
            json!(" "), json!([]), json!({}), json!("(a|a|aa)+$"), json!("a".repeat(2000)), json!(true)];
        let mut file = which.get(&files).clone();
        for [from, value, place] in edits {
            let other = from.get(&files);
            let values = pointers(other);
            let value: Value = match value.index(values.len() + odd.len()) {
                n if n < values.len() => other.pointer(&values[n]).unwrap().clone(),
                n => odd[n - values.len()].clone(),
            };
            // Parts are picked as often as vocabulary words.
            let places: Vec<String> = pointers(&file).into_iter().filter(|p| !p.contains("/vocab/")).collect();
            *file.pointer_mut(&places[place.index(places.len())]).unwrap() = value;
        }
        let Some(encode) = fuzz_tokenizer(file.to_string().as_bytes(), MAX_TOKENS) else { return Ok(()) };
        let long = ["\u{597d}", "-", "a", " ", "a b", "\u{fdfa}", "[CLS]"].map(|unit| unit.repeat(5000));
        let short = ["", "a word", "  A-\u{e9}\u{301} [CLS]\n"];
        for [ids, of_head] in short.into_iter().chain(long.iter().map(AsRef::as_ref)).filter_map(encode) {
            prop_assert!((1..=MAX_TOKENS).contains(&ids.len()));
            prop_assert_eq!(ids, of_head);
        }
    }
}
