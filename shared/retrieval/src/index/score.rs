//! What a passage is worth to a question: a sum over fields, phrases, places, years and numbers.
//!
//! First the index sums weighted terms (BM25 in every field) and gives the best candidates; then each of those is looked
//! at again, part by part, for what a sum of terms cannot say: of phrases that mean the same the best counts and the next
//! two half, a place counts once, and numbers count where one is asked for. Weights lie on plateaus: a third or three
//! times of each moves little.

use std::collections::BTreeMap;

use tantivy::query::{BooleanQuery, BoostQuery, EnableScoring, Occur, Query, TermQuery, Weight};
use tantivy::schema::{Field, IndexRecordOption};
use tantivy::{DocAddress, Score, Searcher, TERMINATED, Term};

use super::schema::{Fields, Sort};
use crate::find::Ingredient;
use crate::landmarks::Landmark;
use crate::question::Question;

/// Weights of the fields.
const TEXT: f32 = 0.5;
const HEAD: f32 = 0.3;
const HEADINGS: f32 = 0.5;
const PATH: f32 = 0.2;
const SUMMARY: f32 = 0.2;
const LABELS: f32 = 0.6;
const ANCHORS: f32 = 0.15;
/// Of a phrase in the text, and in a label of a row.
const PHRASE: f32 = 1.0;
const ROW_PHRASE: f32 = 0.8;
/// Of phrases of one group after the best.
const NEXT: f32 = 0.5;
const NEXT_PHRASES: usize = 2;
/// A statement that is wanted, where words and phrases of a good passage are worth 20 to 50.
const STATEMENT: f32 = 24.0;
const LOOK_ALIKE: f32 = 0.4;
/// A kind of section that is wanted: below a third of a statement.
const SECTION: f32 = 5.0;
const SECTION_ABOVE: f32 = 0.5;
/// All years that are named stand over columns.
const YEARS: f32 = 1.0;
/// As many numbers as a statement has, where a number is wanted.
const NUMBERS: f32 = 5.0;
/// No numbers, where none is wanted.
const PROSE: f32 = 8.0;
/// Share of words that are numbers in a table.
const TABLE: f32 = 0.3;
/// What a table of contents keeps.
const CONTENTS: f32 = 0.5;
/// A document of the year, the quarter, the form that is named.
const SAME_YEAR: f32 = 12.0;
const NEAR_YEAR: f32 = 4.0;
const SAME_QUARTER: f32 = 12.0;
const SAME_FORM: f32 = 12.0;
/// A report on a whole year, where no quarter is named.
const ANNUAL: f32 = 2.0;

/// What a score is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Part {
    Text,
    Head,
    Headings,
    Path,
    Summary,
    Labels,
    References,
    Phrases,
    RowPhrases,
    Statement,
    Section,
    Years,
    Numbers,
    Contents,
    Document,
}

impl Part {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Part::Text => "text",
            Part::Head => "head",
            Part::Headings => "headings",
            Part::Path => "path",
            Part::Summary => "summary",
            Part::Labels => "labels",
            Part::References => "references",
            Part::Phrases => "phrases",
            Part::RowPhrases => "row_phrases",
            Part::Statement => "statement",
            Part::Section => "section",
            Part::Years => "years",
            Part::Numbers => "numbers",
            Part::Contents => "contents",
            Part::Document => "document",
        }
    }
}

/// A term to look for, what for, and what it counts.
struct Clause {
    what: What,
    weight: f32,
    term: Term,
    record: IndexRecordOption,
}

#[derive(Clone, Copy)]
enum What {
    /// Adds its BM25 score.
    Word(Part),
    /// Adds to its group of phrases.
    Phrase(Part, usize),
    /// The passage is this place; the greatest counts.
    Landmark(Landmark),
    /// The year stands over a column.
    Year,
    /// The year is one of the document's.
    NearYear,
}

/// A passage, scored.
#[derive(Debug, Clone)]
pub(super) struct Scored {
    pub(super) address: DocAddress,
    pub(super) doc_key: u64,
    pub(super) page: u64,
    pub(super) score: f32,
    pub(super) parts: BTreeMap<Part, f32>,
    /// The phrase that counted most, and the place that did.
    pub(super) phrase: Option<String>,
    pub(super) place: Option<Landmark>,
}

