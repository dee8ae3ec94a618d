//! Random Markdown: front matter of every kind, and all blocks of CommonMark, GitHub and Obsidian.

use rand::Rng;

use super::{Source, hold_for_files};

#[test]
fn every_word_of_markdown_is_in_its_document() {
    hold_for_files("md", |source| {
        front(source);
        for _ in 0..source.random.random_range(1..12) {
            let block = block(source);
            source.add(&block);
            // Some blocks run into each other.
            let end = source.one_of(&["\n\n", "\n\n", "\n\n", "\n", "\r\n\r\n"]);
            source.add(end);
        }
    });
}

/// A block at the start, or none.
fn front<R: Rng>(source: &mut Source<R>) {
    let block = match source.random.random_range(0..9) {
        0 | 1 => format!("---\n{}---\n", yaml(source)),
        2 => format!("---\r\n{}...\r\n", yaml(source).replace('\n', "\r\n")),
        3 => format!("\u{feff}+++\n{}+++\n", toml(source)),
        // With mistakes.
        4 => format!("---\n{}: {}: {}\n---\n", source.word(), source.word(), source.word()),
        5 => format!("+++\n{} = {}\n+++\n", source.word(), source.word()),
        // Markdown between two rules.
        6 => format!("---\n{}\n---\n", source.words(4)),
        7 => format!("---\n\n# {}\n\n{}: {}\n\n---\n", source.word(), source.word(), source.word()),
        _ => String::new(),
    };
    source.add(&block);
}

fn yaml<R: Rng>(source: &mut Source<R>) -> String {
    let mut fields = String::new();
    for number in 0..source.random.random_range(1..6) {
        let name = match number {
            0 => "title".to_owned(),
            1 => source.one_of(&["source", "modified", "tags", "prefix"]).to_owned(),
            _ => source.word(),
        };
        let value = match source.random.random_range(0..9) {
            0 => format!(" {}", source.words(3)),
            1 => format!(" '{}''{}'", source.word(), source.word()),
            2 => format!(" \"{} \\u0026 {}\"", source.word(), source.word()),
            3 => format!(" >-\n  {}\n  {}", source.words(2), source.words(2)),
            4 => format!(" |\n  {}\n\n  ---\n  {}", source.words(2), source.words(2)),
            5 => format!(" [{}, \"{}\", {}]", source.word(), source.word(), source.word()),
            6 => format!("\n- {}\n- {} # {}", source.word(), source.word(), source.unseen()),
            7 => format!(
                "\n  {}: {}\n  {}: {{{}: {}}}",
                source.word(),
                source.word(),
                source.word(),
                source.word(),
                { source.word() }
            ),
            _ => format!(
                " {} # {}",
                source.one_of(&["null", "true", "007", "2024-01-05", ""]),
                source.unseen()
            ),
        };
        fields += &format!("{name}:{value}\n");
    }
    fields
}

fn toml<R: Rng>(source: &mut Source<R>) -> String {
    let (title, other, table) = (source.words(3), source.word(), source.word());
    let times = format!("date = 2024-01-05T10:00:00Z # {}\n", source.unseen());
    let (long, one, two, three) = (source.words(3), source.word(), source.word(), source.word());
    format!(
        "title = \"{title}\"\n\"{other}\" = \"\"\"{long}\"\"\"\n{times}tags = ['{one}', \"{two}\"]\n[\"{table}\"]\nx = '{three}'\n"
    )
}

