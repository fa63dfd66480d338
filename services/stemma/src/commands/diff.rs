//! `stemma diff`: compares two documents section by section.

use std::collections::HashSet;

use stemma_archive::{
    ChangedSentence, CompareRequest, ComparedSide, Comparison, PairedSection, SectionPair,
    TextChurn,
};
use stemma_diff::DiffStatus;

use crate::commands::diff_trees;
use crate::commands::format::{identity, page_or_line_range};
use crate::commands::open::open;
use crate::context::Context;
use crate::error::{CommandError, Exit};
use crate::output::{Output, clean};
use crate::table::{Column, Table, thousands};

// Sentences of each kind to show per section if only a part is compared.
const SENTENCES: usize = 3;
const TITLE_COLUMNS: usize = 60;

/// Compare two documents section by section: what was added, removed, reworded, renamed, moved.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stemma diff 3M_2022_10K                      with the previous annual report
  stemma diff 3M_2021_10K 3M_2022_10K --item 1A
  stemma diff 3M_2022_10K#item-7               one Item with that of the previous year
  stemma diff A_2022_10K#0115 A_2022_10K#0158  two sections with their subsections
  stemma diff 3M_2021_10K 3M_2022_10K --jsonl --fields outcome,left,right
  stemma diff --trees /data/old/.stemma .stemma  the trees of all documents in two stores
  stemma diff --trees 3M_2022_10K@3 3M_2022_10K@4

~ modified, + added, - removed, = unchanged (with --all), ? text missing in the store.
Compares words and numbers; ignores line breaks, case and punctuation. Give the older document
first. Uses no model.

With --trees: sections added, removed, retitled, moved to another page and re-levelled, as other
rules or a person left them. Two stores (folders or s3://…), two versions of a document, or one
document with its previous version; the last two trees of a document are kept.")]
pub struct DiffArgs {
    /// The older document; if it is the only one, it is compared with the previous filing.
    #[arg(value_name = "BEFORE")]
    one: String,
    /// The newer document.
    #[arg(value_name = "AFTER")]
    other: Option<String>,
    /// Only this Item: 1A, II.1A.
    #[arg(long, value_name = "ITEM")]
    item: Option<String>,
    /// Include unchanged sections.
    #[arg(long)]
    all: bool,
    /// Added and removed sentences to show per section [default: 3 for a part or JSON, 0 for whole documents].
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=20))]
    sentences: Option<u8>,
    /// Compare trees instead of texts: of two stores, or of two versions of a document.
    #[arg(long, conflicts_with_all = ["item", "all", "sentences"])]
    trees: bool,
}

pub async fn run(args: DiffArgs, context: &Context) -> Result<Exit, CommandError> {
    if args.trees {
        return diff_trees::run(&args.one, args.other.as_deref(), context).await;
    }
    let reader = open(context).await?;
    let output = &context.output;
    let part = args.item.is_some()
        || args.one.contains('#')
        || args.other.as_ref().is_some_and(|name| name.contains('#'));
    let usual = if part || !output.is_text() {
        SENTENCES
    } else {
        0
    };
    let (left, right) = match args.other {
        Some(other) => (Some(args.one), other),
        None => (None, args.one),
    };
    let sentences = args.sentences.map_or(usual, usize::from);
    let view = reader
        .compare(&CompareRequest {
            left,
            right,
            item: args.item,
            sentences: Some(sentences),
            all_pairs: true,
            ..CompareRequest::default()
        })
        .await?;
    output.print(&view, &view.pairs, || show(&view, args.all, output));
    Ok(Exit::nothing_if(view.pairs.is_empty()))
}

fn show(view: &Comparison, all: bool, output: &Output) {
    output.line(&format!("- {}", side(&view.left, output)));
    output.line(&format!("+ {}", side(&view.right, output)));
    output.line(&summary_line(view));
    if view.items.len() > 1 {
        output.line("");
        items(view, output);
    }
    output.line("");
    let divided = divided(&view.pairs);
    view.pairs
        .iter()
        .filter(|pair: &&SectionPair| {
            all || pair.outcome != DiffStatus::Unchanged || pair.renamed || pair.moved
        })
        .for_each(|pair| section(pair, &divided, output));
    view.notes.iter().for_each(|note| output.note(&clean(note)));
    if !all && view.counts.unchanged > 0 {
        output.note(&output.dim(
            "unchanged sections are hidden; show them with --all, sentences with --sentences 3",
        ));
    }
}

fn side(side: &ComparedSide, output: &Output) -> String {
    format!(
        "{}  {}",
        output.bold(&clean(&side.locator)),
        clean(&identity(&side.document).join(" · "))
    )
}

// `62 % of words changed · 55 modified · 14 added · 6 removed · 10 unchanged`.
fn summary_line(view: &Comparison) -> String {
    let counts = &view.counts;
    let mut parts: Vec<String> = Vec::new();
    parts.extend(percent(view.changed).map(|share| format!("{share} of words changed")));
    let labeled_counts = [
        (counts.modified, "modified"),
        (counts.added, "added"),
        (counts.removed, "removed"),
        (counts.unchanged, "unchanged"),
        (counts.unknown, "without text"),
        (counts.renamed, "renamed"),
        (counts.moved, "moved"),
    ];
    parts.extend(
        labeled_counts
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, word)| format!("{count} {word}")),
    );
    if parts.is_empty() {
        "no sections".into()
    } else {
        parts.join(" · ")
    }
}

