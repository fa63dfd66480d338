//! Scores passages: a weighted sum over fields, phrases, page classes, years and numbers.
//!
//! First, the index sums weighted terms (BM25 in every field) and returns the best candidates. Then each candidate is
//! scored part by part, which a sum of terms cannot do: of phrases with the same meaning, the best counts in full and
//! the next two count half; a page class counts once; and numbers count if the query asks for one. The weights are
//! fitted and lie on plateaus: multiplying one by a third or by three changes little.

use std::collections::BTreeMap;

use tantivy::query::{BooleanQuery, BoostQuery, EnableScoring, Occur, Query, TermQuery, Weight};
use tantivy::schema::{Field, IndexRecordOption};
use tantivy::{DocAddress, DocId, Score, Searcher, TERMINATED, Term};

use super::document_fit::{DocumentDates, DocumentFit};
use super::schema::Fields;
use crate::page_class::PageClass;
use crate::parsed_query::ParsedQuery;
use crate::search::RankingFeature;

// Weights of the fields, relative to a vocabulary phrase.
const TEXT_WEIGHT: f32 = 0.5;
const HEAD_WEIGHT: f32 = 0.3;
const HEADINGS_WEIGHT: f32 = 0.5;
const PATH_WEIGHT: f32 = 0.2;
const SUMMARY_FIELD_WEIGHT: f32 = 0.2;
const LABELS_WEIGHT: f32 = 0.6;
const ANCHORS_WEIGHT: f32 = 0.15;
// Phrases in the text, and in row labels.
const PHRASE_WEIGHT: f32 = 1.0;
const ROW_PHRASE_WEIGHT: f32 = 0.8;
// Further phrases of a group repeat what the first one says.
const NEXT_PHRASE_WEIGHT: f32 = 0.5;
const MAX_NEXT_PHRASES: usize = 2;
// A requested statement. Words and phrases of a good passage add up to 20 to 50, so a statement can outweigh them.
const STATEMENT_WEIGHT: f32 = 24.0;
const LOOK_ALIKE_WEIGHT: f32 = 0.4;
// A requested kind of section. Headings are a weaker sign than the rows of a statement.
const SECTION_WEIGHT: f32 = 5.0;
const SECTION_ABOVE_WEIGHT: f32 = 0.5;
// Scaled by the share of requested years among the column years.
const YEARS_WEIGHT: f32 = 1.0;
// For queries that ask for a number: as many numbers as a statement has.
const NUMBERS_WEIGHT: f32 = 5.0;
// For all other queries: no numbers at all.
const PROSE_WEIGHT: f32 = 8.0;
// Numbers per word in a typical table.
const TABLE_NUMBER_SHARE: f32 = 0.3;
// A table of contents has the words of all sections, but answers nothing.
const TOC_FACTOR: f32 = 0.5;
// The parts of a score, as returned by `explain`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum ScorePart {
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

impl ScorePart {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            ScorePart::Text => "text",
            ScorePart::Head => "head",
            ScorePart::Headings => "headings",
            ScorePart::Path => "path",
            ScorePart::Summary => "summary",
            ScorePart::Labels => "labels",
            ScorePart::References => "references",
            ScorePart::Phrases => "phrases",
            ScorePart::RowPhrases => "row_phrases",
            ScorePart::Statement => "statement",
            ScorePart::Section => "section",
            ScorePart::Years => "years",
            ScorePart::Numbers => "numbers",
            ScorePart::Contents => "contents",
            ScorePart::Document => "document",
        }
    }
}

// A term to search for, and what it contributes.
struct ScoringClause {
    kind: ClauseKind,
    weight: f32,
    term: Term,
    record: IndexRecordOption,
}

#[derive(Clone, Copy)]
enum ClauseKind {
    // Adds its BM25 score.
    Word(ScorePart),
    // Adds to its synonym group.
    Phrase(ScorePart, usize),
    // The passage has this class; the largest weight counts.
    PageClass(PageClass),
    // A column year.
    Year,
    // A year of the document.
    NearYear,
}

