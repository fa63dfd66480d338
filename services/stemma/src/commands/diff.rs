//! `stemma diff`: compares two documents section by section.

use std::collections::HashSet;

use stemma_archive::{
    ChangedSentence, CompareRequest, ComparedSide, Comparison, PairedSection, SectionPair,
    TextChurn,
};
use stemma_diff::DiffStatus;

use crate::commands::diff_trees;
use crate::commands::format::{
    counts, identity, page_or_line, page_or_line_range, remarks, short_title,
};
use crate::commands::open::open;
use crate::context::Context;
use crate::error::{CommandError, Exit};
use crate::output::{Output, clean};
use crate::table::{Column, Table, thousands};

// Sentences of each kind to show per section if only a part is compared.
const SENTENCES: usize = 3;

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
    before: String,
    /// The newer document.
    #[arg(value_name = "AFTER")]
    after: Option<String>,
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
        return diff_trees::run(&args.before, args.after.as_deref(), context).await;
    }
    let reader = open(context).await?;
    let output = &context.output;
    let part = args.item.is_some()
        || args.before.contains('#')
        || args.after.as_ref().is_some_and(|name| name.contains('#'));
    let usual = if part || !output.is_text() {
        SENTENCES
    } else {
        0
    };
    let (left, right) = match args.after {
        Some(after) => (Some(args.before), after),
        None => (None, args.before),
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
    for pair in &view.pairs {
        if all || pair.outcome != DiffStatus::Unchanged || pair.renamed || pair.moved {
            section(pair, &divided, output);
        }
    }
    view.notes.iter().for_each(|note| output.note(&clean(note)));
    if !all && view.counts.unchanged > 0 {
        output.note(&output.dim(
            "unchanged sections are hidden; show them with --all, sentences with --sentences 3",
        ));
    }
}

fn side(side: &ComparedSide, output: &Output) -> String {
    let identity = clean(&identity(&side.document).join(" · "));
    format!("{}  {identity}", output.bold(&clean(&side.locator)))
}

// `62 % of words changed · 55 modified · 14 added · 6 removed · 10 unchanged`.
fn summary_line(view: &Comparison) -> String {
    let pairs = &view.counts;
    let changed = percent(view.changed).map(|share| format!("{share} of words changed"));
    let counts = counts([
        (pairs.modified as u64, "modified"),
        (pairs.added as u64, "added"),
        (pairs.removed as u64, "removed"),
        (pairs.unchanged as u64, "unchanged"),
        (pairs.unknown as u64, "without text"),
        (pairs.renamed as u64, "renamed"),
        (pairs.moved as u64, "moved"),
    ]);
    let parts: Vec<String> = changed.into_iter().chain(counts).collect();
    match parts.is_empty() {
        true => "no sections".into(),
        false => parts.join(" · "),
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
        let TextChurn {
            left_words,
            right_words,
            ..
        } = item.churn;
        let words = format!(
            "{} → {} words",
            thousands(left_words),
            thousands(right_words)
        );
        let changed = match (&item.left, &item.right) {
            (None, _) => "added".into(),
            (_, None) => "removed".into(),
            _ => percent(item.churn).map_or_else(String::new, |share| format!("{share} changed")),
        };
        let section = &existing_side.section;
        let name = existing_side.item.as_ref().unwrap_or(&section.section_id);
        table.row([name, &section.title, &words, &changed]);
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
    let section = &existing_side.section;
    let line = format!(
        "{} {indent}{}  {}  {}",
        outcome_sign(pair.outcome),
        clean(&section.locator),
        short_title(&section.title),
        pages_or_lines(pair)
    );
    let line = match pair.outcome {
        DiffStatus::Added => output.green(&line),
        DiffStatus::Removed => output.red(&line),
        _ => line,
    };
    let own = divided.contains(section.structure.as_str());
    output.line(&format!("{line}{}", output.dim(&pair_remarks(pair, own))));
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
    let place = page_or_line(sentence.page, sentence.line);
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

// `  62 % alike · was #0053 “NOTE 10. RESTRUCTURING” · moved`. `own`: only the own text is compared.
fn pair_remarks(pair: &SectionPair, own: bool) -> String {
    let mut parts = Vec::new();
    if let (DiffStatus::Modified, Some(similarity)) = (pair.outcome, pair.similarity) {
        let share = (similarity * 100.0).round().min(99.0);
        let own = if own { "own text " } else { "" };
        parts.push(format!("{own}{share:.0} % alike"));
    }
    if let (true, Some(left)) = (pair.renamed, &pair.left) {
        parts.push(format!("was “{}”", short_title(&left.section.title)));
    }
    if let (true, Some(left)) = (pair.moved, &pair.left) {
        parts.push(format!("moved from {}", clean(&left.section.locator)));
    }
    if let Some(place) = &pair.stands_in {
        parts.push(format!("its text is now in {}", clean(place)));
    }
    remarks(&parts)
}

fn section_range(side: &PairedSection) -> String {
    page_or_line_range(side.section.pages, side.section.lines)
}
