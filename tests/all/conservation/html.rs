//! Random HTML and XHTML, whole pages and fragments, with mistakes.

use rand::Rng;

use super::{Source, hold_for_files};

#[test]
fn every_word_of_html_is_in_its_document() {
    hold_for_files("html", |source| {
        let head = head(source);
        source.add(&head);
        for _ in 0..source.random.random_range(1..12) {
            let block = block(source);
            source.add(&block);
            let end = source.one_of(&["", "\n", " "]);
            source.add(end);
        }
        let end = source.one_of(&["", "</body></html>", "</html>\n<!-- end -->"]);
        source.add(end);
    });
}

fn head<R: Rng>(source: &mut Source<R>) -> String {
    match source.random.random_range(0..7) {
        0 => String::new(),
        1 => format!("<!DOCTYPE html>\n<html><head><title>{}</title></head><body>", source.words(3)),
        2 => format!(
            "<?xml version=\"1.0\"?>\n<html><head><title/><script src=\"{}\"/></head><body>",
            source.unseen()
        ),
        3 => format!("<TITLE>{} &amp; {}</TITLE>", source.word(), source.word()),
        4 => format!("<title></title><style>{} {{ }}</style>", source.unseen()),
        5 => format!(
            "<head><script>if (a < b) {{ {} }}</script><meta name=d content=\"{}\">",
            source.unseen(),
            { source.unseen() }
        ),
        _ => format!("<title>{} <T></title>", source.word()),
    }
}

fn block<R: Rng>(source: &mut Source<R>) -> String {
    match source.random.random_range(0..24) {
        0 => format!("<h1>{}</h1>", inline(source)),
        1 => format!(
            "<h{0} id=\"{1}\">{2}</h{0}>",
            source.random.random_range(1..7),
            source.unseen(),
            inline(source)
        ),
        2 => format!("<p>{}<p class={}>{}", inline(source), source.unseen(), inline(source)),
        3 => format!("<ul><li>{}<li>{}</ul>", inline(source), source.word()),
        4 => format!("<dl><dt>{}<dd>{}</dl>", source.word(), inline(source)),
        5 => format!(
            "<table><caption>{}</caption><tr><th>{}<td>{}</td></tr></table>",
            source.word(),
            source.word(),
            { source.word() }
        ),
        6 => format!("<pre>{}\n  {} &lt;{}&gt;</pre>", source.word(), source.word(), source.word()),
        7 => format!("<div><section>{}</section>{}</div>", inline(source), source.word()),
        8 => format!("<!-- {} --><!{}>", source.unseen(), source.unseen()),
        9 => format!("<script>\n\"{}\"</script >", source.unseen()),
        10 => format!("<style/><p>{}</p><iframe src=\"{}\"/>", source.word(), source.unseen()),
        11 => format!("<noscript>{}</noscript><template><p>{}</template>", source.unseen(), source.unseen()),
        12 => format!(
            "<svg><title>{}</title><text>{}</text><text>{}</text><path d=\"\"/></svg>",
            source.unseen(),
            { source.word() },
            source.word()
        ),
        13 => format!("<math><mi>{}</mi><mo>=</mo><mtext>{}</mtext></math>", source.word(), source.word()),
        14 => format!(
            "<form><input value=\"{}\"><input placeholder='{}'><textarea>{}</textarea></form>",
            source.word(),
            { source.word() },
            source.word()
        ),
        15 => format!(
            "<select><optgroup label=\"{}\"><option>{}<option selected>{}</select>",
            source.word(),
            { source.word() },
            source.word()
        ),
        16 => format!("<details><summary>{}</summary>{}</details>", source.word(), inline(source)),
        17 => format!("<blockquote>{}<hr/>{}</blockquote>", source.word(), source.word()),
        18 => format!(
            "<figure><img alt=\"{}\"/><figcaption>{}</figcaption></figure>",
            source.word(),
            source.word()
        ),
        19 => format!("<object><p>{}</object><my-part>{}</my-part>", source.unseen(), source.word()),
        20 => format!(" <![CDATA[{}]]> <?php {} ?>", source.unseen(), source.unseen()),
        21 => format!(" </p></div></title></script>{} ", source.word()),
        22 => format!("<h2>{}<p>{}</h3>{}", source.word(), source.word(), source.word()),
        _ => format!(" {} ", inline(source)),
    }
}

/// A run of text.
fn inline<R: Rng>(source: &mut Source<R>) -> String {
    let mut parts = Vec::new();
    for _ in 0..source.random.random_range(1..5) {
        parts.push(match source.random.random_range(0..13) {
            0 => format!("<b>{}</b> <I>{}</I>", source.word(), source.word()),
            1 => {
                format!("<a href=\"{}\" title='{}'>{}</a>", source.unseen(), source.unseen(), source.words(2))
            }
            2 => format!(
                "{}&nbsp;{} &amp; {}&#32;{}",
                source.word(),
                source.word(),
                source.word(),
                source.word()
            ),
            3 => format!("{} < {} > {}", source.word(), source.word(), source.word()),
            4 => format!("{}<br>{}<br/>{}", source.word(), source.word(), source.word()),
            5 => format!("<img src=x alt=\"{}\">{}", source.words(2), source.word()),
            6 => format!("<span data-x=\"{}\">{}", source.unseen(), source.word()),
            7 => format!("<ruby>{}<rt>{}</rt></ruby>", source.word(), source.word()),
            8 => format!("<button>{}</button><button>{}</button>", source.word(), source.word()),
            9 => format!("<code>{}</code>&lt;{}&gt;", source.word(), source.word()),
            _ => source.words(4),
        });
    }
    parts.join(" ")
}
