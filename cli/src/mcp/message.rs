//! A line of the client as a message, or why it is none.

use std::collections::HashSet;
use std::fmt;

use rmcp::RoleServer;
use rmcp::model::{ClientRequest, ErrorCode, JsonRpcMessage, NumberOrString};
use rmcp::service::RxJsonRpcMessage;
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use super::limits::{REQUEST, REQUEST_VALUES};
use super::oversized::{ID, IdScan};

pub type Message = RxJsonRpcMessage<RoleServer>;

/// What an object counts for: its fields take memory in blocks.
const OBJECT: usize = 8;

/// The answer to a line that is no request, or one that is not taken.
#[derive(Debug)]
pub struct Refusal {
    pub id: Option<Value>,
    pub code: ErrorCode,
    pub message: String,
}

impl Refusal {
    fn of(id: Option<Value>, message: impl Into<String>) -> Self {
        Self { id, code: ErrorCode::INVALID_REQUEST, message: message.into() }
    }

    pub fn oversized(id: Option<Value>) -> Self {
        let message = "give fewer or shorter documents at a time";
        Self::of(id, format!("the request has more than {REQUEST} bytes; {message}"))
    }

    pub fn repeated(id: &NumberOrString) -> Self {
        let message = "a request with this id is not answered yet; give each request an id of its own";
        Self::of(Some(id.clone().into_json_value()), message)
    }

    pub fn line(self) -> Vec<u8> {
        let error = json!({ "code": self.code.0, "message": self.message });
        let mut line = json!({ "jsonrpc": "2.0", "id": self.id, "error": error }).to_string();
        line.push('\n');
        line.into_bytes()
    }
}

/// Reads a line; nothing of one that has no answer.
///
/// What is no JSON has an answer only where an id is found in it: without one a client would not know what is
/// answered, and two that answer each other's answers would never end.
pub fn read(line: &[u8]) -> Result<Option<Message>, Refusal> {
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line).trim_ascii();
    if line.is_empty() {
        return Ok(None);
    }
    let id = || {
        let mut scan = IdScan::default();
        scan.read(line);
        scan.id()
    };
    let mut values = 0;
    if let Err(error) = count(line, &mut values) {
        if values > REQUEST_VALUES {
            let most = format!("the request holds more than {REQUEST_VALUES} values");
            return Err(Refusal::of(id(), format!("{most}; give fewer or smaller documents at a time")));
        }
        if error.is_data() {
            return Err(Refusal::of(id(), error.to_string()));
        }
        tracing::warn!(%error, "a line is not JSON");
        let Some(id) = id() else { return Ok(None) };
        let message = format!("the request is not JSON in UTF-8: {error}");
        return Err(Refusal { id: Some(id), code: ErrorCode::PARSE_ERROR, message });
    }
    match serde_json::from_slice::<Message>(line) {
        Ok(JsonRpcMessage::Request(request)) => match &request.id {
            NumberOrString::String(id) if id.len() > ID => {
                Err(Refusal::of(None, format!("the id has more than {ID} bytes")))
            }
            id if is_list(&request.request) && !has_cursor_of_text(line) => Err(Refusal {
                id: Some(id.clone().into_json_value()),
                code: ErrorCode::INVALID_PARAMS,
                message: "`cursor` is a string, or absent".to_owned(),
            }),
            _ => Ok(Some(JsonRpcMessage::Request(request))),
        },
        // Whose id is neither, so that it was read as a notification.
        Ok(JsonRpcMessage::Notification(_)) if head(line).id.is_some() => {
            Err(Refusal::of(id(), "the id is neither a string nor a whole number of 64 bits"))
        }
        Ok(message) => Ok(Some(message)),
        Err(error) => {
            let head = head(line);
            if head.method.is_some() && head.id.is_none() {
                tracing::debug!(%error, "a notification that is not known");
                return Ok(None);
            }
            Err(Refusal::of(id(), "this is no request of JSON-RPC 2.0"))
        }
    }
}

#[derive(Default, Deserialize)]
struct Head {
    #[serde(default)]
    id: Option<IgnoredAny>,
    #[serde(default)]
    method: Option<IgnoredAny>,
}

fn is_list(request: &ClientRequest) -> bool {
    use ClientRequest as Own;
    matches!(
        request,
        Own::ListToolsRequest(_) | Own::ListResourcesRequest(_) | Own::ListResourceTemplatesRequest(_)
    )
}

/// Whether the cursor of a list is a string, or there is none: the protocol's crate drops any other.
fn has_cursor_of_text(line: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Paged {
        params: Option<Value>,
    }
    let paged = serde_json::from_slice::<Paged>(line).ok().and_then(|own| own.params);
    paged.as_ref().and_then(|params| params.get("cursor")).is_none_or(|own| own.is_string() || own.is_null())
}

fn head(line: &[u8]) -> Head {
    // It fails for what is no object.
    serde_json::from_slice(line).unwrap_or_default()
}

