//! Words, phrases and signs in every script, and letters with several forms.

use std::collections::BTreeSet;

use ehi::search::Signs;
use ehi::{Analyzer, Document, Error, Fusion, Index, InputError, Language, SearchRequest};
use serde_json::json;
use tempfile::TempDir;

use crate::program::Flow;
use crate::support::{Shape, bundle};

const SHAPE: Shape = Shape { height: 2 };
const ENGLISH: Analyzer = Analyzer::Stems(Language::English);

/// An index with these texts, half of them in a segment and half in memory.
fn index(analyzer: Analyzer, texts: &[(&str, &str)]) -> (TempDir, Index) {
    let dir = tempfile::tempdir().unwrap();
    let builder = Index::builder().analyzer(analyzer);
    let index = builder.create(dir.path().join("index"), &bundle(SHAPE)).unwrap();
    for (place, (id, text)) in texts.iter().enumerate() {
        index.insert(Document::new(*id, "", *text)).unwrap();
        if place == texts.len() / 2 {
            index.flush().unwrap();
        }
    }
    (dir, index)
}

fn ids(index: &Index, question: &str, request: SearchRequest) -> BTreeSet<String> {
    index.search_with(question, &request.k(100)).unwrap().hits.into_iter().map(|hit| hit.id).collect()
}

fn set(ids: &[&str]) -> BTreeSet<String> {
    ids.iter().map(|id| (*id).to_owned()).collect()
}

/// Asserts the results of each question, in every mode in which signs count.
fn check(texts: &[(&str, &str)], cases: &[(&str, &[&str])]) {
    for analyzer in [Analyzer::Tokens, ENGLISH] {
        let (_dir, index) = index(analyzer, texts);
        for (question, expected) in cases {
            let expected = set(expected);
            assert_eq!(ids(&index, question, SearchRequest::lexical()), expected, "{analyzer}: {question}");
            let signs = Signs::of(question);
            if signs.is_empty() {
                continue;
            }
            for request in [
                SearchRequest::hybrid(Fusion::Convex(0.5)),
                SearchRequest::hybrid(Fusion::Rrf { k: 60.0 }),
                SearchRequest::default(),
            ] {
                let found = ids(&index, question, request);
                assert!(found.is_superset(&expected), "{analyzer}, not by words alone: {question}");
                let required = signs.required.iter().map(|word| (word, true));
                let required = required.chain(signs.phrases.iter().map(|phrase| (phrase, true)));
                let excluded = signs.excluded.iter().chain(&signs.excluded_phrases).map(|own| (own, false));
                for (words, has) in required.chain(excluded) {
                    let holding = ids(&index, &format!("\"{words}\""), SearchRequest::lexical());
                    let fits = found.iter().all(|id| holding.contains(id) == has);
                    assert!(fits, "{analyzer}: {question}: {words}: {found:?}");
                }
            }
        }
        assert!(index.verify().unwrap().is_sound());
    }
}

const SCRIPTS: [(&str, &str); 7] = [
    ("zh", "把機器推論洗成權威事實是危險的"),
    ("zh2", "今天的收據已經驗收"),
    ("ja", "東京都で機械学習を勉強する"),
    ("ko", "한국어 검색이 됩니다"),
    ("th", "ค้นหาภาษาไทย"),
    ("en", "watermark of the paper"),
    ("emoji", "party 🎉🎉 at noon 🐘"),
];

