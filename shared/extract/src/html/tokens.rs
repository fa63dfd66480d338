//! Splits HTML into tags and text, each with its bytes in the file.
//!
//! The rules are those of the WHATWG tokenizer as far as filings need them: quoted attributes, comments, raw text of scripts.
//! Nothing is copied: names and values are slices of the file. The work is linear in the file.

use std::ops::Range;

use memchr::{memchr, memchr2, memmem, memrchr};

use super::elements::Name;

/// A piece of the file.
#[derive(Debug, PartialEq)]
pub(super) enum Token<'a> {
    /// Text between tags, with character references as written.
    Text(Range<usize>),
    Start(StartTag<'a>),
    End(Name),
    /// The inside of a comment.
    Comment(&'a [u8]),
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct StartTag<'a> {
    pub(super) name: Name,
    /// Its name in the file.
    pub(super) written: &'a [u8],
    /// Byte of its `<`.
    pub(super) at: usize,
    /// First byte behind the tag.
    pub(super) end: usize,
    /// `<br/>`. Filers write `<td/>` and `<div/>` for empty elements, whatever the file calls itself.
    pub(super) is_closed: bool,
    attributes: &'a [u8],
}

impl<'a> StartTag<'a> {
    /// Name and value of each attribute, as written; the value is empty for `<td nowrap>`.
    pub(super) fn attributes(&self) -> Attributes<'a> {
        Attributes {
            rest: self.attributes,
        }
    }

    /// Whether it is written with this name, in any case.
    pub(super) fn is_named(&self, name: &[u8]) -> bool {
        self.written.eq_ignore_ascii_case(name)
    }

    /// The value of an attribute; its name in lower case.
    pub(super) fn attribute(&self, name: &[u8]) -> Option<&'a [u8]> {
        let found = self
            .attributes()
            .find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value)
    }
}

/// The attributes of a tag, in order.
pub(super) struct Attributes<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Attributes<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let skipped = self
            .rest
            .iter()
            .take_while(|byte| byte.is_ascii_whitespace() || **byte == b'/')
            .count();
        self.rest = &self.rest[skipped..];
        let (&first, _) = self.rest.split_first()?;
        // An `=` that begins a name is part of it.
        let after_first = &self.rest[usize::from(first == b'=')..];
        let length = after_first
            .iter()
            .take_while(|byte| !byte.is_ascii_whitespace() && !matches!(byte, b'/' | b'='))
            .count();
        let length = length + usize::from(first == b'=');
        let (name, behind) = self.rest.split_at(length.max(1));
        let value = trim_start(behind);
        let Some((b'=', value)) = value.split_first() else {
            self.rest = behind;
            return Some((name, b""));
        };
        let value = trim_start(value);
        let (value, rest) = match value.split_first() {
            Some((quote @ (b'"' | b'\''), inside)) => {
                let end = memchr(*quote, inside).unwrap_or(inside.len());
                (&inside[..end], inside.get(end + 1..).unwrap_or_default())
            }
            _ => {
                let end = value
                    .iter()
                    .position(u8::is_ascii_whitespace)
                    .unwrap_or(value.len());
                value.split_at(end)
            }
        };
        self.rest = rest;
        Some((name, value))
    }
}

fn trim_start(bytes: &[u8]) -> &[u8] {
    bytes.trim_ascii_start()
}

/// Reads tokens from the start of a file to its end.
pub(super) struct Tokenizer<'a> {
    bytes: &'a [u8],
    at: usize,
    // A start tag whose raw text is skipped before the next token.
    raw: Option<Name>,
    /// Byte of a tag or comment that the file never ends; all behind it is lost.
    pub(super) unclosed: Option<usize>,
}

