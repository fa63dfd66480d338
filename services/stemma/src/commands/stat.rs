//! `stemma stat`: shows facts about a document or section.

use stemma_archive::{SectionDetails, StatResponse};
use stemma_document::FactSource;

use crate::commands::format::{length, page_or_line_range, state_word, title_line, word};
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
    let output = &context.output;
    output.show(&view, || match &view.section {
        Some(section) => show_section(section, output),
        None => show(&view, output),
    });
    Ok(Exit::Done)
}

fn field(output: &Output, name: &str, value: &str) {
    if !value.is_empty() {
        let name = output.dim(&format!("{name:<20}"));
        output.line(&format!("{name}{}", clean(value)));
    }
}

fn show(view: &StatResponse, output: &Output) {
    let document = &view.document;
    output.line(&title_line(document, output));
    field(output, "locator", &document.locator);
    field(output, "id", &document.doc_id);
    field(output, "path", &document.path);
    let mut state = format!(
        "{}, version {}",
        state_word(&document.state),
        document.version
    );
    if let Some(newer) = view.newer_version {
        state += &format!("; version {newer} has no tree yet");
    }
    field(output, "state", &state);
    let megabytes = view.size_bytes as f64 / 1e6;
    let size = format!("{}, {megabytes:.1} MB", length(document));
    field(output, "size", size.trim_start_matches(", "));
    if let (Some(sections), Some(tokens)) = (document.sections, document.tokens) {
        let sections = thousands(sections);
        field(
            output,
            "tree",
            &format!("{sections} sections, {} tokens", thousands(tokens)),
        );
    }
    if let Some(provenance) = &view.provenance {
        let method = word(&provenance.method);
        let model = match provenance.model.as_str() {
            OFFLINE => "no model".to_owned(),
            model => format!("model {model}"),
        };
        field(output, "method", &format!("{method}, {model}"));
        if let Some(doubt) = &provenance.doubt {
            let mut parts = vec![format!("{:.2}", doubt.score)];
            parts.extend(doubt.reasons.iter().map(super::tree::doubt_line));
            field(output, "doubt", &parts.join("; "));
        }
    }
    let recognition = view.recognition.as_deref().unwrap_or_default();
    field(output, "ocr", recognition);
    field(output, "gaps", &document.gaps.join(", "));
    for (name, fact) in document.facts.iter().flat_map(|facts| facts.entries()) {
        let mut value = fact.value.clone();
        if let Some(page) = fact.page {
            value += &format!("  (p {page})");
        }
        if fact.source != FactSource::Text {
            value += &format!("  ({})", word(&fact.source));
        }
        field(output, name, &value);
    }
    let description = document.description.as_deref();
    field(output, "description", description.unwrap_or_default());
    if let Some(failure) = &document.failure {
        let failure = format!("{}: {}", failure.code, failure.message);
        field(output, "failure", &failure);
    }
    field(output, "source", &view.uri);
    items::table(&view.items, output);
}

fn show_section(section: &SectionDetails, output: &Output) {
    let info = &section.section;
    output.line(&output.bold(&clean(&section.path.join(" › "))));
    field(output, "locator", &info.locator);
    field(output, "place", &page_or_line_range(info.pages, info.lines));
    let tokens = info.tokens;
    let tokens = format!("{} own, {tokens} with subsections", section.own_tokens);
    field(output, "tokens", &tokens);
    field(output, "sub-sections", &section.children.to_string());
    let ocr = info.ocr.map(|ocr| ocr.to_string());
    field(output, "ocr", ocr.as_deref().unwrap_or_default());
    let verified = match info.verified {
        true => "title verified",
        false => "title not found there",
    };
    let evidence = format!("{}, {verified}", word(&section.evidence_source));
    field(output, "evidence", &evidence);
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
        let to = reference.to.as_deref().unwrap_or("not in this document");
        field(output, "refers to", &format!("{} → {to}", reference.text));
    }
}