fn percent(churn: TextChurn) -> Option<String> {
    let changed = churn.changed?;
    Some(if changed > 0.0 && changed < 0.005 {
        "<1 %".into()
    } else {
        format!("{:.0} %", changed * 100.0)
    })
}

fn items(view: &Comparison, output: &Output) {
    use Column::{Left, Right, Text};
    let mut table = Table::new([Left, Text, Right, Right]);
    for item in &view.items {
        let Some(existing_side) = item.right.as_ref().or(item.left.as_ref()) else {
            continue;
        };
        let words = format!(
            "{} → {} words",
            thousands(item.churn.left_words),
            thousands(item.churn.right_words)
        );
        let changed = match (&item.left, &item.right) {
            (None, _) => "added".into(),
            (_, None) => "removed".into(),
            _ => percent(item.churn)
                .map(|share| format!("{share} changed"))
                .unwrap_or_default(),
        };
        let name = existing_side
            .item
            .clone()
            .unwrap_or_else(|| existing_side.section.section_id.clone());
        table.row([name, existing_side.section.title.clone(), words, changed]);
    }
    table.print(output);
}

// Sections with subsections in the newer document. Only their own text is compared, which the output must say.
fn divided(pairs: &[SectionPair]) -> HashSet<&str> {
    let after = pairs.iter().filter_map(|pair| pair.right.as_ref());
    after
        .filter_map(|side| side.section.structure.rsplit_once('.'))
        .map(|(above, _)| above)
        .collect()
}

fn section(pair: &SectionPair, divided: &HashSet<&str>, output: &Output) {
    let Some(existing_side) = pair.right.as_ref().or(pair.left.as_ref()) else {
        return;
    };
    let indent = "  ".repeat(existing_side.depth.saturating_sub(1).min(12));
    let title: String = clean(&existing_side.section.title)
        .chars()
        .take(TITLE_COLUMNS)
        .collect();
    let line = format!(
        "{} {indent}{}  {title}  {}",
        outcome_sign(pair.outcome),
        clean(&existing_side.section.locator),
        pages_or_lines(pair)
    );
    let line = match pair.outcome {
        DiffStatus::Added => output.green(&line),
        DiffStatus::Removed => output.red(&line),
        _ => line,
    };
    let own = if divided.contains(existing_side.section.structure.as_str()) {
        "own text "
    } else {
        ""
    };
    output.line(&format!("{line}{}", output.dim(&remarks(pair, own))));
    for sentence in &pair.removed {
        output.line(&output.red(&sentence_line(&indent, "-", sentence)));
    }
    for sentence in &pair.added {
        output.line(&output.green(&sentence_line(&indent, "+", sentence)));
    }
    for both in &pair.reworded {
        output.line(&output.red(&sentence_line(&indent, "~-", &both.left)));
        output.line(&output.green(&sentence_line(&indent, "~+", &both.right)));
    }
}

fn sentence_line(indent: &str, sign: &str, sentence: &ChangedSentence) -> String {
    let place = match sentence.page {
        Some(page) => format!("p {page}"),
        None => format!("line {}", sentence.line),
    };
    format!("{indent}      {sign} {place}: {}", clean(&sentence.text))
}

fn outcome_sign(outcome: DiffStatus) -> &'static str {
    match outcome {
        DiffStatus::Unchanged => "=",
        DiffStatus::Modified => "~",
        DiffStatus::Added => "+",
        DiffStatus::Removed => "-",
        DiffStatus::Unknown => "?",
    }
}

fn pages_or_lines(pair: &SectionPair) -> String {
    match (&pair.left, &pair.right) {
        (Some(left), Some(right)) => format!("{} → {}", section_range(left), section_range(right)),
        (Some(one), None) | (None, Some(one)) => section_range(one),
        (None, None) => String::new(),
    }
}

// `  62 % alike · was #0053 “NOTE 10. RESTRUCTURING” · moved`.
fn remarks(pair: &SectionPair, own: &str) -> String {
    let mut remarks = Vec::new();
    if let (DiffStatus::Modified, Some(similarity)) = (pair.outcome, pair.similarity) {
        let share = (similarity * 100.0).round().min(99.0);
        remarks.push(format!("{own}{share:.0} % alike"));
    }
    if let (true, Some(left)) = (pair.renamed, &pair.left) {
        let title: String = clean(&left.section.title)
            .chars()
            .take(TITLE_COLUMNS)
            .collect();
        remarks.push(format!("was “{title}”"));
    }
    if let (true, Some(left)) = (pair.moved, &pair.left) {
        remarks.push(format!("moved from {}", clean(&left.section.locator)));
    }
    remarks.extend(
        pair.stands_in
            .iter()
            .map(|place| format!("its text is now in {}", clean(place))),
    );
    if remarks.is_empty() {
        String::new()
    } else {
        format!("  {}", remarks.join(" · "))
    }
}

fn section_range(side: &PairedSection) -> String {
    page_or_line_range(side.section.pages, side.section.lines)
}
