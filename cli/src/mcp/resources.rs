//! Documents as resources: `ehi://document/ID`, with the id percent-encoded. Ids are looked up only in the
//! index.

use ehi::{Document, Index};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use rmcp::ErrorData;
use rmcp::model::{ListResourcesResult, ReadResourceResult, Resource, ResourceContents, ResourceTemplate};
use serde_json::json;

use super::limits::{ANSWER, LISTED, REST, TITLE, failure, json_bytes, start_json};
use crate::cut::floor;
use crate::failure::Failure;

const PREFIX: &str = "ehi://document/";
/// Bytes of a URI; the URI of the longest id has fewer.
const URI: usize = 2_048;
/// RFC 6570 encodes all but unreserved characters in an expression `{id}`.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Resources of a page of the list, at most.
const PAGE: usize = 100;
/// Documents read at once for a page, and the bytes of documents after which the page ends early.
const READ: usize = 10;
const READ_BYTES: usize = 4 << 20;

/// The URI of a document.
pub fn uri(id: &str) -> String {
    format!("{PREFIX}{}", utf8_percent_encode(id, ENCODED))
}

pub fn templates() -> Vec<ResourceTemplate> {
    let template = |form: &str, name: &str, description: &str| {
        ResourceTemplate::new(format!("{PREFIX}{form}"), name)
            .with_description(description)
            .with_mime_type("text/plain")
    };
    vec![
        template(
            "{id}",
            "document",
            "Title and text of a document by its id, at first the beginning of what is longer than some 50 KiB",
        ),
        template("{id}{?offset}", "document-part", "The same from a byte on, for what is longer"),
    ]
}

/// A page of the documents in byte order of their ids, at most [`LISTED`] in all: clients read such lists to
/// their ends, and `search` finds the documents of a large index.
///
/// A cursor is the number of documents listed before, and the id of the last of them.
///
/// # Errors
/// A malformed cursor, and failures of reading.
pub fn list(index: &Index, cursor: Option<&str>) -> Result<ListResourcesResult, ErrorData> {
    let (mut listed, mut last) = match cursor {
        None => (0, None),
        Some(cursor) => cursor
            .split_once(':')
            .and_then(|(listed, id)| Some((listed.parse().ok()?, Some(id.to_owned()))))
            .ok_or_else(|| invalid("the cursor is not one that `resources/list` gave".to_owned()))?,
    };
    let (mut resources, mut read, mut bytes, mut more) = (Vec::new(), 0, 0, true);
    'page: while more && resources.len() < PAGE && read < READ_BYTES && listed < LISTED {
        let wanted = READ.min(LISTED - listed);
        let documents = index.page(last.as_deref(), wanted).map_err(failed)?;
        more = documents.len() == wanted;
        for document in documents {
            let resource = resource(&document);
            bytes += json_bytes(&resource) + 1;
            if bytes > ANSWER - REST && !resources.is_empty() {
                more = true;
                break 'page;
            }
            resources.push(resource);
            listed += 1;
            read += document.heap_bytes();
            last = Some(document.id);
        }
    }
    let mut result = ListResourcesResult::with_all_items(resources);
    result.next_cursor = last.filter(|_| more && listed < LISTED).map(|id| format!("{listed}:{id}"));
    Ok(result)
}

fn resource(document: &Document) -> Resource {
    let size = body(document).len() as u64;
    let resource =
        Resource::new(uri(&document.id), &document.id).with_mime_type("text/plain").with_size(size);
    match start_json(&document.title, TITLE).0 {
        "" => resource,
        title => resource.with_title(title),
    }
}

/// The content of a document's resource.
fn body(document: &Document) -> String {
    match (document.title.as_str(), document.text.as_str()) {
        ("", text) => text.to_owned(),
        (title, "") => title.to_owned(),
        (title, text) => format!("{title}\n\n{text}"),
    }
}

/// A part of a document. If more follows, a second content gives the URI of the next part.
///
/// # Errors
/// A URI that does not name a document, and failures of reading.
pub fn read(index: &Index, given: &str) -> Result<ReadResourceResult, ErrorData> {
    let (id, offset) = parse(given)?;
    let Some(document) = index.get(&id).map_err(failed)? else {
        let data = Some(json!({ "uri": given }));
        return Err(ErrorData::resource_not_found("no document has this id", data));
    };
    let body = body(&document);
    if offset > body.len() {
        return Err(invalid(format!("the document has {} bytes, `offset` is {offset}", body.len())));
    }
    let from = floor(&body, offset);
    let (part, is_cut) = start_json(&body[from..], ANSWER - REST);
    let mut contents = vec![ResourceContents::text(part, given)];
    if is_cut {
        let end = from + part.len();
        let next = format!("{}?offset={end}", uri(&id));
        let note = format!("[bytes {from} to {end} of {}; {next} has more]", body.len());
        contents.push(ResourceContents::text(note, next));
    }
    Ok(ReadResourceResult::new(contents))
}

/// The id and the offset of a URI.
pub fn parse(given: &str) -> Result<(String, usize), ErrorData> {
    if given.len() > URI {
        return Err(invalid(format!("the URI has more than {URI} bytes, which none of a document has")));
    }
    let Some(rest) = given.strip_prefix(PREFIX) else {
        return Err(invalid(format!("a document's URI is {PREFIX} and its id, percent-encoded")));
    };
    let (id, query) = rest.split_once('?').map_or((rest, None), |(id, query)| (id, Some(query)));
    let offset = match query {
        None => 0,
        Some(query) => query
            .strip_prefix("offset=")
            .and_then(|offset| offset.parse().ok())
            .ok_or_else(|| invalid("behind `?` there may be `offset=BYTES` and nothing else".to_owned()))?,
    };
    match percent_decode_str(id).decode_utf8() {
        Ok(id) => Ok((id.into_owned(), offset)),
        Err(_) => Err(invalid("the id in the URI is not UTF-8".to_owned())),
    }
}

fn invalid(message: String) -> ErrorData {
    ErrorData::invalid_params(message, None)
}

/// The error of a failure of the index.
pub fn failed(own: impl Into<Failure>) -> ErrorData {
    ErrorData::internal_error(failure(&own.into().line()), None)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn uris_are_encoded_as_templates_have_it() {
        assert_eq!(uri("doc-1_a.b~"), "ehi://document/doc-1_a.b~");
        assert_eq!(uri("a/b?c#d %é"), "ehi://document/a%2Fb%3Fc%23d%20%25%C3%A9");
        assert_eq!(parse("ehi://document/a%2fb?offset=7").ok(), Some(("a/b".to_owned(), 7)));
        for bad in [
            "file:///etc/passwd",
            "ehi://documents/a",
            "EHI://document/a",
            "ehi://document/%ff",
            "ehi://document/a?offset=-1",
            "ehi://document/a?offset=1&x=2",
            "ehi://document/a?",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_id_comes_back(id in ".*") {
            prop_assert_eq!(parse(&uri(&id)).ok(), Some((id, 0)));
        }
    }
}