/// After edda#402: a word in a script without spaces is found within a longer run, in whatever form it is
/// searched.
#[test]
fn a_word_within_a_run_is_found_plain_required_and_as_a_phrase() {
    let mut cases: Vec<(String, &str)> = Vec::new();
    for (word, id) in [
        ("推論", "zh"),
        ("驗收", "zh2"),
        ("機械学習", "ja"),
        ("東京", "ja"),
        ("で", "ja"),
        ("검색", "ko"),
        ("国", "none"),
        ("ภาษา", "th"),
        ("ไทย", "th"),
        ("🎉", "emoji"),
        ("🐘", "emoji"),
        ("🐈", "none"),
    ] {
        cases.extend([(word.to_owned(), id), (format!("+{word}"), id), (format!("\"{word}\""), id)]);
    }
    let cases: Vec<(&str, Vec<&str>)> = cases
        .iter()
        .map(|(question, id)| (question.as_str(), if *id == "none" { vec![] } else { vec![*id] }))
        .collect();
    let cases: Vec<(&str, &[&str])> = cases.iter().map(|(question, ids)| (*question, &ids[..])).collect();
    check(&SCRIPTS, &cases);
    check(
        &SCRIPTS,
        &[
            ("機 -推論", &["ja"]),
            ("noon watermark -🎉", &["en"]),
            ("noon watermark -\"🎉🎉\"", &["en"]),
            ("noon watermark -\"🎉🐘\"", &["en", "emoji"]),
            ("검색 어 -됩니다", &[]),
        ],
    );
}

/// After transformers#2666 and sentencepiece#877: some tokenizers use different tokens for a word after a
/// space than for the same word at the start of a text or a line, or after a bracket.
#[test]
fn a_word_is_found_whatever_is_in_front_of_it() {
    let texts = [
        ("start", "tree and leaf"),
        ("middle", "the tree and leaf"),
        ("bracket", "leaf (tree) and"),
        ("line", "a leaf\ntree and"),
        ("quote", "a \u{201c}tree\u{201d}"),
        ("chinese", "推論tree推論"),
        ("none", "leaf"),
    ];
    let all = set(&["start", "middle", "bracket", "line", "quote", "chinese"]);
    let fixtures = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures"));
    for encoder in [
        "architectures/bert",
        "architectures/roberta",
        "architectures/modernbert",
        "architectures/xlm-roberta",
        "static/model2vec-0.10/bytes",
        "static/model2vec-0.10/plain",
    ] {
        let dir = tempfile::tempdir().unwrap();
        let bundle = ehi::Bundle::from_encoder(fixtures.join(encoder)).unwrap();
        let index = Index::create(dir.path().join("index"), &bundle).unwrap();
        index.insert_batch(texts.map(|(id, text)| Document::new(id, "", text))).unwrap();
        for question in ["tree", "+tree", "\"tree\"", "(tree)", "+tree +tree"] {
            let found = ids(&index, question, SearchRequest::lexical());
            assert!(found.is_superset(&all), "{encoder}: {question}: {found:?}");
            assert!(!found.contains("none") || !question.contains(['+', '"']), "{encoder}: {question}");
        }
        assert_eq!(
            ids(&index, "\"leaf tree\"", SearchRequest::lexical()),
            set(&["bracket", "line"]),
            "{encoder}"
        );
        assert_eq!(ids(&index, "leaf -tree", SearchRequest::lexical()), set(&["none"]), "{encoder}");
        assert_eq!(ids(&index, "+推論", SearchRequest::lexical()), set(&["chinese"]), "{encoder}");
    }
}

/// After meilisearch/product#132, typesense#228, typesense#3025 and deja-vu#2897: words within Thai and Khmer
/// sentences, the vowel am in either spelling, and tones that distinguish words.
#[test]
fn thai_and_khmer_words_are_found_within_sentences() {
    let texts = [
        ("eat", "เขากำลังกินข้าว"),
        ("apart", "เขาก\u{e4d}\u{e32}ลังไป"),
        ("white", "สีขาว"),
        ("news", "อ่านข่าว"),
        ("khmer", "វាងាយស្រួលសើចណាស់ក្នុងការទិញថ្នាំគ្រប់ការពិពណ៌នា"),
    ];
    check(
        &texts,
        &[
            ("กิน", &["eat"]),
            ("+ข้าว", &["eat"]),
            ("+ขาว", &["white"]),
            ("\"ข่าว\"", &["news"]),
            ("+กำลัง", &["eat", "apart"]),
            ("+ก\u{e4d}\u{e32}ลัง", &["eat", "apart"]),
            ("+เขา -กิน", &["apart"]),
            ("+ទិញថ្នាំ", &["khmer"]),
            ("\"ទិញថ្នាំ\"", &["khmer"]),
        ],
    );
}

