//! The tags and texts of an index page. The pages are made by one program, so names and texts are enough.

/// A tag by its lower-case name, with `/` if it ends something, or decoded text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Block<'a> {
    Tag(&'a str),
    Text(String),
}

// Names that the readers look at; every other tag is `*`.
const NAMES: [&str; 14] = [
    "br", "pre", "td", "/td", "tr", "/tr", "div", "/div", "p", "/p", "span", "/span", "table",
    "/table",
];

/// Tags and texts in file order. Comments are left out.
pub(crate) fn blocks(page: &str) -> impl Iterator<Item = Block<'_>> {
    let mut rest = page;
    std::iter::from_fn(move || {
        while let Some(comment) = rest.strip_prefix("<!--") {
            rest = comment.split_once("-->").map_or("", |(_, behind)| behind);
        }
        if rest.is_empty() {
            return None;
        }
        let inside = rest.strip_prefix('<');
        if inside.is_some_and(|inside| {
            inside.starts_with(|c: char| c.is_ascii_alphabetic() || "/!?".contains(c))
        }) {
            let end = rest.find('>').map_or(rest.len(), |at| at + 1);
            let tag = &rest[1..end];
            rest = &rest[end..];
            return Some(Block::Tag(known_name(tag)));
        }
        let first = rest.chars().next().map_or(0, char::len_utf8);
        let end = rest[first..].find('<').map_or(rest.len(), |at| first + at);
        let text = decode_entities(&rest[..end]);
        rest = &rest[end..];
        Some(Block::Text(text))
    })
}

fn known_name(tag: &str) -> &'static str {
    let length = tag
        .find(|c: char| !c.is_ascii_alphanumeric() && c != '/')
        .unwrap_or(tag.len());
    let name = tag[..length].trim_end_matches('/');
    NAMES
        .into_iter()
        .find(|known| known.eq_ignore_ascii_case(name))
        .unwrap_or("*")
}

fn decode_entities(text: &str) -> String {
    const NAMED: [(&str, &str); 7] = [
        ("lt", "<"),
        ("gt", ">"),
        ("quot", "\""),
        ("apos", "'"),
        ("nbsp", " "),
        ("#160", " "),
        ("amp", "&"),
    ];
    let mut decoded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('&') {
        decoded.push_str(before);
        let entity = NAMED
            .iter()
            .find_map(|(name, text)| Some((*text, behind.strip_prefix(name)?.strip_prefix(';')?)));
        match entity {
            Some((text, behind)) => {
                decoded.push_str(text);
                rest = behind;
            }
            None => {
                decoded.push('&');
                rest = behind;
            }
        }
    }
    decoded.push_str(rest);
    decoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_tags_and_decoded_texts() {
        let found: Vec<Block<'_>> =
            blocks("<TD class='x'>a &amp;lt; b &lt;c&gt; 1 < 2<!-- <td> --></TD><br/><b>é")
                .collect();
        let text = |text: &str| Block::Text(text.into());
        let expected = [
            Block::Tag("td"),
            text("a &lt; b <c> 1 "),
            text("< 2"),
            Block::Tag("/td"),
            Block::Tag("br"),
            Block::Tag("*"),
            text("é"),
        ];
        assert_eq!(found, expected);
        assert_eq!(blocks("<").count(), 1);
        assert_eq!(blocks("<!-- a").count(), 0);
    }
}
