//! Selectors: which elements a rule is for.

use cssparser::{CowRcStr, ParseError, Parser, Token};

use super::Element;

// Parts of one selector, and its alternatives; longer ones are not understood.
const MAX_PARTS: usize = 32;
// What elements are only while someone uses the page, and places that are no elements.
const NEVER: [&str; 14] = [
    "active",
    "after",
    "before",
    "checked",
    "first-letter",
    "first-line",
    "focus",
    "focus-visible",
    "focus-within",
    "hover",
    "selection",
    "target",
    "visited",
    "placeholder",
];

/// How a part of a selector is joined to the part on its left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Combinator {
    #[default]
    Descendant,
    Child,
}

/// The conditions on one element.
#[derive(Debug, Default)]
pub(super) struct Compound {
    joined: Combinator,
    pub(super) name: Option<Box<[u8]>>,
    pub(super) id: Option<Box<[u8]>>,
    pub(super) classes: Vec<Box<[u8]>>,
    attributes: Vec<AttributeTest>,
    alternatives: Vec<Alternatives>,
    is_root: bool,
    // Also for `*`, which has no condition.
    is_written: bool,
}

/// `:is(…)`, or `:not(…)`.
#[derive(Debug)]
struct Alternatives {
    any: Vec<Compound>,
    is_negated: bool,
    // `:where(…)` counts nothing.
    has_specificity: bool,
}

#[derive(Debug)]
struct AttributeTest {
    name: Box<[u8]>,
    operator: Operator,
    value: Box<[u8]>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Exists,
    Equals,
    HasWord,
    HasPrefixWord,
    Starts,
    Ends,
    Contains,
}

/// A selector without a comma.
#[derive(Debug)]
pub(super) struct Selector {
    // From left to right, at least one.
    outer: Vec<Compound>,
    subject: Compound,
    /// Ids, classes and names, in ten bits each.
    pub(super) specificity: u32,
}

/// What was read as a selector.
#[derive(Debug)]
pub(super) enum Parsed {
    Selector(Box<Selector>),
    /// No text can match it.
    Never,
    NotUnderstood,
}

impl Parsed {
    /// Reads a selector up to the end of `input`.
    pub(super) fn parse<'i>(input: &mut Parser<'i>) -> Result<Self, ParseError<()>> {
        let parsed = read_parts(input);
        while input.next().is_ok() {}
        Ok(parsed)
    }
}

fn read_parts(input: &mut Parser<'_>) -> Parsed {
    let mut outer = Vec::new();
    let mut part = Compound::default();
    let mut joined = None;
    while let Ok(token) = input.next_including_whitespace() {
        let token = token.clone();
        match token {
            Token::WhiteSpace(_) if part.is_written => {
                joined = joined.or(Some(Combinator::Descendant));
            }
            Token::WhiteSpace(_) => {}
            Token::Delim('>') if part.is_written => joined = Some(Combinator::Child),
            token => {
                if let Some(joined) = joined.take() {
                    let next = Compound {
                        joined,
                        ..Compound::default()
                    };
                    outer.push(std::mem::replace(&mut part, next));
                }
                if let Err(refused) = part.add(&token, input) {
                    return refused;
                }
            }
        }
    }
    if !part.is_written || joined == Some(Combinator::Child) || outer.len() >= MAX_PARTS {
        return Parsed::NotUnderstood;
    }
    let all = outer.iter().chain(std::iter::once(&part));
    let counts = all.map(Compound::counts).fold([0; 3], added);
    let [ids, classes, names] = counts.map(|count| count.min(1023));
    let specificity = ids << 20 | classes << 10 | names;
    Parsed::Selector(Box::new(Selector {
        outer,
        subject: part,
        specificity,
    }))
}

// Ids, classes and names.
fn added(one: [u32; 3], two: [u32; 3]) -> [u32; 3] {
    let [ids, classes, names] = one;
    [ids + two[0], classes + two[1], names + two[2]]
}