/// After meilisearch#1714 and meilisearch#5015: phrases and excluded words of Chinese names.
#[test]
fn chinese_names_are_required_and_excluded_by_parts() {
    let texts = [
        ("bag", "小化妆包"),
        ("ipad", "Ipad 包"),
        ("1", "招商证券"),
        ("2", "招商证券股份有限公司"),
        ("3", "招商基金管理有限公司"),
        ("5", "招商蛇口"),
        ("6", "招商-平安金融中心"),
        ("7", "招商基金-杭州运河网谷"),
    ];
    check(
        &texts,
        &[
            ("\"化妆\"", &["bag"]),
            ("\"小化妆\"", &["bag"]),
            ("\"化妆包\"", &["bag"]),
            ("\"包\"", &["bag", "ipad"]),
            ("招商 -公司", &["1", "5", "6", "7"]),
            ("\"招商基金\" \"公司\"", &["3"]),
            ("+招商 +公司", &["2", "3"]),
            ("+基金 -杭州", &["3"]),
        ],
    );
}

/// After meilisearch#4162: a document with the word ranks before those that share some of its characters.
#[test]
fn a_document_with_the_word_comes_first() {
    let texts = [
        ("far", "有名な料理の配達と通信販売"),
        ("right", "無観客有料配信イベント定期公演"),
        ("near", "料金は有り、配信は無し"),
    ];
    for analyzer in [Analyzer::Tokens, ENGLISH] {
        let (_dir, index) = index(analyzer, &texts);
        let found = index.search_with("有料配信", &SearchRequest::lexical()).unwrap();
        assert_eq!(found.hits[0].id, "right", "{analyzer}");
    }
}

/// After chroma#1073 and obelisk#76: two syllables within a longer word are enough, also next to other words.
#[test]
fn short_korean_words_are_found_and_required() {
    let texts = [
        ("net", "주요 신흥 4개국 증시 외국인투자자 순매수액"),
        ("other", "주요 도시 목록"),
        ("mixed", "quick 修复 notes"),
        ("quick", "quick notes"),
    ];
    check(
        &texts,
        &[
            ("순매", &["net"]),
            ("+순매", &["net"]),
            ("\"투자자 순매\"", &["net"]),
            ("+주요 +순매", &["net"]),
            ("주요 -순매", &["other"]),
            ("quick +修复", &["mixed"]),
            ("quick -修", &["quick"]),
        ],
    );
}

/// After obelisk#9: names in Latin letters between Chinese characters, without spaces.
#[test]
fn latin_words_next_to_chinese_ones_are_words() {
    let texts = [("log", "步2 重跑gen-itgc后50条悬空引用清零"), ("other", "generation of 51 itgx")];
    check(
        &texts,
        &[
            ("+gen", &["log"]),
            ("+itgc", &["log"]),
            ("\"gen-itgc\"", &["log"]),
            ("+50", &["log"]),
            ("\"50条\"", &["log"]),
            ("+悬空", &["log"]),
        ],
    );
}

/// After claude-mem#3810 and ochakai#717: narrow and small Kana, Bopomofo, and Kana in either width.
#[test]
fn kana_of_every_width_and_bopomofo_are_found() {
    let texts = [
        ("narrow", "開始ﾕｰｻﾞｰ認証完了"),
        ("wide", "開始ユーザー認証"),
        ("small", "開始ㇰㇱ確認完了"),
        ("zhuyin", "注音ㄓㄨㄛ符號"),
    ];
    check(
        &texts,
        &[
            ("+ﾕｰｻﾞｰ", &["narrow", "wide"]),
            ("+ユーザー", &["narrow", "wide"]),
            ("ユーザー", &["narrow", "wide"]),
            ("+ㇰㇱ", &["small"]),
            ("+ㄓㄨ", &["zhuyin"]),
            ("\"ㄨㄛ\" -ユ", &["zhuyin"]),
        ],
    );
}

