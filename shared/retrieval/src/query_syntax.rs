//! The operators of a query: phrases, `OR`, `-word` and `field:value`.
//!
//! ```text
//! query    = { clause | clause "OR" clause }
//! clause   = [ "-" ] [ field ":" ] ( '"' words '"' | word )
//! ```
//!
//! Queries are mostly questions of people, so a text has to be unmistakable to be an operator. A field is one of a
//! closed list, with its value right behind the colon. `OR` is written in capitals, in a query that is not. `-` stands before a
//! letter, at the start of a word. A quotation mark opens before a word and closes after one. Anything else is plain text.

use std::fmt;
use std::ops::Range;

use serde::{Deserialize, Serialize};
use stemma_catalog::filter::{Condition, Filter, FilterError, FilterField, FilterOp};

use crate::search::MAX_QUERY_CHARS;
use crate::tokenizer::tokenize;

// Bounds the work per query; more than filters have conditions would be refused by them.
const MAX_CLAUSES: usize = 32;
// Longer quotations are searched as words. The limit keeps the search for closing marks short.
const MAX_PHRASE_BYTES: usize = 400;
// Of a clause, in notes.
const SHOWN_CHARS: usize = 80;

/// A query split into what to search for and what must hold.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ParsedSyntax {
    /// The query without operators: it is ranked, and names issuers, years and Items.
    pub text: String,
    pub operators: TextOperators,
    /// Conditions on documents.
    pub filter: Filter,
}

/// Conditions on the text of a hit.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TextOperators {
    /// All of them must hold.
    pub required: Vec<Requirement>,
    /// None of them may occur.
    pub excluded: Vec<TextMatch>,
}

/// Alternatives, of which one must occur.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Requirement(pub Vec<TextMatch>);

/// A word, or words in this order.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TextMatch {
    pub field: TextField,
    /// As written, without quotation marks. It has at least one index term.
    pub words: String,
}

/// What the words must occur in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TextField {
    /// A page, or a section of a document without pages.
    Text,
    /// The title of the section, or one above it.
    Title,
}

impl TextField {
    pub fn as_str(self) -> &'static str {
        match self {
            TextField::Text => "text",
            TextField::Title => "title",
        }
    }
}

/// Why the operators of a query make no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SyntaxError {
    #[error("`{clause}` is a condition on documents, so it cannot be an alternative to `{other}`")]
    MixedAlternatives { clause: String, other: String },
    #[error("`{clause}` excludes, so it cannot be an alternative")]
    ExcludedAlternative { clause: String },
    #[error("a query has at most {MAX_CLAUSES} phrases, alternatives, exclusions and fields")]
    TooManyClauses,
    #[error("the query says what to leave out or where to search, but has no words to search for")]
    NoWords,
    #[error("`{clause}`: {error}")]
    Filter { clause: String, error: FilterError },
}

impl SyntaxError {
    /// What to do about it.
    pub fn next_step(&self) -> &'static str {
        match self {
            SyntaxError::MixedAlternatives { .. } => {
                "join fields of documents with each other (form:10-K OR form:10-Q), and words with words"
            }
            SyntaxError::ExcludedAlternative { .. } => {
                "leave out the OR before or after it; every exclusion holds"
            }
            SyntaxError::TooManyClauses => "write most of them as plain words, without operators",
            SyntaxError::NoWords => "add words to search for, such as `revenue company:3M`",
            SyntaxError::Filter { .. } => "put the text in quotation marks to search for it",
        }
    }
}

impl TextOperators {
    pub fn is_empty(&self) -> bool {
        self.required.is_empty() && self.excluded.is_empty()
    }
}

impl fmt::Display for TextMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.field == TextField::Title {
            f.write_str("title:")?;
        }
        let words: String = self.words.chars().take(SHOWN_CHARS).collect();
        write!(f, "“{words}”")
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let alternatives: Vec<String> = self.0.iter().map(TextMatch::to_string).collect();
        f.write_str(&alternatives.join(" OR "))
    }
}

