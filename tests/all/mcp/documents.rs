//! Documents, read completely in parts: by `get`, by passages, and as resources.

use ehi::{Document, Index};
use rmcp::model::{PaginatedRequestParams, ReadResourceRequestParams, ResourceContents};
use serde_json::{Value, json};

use super::{Session, error_of};
use crate::program::Flow;

/// An index with these documents.
pub fn with(options: &[&str], documents: Vec<Document>) -> Flow {
    let flow = Flow::with(options);
    let index = Index::open(flow.path("index")).unwrap();
    let summary = index.insert_batch(documents).unwrap();
    assert_eq!(summary.refused, []);
    drop(index);
    flow
}

fn long_text() -> String {
    (0..20_000).map(|number| format!("gene é{number} ")).collect()
}

#[test]
fn a_long_document_is_read_by_parts() {
    let text = long_text();
    let metadata = json!({ "notes": "µ".repeat(5_000), "n": 1 });
    let title = "tree ".repeat(200);
    let document = Document::new("long", &title, &text).with_metadata(metadata.clone());
    let flow = with(&[], vec![document, Document::new("short", "", "leaf")]);
    let session = Session::open(&flow, &[]);
    for (part, whole) in [("text", &text), ("title", &title), ("metadata", &metadata.to_string())] {
        // Odd, so that it falls inside characters.
        for limit in [16_001, 65_536] {
            let (mut read, mut offset) = (String::new(), json!(0));
            while offset != Value::Null {
                let arguments = json!({ "id": "long", "part": part, "offset": offset, "limit": limit });
                let answer = session.call("get", arguments);
                assert_eq!(answer["start"], offset);
                assert_eq!(answer["bytes"], json!(whole.len()));
                assert_eq!(answer["cut"], json!(["title", "metadata"]));
                assert!(answer.to_string().len() < 2 * limit, "the answer is bounded");
                read += answer["content"].as_str().unwrap();
                assert_eq!(answer["end"], json!(read.len()));
                offset = answer["next_offset"].clone();
            }
            assert_eq!(&read, whole);
        }
    }
    // Inside a character: continues from its start.
    let inside = text.find('é').unwrap() + 1;
    let answer = session.call("get", json!({ "id": "long", "offset": inside, "limit": 16 }));
    assert_eq!(answer["start"], json!(inside - 1));
    let answer = session.call("get", json!({ "id": "short" }));
    assert_eq!((&answer["content"], answer.get("next_offset")), (&json!("leaf"), None));
    assert_eq!((answer.get("cut"), answer.get("metadata")), (None, None));
    session.done();
}

#[test]
fn answers_of_long_documents_are_bounded() {
    let document = |number: usize| {
        let text = format!("{} protein {}", "gene cell ".repeat(2_000), long_text());
        Document::new(format!("d{number:02}"), "virus ".repeat(500), text)
            .with_metadata(json!({ "x": "y".repeat(1_900), "n": number }))
    };
    let flow = with(&["--whole"], (0..50).map(document).collect());
    let session = Session::open(&flow, &[]);
    let arguments = |offset: &Value| json!({ "question": "protein", "mode": "lexical", "k": 50, "passage_bytes": 4_000, "offset": offset });
    let (mut offset, mut found, mut calls) = (json!(0), Vec::new(), 0);
    while offset != Value::Null {
        let answer = session.call("search", arguments(&offset));
        assert!(answer.to_string().len() < 80 << 10, "{}", answer.to_string().len());
        for hit in answer["hits"].as_array().unwrap() {
            let passage = hit["passage"].as_str().unwrap();
            assert!(passage.contains("protein") && passage.len() <= 4_000, "{passage}");
            assert_eq!(hit["cut"], json!(["title"]));
            assert!(hit["metadata"]["n"].is_u64());
            found.push(hit["id"].as_str().unwrap().to_owned());
        }
        offset = answer["next_offset"].clone();
        calls += 1;
    }
    found.sort();
    found.dedup();
    assert_eq!((found.len(), calls > 3), (50, true), "{calls} calls");
    let none =
        session.call("search", json!({ "question": "protein", "mode": "lexical", "passage_bytes": 0 }));
    assert!(none["hits"].as_array().unwrap().iter().all(|hit| hit.get("passage").is_none()));
    session.done();
}

