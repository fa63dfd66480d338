//! Formulas of computed claims: parsed with bounds, and evaluated in decimal arithmetic.

use std::collections::BTreeSet;

use rust_decimal::{Decimal, MathematicalOps};

// More than any measure of a filing needs. A reply is untrusted input.
const MAX_CHARS: usize = 400;
const MAX_DEPTH: usize = 12;
const MAX_BASE: u64 = 1_000_000_000_000_000_000;
const MAX_EXPONENT: u64 = 64;

/// A parsed formula: numbers, names, `+ - * / ^`, parentheses and [`Function`]s.
#[derive(Debug, Clone, PartialEq)]
pub enum Formula {
    Number(Decimal),
    Name(String),
    Negative(Box<Formula>),
    Binary(Operator, Box<Formula>, Box<Formula>),
    Call(Function, Vec<Formula>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Power,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Function {
    Average,
    Sum,
    Min,
    Max,
    Abs,
    Sqrt,
    Count,
    /// Compound annual growth rate: `cagr(first, last, years)`.
    Cagr,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FormulaError {
    #[error("the formula is too long or too deep")]
    TooLarge,
    #[error("the formula cannot be read at `{0}`")]
    Syntax(String),
    #[error("the formula uses an unknown function `{0}`")]
    UnknownFunction(String),
    #[error("the formula names `{0}`, which is not the name of one operand")]
    UnknownName(String),
    #[error("the formula divides by zero")]
    DivisionByZero,
    #[error("the formula gives no number")]
    Undefined,
}

impl Formula {
    pub fn parse(text: &str) -> Result<Self, FormulaError> {
        if text.len() > MAX_CHARS {
            return Err(FormulaError::TooLarge);
        }
        let mut parser = Parser { rest: text };
        let formula = parser.sum(0)?;
        match parser.rest.trim_start() {
            "" => Ok(formula),
            rest => Err(parser_error(rest)),
        }
    }

    /// Evaluates the formula. `values` are those of a name: exactly one, except among the arguments of a function, where all
    /// of them are meant.
    pub fn evaluate(&self, values: &dyn Fn(&str) -> Vec<Decimal>) -> Result<Decimal, FormulaError> {
        match self {
            Self::Number(number) => Ok(*number),
            Self::Name(name) => match values(name)[..] {
                [value] => Ok(value),
                _ => Err(FormulaError::UnknownName(name.clone())),
            },
            Self::Negative(inner) => Ok(-inner.evaluate(values)?),
            Self::Binary(operator, left, right) => {
                operator.apply(left.evaluate(values)?, right.evaluate(values)?)
            }
            Self::Call(function, arguments) => {
                let mut given = Vec::new();
                for argument in arguments {
                    match argument {
                        Self::Name(name) => match values(name) {
                            none if none.is_empty() => {
                                return Err(FormulaError::UnknownName(name.clone()));
                            }
                            values => given.extend(values),
                        },
                        other => given.push(other.evaluate(values)?),
                    }
                }
                function.apply(&given)
            }
        }
    }

    pub fn names(&self) -> BTreeSet<&str> {
        let mut names = BTreeSet::new();
        self.visit(&mut |part| {
            if let Self::Name(name) = part {
                names.insert(name.as_str());
            }
        });
        names
    }

    pub fn has_number(&self, number: Decimal) -> bool {
        self.numbers().contains(&number)
    }

    /// The numbers that are written in it.
    pub fn numbers(&self) -> Vec<Decimal> {
        let mut numbers = Vec::new();
        self.visit(&mut |part| {
            if let Self::Number(number) = part {
                numbers.push(*number);
            }
        });
        numbers
    }

    fn visit<'f>(&'f self, see: &mut impl FnMut(&'f Self)) {
        see(self);
        match self {
            Self::Number(_) | Self::Name(_) => {}
            Self::Negative(inner) => inner.visit(see),
            Self::Binary(_, left, right) => {
                left.visit(see);
                right.visit(see);
            }
            Self::Call(_, arguments) => arguments.iter().for_each(|part| part.visit(see)),
        }
    }
}

impl Operator {
    pub fn apply(self, left: Decimal, right: Decimal) -> Result<Decimal, FormulaError> {
        match self {
            Self::Add => left.checked_add(right),
            Self::Subtract => left.checked_sub(right),
            Self::Multiply => left.checked_mul(right),
            Self::Divide if right.is_zero() => return Err(FormulaError::DivisionByZero),
            Self::Divide => left.checked_div(right),
            Self::Power if is_too_large(left, right) => None,
            Self::Power => left.checked_powd(right),
        }
        .ok_or(FormulaError::Undefined)
    }
}

// Powers and roots of larger numbers overflow inside the library.
fn is_too_large(base: Decimal, exponent: Decimal) -> bool {
    base.abs() > Decimal::from(MAX_BASE) || exponent.abs() > Decimal::from(MAX_EXPONENT)
}

impl Function {
    fn from_name(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            "avg" | "average" | "mean" => Self::Average,
            "sum" => Self::Sum,
            "min" => Self::Min,
            "max" => Self::Max,
            "abs" => Self::Abs,
            "sqrt" => Self::Sqrt,
            "count" => Self::Count,
            "cagr" => Self::Cagr,
            _ => return None,
        })
    }

    pub fn apply(self, given: &[Decimal]) -> Result<Decimal, FormulaError> {
        let count = Decimal::from(given.len());
        let sum = || {
            given
                .iter()
                .try_fold(Decimal::ZERO, |sum, value| sum.checked_add(*value))
                .ok_or(FormulaError::Undefined)
        };
        match (self, given) {
            (_, []) => Err(FormulaError::Undefined),
            (Self::Average, _) => Operator::Divide.apply(sum()?, count),
            (Self::Sum, _) => sum(),
            (Self::Min, _) => given.iter().min().copied().ok_or(FormulaError::Undefined),
            (Self::Max, _) => given.iter().max().copied().ok_or(FormulaError::Undefined),
            (Self::Count, _) => Ok(count),
            (Self::Abs, [value]) => Ok(value.abs()),
            (Self::Sqrt, [value]) if is_too_large(*value, Decimal::ONE) => {
                Err(FormulaError::Undefined)
            }
            (Self::Sqrt, [value]) => value.sqrt().ok_or(FormulaError::Undefined),
            (Self::Cagr, [first, last, years]) => {
                let growth = Operator::Divide.apply(*last, *first)?;
                let share = Operator::Divide.apply(Decimal::ONE, *years)?;
                if growth <= Decimal::ZERO {
                    return Err(FormulaError::Undefined);
                }
                let yearly = Operator::Power.apply(growth, share)?;
                Operator::Subtract.apply(yearly, Decimal::ONE)
            }
            _ => Err(FormulaError::Undefined),
        }
    }
}

struct Parser<'t> {
    rest: &'t str,
}

