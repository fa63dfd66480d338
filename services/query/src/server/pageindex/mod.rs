//! The dialect of PageIndex Cloud (`/doc/…`, `/docs/`, `/folders/`, `/retrieval/`, `/chat/completions/`), so that
//! programs written for its published SDK work here with a changed base URL.
//!
//! Names of routes, parameters and fields are theirs; ids are ours (a name or a path does as well). What they ask of a
//! model that draws pages, and folders and schemas that are made by hand, has no counterpart: it is refused with a reason.
//! Parameters that are not known are passed over, as there; fields beyond theirs may be added to answers. A key comes in
//! `api_key` or as bearer, and answers are in their form whatever a client accepts.

mod chat;
mod documents;
mod folders;
mod intake;
mod nodes;
mod retrieval;
#[cfg(test)]
mod tests;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{get, post};
use stemma_search::catalogue::Listed;

use super::dialogue::MAX_BYTES;
use super::problem::Problem;
use super::routes::Site;

/// All routes of the dialect, each with its slash at the end and without.
pub(super) fn routes() -> Router<Site> {
    let both = |router: Router<Site>, path: &str, method: axum::routing::MethodRouter<Site>| {
        router.route(path, method.clone()).route(&format!("{path}/"), method)
    };
    let conversations = DefaultBodyLimit::max(MAX_BYTES);
    let router = both(Router::new(), "/doc", post(intake::submit));
    let router = both(router, "/doc/{doc}", get(documents::document).delete(intake::remove));
    let router = both(router, "/doc/{doc}/metadata", get(documents::metadata));
    let router = both(router, "/doc/{doc}/block/{block}", get(no_blocks));
    let router = both(router, "/doc/{doc}/image/{image}", get(no_images));
    let router = both(router, "/doc/s3/{doc}/images", get(no_images));
    let router = both(router, "/docs", get(documents::list));
    let router = both(router, "/folders", get(folders::list));
    let router = both(router, "/folder", post(no_folders));
    let router = both(router, "/chat/completions", post(chat::completions).layer(conversations));
    let router = both(router, "/retrieval", post(retrieval::submit));
    both(router, "/retrieval/{retrieval}", get(retrieval::result))
}

/// The id of the folder a document lies in, which is its path; `None` at the root.
fn folder_of(listed: &Listed) -> Option<String> {
    listed.version().path.rsplit_once('/').map(|(folder, _)| format!("/{folder}"))
}

async fn no_blocks() -> Problem {
    Problem::new(404, "pageindex.no_blocks", "pages are not cut into blocks here; citations carry rectangles instead")
}

async fn no_images() -> Problem {
    Problem::new(
        404,
        "pageindex.no_images",
        "the store holds the text of pages and where it stands, not their drawings",
    )
    .next("GET /v1/documents/{doc}/source has the file, where it lies in the store")
}

async fn no_folders() -> Problem {
    Problem::new(
        403,
        "pageindex.no_folders",
        "folders are those that documents were ingested from, and are not made here",
    )
}
