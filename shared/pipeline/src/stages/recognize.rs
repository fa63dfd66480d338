//! `recognize`: reads a page that is a picture with text recognition.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use stemma_document::{Digest, DocumentVersion, Extent, PageNo, Recognition, Source, figures};
use stemma_engine::queue::Lane;
use stemma_engine::stage::{Stage, StageOutput, StageResult};
use stemma_extract::{
    EncodedSource, ModelFile, PackageManager, RecognizeRequest, Task, tesseract_advice,
};
use stemma_store::{Failure, TaskKeyBuilder};

use super::paginate::{PaginateOutcome, extract, extract_job};
use crate::settings::{OcrMode, RunSettings};
use crate::versions::document_version;
use crate::{FilingFlow, FilingTask, sources};

// `stemma_ocr::UNREAD`, which this crate does not import.
const UNREAD: &str = "ocr.unread";

/// Key: the identity of the file's bytes, the page, the languages and the model of the second reader, if there is one. So a
/// killed run repeats no page.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Recognize {
    /// As in [`Paginate`](super::Paginate).
    pub(crate) source: Digest,
    pub(crate) page: PageNo,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct RecognizeOutcome {
    /// Digest of the blob `page`: an encoded source of one page.
    pub(crate) digest: Digest,
    pub(crate) words: u32,
    pub(crate) doubtful: u32,
    /// Words with figures, and how many of them are in doubt. Older artifacts do not say.
    #[serde(default)]
    pub(crate) numbers: u32,
    #[serde(default)]
    pub(crate) doubtful_numbers: u32,
    /// Whether no words were found although the page is not blank.
    #[serde(default)]
    pub(crate) is_unread: bool,
}

impl RecognizeOutcome {
    fn new(digest: Digest, source: Source) -> Option<Self> {
        let is_unread = source.metadata.contains_key(UNREAD);
        let page = super::merge_pages::only_page(source)?;
        let recognition = page.recognition()?;
        let words = page.lines.iter().flat_map(|line| {
            line.words
                .iter()
                .map(|word| line.text.get(word.start as usize..word.end as usize))
        });
        let numbers = words
            .zip(&recognition.confidences)
            .filter(|(word, _)| word.is_some_and(figures::has_figure));
        let numbers: Vec<u8> = numbers.map(|(_, confidence)| *confidence).collect();
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        Some(Self {
            digest,
            words: count(recognition.confidences.len()),
            doubtful: count(recognition.doubtful()),
            numbers: count(numbers.len()),
            doubtful_numbers: count(
                numbers
                    .iter()
                    .filter(|confidence| **confidence < Recognition::SURE)
                    .count(),
            ),
            is_unread,
        })
    }
}

#[async_trait]
impl Stage for Recognize {
    type Work = FilingFlow;
    type Outcome = RecognizeOutcome;

    const NAME: &'static str = "recognize";
    // Raised, too, when `shared/ocr` reads other words on the same page.
    const REVISION: u32 = 4;
    const LANE: Lane = Lane::Ocr;
    // Includes the wait for a free child behind the other tasks of the worker.
    const DEADLINE: Duration = Duration::from_secs(600);

    fn identity(&self, settings: &RunSettings, identity: &mut TaskKeyBuilder) {
        identity.bytes(self.source.as_bytes());
        identity.number(self.page.get().into());
        identity.text(&settings.ocr.languages.join("+"));
        identity.text(&serde_json::to_string(&settings.limits).unwrap_or_default());
        if !settings.ocr.second_reader.is_empty() {
            identity.text(&settings.ocr.second_reader);
        }
    }

    async fn run(&self, task: &FilingTask<'_>) -> StageResult<RecognizeOutcome> {
        let program = task.tools.tesseract.clone();
        let program = program.ok_or_else(|| no_engine(task.tools.packages))?;
        let second_reader = second_reader(task)?;
        let version = document_version(&task.header().await?)?;
        let bytes = original(task, &version, self.source).await?;
        let request = RecognizeRequest {
            page: self.page,
            program,
            languages: task.settings.ocr.languages.clone(),
            second_reader,
        };
        let job = extract_job(task, version.name, bytes, Task::Recognize(request));
        let reply = extract(task, job).await?;
        let source = EncodedSource::open(reply.clone()).and_then(EncodedSource::decode);
        let source =
            source.map_err(|error| Failure::transient("extract.reply", error.to_string()))?;
        let outcome = RecognizeOutcome::new(Digest::from_content(&reply), source)
            .ok_or_else(|| Failure::transient("extract.reply", "the reply has no page"))?;
        Ok(StageOutput::new(outcome, vec![("page", reply)]))
    }
}

/// The bytes of a file; each of its pages is a task.
pub(crate) async fn original(
    task: &FilingTask<'_>,
    version: &DocumentVersion,
    source: Digest,
) -> Result<Bytes, Failure> {
    if let Some(bytes) = task.tools.last_original.get(source) {
        return Ok(bytes);
    }
    let bytes = sources::read_source(task, version).await?;
    task.tools.last_original.set(source, bytes.clone());
    Ok(bytes)
}

// The model that the settings name. A page is not read without it, because its numbers would seem sure.
fn second_reader(task: &FilingTask<'_>) -> Result<Option<ModelFile>, Failure> {
    let digest = &task.settings.ocr.second_reader;
    if digest.is_empty() {
        return Ok(None);
    }
    let model = task.tools.second_reader.as_ref();
    let model = model.filter(|model| model.sha256 == *digest);
    model.cloned().map(Some).ok_or_else(|| {
        let message = format!("the worker does not have the model {digest} of ocr.second_reader");
        Failure::permanent("ocr.no_model", message).with_next(
            "set local.second_reader of every worker of the lane ocr to its path, and run again with --rerun-failed",
        )
    })
}

// A later run asks again, because another machine or a later day may have it.
fn no_engine(packages: Option<PackageManager>) -> Failure {
    Failure::permanent(
        "ocr.no_engine",
        "pages are pictures, and the worker does not have tesseract, which recognizes their text",
    )
    .with_next(format!(
        "{}, then run again with --rerun-failed; on a cluster every worker of the lane ocr needs it",
        tesseract_advice(packages)
    ))
}

/// The pages that text recognition reads, in order.
pub(crate) fn pages_to_recognize(settings: &RunSettings, text: &PaginateOutcome) -> Vec<PageNo> {
    let pages = text.pictures.iter().flat_map(|span| span.pages());
    match (settings.ocr.mode, text.extent) {
        (OcrMode::Never, _) => Vec::new(),
        (OcrMode::Always, Extent::Pages(count)) if text.is_pdf => {
            (0..count as usize).map(PageNo::from_index).collect()
        }
        (OcrMode::Auto | OcrMode::Always, _) => pages.collect(),
    }
}