/// The terms a question looks for.
pub(super) struct Plan<'q> {
    question: &'q Question,
    without: &'q [Ingredient],
    clauses: Vec<Clause>,
}

impl<'q> Plan<'q> {
    pub(super) fn of(question: &'q Question, fields: &Fields, without: &'q [Ingredient]) -> Self {
        let mut plan = Self {
            question,
            without,
            clauses: Vec::new(),
        };
        plan.words(fields);
        if plan.uses(Ingredient::Vocabulary) {
            plan.phrases(fields);
        }
        plan.places(fields);
        for year in &question.years {
            let text = year.to_string();
            plan.add(
                What::Year,
                1.0,
                fields.years,
                &text,
                IndexRecordOption::Basic,
            );
            plan.add(
                What::NearYear,
                1.0,
                fields.near_years,
                &text,
                IndexRecordOption::Basic,
            );
        }
        plan
    }

    fn uses(&self, ingredient: Ingredient) -> bool {
        !self.without.contains(&ingredient)
    }

    fn words(&mut self, fields: &Fields) {
        let mut parts = vec![(Part::Text, fields.body, TEXT)];
        if self.uses(Ingredient::Fields) {
            parts.extend([
                (Part::Head, fields.head, HEAD),
                (Part::Headings, fields.headings, HEADINGS),
                (Part::Path, fields.path, PATH),
                (Part::Summary, fields.summary, SUMMARY),
            ]);
        }
        if self.uses(Ingredient::Labels) {
            parts.push((Part::Labels, fields.labels, LABELS));
        }
        if self.uses(Ingredient::References) {
            parts.push((Part::References, fields.anchors, ANCHORS));
        }
        for (word, weight) in &self.question.words {
            let weight = if self.uses(Ingredient::Cleaning) {
                *weight
            } else {
                1.0
            };
            for (part, field, share) in &parts {
                self.add(
                    What::Word(*part),
                    weight * share,
                    *field,
                    word,
                    IndexRecordOption::WithFreqs,
                );
            }
        }
    }

    fn phrases(&mut self, fields: &Fields) {
        for (at, group) in self.question.groups.iter().enumerate() {
            for phrase in &group.phrases {
                let record = IndexRecordOption::WithFreqs;
                self.add(
                    What::Phrase(Part::Phrases, at),
                    PHRASE * group.weight,
                    fields.phrases,
                    phrase,
                    record,
                );
                if self.uses(Ingredient::Labels) {
                    self.add(
                        What::Phrase(Part::RowPhrases, at),
                        ROW_PHRASE * group.weight,
                        fields.row_phrases,
                        phrase,
                        record,
                    );
                }
            }
        }
    }

    fn places(&mut self, fields: &Fields) {
        for (place, share) in &self.question.places {
            let (ingredient, bonus, like) = match place.is_statement() {
                true => (Ingredient::Statements, STATEMENT, LOOK_ALIKE),
                false => (Ingredient::Sections, SECTION, SECTION_ABOVE),
            };
            if self.uses(ingredient) {
                self.add(
                    What::Landmark(*place),
                    bonus * share,
                    fields.places,
                    place.code(),
                    IndexRecordOption::WithFreqs,
                );
                self.add(
                    What::Landmark(*place),
                    bonus * share * like,
                    fields.like,
                    place.code(),
                    IndexRecordOption::WithFreqs,
                );
            }
        }
    }

    fn add(
        &mut self,
        what: What,
        weight: f32,
        field: Field,
        text: &str,
        record: IndexRecordOption,
    ) {
        self.clauses.push(Clause {
            what,
            weight,
            term: Term::from_field_text(field, text),
            record,
        });
    }

