//! Reads style sheets into rules.

use std::borrow::Cow;

use cssparser::{
    AtRuleParser, CowRcStr, DeclarationParser, ParseError, Parser, ParserState,
    QualifiedRuleParser, RuleBodyItemParser, RuleBodyParser, StyleSheetParser,
};

use super::selector::Parsed;
use super::{Property, Rule, StyleSheets};

// In all sheets of a file.
const MAX_SELECTORS: usize = 200_000;
const MAX_PROPERTIES: usize = 50;
const MAX_VALUE_BYTES: usize = 1_000;
// Properties that printing may change here: its pages are those of the document, its looks are not those on a screen.
const PRINTED: [&str; 4] = [
    "break-after",
    "break-before",
    "page-break-after",
    "page-break-before",
];

/// For which media rules are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Media {
    Screen,
    Print,
    Other,
}

/// Adds the rules of a sheet to those of its file.
pub(super) struct SheetParser<'s> {
    sheets: &'s mut StyleSheets,
    media: Media,
}

impl<'s> SheetParser<'s> {
    pub(super) fn new(sheets: &'s mut StyleSheets) -> Self {
        Self {
            sheets,
            media: Media::Screen,
        }
    }

    pub(super) fn read_sheet(&mut self, bytes: &[u8], media: &[u8]) {
        self.media = media_of(&String::from_utf8_lossy(media));
        let text = css_text(bytes);
        self.read_rules(&mut Parser::new(&text));
    }

    fn read_rules(&mut self, input: &mut Parser<'_>) {
        // A rule that cannot be parsed says nothing, as in browsers.
        StyleSheetParser::new(input, self).for_each(drop);
    }
}

// In XHTML the content of the element is text with references, or a CDATA section.
fn css_text(bytes: &[u8]) -> Cow<'_, str> {
    let text = String::from_utf8_lossy(bytes);
    let is_marked = text.contains("&gt;") || text.contains("<![CDATA[");
    if !is_marked {
        return text;
    }
    let marks = [("&gt;", ">"), ("<![CDATA[", " "), ("]]>", " ")];
    let plain = marks.iter().fold(text.into_owned(), |text, (mark, plain)| {
        text.replace(mark, plain)
    });
    Cow::Owned(plain)
}

// Queries with conditions are for other media: nobody knows how wide the window is.
fn media_of(query: &str) -> Media {
    let mut media = Media::Other;
    for query in query.split(',') {
        let query = query.trim().to_ascii_lowercase();
        match query
            .strip_prefix("only ")
            .unwrap_or(&query)
            .trim()
            .as_bytes()
        {
            b"" | b"all" | b"screen" => return Media::Screen,
            b"print" => media = Media::Print,
            _ => {}
        }
    }
    media
}

impl<'i> QualifiedRuleParser<'i> for SheetParser<'_> {
    type Prelude = Vec<Parsed>;
    type QualifiedRule = ();
    type Error = ();

    fn parse_prelude(&mut self, input: &mut Parser<'i>) -> Result<Vec<Parsed>, ParseError<()>> {
        input.parse_comma_separated(Parsed::parse)
    }

    fn parse_block(
        &mut self,
        prelude: Vec<Parsed>,
        _start: &ParserState,
        input: &mut Parser<'i>,
    ) -> Result<(), ParseError<()>> {
        let mut body = RuleBody {
            media: self.media,
            rule: Rule::default(),
            is_cut: false,
        };
        RuleBodyParser::new(input, &mut body).for_each(drop);
        self.sheets.is_cut |= body.is_cut;
        let rule = body.rule;
        if self.media == Media::Screen
            && prelude
                .iter()
                .any(|parsed| matches!(parsed, Parsed::NotUnderstood))
        {
            let mut all = rule.normal.iter().chain(&rule.important);
            self.sheets.is_partial |= all.any(|property| property.name.starts_with(b"background"));
        }
        if rule.normal.is_empty() && rule.important.is_empty() {
            return Ok(());
        }
        let room = MAX_SELECTORS.saturating_sub(self.sheets.selectors.len());
        self.sheets.is_cut |= prelude.len() > room;
        let selectors = prelude.into_iter().filter_map(|parsed| match parsed {
            Parsed::Selector(selector) => Some(*selector),
            Parsed::Never | Parsed::NotUnderstood => None,
        });
        let selectors: Vec<_> = selectors.take(room).collect();
        if !selectors.is_empty() {
            self.sheets.add_rule(selectors, rule);
        }
        Ok(())
    }
}

