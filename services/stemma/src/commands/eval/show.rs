//! Prints evaluations as tables.

use stemma_evaluation::items::ItemsEval;
use stemma_evaluation::metadata::MetadataEval;
use stemma_evaluation::structure::{StructureEval, StructureMeans, StructureRow};
use stemma_evaluation::text::{TextEval, TextScore};

use super::{Evaluation, SkippedEntry};
use crate::output::{Output, clean};
use crate::table::{Column, Table};

// Lines of details shown for one document.
const MAX_DETAILS: usize = 40;

/// `0.97`, or `–` without a value.
pub fn share(value: Option<f64>) -> String {
    value.map_or_else(|| "–".into(), |value| format!("{value:.2}"))
}

/// Lists skipped gold entries with reasons.
pub fn note_skipped(entries: &[SkippedEntry], output: &Output) {
    for SkippedEntry { doc, reason } in entries {
        output.note(&format!("not scored: {} ({})", clean(doc), clean(reason)));
    }
}

/// A table with names in its first column and numbers in the others.
pub fn table_of_numbers(columns: usize) -> Table {
    let mut all = vec![Column::Text];
    all.resize(columns, Column::Right);
    Table::new(all)
}

impl Evaluation for StructureEval {
    fn scored(&self) -> usize {
        self.documents.len()
    }

    fn skipped(&self) -> &[SkippedEntry] {
        &self.skipped
    }

    fn figures(&self) -> Vec<(String, Option<f64>)> {
        let none = StructureMeans::default();
        figures_of(self.means.first().unwrap_or(&none))
            .into_iter()
            .map(|(name, mean)| (name.into(), mean))
            .collect()
    }

    fn print(&self, details: bool, output: &Output) {
        if self.documents.is_empty() {
            return;
        }
        let mut table = table_of_numbers(16);
        let head = "document truth found match P R F1 page= page±1 locF1 level ancest parent cover bad out";
        table.row(head.split(' '));
        for row in &self.documents {
            let score = &row.score;
            let counts =
                [score.gold, score.predicted, score.matched].map(|count| count.to_string());
            let of_row = StructureMeans::from_row(row);
            let shares = figures_of(&of_row).map(|(_, value)| share(value));
            let last = [of_row.faults, of_row.outside].map(|count| count.to_string());
            table.row(
                [row.doc.clone()]
                    .into_iter()
                    .chain(counts)
                    .chain(shares)
                    .chain(last),
            );
        }
        for means in &self.means {
            let mut counts = [0; 3];
            for row in &self.documents {
                if means.set == "all" || row.source == means.set {
                    counts[0] += row.score.gold;
                    counts[1] += row.score.predicted;
                    counts[2] += row.score.matched;
                }
            }
            let counts = counts.map(|count| count.to_string());
            let shares = figures_of(means).map(|(_, value)| share(value));
            let last = [means.faults, means.outside].map(|count| count.to_string());
            let name = format!("mean of {} ({})", means.set, means.documents);
            table.row([name].into_iter().chain(counts).chain(shares).chain(last));
        }
        table.print(output);
        if details {
            self.documents
                .iter()
                .for_each(|row| print_details(row, output));
        }
    }
}