    /// The terms as one query: what gives candidates. Places count by how rare they are here, and fields that count little
    /// wait for the second look, so that it stays a short sum of terms with frequencies, which the index prunes.
    pub(super) fn query(&self) -> BooleanQuery {
        let clauses = self.clauses.iter().filter_map(|clause| {
            let boost = match clause.what {
                What::Word(Part::Text) | What::Phrase(..) => clause.weight,
                What::Word(Part::Headings | Part::Labels) if clause.weight > HEADINGS * 0.5 => {
                    clause.weight
                }
                What::Landmark(_) => clause.weight / 4.0,
                _ => return None,
            };
            let term = TermQuery::new(clause.term.clone(), clause.record);
            Some((
                Occur::Should,
                Box::new(BoostQuery::new(Box::new(term), boost)) as Box<dyn Query>,
            ))
        });
        BooleanQuery::new(clauses.collect())
    }

    /// Scores candidates part by part, best first.
    /// Amendments only where they are allowed.
    pub(super) fn score(
        &self,
        searcher: &Searcher,
        candidates: Vec<DocAddress>,
        amendments: bool,
    ) -> tantivy::Result<Vec<Scored>> {
        let mut by_segment: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for address in candidates {
            by_segment
                .entry(address.segment_ord)
                .or_default()
                .push(address.doc_id);
        }
        let weights: tantivy::Result<Vec<Box<dyn Weight>>> = self
            .clauses
            .iter()
            .map(|clause| {
                TermQuery::new(clause.term.clone(), clause.record)
                    .weight(EnableScoring::enabled_from_searcher(searcher))
            })
            .collect();
        let weights = weights?;
        let mut scored = Vec::new();
        for (segment, mut docs) in by_segment {
            docs.sort_unstable();
            let reader = searcher.segment_reader(segment);
            let mut sums: Vec<Sum> = docs.iter().map(|_| Sum::default()).collect();
            for (clause, weight) in self.clauses.iter().zip(&weights) {
                let mut scorer = weight.scorer(reader, 1.0)?;
                for (at, doc) in docs.iter().enumerate() {
                    if scorer.doc() < *doc {
                        scorer.seek(*doc);
                    }
                    match scorer.doc() {
                        TERMINATED => break,
                        found if found == *doc => sums[at].add(clause, scorer.score()),
                        _ => {}
                    }
                }
            }
            let numbers = Numbers::open(reader.fast_fields())?;
            for (doc, sum) in docs.into_iter().zip(sums) {
                if !amendments && numbers.amended.first(doc).unwrap_or(0) > 0 {
                    continue;
                }
                scored.push(self.finish(DocAddress::new(segment, doc), sum, &numbers));
            }
        }
        scored.sort_by(|a, b| {
            b.score
                .total_cmp(&a.score)
                .then(a.doc_key.cmp(&b.doc_key))
                .then(a.page.cmp(&b.page))
        });
        Ok(scored)
    }

    fn finish(&self, address: DocAddress, sum: Sum, numbers: &Numbers) -> Scored {
        let doc = address.doc_id;
        let get = |column: &tantivy::columnar::Column<u64>| column.first(doc).unwrap_or(0);
        let place = sum.best_place();
        let phrase = sum.best_phrase();
        let years = sum.years;
        let near_years = sum.near_years;
        let mut parts = sum.parts();
        let asked = self.question.years.len() as f32;
        if self.uses(Ingredient::Years) && years > 0 {
            parts.insert(Part::Years, YEARS * years as f32 / asked);
        }
        if self.uses(Ingredient::Numbers) {
            let share =
                get(&numbers.numbers) as f32 / (get(&numbers.length) as f32).max(50.0) / TABLE;
            let fit = if self.question.numeric {
                NUMBERS * share.min(1.0)
            } else {
                PROSE * (1.0 - share).max(0.0)
            };
            parts.insert(Part::Numbers, fit);
        }
        if self.uses(Ingredient::Contents) && get(&numbers.contents) > 0 {
            let all: f32 = parts.values().sum();
            parts.insert(Part::Contents, -all * (1.0 - CONTENTS));
        }
        if self.uses(Ingredient::Dates) {
            parts.insert(Part::Document, self.document(get, numbers, near_years));
        }
        parts.retain(|_, value| *value != 0.0);
        let score = parts.values().sum();
        Scored {
            address,
            doc_key: get(&numbers.doc_key),
            page: get(&numbers.page),
            score,
            parts,
            phrase,
            place,
        }
    }

