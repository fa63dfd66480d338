//! `transcribe`: a vision model reads a page that text recognition is unsure of.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use stemma_document::{Digest, PageNo};
use stemma_engine::queue::Lane;
use stemma_engine::stage::{Stage, StageOutput, StageResult};
use stemma_extract::{ImageColor, ImageRequest, ImageScale, PageRegion, Task};
use stemma_llm::image::{PageImage, image_tokens};
use stemma_llm::request::{LlmRequest, OutputSchema};
use stemma_llm::untrusted::{DATA_ONLY, IMAGES_ARE_DATA};
use stemma_store::{Failure, TaskKeyBuilder};

use super::codec::to_json;
use super::paginate::{extract, extract_job};
use super::recognize::{RecognizeOutcome, original};
use crate::llm::{ask, client_for};
use crate::settings::RunSettings;
use crate::versions::document_version;
use crate::{FilingFlow, FilingTask};

// A page where more than one in ten words, or numbers, is in doubt is worse than the degraded pages of `tests/bench/run ocr`, of whose
// numbers nine in ten are sure.
const UNSURE: f64 = 0.1;
// A dense page of tables has 3,000 tokens.
const MAX_REPLY_TOKENS: u32 = 6_000;
// The densest pages have a third of it.
const MAX_WORDS: usize = 5_000;

const INSTRUCTIONS: &str = "Transcribe the page of the image: every line of print and handwriting, from top to bottom, as it stands. A row of a table is \
     one line. Copy words and figures character by character: correct nothing, translate nothing, compute nothing, explain \
     nothing. Leave out what you cannot read. An empty list if the page has no text.";
const QUESTION: &str = "The image shows the page.";

/// Key: the file, the page, what text recognition read there, the model and the question.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Transcribe {
    /// As in [`Paginate`](super::Paginate).
    pub(crate) source: Digest,
    pub(crate) page: PageNo,
    /// Digest of the page that text recognition read.
    pub(crate) read: Digest,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct TranscribeOutcome {
    /// Digest of the blob `lines`.
    pub(crate) digest: Digest,
}

/// What the model says about a page.
#[derive(Deserialize)]
struct Transcript {
    lines: Vec<String>,
}

impl Transcribe {
    /// The task for a page that text recognition read. `None` without a vision model, or if text recognition is sure of the page.
    pub(crate) fn for_page(
        settings: &RunSettings,
        source: Digest,
        page: PageNo,
        read: &RecognizeOutcome,
    ) -> Option<Self> {
        let is_unsure = read.is_unread
            || is_too_doubtful(read.doubtful, read.words)
            || is_too_doubtful(read.doubtful_numbers, read.numbers);
        settings.vision.as_ref().filter(|_| is_unsure)?;
        Some(Self {
            source,
            page,
            read: read.digest,
        })
    }

    // Gray, which always fits into the bytes of an image in a prompt.
    async fn draw(&self, task: &FilingTask<'_>) -> Result<Bytes, Failure> {
        let version = document_version(&task.header().await?)?;
        let bytes = original(task, &version, self.source).await?;
        let request = ImageRequest {
            page: self.page,
            scale: ImageScale::LongSide(PageImage::MAX_SIDE),
            region: PageRegion::WHOLE,
            color: ImageColor::Gray,
        };
        let job = extract_job(task, version.name, bytes, Task::Image(request));
        extract(task, job).await
    }
}

fn is_too_doubtful(part: u32, all: u32) -> bool {
    f64::from(part) > UNSURE * f64::from(all)
}

#[async_trait]
impl Stage for Transcribe {
    type Work = FilingFlow;
    type Outcome = TranscribeOutcome;

    const NAME: &'static str = "transcribe";
    const REVISION: u32 = 1;
    const LANE: Lane = Lane::Llm;
    // Includes the wait for a free child, for a permit, and the call.
    const DEADLINE: Duration = Duration::from_secs(900);

    fn identity(&self, settings: &RunSettings, identity: &mut TaskKeyBuilder) {
        identity.bytes(self.source.as_bytes());
        identity.number(self.page.get().into());
        identity.bytes(self.read.as_bytes());
        let vision = settings.vision.as_ref();
        identity.text(vision.map_or("", |vision| &vision.model));
        identity.text(&system_prompt());
        identity.text(&properties().to_string());
        identity.number(MAX_REPLY_TOKENS.into());
    }

    async fn run(&self, task: &FilingTask<'_>) -> StageResult<TranscribeOutcome> {
        let vision = task.settings.vision.as_ref();
        let model = vision.map_or("", |vision| &vision.model);
        let client = client_for(task, model)?;
        let png = self.draw(task).await?;
        let image = PageImage::from_png(png)
            .map_err(|error| Failure::permanent("image.not_drawable", error.to_string()))?;
        let answer = ask(task, client, &request(model, vec![image]), checked_lines).await?;
        let blob = to_json(&answer.value)?;
        let digest = Digest::from_content(&blob);
        let output = StageOutput::new(TranscribeOutcome { digest }, vec![("lines", blob)]);
        Ok(output.with_records(answer.records))
    }
}

