//! Decides which candidates are headings: the rules in their order, and the one place where they are applied.

use Round::{Each, Measure, Together};
use stemma_document::EvidenceSource;
use stemma_reading::vocabulary::NAMED_STATEMENTS;

use super::display_type::{
    caption_styles, echoes, has_columns, is_beside_paragraph, is_in_block, is_page_text,
    is_sentence, is_step, label_runs,
};
use super::heading_candidate::{Document, HeadingCandidate, Verdict};
use super::heading_filters::{
    contents_lists, few_run_ins, is_label_or_fragment, is_list_entry, is_lone_sentence,
    is_long_sentence, is_long_title, is_statement_label, item_heads, measure_sentences,
    measure_styles, page_heads, part_heads,
};
use super::layout::find_candidates;
use super::titles;

/// One round of judgement over the candidates that are left.
enum Round {
    /// Drops those for which it is true.
    Each(fn(&HeadingCandidate, &Document<'_>) -> bool),
    /// Drops those at whose places it is true.
    Together(fn(&[&HeadingCandidate], &Document<'_>) -> Vec<bool>),
    /// Drops nothing: features that depend on the other candidates.
    Measure(fn(&mut [HeadingCandidate], &Document<'_>)),
}

/// The rules for all documents. Each counts what the ones before it left.
// Sentences go before the styles, so that they do not inflate their counts.
const RULES: &[(&str, Round)] = &[
    ("list_entry", Each(is_list_entry)),
    ("label", Each(is_label_or_fragment)),
    ("long_title", Each(is_long_title)),
    ("long_sentence", Each(is_long_sentence)),
    ("sentences", Measure(measure_sentences)),
    ("lone_sentence", Each(is_lone_sentence)),
    ("few_run_ins", Together(few_run_ins)),
    ("contents_list", Together(contents_lists)),
    ("statement_label", Each(is_statement_label)),
    ("page_head", Together(page_heads)),
    ("styles", Measure(measure_styles)),
    ("table_style", Each(|heading, _| heading.in_tables)),
    ("part_head", Together(part_heads)),
    ("item_head", Together(item_heads)),
];

/// Display type, in documents that are not filings.
// Its rules precede the budget, so that display type takes no room and no level from headings.
const DISPLAY_TYPE_RULES: &[(&str, Round)] = &[
    ("echo", Together(echoes)),
    ("beside_paragraph", Each(is_beside_paragraph)),
    ("step", Each(is_step)),
    ("text_block", Each(is_in_block)),
    ("sentence", Each(is_sentence)),
    ("page_text", Each(is_page_text)),
    ("columns", Each(has_columns)),
    ("caption_style", Together(caption_styles)),
    ("label_run", Together(label_runs)),
];

/// The candidates outside `excluded` rows in reading order, judged by the rules for all documents.
pub(super) fn judge_candidates(
    document: &Document<'_>,
    excluded: &[bool],
) -> Vec<HeadingCandidate> {
    let mut candidates = find_candidates(document.lines, excluded);
    apply(RULES, &mut candidates, document);
    candidates
}

/// Judges the candidates of a document that is not a filing.
pub(super) fn judge_display_type(document: &Document<'_>, candidates: &mut [HeadingCandidate]) {
    apply(DISPLAY_TYPE_RULES, candidates, document);
}

fn apply(
    rules: &[(&'static str, Round)],
    candidates: &mut [HeadingCandidate],
    document: &Document<'_>,
) {
    for (name, round) in rules {
        let headings: Vec<&HeadingCandidate> = candidates
            .iter()
            .filter(|candidate| candidate.is_kept())
            .collect();
        let dropped: Vec<bool> = match round {
            Each(drops) => headings
                .iter()
                .map(|heading| drops(heading, document))
                .collect(),
            Together(drops) => drops(&headings, document),
            Measure(measure) => {
                measure(candidates, document);
                continue;
            }
        };
        candidates
            .iter_mut()
            .filter(|candidate| candidate.is_kept())
            .zip(dropped)
            .filter(|(_, is_dropped)| *is_dropped)
            .for_each(|(candidate, _)| candidate.verdict = Verdict::NotHeading(name));
    }
}

/// Whether the document is a filing, an agreement or a release with statements.
// They have a grammar of their own; the rules for papers, manuals and brochures would only disturb it.
pub(super) fn is_filing(document: &Document<'_>, candidates: &[HeadingCandidate]) -> bool {
    document
        .announced
        .iter()
        .any(|head| head.evidence == EvidenceSource::Grammar)
        || candidates
            .iter()
            .filter(|candidate| candidate.is_kept())
            .any(|heading| heading.statement || names_statement(&heading.title))
}

fn names_statement(title: &str) -> bool {
    NAMED_STATEMENTS.occurs_in(&titles::normalize_key(title))
}