/// After zotero#2044 and contao#8389: ligatures, wide letters, and invisible characters.
#[test]
fn other_forms_of_letters_find_the_plain_ones_and_the_other_way_round() {
    let texts = [
        ("lig", "amyloid ﬁbrils and eﬃcient ﬂow"),
        ("nolig", "amyloid fibrils and efficient flow"),
        ("shy", "photo\u{ad}synthesis in plants"),
        ("noshy", "photosynthesis in algae"),
        ("nfc", "caf\u{e9} r\u{e9}sum\u{e9}"),
        ("nfd", "cafe\u{301} re\u{301}sume\u{301} again"),
        ("full", "Ｆｕｌｌｗｉｄｔｈ letters １２３"),
        ("zwsp", "zero\u{200b}width space"),
        ("hyph", "SHA\u{2010}1 digest"),
    ];
    check(
        &texts,
        &[
            ("+fibrils", &["lig", "nolig"]),
            ("+ﬁbrils", &["lig", "nolig"]),
            ("\"efficient flow\"", &["lig", "nolig"]),
            ("\"eﬃcient ﬂow\"", &["lig", "nolig"]),
            ("+amyloid -ﬁbrils", &[]),
            ("+photosynthesis", &["shy", "noshy"]),
            ("+photo\u{ad}synthesis", &["shy", "noshy"]),
            ("+r\u{e9}sum\u{e9}", &["nfc", "nfd"]),
            ("+re\u{301}sume\u{301}", &["nfc", "nfd"]),
            ("+fullwidth", &["full"]),
            ("+Ｆｕｌｌｗｉｄｔｈ", &["full"]),
            ("+123", &["full"]),
            ("+zerowidth", &["zwsp"]),
            ("+SHA-1", &["hyph"]),
        ],
    );
    // Stored text is unchanged.
    let (_dir, index) = index(Analyzer::Tokens, &texts);
    for (id, text) in texts {
        assert_eq!(index.get(id).unwrap().unwrap().text, text);
    }
}

const SIGNED: [(&str, &str); 7] = [
    ("stash", "git stash -u saves untracked files"),
    ("cold", "Store the vaccine at a temperature of -20 degrees"),
    ("hot", "Store the vaccine at room temperature"),
    ("budget", "What is the budget, roughly? We spend 100 euros."),
    ("range", "Do 10-20 sets in 2024-2025 at 60-85% of the maximum"),
    ("cpp", "Templates in C++ and C# are compared"),
    ("order", "order 9842 of a Mueller"),
];

/// After qmd#618: a negative number and an option of a program exclude nothing.
#[test]
fn negative_numbers_and_options_do_not_exclude_their_own_answer() {
    let (_dir, index) = index(Analyzer::Tokens, &SIGNED);
    for (question, first, doubtful) in [
        ("vaccine storage at -20 degrees", "cold", "-20"),
        ("git stash -u", "stash", "-u"),
        ("at -0.5% of the maximum", "range", "-0.5%"),
        ("-$100 budget", "budget", "-$100"),
    ] {
        let by_words = index.search_with(question, &SearchRequest::lexical()).unwrap();
        assert_eq!(by_words.hits[0].id, first, "{question}");
        assert_eq!((by_words.signs.as_text.join(" "), by_words.signs.is_empty()), (doubtful.into(), true));
        let hybrid = index.search_with(question, &SearchRequest::hybrid(Fusion::Convex(0.3))).unwrap();
        assert!(hybrid.iter().any(|hit| hit.id == first), "{question}");
    }
    for question in ["10-20 sets", "C++ templates", "2024-2025"] {
        let found = index.search_with(question, &SearchRequest::lexical()).unwrap();
        assert!(!found.is_empty() && found.signs == Signs::default(), "{question}");
    }
}

