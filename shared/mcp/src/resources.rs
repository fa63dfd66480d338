//! Sections and pages as MCP resources (`stemma://` URIs).

use rmcp::model::{ReadResourceResult, ResourceContents, ResourceTemplate};
use stemma_archive::pageindex_fields::name_of;

use crate::error::{ToolError, ToolErrorKind};
use crate::get_page_content::{read_request, text};
use crate::tool_context::{SCHEME, ToolContext};
use crate::tool_result::delimited;

pub(crate) fn templates() -> Vec<ResourceTemplate> {
    let template = |address: &str, name: &str, about: &str| {
        ResourceTemplate::new(address, name)
            .with_description(about)
            .with_mime_type("text/plain")
    };
    vec![
        template(
            "stemma://{doc}/section/{id}",
            "section",
            "text of a section with its sub-sections",
        ),
        template(
            "stemma://{doc}/page/{n}",
            "page",
            "text of a physical page, or of pages 5-7",
        ),
    ]
}

// Truncated to the token limit of one answer.
pub(crate) async fn read(
    call: &ToolContext<'_>,
    address: &str,
) -> Result<ReadResourceResult, ToolError> {
    if !address.starts_with(SCHEME) {
        return Err(ToolError::new(
            ToolErrorKind::NotFound,
            "address.unknown",
            format!("addresses here begin with {SCHEME}"),
        ));
    }
    let document = call.resolve_document(address, None)?;
    if document.fragment.is_none() {
        let message = "an address ends in /section/0007 or /page/47";
        return Err(ToolError::new(
            ToolErrorKind::NotFound,
            "address.unknown",
            message,
        ));
    }
    let (listed, published) = call.load_published(&document).await?;
    let (what, _) = read_request(listed, &published, document.fragment.as_ref(), None)?;
    let reading = call
        .read(listed, published, what, call.form.limit(Some(usize::MAX)))
        .await?;
    let from = format!("{} {}s {}", name_of(listed), reading.unit, reading.returned);
    let mut text = delimited(&from, &text(&reading));
    if let Some(remaining) = &reading.remaining {
        text.push_str(&format!(
            "\n{}s {remaining} are left: {SCHEME}{}/page/{remaining}",
            reading.unit,
            listed.doc()
        ));
    }
    Ok(ReadResourceResult::new(vec![
        ResourceContents::text(text, address).with_mime_type("text/plain"),
    ]))
}
