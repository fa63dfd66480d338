//! Prints evaluations as tables.

use stemma_evaluation::items::ItemsEval;
use stemma_evaluation::metadata::MetadataEval;
use stemma_evaluation::structure::{self, StructureEval, StructureRow};
use stemma_evaluation::text::{TextEval, TextScore};

use super::{Evaluation, Report};
use crate::output::clean;
use crate::table::{Column, Table};

// Lines of details shown for one document.
const MAX_DETAILS: usize = 40;

/// `0.97`, or `–` without a value.
pub fn share(value: Option<f64>) -> String {
    value.map_or_else(|| "–".into(), |value| format!("{value:.2}"))
}

/// A table with names in its first column and numbers in the others. `·` is a space in a head.
pub fn table_of_numbers(heads: &str) -> Table {
    let heads: Vec<String> = heads
        .split(' ')
        .map(|head| head.replace('·', " "))
        .collect();
    let mut columns = vec![Column::Text];
    columns.resize(heads.len(), Column::Right);
    let mut table = Table::new(columns);
    table.row(heads);
    table
}

// A row of a table: a name, counts, then other figures.
fn row<const N: usize>(
    name: String,
    counts: [usize; N],
    figures: impl IntoIterator<Item = String>,
) -> impl Iterator<Item = String> {
    let counts = counts.map(|count| count.to_string());
    [name].into_iter().chain(counts).chain(figures)
}

impl Evaluation for StructureEval {
    fn report(&self, details: bool, width: Option<u16>) -> Report<'_> {
        let mut lines = Vec::new();
        if !self.documents.is_empty() {
            lines = structure_table(self).lines(width);
        }
        if details {
            lines.extend(self.documents.iter().flat_map(detail_lines));
        }
        let all = self.means.first();
        let figures = structure::figures().map(|(name, _)| {
            let mean = all.and_then(|means| *means.figures.get(name)?);
            (name.to_owned(), mean)
        });
        Report {
            scored: self.documents.len(),
            skipped: &self.skipped,
            figures: figures.into(),
            lines,
        }
    }
}

fn structure_table(eval: &StructureEval) -> Table {
    let mut table = table_of_numbers(
        "document truth found match P R F1 page= page±1 locF1 level ancest parent",
    );
    let counts = |row: &StructureRow| [row.score.gold, row.score.predicted, row.score.matched];
    for document in &eval.documents {
        let shares = structure::figures().map(|(_, figure)| share(figure(&document.score)));
        table.row(row(document.doc.clone(), counts(document), shares));
    }
    for means in &eval.means {
        let mut sums = [0; 3];
        for document in &eval.documents {
            if means.set == "all" || document.source == means.set {
                for (sum, count) in sums.iter_mut().zip(counts(document)) {
                    *sum += count;
                }
            }
        }
        let name = format!("mean of {} ({})", means.set, means.documents);
        table.row(row(
            name,
            sums,
            structure::figures().map(|(name, _)| share(means.figures[name])),
        ));
    }
    table
}

fn detail_lines(row: &StructureRow) -> Vec<String> {
    let score = &row.score;
    let at = |page: Option<u32>| page.map_or_else(|| "–".into(), |page| page.to_string());
    let entry = |kind: &str, place: String, title: &str| {
        format!("  {kind:<6}  {place:>9}  {}", clean(title))
    };
    let missed = score
        .missed
        .iter()
        .map(|(page, title)| entry("missed", at(*page), title));
    let moved = score.moved.iter().map(|(gold, predicted, title)| {
        entry("moved", format!("{}→{}", at(*gold), at(*predicted)), title)
    });
    let extra = score
        .extra
        .iter()
        .map(|(page, title)| entry("extra", at(*page), title));
    let list: Vec<String> = missed.chain(moved).chain(extra).collect();
    if list.is_empty() {
        return list;
    }
    let more = list.len().saturating_sub(MAX_DETAILS);
    let mut lines = vec![String::new(), clean(&row.doc)];
    lines.extend(list.into_iter().take(MAX_DETAILS));
    if more > 0 {
        lines.push(format!("  {more} more; all with --json"));
    }
    lines
}

