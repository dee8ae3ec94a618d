//! The text of an HTML page.

use html5gum::{DefaultEmitter, Token, Tokenizer};

use super::text::{Break, Page, PageText};

/// Elements whose content nobody reads.
const UNREAD: [&[u8]; 9] =
    [b"script", b"style", b"template", b"noscript", b"iframe", b"svg", b"object", b"noembed", b"noframes"];

/// The title and text of a page; of broken markup what a browser might show.
pub(super) fn page(html: &str) -> Page {
    let mut page = PageText::new();
    let mut title = None;
    read(html, &mut page, &mut title);
    page.finish(title)
}

/// Adds the text of a piece of HTML to a page. `title` becomes the content of the first element of that name.
pub(super) fn read(html: &str, page: &mut PageText, title: &mut Option<String>) {
    let mut emitter = DefaultEmitter::default();
    // So that what is within a script is no markup.
    emitter.naively_switch_states(true);
    // The element that is not read, and how often it is within itself.
    let mut unread: Option<(Vec<u8>, usize)> = None;
    let (mut in_title, mut verbatim) = (false, 0usize);
    for token in Tokenizer::new_with_emitter(html, emitter) {
        let Ok(token) = token;
        match (token, &mut unread) {
            (Token::StartTag(tag), Some((name, depth))) => {
                *depth += usize::from(tag.name.0 == *name && !tag.self_closing);
            }
            (Token::EndTag(tag), Some((name, depth))) if tag.name.0 == *name => {
                *depth -= 1;
                if *depth == 0 {
                    unread = None;
                }
            }
            (_, Some(_)) => {}
            (Token::StartTag(tag), None) => match &tag.name.0[..] {
                b"title" if title.is_none() => {
                    in_title = true;
                    *title = Some(String::new());
                }
                name if UNREAD.contains(&name) || name == b"title" => {
                    if !tag.self_closing || name != b"svg" {
                        unread = Some((name.to_vec(), 1));
                    }
                }
                name => {
                    if let Some(level) = heading(name) {
                        page.begin_heading(level);
                    }
                    page.stop(around(name));
                    verbatim += usize::from(name == b"pre");
                    if name == b"img"
                        && let Some(alt) = tag.attributes.get(&b"alt"[..])
                    {
                        page.push(&String::from_utf8_lossy(alt));
                    }
                }
            },
            (Token::EndTag(tag), None) => match &tag.name.0[..] {
                b"title" => in_title = false,
                name => {
                    if heading(name).is_some() {
                        page.end_heading();
                    }
                    page.stop(around(name));
                    verbatim = verbatim.saturating_sub(usize::from(name == b"pre"));
                }
            },
            (Token::String(text), None) => {
                let text = String::from_utf8_lossy(&text);
                match title {
                    Some(title) if in_title => title.push_str(&text),
                    _ if verbatim > 0 => page.push_verbatim(&text),
                    _ => page.push(&text),
                }
            }
            (Token::Comment(_) | Token::Doctype(_) | Token::Error(_), None) => {}
        }
    }
}

fn heading(name: &[u8]) -> Option<u8> {
    match name {
        [b'h', level @ b'1'..=b'6'] => Some(level - b'0'),
        _ => None,
    }
}

/// What an element stands apart by.
fn around(name: &[u8]) -> Break {
    match name {
        b"p" | b"div" | b"section" | b"article" | b"aside" | b"main" | b"header" | b"footer" | b"nav"
        | b"blockquote" | b"pre" | b"table" | b"ul" | b"ol" | b"dl" | b"figure" | b"form" | b"fieldset"
        | b"hr" | b"details" | b"address" | b"body" | b"h1" | b"h2" | b"h3" | b"h4" | b"h5" | b"h6" => {
            Break::Paragraph
        }
        b"br" | b"li" | b"tr" | b"dt" | b"dd" | b"caption" | b"figcaption" | b"summary" | b"legend"
        | b"option" | b"thead" | b"tbody" | b"tfoot" => Break::Line,
        b"td" | b"th" => Break::Space,
        _ => Break::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_its_title_and_what_is_read() {
        for (html, title, text) in [
            (
                "<!DOCTYPE html><html><head><title>Tea &amp; more</title><style>p{}</style><script>if (a<b) {}</script>\
                 </head><body><p>Steep  it\nfor <b>three</b>&nbsp;minutes.<p>Then<br>drink.</body></html>",
                "Tea & more",
                "Steep it for three minutes.\n\nThen\ndrink.",
            ),
            ("<title>Site</title><h2>Intro</h2>a<h1>The <i>Tea</i></h1><p>b", "The Tea", "Intro\n\na\n\nb"),
            ("<h2>Tea</h2>b", "Tea", "b"),
            ("<title> </title><h2></h2><h3>Tea</h3>b", "Tea", "b"),
            ("<ul><li>a<li>b</ul><table><tr><td>1<td>2<tr><th>3</table>", "", "a\nb\n\n1 2\n3"),
            ("a<pre>x\n  y</pre>b", "", "a\n\nx\n  y\n\nb"),
            ("a<svg><title>no</title><text>no</text></svg>b<svg/>c", "", "abc"),
            ("a<template><template>no</template>no</template>b<!-- no -->c", "", "abc"),
            ("<img alt=\"a cup\" src=x> of tea", "", "a cup of tea"),
            ("1 < 2 &lt; 3 &unknown; <", "", "1 < 2 < 3 &unknown; <"),
            ("<h1>Unclosed <p>heading", "Unclosed \n\nheading", ""),
            ("", "", ""),
        ] {
            let title = title.replace(" \n\n", "\n\n");
            assert_eq!(page(html), Page { title, text: text.to_owned() }, "{html}");
        }
    }
}
