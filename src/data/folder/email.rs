//! The text of an e-mail message.

use std::mem;

use mail_parser::{Address, Message, MessageParser, MimeHeaders, PartType};
use serde_json::{Map, Value};

use super::html;
use super::text::{Break, Page, PageText, Unreadable, one_line};
use crate::data::error::DataErrorKind;

/// Most characters of a header that are metadata.
const MOST_OF_A_HEADER: usize = 1_000;
/// Most addresses, and names of attachments, that are metadata.
const MOST_LISTED: usize = 100;

/// Most parts whose ends are looked for in a message that was cut.
const MOST_UNENDED: usize = 20;

/// The subject and text of a message, and then those of the messages in it. Its metadata are `from`, `to`,
/// `cc`, `date` and `attachments`, the names of the files that are not read.
pub(super) fn page(file: &[u8]) -> Result<Page, Unreadable> {
    let disarmed = without_encoded_messages(file);
    let file = disarmed.as_deref().unwrap_or(file);
    let messages = messages(file);
    let ended = ended(file, &messages);
    let messages = ended.as_deref().map_or(messages, self::messages);
    let message = messages.first().map(|(_, message)| message).filter(|message| is_message(message));
    let message = message.ok_or_else(|| {
        let message = "this is not an e-mail message: it has none of the headers From, To, Date and Subject";
        Unreadable(DataErrorKind::Format, message.to_owned())
    })?;
    let mut page = PageText::new();
    for (depth, message) in &messages {
        if *depth > 0 {
            page.begin_heading((*depth).min(6) as u8);
            page.push(&subject(message).0);
            page.end_heading();
        }
        for part in message.text_bodies() {
            match &part.body {
                PartType::Html(html) => html::chapter(html, &mut page),
                PartType::Text(text) => page.push_paragraphs(text),
                // Its attachments are named below.
                _ => {}
            }
            page.stop(Break::Paragraph);
        }
    }
    let (subject, cut) = subject(message);
    let page = page.titled(subject);
    let is_cut =
        matches!(&*message.parts, [only] if only.is_encoding_problem && only.offset_body == only.offset_end);
    let note = cut.or_else(|| is_cut.then(|| "it ends within its headers, so it has no text".to_owned()));
    Ok(Page { outline: page.outline.without_lines(), metadata: metadata(&messages), note, ..page })
}

/// A message and those in it, each after the one that it is in and with its depth. None is left within
/// another: dropping them would take stack for each.
fn messages(file: &[u8]) -> Vec<(usize, Message<'_>)> {
    let mut open: Vec<_> = MessageParser::default().parse(file).map(|own| (0, own)).into_iter().collect();
    let mut messages = Vec::new();
    while let Some((depth, mut message)) = open.pop() {
        let first = open.len();
        for part in &mut message.parts {
            if let PartType::Message(inner) = &mut part.body {
                open.push((depth + 1, mem::take(inner)));
            }
        }
        open[first..].reverse();
        messages.push((depth, message));
    }
    messages
}

