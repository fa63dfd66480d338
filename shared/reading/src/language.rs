//! Detects the main language of a text by its script and its most common words.

use crate::vocabulary::LATIN_WORDS;

// Enough to be certain, and bounded for large documents.
const MAX_LETTERS: usize = 40_000;
// With fewer letters, chance decides.
const MIN_LETTERS: usize = 40;

/// ISO 639-1 code; `None` if no language is clear.
pub fn detect_language<'a>(lines: impl Iterator<Item = &'a str>) -> Option<&'static str> {
    let mut counts = ScriptCounts {
        hits: vec![0; LATIN_WORDS.len()],
        ..ScriptCounts::default()
    };
    for line in lines {
        counts.add_line(line);
        if counts.letters >= MAX_LETTERS {
            break;
        }
    }
    counts.language()
}

#[derive(Default)]
struct ScriptCounts {
    letters: usize,
    han: usize,
    kana: usize,
    hangul: usize,
    cyrillic: usize,
    arabic: usize,
    words: usize,
    /// Common words by language, as in `LATIN_WORDS`.
    hits: Vec<usize>,
}

impl ScriptCounts {
    fn add_line(&mut self, line: &str) {
        for c in line.chars().filter(|c| c.is_alphabetic()).take(MAX_LETTERS) {
            self.letters += 1;
            match c {
                '\u{4E00}'..='\u{9FFF}' | '\u{3400}'..='\u{4DBF}' => self.han += 1,
                '\u{3040}'..='\u{30FF}' => self.kana += 1,
                '\u{AC00}'..='\u{D7AF}' => self.hangul += 1,
                '\u{0400}'..='\u{04FF}' => self.cyrillic += 1,
                '\u{0600}'..='\u{06FF}' => self.arabic += 1,
                _ => {}
            }
        }
        for word in line
            .split(|c: char| !c.is_alphabetic())
            .filter(|word| !word.is_empty())
            .take(MAX_LETTERS)
        {
            self.words += 1;
            if word.len() <= 5 {
                let word = word.to_lowercase();
                for (hits, (_, common)) in self.hits.iter_mut().zip(LATIN_WORDS.iter()) {
                    *hits += usize::from(common.split(' ').any(|common| common == word));
                }
            }
        }
    }

    fn language(&self) -> Option<&'static str> {
        if self.letters < MIN_LETTERS {
            return None;
        }
        // 30 % of the letters are enough: filings in other scripts are full of Latin names and units. Japanese comes first,
        // as most of its letters are Han; at least a tenth of them are kana.
        let min = (self.letters * 3).div_ceil(10);
        let east_asian = self.han + self.kana;
        if east_asian >= min && self.kana * 10 >= east_asian {
            return Some("ja");
        }
        let scripts = [
            (self.han, "zh"),
            (self.hangul, "ko"),
            (self.cyrillic, "ru"),
            (self.arabic, "ar"),
        ];
        let script = scripts.into_iter().find(|(count, _)| *count >= min);
        script.map(|(_, code)| code).or_else(|| self.latin())
    }

    /// The language with the most common words, if they make up a twentieth of the text and clearly outnumber the next.
    fn latin(&self) -> Option<&'static str> {
        let mut ranked: Vec<(usize, &'static str)> = self
            .hits
            .iter()
            .zip(LATIN_WORDS.iter())
            .map(|(hits, (code, _))| (*hits, *code))
            .collect();
        ranked.sort_by(|a, b| b.cmp(a));
        let best = ranked[0];
        let next = ranked[1].0;
        (best.0 * 20 >= self.words && best.0 * 2 >= next * 3 && best.0 > 1).then_some(best.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn language_by_script_and_common_words() {
        let of = |text: &str| detect_language(text.lines());
        assert_eq!(
            of(
                "The company sold the assets of the unit to a buyer that is based in Ohio and is private"
            ),
            Some("en")
        );
        assert_eq!(
            of("Der Umsatz ist im Geschäftsjahr gestiegen und das Ergebnis ist nicht gesunken"),
            Some("de")
        );
        assert_eq!(
            of(
                "Les ventes ont progressé dans tous les pays et le résultat est en hausse pour une année"
            ),
            Some("fr")
        );
        assert_eq!(of(&"公司营业收入同比增长百分之十二".repeat(4)), Some("zh"));
        assert_eq!(
            of(&"当社の売上高は前年より増加しました".repeat(4)),
            Some("ja")
        );
    }

    #[test]
    fn tables_have_no_language() {
        assert_eq!(
            detect_language(
                [
                    "Alpha 1 2 3",
                    "Beta 4",
                    "Gamma Delta Epsilon Zeta Eta Theta Iota Kappa Lambda"
                ]
                .into_iter()
            ),
            None
        );
        assert_eq!(detect_language(["the"].into_iter()), None);
    }
}
