//! Reads and writes the blobs of stages.

use std::fmt::Display;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use stemma_document::Source;
use stemma_extract::EncodedSource;
use stemma_reading::document_reading::{DocumentReading, LineReadings};
use stemma_store::{Failure, TaskKey};

use crate::FilingTask;
use crate::settings::RunSettings;

pub(super) fn parse_json<T: DeserializeOwned>(json: &[u8]) -> Result<T, Failure> {
    serde_json::from_slice(json).map_err(|error| json_error(&error))
}

pub(super) fn to_json<T: Serialize>(value: &T) -> Result<Bytes, Failure> {
    let json = serde_json::to_vec(value).map(Bytes::from);
    json.map_err(|error| json_error(&error))
}

fn json_error(error: &serde_json::Error) -> Failure {
    Failure::permanent("structure.json", error.to_string())
}

pub(super) fn decode_source(packed: Bytes) -> Result<Source, Failure> {
    let source = EncodedSource::open(packed).and_then(EncodedSource::decode);
    source.map_err(source_error)
}

/// A source and what its lines are, as they are stored.
pub(super) struct EncodedText {
    source: Bytes,
    reading: Bytes,
}

impl EncodedText {
    pub(super) async fn load(task: &FilingTask<'_>, artifact: &TaskKey) -> Result<Self, Failure> {
        Ok(Self {
            source: task.blob(artifact, "source").await?,
            reading: task.blob(artifact, "reading").await?,
        })
    }

    pub(super) fn decode(self) -> Result<(Source, LineReadings), Failure> {
        let readings = DocumentReading::decode_lines(&self.reading).map_err(source_error)?;
        Ok((decode_source(self.source)?, readings))
    }
}

pub(super) fn source_error(error: impl Display) -> Failure {
    Failure::permanent("structure.source", error.to_string())
}

/// The settings that a tree with answers of models depends on, for keys.
pub(super) fn tree_settings(settings: &RunSettings) -> String {
    let parts = (
        &settings.structure,
        &settings.outline,
        &settings.sections,
        &settings.model,
    );
    serde_json::to_string(&parts).unwrap_or_default()
}