#[derive(Debug, Clone)]
pub(super) struct ScoredPassage {
    pub(super) address: DocAddress,
    pub(super) doc_key: u64,
    pub(super) page: u64,
    pub(super) score: f32,
    pub(super) parts: BTreeMap<ScorePart, f32>,
    // The phrase and the page class that contributed most.
    pub(super) phrase: Option<String>,
    pub(super) page_class: Option<PageClass>,
}

impl ScoredPassage {
    // A passage with a score of its text alone.
    pub(super) fn for_text(address: DocAddress, score: Score) -> Self {
        Self {
            address,
            doc_key: 0,
            page: 0,
            score,
            parts: BTreeMap::from([(ScorePart::Text, score)]),
            phrase: None,
            page_class: None,
        }
    }
}

// The scoring clauses of a query.
pub(super) struct RankingPlan<'q> {
    parsed: &'q ParsedQuery,
    documents: DocumentFit<'q>,
    disabled: &'q [RankingFeature],
    clauses: Vec<ScoringClause>,
}

impl<'q> RankingPlan<'q> {
    pub(super) fn new(
        parsed: &'q ParsedQuery,
        documents: DocumentFit<'q>,
        fields: &Fields,
        disabled: &'q [RankingFeature],
    ) -> Self {
        let mut plan = Self {
            parsed,
            documents,
            disabled,
            clauses: Vec::new(),
        };
        plan.add_words(fields);
        if plan.uses(RankingFeature::Synonyms) {
            plan.add_phrases(fields);
        }
        plan.add_page_classes(fields);
        for year in &parsed.period.years {
            let text = year.to_string();
            plan.add(
                ClauseKind::Year,
                1.0,
                fields.years,
                &text,
                IndexRecordOption::Basic,
            );
            plan.add(
                ClauseKind::NearYear,
                1.0,
                fields.near_years,
                &text,
                IndexRecordOption::Basic,
            );
        }
        plan
    }

    fn uses(&self, feature: RankingFeature) -> bool {
        !self.disabled.contains(&feature)
    }

    fn add_words(&mut self, fields: &Fields) {
        let mut parts = vec![(ScorePart::Text, fields.body, TEXT_WEIGHT)];
        if self.uses(RankingFeature::Fields) {
            parts.extend([
                (ScorePart::Head, fields.head, HEAD_WEIGHT),
                (ScorePart::Headings, fields.headings, HEADINGS_WEIGHT),
                (ScorePart::Path, fields.path, PATH_WEIGHT),
                (ScorePart::Summary, fields.summary, SUMMARY_FIELD_WEIGHT),
            ]);
        }
        if self.uses(RankingFeature::Labels) {
            parts.push((ScorePart::Labels, fields.labels, LABELS_WEIGHT));
        }
        if self.uses(RankingFeature::References) {
            parts.push((ScorePart::References, fields.anchors, ANCHORS_WEIGHT));
        }
        for (word, weight) in &self.parsed.words {
            let weight = if self.uses(RankingFeature::Cleaning) {
                *weight
            } else {
                1.0
            };
            for (part, field, share) in &parts {
                self.add(
                    ClauseKind::Word(*part),
                    weight * share,
                    *field,
                    word,
                    IndexRecordOption::WithFreqs,
                );
            }
        }
    }

    fn add_phrases(&mut self, fields: &Fields) {
        for (at, group) in self.parsed.phrase_groups.iter().enumerate() {
            for phrase in &group.phrases {
                let record = IndexRecordOption::WithFreqs;
                self.add(
                    ClauseKind::Phrase(ScorePart::Phrases, at),
                    PHRASE_WEIGHT * group.weight,
                    fields.phrases,
                    phrase,
                    record,
                );
                if self.uses(RankingFeature::Labels) {
                    self.add(
                        ClauseKind::Phrase(ScorePart::RowPhrases, at),
                        ROW_PHRASE_WEIGHT * group.weight,
                        fields.row_phrases,
                        phrase,
                        record,
                    );
                }
            }
        }
    }

