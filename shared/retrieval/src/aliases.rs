//! Names by which an issuer may be mentioned, derived from its documents: the name without legal form, joined, its first
//! words, initials, syllable blends, leading capitals, trading symbols, and names that the text states.

use stemma_catalog::property::Property;
use stemma_document::{CatalogEntry, FilingFacts, SourceBody};

use crate::stated_names::{self, StatedNames};

use stemma_reading::vocabulary::{CONJUNCTIONS, GENITIVES, SMALL_WORDS};

/// How reliably an alias identifies the issuer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AliasStrength {
    /// Two initials, or a blend of two words: made of letters of the name, whether anyone uses it or not.
    Short = 0,
    /// First word of a longer name.
    First = 1,
    /// First words, the file name, or a short form that the document states. Used only if nothing stronger matches.
    Likely = 2,
    /// A trading symbol, initials, or the leading capitals of the name.
    Capitals = 3,
    /// The full name, or a former one.
    Name = 4,
}

impl AliasStrength {
    /// All, strongest first.
    pub const ALL: [AliasStrength; 5] = [
        AliasStrength::Name,
        AliasStrength::Capitals,
        AliasStrength::Likely,
        AliasStrength::First,
        AliasStrength::Short,
    ];

    /// Whether people write these names, and may misspell them. The others are made of letters of a name.
    pub fn is_spelled(self) -> bool {
        matches!(
            self,
            AliasStrength::Name | AliasStrength::Likely | AliasStrength::First
        )
    }
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

// A document may list thousands of symbols and subsidiaries; those of the issuer come first.
const MAX_ALIASES: usize = 256;

/// Longest alias, in words.
pub const MAX_WORDS: usize = 6;

/// Normalized words of a name or query: `J.P. Morgan` is `jp morgan`, `Amazon.com's` is `amazon com`. `&` and `and` between
/// words are left out, because either may be written.
pub fn name_words(text: &str) -> Vec<String> {
    let plain = remove_points(&text.to_lowercase().replace('’', "'"));
    let parts = plain.split(|c: char| !(c.is_alphanumeric() || matches!(c, '&' | '\'')));
    let bare = parts.map(|word| word.strip_suffix("'s").unwrap_or(word).replace('\'', ""));
    bare.filter(|word| !word.is_empty() && !is_connector(word))
        .collect()
}

fn is_connector(word: &str) -> bool {
    word == "&" || CONJUNCTIONS.contains(word)
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

/// Aliases of a document's issuer by its facts and, if `body` is given, its text.
pub fn aliases(entry: &CatalogEntry, body: Option<&SourceBody>) -> Vec<Alias> {
    let mut aliases: Vec<Alias> = Vec::new();
    let mut add = |strength, name: String| {
        if name.chars().count() < 2 || aliases.len() == MAX_ALIASES {
            return;
        }
        match aliases.iter_mut().find(|existing| existing.name == name) {
            Some(existing) => existing.strength = existing.strength.max(strength),
            None => aliases.push(Alias { strength, name }),
        }
    };
    let others = entry.facts.co_registrants.iter().map(|other| &other.name);
    for registrant in entry.facts.issuer.iter().chain(others) {
        add_issuer_aliases(&registrant.value, &mut add);
    }
    add_symbols(&entry.facts, &mut add);
    if let (Some(issuer), Some(body)) = (&entry.facts.issuer, body) {
        add_stated_names(&stated_names::read(&issuer.value, body), &mut add);
    }
    add_file_aliases(&entry.version.name, &mut add);
    aliases
}

fn add_issuer_aliases(issuer: &str, add: &mut impl FnMut(AliasStrength, String)) {
    let normalized = Property::Company.canonical(issuer);
    let words = name_words(&normalized);
    let Some(first) = words.first() else { return };
    add(AliasStrength::Name, words.join(" "));
    add(AliasStrength::Name, words.concat());
    let mut as_written = name_words(issuer);
    as_written.truncate(MAX_WORDS);
    add(AliasStrength::Name, as_written.join(" "));
    for capitals in capitals(issuer) {
        add(AliasStrength::Capitals, capitals);
    }
    for initials in initials(&normalized) {
        let strength = match initials.chars().count() {
            0..=2 => AliasStrength::Short,
            _ => AliasStrength::Capitals,
        };
        add(strength, initials);
    }
    if words.len() < 2 {
        return;
    }
    if words.len() > 2 {
        add(AliasStrength::Likely, words[..2].join(" "));
        add(AliasStrength::Likely, words[..2].concat());
    }
    for blend in blends(first, &words[1]) {
        add(AliasStrength::Short, blend);
    }
    if first.chars().count() >= 3 || first.chars().any(|c| c.is_ascii_digit()) {
        add(AliasStrength::First, first.clone());
    }
}

// The first letters of a name's words: `ibm`; with a connector `j&j`, `jnj` and `jj`; with small words `boa` and `bofa`.
fn initials(normalized: &str) -> Vec<String> {
    let words: Vec<&str> = normalized.split(' ').collect();
    if words.len() < 2 {
        return Vec::new();
    }
    let spelled = |connector: &str, small: fn(&str) -> &str| -> String {
        let letters = words.iter().map(|word| match word {
            word if is_connector(word) => connector,
            word if SMALL_WORDS.contains(word) => small(word),
            word => &word[..word.chars().next().map_or(0, char::len_utf8)],
        });
        letters.collect()
    };
    let mut all = vec![
        spelled("", |_| ""),
        spelled("&", |_| ""),
        spelled("n", |_| ""),
        spelled("", |small| &small[..1]),
        // A small word is written in full only within such a short form.
        spelled("", |small| match GENITIVES.contains(small) {
            true => small,
            false => "",
        }),
    ];
    all.sort();
    all.dedup();
    // `&` of the name itself, as in `at&t`, is not a connector; such a name has one word.
    all.retain(|initials| initials.chars().count() >= 2);
    all
}

// `jpm` and `jpmc` of `JPMorgan Chase`: the leading capitals of a mixed-case word, the last of which starts the next part
// of it, and all capitals.
fn capitals(name: &str) -> Vec<String> {
    let normalized = Property::Company.canonical(name);
    let count = normalized.split(' ').count();
    let words: Vec<&str> = name.split_whitespace().take(count).collect();
    if !words.iter().any(is_mixed_case) {
        return Vec::new();
    }
    let leading = words[0].chars().take_while(|c| c.is_uppercase());
    let leading: String = Some(words[0])
        .filter(is_mixed_case)
        .map_or(String::new(), |_| leading.collect());
    let all: String = words
        .iter()
        .flat_map(|word| word.chars().filter(|c| c.is_uppercase()))
        .collect();
    let mut found = vec![leading.to_lowercase(), all.to_lowercase()];
    found.retain(|capitals| capitals.chars().count() >= 2);
    found.dedup();
    found
}

fn is_mixed_case(word: &&str) -> bool {
    word.chars().any(char::is_lowercase) && word.chars().skip(1).any(char::is_uppercase)
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

fn add_stated_names(stated: &StatedNames, add: &mut impl FnMut(AliasStrength, String)) {
    for former in &stated.former {
        let words = name_words(&Property::Company.canonical(former));
        add(AliasStrength::Name, words.join(" "));
    }
    for short in &stated.short {
        let words = name_words(short);
        let is_symbol =
            words.len() == 1 && short.chars().all(|c| !c.is_lowercase()) && short.len() <= 6;
        let strength = if is_symbol {
            AliasStrength::Capitals
        } else {
            AliasStrength::Likely
        };
        add(strength, words.join(" "));
        add(strength, words.concat());
        for capitals in capitals(short) {
            add(AliasStrength::Capitals, capitals);
        }
    }
    for symbol in &stated.symbols {
        add(AliasStrength::Capitals, name_words(symbol).join(" "));
    }
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
    use stemma_catalog::fixtures::{company_entry, entry};

    fn names(issuer: &str) -> Vec<(AliasStrength, String)> {
        aliases(&company_entry("x.pdf", issuer), None)
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
            (AliasStrength::Short, "gewid"),
            (AliasStrength::Short, "gw"),
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
    fn initials_are_spelled_in_all_usual_ways() {
        for (issuer, expected) in [
            ("Jarvis & Jarvis", &["j&j", "jnj", "jj"][..]),
            ("Jarvis and Jarvis, Inc.", &["j&j", "jnj", "jj"]),
            ("Bath, Towel & Body Works, Inc.", &["bt&bw", "btbw"]),
            ("Bank of Ruritania Corporation", &["br", "bor", "bofr"]),
            ("The Grand Hotel Company", &["gh"]),
            ("WXMorgan Hunt & Co.", &["wxm", "wxmh"]),
            ("FastParcel Corporation", &["fp"]),
        ] {
            let names = names(issuer);
            for initials in expected {
                assert!(
                    names.iter().any(|(_, name)| name == initials),
                    "{issuer} {initials}: {names:?}"
                );
            }
        }
    }

    #[test]
    fn connectors_and_legal_forms_may_be_written_or_not() {
        for (issuer, mention) in [
            ("Proctor & Gavel Company", "Proctor and Gavel"),
            ("Proctor and Gavel Company", "Proctor & Gavel Co."),
            ("The Acme Works, Inc.", "Acme Works"),
        ] {
            let mention = name_words(&Property::Company.canonical(mention)).join(" ");
            assert!(
                names(issuer).contains(&(AliasStrength::Name, mention)),
                "{issuer}"
            );
        }
    }

    #[test]
    fn file_name_before_the_year_is_an_alias() {
        assert_eq!(
            aliases(&entry("WIDGETCO_2023Q4_EARNINGS.pdf"), None),
            [Alias {
                strength: AliasStrength::Likely,
                name: "widgetco".into()
            }]
        );
        assert!(aliases(&entry("report.pdf"), None).is_empty());
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