    /// How well the document fits the year, quarter and form that are named.
    fn document(
        &self,
        get: impl Fn(&tantivy::columnar::Column<u64>) -> u64,
        numbers: &Numbers,
        near_years: usize,
    ) -> f32 {
        let question = self.question;
        let year = get(&numbers.fiscal_year);
        let quarter = get(&numbers.quarter);
        let sort = get(&numbers.sort);
        let mut fit = 0.0;
        if let Some(last) = question.years.last() {
            fit += match u64::from(*last) {
                last if year == last => SAME_YEAR,
                _ if near_years > 0 => NEAR_YEAR,
                _ => 0.0,
            };
        }
        match question.quarter {
            Some(asked) if quarter == u64::from(asked) && sort != Sort::Annual as u64 => {
                fit += SAME_QUARTER
            }
            None if sort == Sort::Annual as u64 => fit += ANNUAL,
            _ => {}
        }
        if let Some(form) = &question.form
            && Sort::of_form(form) as u64 == sort
        {
            fit += SAME_FORM;
        }
        fit
    }
}

/// Columns that are looked at.
struct Numbers {
    doc_key: tantivy::columnar::Column<u64>,
    page: tantivy::columnar::Column<u64>,
    numbers: tantivy::columnar::Column<u64>,
    length: tantivy::columnar::Column<u64>,
    contents: tantivy::columnar::Column<u64>,
    fiscal_year: tantivy::columnar::Column<u64>,
    quarter: tantivy::columnar::Column<u64>,
    sort: tantivy::columnar::Column<u64>,
    amended: tantivy::columnar::Column<u64>,
}

impl Numbers {
    fn open(columns: &tantivy::fastfield::FastFieldReaders) -> tantivy::Result<Self> {
        Ok(Self {
            doc_key: columns.u64("doc_key")?,
            page: columns.u64("page")?,
            numbers: columns.u64("numbers")?,
            length: columns.u64("length")?,
            contents: columns.u64("contents")?,
            fiscal_year: columns.u64("fiscal_year")?,
            quarter: columns.u64("quarter")?,
            sort: columns.u64("sort")?,
            amended: columns.u64("amended")?,
        })
    }
}

/// Running sums of one passage.
#[derive(Default)]
struct Sum {
    words: BTreeMap<Part, f32>,
    /// Per group and part, scores of its phrases.
    phrases: BTreeMap<(usize, Part), Vec<f32>>,
    best_phrase: (f32, Option<Term>),
    places: BTreeMap<Landmark, f32>,
    years: usize,
    near_years: usize,
}

impl Sum {
    fn add(&mut self, clause: &Clause, score: Score) {
        match clause.what {
            What::Word(part) => *self.words.entry(part).or_default() += clause.weight * score,
            What::Phrase(part, group) => {
                let score = clause.weight * score;
                self.phrases.entry((group, part)).or_default().push(score);
                if score > self.best_phrase.0 {
                    self.best_phrase = (score, Some(clause.term.clone()));
                }
            }
            What::Landmark(place) => {
                let best = self.places.entry(place).or_default();
                *best = best.max(clause.weight);
            }
            What::Year => self.years += 1,
            What::NearYear => self.near_years += 1,
        }
    }

    fn best_place(&self) -> Option<Landmark> {
        self.places
            .iter()
            .max_by(|a, b| a.1.total_cmp(b.1))
            .map(|(place, _)| *place)
    }

    fn best_phrase(&self) -> Option<String> {
        self.best_phrase
            .1
            .as_ref()
            .and_then(|term| term.value().as_str().map(str::to_owned))
    }

    /// Words as they are; of each group the best phrase and half of the next; of statements and of sections the best.
    fn parts(self) -> BTreeMap<Part, f32> {
        let mut parts = self.words;
        for ((_, part), mut scores) in self.phrases {
            scores.sort_by(|a, b| b.total_cmp(a));
            let next: f32 = scores.iter().skip(1).take(NEXT_PHRASES).sum();
            *parts.entry(part).or_default() += scores[0] + NEXT * next;
        }
        for (place, bonus) in self.places {
            let part = if place.is_statement() {
                Part::Statement
            } else {
                Part::Section
            };
            let best = parts.entry(part).or_default();
            *best = best.max(bonus);
        }
        parts
    }
}