impl Compound {
    fn counts(&self) -> [u32; 3] {
        let classes = self.classes.len() + self.attributes.len() + usize::from(self.is_root);
        let own = [
            u32::from(self.id.is_some()),
            u32::try_from(classes).unwrap_or(u32::MAX >> 16),
            u32::from(self.name.is_some()),
        ];
        let alternatives = self.alternatives.iter().filter(|all| all.has_specificity);
        alternatives
            .filter_map(|all| all.any.iter().map(Self::counts).max())
            .fold(own, added)
    }

    // Reads the conditions of `:is(…)`, which are none about other elements.
    fn parse_alternative<'i>(input: &mut Parser<'i>) -> Result<Self, ParseError<()>> {
        let mut part = Self::default();
        input.skip_whitespace();
        while let Ok(token) = input.next_including_whitespace() {
            let token = token.clone();
            match token {
                Token::WhiteSpace(_) => {
                    input.expect_exhausted()?;
                }
                // Alternatives in alternatives have no bound.
                Token::Colon => return Err(ParseError::unexpected_token()),
                token => part
                    .add(&token, input)
                    .map_err(|_| ParseError::unexpected_token())?,
            }
        }
        match part.is_written {
            true => Ok(part),
            false => Err(ParseError::unexpected_token()),
        }
    }

    fn add(&mut self, token: &Token<'_>, input: &mut Parser<'_>) -> Result<(), Parsed> {
        match token {
            Token::Ident(name) if !self.is_written => {
                self.name = Some(name.to_ascii_lowercase().into_bytes().into());
            }
            Token::Delim('*') if !self.is_written => {}
            Token::IDHash(id) if self.id.is_none() => self.id = Some(bytes(id)),
            Token::Delim('.') => match input.next_including_whitespace() {
                Ok(Token::Ident(class)) => self.classes.push(bytes(class)),
                _ => return Err(Parsed::NotUnderstood),
            },
            Token::SquareBracketBlock => {
                let test = input.parse_nested_block(AttributeTest::parse);
                self.attributes
                    .push(test.map_err(|_| Parsed::NotUnderstood)?);
            }
            Token::Colon => self.add_pseudo(input)?,
            _ => return Err(Parsed::NotUnderstood),
        }
        self.is_written = true;
        Ok(())
    }

    fn add_pseudo(&mut self, input: &mut Parser<'_>) -> Result<(), Parsed> {
        match input.next_including_whitespace() {
            Ok(Token::Colon) => Err(Parsed::Never),
            Ok(Token::Ident(name)) if name.eq_ignore_ascii_case("root") => {
                self.is_root = true;
                Ok(())
            }
            Ok(Token::Ident(name))
                if NEVER.iter().any(|never| name.eq_ignore_ascii_case(never)) =>
            {
                Err(Parsed::Never)
            }
            Ok(Token::Function(name)) => {
                let mut alternatives = Alternatives::for_function(name)?;
                let any: Result<Vec<Self>, ParseError<()>> = input.parse_nested_block(|inner| {
                    inner.parse_comma_separated(Self::parse_alternative)
                });
                alternatives.any = any.map_err(|_| Parsed::NotUnderstood)?;
                let known: usize = self.alternatives.iter().map(|all| all.any.len()).sum();
                if known + alternatives.any.len() > MAX_PARTS {
                    return Err(Parsed::NotUnderstood);
                }
                self.alternatives.push(alternatives);
                Ok(())
            }
            _ => Err(Parsed::NotUnderstood),
        }
    }

    fn matches(&self, element: &Element<'_>, is_outermost: bool) -> bool {
        let name = self.name.as_ref();
        let id = self.id.as_ref();
        name.is_none_or(|name| element.name.eq_ignore_ascii_case(name))
            && id.is_none_or(|id| element.id == &**id)
            && self
                .classes
                .iter()
                .all(|class| element.classes().any(|other| other == &**class))
            && self.attributes.iter().all(|test| test.matches(element))
            && self.alternatives.iter().all(|all| {
                let is_any = all
                    .any
                    .iter()
                    .any(|part| part.matches(element, is_outermost));
                is_any != all.is_negated
            })
            && (!self.is_root || is_outermost)
    }
}

