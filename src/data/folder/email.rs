//! The text of an e-mail message.

use mail_parser::{Address, Message, MessageParser, MimeHeaders, PartType};
use serde_json::{Map, Value};

use super::html;
use super::text::{Break, Page, PageText, Unreadable, one_line};
use crate::data::error::DataErrorKind;

/// Most characters of a header that are metadata.
const MOST_OF_A_HEADER: usize = 1_000;
/// Most addresses, and names of attachments, that are metadata.
const MOST_LISTED: usize = 100;

/// The subject and text of a message. Its metadata are `from`, `to`, `cc`, `date` and `attachments`, the
/// names of the files that are not read.
pub(super) fn page(file: &[u8]) -> Result<Page, Unreadable> {
    let message = MessageParser::default().parse(file).filter(is_message).ok_or_else(|| {
        let message = "this is not an e-mail message: it has none of the headers From, To, Date and Subject";
        Unreadable(DataErrorKind::Format, message.to_owned())
    })?;
    let mut page = PageText::new();
    for part in message.text_bodies() {
        match &part.body {
            PartType::Html(html) => html::chapter(html, &mut page),
            PartType::Text(text) => page.push_paragraphs(text),
            // Its attachments are named below.
            _ => {}
        }
        page.stop(Break::Paragraph);
    }
    let page = page.titled(one_line(message.subject().unwrap_or_default()));
    Ok(Page { outline: page.outline.without_lines(), metadata: metadata(&message), ..page })
}

/// Whether it has a header of a message; any text may have lines with a colon.
fn is_message(message: &Message<'_>) -> bool {
    message.from().is_some()
        || message.to().is_some()
        || message.date().is_some()
        || message.subject().is_some()
}

fn metadata(message: &Message<'_>) -> Map<String, Value> {
    let mut metadata = Map::new();
    for (name, list) in [("from", message.from()), ("to", message.to()), ("cc", message.cc())] {
        metadata.extend(list.map(|list| (name.to_owned(), addresses(list))));
    }
    let date = message.date().filter(|date| date.is_valid());
    metadata.extend(date.map(|date| ("date".to_owned(), date.to_rfc3339().into())));
    let name = |name: Option<&str>| shortened(name.unwrap_or("without a name"));
    let attachments = message.attachments().map(|part| name(part.attachment_name()));
    let attachments: Vec<Value> = attachments.take(MOST_LISTED).collect();
    if !attachments.is_empty() {
        metadata.insert("attachments".to_owned(), attachments.into());
    }
    metadata
}

fn addresses(list: &Address<'_>) -> Value {
    let shown = list.iter().filter_map(|own| match (own.name(), own.address()) {
        (Some(name), Some(address)) => Some(format!("{name} <{address}>")),
        (name, address) => name.or(address).map(str::to_owned),
    });
    shown.take(MOST_LISTED).map(|shown| shortened(&shown)).collect()
}

fn shortened(text: &str) -> Value {
    one_line(text).chars().take(MOST_OF_A_HEADER).collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const MIXED: &str = "From: =?utf-8?q?J=C3=B6rg?= <j@example.org>\r\nTo: a@example.org, Bea <b@example.org>\r\n\
        Date: Fri, 5 Jan 2024 10:00:00 +0100\r\nSubject: Tea\r\n =?utf-8?q?_f=C3=BCr_zwei?=\r\nMIME-Version: 1.0\r\n\
        Content-Type: multipart/mixed; boundary=x\r\n\r\n--x\r\nContent-Type: text/plain; charset=iso-8859-1\r\n\
        Content-Transfer-Encoding: quoted-printable\r\n\r\nCaf=E9 it=\r\n is.\r\n\r\nSecond.\r\n--x\r\n\
        Content-Type: text/html; charset=utf-8\r\n\r\n<h2>Then</h2><p>Drink &amp; rest<script>no</script>\r\n--x\r\n\
        Content-Type: application/pdf; name=plan.pdf\r\nContent-Disposition: attachment; filename=plan.pdf\r\n\
        Content-Transfer-Encoding: base64\r\n\r\nJVBERg==\r\n--x--\r\n";

    #[test]
    fn a_message_is_its_subject_and_what_is_read() {
        let mixed = page(MIXED.as_bytes()).unwrap();
        assert_eq!(mixed.title, "Tea für zwei");
        assert_eq!(mixed.text, "Café it is.\n\nSecond.\n\nThen\n\nDrink & rest");
        let at = mixed.text.find("Drink").unwrap();
        assert_eq!(mixed.outline.headings(&mixed.text, at), ["Then"]);
        assert_eq!(mixed.outline.line(&mixed.text, at), None);
        let metadata = json!({
            "from": ["Jörg <j@example.org>"], "to": ["a@example.org", "Bea <b@example.org>"],
            "date": "2024-01-05T10:00:00+01:00", "attachments": ["plan.pdf"],
        });
        assert_eq!(Value::Object(mixed.metadata), metadata);
        let plain = page(b"Subject: x\n\none\n  two\n").unwrap();
        assert_eq!((&*plain.title, &*plain.text), ("x", "one\n  two"));
    }

    #[test]
    fn what_is_no_message_is_refused_and_broken_ones_are_read() {
        for file in [&b""[..], b"hello", b"a: b\n\nc", b"%PDF-1.4\n", b"PK\x03\x04\0\0"] {
            let Unreadable(kind, message) = page(file).unwrap_err();
            assert!(kind == DataErrorKind::Format && message.contains("not an e-mail"), "{message}");
        }
        for end in 0..MIXED.len() {
            let _ = page(&MIXED.as_bytes()[..end]);
        }
        // Parts within parts, messages within messages, and a part that ends nowhere.
        let mut nested = "Subject: deep\n".to_owned();
        for depth in 0..20_000 {
            nested += &format!("Content-Type: multipart/mixed; boundary=b{depth}\n\n--b{depth}\n");
        }
        nested += "\nfound";
        assert_eq!(page(nested.as_bytes()).unwrap().title, "deep");
        let messages = "Subject: deep\nContent-Type: message/rfc822\n\n".repeat(20_000);
        assert_eq!(page(messages.as_bytes()).unwrap().title, "deep");
        let _ = page(&[0xff; 1000]);
    }
}
