//! Documents as resources: `ehi://document/ID`, with the id percent-encoded. Ids are looked up only in the
//! index.

use std::borrow::Cow;

use ehi::{Document, Index};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use rmcp::ErrorData;
use rmcp::model::{ListResourcesResult, ReadResourceResult, Resource, ResourceContents, ResourceTemplate};
use serde_json::json;

use super::limits::{ANSWER, LISTED, REST, TITLE, failure, json_bytes, start_json};
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

pub fn template() -> ResourceTemplate {
    ResourceTemplate::new(format!("{PREFIX}{{id}}"), "document")
        .with_description(
            "Title and text of a document by its id; of what is longer than some 50 KiB the beginning",
        )
        .with_mime_type("text/plain")
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

/// A document, or the beginning of a long one.
///
/// # Errors
/// A URI that does not name a document, and failures of reading.
pub fn read(index: &Index, given: &str) -> Result<ReadResourceResult, ErrorData> {
    let id = id_of(given)?;
    let Some(document) = index.get(&id).map_err(failed)? else {
        let data = Some(json!({ "uri": given }));
        return Err(ErrorData::resource_not_found("no document has this id", data));
    };
    let body = body(&document);
    let (shown, is_cut) = start_json(&body, ANSWER - REST);
    let mut contents = vec![ResourceContents::text(shown, given)];
    if is_cut {
        let note = format!("[the first {} bytes of {}; the tool `get` reads all]", shown.len(), body.len());
        contents.push(ResourceContents::text(note, given));
    }
    Ok(ReadResourceResult::new(contents))
}

/// The id in a URI.
pub fn id_of(given: &str) -> Result<String, ErrorData> {
    if given.len() > URI {
        return Err(invalid(format!("the URI has more than {URI} bytes, more than that of any document")));
    }
    let Some(id) = given.strip_prefix(PREFIX).filter(|id| !id.contains('?')) else {
        return Err(invalid(format!("a document's URI is {PREFIX} and its id, percent-encoded")));
    };
    let id = percent_decode_str(id).decode_utf8();
    id.map(Cow::into_owned).map_err(|_| invalid("the id in the URI is not UTF-8".to_owned()))
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
        assert_eq!(id_of("ehi://document/a%2fb").ok(), Some("a/b".to_owned()));
        for bad in [
            "file:///etc/passwd",
            "ehi://documents/a",
            "EHI://document/a",
            "ehi://document/%ff",
            "ehi://document/a?offset=1",
            "ehi://document/a?",
        ] {
            assert!(id_of(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_id_comes_back(id in ".*") {
            prop_assert_eq!(id_of(&uri(&id)).ok(), Some(id));
        }
    }
}