impl Alternatives {
    fn for_function(name: &str) -> Result<Self, Parsed> {
        let with = |is_negated, has_specificity| Self {
            any: Vec::new(),
            is_negated,
            has_specificity,
        };
        match name.to_ascii_lowercase().as_bytes() {
            b"is" => Ok(with(false, true)),
            b"not" => Ok(with(true, true)),
            b"where" => Ok(with(false, false)),
            _ => Err(Parsed::NotUnderstood),
        }
    }
}

impl AttributeTest {
    fn parse<'i>(input: &mut Parser<'i>) -> Result<Self, ParseError<()>> {
        let name = input
            .expect_ident()?
            .to_ascii_lowercase()
            .into_bytes()
            .into();
        let operator = match input.next() {
            Err(_) => Operator::Exists,
            Ok(Token::Delim('=')) => Operator::Equals,
            Ok(Token::IncludeMatch) => Operator::HasWord,
            Ok(Token::DashMatch) => Operator::HasPrefixWord,
            Ok(Token::PrefixMatch) => Operator::Starts,
            Ok(Token::SuffixMatch) => Operator::Ends,
            Ok(Token::SubstringMatch) => Operator::Contains,
            Ok(_) => return Err(ParseError::unexpected_token()),
        };
        let value = match operator {
            Operator::Exists => Box::default(),
            _ => bytes(input.expect_ident_or_string()?),
        };
        Ok(Self {
            name,
            operator,
            value,
        })
    }

    fn matches(&self, element: &Element<'_>) -> bool {
        let Some(value) = element.tag.and_then(|tag| tag.attribute(&self.name)) else {
            return false;
        };
        let operand = &*self.value;
        let is_written = !operand.is_empty();
        match self.operator {
            Operator::Exists => true,
            Operator::Equals => value == operand,
            Operator::HasWord => value
                .split(u8::is_ascii_whitespace)
                .any(|word| is_written && word == operand),
            Operator::HasPrefixWord => value
                .strip_prefix(operand)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(b"-")),
            Operator::Starts => is_written && value.starts_with(operand),
            Operator::Ends => is_written && value.ends_with(operand),
            Operator::Contains => is_written && memchr::memmem::find(value, operand).is_some(),
        }
    }
}

impl Selector {
    /// The conditions on the element itself.
    pub(super) fn subject(&self) -> &Compound {
        &self.subject
    }

    /// Whether the selector matches an element inside of others, the innermost of them first. Each look at an element is
    /// taken from `work`; without any left nothing matches.
    pub(super) fn matches<'e, 'a: 'e>(
        &self,
        element: &Element<'a>,
        outer: impl Iterator<Item = &'e Element<'a>> + Clone,
        work: &mut u32,
    ) -> bool {
        *work = work.saturating_sub(element.work);
        let is_outermost = self.subject.is_root && outer.clone().next().is_none();
        *work > 0
            && self.subject.matches(element, is_outermost)
            && matches_outer(&self.outer, self.subject.joined, outer, work)
    }
}

// At most `MAX_PARTS` deep.
fn matches_outer<'e, 'a: 'e>(
    parts: &[Compound],
    joined: Combinator,
    mut outer: impl Iterator<Item = &'e Element<'a>> + Clone,
    work: &mut u32,
) -> bool {
    let Some((part, rest)) = parts.split_last() else {
        return true;
    };
    while let Some(element) = outer.next() {
        *work = work.saturating_sub(element.work);
        if *work == 0 {
            return false;
        }
        let is_outermost = part.is_root && outer.clone().next().is_none();
        if part.matches(element, is_outermost)
            && matches_outer(rest, part.joined, outer.clone(), work)
        {
            return true;
        }
        if joined == Combinator::Child {
            return false;
        }
    }
    false
}

fn bytes(text: &CowRcStr<'_>) -> Box<[u8]> {
    text.as_bytes().into()
}
