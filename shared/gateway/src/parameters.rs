//! URL query parameters. Handlers take each by name; a parameter that remains is an error.

use crate::problem::Problem;

/// The parameters not read yet.
pub struct Parameters(Vec<(String, String)>);

impl Parameters {
    pub fn from_query(query: Option<&str>) -> Result<Self, Problem> {
        let pair = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((decoded(name)?, decoded(value)?))
        };
        let pairs = query
            .unwrap_or_default()
            .split('&')
            .filter(|pair| !pair.is_empty())
            .map(pair);
        pairs.collect::<Option<_>>().map(Self).ok_or_else(|| {
            Problem::new(
                400,
                "request.invalid",
                "the query of the URL is not percent-encoded UTF-8",
            )
        })
    }

    /// Takes a parameter. If it was sent twice, the second one remains.
    pub fn text(&mut self, name: &str) -> Option<String> {
        let at = self.0.iter().position(|(sent, _)| sent == name)?;
        Some(self.0.remove(at).1)
    }

    pub fn number(&mut self, name: &str) -> Result<Option<usize>, Problem> {
        self.text(name)
            .map(|text| {
                text.parse()
                    .map_err(|_| Problem::parameter(400, name, format!("{name} is a whole number")))
            })
            .transpose()
    }

    /// `true` or `false`; defaults to false.
    pub fn flag(&mut self, name: &str) -> Result<bool, Problem> {
        match self.text(name).as_deref() {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => Err(Problem::parameter(
                400,
                name,
                format!("{name} is true or false"),
            )),
        }
    }

    /// Fails if a parameter was not read.
    pub fn reject_unknown(&self) -> Result<(), Problem> {
        match self.0.first() {
            None => Ok(()),
            Some((name, _)) => {
                let short_name: String = name.chars().take(60).collect();
                Err(Problem::parameter(
                    400,
                    &short_name,
                    format!("`{short_name}` is no parameter of this route, or was sent twice"),
                ))
            }
        }
    }
}

// `%41+b` is `A b`; `None` if the result is not UTF-8.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
                (16 * digit(rest.next())? + digit(rest.next())?) as u8
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_parameters_are_refused() {
        let mut parameters =
            Parameters::from_query(Some("limit=5&company=3M+%C3%A4&text=true&odd=1")).unwrap();
        assert_eq!(parameters.number("limit").unwrap(), Some(5));
        assert_eq!(parameters.text("company").as_deref(), Some("3M ä"));
        assert!(parameters.flag("text").unwrap() && !parameters.flag("summary").unwrap());
        assert!(parameters.reject_unknown().is_err());
        for wrong in ["a=%", "a=%4", "a=%zz", "a=%ff"] {
            assert!(Parameters::from_query(Some(wrong)).is_err(), "{wrong}");
        }
        assert!(
            Parameters::from_query(Some("limit=-1"))
                .unwrap()
                .number("limit")
                .is_err()
        );
    }
}
