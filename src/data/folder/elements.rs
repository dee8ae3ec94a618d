//! Properties of HTML elements.

use std::borrow::Cow;

use super::text::Break;

/// The elements of HTML, including obsolete ones, and the two for pictures and formulas.
const NAMES: &str = "\
    a abbr acronym address applet area article aside audio b base basefont bdi bdo bgsound big blink \
    blockquote body br button canvas caption center cite code col colgroup data datalist dd del details dfn \
    dialog dir div dl dt em embed fieldset figcaption figure font footer form frame frameset h1 h2 h3 h4 h5 \
    h6 head header hgroup hr html i iframe img input ins kbd keygen label legend li link main map mark \
    marquee math menu menuitem meta meter nav nobr noembed noframes noscript object ol optgroup option \
    output p param picture plaintext pre progress q rb rp rt rtc ruby s samp script search section select \
    slot small source spacer span strike strong style sub summary sup svg table tbody td template textarea \
    tfoot th thead time title tr track tt u ul var video wbr xmp";

/// Whether a lowercase name is that of an element.
pub(super) fn is_element(name: &[u8]) -> bool {
    NAMES.split(' ').any(|own| own.as_bytes() == name)
}

/// Elements whose content is not shown to readers.
const UNREAD: [&[u8]; 8] =
    [b"script", b"style", b"template", b"noscript", b"iframe", b"object", b"noembed", b"noframes"];
/// The same within a picture or a formula.
const UNREAD_WITHIN: [&[u8]; 5] = [b"title", b"desc", b"metadata", b"annotation", b"annotation-xml"];

/// Whether the content of an element, which may be within a picture or a formula, is not shown to readers.
pub(super) fn is_unread(name: &[u8], is_within: bool) -> bool {
    UNREAD.contains(&name) || is_within && UNREAD_WITHIN.contains(&name)
}

/// Whether an element holds a picture or a formula.
pub(super) fn is_foreign(name: &[u8]) -> bool {
    matches!(name, b"svg" | b"math")
}

/// The level of a heading.
pub(super) fn heading(name: &[u8]) -> Option<u8> {
    match name {
        [b'h', level @ b'1'..=b'6'] => Some(level - b'0'),
        _ => None,
    }
}

/// The break around an element.
pub(super) fn around(name: &[u8]) -> Break {
    match name {
        b"p" | b"div" | b"section" | b"article" | b"aside" | b"main" | b"header" | b"footer" | b"nav"
        | b"blockquote" | b"pre" | b"table" | b"ul" | b"ol" | b"dl" | b"figure" | b"form" | b"fieldset"
        | b"hr" | b"details" | b"address" | b"body" | b"h1" | b"h2" | b"h3" | b"h4" | b"h5" | b"h6"
        | b"center" | b"dialog" | b"dir" | b"hgroup" | b"menu" | b"search" | b"xmp" | b"plaintext" => {
            Break::Paragraph
        }
        b"br" | b"li" | b"tr" | b"dt" | b"dd" | b"caption" | b"figcaption" | b"summary" | b"legend"
        | b"option" | b"optgroup" | b"thead" | b"tbody" | b"tfoot" => Break::Line,
        b"td" | b"th" => Break::Cell,
        b"img" | b"input" | b"button" | b"select" | b"textarea" | b"rt" | b"svg" | b"math" | b"audio"
        | b"video" | b"canvas" | b"object" | b"iframe" | b"embed" => Break::Space,
        _ => Break::None,
    }
}

/// The attribute shown in place of an element.
pub(super) fn shown<'a>(
    name: &[u8],
    attribute: impl Fn(&[u8]) -> Option<Cow<'a, str>>,
) -> Option<Cow<'a, str>> {
    match name {
        b"img" => attribute(b"alt"),
        b"optgroup" | b"option" => attribute(b"label"),
        b"input" => match attribute(b"type").as_deref() {
            None
            | Some("text" | "search" | "email" | "url" | "tel" | "number")
            | Some("submit" | "reset" | "button") => {
                attribute(b"value").filter(|value| !value.is_empty()).or_else(|| attribute(b"placeholder"))
            }
            Some("image") => attribute(b"alt"),
            Some(_) => None,
        },
        _ => None,
    }
}
