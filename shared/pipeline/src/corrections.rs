//! Corrections by persons: they are stored with the document, and submissions name them.

use stemma_document::{
    Collection, CorrectionRef, Digest, DocId, DocumentVersion, Gap, Method, SectionTree, blob_keys,
};
use stemma_engine::Ports;
pub use stemma_outline::correction::{
    CorrectedHeading, Correction, HeadingClaim, LineError, OutlineText, check, parse, print,
};
use stemma_store::blobs::{Blobs, put_json};
use stemma_store::{PortResult, artifact};

use crate::stages::PaginateOutcome;
use crate::versions::load_versions;
use crate::{CorrectionChange, Submission};

/// Code of the gap of a document whose bytes changed after a person corrected its outline.
pub const DROPPED: &str = "outline.correction_dropped";

/// Stores a checked correction of `version`, whose text is in `text_artifact`, and returns the submission that applies it. If its run failed before, it runs
/// again.
///
/// # Errors
/// [`PortError`](stemma_store::PortError) if the store cannot be written.
pub async fn store_correction(
    ports: &Ports,
    collection: &Collection,
    version: &DocumentVersion,
    text_artifact: &str,
    correction: &Correction,
) -> PortResult<Submission> {
    let json = serde_json::to_vec(correction).unwrap_or_default();
    let headings = Digest::from_content(&json);
    let scope = blob_keys::document_scope(collection, version.doc);
    let key = blob_keys::correction_key(&scope, headings);
    put_json(&ports.blobs, &key, correction).await?;
    // The submission refers to it, so it must survive a power loss first.
    ports.blobs.barrier().await?;
    let text = match text_artifact.parse() {
        Ok(key) => artifact::outcome(&ports.blobs, &scope, &key).await?,
        Err(_) => None,
    };
    let text: Option<PaginateOutcome> = text.and_then(|json| serde_json::from_slice(&json).ok());
    let correction = CorrectionRef {
        headings,
        source: version.source,
        content: text.and_then(|text| text.content),
    };
    let replaces = version.correction.as_deref().copied();
    Ok(Submission {
        correction: CorrectionChange::Set {
            correction,
            replaces,
        },
        ..Submission::for_version(version.clone())
    })
}

/// The submission that removes the correction of a document.
pub fn reset_correction(version: &DocumentVersion) -> Submission {
    Submission {
        correction: CorrectionChange::Reset,
        ..Submission::for_version(version.clone())
    }
}

/// The correction that the newest claim of a document names, whether or not its tree was made.
///
/// # Errors
/// [`PortError`](stemma_store::PortError) if the store cannot be read.
pub async fn claimed_correction(
    blobs: &dyn Blobs,
    collection: &Collection,
    doc: DocId,
) -> PortResult<Option<CorrectionRef>> {
    Ok(load_versions(blobs, collection, doc).await?.correction)
}

// The gap of a version whose correction was made for other bytes.
pub(crate) fn dropped_gap(version: &DocumentVersion, tree: &SectionTree) -> Option<Gap> {
    let is_dropped = version.correction.is_some() && tree.provenance.method != Method::Person;
    is_dropped.then(|| Gap {
        code: DROPPED.into(),
        pages: None,
        detail:
            "a person corrected the outline, but the file changed since: correct it again with \
                 `stemma outline edit`, or accept this outline with `stemma outline reset`"
                .into(),
    })
}