impl Evaluation for TextEval {
    fn report(&self, details: bool, width: Option<u16>) -> Report<'_> {
        let TextScore {
            words,
            ordered,
            numbers,
            characters,
        } = self.means;
        let figures = [
            ("words", words),
            ("ordered", ordered),
            ("numbers", numbers),
            ("characters", characters),
        ];
        let mut lines = Vec::new();
        if self.pages > 0 {
            let mut table = table_of_numbers("document pages words ordered numbers characters");
            let documents = self
                .documents
                .iter()
                .map(|document| (document.doc.as_str(), document.pages.len(), &document.score));
            let all = ("mean of all pages", self.pages, &self.means);
            for (name, pages, score) in documents.chain([all]) {
                let shares = [score.words, score.ordered, score.numbers, score.characters]
                    .map(|value| format!("{value:.4}"));
                table.row(row(name.to_owned(), [pages], shares));
            }
            lines = table.lines(width);
            let weak = 100.0 * self.weak_pages;
            lines.push(format!("{weak:.1} % of pages have words below 0.9"));
        }
        if details {
            let mut worst: Vec<_> = self
                .documents
                .iter()
                .flat_map(|document| document.pages.iter().map(|page| (&document.doc, page)))
                .collect();
            worst.sort_by(|(_, a), (_, b)| a.score.words.total_cmp(&b.score.words));
            lines.extend(worst.iter().take(MAX_DETAILS).map(|(doc, page)| {
                let TextScore { words, ordered, .. } = page.score;
                let doc = clean(doc);
                format!(
                    "  {words:.3} words {ordered:.3} ordered  {doc} p {}",
                    page.page
                )
            }));
        }
        Report {
            scored: self.pages,
            skipped: &self.skipped,
            figures: figures
                .map(|(name, value)| (name.to_owned(), Some(value).filter(|_| self.pages > 0)))
                .into(),
            lines,
        }
    }
}

impl Evaluation for MetadataEval {
    fn report(&self, details: bool, width: Option<u16>) -> Report<'_> {
        let mut figures: Vec<_> = self
            .facts
            .iter()
            .map(|row| (row.fact.clone(), Some(row.score)))
            .collect();
        figures.push((
            "mean".into(),
            Some(self.mean).filter(|_| !self.facts.is_empty()),
        ));
        let mut table = table_of_numbers("fact judged right wrong missing invented score");
        for fact in &self.facts {
            let counts = [
                fact.judged,
                fact.right,
                fact.wrong,
                fact.missing,
                fact.invented,
            ];
            table.row(row(
                fact.fact.clone(),
                counts,
                [format!("{:.3}", fact.score)],
            ));
        }
        let mut lines = Vec::new();
        if !self.facts.is_empty() {
            lines = table.lines(width);
            lines.push(format!(
                "mean {:.3} over {} documents",
                self.mean, self.documents
            ));
        }
        for mistake in self.mistakes.iter().filter(|_| details) {
            let doc = clean(&mistake.doc);
            let fact = &mistake.fact;
            let [found, expected] =
                [&fact.predicted, &fact.gold].map(|values| match values.len() {
                    0 => "nothing".into(),
                    _ => clean(&values.join(", ")),
                });
            lines.push(format!(
                "  {doc}  {}: found {found}, expected {expected}",
                fact.fact
            ));
        }
        Report {
            scored: self.documents,
            skipped: &self.skipped,
            figures,
            lines,
        }
    }
}

impl Evaluation for ItemsEval {
    fn report(&self, details: bool, width: Option<u16>) -> Report<'_> {
        let mut table = table_of_numbers("question judged right confident_wrong score");
        let mut figures = Vec::new();
        for question in &self.questions {
            let name = question.question.as_str().to_owned();
            let counts = [question.judged, question.right, question.confident_wrong];
            figures.push((name.clone(), Some(question.score)));
            table.row(row(name, counts, [format!("{:.3}", question.score)]));
        }
        let mut lines = table.lines(width);
        for mistake in self.mistakes.iter().filter(|_| details) {
            let doc = clean(&mistake.doc);
            let item = &mistake.item;
            let what = format!("{} {}", item.item, item.question.as_str());
            let [found, expected] = [&item.predicted, &item.gold].map(|value| clean(value));
            lines.push(format!(
                "  {doc}  {what}: found {found}, expected {expected}"
            ));
        }
        Report {
            scored: self.entries,
            skipped: &self.skipped,
            figures,
            lines,
        }
    }
}