fn figures_of(means: &StructureMeans) -> [(&'static str, Option<f64>); 10] {
    [
        ("precision", means.precision),
        ("recall", means.recall),
        ("f1", means.f1),
        ("same_page", means.same_page),
        ("near_page", means.near_page),
        ("loc_f1", means.loc_f1),
        ("level", means.level),
        ("ancestor", means.ancestor),
        ("parent", means.parent),
        ("coverage", means.coverage),
    ]
}

fn print_details(row: &StructureRow, output: &Output) {
    let mut list = Vec::new();
    let score = &row.score;
    list.extend(
        score
            .missed
            .iter()
            .map(|(page, title)| format!("missed  {:>9}  {}", page_label(*page), clean(title))),
    );
    list.extend(
        score
            .moved
            .iter()
            .map(|(gold, predicted, title): &(_, _, String)| {
                format!(
                    "moved   {:>9}  {}",
                    format!("{}→{}", page_label(*gold), page_label(*predicted)),
                    clean(title)
                )
            }),
    );
    list.extend(
        score
            .extra
            .iter()
            .map(|(page, title)| format!("extra   {:>9}  {}", page_label(*page), clean(title))),
    );
    list.extend(
        score
            .faults
            .iter()
            .map(|(fault, count)| format!("fault   {count:>9}  {}", fault.replace('_', " "))),
    );
    if !list.is_empty() {
        output.line("");
        output.line(&clean(&row.doc));
        list.iter()
            .take(MAX_DETAILS)
            .for_each(|line| output.line(&format!("  {line}")));
        let more = list.len().saturating_sub(MAX_DETAILS);
        if more > 0 {
            output.line(&format!("  {more} more; all with --json"));
        }
    }
}

impl Evaluation for TextEval {
    fn scored(&self) -> usize {
        self.pages
    }

    fn skipped(&self) -> &[SkippedEntry] {
        &self.skipped
    }

    fn figures(&self) -> Vec<(String, Option<f64>)> {
        let TextScore {
            words,
            ordered,
            numbers,
            characters,
        } = self.means;
        [
            ("words", words),
            ("ordered", ordered),
            ("numbers", numbers),
            ("characters", characters),
        ]
        .map(|(name, value)| (name.to_string(), Some(value).filter(|_| self.pages > 0)))
        .into()
    }

    fn print(&self, details: bool, output: &Output) {
        if self.pages == 0 {
            return;
        }
        let mut table = table_of_numbers(6);
        table.row("document pages words ordered numbers characters".split(' '));
        let documents = self
            .documents
            .iter()
            .map(|document| (document.doc.as_str(), document.pages.len(), &document.score));
        for (name, pages, score) in
            documents.chain([("mean of all pages", self.pages, &self.means)])
        {
            let shares = [score.words, score.ordered, score.numbers, score.characters]
                .map(|value| format!("{value:.4}"));
            table.row(
                [name.to_owned(), pages.to_string()]
                    .into_iter()
                    .chain(shares),
            );
        }
        table.print(output);
        output.line(&format!(
            "{:.1} % of pages have words below 0.9",
            100.0 * self.weak_pages
        ));
        if details {
            let pages = self
                .documents
                .iter()
                .flat_map(|document| document.pages.iter().map(|page| (&document.doc, page)));
            let mut worst: Vec<_> = pages.collect();
            worst.sort_by(|(_, a), (_, b)| a.score.words.total_cmp(&b.score.words));
            for (doc, page) in worst.iter().take(MAX_DETAILS) {
                output.line(&format!(
                    "  {:.3} words {:.3} ordered  {} p {}",
                    page.score.words,
                    page.score.ordered,
                    clean(doc),
                    page.page
                ));
            }
        }
    }
}

impl Evaluation for MetadataEval {
    fn scored(&self) -> usize {
        self.documents
    }

    fn skipped(&self) -> &[SkippedEntry] {
        &self.skipped
    }

    fn figures(&self) -> Vec<(String, Option<f64>)> {
        let facts = self
            .facts
            .iter()
            .map(|row| (row.fact.clone(), Some(row.score)));
        let mean = Some(self.mean).filter(|_| !self.facts.is_empty());
        facts.chain([("mean".to_string(), mean)]).collect()
    }

    fn print(&self, details: bool, output: &Output) {
        let mut table = table_of_numbers(7);
        table.row("fact judged right wrong missing invented score".split(' '));
        for row in &self.facts {
            let counts = [row.judged, row.right, row.wrong, row.missing, row.invented]
                .map(|count| count.to_string());
            table.row(
                [row.fact.clone()]
                    .into_iter()
                    .chain(counts)
                    .chain([format!("{:.3}", row.score)]),
            );
        }
        if !self.facts.is_empty() {
            table.print(output);
            output.line(&format!(
                "mean {:.3} over {} documents",
                self.mean, self.documents
            ));
        }
        for mistake in self.mistakes.iter().filter(|_| details) {
            let fact = &mistake.fact;
            output.line(&format!(
                "  {}  {}: found {}, expected {}",
                clean(&mistake.doc),
                fact.fact,
                fact_values(&fact.predicted),
                fact_values(&fact.gold)
            ));
        }
    }
}

impl Evaluation for ItemsEval {
    fn scored(&self) -> usize {
        self.entries
    }

    fn skipped(&self) -> &[SkippedEntry] {
        &self.skipped
    }

    fn figures(&self) -> Vec<(String, Option<f64>)> {
        self.questions
            .iter()
            .map(|row| (row.question.as_str().into(), Some(row.score)))
            .collect()
    }

    fn print(&self, details: bool, output: &Output) {
        let mut table = table_of_numbers(5);
        table.row("question judged right confident_wrong score".split(' '));
        for row in &self.questions {
            let counts =
                [row.judged, row.right, row.confident_wrong].map(|count| count.to_string());
            table.row(
                [row.question.as_str().to_owned()]
                    .into_iter()
                    .chain(counts)
                    .chain([format!("{:.3}", row.score)]),
            );
        }
        table.print(output);
        for mistake in self.mistakes.iter().filter(|_| details) {
            let item = &mistake.item;
            output.line(&format!(
                "  {}  {} {}: found {}, expected {}",
                clean(&mistake.doc),
                item.item,
                item.question.as_str(),
                clean(&item.predicted),
                clean(&item.gold)
            ));
        }
    }
}

fn page_label(page: Option<u32>) -> String {
    page.map_or_else(|| "–".into(), |page| page.to_string())
}

fn fact_values(values: &[String]) -> String {
    if values.is_empty() {
        "nothing".into()
    } else {
        clean(&values.join(", "))
    }
}
