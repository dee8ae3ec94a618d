//! Markdown with JSX.

use crate::outline::lines_in;

/// The Markdown of an MDX file, on the same lines: without imports, exports, comments and the tags of
/// components, whose titles and labels stay.
pub(super) fn markdown(file: &str) -> String {
    let mut markdown = String::with_capacity(file.len());
    let (mut rest, mut fence, mut is_module, mut failed) = (file, None, false, 0);
    while !rest.is_empty() {
        let end = rest.find('\n').map_or(rest.len(), |end| end + 1);
        let line = &rest[..end];
        let text = line.trim();
        let mark = text.chars().next().filter(|c| matches!(c, '`' | '~'));
        let marks = mark.map_or("", |mark| &text[..text.len() - text.trim_start_matches(mark).len()]);
        match fence {
            Some(open) if marks.starts_with(open) && marks == text => fence = None,
            None if marks.len() >= 3 && !text[marks.len()..].contains('`') => fence = Some(marks),
            None if is_module && !text.is_empty()
                || ["import ", "export "].iter().any(|word| line.starts_with(word))
                    && line.contains(['"', '\'', '{', '=', '(']) =>
            {
                is_module = true;
                markdown.push('\n');
                rest = &rest[end..];
                continue;
            }
            _ => {}
        }
        is_module = false;
        if fence.is_some() || marks.len() >= 3 {
            markdown.push_str(line);
            rest = &rest[end..];
            continue;
        }
        // Tags may end on a later line.
        let mut at = 0;
        while at < end {
            let Some(next) = rest[at..end].find(['<', '{', '`']).map(|next| at + next) else { break };
            markdown.push_str(&rest[at..next]);
            let place = file.len() - rest.len() + next;
            let tag =
                if place < failed { Err(failed) } else { tag(&rest[next..]).map_err(|seen| place + seen) };
            match tag {
                Ok((length, shown)) => {
                    let skipped = lines_in(&rest[next..next + length]) as usize;
                    markdown.push_str(&"\n".repeat(skipped));
                    markdown.push_str(shown);
                    at = next + length;
                }
                Err(seen) => {
                    failed = failed.max(seen);
                    // Code within a line is shown as it is.
                    let ticks = rest[next..end].bytes().take_while(|byte| *byte == b'`').count();
                    let after = next + ticks;
                    let close = rest[after..end].find(&rest[next..after]).filter(|_| ticks > 0);
                    at = close.map_or(next + ticks.max(1), |close| after + close + ticks);
                    markdown.push_str(&rest[next..at]);
                }
            }
        }
        let end = end.max(at);
        markdown.push_str(&rest[at..end]);
        rest = &rest[end..];
    }
    markdown
}

/// Most bytes of a tag.
const LONGEST: usize = 8 << 10;

/// The length of a component's tag or of a comment, and the title or label in it; or how much of the text
/// cannot be within one.
fn tag(text: &str) -> Result<(usize, &str), usize> {
    if text.starts_with("{/*") {
        return text.find("*/}").map(|end| (end + 3, "")).ok_or(text.len());
    }
    let name = text.strip_prefix('<').ok_or(0usize)?.trim_start_matches('/');
    if !name.starts_with(|c: char| c.is_ascii_uppercase() || c == '>') {
        return Err(0);
    }
    let (mut depth, mut quote) = (0, None);
    for (at, byte) in text.bytes().enumerate().take(LONGEST).skip(1) {
        match (byte, quote) {
            (_, Some(open)) if byte != open => {}
            (_, Some(_)) => quote = None,
            (b'"' | b'\'', None) => quote = Some(byte),
            (b'{', None) => depth += 1,
            (b'}', None) => depth -= 1,
            (b'>', None) if depth <= 0 => return Ok((at + 1, shown(&text[..at]))),
            (b'<', None) if depth <= 0 => return Err(at),
            _ => {}
        }
    }
    Err(text.len().min(LONGEST))
}

/// The title or label of a component.
fn shown(tag: &str) -> &str {
    let value = |name: &str| Some(tag.split_once(name)?.1.split_once('"')?.0);
    value(" title=\"").or_else(|| value(" label=\"")).unwrap_or_default()
}
