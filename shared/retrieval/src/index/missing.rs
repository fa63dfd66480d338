//! Finds the words, names and years of a query that no document in scope has.
//!
//! A name counts as a whole: "Oracle Health" is missing where only "health" occurs. Words that state a form of answer, words
//! of every question, and words that the lexicon translates are left out.

use std::collections::BTreeSet;
use std::ops::Range;

use stemma_document::english_words::MONTHS;

use stemma_reading::companies::is_legal_form;
use stemma_reading::question_words::is_question_word;
use stemma_reading::tokenizer::{for_each_word, is_stop_word, tokenize};
use stemma_reading::vocabulary::{BEFORE_NAMES, GENITIVES, PART_WORDS, PERIOD_MARKS};
use tantivy::Term;
use tantivy::query::{PhraseQuery, Query as IndexQuery};

use super::document_filter::{all_of, has_term};
use super::near_terms::{is_spelled, near_alias_words, near_words, spelling_in_texts};
use super::passage_set::PassageSet;
use super::schema::Fields;
use super::scope_statistics::ScopeStatistics;
use super::searcher::IndexSearcher;
use crate::parsed_query::ParsedQuery;
use crate::query_words::QueryWords;
use crate::search::{MissingTerm, SearchNote};

const MAX_MISSING: usize = 8;
const MAX_NEAREST: usize = 3;
// Shorter words are near too many others.
const NEAR_LETTERS: usize = 4;
// A filing shows five years at most (Item 301 of Regulation S-K), and speaks of the next.
const EARLIER_YEARS: u64 = 4;
const LATER_YEARS: u64 = 1;
// A word that no document has says that the answer is not there if it is this much of what the query asks about: many
// questions say a thing in other words than the documents. Without this bound 30 of 65 questions of half A of `more` had a
// missing term although their page is known; with it 9 have one.
const MISSING_SHARE: f32 = 0.4;
/// A query and the documents in its scope.
pub(super) struct MissingTerms<'s> {
    pub(super) searcher: &'s IndexSearcher,
    pub(super) fields: &'s Fields,
    /// Filters of the scope.
    pub(super) scope: &'s [Box<dyn IndexQuery>],
    pub(super) documents: &'s PassageSet<'s>,
    /// The passages in scope; `None` for the whole index.
    pub(super) passages: Option<&'s PassageSet<'s>>,
    pub(super) words: &'s QueryWords,
    pub(super) parsed: &'s ParsedQuery,
    /// Positions of names that are known.
    pub(super) names: &'s [Range<usize>],
    pub(super) statistics: &'s ScopeStatistics<'s>,
}

