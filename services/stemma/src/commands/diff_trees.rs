//! `stemma diff --trees`: what other rules, or a person, changed in trees.

use stemma_archive::{
    Archive, DocumentTrees, SectionChange, TreeChangeCounts, TreeComparison, TreePlace,
};
use stemma_boot::location::Location;
use stemma_boot::store::Store;

use crate::commands::format::{counts, page_or_line, remarks, short_title, word};
use crate::commands::open::open;
use crate::context::Context;
use crate::error::{CommandError, Exit};
use crate::output::{Output, clean};
use crate::table::counted;

/// Compares two stores, two versions of a document (`DOC@3`), or a document with its previous version.
pub async fn run(
    before: &str,
    after: Option<&str>,
    context: &Context,
) -> Result<Exit, CommandError> {
    let (document, old, new) = match (document_version(before), after.map(document_version)) {
        (Some((document, old)), Some(Some((same, new)))) if document == same => {
            (document, Some(old), Some(new))
        }
        (Some(_), Some(Some(_))) => {
            return Err(operand_error("the two versions are of different documents"));
        }
        (Some((document, old)), None) => (document, Some(old), None),
        (None, None) => (before, None, None),
        (None, Some(None)) => {
            let old = open_store(before, context).await?;
            let new = open_store(after.unwrap_or_default(), context).await?;
            return Ok(print(&old.compare_trees(&new).await?, &context.output));
        }
        _ => return Err(operand_error("a store cannot be compared with a version")),
    };
    let reader = open(context).await?;
    let comparison = reader.compare_versions(document, old, new).await?;
    Ok(print(&comparison, &context.output))
}

fn print(comparison: &TreeComparison, output: &Output) -> Exit {
    output.print(comparison, &comparison.documents, || {
        show(comparison, output);
    });
    Exit::nothing_if(comparison.documents.is_empty())
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
    context.archive(&store.blobs).await
}

fn show(comparison: &TreeComparison, output: &Output) {
    for document in &comparison.documents {
        if has_changed(document) {
            show_document(document, output);
            output.line("");
        }
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
    let name = output.bold(&clean(&document.document));
    output.line(&format!("{name}  {}", parts.join(" · ")));
    if let Some(error) = &document.error {
        output.note(&clean(error));
    }
    for change in &document.sections {
        show_section(change, output);
    }
}

fn change_counts(changes: &TreeChangeCounts) -> impl Iterator<Item = String> + use<> {
    counts([
        (changes.added as u64, "added"),
        (changes.removed as u64, "removed"),
        (changes.retitled as u64, "retitled"),
        (changes.moved as u64, "moved"),
        (changes.relevelled as u64, "re-levelled"),
    ])
}

// Over the documents whose doubt is known on both sides.
fn mean_doubt(documents: &[DocumentTrees]) -> Option<String> {
    let (old, new): (Vec<f64>, Vec<f64>) = documents
        .iter()
        .filter_map(|document| document.old.doubt.zip(document.new.doubt))
        .unzip();
    let [old, new] = [old, new].map(|doubts| doubts.iter().sum::<f64>() / doubts.len() as f64);
    (!old.is_nan()).then(|| format!("mean doubt {old:.2} → {new:.2}"))
}

// `~ p 12 → 13    Liquidity  was “Cash” · level 2 → 3`.
fn show_section(change: &SectionChange, output: &Output) {
    let (sign, place) = match (&change.old, &change.new) {
        (None, Some(new)) => ("+", new),
        (Some(old), None) => ("-", old),
        (Some(_), Some(new)) => ("~", new),
        (None, None) => return,
    };
    let start = |place: &TreePlace| page_or_line(place.page, place.line);
    let mut range = start(place);
    let mut parts = Vec::new();
    if let (Some(old), Some(new)) = (&change.old, &change.new) {
        if change.moved {
            range = format!("{} → {}", start(old), start(new));
        }
        if change.retitled {
            parts.push(format!("was “{}”", short_title(&old.title)));
        }
        if change.relevelled {
            parts.push(format!("level {} → {}", old.level, new.level));
        }
    }
    let indent = "  ".repeat(place.level.saturating_sub(1).min(12));
    let line = format!("{sign} {range:<8} {indent}{}", short_title(&place.title));
    let line = match sign {
        "+" => output.green(&line),
        "-" => output.red(&line),
        _ => line,
    };
    output.line(&format!("{line}{}", output.dim(&remarks(&parts))));
}
