//! Formulas of computed claims: `+ - * / ^`, parentheses, functions, numbers and names, evaluated with bounds.

use rust_decimal::Decimal;

use super::quantity::Quantity;

// More than any measure of a filing needs. A reply is untrusted input.
const MAX_CHARS: usize = 400;
const MAX_DEPTH: usize = 24;
// How tightly operators bind. A sign binds less than `^`: -a^2 is -(a^2).
const OPERATORS: [(char, u8); 5] = [('+', 1), ('-', 1), ('*', 2), ('/', 2), ('^', 4)];
const SIGN: u8 = 3;

/// The tokens of a formula.
#[derive(Debug)]
pub(crate) struct Formula<'t>(Vec<Token<'t>>);

#[derive(Debug, Clone, Copy, PartialEq)]
enum Token<'t> {
    Number(Decimal),
    /// Of a figure or a function.
    Word(&'t str),
    Sign(char),
}

impl<'t> Formula<'t> {
    pub(crate) fn parse(text: &'t str) -> Result<Self, String> {
        if text.len() > MAX_CHARS {
            return Err("the formula is too long".into());
        }
        let mut tokens = Vec::new();
        let mut rest = text.trim_start();
        while let Some(first) = rest.chars().next() {
            let is_number = first.is_ascii_digit();
            let end = match first.is_alphanumeric() {
                true if is_number => rest.find(|c: char| !c.is_ascii_digit() && c != '.'),
                true => rest.find(|c: char| !c.is_alphanumeric() && c != '_'),
                false => Some(first.len_utf8()),
            };
            let end = end.unwrap_or(rest.len());
            let (token, after) = rest.split_at(end);
            tokens.push(match first {
                _ if is_number => Token::Number(token.parse().map_err(|_| unreadable(token))?),
                _ if first.is_alphabetic() => Token::Word(token),
                '\u{2010}'..='\u{2015}' | '\u{2212}' => Token::Sign('-'),
                '×' | '·' => Token::Sign('*'),
                '÷' => Token::Sign('/'),
                sign => Token::Sign(sign),
            });
            rest = after.trim_start();
        }
        Ok(Self(tokens))
    }

    /// The names of figures in it, each once.
    pub(crate) fn names(&self) -> Vec<&'t str> {
        let mut names = Vec::new();
        for (at, token) in self.0.iter().enumerate() {
            let is_function = self.0.get(at + 1) == Some(&Token::Sign('('));
            match token {
                Token::Word(name) if !is_function && !names.contains(name) => names.push(*name),
                _ => {}
            }
        }
        names
    }

    /// The numbers that are written in it.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = Decimal> + '_ {
        self.0.iter().filter_map(|token| match token {
            Token::Number(number) => Some(*number),
            _ => None,
        })
    }

    /// Evaluates the formula. `values` are those of a name: exactly one, except for an argument of a function, where all are meant.
    ///
    /// # Errors
    /// Says why it has no value.
    pub(crate) fn evaluate(
        &self,
        values: &dyn Fn(&str) -> Vec<Quantity>,
    ) -> Result<Quantity, String> {
        let mut evaluation = Evaluation {
            rest: &self.0,
            values,
        };
        let value = evaluation.expression(0, 0)?;
        match evaluation.rest {
            [] => Ok(value),
            rest => Err(unreadable(&written(rest))),
        }
    }
}

fn unreadable(text: &str) -> String {
    format!("the formula cannot be read at `{text}`")
}

fn written(tokens: &[Token<'_>]) -> String {
    tokens.first().map_or(String::new(), |token| match token {
        Token::Number(number) => number.to_string(),
        Token::Word(word) => (*word).to_owned(),
        Token::Sign(sign) => sign.to_string(),
    })
}

struct Evaluation<'f, 't> {
    rest: &'f [Token<'t>],
    values: &'f dyn Fn(&str) -> Vec<Quantity>,
}