/// After loupe-php/matcher#30: a number is excluded if that is unambiguous, and the answer says how a
/// question was understood.
#[test]
fn a_number_in_quotes_is_excluded() {
    let (_dir, index) = index(Analyzer::Tokens, &SIGNED);
    assert!(ids(&index, "order Mueller -9842", SearchRequest::lexical()).contains("order"));
    let found = index.search_with("+order Mueller -\"9842\"", &SearchRequest::lexical()).unwrap();
    assert!(found.is_empty());
    assert_eq!(
        (found.signs.required, found.signs.excluded_phrases),
        (vec!["order".into()], vec!["9842".into()])
    );
    // More than one letter may be a word: it is excluded, with a note.
    let found = index.search_with("git stash -untracked", &SearchRequest::lexical()).unwrap();
    assert!(found.iter().all(|hit| hit.id != "stash") && found.signs.excluded == ["untracked"]);
}

/// A search by embeddings alone reads signs as text, and says so; in every other mode they mean the same.
#[test]
fn signs_mean_the_same_in_every_mode_and_are_said() {
    let (dir, index) = index(Analyzer::Tokens, &SIGNED);
    let question = "+vaccine temperature -room";
    for request in [
        SearchRequest::lexical(),
        SearchRequest::hybrid(Fusion::default()),
        SearchRequest::default(),
        SearchRequest::default().exact(),
    ] {
        let explained = index.explain(question, &request, false).unwrap();
        let found: Vec<&str> = explained.hits.iter().map(|hit| hit.hit.id.as_str()).collect();
        assert_eq!(found, ["cold"], "{request:?}");
        assert_eq!(
            (explained.signs.required, explained.signs.excluded),
            (vec!["vaccine".into()], vec!["room".into()])
        );
        assert!(!explained.signs.ignored && explained.hits[0].terms.iter().all(|term| term.weight > 0.0));
    }
    let why_ignored = |index: &Index, question: &str, request: SearchRequest| {
        let found = index.search_with(question, &request).unwrap();
        assert_eq!((found.signs.ignored, found.notes.len()), (true, 1), "{:?}", found.notes);
        found.notes[0].clone()
    };
    let dense = index.search_with(question, &SearchRequest::dense()).unwrap();
    let why = why_ignored(&index, question, SearchRequest::dense());
    assert!(dense.len() == SIGNED.len() && why.contains("mode `dense`"));
    assert!(!index.search_with("vaccine", &SearchRequest::dense()).unwrap().signs.ignored);
    // Signs that cannot be honoured are text in the default mode, and an error in others.
    assert!(why_ignored(&index, "-vaccine", SearchRequest::default()).contains("the question only excludes"));
    let many: String = (0..33).map(|n| format!("+word{n} ")).collect();
    assert!(why_ignored(&index, &many, SearchRequest::default()).contains("more than 32"));
    let excluding = index.search_with("-vaccine", &SearchRequest::hybrid(Fusion::default()));
    assert!(matches!(excluding, Err(Error::Input(InputError::OnlyExclusions))));
    // Without posting lists, words cannot be searched.
    let without = Index::builder().analyzer(None).create(dir.path().join("without"), &bundle(SHAPE)).unwrap();
    without.insert(Document::new("a", "", "the tree")).unwrap();
    assert_eq!(without.search_with("+nothing tree", &SearchRequest::default()).unwrap().len(), 1);
    assert!(
        why_ignored(&without, "+nothing tree", SearchRequest::default()).contains("`ehi compact --lexical`")
    );
}

/// After tantivy#1430: every analyzer finds mathematical signs and currencies, also as required or excluded
/// terms.
#[test]
fn symbols_are_found_and_excluded() {
    check(
        &[
            ("arrow", "alpha → omega"),
            ("plain", "alpha omega"),
            ("dots", "alpha … omega"),
            ("euro", "alpha 5 €"),
        ],
        &[
            ("alpha +→", &["arrow"]),
            ("alpha \"→ omega\"", &["arrow"]),
            ("alpha -→", &["plain", "dots", "euro"]),
            ("alpha +€", &["euro"]),
            ("alpha -\"→\" -€", &["plain", "dots"]),
        ],
    );
    assert!(Signs::of("alpha \"…\"").is_empty());
}