#[test]
fn a_hit_shows_where_the_words_of_the_question_are_in_every_mode() {
    let text =
        format!("{} virus cancer virus cancer. {}", "tree leaf ".repeat(900), "space over ".repeat(300));
    let flow = with(&["--whole"], vec![Document::new("a", "", &text)]);
    let session = Session::open(&flow, &[]);
    for mode in ["best", "dense", "lexical", "hybrid"] {
        let answer = session.call("search", json!({ "question": "virus cancer", "mode": mode }));
        let hit = &answer["hits"][0];
        let passage = hit["passage"].as_str().unwrap();
        assert!(passage.contains("virus cancer virus cancer."), "{mode}: {passage}");
        let start = hit["start"].as_u64().unwrap() as usize;
        assert!(start > 8_000 && text[start..].starts_with(passage), "{mode}: {start}");
    }
    session.done();
}

#[test]
fn what_signs_meant_and_why_a_filter_finds_nothing_is_in_the_answer() {
    let documents = [("a", json!("02134")), ("b", json!(90210))];
    let document = |(id, zip)| Document::new(id, "", "tree 機器推論").with_metadata(json!({ "zip": zip }));
    let flow = with(&[], documents.map(document).to_vec());
    let session = Session::open(&flow, &[]);
    for mode in ["best", "lexical", "hybrid"] {
        let asked = json!({ "question": "tree +推論 -leaf at -20", "mode": mode });
        let answer = session.call("search", asked);
        assert_eq!(answer["hits"].as_array().unwrap().len(), 2, "{mode}: {answer}");
        assert_eq!(answer["signs"], "required: 推論; excluded: leaf; read as text: -20", "{mode}");
    }
    let dense = session.call("search", json!({ "question": "+tree", "mode": "dense" }));
    assert!(dense.get("signs").is_none() && dense["notes"].to_string().contains("read as text"), "{dense}");
    let none = session.call("search", json!({ "question": "tree", "filter": { "zip": "90210" } }));
    assert!(none["notes"].to_string().contains("holds numbers and strings"), "{none}");
    session.done();
}

#[test]
fn a_hit_of_an_index_with_passages_shows_the_best_one() {
    let text =
        format!("{} virus cancer virus cancer. {}", "tree leaf ".repeat(300), "space over ".repeat(300));
    let flow = with(&["--passages", "20/5"], vec![Document::new("a", "", &text)]);
    let session = Session::open(&flow, &[]);
    let answer = session.call("search", json!({ "question": "virus cancer" }));
    let hit = &answer["hits"][0];
    let (start, end) = (hit["start"].as_u64().unwrap() as usize, hit["end"].as_u64().unwrap() as usize);
    assert_eq!(hit["passage"], json!(&text[start..end]));
    let program = flow.run("search", &["--json", "virus cancer"]).json();
    let best = &program["hits"][0]["passages"][0];
    assert_eq!((json!(start), json!(end)), (best["start"].clone(), best["end"].clone()));
    assert_eq!(session.call("stats", json!({}))["has_passages"], json!(true));
    session.done();
}

/// Ids that a URI cannot contain unescaped, and one that looks like a path out of the folder.
const IDS: [&str; 8] =
    ["plain-1", "a/b?c#d", "../../etc/passwd", "%2e%2e", "é 漢", "\u{202e}x\u{7f}", "a\nb", "?offset=3"];

