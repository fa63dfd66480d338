//! `stemma stat`: shows facts about a document or section.

use stemma_archive::{SectionDetails, StatResponse};
use stemma_document::FactSource;

use crate::commands::format::{
    length, page_or_line_range, section_path, state_word, title_line, word,
};
use crate::commands::items;
use crate::commands::open::open;
use crate::context::Context;
use crate::error::{CommandError, Exit};
use crate::output::{Output, clean};
use crate::table::thousands;

// The name of the rules where a tree names its model.
const OFFLINE: &str = "offline";

/// Show facts about a document or one of its sections.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stemma stat 3M_2022_10K            metadata, Items, method of the tree
  stemma stat 3M_2022_10K#item-1A    one Item: summary, pages, references")]
pub struct StatArgs {
    /// A document, section or Item.
    #[arg(value_name = "LOCATOR")]
    locator: String,
}

pub async fn run(args: StatArgs, context: &Context) -> Result<Exit, CommandError> {
    let view = open(context).await?.stat(&args.locator).await?;
    if context.output.is_text() {
        match &view.section {
            Some(section) => show_section(section, &context.output),
            None => show(&view, &context.output),
        }
    } else {
        context.output.json(&view);
    }
    Ok(Exit::Done)
}

fn field(output: &Output, name: &str, value: &str) {
    if !value.is_empty() {
        output.line(&format!(
            "{}{}",
            output.dim(&format!("{name:<20}")),
            clean(value)
        ));
    }
}

fn show(view: &StatResponse, output: &Output) {
    let document = &view.document;
    output.line(&title_line(document, output));
    field(output, "locator", &document.locator);
    field(output, "id", &document.doc_id);
    field(output, "path", &document.path);
    let newer = view
        .newer_version
        .map(|newer| format!("; version {newer} has no tree yet"))
        .unwrap_or_default();
    field(
        output,
        "state",
        &format!(
            "{}, version {}{newer}",
            state_word(&document.state),
            document.version
        ),
    );
    let size = format!(
        "{}, {:.1} MB",
        length(document),
        view.size_bytes as f64 / 1e6
    );
    field(output, "size", size.trim_start_matches(", "));
    if let (Some(sections), Some(tokens)) = (document.sections, document.tokens) {
        let size = format!(
            "{} sections, {} tokens",
            thousands(sections),
            thousands(tokens)
        );
        field(output, "tree", &size);
    }
    if let Some(provenance) = &view.provenance {
        let method = word(&provenance.method);
        let model = match provenance.model.as_str() {
            OFFLINE => "no model".to_owned(),
            model => format!("model {model}"),
        };
        field(output, "method", &format!("{method}, {model}"));
        if let Some(doubt) = &provenance.doubt {
            let reasons = doubt.reasons.iter().map(super::tree::doubt_line);
            let text: Vec<String> = std::iter::once(format!("{:.2}", doubt.score))
                .chain(reasons)
                .collect();
            field(output, "doubt", &text.join("; "));
        }
    }
    let recognition = view.recognition.as_deref().unwrap_or_default();
    field(output, "ocr", recognition);
    field(output, "gaps", &document.gaps.join(", "));
    for (name, fact) in document.facts.iter().flat_map(|facts| facts.entries()) {
        let page = fact
            .page
            .map(|page| format!("  (p {page})"))
            .unwrap_or_default();
        let source = if fact.source == FactSource::Text {
            String::new()
        } else {
            format!("  ({})", word(&fact.source))
        };
        field(output, name, &format!("{}{page}{source}", fact.value));
    }
    field(
        output,
        "description",
        document.description.as_deref().unwrap_or_default(),
    );
    if let Some(failure) = &document.failure {
        field(
            output,
            "failure",
            &format!("{}: {}", failure.code, failure.message),
        );
    }
    field(output, "source", &view.uri);
    items::table(&view.items, output);
}

fn show_section(section: &SectionDetails, output: &Output) {
    output.line(&output.bold(&section_path(&section.path)));
    field(output, "locator", &section.section.locator);
    field(
        output,
        "place",
        &page_or_line_range(section.section.pages, section.section.lines),
    );
    let tokens = format!(
        "{} own, {} with subsections",
        section.own_tokens, section.section.tokens
    );
    field(output, "tokens", &tokens);
    field(output, "sub-sections", &section.children.to_string());
    let ocr = section.section.ocr.map(|ocr| ocr.to_string());
    field(output, "ocr", ocr.as_deref().unwrap_or_default());
    let verified = if section.section.verified {
        "title verified"
    } else {
        "title not found there"
    };
    field(
        output,
        "evidence",
        &format!("{}, {verified}", word(&section.evidence_source)),
    );
    field(
        output,
        "summary",
        section.summary.as_deref().unwrap_or_default(),
    );
    let by = match section.summary_by.as_deref() {
        Some(OFFLINE) => "rules",
        Some(model) => model,
        None => "",
    };
    field(output, "summary by", by);
    for reference in &section.references {
        field(
            output,
            "refers to",
            &format!(
                "{} → {}",
                reference.text,
                reference.to.as_deref().unwrap_or("not in this document")
            ),
        );
    }
}
