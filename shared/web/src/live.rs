//! Parts of a page that the script reads again every two seconds. Without it they are as of the request.

use maud::{Markup, html};

/// A part of a page, by its id.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Live {
    Jobs,
    JobProgress,
    JobControls,
    Health,
    Uploads,
}

impl Live {
    fn id(self) -> &'static str {
        match self {
            Live::Jobs => "jobs",
            Live::JobProgress => "job-progress",
            Live::JobControls => "job-controls",
            Live::Health => "health",
            Live::Uploads => "uploads",
        }
    }
}

/// Marks `content` to be kept current.
pub(crate) fn live(part: Live, content: &Markup) -> Markup {
    html! { div id=(part.id()) data-live { (content) } }
}