/// Splits a query into plain text and operators. A text without operators is returned as it is.
///
/// # Errors
/// [`SyntaxError`] for operators that contradict each other, or a field with an impossible value.
pub fn parse(text: &str) -> Result<ParsedSyntax, SyntaxError> {
    let end = text.char_indices().nth(MAX_QUERY_CHARS);
    let text = &text[..end.map_or(text.len(), |(at, _)| at)];
    let mut builder = SyntaxBuilder::default();
    let tokens = Lexer::new(text).tokens();
    let mut at = 0;
    while at < tokens.len() {
        let group = alternatives(text, &tokens[at..]);
        builder.add_group(text, &tokens[at..at + group])?;
        at += group;
    }
    builder.finish(text)
}

// The number of tokens of the first clause and its alternatives.
fn alternatives(text: &str, tokens: &[Token]) -> usize {
    let mut end = 1;
    while end + 1 < tokens.len()
        && tokens[end].kind == TokenKind::Or
        && tokens[end - 1].can_be_alternative(text)
        && tokens[end + 1].can_be_alternative(text)
    {
        end += 2;
    }
    end
}

struct Token {
    kind: TokenKind,
    span: Range<usize>,
    // White space, and punctuation behind a clause.
    before: Range<usize>,
}

#[derive(Debug, Clone, PartialEq)]
enum TokenKind {
    Plain,
    Or,
    Phrase(Range<usize>),
    Field(Field, Range<usize>),
    Excluded(Option<Field>, Range<usize>),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Field {
    Text(TextField),
    Document(FilterField),
}

impl Field {
    fn from_name(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            "title" => Self::Text(TextField::Title),
            "text" => Self::Text(TextField::Text),
            "year" => Self::Document(FilterField::FiscalYear),
            "quarter" => Self::Document(FilterField::FiscalPeriod),
            name => Self::Document(FilterField::from_name(name)?),
        })
    }
}

impl Token {
    fn can_be_alternative(&self, text: &str) -> bool {
        match &self.kind {
            // `sales, OR income` is a sentence.
            TokenKind::Plain => {
                let word = &text[self.span.clone()];
                !word.ends_with([',', ';', '.', ':', '?', '!']) && has_words(word)
            }
            TokenKind::Or => false,
            _ => true,
        }
    }

    // A condition on text; `None` for a condition on documents.
    fn text_match(&self, text: &str) -> Option<TextMatch> {
        let (field, words) = match &self.kind {
            TokenKind::Plain => (TextField::Text, &self.span),
            TokenKind::Phrase(words) => (TextField::Text, words),
            TokenKind::Field(Field::Text(field), words) => (*field, words),
            TokenKind::Excluded(None, words) => (TextField::Text, words),
            TokenKind::Excluded(Some(Field::Text(field)), words) => (*field, words),
            _ => return None,
        };
        let words = text[words.clone()].trim_matches(|c: char| !c.is_alphanumeric());
        let words = words.to_owned();
        Some(TextMatch { field, words })
    }
}

struct Lexer<'t> {
    text: &'t str,
    // A query in capitals has no word `OR` that differs from others.
    has_lowercase: bool,
    // Behind the last word that ends with a hyphen: before it, `-word` may open a parenthesis (`sales -net of tax- fell`).
    last_dash: usize,
}

impl<'t> Lexer<'t> {
    fn new(text: &'t str) -> Self {
        let words = text.split_whitespace();
        let dashed = words.filter(|word| word.len() > 1 && word.ends_with('-'));
        let last_dash = dashed
            .last()
            .map_or(0, |word| word.as_ptr() as usize - text.as_ptr() as usize);
        Self {
            text,
            has_lowercase: text.chars().any(char::is_lowercase),
            last_dash,
        }
    }

    fn tokens(&self) -> Vec<Token> {
        let mut tokens = Vec::new();
        let mut at = 0;
        loop {
            let rest = &self.text[at..];
            let start = at
                + rest
                    .find(|c: char| !c.is_whitespace() && c != '(')
                    .unwrap_or(rest.len());
            if start == self.text.len() {
                return tokens;
            }
            let (kind, end) = self.token(start);
            tokens.push(Token {
                kind,
                span: start..end,
                before: at..start,
            });
            at = end;
        }
    }