impl<'a> Tokenizer<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            at: 0,
            raw: None,
            unclosed: None,
        }
    }

    /// The end of the text before the end tag that was read last.
    pub(super) fn end_of_raw_text(&self) -> usize {
        let read = &self.bytes[..self.at];
        memrchr(b'<', read).unwrap_or(read.len())
    }

    // Everything from `at` is inside a construct without an end, as browsers read it.
    fn cut(&mut self, at: usize) -> Option<Token<'a>> {
        self.unclosed = Some(at);
        self.at = self.bytes.len();
        None
    }

    fn text_until(&mut self, end: usize) -> Token<'a> {
        let range = self.at..end;
        self.at = end;
        Token::Text(range)
    }

    // `<!`, `<?` and `</` before anything but a letter.
    fn declaration(&mut self) -> Option<Token<'a>> {
        let at = self.at;
        let rest = &self.bytes[at..];
        if rest.starts_with(b"<!--") {
            // `<!-->` is an empty comment.
            let body = &rest[4..];
            if body.starts_with(b">") {
                self.at = at + 5;
                return Some(Token::Comment(b""));
            }
            let Some(end) = memmem::find(body, b"-->") else {
                return self.cut(at);
            };
            self.at = at + 4 + end + 3;
            return Some(Token::Comment(&body[..end]));
        }
        if rest.starts_with(b"<![CDATA[") {
            let Some(end) = memmem::find(rest, b"]]>") else {
                return self.cut(at);
            };
            self.at = at + end + 3;
            return Some(Token::Text(at + 9..at + end.max(9)));
        }
        let Some(end) = memchr(b'>', rest) else {
            return self.cut(at);
        };
        self.at = at + end + 1;
        Some(Token::Comment(b""))
    }

    fn end_tag(&mut self) -> Option<Token<'a>> {
        let rest = &self.bytes[self.at + 2..];
        let Some(end) = memchr(b'>', rest) else {
            return self.cut(self.at);
        };
        self.at += 2 + end + 1;
        Some(Token::End(Name::from_bytes(tag_name(&rest[..end]))))
    }

    fn start_tag(&mut self) -> Option<Token<'a>> {
        let at = self.at;
        let rest = &self.bytes[at + 1..];
        let written = tag_name(rest);
        let Some(end) = tag_end(rest, written.len()) else {
            return self.cut(at);
        };
        let inside = &rest[written.len()..end];
        // In `<a href=x/>` the slash is part of the value.
        let is_closed = inside.ends_with(b"/") && !ends_in_bare_value(inside);
        let name = Name::from_bytes(written);
        self.at = at + 1 + end + 1;
        if name.is_raw_text() && !is_closed {
            self.raw = Some(name);
        }
        Some(Token::Start(StartTag {
            name,
            written,
            at,
            end: self.at,
            is_closed,
            attributes: inside,
        }))
    }

    // Skips to the end tag of a script or the like.
    fn skip_raw_text(&mut self, name: Name) -> Option<Token<'a>> {
        let mut at = self.at;
        while let Some(found) = memmem::find(&self.bytes[at..], b"</") {
            let start = at + found + 2;
            if Name::from_bytes(tag_name(&self.bytes[start..])) == name {
                self.at = start - 2;
                return self.end_tag();
            }
            at = start;
        }
        self.cut(self.at)
    }
}

impl<'a> Iterator for Tokenizer<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        if let Some(name) = self.raw.take() {
            return self.skip_raw_text(name);
        }
        let rest = self.bytes.get(self.at..).filter(|rest| !rest.is_empty())?;
        // A `<` before a space or digit is text.
        let mut from = 0;
        while let Some(found) = memchr(b'<', &rest[from..]) {
            let open = from + found;
            let is_markup = match rest.get(open + 1) {
                Some(b'!' | b'?') => true,
                Some(b'/') => rest.get(open + 2).is_some(),
                Some(byte) => byte.is_ascii_alphabetic(),
                None => false,
            };
            if is_markup && open > 0 {
                return Some(self.text_until(self.at + open));
            }
            if is_markup {
                return match rest[1] {
                    b'/' if rest[2].is_ascii_alphabetic() => self.end_tag(),
                    b'!' | b'?' | b'/' => self.declaration(),
                    _ => self.start_tag(),
                };
            }
            from = open + 1;
        }
        Some(self.text_until(self.bytes.len()))
    }
}