fn parser_error(rest: &str) -> FormulaError {
    FormulaError::Syntax(rest.chars().take(12).collect())
}

impl Parser<'_> {
    // The next character after white space, in its ASCII form.
    fn peek(&mut self) -> Option<char> {
        self.rest = self.rest.trim_start();
        self.rest.chars().next().map(|c| match c {
            '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
            '×' | '·' => '*',
            '÷' => '/',
            c => c,
        })
    }

    fn skip(&mut self) {
        let next = self.rest.chars().next().map_or(0, char::len_utf8);
        self.rest = &self.rest[next..];
    }

    fn takes(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        if found {
            self.skip();
        }
        found
    }

    fn sum(&mut self, depth: usize) -> Result<Formula, FormulaError> {
        let mut left = self.product(depth)?;
        loop {
            let operator = match self.peek() {
                Some('+') => Operator::Add,
                Some('-') => Operator::Subtract,
                _ => return Ok(left),
            };
            self.skip();
            let right = self.product(depth)?;
            left = Formula::Binary(operator, Box::new(left), Box::new(right));
        }
    }

    fn product(&mut self, depth: usize) -> Result<Formula, FormulaError> {
        let mut left = self.power(depth)?;
        loop {
            let operator = match self.peek() {
                Some('*') => Operator::Multiply,
                Some('/') => Operator::Divide,
                _ => return Ok(left),
            };
            self.skip();
            let right = self.power(depth)?;
            left = Formula::Binary(operator, Box::new(left), Box::new(right));
        }
    }

    // A sign binds less than `^`: -a^2 is -(a^2).
    fn power(&mut self, depth: usize) -> Result<Formula, FormulaError> {
        if depth > MAX_DEPTH {
            return Err(FormulaError::TooLarge);
        }
        if self.takes('-') {
            return Ok(Formula::Negative(Box::new(self.power(depth + 1)?)));
        }
        let base = self.atom(depth)?;
        if !self.takes('^') {
            return Ok(base);
        }
        let exponent = self.power(depth + 1)?;
        Ok(Formula::Binary(
            Operator::Power,
            Box::new(base),
            Box::new(exponent),
        ))
    }

    fn atom(&mut self, depth: usize) -> Result<Formula, FormulaError> {
        match self.peek() {
            Some('(') => {
                self.skip();
                let inner = self.sum(depth + 1)?;
                self.closes()?;
                Ok(inner)
            }
            Some(c) if c.is_ascii_digit() => {
                let digits = self.run(|c| c.is_ascii_digit() || c == '.');
                let number = digits.parse().map_err(|_| parser_error(digits))?;
                Ok(Formula::Number(number))
            }
            Some(c) if c.is_alphabetic() => {
                let name = self.run(|c| c.is_alphanumeric() || c == '_');
                if !self.takes('(') {
                    return Ok(Formula::Name(name.to_owned()));
                }
                let function = Function::from_name(name)
                    .ok_or_else(|| FormulaError::UnknownFunction(name.to_owned()))?;
                let mut arguments = vec![self.sum(depth + 1)?];
                while self.takes(',') {
                    arguments.push(self.sum(depth + 1)?);
                }
                self.closes()?;
                Ok(Formula::Call(function, arguments))
            }
            _ => Err(parser_error(self.rest)),
        }
    }

    fn closes(&mut self) -> Result<(), FormulaError> {
        match self.takes(')') {
            true => Ok(()),
            false => Err(parser_error(self.rest)),
        }
    }
}