impl MissingTerms<'_> {
    pub(super) fn find(&self) -> tantivy::Result<Vec<MissingTerm>> {
        let mut missing = Vec::new();
        let mut named: Vec<Range<usize>> = self.names.to_vec();
        for run in self.name_runs() {
            if self.is_name_missing(&run)? {
                missing.push(MissingTerm {
                    term: self.words.written(run.clone()),
                    nearest: self.nearest_to_name(&run)?,
                });
                named.push(run);
            }
        }
        let required = self.required_words();
        for at in 0..self.words.words.len() {
            let is_named = named.iter().any(|range| range.contains(&at));
            if !is_named && self.is_first_part(at) && self.is_word_missing(at, &required)? {
                missing.push(MissingTerm {
                    term: self.words.written(at..at + 1),
                    nearest: self.nearest_words(&self.words.words[at].word)?,
                });
            }
        }
        for year in &self.parsed.period.years {
            if self.is_year_missing(*year)? {
                missing.push(MissingTerm {
                    term: year.to_string(),
                    nearest: self.nearest_years(*year)?,
                });
            }
        }
        missing.dedup_by(|a, b| a.term == b.term);
        missing.truncate(MAX_MISSING);
        Ok(missing)
    }

    // Written words of several parts are looked at once.
    fn is_first_part(&self, at: usize) -> bool {
        let words = &self.words.words;
        at == 0 || words[at - 1].at != words[at].at
    }

    // Stems that a document has to have, because nothing else says what the query is about.
    fn required_words(&self) -> BTreeSet<&str> {
        self.parsed
            .subject_words()
            .filter(|word| word.chars().any(char::is_alphabetic) && word.chars().count() >= 3)
            .filter(|word| self.parsed.entries_with(word).next().is_none())
            .collect()
    }

    fn is_word_missing(&self, at: usize, required: &BTreeSet<&str>) -> tantivy::Result<bool> {
        let written = self.words.written(at..at + 1);
        let stems = tokenize(&written);
        if !stems.iter().any(|stem| required.contains(stem.as_str())) || self.has_stems(&stems)? {
            return Ok(false);
        }
        Ok(self.share(&stems)? >= MISSING_SHARE)
    }

    // How much of what the query asks about a word is: its rarity as a share of the rarity of all.
    fn share(&self, stems: &[String]) -> tantivy::Result<f32> {
        let mut own = 0.0_f32;
        let mut all = 0.0;
        for word in self.parsed.subject_words() {
            let term = Term::from_field_text(self.fields.body, word);
            let rarity = self.statistics.idf(&term)?;
            match stems.iter().any(|stem| stem == word) {
                // The parts of a compound are one word.
                true => own = own.max(rarity),
                false => all += rarity,
            }
        }
        Ok(own / (own + all).max(f32::MIN_POSITIVE))
    }

    // A compound is there as a whole or by one of its parts: what is `capital-intensive` is written in many ways.
    fn has_stems(&self, stems: &[String]) -> tantivy::Result<bool> {
        for stem in stems {
            if self.has_stem(stem)? {
                return Ok(true);
            }
        }
        Ok(stems.is_empty())
    }

    // Titles count, too: running heads are not part of the text.
    fn has_stem(&self, stem: &str) -> tantivy::Result<bool> {
        let fields = self.fields;
        for field in [fields.body, fields.path, fields.headings, fields.running] {
            let term = Term::from_field_text(field, stem);
            if self.searcher.doc_freq(&term)? > 0 && self.exists(&*has_term(term))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn exists(&self, query: &dyn IndexQuery) -> tantivy::Result<bool> {
        match self.passages {
            Some(passages) => passages.has_match(query),
            None => self.searcher.has_match(query),
        }
    }

    // Runs of capitalized words that are not known names: `Oracle Health`, `737 MAX`, `Kodak`.
    fn name_runs(&self) -> Vec<Range<usize>> {
        let words = &self.words.words;
        let mut runs = Vec::new();
        let mut at = 0;
        while at < words.len() {
            let start = at;
            while at < words.len()
                && self.continues_name(start, at)
                && (at == start || !words[at].first)
            {
                at += 1;
                if self.words.ends_phrase(at - 1) {
                    break;
                }
            }
            let run = &words[start..at];
            let has_letters = run
                .iter()
                .any(|word| word.word.chars().any(char::is_alphabetic));
            let is_marked = run.len() > 1 || run.iter().any(|word| !word.first || word.possessive);
            if has_letters && is_marked && self.words.has_case() {
                runs.push(start..at);
            }
            at = at.max(start + 1);
        }
        runs
    }

    fn continues_name(&self, start: usize, at: usize) -> bool {
        let words = &self.words.words;
        let word = &words[at];
        let text = word.word.as_str();
        let before = at
            .checked_sub(1)
            .map_or("", |before| words[before].word.as_str());
        let is_known = self.names.iter().any(|range| range.contains(&at));
        let is_number = text.starts_with(|c: char| c.is_ascii_digit());
        let year = text
            .parse()
            .is_ok_and(|year| self.parsed.period.years.contains(&year));
        let is_period = year || PERIOD_MARKS.contains(text) || MONTHS.contains(&text);
        let is_part = PART_WORDS.contains(text)
            || is_number && (PART_WORDS.contains(before) || MONTHS.contains(&before));
        // `737 MAX` is a name, `500 MHz` is not.
        let starts_as_name = at > start
            || !is_number
            || words
                .get(at + 1)
                .is_some_and(|next| next.upper && next.word.len() > 2);
        let is_small = at > start
            && GENITIVES.contains(text)
            && words.get(at + 1).is_some_and(|next| next.capital);
        let is_capital = word.capital && !is_stop_word(text) && starts_as_name;
        !is_known && !is_period && !is_part && (is_small || is_capital)
    }

    fn is_name_missing(&self, run: &Range<usize>) -> tantivy::Result<bool> {
        let words = &self.words.words[run.clone()];
        let mut stems = Vec::new();
        for word in words.iter().filter(|word| !is_stop_word(&word.word)) {
            let own = tokenize(&word.word);
            if own.iter().any(|stem| stem.chars().any(char::is_alphabetic))
                && !self.has_stems(&own)?
            {
                return Ok(
                    !own.iter().all(|stem| is_question_word(stem)) && !self.is_in_lexicon(&own)
                );
            }
            stems.extend(own);
        }
        let Some(last) = words.last() else {
            return Ok(false);
        };
        let is_possessive = last.possessive && self.names.is_empty();
        match words {
            [word] if word.first && !is_possessive => Ok(false),
            // Stemming makes one word of `Philips` and `Philip`.
            [word] if stems != [word.word.as_str()] || is_possessive => {
                let is_written =
                    spelling_in_texts(self.searcher, self.fields, self.scope, &stems, |written| {
                        is_spelled(written, &word.word)
                            && (!is_possessive || written.starts_with(char::is_uppercase))
                    })?;
                Ok(is_written == Some(false))
            }
            [_] => Ok(false),
            _ => {
                let before = run
                    .start
                    .checked_sub(1)
                    .map(|at| self.words.words[at].word.as_str());
                let is_subject =
                    before.is_some_and(|word| BEFORE_NAMES.contains(word)) && self.names.is_empty();
                let is_company = is_legal_form(&last.word);
                let is_phrase_missing = !self.has_phrase(&stems)?;
                Ok((is_possessive || is_subject || is_company)
                    && is_phrase_missing
                    && !self.is_in_lexicon(&stems))
            }
        }
    }

    // Whether the lexicon knows what texts say instead.
    fn is_in_lexicon(&self, stems: &[String]) -> bool {
        stems
            .iter()
            .any(|stem| self.parsed.entries_with(stem).next().is_some())
    }

    fn has_phrase(&self, stems: &[String]) -> tantivy::Result<bool> {
        let terms: Vec<Term> = stems
            .iter()
            .map(|stem| Term::from_field_text(self.fields.body, stem))
            .collect();
        if terms.len() < 2 {
            return Ok(true);
        }
        self.exists(&PhraseQuery::new(terms))
    }

    // No column, date or name of a document has the year. In a text it may be the maturity of a loan, and columns may be of
    // a forecast: where the query names the year of a report, a report has to be near it.
    fn is_year_missing(&self, year: u16) -> tantivy::Result<bool> {
        let is_reported = self.parsed.period.reported.contains(&year);
        if is_reported
            && let Some((first, last)) = self.reported_years()?
            && !(first.saturating_sub(EARLIER_YEARS)..=last + LATER_YEARS)
                .contains(&u64::from(year))
        {
            return Ok(true);
        }
        Ok(!self.has_column(year)? && (is_reported || !self.has_stem(&year.to_string())?))
    }

    /// Says which years of the query no document is of and no table has, where all documents have a fiscal year. Texts may
    /// speak of such a year, so it is not missing.
    pub(super) fn period_notes(&self) -> tantivy::Result<Vec<SearchNote>> {
        let mut notes = Vec::new();
        for year in &self.parsed.period.years {
            let nearest = self.nearest_years(*year)?;
            if nearest.is_empty() || self.has_column(*year)? || self.is_year_missing(*year)? {
                continue;
            }
            let nearest = nearest.join(", ");
            notes.push(SearchNote::new(
                "search.period_not_found",
                format!("no document here is of {year}, and no table has it (nearest: {nearest})"),
            ));
        }
        Ok(notes)
    }

    // The nearest fiscal years of documents in scope, if all have one.
    fn nearest_years(&self, year: u16) -> tantivy::Result<Vec<String>> {
        if self.reported_years()?.is_none() {
            return Ok(Vec::new());
        }
        let years = self.documents.column("fiscal_year")?;
        let years: BTreeSet<u64> = years.into_iter().filter(|year| *year > 0).collect();
        let mut years: Vec<u64> = years.into_iter().collect();
        years.sort_by_key(|known| known.abs_diff(u64::from(year)));
        Ok(years.iter().take(MAX_NEAREST).map(u64::to_string).collect())
    }

    // Whether a document is of the year, or a table has it over a column.
    fn has_column(&self, year: u16) -> tantivy::Result<bool> {
        for field in [self.fields.years, self.fields.near_years] {
            if self.exists(&*has_term(Term::from_field_text(field, &year.to_string())))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    // The first and the last fiscal year of the documents in scope. `None` if one of them has none, unless all are of a named
    // issuer.
    fn reported_years(&self) -> tantivy::Result<Option<(u64, u64)>> {
        let years = self.documents.column("fiscal_year")?;
        // Some documents of a named issuer may have none.
        if years.contains(&0) && self.names.is_empty() {
            return Ok(None);
        }
        let known = || years.iter().copied().filter(|year| *year > 0);
        Ok(known().min().zip(known().max()))
    }

    // Issuers with almost such a word in their name, or words of texts.
    fn nearest_to_name(&self, run: &Range<usize>) -> tantivy::Result<Vec<String>> {
        let words = &self.words.words[run.clone()];
        let mut nearest = Vec::new();
        for word in words
            .iter()
            .filter(|word| word.word.chars().count() >= NEAR_LETTERS)
        {
            for near in near_alias_words(self.searcher, self.fields, &word.word, 2)? {
                let company = self.company_of(&near)?;
                nearest.extend(company.filter(|company| !nearest.contains(company)));
            }
        }
        if let ([word], true) = (words, nearest.is_empty()) {
            nearest = self.nearest_words(&word.word)?;
        }
        nearest.truncate(MAX_NEAREST);
        Ok(nearest)
    }

    fn company_of(&self, alias_word: &str) -> tantivy::Result<Option<String>> {
        let term = Term::from_field_text(self.fields.alias_words, alias_word);
        let named = PassageSet::matching(self.searcher, &*has_term(term))?;
        match named.addresses().next() {
            Some(address) => self.searcher.stored_text(address, self.fields.company),
            None => Ok(None),
        }
    }

    // Words in scope with a typo's distance, as texts write them.
    fn nearest_words(&self, word: &str) -> tantivy::Result<Vec<String>> {
        let stems = tokenize(word);
        let Some(stem) = stems
            .first()
            .filter(|stem| stem.chars().count() >= NEAR_LETTERS)
        else {
            return Ok(Vec::new());
        };
        let most = (stem.chars().count() / NEAR_LETTERS).min(2);
        let mut nearest = Vec::new();
        for distance in 1..=most {
            for (near, _) in near_words(self.searcher, self.fields, stem, distance)? {
                if nearest.len() == MAX_NEAREST {
                    return Ok(nearest);
                }
                if let Some(written) = self
                    .written_in_scope(&near)?
                    .filter(|written| !nearest.contains(written))
                {
                    nearest.push(written);
                }
            }
            if !nearest.is_empty() {
                break;
            }
        }
        Ok(nearest)
    }

    fn written_in_scope(&self, stem: &str) -> tantivy::Result<Option<String>> {
        let term = Term::from_field_text(self.fields.body, stem);
        let query = all_of(self.scope, has_term(term));
        let Some((_, address)) = self.searcher.best(&query, 1)?.pop() else {
            return Ok(None);
        };
        let text = self.searcher.stored_text(address, self.fields.text)?;
        let text = text.unwrap_or_default();
        let mut written = None;
        for_each_word(&text, |word, range| {
            if word == stem && written.is_none() {
                written = Some(text[range].to_lowercase());
            }
        });
        Ok(written)
    }
}
