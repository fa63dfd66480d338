//! `aliases.toml`: names that the owner of an archive gives to issuers, in addition to those that the documents state.
//!
//! ```toml
//! # The name of an issuer, as its documents state it, and what else it is called.
//! "Acme Works, Inc." = ["Acme", "the anvil people", "ACMW"]
//! ```

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::aliases::{MAX_WORDS, name_words};
use stemma_catalog::property::Property;

// Larger files are a mistake.
const MAX_BYTES: usize = 1 << 20;

/// Names given to issuers, by alias.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AliasFile {
    // Both sides normalized as aliases are.
    names: BTreeMap<String, Vec<String>>,
}

/// Why a file of aliases is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AliasFileError {
    #[error("{path}: {message}")]
    File { path: String, message: String },
    /// `line` is 1-based.
    #[error("{path}:{line}: {message}")]
    Line {
        path: String,
        line: usize,
        message: String,
    },
}

#[derive(Deserialize)]
#[serde(transparent)]
struct Entries(BTreeMap<toml::Spanned<String>, Vec<toml::Spanned<String>>>);

impl AliasFile {
    /// Parses the text of the file at `path`.
    ///
    /// # Errors
    /// [`AliasFileError`], which names the file and the line.
    pub fn parse(text: &str, path: &str) -> Result<Self, AliasFileError> {
        if text.len() > MAX_BYTES {
            return Err(AliasFileError::File {
                path: path.into(),
                message: format!("{} bytes are more than {MAX_BYTES}", text.len()),
            });
        }
        let at = |offset: usize, message: &str| AliasFileError::Line {
            path: path.into(),
            line: text.as_bytes()[..offset.min(text.len())]
                .iter()
                .filter(|byte| **byte == b'\n')
                .count()
                + 1,
            message: message.into(),
        };
        let Entries(entries) = toml::from_str(text)
            .map_err(|error| at(error.span().map_or(0, |span| span.start), error.message()))?;
        let mut file = Self::default();
        for (name, aliases) in entries {
            let target = normalized(name.get_ref());
            if target.is_empty() {
                return Err(at(
                    name.span().start,
                    "the name of an issuer has no letters",
                ));
            }
            for alias in aliases {
                let words = name_words(alias.get_ref());
                if words.concat().chars().count() < 2 || words.len() > MAX_WORDS {
                    let message = format!(
                        "`{}` is not an alias: it has 2 letters to {MAX_WORDS} words",
                        alias.get_ref()
                    );
                    return Err(at(alias.span().start, &message));
                }
                let names = file.names.entry(words.join(" ")).or_default();
                if !names.contains(&target) {
                    names.push(target.clone());
                }
            }
        }
        Ok(file)
    }

    /// The issuers that an alias names, normalized as aliases are. An alias of several issuers names all of them.
    pub fn names_of(&self, alias: &str) -> &[String] {
        self.names.get(alias).map_or(&[], Vec::as_slice)
    }
}

fn normalized(name: &str) -> String {
    name_words(&Property::Company.canonical(name)).join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<AliasFile, String> {
        AliasFile::parse(text, "aliases.toml").map_err(|error| error.to_string())
    }

    #[test]
    fn aliases_name_issuers() {
        let file = parse(
            "# ours\n\"Acme Works, Inc.\" = [\"the anvil people\", \"AW\"]\nOchre = [\"AW\"]\n",
        )
        .unwrap();
        assert_eq!(file.names_of("the anvil people"), ["acme works"]);
        assert_eq!(file.names_of("aw"), ["acme works", "ochre"]);
        assert!(file.names_of("acme").is_empty());
    }

    #[test]
    fn errors_name_file_and_line() {
        for (text, expected) in [
            ("Acme = [\"AW\"]\nOchre = 3\n", "aliases.toml:2: "),
            (
                "Acme = [\"AW\"]\n\n\"!\" = [\"OC\"]\n",
                "aliases.toml:3: the name",
            ),
            (
                "Acme = [\n \"AW\",\n \"?\"]\n",
                "aliases.toml:3: `?` is not an alias",
            ),
            ("Acme = \n", "aliases.toml:1: "),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }
}
