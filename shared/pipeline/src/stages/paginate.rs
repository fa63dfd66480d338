//! `paginate`: extracts text with positions from the bytes of a document.

use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use stemma_document::{
    Digest, DocumentVersion, Extent, FactDefinition, Origin, PageNo, PageSpan, SourceFormat,
};
use stemma_engine::queue::Lane;
use stemma_engine::stage::{Stage, StageOutput, StageResult};
use stemma_extract::{CodecError, EncodedSource, ExtractError, ExtractJob, Task};
use stemma_reading::document_reading::DocumentReading;
use stemma_store::{Failure, TaskKeyBuilder};

use super::extracted;
use crate::settings::{OcrMode, RunSettings};
use crate::versions::document_version;
use crate::{FilingFlow, FilingTask, sources};

/// Reads a document. Key: the identity of the bytes and of the labels of its facts, the file extension (it decides how plain
/// text is read) and the limits. The location of the bytes is in the run header, not in the key.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Paginate {
    /// Identifies the bytes; see [`Origin`](stemma_document::Origin). Other bytes are refused.
    pub(crate) source: Digest,
    /// Lower case, without the dot.
    #[serde(rename = "ending")]
    pub(crate) extension: String,
    /// Identifies the label linkbase next to the document.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) labels: Option<Digest>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct PaginateOutcome {
    /// Digest of the blob `source`.
    pub(crate) digest: Digest,
    pub(crate) extent: Extent,
    pub(crate) defects: u32,
    /// Digest of the bytes of an object, which is identified by its ETag.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) content: Option<Digest>,
    /// Pages that are pictures, in order: first and last page of each run.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub(crate) pictures: Vec<PageSpan>,
    /// Whether text recognition can draw its pages.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub(crate) is_pdf: bool,
}

impl Paginate {
    pub(crate) fn for_version(version: &DocumentVersion) -> Self {
        let extension = version
            .name
            .rsplit_once('.')
            .map_or("", |(_, extension)| extension);
        Self {
            source: version.source,
            extension: extension.to_lowercase().chars().take(16).collect(),
            labels: version.labels.as_ref().map(|labels| labels.source),
        }
    }
}

#[async_trait]
impl Stage for Paginate {
    type Work = FilingFlow;
    type Outcome = PaginateOutcome;

    const NAME: &'static str = "paginate";
    // Another tag of the cover raises it, and another reading.
    const REVISION: u32 = 16 + FactDefinition::TAGGED + DocumentReading::REVISION;
    const LANE: Lane = Lane::Cpu;
    // Includes the wait for a free child behind the other tasks of the worker.
    const DEADLINE: Duration = Duration::from_secs(600);

    fn identity(&self, settings: &RunSettings, identity: &mut TaskKeyBuilder) {
        identity.bytes(self.source.as_bytes()).text(&self.extension);
        // The JSON of the struct holds every limit, so a new field becomes part of the key by itself.
        identity.text(&serde_json::to_string(&settings.limits).unwrap_or_default());
        // A document of pictures fails without text recognition.
        identity.text(match settings.ocr.mode {
            OcrMode::Never => "text",
            OcrMode::Auto | OcrMode::Always => "pictures",
        });
        if let Some(labels) = &self.labels {
            identity.text("labels").bytes(labels.as_bytes());
        }
    }

    async fn run(&self, task: &FilingTask<'_>) -> StageResult<PaginateOutcome> {
        let version = document_version(&task.header().await?)?;
        let bytes = sources::read_source(task, &version).await?;
        let content = (version.origin != Origin::Content).then(|| Digest::from_content(&bytes));
        let companion = match &version.labels {
            Some(labels) => Some(sources::read_companion(task, &version, labels).await?),
            None => None,
        };
        let kind = match task.settings.ocr.mode {
            OcrMode::Never => Task::Text,
            OcrMode::Auto | OcrMode::Always => Task::TextAndPictures,
        };
        let job = ExtractJob {
            companion: companion.map(|bytes| bytes.map(Vec::from)),
            ..extract_job(task, version.name, bytes, kind)
        };
        let reply = extract(task, job).await?;
        let blobs = extracted::split_extracted(reply)
            .ok_or_else(|| unreadable("the reply is cut short".into()))?;
        let source = EncodedSource::open(blobs.source.clone())
            .map_err(|error: CodecError| unreadable(error.to_string()))?;
        let defects = u32::try_from(source.header().defects.len()).unwrap_or(u32::MAX);
        let progress = &task.tools.read_progress;
        if let Extent::Pages(pages) = source.extent() {
            progress.pages.fetch_add(pages.into(), Ordering::Relaxed);
        }
        progress
            .bytes
            .fetch_add(version.size_bytes, Ordering::Relaxed);
        let outcome = PaginateOutcome {
            digest: Digest::from_content(&blobs.source),
            extent: source.extent(),
            defects,
            content,
            pictures: spans(&blobs.pictures),
            is_pdf: source.header().format == SourceFormat::Pdf,
        };
        let mut parts = vec![("source", blobs.source), ("reading", blobs.reading)];
        parts.extend(blobs.facts.map(|facts| ("facts", facts)));
        Ok(StageOutput::new(outcome, parts))
    }
}

fn unreadable(error: String) -> Failure {
    Failure::transient("extract.reply", error)
}

// Joins pages that follow each other. Of a very long file with many runs the last are left out, so that the outcome fits its
// limit; a defect lists them as pages without text.
fn spans(pages: &[PageNo]) -> Vec<PageSpan> {
    const MOST: usize = 4_000;
    let mut spans: Vec<PageSpan> = Vec::new();
    for page in pages {
        match spans.last_mut() {
            Some(last) if last.end().get() + 1 == page.get() => {
                *last = PageSpan::between(last.start(), *page);
            }
            _ => spans.push(PageSpan::between(*page, *page)),
        }
    }
    spans.truncate(MOST);
    spans
}

/// What a task asks an extraction process. After a failure the document has the process for itself.
pub(super) fn extract_job(
    task: &FilingTask<'_>,
    name: String,
    bytes: Bytes,
    kind: Task,
) -> ExtractJob {
    let password = task
        .tools
        .password
        .as_ref()
        .map(|password| password.0.clone());
    let limits = task.settings.limits.clone();
    ExtractJob {
        alone: task.attempt > 1,
        task: kind,
        ..ExtractJob::new(name, bytes.into(), password, limits)
    }
}

/// The reply of an extraction process. Its end may have had another cause than the document, whose defects stay.
pub(super) async fn extract(task: &FilingTask<'_>, job: ExtractJob) -> Result<Bytes, Failure> {
    let reply = task.tools.extractor.extract(job).await;
    reply.map(Bytes::from).map_err(|error: ExtractError| {
        let is_transient = stemma_extract::is_transient_code(error.code);
        let failure = match is_transient {
            true => Failure::transient(error.code, error.message),
            false => Failure::permanent(error.code, error.message),
        };
        failure.with_next(error.next)
    })
}
