//! Parts of a page that the script reads again every two seconds. Without it they are as of the request.

use maud::{Markup, html};

/// Marks a part of a page, by its id, to be kept current.
pub(crate) fn live(id: &str, content: &Markup) -> Markup {
    html! { div id=(id) data-live { (content) } }
}
