//! `stemma search --batch`: answers a file of questions with pages.

use std::io::Read;
use std::path::Path;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use stemma_archive::{Archive, SearchRequest, TreeSearchReport, is_store_error};
use stemma_document::rounding::rounded;
use stemma_retrieval::AppliedFilter;
use stemma_retrieval::search::MissingTerm;

use crate::context::Context;
use crate::error::{CommandError, Exit};

// Sections that pages are taken from.
const MAX_SECTIONS: usize = 100;

// A line of a batch.
#[derive(Debug, Deserialize)]
struct BatchQuestion {
    id: serde_json::Value,
    query: String,
    // The document, where it is known.
    #[serde(default)]
    doc: Option<String>,
}

// The output for a question.
#[derive(Debug, Serialize)]
struct BatchAnswer {
    id: serde_json::Value,
    // Document and physical page, best first.
    ranked_pages: Vec<(String, u32)>,
    latency_ms: f64,
    // As in the JSON of a search.
    routed: Vec<AppliedFilter>,
    missing_terms: Option<Vec<MissingTerm>>,
    evidence: Option<f64>,
    low_evidence: Option<bool>,
    // With a model: the sections, best first, with their scores.
    #[serde(skip_serializing_if = "Option::is_none")]
    sections: Option<Vec<(String, f64)>>,
    // How the model chose them.
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<TreeSearchReport>,
}

// The output for a question that failed.
#[derive(Debug, Serialize)]
struct BatchFailure {
    // Null if the line could not be read.
    id: serde_json::Value,
    ranked_pages: Vec<(String, u32)>,
    error: BatchFailureReason,
}

#[derive(Debug, Serialize)]
struct BatchFailureReason {
    code: String,
    message: String,
    // In the file, from 1.
    line: usize,
}

/// Prints one line for each line of `file`. `template` has the options of all questions. A question that fails does not
/// stop the others; an unreadable store stops the batch.
pub(super) async fn run(
    file: &Path,
    reader: &Archive,
    template: &SearchRequest,
    context: &Context,
) -> Result<Exit, CommandError> {
    let mut failed = 0;
    let output = &context.output;
    let text = read(file)?;
    let lines = text
        .lines()
        .zip(1..)
        .filter(|(line, _)| !line.trim().is_empty());
    for (text, line) in lines {
        let (id, answered) = match parse_line(text) {
            Ok(input) => (input.id.clone(), answer_line(input, reader, template).await),
            Err(error) => (serde_json::Value::Null, Err(error)),
        };
        let printed = match answered {
            Ok(answered) => serde_json::to_string(&answered),
            Err(error) if is_store_error(&error.code) => return Err(error),
            Err(CommandError { code, message, .. }) => {
                failed += 1;
                output.note(&format!("line {line} of {}: {message}", file.display()));
                let error = BatchFailureReason {
                    code,
                    message,
                    line,
                };
                // No pages, so that scripts which count pages also count failed lines.
                let ranked_pages = Vec::new();
                serde_json::to_string(&BatchFailure {
                    id,
                    ranked_pages,
                    error,
                })
            }
        };
        output.line(&printed.unwrap_or_default());
    }
    Ok(match failed {
        0 => Exit::Done,
        _ => Exit::SomeFailed,
    })
}

fn parse_line(line: &str) -> Result<BatchQuestion, CommandError> {
    serde_json::from_str(line).map_err(|error| {
        let message = format!("not a valid question: {error}");
        CommandError::new("search.batch_invalid", message)
    })
}

async fn answer_line(
    input: BatchQuestion,
    reader: &Archive,
    template: &SearchRequest,
) -> Result<BatchAnswer, CommandError> {
    let mut request = SearchRequest {
        query: input.query,
        limit: Some(MAX_SECTIONS),
        ..template.clone()
    };
    if let Some(doc) = input.doc {
        request.scopes = vec![doc];
    }
    let started = Instant::now();
    let view = reader.search(&request).await?;
    let latency_ms = rounded(started.elapsed().as_secs_f64() * 1e3, 2);
    let hits = view.hits.iter().map(|hit| (hit.locator.clone(), hit.score));
    let sections = view.reasoning.is_some().then(|| hits.collect());
    let ranked_pages = stemma_evaluation::retrieval::ranked_pages(&view);
    Ok(BatchAnswer {
        id: input.id,
        ranked_pages,
        latency_ms,
        routed: view.routed,
        missing_terms: view.missing_terms,
        evidence: view.evidence,
        low_evidence: view.low_evidence,
        sections,
        reasoning: view.reasoning,
    })
}

fn read(file: &Path) -> Result<String, CommandError> {
    let text = if file == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(file)
    };
    text.map_err(|error| {
        let message = format!("{}: {error}", file.display());
        CommandError::new("search.batch_invalid", message)
            .with_next("stemma search --batch questions.jsonl")
    })
}