fn tag_name(bytes: &[u8]) -> &[u8] {
    let end = bytes
        .iter()
        .position(|byte| byte.is_ascii_whitespace() || matches!(byte, b'/' | b'>'));
    &bytes[..end.unwrap_or(bytes.len())]
}

/// The `>` that ends a tag. Quotes count only where a value begins.
fn tag_end(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        at += memchr2(b'>', b'=', &bytes[at..])?;
        if bytes[at] == b'>' {
            return Some(at);
        }
        at += 1;
        at += bytes[at..]
            .iter()
            .take_while(|byte| byte.is_ascii_whitespace())
            .count();
        if let Some(quote @ (b'"' | b'\'')) = bytes.get(at) {
            at += 1;
            at += memchr(*quote, &bytes[at..])? + 1;
        }
    }
}

fn ends_in_bare_value(inside: &[u8]) -> bool {
    let word = inside
        .rsplit(u8::is_ascii_whitespace)
        .next()
        .unwrap_or_default();
    // A quoted value ends in a quote before the slash.
    memchr(b'=', word).is_some() && !word.ends_with(b"\"/") && !word.ends_with(b"'/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens_as_text(html: &str) -> Vec<String> {
        let tokens = Tokenizer::new(html.as_bytes());
        let show = |token: Token<'_>| match token {
            Token::Text(range) => html[range].to_string(),
            Token::Start(tag) => {
                let attributes = tag.attributes().map(|(name, value)| {
                    format!(
                        " {}={}",
                        String::from_utf8_lossy(name),
                        String::from_utf8_lossy(value)
                    )
                });
                let attributes: String = attributes.collect();
                let closed = if tag.is_closed { "/" } else { "" };
                format!("<{:?}{attributes}{closed}>", tag.name)
            }
            Token::End(name) => format!("</{name:?}>"),
            Token::Comment(text) => format!("!{}", String::from_utf8_lossy(text)),
        };
        tokens.map(show).collect()
    }

    #[test]
    fn tags_text_and_attributes_are_split() {
        assert_eq!(
            tokens_as_text(
                "<P ALIGN=center id='a>b' x = \"1\" nowrap>1 < 2 &amp;<br/><td/>x</p  ><a href=x/>"
            ),
            [
                "<P ALIGN=center id=a>b x=1 nowrap=>",
                "1 < 2 &amp;",
                "<Br/>",
                "<Td/>",
                "x",
                "</P>",
                "<A href=x/>"
            ]
        );
    }

    #[test]
    fn comments_declarations_and_raw_text_are_no_text() {
        assert_eq!(
            tokens_as_text(
                "<?xml version='1.0'?><!DOCTYPE html><!-- a > b --><script>if (a<b) '</p>'</SCRIPT>x</ y><![CDATA[z]]>"
            ),
            ["!", "!", "! a > b ", "<Script>", "</Script>", "x", "!", "z"]
        );
    }

    #[test]
    fn a_construct_without_an_end_is_reported() {
        for html in [
            "ok<a href=\"x",
            "ok<!-- x",
            "ok<script>x",
            "ok</p",
            "ok<![CDATA[x",
        ] {
            let mut tokens = Tokenizer::new(html.as_bytes());
            assert_eq!(tokens.next(), Some(Token::Text(0..2)), "{html}");
            while tokens.next().is_some() {}
            assert!(tokens.unclosed.is_some(), "{html}");
        }
        assert_eq!(tokens_as_text("a <"), ["a <"]);
        assert_eq!(tokens_as_text("a </"), ["a </"]);
    }
}