    // The token at `start`, and where it ends.
    fn token(&self, start: usize) -> (TokenKind, usize) {
        let is_word_start = self.text[..start].ends_with(|c: char| c.is_whitespace() || c == '(');
        let operator = (start == 0 || is_word_start).then(|| self.operator(start));
        operator
            .flatten()
            .unwrap_or_else(|| (TokenKind::Plain, self.word_end(start)))
    }

    fn operator(&self, start: usize) -> Option<(TokenKind, usize)> {
        let rest = &self.text[start..];
        if let Some((words, end)) = self.quoted(start) {
            return Some((TokenKind::Phrase(words), end));
        }
        if let Some(behind) = rest.strip_prefix('-') {
            // `10 -K` is a form, badly written.
            let word = &self.text[start..self.word_end(start)];
            let is_word = behind.starts_with(char::is_alphabetic)
                && word.chars().filter(|c| c.is_alphanumeric()).count() > 1;
            let is_quoted = self.quoted(start + 1).is_some();
            if start < self.last_dash || !(is_word || is_quoted) {
                return None;
            }
            if let Some((field, value, end)) = self.field(start + 1) {
                return Some((TokenKind::Excluded(Some(field), value), end));
            }
            let (words, end) = self.value(start + 1)?;
            return Some((TokenKind::Excluded(None, words), end));
        }
        if let Some((field, value, end)) = self.field(start) {
            return Some((TokenKind::Field(field, value), end));
        }
        let end = self.word_end(start);
        (self.has_lowercase && &self.text[start..end] == "OR").then_some((TokenKind::Or, end))
    }

    // A known field, its value, and the end of both.
    fn field(&self, start: usize) -> Option<(Field, Range<usize>, usize)> {
        let rest = &self.text[start..];
        let colon = rest.find(|c: char| !(c.is_ascii_alphabetic() || c == '_'))?;
        let value = rest[colon..].strip_prefix(':')?;
        let field = Field::from_name(&rest[..colon]).filter(|_| !value.starts_with("//"))?;
        let (value, end) = self.value(start + colon + 1)?;
        Some((field, value, end))
    }

    // A quoted phrase, or a word without the punctuation behind it.
    fn value(&self, start: usize) -> Option<(Range<usize>, usize)> {
        if let Some(quoted) = self.quoted(start) {
            return Some(quoted);
        }
        let word = &self.text[start..self.word_end(start)];
        let value = word.trim_end_matches([',', ';', '.', ':', '?', '!', ')', '"', '”']);
        let end = start + value.len();
        has_words(value).then_some((start..end, end))
    }

    fn word_end(&self, start: usize) -> usize {
        let rest = &self.text[start..];
        start + rest.find(char::is_whitespace).unwrap_or(rest.len())
    }

    // The inside of a quotation that opens at `start`, and the end of its closing mark.
    fn quoted(&self, start: usize) -> Option<(Range<usize>, usize)> {
        let rest = &self.text[start..];
        let open = rest.chars().next()?;
        let marks: &[char] = match open {
            '"' => &['"'],
            '“' | '„' => &['”', '“'],
            '«' => &['»'],
            _ => return None,
        };
        let from = start + open.len_utf8();
        let reach = self.text.floor_char_boundary(from + MAX_PHRASE_BYTES);
        let inside = &self.text[from..reach];
        let closes = |at: usize, mark: char| {
            let behind = &self.text[from + at + mark.len_utf8()..];
            !inside[..at].ends_with(char::is_whitespace)
                && !behind.starts_with(|c: char| c.is_alphanumeric() || c == open)
        };
        let (at, mark) = inside
            .char_indices()
            .find(|(at, c)| marks.contains(c) && closes(*at, *c))?;
        let words = from..from + at;
        has_words(&self.text[words.clone()]).then_some((words, from + at + mark.len_utf8()))
    }
}

fn has_words(text: &str) -> bool {
    !tokenize(text).is_empty()
}

#[derive(Default)]
struct SyntaxBuilder {
    // The plain text.
    text: String,
    operators: TextOperators,
    // Equal conditions on one field are alternatives: no document has two companies.
    equal: Vec<Condition>,
    filters: Vec<Filter>,
    clauses: usize,
}