impl Evaluation<'_, '_> {
    fn takes(&mut self, sign: char) -> bool {
        let rest = self.rest.strip_prefix(&[Token::Sign(sign)]);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    // Up to an operator that binds less than `least`.
    fn expression(&mut self, least: u8, depth: usize) -> Result<Quantity, String> {
        if depth > MAX_DEPTH {
            return Err("the formula is too deep".into());
        }
        let mut left = match self.takes('-') {
            true => self.expression(SIGN, depth + 1)?.negated(),
            false => self.operand(depth)?,
        };
        while let Some((operator, strength)) = OPERATORS
            .into_iter()
            .find(|(sign, strength)| *strength >= least && self.takes(*sign))
        {
            // `2 ^ 3 ^ 2` is 2 ^ (3 ^ 2).
            let least = if operator == '^' { SIGN } else { strength + 1 };
            left = left.apply(operator, self.expression(least, depth + 1)?)?;
        }
        Ok(left)
    }

    fn operand(&mut self, depth: usize) -> Result<Quantity, String> {
        if self.takes('(') {
            let inner = self.expression(0, depth + 1)?;
            return self.closed(inner);
        }
        match self.rest {
            [Token::Number(number), rest @ ..] => {
                self.rest = rest;
                Ok(Quantity::constant(*number))
            }
            [Token::Word(function), Token::Sign('('), rest @ ..] => {
                self.rest = rest;
                let mut given = self.argument(depth)?;
                while self.takes(',') {
                    given.extend(self.argument(depth)?);
                }
                let value = Quantity::call(function, &given)?;
                self.closed(value)
            }
            [Token::Word(name), rest @ ..] => {
                self.rest = rest;
                match (self.values)(name)[..] {
                    [value] => Ok(value),
                    _ => Err(format!(
                        "the formula names `{name}`, which is not the name of one figure"
                    )),
                }
            }
            rest => Err(unreadable(&written(rest))),
        }
    }

    fn argument(&mut self, depth: usize) -> Result<Vec<Quantity>, String> {
        if let [Token::Word(name), rest @ ..] = self.rest
            && matches!(rest, [Token::Sign(',' | ')'), ..])
        {
            self.rest = rest;
            return Ok((self.values)(name));
        }
        Ok(vec![self.expression(0, depth + 1)?])
    }

    fn closed(&mut self, value: Quantity) -> Result<Quantity, String> {
        match self.takes(')') {
            true => Ok(value),
            false => Err(unreadable(&written(self.rest))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(formula: &str, names: &[(&str, i64)]) -> Result<String, String> {
        let values = |name: &str| -> Vec<Quantity> {
            let named = names.iter().filter(|(known, _)| *known == name);
            named
                .map(|(_, value)| Quantity::constant(Decimal::from(*value)))
                .collect()
        };
        let result = Formula::parse(formula)?.evaluate(&values)?;
        Ok(result.value.round_dp(6).normalize().to_string())
    }

    #[test]
    fn formulas_are_evaluated_exactly() {
        let names = [("a", 1_749), ("b", 1_603), ("c", -3)];
        for (formula, expected) in [
            ("(a - b) / b", "0.091079"),
            ("a − b × 2", "-1457"),
            ("a - b - c", "149"),
            ("avg(a, b, c)", "1116.333333"),
            ("sum(a, b) - max(a, c) + min(1, c)", "1600"),
            ("abs(c) ^ 2 - -1", "10"),
            ("-c^2", "-9"),
            ("2 ^ 3 ^ 2", "512"),
            ("2 ^ -1 * 4", "2"),
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
            ("a / (b - b)", "divides by zero"),
            ("a + d", "`d`"),
            ("sum(d)", "no number"),
            ("if(a)", "unknown function `if`"),
            ("a +", "read at ``"),
            ("(a", "read at ``"),
            ("a b", "read at `b`"),
            ("1.2.3", "read at `1.2.3`"),
            ("", "read at ``"),
            ("sqrt(0 - a)", "no number"),
            ("a ^ 900", "no number"),
            ("cagr(0 - a, b, 2)", "no number"),
        ] {
            let error = value(formula, &[("a", 5), ("b", 5)]).unwrap_err();
            assert!(error.contains(expected), "{formula}: {error}");
        }
        let deep = format!("{}a{}", "(".repeat(50), ")".repeat(50));
        let signs = "-".repeat(300);
        for formula in [deep, signs] {
            assert!(value(&formula, &[("a", 1)]).unwrap_err().contains("deep"));
        }
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
