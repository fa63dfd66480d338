//! The part of the flow that recognizes the text of pages that are pictures.

use stemma_document::{Digest, PageNo};
use stemma_engine::replay::{FlowStop, Replay};
use stemma_engine::stage::Stage;
use stemma_store::{FailureRecord, TaskKey};

use crate::FilingFlow;
use crate::settings::RunSettings;
use crate::stages::{
    MergePages, Paginate, PaginateOutcome, Recognize, RecognizeOutcome, Transcribe,
    pages_to_recognize,
};

/// The digest of the text with what text recognition read, and the artifact whose blob `source` holds it.
pub(crate) fn recognized(
    replay: &mut Replay<'_, FilingFlow>,
    paginate: &Paginate,
    text: &PaginateOutcome,
) -> Result<(Digest, TaskKey), FlowStop> {
    let paginated = paginate.key(replay.settings());
    let pages = pages_to_recognize(replay.settings(), text);
    if pages.is_empty() {
        return Ok((text.digest, paginated));
    }
    replay.sub_flow(
        "ocr",
        |identity| {
            identity.text(&paginated.to_string());
        },
        |replay| {
            let stages = pages.iter().map(|page| Recognize {
                source: paginate.source,
                page: *page,
            });
            let results = replay.results(stages)?;
            let unsure = unsure_pages(replay.settings(), paginate.source, &pages, &results);
            let numbers: Vec<PageNo> = unsure.iter().map(|stage| stage.page).collect();
            let seen = replay.results(unsure)?;
            let merge = MergePages::new(paginate.source, paginated, text.digest, &pages, &results)
                .with_transcripts(&numbers, &seen);
            let merged = replay.outcome(&merge)?;
            Ok((merged.digest, merge.key(replay.settings())))
        },
    )
}

// What a vision model is asked: the pages that were read, but not surely.
fn unsure_pages(
    settings: &RunSettings,
    source: Digest,
    pages: &[PageNo],
    results: &[Result<RecognizeOutcome, FailureRecord>],
) -> Vec<Transcribe> {
    let read = pages.iter().zip(results);
    read.filter_map(|(page, result)| {
        let read = result.as_ref().ok()?;
        Transcribe::for_page(settings, source, *page, read)
    })
    .collect()
}