impl SyntaxBuilder {
    // A clause, or several with `OR` between them.
    fn add_group(&mut self, text: &str, tokens: &[Token]) -> Result<(), SyntaxError> {
        if tokens.len() > 1 || !matches!(tokens[0].kind, TokenKind::Plain | TokenKind::Or) {
            self.clauses += tokens.len().div_ceil(2);
        }
        if self.clauses > MAX_CLAUSES {
            return Err(SyntaxError::TooManyClauses);
        }
        for token in tokens {
            self.add_plain_text(text, token, tokens.len() > 1);
        }
        match tokens {
            [token] => self.add_clause(text, token),
            tokens => self.add_alternatives(text, tokens),
        }
    }

    // What of a token is searched for.
    fn add_plain_text(&mut self, text: &str, token: &Token, is_group: bool) {
        self.text.push_str(&text[token.before.clone()]);
        let words = match &token.kind {
            TokenKind::Plain => &token.span,
            TokenKind::Or if !is_group => &token.span,
            TokenKind::Phrase(words) | TokenKind::Field(Field::Text(_), words) => words,
            _ => return,
        };
        self.text.push_str(&text[words.clone()]);
    }

    fn add_clause(&mut self, text: &str, token: &Token) -> Result<(), SyntaxError> {
        match &token.kind {
            TokenKind::Plain | TokenKind::Or => {}
            TokenKind::Field(Field::Document(field), value) => {
                match parse_condition(*field, &text[value.clone()]) {
                    Ok(Filter::Condition(condition)) if condition.op == FilterOp::In => {
                        self.add_equal(condition);
                    }
                    Ok(filter) => self.filters.push(filter),
                    Err(error) => return Err(filter_error(text, token, error)),
                }
            }
            TokenKind::Excluded(Some(Field::Document(field)), value) => {
                let filter = parse_condition(*field, &text[value.clone()])
                    .map_err(|error| filter_error(text, token, error))?;
                self.filters.push(negated(filter));
            }
            TokenKind::Excluded(..) => self.operators.excluded.extend(token.text_match(text)),
            TokenKind::Phrase(_) | TokenKind::Field(Field::Text(_), _) => {
                let one = token.text_match(text).into_iter().collect();
                self.operators.required.push(Requirement(one));
            }
        }
        Ok(())
    }

    fn add_equal(&mut self, condition: Condition) {
        let known = self
            .equal
            .iter_mut()
            .find(|known| known.field == condition.field);
        match known {
            Some(known) => known.values.extend(condition.values),
            None => self.equal.push(condition),
        }
    }

    fn add_alternatives(&mut self, text: &str, tokens: &[Token]) -> Result<(), SyntaxError> {
        let clause = |token: &Token| text[token.span.clone()].to_owned();
        let clauses: Vec<&Token> = tokens.iter().step_by(2).collect();
        if let Some(excluded) = clauses
            .iter()
            .find(|token| matches!(token.kind, TokenKind::Excluded(..)))
        {
            let clause = clause(excluded);
            return Err(SyntaxError::ExcludedAlternative { clause });
        }
        let (texts, documents): (Vec<&Token>, Vec<&Token>) = clauses
            .into_iter()
            .partition(|token| token.text_match(text).is_some());
        match (texts.first(), documents.first()) {
            (Some(other), Some(document)) => Err(SyntaxError::MixedAlternatives {
                clause: clause(document),
                other: clause(other),
            }),
            (Some(_), None) => {
                let alternatives = texts.iter().filter_map(|token| token.text_match(text));
                let requirement = Requirement(alternatives.collect());
                self.operators.required.push(requirement);
                Ok(())
            }
            (None, _) => {
                let any: Result<Vec<Filter>, SyntaxError> = documents
                    .iter()
                    .filter_map(|token| match &token.kind {
                        TokenKind::Field(Field::Document(field), value) => Some(
                            parse_condition(*field, &text[value.clone()])
                                .map_err(|error| filter_error(text, token, error)),
                        ),
                        _ => None,
                    })
                    .collect();
                self.filters.push(Filter::Any { any: any? });
                Ok(())
            }
        }
    }

