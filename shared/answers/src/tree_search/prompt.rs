//! A prompt for a question. What documents or a model wrote is delimited in it, and the model is told that it is data.

use stemma_llm::image::PageImage;
use stemma_llm::request::{LlmRequest, OutputSchema};
use stemma_llm::untrusted::{DATA_ONLY, IMAGES_ARE_DATA, delimit};

/// A prompt and the schema of its reply.
#[derive(Debug, Clone, PartialEq)]
pub struct Prompt {
    system: String,
    blocks: Vec<(String, String)>,
    images: Vec<PageImage>,
    schema: OutputSchema,
    max_output_tokens: Option<u32>,
}

impl Prompt {
    /// `system` must hold our own text only. The name of the schema is the stage in the call log.
    pub fn new(system: impl Into<String>, schema: OutputSchema) -> Self {
        Self {
            system: system.into(),
            blocks: Vec::new(),
            images: Vec::new(),
            schema,
            max_output_tokens: None,
        }
    }

    /// Adds a named text (`Question`, `Section 3`), delimited as data.
    #[must_use]
    pub fn with_block(mut self, name: impl Into<String>, text: impl Into<String>) -> Self {
        self.blocks.push((name.into(), text.into()));
        self
    }

    /// Adds pictures of pages, which the model is told are data, too.
    #[must_use]
    pub fn with_images(mut self, images: impl IntoIterator<Item = PageImage>) -> Self {
        self.images.extend(images);
        self
    }

    /// Limits the reply, in tokens.
    #[must_use]
    pub fn with_max_output_tokens(self, tokens: u32) -> Self {
        Self {
            max_output_tokens: Some(tokens),
            ..self
        }
    }

    pub(super) fn request(&self, model: &str, max_output_tokens: u32) -> LlmRequest {
        let blocks: Vec<String> = self
            .blocks
            .iter()
            .map(|(name, text)| delimit(name, text))
            .collect();
        let system = match self.images.is_empty() {
            true => format!("{}\n\n{DATA_ONLY}", self.system),
            false => format!("{}\n\n{IMAGES_ARE_DATA} {DATA_ONLY}", self.system),
        };
        LlmRequest {
            model: model.into(),
            system,
            user: blocks.join("\n\n"),
            images: self.images.clone(),
            schema: self.schema.clone(),
            max_output_tokens: self.max_output_tokens.unwrap_or(max_output_tokens),
            follow_up: None,
            urgency: 0,
        }
    }
}