impl<'t> Parser<'t> {
    fn run(&mut self, inside: impl Fn(char) -> bool) -> &'t str {
        let end = self.rest.find(|c| !inside(c)).unwrap_or(self.rest.len());
        let (run, rest) = self.rest.split_at(end);
        self.rest = rest;
        run
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(formula: &str, names: &[(&str, i64)]) -> Result<String, FormulaError> {
        let values = |name: &str| -> Vec<Decimal> {
            let named = names.iter().filter(|(known, _)| *known == name);
            named.map(|(_, value)| Decimal::from(*value)).collect()
        };
        let value = Formula::parse(formula)?.evaluate(&values)?;
        Ok(value.round_dp(6).normalize().to_string())
    }

    #[test]
    fn formulas_are_evaluated_exactly() {
        let names = [("a", 1_749), ("b", 1_603), ("c", -3)];
        for (formula, expected) in [
            ("(a - b) / b", "0.091079"),
            ("a − b × 2", "-1457"),
            ("avg(a, b, c)", "1116.333333"),
            ("sum(a, b) - max(a, c) + min(1, c)", "1600"),
            ("abs(c) ^ 2 - -1", "10"),
            ("-c^2", "-9"),
            ("2 ^ 3 ^ 2", "512"),
            ("count(a, b)", "2"),
            ("cagr(100, 121, 2)", "0.1"),
            ("sqrt(16) / 0.5", "8"),
            ("0.1 + 0.2", "0.3"),
        ] {
            assert_eq!(value(formula, &names).as_deref(), Ok(expected), "{formula}");
        }
    }

    #[test]
    fn what_has_no_value_is_an_error() {
        for (formula, expected) in [
            ("a / (b - b)", FormulaError::DivisionByZero),
            ("a + d", FormulaError::UnknownName("d".into())),
            ("if(a)", FormulaError::UnknownFunction("if".into())),
            ("a +", FormulaError::Syntax(String::new())),
            ("(a", FormulaError::Syntax(String::new())),
            ("a b", FormulaError::Syntax("b".into())),
            ("1.2.3", FormulaError::Syntax("1.2.3".into())),
            ("", FormulaError::Syntax(String::new())),
            ("sqrt(0 - a)", FormulaError::Undefined),
            ("a ^ 900", FormulaError::Undefined),
            ("cagr(0 - a, b, 2)", FormulaError::Undefined),
        ] {
            assert_eq!(
                value(formula, &[("a", 5), ("b", 5)]),
                Err(expected),
                "{formula}"
            );
        }
        let deep = format!("{}a{}", "(".repeat(50), ")".repeat(50));
        assert_eq!(value(&deep, &[("a", 1)]), Err(FormulaError::TooLarge));
        let signs = "-".repeat(300);
        assert_eq!(value(&signs, &[]), Err(FormulaError::TooLarge));
    }

    proptest::proptest! {
        #[test]
        fn no_formula_panics(formula in "[a-c0-9+*/^().,\\- ]{0,40}", a in -9_999i64..9_999, b in -9_999i64..9_999) {
            let _ = value(&formula, &[("a", a), ("b", b)]);
        }

        #[test]
        fn growth_has_its_definition(a in 1i64..1_000_000, b in 1i64..1_000_000) {
            let names = [("a", a), ("b", b)];
            proptest::prop_assert_eq!(value("(a - b) / b", &names), value("a / b - 1", &names));
        }
    }
}