    fn finish(self, text: &str) -> Result<ParsedSyntax, SyntaxError> {
        if self.clauses == 0 {
            return Ok(ParsedSyntax {
                text: text.to_owned(),
                ..ParsedSyntax::default()
            });
        }
        if !has_words(&self.text) {
            return Err(SyntaxError::NoWords);
        }
        let equal = self.equal.into_iter().map(Filter::Condition);
        Ok(ParsedSyntax {
            text: self.text.trim().to_owned(),
            operators: self.operators,
            filter: Filter::All(equal.chain(self.filters).collect()),
        })
    }
}

fn filter_error(text: &str, token: &Token, error: FilterError) -> SyntaxError {
    SyntaxError::Filter {
        clause: text[token.span.clone()].to_owned(),
        error,
    }
}

// `2022`, `>=2020` or `2020..2022`.
fn parse_condition(field: FilterField, value: &str) -> Result<Filter, FilterError> {
    let condition =
        |op, value: &str| Condition::new(field, op, &[value.to_owned()]).map(Filter::Condition);
    if let Some((from, to)) = value.split_once("..")
        && !from.is_empty()
        && !to.is_empty()
    {
        return Ok(Filter::All(vec![
            condition(FilterOp::AtLeast, from)?,
            condition(FilterOp::AtMost, to)?,
        ]));
    }
    // Longer operators come first, because `<` is a prefix of `<=`.
    let ops = [
        ("<=", FilterOp::AtMost),
        (">=", FilterOp::AtLeast),
        ("<", FilterOp::Less),
        (">", FilterOp::More),
    ];
    let compared = ops
        .iter()
        .find_map(|(sign, op)| Some((*op, value.strip_prefix(sign)?)));
    let (op, value) = compared.unwrap_or((FilterOp::In, value));
    condition(op, value)
}

