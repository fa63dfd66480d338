//! The operators of a query: phrases, `OR`, `-word` and `field:value`.
//!
//! ```text
//! query    = { clause | clause "OR" clause }
//! clause   = [ "-" ] [ field ":" ] ( '"' words '"' | word )
//! ```
//!
//! Queries are mostly questions of people, so a text has to be unmistakable to be an operator. A field is one of a
//! closed list, with its value right behind the colon. `OR` is written in capitals, in a query that is not. `-` comes before a
//! letter, at the start of a word. A quotation mark opens before a word and closes after one. Anything else is plain text.

mod lexer;
#[cfg(test)]
mod tests;

use std::fmt;

use serde::{Deserialize, Serialize};
use stemma_catalog::filter::{Condition, Filter, FilterError, FilterOp};
use stemma_catalog::property::Property;

use self::lexer::{Field, Lexer, Token, TokenKind, has_words};
use crate::search::MAX_QUERY_CHARS;

// Bounds the work per query; more than filters have conditions would be refused by them.
const MAX_CLAUSES: usize = 32;
// Longest clause in notes.
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

/// Alternatives; one must occur.
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
    #[error("a query has at most {MAX_QUERY_CHARS} characters")]
    TooLong,
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
            SyntaxError::TooLong => "ask with fewer words; none is left out silently",
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
    if text.chars().nth(MAX_QUERY_CHARS).is_some() {
        return Err(SyntaxError::TooLong);
    }
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

#[derive(Default)]
struct SyntaxBuilder {
    // The plain text.
    text: String,
    operators: TextOperators,
    phrases: Vec<TextMatch>,
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
            TokenKind::Phrase(_) => self.phrases.extend(token.text_match(text)),
            TokenKind::Field(Field::Text(_), _) => {
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

    fn finish(mut self, text: &str) -> Result<ParsedSyntax, SyntaxError> {
        if self.clauses == 0 {
            return Ok(ParsedSyntax {
                text: text.to_owned(),
                ..ParsedSyntax::default()
            });
        }
        if !has_words(&self.text) {
            return Err(SyntaxError::NoWords);
        }
        // A question quotes names of things, which one page seldom has all.
        let phrases = if text.contains('?') && !self.phrases.is_empty() {
            vec![self.phrases]
        } else {
            self.phrases
                .into_iter()
                .map(|phrase| vec![phrase])
                .collect()
        };
        let required = &mut self.operators.required;
        required.extend(phrases.into_iter().map(Requirement));
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
fn parse_condition(field: Property, value: &str) -> Result<Filter, FilterError> {
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