#[test]
fn documents_are_resources_whatever_their_ids() {
    let document = |id: &str| Document::new(id, "title", format!("text of {id:?}"));
    let flow = with(&[], IDS.iter().map(|id| document(id)).collect());
    for session in [Session::open(&flow, &[]), Session::discover(&flow, &[])] {
        let Session { runtime, service, .. } = &session;
        let templates = runtime.block_on(service.list_all_resource_templates()).unwrap();
        let templates: Vec<_> = templates.iter().map(|template| template.uri_template.as_str()).collect();
        assert_eq!(templates, ["ehi://document/{id}"]);
        let listed = runtime.block_on(service.list_all_resources()).unwrap();
        let mut ids: Vec<&str> = listed.iter().map(|resource| resource.name.as_str()).collect();
        ids.sort_unstable();
        let mut expected = IDS;
        expected.sort_unstable();
        assert_eq!(ids, expected);
        for resource in &listed {
            assert!(resource.uri.is_ascii() && !resource.uri.contains([' ', '#', '?']), "{}", resource.uri);
            let read = ReadResourceRequestParams::new(&resource.uri);
            let read = runtime.block_on(service.read_resource(read)).unwrap();
            let body = format!("title\n\ntext of {:?}", resource.name);
            let [ResourceContents::TextResourceContents { uri, text, mime_type, .. }] = &read.contents[..]
            else {
                panic!("{read:?}")
            };
            assert_eq!((uri, text), (&resource.uri, &body));
            assert_eq!((mime_type.as_deref(), resource.size), (Some("text/plain"), Some(body.len() as u64)));
        }
        for (uri, code) in [
            ("ehi://document/absent", -32002),
            ("ehi://document/..%2F..%2Fetc%2Fshadow", -32002),
            ("ehi://document/../MANIFEST", -32002),
            ("ehi://document/", -32002),
            ("file:///etc/passwd", -32602),
            ("ehi://document/%zz", -32002),
            ("ehi://document/plain-1?offset=1000", -32602),
            ("ehi://document/plain-1?page=1", -32602),
            ("", -32602),
        ] {
            let error =
                error_of(runtime.block_on(service.read_resource(ReadResourceRequestParams::new(uri))));
            // As the version of 2026-07-28 has it for all.
            let is_new = service.peer_info().unwrap().protocol_version.as_str() >= "2026-07-28";
            assert_eq!(error.code.0, if is_new { -32602 } else { code }, "{uri}: {error:?}");
        }
        session.done();
    }
}

#[test]
fn a_long_resource_says_how_the_rest_is_read() {
    let text = long_text();
    let flow = with(&[], vec![Document::new("a/b", "", &text)]);
    let session = Session::open(&flow, &[]);
    let request = ReadResourceRequestParams::new("ehi://document/a%2Fb");
    let read = session.runtime.block_on(session.service.read_resource(request)).unwrap();
    let texts: Vec<&str> = read
        .contents
        .iter()
        .map(|content| match content {
            ResourceContents::TextResourceContents { text, .. } => text.as_str(),
            other => panic!("{other:?}"),
        })
        .collect();
    let [shown, note] = texts[..] else { panic!("{texts:?}") };
    assert!(text.starts_with(shown) && shown.len() > 10_000 && shown.len() < text.len());
    assert!(note.contains(&format!("the first {} bytes of {}", shown.len(), text.len())), "{note}");
    session.done();
}

#[test]
fn a_list_of_resources_ends_early_in_a_large_index() {
    let document = |number: usize| Document::new(format!("d{number:04}"), "", format!("gene {number}"));
    let flow = with(&[], (0..1_100).map(document).collect());
    let session = Session::open(&flow, &[]);
    let Session { runtime, service, .. } = &session;
    let all = runtime.block_on(service.list_all_resources()).unwrap();
    let names: Vec<_> = all.iter().map(|resource| resource.name.clone()).collect();
    assert_eq!(names, (0..1_000).map(|number| format!("d{number:04}")).collect::<Vec<_>>());
    let own = runtime.block_on(service.list_resources(None)).unwrap().next_cursor.unwrap();
    let page = |cursor: &str| Some(PaginatedRequestParams::default().with_cursor(Some(cursor.to_owned())));
    let second = runtime.block_on(service.list_resources(page(&own))).unwrap();
    assert_eq!(second.resources[0].name, "d0100");
    for cursor in ["x", "1", ":", "x:d0001"] {
        let error = error_of(runtime.block_on(service.list_resources(page(cursor))));
        assert_eq!(error.code.0, -32602, "{cursor}");
    }
    session.done();
}