    fn add_page_classes(&mut self, fields: &Fields) {
        for (class, share) in &self.parsed.page_classes {
            let (feature, bonus, like) = match class.is_statement() {
                true => (
                    RankingFeature::Statements,
                    STATEMENT_WEIGHT,
                    LOOK_ALIKE_WEIGHT,
                ),
                false => (
                    RankingFeature::Sections,
                    SECTION_WEIGHT,
                    SECTION_ABOVE_WEIGHT,
                ),
            };
            if self.uses(feature) {
                self.add(
                    ClauseKind::PageClass(*class),
                    bonus * share,
                    fields.places,
                    class.code(),
                    IndexRecordOption::WithFreqs,
                );
                self.add(
                    ClauseKind::PageClass(*class),
                    bonus * share * like,
                    fields.like,
                    class.code(),
                    IndexRecordOption::WithFreqs,
                );
            }
        }
    }

    fn add(
        &mut self,
        what: ClauseKind,
        weight: f32,
        field: Field,
        text: &str,
        record: IndexRecordOption,
    ) {
        self.clauses.push(ScoringClause {
            kind: what,
            weight,
            term: Term::from_field_text(field, text),
            record,
        });
    }

    // The query that selects candidates. It must stay a short sum of terms with frequencies, which the index can prune. So
    // fields with low weights are left to the second step, and page classes get a quarter of their weight, since here
    // they are multiplied by their rarity (IDF).
    pub(super) fn query(&self) -> BooleanQuery {
        let clauses = self.clauses.iter().filter_map(|clause| {
            let boost = match clause.kind {
                ClauseKind::Word(ScorePart::Text) | ClauseKind::Phrase(..) => clause.weight,
                ClauseKind::Word(ScorePart::Headings | ScorePart::Labels)
                    if clause.weight > HEADINGS_WEIGHT * 0.5 =>
                {
                    clause.weight
                }
                ClauseKind::PageClass(_) => clause.weight / 4.0,
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

    // Scores candidates part by part, best first, and drops amendments unless they are allowed.
    pub(super) fn score(
        &self,
        searcher: &Searcher,
        candidates: Vec<DocAddress>,
        amendments: bool,
    ) -> tantivy::Result<Vec<ScoredPassage>> {
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
            let mut sums: Vec<ScoreSum> = docs.iter().map(|_| ScoreSum::default()).collect();
            for (clause, weight) in self.clauses.iter().zip(&weights) {
                let mut scorer = weight.scorer(reader, 1.0)?;
                // Both the scorer and `docs` ascend, so one pass over the postings is enough.
                for (at, doc) in docs.iter().enumerate() {
                    if scorer.doc() < *doc {
                        scorer.seek(*doc);
                    }
                    match scorer.doc() {
                        TERMINATED => break,
                        current if current == *doc => sums[at].add(clause, scorer.score()),
                        _ => {}
                    }
                }
            }
            let numbers = FastColumns::open(reader.fast_fields())?;
            for (doc, sum) in docs.into_iter().zip(sums) {
                if !amendments && numbers.amended.first(doc).unwrap_or(0) > 0 {
                    continue;
                }
                scored.push(self.total(DocAddress::new(segment, doc), sum, &numbers));
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

    fn total(&self, address: DocAddress, sum: ScoreSum, numbers: &FastColumns) -> ScoredPassage {
        let doc = address.doc_id;
        let page_class = sum.best_page_class();
        let phrase = sum.best_phrase();
        let years = sum.years;
        let near_years = sum.near_years;
        let mut parts = sum.parts();
        let requested_years = self.parsed.period.years.len() as f32;
        if self.uses(RankingFeature::Years) && years > 0 {
            parts.insert(
                ScorePart::Years,
                YEARS_WEIGHT * years as f32 / requested_years,
            );
        }
        // Pages with few words would otherwise look like tables: count at least 50.
        if self.uses(RankingFeature::Numbers) {
            let share = value(&numbers.numbers, doc) as f32
                / (value(&numbers.length, doc) as f32).max(50.0)
                / TABLE_NUMBER_SHARE;
            let fit = if self.parsed.wants_number {
                NUMBERS_WEIGHT * share.min(1.0)
            } else {
                PROSE_WEIGHT * (1.0 - share).max(0.0)
            };
            parts.insert(ScorePart::Numbers, fit);
        }
        if self.uses(RankingFeature::Contents) && value(&numbers.contents, doc) > 0 {
            let all: f32 = parts.values().sum();
            parts.insert(ScorePart::Contents, -all * (1.0 - TOC_FACTOR));
        }
        if self.uses(RankingFeature::Dates) {
            parts.insert(
                ScorePart::Document,
                self.documents
                    .score(&numbers.document_dates(doc, near_years)),
            );
        }
        parts.retain(|_, value| *value != 0.0);
        let score = parts.values().sum();
        ScoredPassage {
            address,
            doc_key: value(&numbers.doc_key, doc),
            page: value(&numbers.page, doc),
            score,
            parts,
            phrase,
            page_class,
        }
    }
}

// Fast fields used for scoring.
struct FastColumns {
    doc_key: tantivy::columnar::Column<u64>,
    page: tantivy::columnar::Column<u64>,
    numbers: tantivy::columnar::Column<u64>,
    length: tantivy::columnar::Column<u64>,
    contents: tantivy::columnar::Column<u64>,
    fiscal_year: tantivy::columnar::Column<u64>,
    quarter: tantivy::columnar::Column<u64>,
    sort: tantivy::columnar::Column<u64>,
    period_end: tantivy::columnar::Column<u64>,
    amended: tantivy::columnar::Column<u64>,
}

impl FastColumns {
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
            period_end: columns.u64("period_end")?,
            amended: columns.u64("amended")?,
        })
    }

    fn document_dates(&self, doc: DocId, near_years: usize) -> DocumentDates {
        DocumentDates {
            doc_key: value(&self.doc_key, doc),
            fiscal_year: value(&self.fiscal_year, doc),
            quarter: value(&self.quarter, doc),
            sort: value(&self.sort, doc),
            period_end: value(&self.period_end, doc),
            near_years,
        }
    }
}

fn value(column: &tantivy::columnar::Column<u64>, doc: DocId) -> u64 {
    column.first(doc).unwrap_or(0)
}

// The score of one passage so far.
#[derive(Default)]
struct ScoreSum {
    words: BTreeMap<ScorePart, f32>,
    // Scores of phrases, by synonym group and part.
    phrases: BTreeMap<(usize, ScorePart), Vec<f32>>,
    best_phrase: (f32, Option<Term>),
    page_classes: BTreeMap<PageClass, f32>,
    years: usize,
    near_years: usize,
}

impl ScoreSum {
    fn add(&mut self, clause: &ScoringClause, score: Score) {
        match clause.kind {
            ClauseKind::Word(part) => *self.words.entry(part).or_default() += clause.weight * score,
            ClauseKind::Phrase(part, group) => {
                let score = clause.weight * score;
                self.phrases.entry((group, part)).or_default().push(score);
                if score > self.best_phrase.0 {
                    self.best_phrase = (score, Some(clause.term.clone()));
                }
            }
            ClauseKind::PageClass(class) => {
                let best = self.page_classes.entry(class).or_default();
                *best = best.max(clause.weight);
            }
            ClauseKind::Year => self.years += 1,
            ClauseKind::NearYear => self.near_years += 1,
        }
    }

    fn best_page_class(&self) -> Option<PageClass> {
        self.page_classes
            .iter()
            .max_by(|a, b| a.1.total_cmp(b.1))
            .map(|(class, _)| *class)
    }

    fn best_phrase(&self) -> Option<String> {
        self.best_phrase
            .1
            .as_ref()
            .and_then(|term| term.value().as_str().map(str::to_owned))
    }

    // Words add up; of each phrase group, the best counts in full and the next ones half; of all statements, and of all
    // kinds of sections, the best counts.
    fn parts(self) -> BTreeMap<ScorePart, f32> {
        let mut parts = self.words;
        for ((_, part), mut scores) in self.phrases {
            scores.sort_by(|a, b| b.total_cmp(a));
            let next: f32 = scores.iter().skip(1).take(MAX_NEXT_PHRASES).sum();
            *parts.entry(part).or_default() += scores[0] + NEXT_PHRASE_WEIGHT * next;
        }
        for (class, bonus) in self.page_classes {
            let part = if class.is_statement() {
                ScorePart::Statement
            } else {
                ScorePart::Section
            };
            let best = parts.entry(part).or_default();
            *best = best.max(bonus);
        }
        parts
    }
}