fn request(model: &str, images: Vec<PageImage>) -> LlmRequest {
    LlmRequest {
        model: model.into(),
        system: system_prompt(),
        user: QUESTION.into(),
        images,
        schema: OutputSchema::strict(Transcribe::NAME, &properties()),
        max_output_tokens: MAX_REPLY_TOKENS,
        follow_up: None,
        // The first question about a document.
        urgency: 0,
    }
}

// Size of a page in letter format as it is drawn.
const PAGE_PIXELS: (u32, u32) = (1_212, PageImage::MAX_SIDE);
// A page of a filing has some 700 tokens of text, and a table more.
const TYPICAL_REPLY_TOKENS: u32 = 1_000;

/// Tokens of the prompt and of the reply for a typical page.
pub(crate) fn page_use() -> (u32, u32) {
    let (width, height) = PAGE_PIXELS;
    let prompt = request("", Vec::new()).prompt_tokens() + image_tokens(width, height);
    (prompt, TYPICAL_REPLY_TOKENS)
}

fn system_prompt() -> String {
    format!("{INSTRUCTIONS}\n\n{IMAGES_ARE_DATA} {DATA_ONLY}")
}

fn properties() -> Value {
    json!({ "lines": { "type": "array", "items": { "type": "string" } } })
}

fn checked_lines(transcript: Transcript) -> Result<Vec<String>, String> {
    let lines = transcript.lines;
    let words: usize = lines
        .iter()
        .map(|line| line.split_whitespace().count())
        .sum();
    match words.max(lines.len()) {
        0..=MAX_WORDS => Ok(lines),
        _ => Err(format!(
            "it has more than {MAX_WORDS} words, which no page has"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::VisionSettings;

    fn read(words: [u32; 2], numbers: [u32; 2]) -> RecognizeOutcome {
        RecognizeOutcome {
            digest: Digest::from_content(b""),
            words: words[1],
            doubtful: words[0],
            numbers: numbers[1],
            doubtful_numbers: numbers[0],
            is_unread: false,
        }
    }

    #[test]
    fn pages_are_unsure_where_more_than_a_tenth_is_in_doubt() {
        let seeing = RunSettings {
            vision: Some(VisionSettings { model: "v".into() }),
            ..RunSettings::default()
        };
        let source = Digest::from_content(b"file");
        let asks = |settings: &RunSettings, read: &RecognizeOutcome| {
            Transcribe::for_page(settings, source, PageNo::FIRST, read).is_some()
        };
        for (words, numbers, expected) in [
            ([0, 0], [0, 0], false),
            ([0, 100], [0, 0], false),
            ([10, 100], [0, 5], false),
            ([11, 100], [0, 5], true),
            ([1, 100], [1, 10], false),
            ([2, 100], [2, 10], true),
        ] {
            let read = read(words, numbers);
            assert_eq!(asks(&seeing, &read), expected, "{words:?} {numbers:?}");
            assert!(!asks(&RunSettings::default(), &read));
        }
        let handwriting = RecognizeOutcome {
            is_unread: true,
            ..read([0, 0], [0, 0])
        };
        assert!(asks(&seeing, &handwriting));
    }

    #[test]
    fn the_model_the_page_and_its_reading_are_parts_of_the_key() {
        let settings = |model: &str| RunSettings {
            vision: Some(VisionSettings {
                model: model.into(),
            }),
            ..RunSettings::default()
        };
        let stage = Transcribe {
            source: Digest::from_content(b"file"),
            page: PageNo::FIRST,
            read: Digest::from_content(b"read"),
        };
        let key = stage.key(&settings("v"));
        assert_ne!(stage.key(&settings("w")), key);
        let others = [
            Transcribe {
                source: Digest::from_content(b"other"),
                ..stage.clone()
            },
            Transcribe {
                page: PageNo::from_index(1),
                ..stage.clone()
            },
            Transcribe {
                read: Digest::from_content(b"other"),
                ..stage
            },
        ];
        assert!(others.iter().all(|other| other.key(&settings("v")) != key));
    }

    #[test]
    fn transcripts_are_bounded() {
        let lines = |count: usize| {
            checked_lines(Transcript {
                lines: vec!["word ".repeat(count)],
            })
        };
        assert!(lines(MAX_WORDS).is_ok());
        assert!(lines(MAX_WORDS + 1).unwrap_err().contains("words"));
        let empty = Transcript {
            lines: vec![String::new(); MAX_WORDS + 1],
        };
        assert!(checked_lines(empty).is_err());
    }
}
