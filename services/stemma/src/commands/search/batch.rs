//! Questions by the file, answered with pages.

use std::io::Read;
use std::path::Path;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use stemma_query::{Question, Reader, ReasoningView};

use crate::context::{CommandError, Context, Exit};

/// Sections that pages are taken from.
const SECTIONS: usize = 100;

/// A line of a batch.
#[derive(Debug, Deserialize)]
struct Asked {
    id: serde_json::Value,
    query: String,
    /// The document, where it is known.
    #[serde(default)]
    doc: Option<String>,
}

/// The answer to a line.
#[derive(Debug, Serialize)]
struct Answered {
    id: serde_json::Value,
    /// Document and physical page, best first.
    ranked_pages: Vec<(String, u32)>,
    latency_ms: f64,
    /// Where a model was to be asked: the sections, best first, with their scores.
    #[serde(skip_serializing_if = "Option::is_none")]
    sections: Option<Vec<(String, f64)>>,
    /// How they were come to.
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<ReasoningView>,
}

/// Answers each line with a line. What is asked in `template` beside the question holds for all of them.
pub(super) async fn run(
    file: &Path,
    reader: &Reader,
    template: &Question,
    context: &Context,
) -> Result<Exit, CommandError> {
    for (at, line) in read(file)?.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let asked: Asked = serde_json::from_str(line).map_err(|error| {
            let message = format!("line {} of {} is no question: {error}", at + 1, file.display());
            CommandError::new("search.batch", message)
                .with_next(r#"write {"id": 1, "query": "capital expenditure", "doc": "3M_2022_10K"}"#)
        })?;
        let scopes = asked.doc.map_or_else(|| template.scopes.clone(), |doc| vec![doc]);
        let question = Question { text: asked.query, scopes, limit: SECTIONS, ..template.clone() };
        let started = Instant::now();
        let (view, _) = reader.ask(reader, &question).await?;
        let latency_ms = (started.elapsed().as_secs_f64() * 1e5).round() / 100.0;
        let sections = || view.hits.iter().map(|hit| (hit.locator.clone(), hit.score)).collect();
        let sections = view.reasoning.is_some().then(sections);
        let ranked_pages = view.ranked_pages();
        let answered = Answered { id: asked.id, ranked_pages, latency_ms, sections, reasoning: view.reasoning };
        context.output.line(&serde_json::to_string(&answered).unwrap_or_default());
    }
    Ok(Exit::Done)
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
        CommandError::new("search.batch", message).with_next("stemma search --batch questions.jsonl")
    })
}
