//! The part of the flow that recognizes the text of pages that are pictures.

use stemma_document::Digest;
use stemma_engine::TaskKey;
use stemma_engine::replay::{FlowStop, Replay};
use stemma_engine::stage::Stage;

use crate::FilingFlow;
use crate::stages::{MergePages, Paginate, PaginateOutcome, Recognize, pages_to_recognize};

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
            let merge = MergePages::new(paginate.source, paginated, text.digest, &pages, &results);
            let merged = replay.outcome(&merge)?;
            Ok((merged.digest, merge.key(replay.settings())))
        },
    )
}