// The opposite of a filter made by `parse_condition`.
fn negated(filter: Filter) -> Filter {
    match filter {
        Filter::Condition(condition) => Filter::Condition(Condition {
            op: match condition.op {
                FilterOp::In => FilterOp::NotIn,
                FilterOp::NotIn => FilterOp::In,
                FilterOp::Less => FilterOp::AtLeast,
                FilterOp::AtMost => FilterOp::More,
                FilterOp::More => FilterOp::AtMost,
                FilterOp::AtLeast => FilterOp::Less,
            },
            ..condition
        }),
        Filter::All(filters) => Filter::Any {
            any: filters.into_iter().map(negated).collect(),
        },
        Filter::Any { any } => Filter::All(any.into_iter().map(negated).collect()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    // The plain text, then each operator as a response shows it.
    fn parsed(text: &str) -> String {
        let parsed = match parse(text) {
            Ok(parsed) => parsed,
            Err(error) => return format!("error: {error}"),
        };
        let required = parsed.operators.required.iter().map(ToString::to_string);
        let excluded = parsed
            .operators
            .excluded
            .iter()
            .map(|one| format!("-{one}"));
        let conditions = parsed.filter.conditions();
        let conditions = conditions.iter().map(ToString::to_string);
        let operators = required.chain(excluded).chain(conditions);
        std::iter::once(parsed.text)
            .chain(operators)
            .collect::<Vec<_>>()
            .join(" / ")
    }

    #[test]
    fn operators_are_split_from_the_text() {
        for (text, expected) in [
            (
                r#"What drove "raw material costs" -freight in 2022?"#,
                "What drove raw material costs  in 2022? / “raw material costs” / -“freight”",
            ),
            (
                "hedging OR swaps of currency",
                "hedging  swaps of currency / “hedging” OR “swaps”",
            ),
            (
                "(hedging OR “interest rate swaps” OR forwards)",
                "(hedging  interest rate swaps  forwards) / “hedging” OR “interest rate swaps” OR “forwards”",
            ),
            (
                "revenue company:3M year:2022",
                "revenue / company=3m / fiscal_year=2022",
            ),
            (
                r#"revenue Company:"American Express", form:10-K?"#,
                "revenue , ? / company=american express / form=10-k",
            ),
            (
                "revenue year:2021 year:2022",
                "revenue / fiscal_year in (2021, 2022)",
            ),
            (
                "revenue year:2021 OR year:2022",
                "revenue / fiscal_year=2021 / fiscal_year=2022",
            ),
            ("revenue year:>=2020", "revenue / fiscal_year>=2020"),
            (
                "revenue year:2020..2022",
                "revenue / fiscal_year>=2020 / fiscal_year<=2022",
            ),
            (
                "revenue -form:8-K -year:<2020",
                "revenue / form!=8-k / fiscal_year>=2020",
            ),
            ("title:liquidity", "liquidity / title:“liquidity”"),
            (
                r#"title:"market risk" -title:foreign"#,
                "market risk / title:“market risk” / -title:“foreign”",
            ),
            (
                "text:goodwill impairment",
                "goodwill impairment / “goodwill”",
            ),
            (
                r#"goodwill -"reporting unit""#,
                "goodwill / -“reporting unit”",
            ),
            ("R&D -R&D", "R&D / -“R&D”"),
        ] {
            assert_eq!(parsed(text), expected, "{text}");
        }
    }

    #[test]
    fn questions_are_no_operators() {
        for text in [
            "",
            "What is the year-over-year change of long-term debt and/or leases?",
            "Question: what did 3M pay at 10:30?",
            "company: 3M",
            "See https://example.com and http:x",
            "short- and long-term debt",
            "a change of -5% to -12",
            "sales -net of returns- fell",
            "- cash - and --equivalents",
            "the 10 -K filing",
            r#"a 19" rack and 7" pipe"#,
            r#"" quoted " and """" and "!""#,
            "WHAT IS THE REVENUE OR THE INCOME OF 3M?",
            "sales, OR income",
            "OR",
            "sales OR",
            "sales OR ?",
            "color:red",
            "title: text: form:",
            "the company's 'core' segment",
        ] {
            let expected = ParsedSyntax {
                text: text.into(),
                ..ParsedSyntax::default()
            };
            assert_eq!(parse(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn contradictions_are_errors_with_a_next_step() {
        for (text, expected) in [
            (
                "sales OR company:3M",
                "error: `company:3M` is a condition on documents, so it cannot be an alternative to `sales`",
            ),
            (
                "sales OR -income",
                "error: `-income` excludes, so it cannot be an alternative",
            ),
            (
                "-sales company:3M",
                "error: the query says what to leave out or where to search, but has no words to search for",
            ),
            (
                "sales year:last",
                "error: `year:last`: `last` is not a number, as fiscal_year requires",
            ),
        ] {
            assert_eq!(parsed(text), expected, "{text}");
            assert!(!parse(text).unwrap_err().next_step().is_empty());
        }
        let many = r#""sales" "#.repeat(MAX_CLAUSES + 1);
        assert_eq!(parse(&many), Err(SyntaxError::TooManyClauses));
    }

    #[test]
    fn hostile_texts_are_parsed_in_time() {
        let started = std::time::Instant::now();
        for unit in [
            "\"",
            "-",
            "a OR ",
            "\"a ",
            "-\"",
            "(",
            "title:",
            "“a",
            "-a:",
            "a- -b ",
            "🦀\"x\" ",
        ] {
            let _ = parse(&unit.repeat(8_000));
        }
        assert!(started.elapsed().as_secs() < 5);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in r#"([a-z]{0,3}|["“”„«»():<>.,-]|OR|title|year|company|\PC| ){0,40}"#) {
            let _ = parse(&text);
        }

        #[test]
        fn words_are_plain_text(words in prop::collection::vec("[a-zA-Zä0-9]{1,8}([-'’,.;/&%]|and/or)?[a-z0-9]{1,4}", 1..12)) {
            let text = words.join(" ");
            prop_assume!(!words.iter().any(|word| word == "OR"));
            let parsed = parse(&text).unwrap();
            prop_assert_eq!(parsed.text, text);
            prop_assert!(parsed.operators.is_empty() && parsed.filter.is_empty());
        }

        #[test]
        fn operators_keep_the_words_of_the_text(words in prop::collection::vec("[a-z]{2,8}", 1..6)) {
            let plain = words.join(" ");
            let parsed = parse(&format!("{plain} \"{plain}\" -omitted company:acme")).unwrap();
            prop_assert_eq!(tokenize(&parsed.text), tokenize(&format!("{plain} {plain}")));
            prop_assert_eq!(parsed.operators.required.len(), 1);
            prop_assert_eq!(parsed.operators.excluded.len(), 1);
        }
    }
}
