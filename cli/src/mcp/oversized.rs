//! The id of a request that is too long to be kept.

/// Bytes of an id, at most.
pub const ID: usize = 256;

/// Reads JSON byte by byte for the value of `id` in the outermost object.
///
/// It keeps no more than names and ids, so it reads what is too long to be parsed. Of what is no JSON it
/// finds anything or nothing; what it finds is a number or a string.
#[derive(Default)]
pub struct IdScan {
    depth: u64,
    in_string: bool,
    escaped: bool,
    /// Behind the colon of a field of the outermost object.
    in_value: bool,
    /// The string or number of the outermost object that is being read, as written.
    token: Vec<u8>,
    name: Vec<u8>,
    found: Option<Vec<u8>>,
}

impl IdScan {
    pub fn read(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.step(byte));
    }

    /// The id as JSON; none of a notification.
    pub fn id(&self) -> Option<serde_json::Value> {
        let id: serde_json::Value = serde_json::from_slice(self.found.as_deref()?).ok()?;
        (id.is_i64() || id.is_u64() || id.is_string()).then_some(id)
    }

    fn step(&mut self, byte: u8) {
        if self.in_string {
            self.keep(byte);
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => self.end_string(),
                _ => {}
            }
            return;
        }
        match byte {
            b'"' => {
                self.in_string = true;
                if self.depth == 1 {
                    self.token.clear();
                }
                self.keep(byte);
            }
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => {
                if self.depth == 1 {
                    self.end_value();
                }
                self.depth = self.depth.saturating_sub(1);
            }
            b':' if self.depth == 1 => {
                self.in_value = true;
                self.token.clear();
            }
            b',' if self.depth == 1 => self.end_value(),
            byte if byte.is_ascii_whitespace() => {}
            byte => self.keep(byte),
        }
    }

    fn keep(&mut self, byte: u8) {
        // One more, so that what is too long does not look whole.
        if self.depth == 1 && self.token.len() <= ID {
            self.token.push(byte);
        }
    }

    fn end_string(&mut self) {
        self.in_string = false;
        if self.depth == 1 && !self.in_value {
            self.name = std::mem::take(&mut self.token);
        }
    }

    fn end_value(&mut self) {
        if self.in_value && self.name == b"\"id\"" && self.token.len() <= ID {
            self.found = Some(std::mem::take(&mut self.token));
        }
        self.in_value = false;
        self.name.clear();
        self.token.clear();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn id(text: &str) -> Option<Value> {
        let mut scan = IdScan::default();
        // In pieces, as it comes.
        text.as_bytes().chunks(3).for_each(|piece| scan.read(piece));
        scan.id()
    }

    #[test]
    fn the_id_is_that_of_the_outermost_object() {
        assert_eq!(id(r#"{"jsonrpc":"2.0","id":7,"method":"x","params":{"id":8}}"#), Some(json!(7)));
        assert_eq!(
            id(r#"{"params":{"id":8,"a":["id"]},"method":"id", "id" : "a\"b" }"#),
            Some(json!("a\"b"))
        );
        assert_eq!(id(r#"{"method":"x","params":[{"id":8}]}"#), None);
        assert_eq!(id(r#"{"id":null}"#), None);
        assert_eq!(id(r#"{"id":{"id":3}}"#), None);
        assert_eq!(id(r#"{"a":"\\","id":3}"#), Some(json!(3)));
        assert_eq!(id(&format!(r#"{{"id":"{}"}}"#, "x".repeat(ID))), None);
        assert_eq!(id("]]}}{{{\"id\":1"), None);
        assert_eq!(id(""), None);
    }

    proptest! {
        #[test]
        fn any_object_has_the_id_that_a_parser_finds(
            id_ in prop_oneof![any::<i64>().prop_map(Value::from), ".{0,20}".prop_map(Value::from)],
            text in ".*", nested in any::<i64>(), after in any::<bool>(),
        ) {
            let params = json!({ "id": nested, &text: [text, { "id": nested }] });
            let line = match after {
                true => format!(r#"{{"method":"m","params":{params},"id":{id_}}}"#),
                false => format!(r#"{{"id":{id_},"params":{params}}}"#),
            };
            prop_assert_eq!(id(&line), Some(id_));
        }

        #[test]
        fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut scan = IdScan::default();
            scan.read(&bytes);
            scan.id();
        }
    }
}
