//! `stemma diff --trees`: what other rules, or a person, changed in trees.

use stemma_archive::{
    Archive, DocumentTrees, SectionChange, TreeChangeCounts, TreeComparison, TreePlace,
};
use stemma_boot::location::Location;
use stemma_boot::store::Store;
use stemma_store::Env;

use crate::commands::format::word;
use crate::commands::open::open;
use crate::context::Context;
use crate::error::{CommandError, Exit};
use crate::output::{Output, clean};
use crate::table::counted;

const TITLE_COLUMNS: usize = 60;

/// Compares two stores, two versions of a document (`DOC@3`), or a document with its previous version.
pub async fn run(one: &str, other: Option<&str>, context: &Context) -> Result<Exit, CommandError> {
    let comparison = match (document_version(one), other.map(document_version)) {
        (Some((document, old)), Some(Some((same, new)))) => {
            if document != same {
                return Err(operand_error("the two versions are of different documents"));
            }
            let reader = open(context).await?;
            reader
                .compare_versions(document, Some(old), Some(new))
                .await?
        }
        (Some((document, old)), None) => {
            let reader = open(context).await?;
            reader.compare_versions(document, Some(old), None).await?
        }
        (None, None) => {
            open(context)
                .await?
                .compare_versions(one, None, None)
                .await?
        }
        (None, Some(None)) => {
            let old = open_store(one, context).await?;
            let new = open_store(other.unwrap_or_default(), context).await?;
            old.compare_trees(&new).await?
        }
        _ => return Err(operand_error("a store cannot be compared with a version")),
    };
    let output = &context.output;
    output.print(&comparison, &comparison.documents, || {
        show(&comparison, output);
    });
    Ok(Exit::nothing_if(comparison.documents.is_empty()))
}

fn operand_error(message: &str) -> CommandError {
    CommandError::new("usage.trees", message)
        .with_next("give two stores, two versions of one document (DOC@3 DOC@4), or one document")
}

// `3M_2022_10K@3`.
fn document_version(text: &str) -> Option<(&str, u64)> {
    let (document, seq) = text.rsplit_once('@')?;
    let seq = seq.parse().ok()?;
    (!document.is_empty()).then_some((document, seq))
}

async fn open_store(text: &str, context: &Context) -> Result<Archive, CommandError> {
    let location: Location = text
        .parse()
        .map_err(|error| operand_error(&format!("{error}")))?;
    let store = Store::open(&location, &context.config()?.servers).await?;
    Ok(Archive::open(&Env::system(), store.blobs, context.collection.clone()).await?)
}

fn show(comparison: &TreeComparison, output: &Output) {
    for document in comparison
        .documents
        .iter()
        .filter(|document| has_changed(document))
    {
        show_document(document, output);
        output.line("");
    }
    for (labels, sign) in [(&comparison.only_old, "-"), (&comparison.only_new, "+")] {
        for label in labels {
            output.line(&format!("{sign} {} (document)", clean(label)));
        }
    }
    let counts = &comparison.summary;
    let mut parts = vec![
        counted(comparison.documents.len(), "document"),
        format!("{} changed", counts.documents_changed),
    ];
    parts.extend(change_counts(counts));
    parts.extend(mean_doubt(&comparison.documents));
    output.line(&parts.join(" · "));
}

fn has_changed(document: &DocumentTrees) -> bool {
    document.counts.documents_changed > 0
        || document.error.is_some()
        || document.old.doubt != document.new.doubt
        || document.old.method != document.new.method
}

fn show_document(document: &DocumentTrees, output: &Output) {
    let DocumentTrees { old, new, .. } = document;
    let mut parts = vec![format!("version {} → {}", old.version, new.version)];
    if old.method == new.method {
        parts.push(word(&new.method));
    } else {
        parts.push(format!("{} → {}", word(&old.method), word(&new.method)));
    }
    if let (Some(old), Some(new)) = (old.doubt, new.doubt) {
        parts.push(format!("doubt {old:.2} → {new:.2}"));
    }
    parts.extend(change_counts(&document.counts));
    output.line(&format!(
        "{}  {}",
        output.bold(&clean(&document.document)),
        parts.join(" · ")
    ));
    if let Some(error) = &document.error {
        output.note(&clean(error));
    }
    for change in &document.sections {
        show_section(change, output);
    }
}

fn change_counts(counts: &TreeChangeCounts) -> Vec<String> {
    [
        (counts.added, "added"),
        (counts.removed, "removed"),
        (counts.retitled, "retitled"),
        (counts.moved, "moved"),
        (counts.relevelled, "re-levelled"),
    ]
    .into_iter()
    .filter(|(count, _)| *count > 0)
    .map(|(count, what)| format!("{count} {what}"))
    .collect()
}

// Over the documents whose doubt is known on both sides.
fn mean_doubt(documents: &[DocumentTrees]) -> Option<String> {
    let known: Vec<(f64, f64)> = documents
        .iter()
        .filter_map(|document| document.old.doubt.zip(document.new.doubt))
        .collect();
    if known.is_empty() {
        return None;
    }
    let count = known.len() as f64;
    let old: f64 = known.iter().map(|(old, _)| old).sum();
    let new: f64 = known.iter().map(|(_, new)| new).sum();
    Some(format!(
        "mean doubt {:.2} → {:.2}",
        old / count,
        new / count
    ))
}

// `~ p 12 → 13    Liquidity  was “Cash” · level 2 → 3`.
fn show_section(change: &SectionChange, output: &Output) {
    let (sign, place) = match (&change.old, &change.new) {
        (None, Some(new)) => ("+", new),
        (Some(old), None) => ("-", old),
        (Some(_), Some(new)) => ("~", new),
        (None, None) => return,
    };
    let mut range = start(place);
    let mut remarks = Vec::new();
    if let (Some(old), Some(new)) = (&change.old, &change.new) {
        if change.moved {
            range = format!("{} → {}", start(old), start(new));
        }
        if change.retitled {
            remarks.push(format!("was “{}”", title(old)));
        }
        if change.relevelled {
            remarks.push(format!("level {} → {}", old.level, new.level));
        }
    }
    let indent = "  ".repeat(place.level.saturating_sub(1).min(12));
    let line = format!("{sign} {range:<8} {indent}{}", title(place));
    let line = match sign {
        "+" => output.green(&line),
        "-" => output.red(&line),
        _ => line,
    };
    let remarks = if remarks.is_empty() {
        String::new()
    } else {
        format!("  {}", remarks.join(" · "))
    };
    output.line(&format!("{line}{}", output.dim(&remarks)));
}

fn start(place: &TreePlace) -> String {
    match place.page {
        Some(page) => format!("p {page}"),
        None => format!("line {}", place.line),
    }
}

fn title(place: &TreePlace) -> String {
    clean(&place.title).chars().take(TITLE_COLUMNS).collect()
}