/// A JSON text as a value; nothing of one that holds more than a request may.
pub fn parse(text: &[u8]) -> Option<Value> {
    count(text, &mut 0).ok()?;
    serde_json::from_slice(text).ok()
}

/// Counts the values of a JSON text and reads all its strings. A key that appears twice in one object is an
/// error: a reader would keep the last value alone.
fn count(line: &[u8], values: &mut usize) -> serde_json::Result<()> {
    let mut read = serde_json::Deserializer::from_slice(line);
    Count(values).deserialize(&mut read)?;
    read.end()
}

struct Count<'a>(&'a mut usize);

impl Count<'_> {
    fn add<E: Error>(&mut self, count: usize) -> Result<(), E> {
        *self.0 += count;
        if *self.0 > REQUEST_VALUES { Err(E::custom("too many values")) } else { Ok(()) }
    }
}

impl<'de> DeserializeSeed<'de> for Count<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Count<'_> {
    type Value = ();

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("JSON")
    }

    fn visit_bool<E: Error>(mut self, _: bool) -> Result<(), E> {
        self.add(1)
    }

    fn visit_i64<E: Error>(mut self, _: i64) -> Result<(), E> {
        self.add(1)
    }

    fn visit_u64<E: Error>(mut self, _: u64) -> Result<(), E> {
        self.add(1)
    }

    fn visit_f64<E: Error>(mut self, _: f64) -> Result<(), E> {
        self.add(1)
    }

    fn visit_str<E: Error>(mut self, _: &str) -> Result<(), E> {
        self.add(1)
    }

    fn visit_unit<E: Error>(mut self) -> Result<(), E> {
        self.add(1)
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<(), A::Error> {
        self.add(1)?;
        while items.next_element_seed(Count(self.0))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut fields: A) -> Result<(), A::Error> {
        self.add(OBJECT)?;
        let mut names = HashSet::new();
        while let Some(name) = fields.next_key::<String>()? {
            self.add(1)?;
            if names.contains(&name) {
                let message =
                    format_args!("the key `{name}` appears twice in one object; remove one of them");
                return Err(A::Error::custom(message));
            }
            names.insert(name);
            fields.next_value_seed(Count(self.0))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(line: &str) -> (Option<Value>, i32) {
        let refusal = read(line.as_bytes()).unwrap_err();
        (refusal.id, refusal.code.0)
    }

    #[test]
    fn what_is_no_json_is_answered_where_it_has_an_id() {
        let call = |id: &str, rest: &str| {
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping","params":{{"a":{rest}}}}}"#)
        };
        assert!(read(call("1", "[1,null,true,1.5,\"x\",{}]").as_bytes()).unwrap().is_some());
        assert_eq!(refused(&call("7", r#""half an emoji \ud83d""#)), (Some(json!(7)), -32700));
        assert_eq!(refused(&call(r#""a""#, "1,,")), (Some(json!("a")), -32700));
        assert_eq!(refused(&call("7", &"[".repeat(1_000))), (Some(json!(7)), -32700));
        let refusal = read(b"{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"\xff\"}").unwrap_err();
        assert_eq!((refusal.id, refusal.code.0), (Some(json!(3)), -32700));
        for quiet in ["", " \r", "{", "gene", "\u{feff}", "{}}", r#"{"jsonrpc":"2.0","method":"$/x"}"#] {
            assert!(
                !matches!(read(quiet.as_bytes()), Err(_) | Ok(Some(JsonRpcMessage::Request(_)))),
                "{quiet}"
            );
        }
    }

    #[test]
    fn what_is_no_request_is_refused() {
        for line in ["[]", "null", "1", "{}", r#"{"id":null}"#] {
            assert_eq!(refused(line), (None, -32600), "{line}");
        }
        for id in ["1.5", "[]", "true", "18446744073709551616"] {
            let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
            assert_eq!(refused(&line).1, -32600, "{line}");
        }
        let long = format!(r#"{{"jsonrpc":"2.0","id":"{}","method":"ping"}}"#, "x".repeat(ID + 1));
        assert_eq!(refused(&long), (None, -32600));
    }

    #[test]
    fn the_values_of_a_request_are_bounded() {
        let of = |what: &str, count: usize| {
            let values = vec![what; count].join(",");
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"x","params":{{"a":[{values}]}}}}"#)
        };
        assert!(read(of("[]", REQUEST_VALUES - 100).as_bytes()).unwrap().is_some());
        assert_eq!(refused(&of("[]", REQUEST_VALUES)), (Some(json!(1)), -32600));
        assert_eq!(refused(&of("{}", REQUEST_VALUES / OBJECT)), (Some(json!(1)), -32600));
        // A thousand documents with much of metadata are fewer.
        let field = |number: usize| format!(r#""field{number}":"value""#);
        let metadata = (0..40).map(field).collect::<Vec<_>>().join(",");
        let document = format!(r#"{{"id":"a","title":"b","text":"c","metadata":{{{metadata}}}}}"#);
        assert!(read(of(&document, 1_000).as_bytes()).unwrap().is_some());
    }
}
