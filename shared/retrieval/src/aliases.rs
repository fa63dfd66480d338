//! Names by which an issuer may be mentioned, derived from its documents: the name without legal form, joined, its first
//! words, initials, syllable blends, leading capitals and trading symbols.

use stemma_document::{CatalogEntry, FilingFacts};

use stemma_catalog::facets::{FacetField, normalize_value};

/// How reliably an alias identifies the issuer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AliasStrength {
    /// First word of a longer name. Matches only if capitalized and unique to one issuer.
    First = 1,
    /// Initials, blends, first words or the file name. Used only if nothing stronger matches.
    Likely = 2,
    /// A trading symbol, or the leading capitals of the name. Matches only in capitals.
    Capitals = 3,
    /// The full name.
    Name = 4,
}

impl AliasStrength {
    /// All, strongest first.
    pub const ALL: [AliasStrength; 4] = [
        AliasStrength::Name,
        AliasStrength::Capitals,
        AliasStrength::Likely,
        AliasStrength::First,
    ];
}

/// A name by which an issuer may be mentioned.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Alias {
    pub strength: AliasStrength,
    /// Lower case, words of letters and digits separated by single spaces.
    pub name: String,
}

impl Alias {
    /// The alias as an index term.
    pub fn term(strength: AliasStrength, name: &str) -> String {
        format!("{}:{name}", strength as u8)
    }
}

/// Longest alias, in words.
pub const MAX_WORDS: usize = 6;

/// Normalized words of a name or query: `J.P. Morgan` is `jp morgan`, `Amazon.com's` is `amazon com`.
pub fn name_words(text: &str) -> Vec<String> {
    let plain = remove_points(&text.to_lowercase().replace('’', "'"));
    let parts = plain.split(|c: char| !(c.is_alphanumeric() || matches!(c, '&' | '\'')));
    let bare = parts.map(|word| word.strip_suffix("'s").unwrap_or(word).replace('\'', ""));
    bare.filter(|word| !word.is_empty() && word != "&")
        .collect()
}

// Removes the periods of `u.s.` and `j.p.`; other periods separate words.
fn remove_points(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    chars
        .iter()
        .enumerate()
        .filter(|(at, c)| !(**c == '.' && follows_initial(&chars, *at)))
        .map(|(_, c)| *c)
        .collect()
}

fn follows_initial(chars: &[char], at: usize) -> bool {
    at >= 1 && chars[at - 1].is_alphabetic() && (at < 2 || !chars[at - 2].is_alphanumeric())
}

/// Aliases of a document's issuer.
pub fn aliases(entry: &CatalogEntry) -> Vec<Alias> {
    let mut aliases = Vec::new();
    let mut add = |strength, name: String| {
        let alias = Alias { strength, name };
        if alias.name.chars().count() >= 2
            && !aliases
                .iter()
                .any(|existing: &Alias| existing.name == alias.name)
        {
            aliases.push(alias);
        }
    };
    let others = entry.facts.co_registrants.iter().map(|other| &other.name);
    for registrant in entry.facts.issuer.iter().chain(others) {
        add_issuer_aliases(&registrant.value, &mut add);
    }
    add_symbols(&entry.facts, &mut add);
    add_file_aliases(&entry.version.name, &mut add);
    aliases
}

fn add_issuer_aliases(issuer: &str, add: &mut impl FnMut(AliasStrength, String)) {
    let normalized = normalize_value(FacetField::Company, issuer);
    let words = name_words(&normalized);
    let Some(first) = words.first() else { return };
    add(AliasStrength::Name, words.join(" "));
    add(AliasStrength::Name, words.concat());
    let mut as_written = name_words(issuer);
    as_written.truncate(MAX_WORDS);
    add(AliasStrength::Name, as_written.join(" "));
    if let Some(capitals) = capitals(issuer) {
        add(AliasStrength::Capitals, capitals);
    }
    if words.len() < 2 {
        return;
    }
    if words.len() > 2 {
        add(AliasStrength::Likely, words[..2].join(" "));
        add(AliasStrength::Likely, words[..2].concat());
    }
    let initials: String = words
        .iter()
        .filter_map(|word| word.chars().next())
        .collect();
    if initials.len() >= 3 {
        add(AliasStrength::Capitals, initials);
    }
    for blend in blends(first, &words[1]) {
        add(AliasStrength::Likely, blend);
    }
    if first.chars().count() >= 3 || first.chars().any(|c| c.is_ascii_digit()) {
        add(AliasStrength::First, first.clone());
    }
}