/// Sigma has another form at the end of a word, which capitals do not have.
#[test]
fn greek_words_are_found_in_capitals() {
    check(
        &[("word", "ο λόγος"), ("other", "ο νόμος")],
        &[
            ("+ΛΌΓΟΣ", &["word"]),
            ("ο \"Ο ΛΌΓΟΣ\"", &["word"]),
            ("ο -ΛΌΓΟΣ", &["other"]),
            ("+λόγοσ", &["word"]),
        ],
    );
}

/// Keyboards for Chinese and Japanese type full-width signs.
#[test]
fn full_width_signs_are_signs() {
    let same = [
        ("a ＋京都 －雪", "a +京都 -雪"),
        ("＂respiratory tract＂", "\"respiratory tract\""),
        ("－２０ －＂b c＂", "-２０ -\"b c\""),
    ];
    for (full, plain) in same {
        let (full, plain) = (Signs::of(full), Signs::of(plain));
        assert_eq!(
            (full.to_string().replace('－', "-"), full.is_empty()),
            (plain.to_string(), plain.is_empty())
        );
    }
    check(&[("snow", "京都に雪"), ("rain", "京都に雨"), ("sea", "海に雨")], &[("雨 ＋京都 －雪", &["rain"])]);
}

/// Signs apply to whole documents, and a passage with the word is shown.
#[test]
fn signs_hold_for_documents_with_passages() {
    let dir = tempfile::tempdir().unwrap();
    let builder = Index::builder().passages(12, 0);
    let index = builder.create(dir.path().join("index"), &bundle(SHAPE)).unwrap();
    let long =
        |word: &str| format!("{}{word} {}", "the tree of a leaf. ".repeat(12), "near the path. ".repeat(12));
    index.insert(Document::new("zh", "", long("機器推論"))).unwrap();
    index.insert(Document::new("other", "", long("機械"))).unwrap();
    for request in
        [SearchRequest::lexical(), SearchRequest::hybrid(Fusion::Convex(0.5)), SearchRequest::default()]
    {
        let found = index.search_with("tree +推論", &request.passages(3)).unwrap();
        assert_eq!(found.iter().map(|hit| hit.id.as_str()).collect::<Vec<_>>(), ["zh"]);
        assert_eq!(found.hits[0].passages.len(), 3);
    }
    let shown = index.search_with("推論", &SearchRequest::lexical()).unwrap();
    assert!(shown.hits[0].passage_text().contains("推論"), "{}", shown.hits[0].passage_text());
    assert_eq!(ids(&index, "tree -推論", SearchRequest::default()), set(&["other"]));
}

/// The program reports the meaning of a question's signs, as text and for programs.
#[test]
fn the_program_says_what_signs_meant() {
    let flow = Flow::new();
    flow.insert(30);
    let said = flow.run("search", &["--mode", "hybrid", "tree -leaf \"of the\" at -20"]).ok();
    assert!(said.contains("required: \"of the\"; excluded: leaf; read as text: -20"), "{said}");
    let said = flow.run("explain", &["tree -leaf"]).ok();
    assert!(said.contains("excluded: leaf"), "{said}");
    let found = flow.run("search", &["--json", "+tree -leaf"]).json();
    assert_eq!(found["ranked_by"]["mode"], "hybrid");
    let signs = json!({
        "required": ["tree"], "phrases": [], "excluded": ["leaf"], "excluded_phrases": [], "as_text": [], "ignored": false
    });
    assert_eq!(found["signs"], signs);
    assert_eq!(flow.run("explain", &["--json", "+tree -leaf"]).json()["signs"], signs);
    let dense = flow.run("search", &["--mode", "dense", "+tree"]);
    assert!(dense.err.contains("were read as text") && dense.code == Some(0), "{}", dense.err);
    assert_eq!(flow.run("search", &["--json", "--mode", "dense", "+tree"]).json()["signs"]["ignored"], true);
}