impl<'i> AtRuleParser<'i> for SheetParser<'_> {
    type Prelude = Media;
    type AtRule = ();
    type Error = ();

    fn parse_prelude(
        &mut self,
        name: CowRcStr<'i>,
        input: &mut Parser<'i>,
    ) -> Result<Media, ParseError<()>> {
        let start = input.position();
        while input.next().is_ok() {}
        if name.eq_ignore_ascii_case("media") {
            return Ok(media_of(input.slice_from(start)));
        }
        // A browser supports what authors ask for, unless they ask for the contrary.
        let is_supported = name.eq_ignore_ascii_case("supports")
            && !input.slice_from(start).to_ascii_lowercase().contains("not");
        if is_supported {
            return Ok(Media::Screen);
        }
        // Imported and conditional rules may paint anything. Fonts, pages and animations do not.
        self.sheets.is_partial |= matches!(
            name.to_ascii_lowercase().as_bytes(),
            b"import" | b"supports" | b"layer" | b"container" | b"scope"
        );
        Ok(Media::Other)
    }

    fn rule_without_block(&mut self, _media: Media, _start: &ParserState) -> Result<(), ()> {
        Ok(())
    }

    // Blocks in blocks are bounded by the parser.
    fn parse_block(
        &mut self,
        media: Media,
        _start: &ParserState,
        input: &mut Parser<'i>,
    ) -> Result<(), ParseError<()>> {
        let outer = self.media;
        self.media = match (outer, media) {
            (Media::Screen, inner) => inner,
            (Media::Print, Media::Screen | Media::Print) => Media::Print,
            _ => Media::Other,
        };
        if self.media == Media::Other {
            while input.next().is_ok() {}
        } else {
            self.read_rules(input);
        }
        self.media = outer;
        Ok(())
    }
}

/// The declarations between the braces of a rule.
struct RuleBody {
    media: Media,
    rule: Rule,
    is_cut: bool,
}

impl<'i> DeclarationParser<'i> for RuleBody {
    type Declaration = ();
    type Error = ();

    fn parse_value(
        &mut self,
        name: CowRcStr<'i>,
        input: &mut Parser<'i>,
        _start: &ParserState,
    ) -> Result<(), ParseError<()>> {
        let start = input.position();
        while input.next().is_ok() {}
        let written = input.slice_from(start);
        let marked = written
            .rsplit_once('!')
            .filter(|(_, mark)| mark.trim().eq_ignore_ascii_case("important"));
        let is_important = marked.is_some();
        let value = marked.map_or(written, |(value, _)| value).trim();
        let name = name.to_ascii_lowercase();
        let counts = self.media == Media::Screen || PRINTED.contains(&name.as_str());
        let list = if is_important {
            &mut self.rule.important
        } else {
            &mut self.rule.normal
        };
        self.is_cut |= list.len() >= MAX_PROPERTIES;
        if counts && list.len() < MAX_PROPERTIES && value.len() <= MAX_VALUE_BYTES {
            list.push(Property {
                name: name.into_bytes().into(),
                value: value.as_bytes().into(),
            });
        }
        Ok(())
    }
}

impl<'i> AtRuleParser<'i> for RuleBody {
    type Prelude = ();
    type AtRule = ();
    type Error = ();
}

impl<'i> QualifiedRuleParser<'i> for RuleBody {
    type Prelude = ();
    type QualifiedRule = ();
    type Error = ();
}

impl<'i> RuleBodyItemParser<'i, (), ()> for RuleBody {
    fn parse_declarations(&self) -> bool {
        true
    }

    fn parse_qualified(&self) -> bool {
        false
    }
}