// `jpm` of `JPMorgan Chase`: at least two leading capitals of a mixed-case word; the last one starts the next word.
fn capitals(issuer: &str) -> Option<String> {
    let first = issuer.split_whitespace().next()?;
    let upper = first.chars().take_while(|c| c.is_uppercase()).count();
    let mixed = first.chars().any(char::is_lowercase);
    (mixed && upper >= 2).then(|| first.chars().take(upper).collect::<String>().to_lowercase())
}

// `amex`, `fedex`: the starts of two words.
fn blends(first: &str, second: &str) -> Vec<String> {
    let mut blends = Vec::new();
    for a in 2..=4 {
        for b in 2..=3 {
            if let (Some(a), Some(b)) = (word_start(first, a), word_start(second, b)) {
                blends.push(format!("{a}{b}"));
            }
        }
    }
    blends
}

fn word_start(word: &str, letters: usize) -> Option<String> {
    let start: String = word.chars().take(letters).collect();
    (word.chars().count() > letters && start.chars().all(char::is_alphabetic)).then_some(start)
}

fn add_symbols(facts: &FilingFacts, add: &mut impl FnMut(AliasStrength, String)) {
    for ticker in facts.symbols() {
        // Bonds and notes of an issuer have symbols, too (`MMM26`); they identify it as well as `AXP` does.
        let symbol = name_words(&ticker.value).join(" ");
        add(AliasStrength::Capitals, symbol);
    }
}

// The words before the first number of a file name; archives often put the issuer there.
fn add_file_aliases(name: &str, add: &mut impl FnMut(AliasStrength, String)) {
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    let words = name_words(&stem.replace('_', " "));
    if let Some(at) = words
        .iter()
        .position(|word: &String| {
            word.len() >= 4 && word.bytes().take(4).all(|byte| byte.is_ascii_digit())
        })
        .filter(|at| (1..=MAX_WORDS).contains(at))
    {
        add(AliasStrength::Likely, words[..at].join(" "));
        add(AliasStrength::Likely, words[..at].concat());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stemma_catalog::fixtures::{entry, of_company};

    fn names(issuer: &str) -> Vec<(AliasStrength, String)> {
        aliases(&of_company("x.pdf", issuer))
            .into_iter()
            .map(|alias| (alias.strength, alias.name))
            .collect()
    }

    #[test]
    fn issuer_aliases_are_derived_from_the_name() {
        let acme = names("General Widgets & Co.");
        for (strength, name) in [
            (AliasStrength::Name, "general widgets"),
            (AliasStrength::Name, "generalwidgets"),
            (AliasStrength::First, "general"),
            (AliasStrength::Likely, "gewid"),
        ] {
            assert!(acme.contains(&(strength, name.into())), "{name}: {acme:?}");
        }
        assert!(names("ABCorp Holdings, Inc.").contains(&(AliasStrength::Capitals, "abc".into())));
        assert!(
            names("International Paper Machines")
                .contains(&(AliasStrength::Capitals, "ipm".into()))
        );
    }

    #[test]
    fn file_name_before_the_year_is_an_alias() {
        assert_eq!(
            aliases(&entry("WIDGETCO_2023Q4_EARNINGS.pdf")),
            [Alias {
                strength: AliasStrength::Likely,
                name: "widgetco".into()
            }]
        );
        assert!(aliases(&entry("report.pdf")).is_empty());
    }

    #[test]
    fn points_are_ignored_in_name_words() {
        assert_eq!(
            name_words("J.P. Widget's U.S. arm"),
            ["jp", "widget", "us", "arm"]
        );
        assert_eq!(name_words("AT&T Inc."), ["at&t", "inc"]);
    }
}
