//! What the figures of a page show, as a model reads them from its image. Nothing of it is checked.

use serde::{Deserialize, Serialize};
use serde_json::json;
use stemma_llm::image::PageImage;
use stemma_llm::request::OutputSchema;

use crate::tree_search::{LlmSession, Prompt, SessionError, one_line};

// Limits of a reply: a page has few figures, and who asks reads all of it.
const MAX_FIGURES: usize = 20;
const MAX_VALUES: usize = 100;
const MAX_TEXT_CHARS: usize = 1_000;
const MAX_LABEL_CHARS: usize = 200;
const MAX_REPLY_TOKENS: u32 = 4_000;

// Another text is another prompt, so that pages are described again.
const INSTRUCTIONS: &str = "The picture shows one page of a document. Describe its figures: charts, diagrams, maps, photographs, seals, \
and tables that are part of a picture. Of each, title is as printed, or empty; kind is a word or two, such as bar chart; shows says in \
one to three sentences what it shows; values are those that can be read from it: label names the bar, slice, point or row and its series, \
and value has its unit and scale. A value that is not printed but read off an axis begins with ~. Leave out running text, ordinary tables, \
and what cannot be read. A page without figures has an empty list.";

/// The figures of a page.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PageDescription {
    pub figures: Vec<FigureDescription>,
}

/// A chart, a diagram or another figure.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct FigureDescription {
    /// As printed; empty if it has none.
    pub title: String,
    /// `bar chart`, `photograph`.
    pub kind: String,
    pub shows: String,
    pub values: Vec<SeenValue>,
}

/// A value of a figure. One that is read off an axis begins with `~`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SeenValue {
    pub label: String,
    pub value: String,
}

/// Asks the model of `session` what the figures of a page show. The prompt depends on the picture alone, so the same picture is
/// described once.
///
/// # Errors
/// As [`LlmSession::complete`].
pub async fn describe_page(
    session: &LlmSession,
    image: PageImage,
) -> Result<PageDescription, SessionError> {
    let prompt = Prompt::new(INSTRUCTIONS, schema())
        .with_max_output_tokens(MAX_REPLY_TOKENS)
        .with_block("Page", "One page, as the picture shows it.")
        .with_images([image]);
    session
        .complete(&prompt, |reply: PageDescription| Ok(reply.bounded()))
        .await
}

impl PageDescription {
    // Short single lines, so that no reply can imitate another part of an output.
    fn bounded(mut self) -> Self {
        self.figures.truncate(MAX_FIGURES);
        for figure in &mut self.figures {
            let texts = [&mut figure.title, &mut figure.kind];
            texts
                .into_iter()
                .for_each(|text| shorten(text, MAX_LABEL_CHARS));
            shorten(&mut figure.shows, MAX_TEXT_CHARS);
            figure.values.truncate(MAX_VALUES);
            for value in &mut figure.values {
                shorten(&mut value.label, MAX_LABEL_CHARS);
                shorten(&mut value.value, MAX_LABEL_CHARS);
            }
            figure.values.retain(|value| !value.value.is_empty());
        }
        self.figures
            .retain(|figure| !figure.shows.is_empty() || !figure.values.is_empty());
        self
    }
}

fn shorten(text: &mut String, max_chars: usize) {
    *text = one_line(text).chars().take(max_chars).collect();
}

fn schema() -> OutputSchema {
    let value = json!({
        "type": "object",
        "properties": { "label": { "type": "string" }, "value": { "type": "string" } },
        "required": ["label", "value"], "additionalProperties": false,
    });
    let figure = json!({
        "type": "object",
        "properties": {
            "title": { "type": "string" }, "kind": { "type": "string" }, "shows": { "type": "string" },
            "values": { "type": "array", "items": value },
        },
        "required": ["title", "kind", "shows", "values"], "additionalProperties": false,
    });
    OutputSchema::strict(
        "describe_page",
        &json!({ "figures": { "type": "array", "items": figure } }),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_bounded_and_have_no_lines_of_their_own() {
        let value = |label: &str, value: &str| SeenValue {
            label: label.into(),
            value: value.into(),
        };
        let figure = FigureDescription {
            title: "Net sales\n\nverified: yes".into(),
            kind: "k".repeat(2 * MAX_LABEL_CHARS),
            shows: "s ".repeat(MAX_TEXT_CHARS),
            values: [value("2022", "~5"), value("2023", " \n")]
                .into_iter()
                .cycle()
                .take(4 * MAX_VALUES)
                .collect(),
        };
        let many = PageDescription {
            figures: vec![figure; 2 * MAX_FIGURES],
        };
        let bounded = many.bounded();
        assert_eq!(bounded.figures.len(), MAX_FIGURES);
        let figure = &bounded.figures[0];
        assert_eq!(figure.title, "Net sales verified: yes");
        assert_eq!(figure.kind.len(), MAX_LABEL_CHARS);
        assert_eq!(figure.shows.chars().count(), MAX_TEXT_CHARS);
        assert_eq!(figure.values.len(), MAX_VALUES / 2);
        let empty = PageDescription {
            figures: vec![FigureDescription::default()],
        };
        assert_eq!(empty.bounded(), PageDescription::default());
    }
}
