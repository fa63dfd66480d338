//! Paginate: the bytes of a document become its text with positions.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use stemma_document::{Digest, DocumentVersion, Extent, Source, SourceBody};
use stemma_engine::queue::Lane;
use stemma_engine::stage::{Stage, StageOutput, TaskContext};
use stemma_engine::{Failure, TaskKeyBuilder};
use stemma_extract::{CodecError, EncodedSource, ExtractError, ExtractJob};
use stemma_llm::tokens::TokenCounter;

use crate::settings::RunSettings;
use crate::{FilingFlow, filing_flow::document_version, sources};

/// Reads a document. Key: what identifies the bytes, the name's ending (it settles what plain text is) and the limits.
/// Where the bytes are stands in the run's header.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Paginate {
    /// Identifies the bytes; see [`Origin`](stemma_document::Origin). Bytes that it does not identify are not read.
    pub source: Digest,
    /// Ending of the file name, lower case, without the dot.
    #[serde(rename = "ending")]
    pub extension: String,
}

/// What was read.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PaginateOutcome {
    /// Digest of the blob `source`.
    pub digest: Digest,
    /// Pages or lines.
    pub extent: Extent,
    /// Number of defects.
    pub defects: u32,
}

impl Paginate {
    /// The reading of a version.
    pub fn for_version(version: &DocumentVersion) -> Self {
        let extension = version
            .name
            .rsplit_once('.')
            .map(|(_, extension)| extension.to_lowercase())
            .unwrap_or_default();
        Self {
            source: version.source,
            extension: extension.chars().take(16).collect(),
        }
    }
}

#[async_trait]
impl Stage for Paginate {
    type Work = FilingFlow;
    type Outcome = PaginateOutcome;

    const NAME: &'static str = "paginate";
    const REVISION: u32 = 2;
    const LANE: Lane = Lane::Cpu;
    const DEADLINE: Duration = Duration::from_secs(120);

    fn identity(&self, settings: &RunSettings, identity: &mut TaskKeyBuilder) {
        identity.bytes(self.source.as_bytes()).text(&self.extension);
        // The struct's own JSON names every limit; one more field is one more part of the key.
        identity.text(&serde_json::to_string(&settings.limits).unwrap_or_default());
    }

    async fn run(
        &self,
        task: &TaskContext<'_, FilingFlow>,
    ) -> Result<StageOutput<PaginateOutcome>, Failure> {
        let limits = &task.settings.limits;
        let version = document_version(&task.header().await?)?;
        let bytes = sources::read_source(task, &version).await?;
        let password = task
            .tools
            .password
            .as_ref()
            .map(|password| password.0.clone());
        let job = ExtractJob::new(version.name, bytes.into(), password, limits.clone());
        let packed = Bytes::from(
            task.tools
                .extractor
                .extract(job)
                .await
                .map_err(extract_failure)?,
        );
        let source = EncodedSource::open(packed.clone())
            .map_err(|error: CodecError| Failure::transient("extract.reply", error.to_string()))?;
        let defects = u32::try_from(source.header().defects.len()).unwrap_or(u32::MAX);
        let outcome = PaginateOutcome {
            digest: Digest::from_content(&packed),
            extent: source.extent(),
            defects,
        };
        Ok(StageOutput::new(outcome, vec![("source", packed)]))
    }
}

/// Some failures of a child process may pass; what is wrong with a document will not.
fn extract_failure(error: ExtractError) -> Failure {
    let failure = match error.code {
        "extract.crashed" => Failure::transient(error.code, error.message),
        code => Failure::permanent(code, error.message),
    };
    failure.with_next(error.next)
}

/// What the extraction child does: reads the document, counts its tokens once, and packs it.
///
/// # Errors
/// [`ExtractError`] when the document cannot be read at all.
pub fn extract_document(job: ExtractJob) -> Result<Vec<u8>, ExtractError> {
    let mut source = stemma_extract::extract(job)?;
    count_tokens(&mut source);
    stemma_extract::encode_source(&source).map_err(|error| {
        ExtractError::new("limits.output", error.to_string(), "split the document")
    })
}

fn count_tokens(source: &mut Source) {
    let mut counter = TokenCounter::default();
    // A line's end is a token of its own.
    let mut tokens_of_line = |line: &str| counter.count(line).saturating_add(1);
    match &mut source.body {
        SourceBody::Pages(pages) => {
            for line in pages.iter_mut().flat_map(|page| &mut page.lines) {
                line.tokens = tokens_of_line(&line.text);
            }
        }
        SourceBody::Lines(text) => {
            text.tokens = text.lines.iter().map(|line| tokens_of_line(line)).collect()
        }
    }
}