fn block<R: Rng>(source: &mut Source<R>) -> String {
    match source.random.random_range(0..26) {
        0 => format!("# {}", inline(source)),
        1 => format!(
            "{} {} {}",
            "#".repeat(source.random.random_range(2..8)),
            inline(source),
            source.one_of(&["", "##"])
        ),
        2 => format!("{}\n===", inline(source)),
        3 => format!("---\n{}\n---", source.words(5)),
        4 => format!("---\ntitle: {}\n{}: {}\n---", source.word(), source.word(), source.word()),
        5 => format!("+++\n{}\n+++", source.words(5)),
        6 => format!(
            "- {}\n- [ ] {}\n  - [x] {}\n\n    {}",
            inline(source),
            source.word(),
            source.word(),
            source.word()
        ),
        7 => format!("1. {}\n2) {}\n{}", inline(source), source.words(2), source.word()),
        8 => format!("> {}\n> > {}\n{}", inline(source), source.words(2), source.word()),
        9 => format!(
            "> [!{}]{} {}\n> {}",
            source.one_of(&["note", "TIP", "my-kind"]),
            source.one_of(&["", "+", "-"]),
            { source.words(2) },
            inline(source)
        ),
        10 => format!("> [!warning]\n> {}", inline(source)),
        11 => format!(
            "```{}\n{}\n  <{}> & {}\n```",
            source.one_of(&["", "rust", "python title=x"]),
            source.words(3),
            { source.word() },
            source.word()
        ),
        12 => format!("~~~\n{}\n---\n# {}\n~~~", source.words(2), source.word()),
        13 => format!("    {}\n    {}", source.words(3), source.word()),
        14 => format!(
            "| {} | {} |\n|---|:-:|\n| {} | {} | {} |\n| {} |",
            source.word(),
            source.word(),
            inline(source),
            { source.word() },
            source.word(),
            source.word()
        ),
        15 => format!(
            "{} | {}\n--- | ---\n{} | `{}`",
            source.word(),
            source.word(),
            source.word(),
            source.word()
        ),
        16 => {
            format!("<div class=\"{}\">\n<b>{}</b> {}\n</div>", source.unseen(), source.word(), source.word())
        }
        17 => format!("<details><summary>{}</summary>\n\n{}\n\n</details>", source.word(), inline(source)),
        18 => format!("<!-- {} -->", source.unseen()),
        19 => format!("<script>\n{}\n</script>", source.unseen()),
        20 => format!("{}[^{}]\n\n[^1]: {}", source.word(), 1, source.words(3)),
        21 => format!(
            "[{}][ref], [ref], [{}][]\n\n[ref]: https://example.org/{}",
            source.word(),
            source.word(),
            { source.unseen() }
        ),
        22 => format!(
            "<table><tr><td>{}<td>{}\n<tr><th>{}</table>",
            source.word(),
            source.word(),
            source.word()
        ),
        23 => format!("{}\n<title>{}</title>\n{}", source.word(), source.word(), source.word()),
        24 => format!("$$\n{} = {}\n$$\n%%\n{}\n%%", source.word(), source.word(), source.word()),
        _ => format!("{}{}{}", inline(source), source.one_of(&[" ", "\n", "  \n", "\\\n"]), inline(source)),
    }
}

/// A run of text on one line.
fn inline<R: Rng>(source: &mut Source<R>) -> String {
    let mut parts = Vec::new();
    for _ in 0..source.random.random_range(1..5) {
        parts.push(match source.random.random_range(0..25) {
            0 => format!("*{}*", source.words(2)),
            1 => format!("**{}** __{}__", source.word(), source.word()),
            2 => format!("`{}` `` {} ` {} ``", source.word(), source.word(), source.word()),
            3 => format!("~~{}~~ =={}==", source.word(), source.word()),
            4 => format!(
                "[{}](https://example.org/{} \"{}\")",
                source.words(2),
                source.unseen(),
                source.unseen()
            ),
            5 => format!("![{}](x.png)", source.words(2)),
            6 => format!("[[{}|{}]]", source.unseen(), source.words(2)),
            7 => format!("[[{}]] [[{}#{}]]", source.words(2), source.word(), source.word()),
            8 => format!("![[{}.png|100]] ![[{}]]", source.word(), source.word()),
            9 => format!("[[ -f {} | {} ]]", source.word(), source.word()),
            10 => format!("<{}>", source.word()),
            11 => format!("</{}> <{} {}=\"{}\">", source.word(), source.word(), source.word(), source.word()),
            12 => format!("{}<{}>", source.word(), source.word()),
            13 => format!(
                "<b>{}</b> <span title=\"{}\">{}</span>",
                source.word(),
                source.unseen(),
                source.word()
            ),
            14 => format!("<br>{}<br/>{}", source.word(), source.word()),
            15 => format!("<img alt=\"{}\" src=\"{}\">{}", source.word(), source.unseen(), source.word()),
            16 => format!("<https://example.org/{}>", source.word()),
            17 => format!("&lt;{}&gt; &amp; {}&nbsp;{}", source.word(), source.word(), source.word()),
            18 => {
                format!("\\*{}\\_ {} < {} > {}", source.word(), source.word(), source.word(), source.word())
            }
            19 => format!("[{}] [ ] ({})", source.word(), source.word()),
            20 => format!("#{} ^{} %%{}%%", source.word(), source.word(), source.word()),
            21 => format!("<object> {} <template> {}", source.word(), source.word()),
            22 => format!("{{{{ {} }}}} {{% {} %}}", source.word(), source.word()),
            _ => source.words(4),
        });
    }
    parts.join(" ")
}
