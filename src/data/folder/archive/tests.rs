use std::io::Write;

use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use super::*;
use crate::data::folder::{docx, epub, odt};

/// An archive of parts, deflated.
pub fn zipped<'a>(parts: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<u8> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in parts {
        archive.start_file(name, SimpleFileOptions::default()).unwrap();
        archive.write_all(content.as_bytes()).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

#[test]
fn what_is_no_document_is_refused() {
    let ole = b"\xd0\xcf\x11\xe0\xa1\xb1";
    let bare = zipped([("a.txt", "x")]);
    for (file, kind, expected) in [
        (&b""[..], DataErrorKind::Format, "this is not DOCX: it is empty"),
        (b"hello", DataErrorKind::Format, "this is not DOCX, but another kind of file"),
        (b"%PDF-1.7", DataErrorKind::Format, "this is not DOCX, but a PDF document"),
        (
            ole,
            DataErrorKind::Format,
            "this is an older office document, or one with a password; save it as DOCX",
        ),
        (&bare, DataErrorKind::Format, "this is not DOCX: it is an archive without `word/document.xml`"),
        (&bare[..bare.len() - 9], DataErrorKind::Damaged, "it is cut off or damaged: "),
    ] {
        let Unreadable(found, message) = docx::page(file).unwrap_err();
        assert!(found == kind && message.starts_with(expected), "{message}");
    }
    assert!(
        odt::page(&bare).unwrap_err().1.contains("this is not ODT: it is an archive without `content.xml`")
    );
    assert!(
        epub::page(&bare).unwrap_err().1.contains("this is not EPUB: it is an archive without `META-INF")
    );
}

#[test]
fn hostile_archives_are_bounded() {
    let word = |xml: &str| docx::page(&zipped([("word/document.xml", xml)]));
    let refused = |read: Result<Page, Unreadable>, kind, expected: &str| {
        let Unreadable(found, message) = read.unwrap_err();
        assert!(found == kind && message.contains(expected), "{found:?} {message}");
    };
    // 65 MiB in 64 KiB.
    let bomb = " ".repeat((65 << 20) + 1);
    refused(
        word(&bomb),
        DataErrorKind::TooLarge,
        "its parts unpack to more than 67108864 bytes, where each counts as 1024 or more",
    );
    refused(word(&"<a>".repeat(100_000)), DataErrorKind::Damaged, "more than 1000 elements within");
    refused(word("<a><b>x</a>"), DataErrorKind::Damaged, "its XML is damaged");
    refused(word("<a>x"), DataErrorKind::Damaged, "it ends within an element");
    refused(word("<a>&#xd800;</a>"), DataErrorKind::Damaged, "its XML is damaged");
    // Entities are not expanded.
    let lol = "<!DOCTYPE a [<!ENTITY b \"xx\"><!ENTITY c \"&b;&b;\">]><w:p><w:t>&c;&amp;&#65;</w:t></w:p>";
    assert_eq!(word(lol).unwrap().text, "&c;&A");
    let wide = format!("<w:p {}><w:t>x</w:t></w:p>", "a=\"\" ".repeat(200_000));
    assert_eq!(word(&wide).unwrap().text, "x");
    let listed = [b"PK".as_slice(), &LISTED.repeat(MOST_ENTRIES + 1)].concat();
    refused(docx::page(&listed), DataErrorKind::TooLarge, "more than 65536 entries");
    // A part that is damaged in its middle, and files that are cut off anywhere.
    let mut broken = zipped([("word/document.xml", "<w:p><w:t>one</w:t></w:p>")]);
    let whole = broken.clone();
    broken[52] ^= 0xff;
    assert!(docx::page(&broken).is_err());
    for end in 0..whole.len() {
        assert!(docx::page(&whole[..end]).is_err(), "{end}");
    }
}
