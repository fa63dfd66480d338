//! Says which lines of a page may be headings, what the rules see in them, and what they decided.

use serde::Serialize;
use stemma_document::{EvidenceSource, PageNo, Source, SourceBody};

use super::rule_outline::RuleOutline;
use super::{StructureSettings, levels, submission_outline};

/// A line that may be a heading.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HeadingReport {
    /// Line on the page, from 1.
    pub line: usize,
    pub title: String,
    /// What announces it.
    pub evidence: EvidenceSource,
    #[serde(flatten)]
    pub decision: HeadingDecision,
    pub features: HeadingFeatures,
}

/// What the rules decided about a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "decision", rename_all = "snake_case")]
pub enum HeadingDecision {
    /// A section. Level 1 is the highest.
    Kept { level: u16 },
    /// Dropped by the rule of this name.
    Dropped { rule: &'static str },
}

/// What the rules see in a line. Sizes in points.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct HeadingFeatures {
    pub size: f32,
    /// Size of the text of the document.
    pub text_size: f32,
    pub bold: bool,
    pub emphasized: bool,
    pub capitals: bool,
    pub centered: bool,
    /// Distance to the line above in font sizes; 9 at the top of a page or column.
    pub gap: f32,
    pub words: u16,
    pub numbered: bool,
    /// A phrase that opens a paragraph.
    pub run_in: bool,
    /// Its style occurs more often than sections usually do.
    pub dense: bool,
    /// Nearly all headings of its style have a paragraph below.
    pub over_text: bool,
}

/// What the rules decide about the lines of a page; `None` for a text without pages, whose headings are its markup.
pub fn explain_page(
    source: &Source,
    settings: &StructureSettings,
    page: PageNo,
) -> Option<Vec<HeadingReport>> {
    let source = source.to_the_right();
    let SourceBody::Pages(pages) = &source.body else {
        return None;
    };
    let documents = submission_outline::documents(&source, pages);
    let inside = documents
        .into_iter()
        .find(|(_, range)| range.contains(&page.index()));
    let Some((_, range)) = inside else {
        return Some(RuleOutline::new(&source, pages, settings).explain(page.index()));
    };
    let part = submission_outline::document(&source, pages, range.clone());
    let outline = RuleOutline::new(&part, &pages[range.clone()], settings);
    let mut reports = outline.explain(page.index() - range.start);
    // The documents of a submission are its top sections.
    for report in &mut reports {
        if let HeadingDecision::Kept { level } = &mut report.decision {
            *level = level.saturating_add(1);
        }
    }
    Some(reports)
}

impl RuleOutline<'_> {
    /// The lines of a page (from 0) in reading order.
    fn explain(&self, page: usize) -> Vec<HeadingReport> {
        let rows = self.lines.rows_on(page);
        let sections = self
            .heads
            .iter()
            .zip(levels::assign_levels(&self.heads))
            .map(|(head, level)| (head, HeadingDecision::Kept { level }));
        let dropped = self
            .dropped
            .iter()
            .map(|(head, rule)| (head, HeadingDecision::Dropped { rule }));
        let sections = sections
            .chain(dropped)
            .map(|(head, decision)| (head.rows.0, &head.title, head.evidence, decision));
        let candidates = self.candidates.iter().filter_map(|candidate| {
            let rule = candidate.verdict.rule()?;
            let decision = HeadingDecision::Dropped { rule };
            let row = candidate.rows.0;
            Some((row, &candidate.title, EvidenceSource::Layout, decision))
        });
        let mut reports: Vec<HeadingReport> = sections
            .chain(candidates)
            .filter(|(row, ..)| rows.contains(row))
            .map(|(row, title, evidence, decision)| HeadingReport {
                line: self.lines.rows[row].line as usize + 1,
                title: title.clone(),
                evidence,
                decision,
                features: self.features(row),
            })
            .collect();
        reports.sort_by_key(|report| report.line);
        reports
    }

    fn features(&self, row: usize) -> HeadingFeatures {
        let candidate = self.candidate_at(row);
        let row = &self.lines.rows[row];
        HeadingFeatures {
            size: row.size,
            text_size: self.lines.body.size(),
            bold: row.bold,
            emphasized: self.lines.body.is_emphasized(row.emphasis),
            capitals: row.caps,
            centered: row.centered,
            gap: row.gap,
            words: row.words,
            numbered: candidate.is_some_and(|candidate| candidate.style.is_numbered()),
            run_in: candidate.is_some_and(|candidate| candidate.style.run_in),
            dense: candidate.is_some_and(|candidate| candidate.dense),
            over_text: candidate.is_some_and(|candidate| candidate.over_text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{Doc, line};
    use super::*;

    fn decisions(doc: &Doc, page: usize) -> Vec<(String, HeadingDecision)> {
        let settings = StructureSettings::default();
        explain_page(&doc.source(), &settings, PageNo::from_index(page))
            .unwrap()
            .into_iter()
            .map(|report| (report.title, report.decision))
            .collect()
    }

    #[test]
    fn dropped_lines_name_their_rule() {
        let mut doc = Doc::new(3);
        for (page, title) in ["Findings", "Methods", "Terms"].iter().enumerate() {
            doc.section(page, title);
        }
        doc.add(1, line("Year ended June 30, 2023").bold());
        doc.prose(1, 10.0, 4);
        doc.add(1, line("Operation").bold().cells(&["Function"]));
        let dropped = |rule| HeadingDecision::Dropped { rule };
        assert_eq!(
            decisions(&doc, 1),
            [
                ("Methods".to_owned(), HeadingDecision::Kept { level: 1 }),
                (
                    "Year ended June 30, 2023".to_owned(),
                    dropped("boilerplate")
                ),
                ("Operation Function".to_owned(), dropped("columns")),
            ]
        );
    }

    #[test]
    fn headings_beyond_the_budget_say_so() {
        let mut doc = Doc::new(3);
        doc.add(0, line("FORM 10-K").size(14.0).bold());
        doc.section(0, "Item 1. Business");
        doc.section(1, "Item 2. Properties");
        doc.section(2, "Item 3. Legal Proceedings");
        doc.add(1, line("Our Sites").italic());
        doc.prose(1, 10.0, 4);
        let settings = StructureSettings {
            nodes_per_page: 0.0,
            ..StructureSettings::default()
        };
        let reports = explain_page(&doc.source(), &settings, PageNo::from_index(1)).unwrap();
        let rule = |report: &HeadingReport| match report.decision {
            HeadingDecision::Dropped { rule } => rule,
            HeadingDecision::Kept { .. } => "",
        };
        let rules: Vec<&str> = reports.iter().map(rule).collect();
        assert_eq!(rules, ["", "budget"], "{reports:?}");
        assert_eq!(reports[0].evidence, EvidenceSource::Grammar);
    }

    #[test]
    fn texts_without_pages_are_not_explained() {
        let source = super::super::fixture::text(&["# Title"], &[(1, 1, "Title")]);
        assert_eq!(
            explain_page(&source, &StructureSettings::default(), PageNo::FIRST),
            None
        );
    }
}