/// The file with the ends of parts that it was cut before, without which their text is not found.
fn ended(file: &[u8], messages: &[(usize, Message<'_>)]) -> Option<Vec<u8>> {
    let parts = || messages.iter().flat_map(|(_, message)| &message.parts);
    if !parts().any(|part| part.is_encoding_problem) {
        return None;
    }
    let multiparts = parts().filter(|part| matches!(part.body, PartType::Multipart(_)));
    let ends =
        multiparts.filter_map(|part| Some(format!("--{}--", part.content_type()?.attribute("boundary")?)));
    let is_in_file = |end: &String| file.windows(end.len()).any(|at| at == end.as_bytes());
    let missing: Vec<_> = ends.take(MOST_UNENDED).filter(|end| !is_in_file(end)).collect();
    let ends = missing.iter().rev().map(|end| format!("\n{end}\n")).collect::<String>();
    (!missing.is_empty()).then(|| [file, ends.as_bytes()].concat())
}

/// The file with another type for attached messages in base64 and the like, which no standard allows; `None`
/// if it has none. The parser would copy such a message once for each message in it, and recurse into them.
fn without_encoded_messages(file: &[u8]) -> Option<Vec<u8>> {
    const MESSAGE: &[u8] = b"message";
    let (mut hidden, mut start, mut end, mut is_with) = (Vec::new(), 0, 0, false);
    // The headers of a part have no empty line.
    for line in file.split_inclusive(|byte| *byte == b'\n') {
        end += line.len();
        is_with |= is_encoding(line);
        if end < file.len() && !matches!(line, b"\n" | b"\r\n") {
            continue;
        }
        let headers =
            if mem::take(&mut is_with) { file[start..end].to_ascii_lowercase() } else { Vec::new() };
        if [&b"rfc822"[..], b"global"].iter().any(|kind| headers.windows(6).any(|at| at == *kind)) {
            let places = headers.windows(MESSAGE.len()).enumerate().filter(|(_, at)| *at == MESSAGE);
            let is_type = |at: &usize| {
                let after = headers[at + MESSAGE.len()..].iter().find(|byte| !byte.is_ascii_whitespace());
                after.is_some_and(|byte| b"/(\"\\".contains(byte))
            };
            hidden.extend(places.map(|(at, _)| at).filter(is_type).map(|at| start + at));
        }
        start = end;
    }
    let mut file = (!hidden.is_empty()).then(|| file.to_vec())?;
    hidden.into_iter().for_each(|at| file[at..at + MESSAGE.len()].copy_from_slice(b"x-other"));
    Some(file)
}

/// Whether a line of headers says that a part is encoded; the parser ignores white space in names.
fn is_encoding(line: &[u8]) -> bool {
    const NAME: &str = "content-transfer-encoding:";
    if line.len() <= NAME.len() || !line.contains(&b':') {
        return false;
    }
    let line: Vec<u8> = line.iter().filter(|byte| !byte.is_ascii_whitespace()).copied().collect();
    let line = String::from_utf8_lossy(&line).to_ascii_lowercase();
    line.split_once(NAME).is_some_and(|(_, encoding)| !matches!(encoding, "7bit" | "8bit" | "binary"))
}

/// The subject on one line, and a note if it is cut.
fn subject(message: &Message<'_>) -> (String, Option<String>) {
    let subject = one_line(message.subject().unwrap_or_default());
    match subject.char_indices().nth(MOST_OF_A_HEADER) {
        None => (subject, None),
        Some((end, _)) => {
            let note = format!("its subject is cut after {MOST_OF_A_HEADER} characters");
            (subject[..end].to_owned(), Some(note))
        }
    }
}

/// Whether it has a header of a message; any text may have lines with a colon.
fn is_message(message: &Message<'_>) -> bool {
    message.from().is_some()
        || message.to().is_some()
        || message.date().is_some()
        || message.subject().is_some()
}

/// The metadata of the first message, with the attachments of all.
fn metadata(messages: &[(usize, Message<'_>)]) -> Map<String, Value> {
    let mut metadata = Map::new();
    let Some((_, message)) = messages.first() else { return metadata };
    for (name, list) in [("from", message.from()), ("to", message.to()), ("cc", message.cc())] {
        metadata.extend(list.map(|list| (name.to_owned(), addresses(list))));
    }
    let date = message.date().filter(|date| date.is_valid());
    metadata.extend(date.map(|date| ("date".to_owned(), date.to_rfc3339().into())));
    let name = |name: Option<&str>| shortened(name.unwrap_or("without a name"));
    let attachments = messages.iter().flat_map(|(_, message)| message.attachments());
    // Messages are read.
    let attachments = attachments.filter(|part| !matches!(part.body, PartType::Message(_)));
    let attachments = attachments.map(|part| name(part.attachment_name()));
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
        let messages = "Subject: deep\nContent-Type: message/rfc822\n\n".repeat(100_000);
        assert_eq!(page(messages.as_bytes()).unwrap().title, "deep");
        // Not a message, but with messages within one another.
        assert!(page("Content-Type: message/rfc822\n\n".repeat(100_000).as_bytes()).is_err());
        let _ = page(&[0xff; 1000]);
        let long = page(format!("Subject: {}\n\nwords", "é".repeat(2_000)).as_bytes()).unwrap();
        assert_eq!((long.title, long.text), ("é".repeat(1_000), "words".to_owned()));
        assert_eq!(long.note.unwrap(), "its subject is cut after 1000 characters");
    }

    #[test]
    fn encoded_messages_within_one_another_are_attachments() {
        let inner = "Content-Type: message/rfc822\n\n".repeat(100_000);
        for (name, kind) in [
            ("Content-Transfer-Encoding: quoted-printable", "message/rfc822"),
            ("content-transfer-encoding :=?utf-8?q?quoted-printable?=", "Message (x) / global"),
            ("Content-Transfer-Encoding:\n quoted-printable", "\"message\"/RFC822"),
        ] {
            let file = format!("Subject: deep\nContent-Type: {kind}; name=a.eml\n{name}\n\n{inner}");
            let read = page(file.as_bytes()).unwrap();
            assert_eq!((&*read.title, &*read.text), ("deep", ""), "{name}");
            assert_eq!(read.metadata["attachments"], json!(["a.eml"]));
        }
        let words = "Subject: Message\nContent-Transfer-Encoding: base64\nX: global\n\nd29yZHM=\n";
        let read = page(words.as_bytes()).unwrap();
        assert_eq!((&*read.title, &*read.text), ("Message", "words"));
    }

    #[test]
    fn forwarded_messages_are_sections() {
        let file = "Subject: s\nContent-Type: multipart/mixed; boundary=b\n\n--b\n\nouter\n--b\n\
            Content-Type: message/rfc822\n\nSubject: forwarded\nContent-Type: multipart/mixed; boundary=c\n\n--c\n\n\
            words\n--c\nContent-Type: message/rfc822\n\nSubject: first\n\nquestion\n--c\n\
            Content-Type: image/png; name=a.png\n\nx\n--c--\n--b\nContent-Type: message/rfc822\n\n\
            Subject: second\n\nlast\n--b--\n";
        let read = page(file.as_bytes()).unwrap();
        let text = "outer\n\nforwarded\n\nwords\n\nfirst\n\nquestion\n\nsecond\n\nlast";
        assert_eq!((&*read.title, &*read.text), ("s", text));
        let headings = |part: &str| read.outline.headings(text, text.find(part).unwrap());
        assert_eq!((headings("question"), headings("last")), (vec!["forwarded", "first"], vec!["second"]));
        assert_eq!(Value::Object(read.metadata), json!({"attachments": ["a.png"]}));
    }

    #[test]
    fn a_message_that_was_cut_keeps_its_text() {
        let file = "Subject: s\nContent-Type: multipart/mixed; boundary=b\n\n--b\n\
            Content-Type: multipart/alternative; boundary=c\n\n--c\nContent-Transfer-Encoding: base64\n\nd29y";
        let read = page(file.as_bytes()).unwrap();
        assert_eq!((&*read.text, read.note), ("wor", None));
        assert!(read.metadata.is_empty());
        let headers = page(b"Subject: s\nFrom: a@b.c").unwrap();
        assert_eq!(headers.note.unwrap(), "it ends within its headers, so it has no text");
        assert_eq!(page(b"Subject: s\nFrom: a@b.c\n\n").unwrap().note, None);
    }
}
