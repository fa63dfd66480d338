//! Sections and pages as MCP resources (`stemma://` URIs).

use rmcp::model::{ReadResourceResult, ResourceContents, ResourceTemplate};
use stemma_archive::pageindex_fields::name_of;
use stemma_archive::{PageRegion, ReadRequest};
use stemma_document::PageNo;

use crate::error::ToolError;
use crate::page_picture::{MIME_TYPE, page_picture};
use crate::tool_context::{SCHEME, ToolContext};
use crate::tool_result::delimited;

pub(crate) fn templates() -> Vec<ResourceTemplate> {
    [
        (
            "stemma://{doc}/section/{id}",
            "section",
            "text of a section with its sub-sections",
            "text/plain",
        ),
        (
            "stemma://{doc}/page/{n}",
            "page",
            "text of a physical page, or of pages 5-7",
            "text/plain",
        ),
        (
            "stemma://{doc}/image/{n}",
            "image",
            "picture of a physical page of a PDF",
            MIME_TYPE,
        ),
    ]
    .map(|(address, name, description, mime_type)| {
        ResourceTemplate::new(address, name)
            .with_description(description)
            .with_mime_type(mime_type)
    })
    .into()
}

/// Reads a resource, up to the token limit of one result.
pub(crate) async fn read(
    context: &ToolContext,
    address: &str,
) -> Result<ReadResourceResult, ToolError> {
    if !address.starts_with(SCHEME) {
        return Err(unknown_address(format!(
            "addresses here begin with {SCHEME}"
        )));
    }
    if let Some((document, page)) = image_address(address) {
        return read_image(context, address, document, page).await;
    }
    let document = context.resolve_document(address, None)?;
    if document.fragment.is_none() {
        return Err(unknown_address(
            "an address ends in /section/0007, /page/47 or /image/47",
        ));
    }
    let (listed, published) = context.load_published(&document).await?;
    let (request, _) = ReadRequest::new(&listed, &published, document.fragment.as_ref(), None)?;
    let limit = context.format.limit(Some(usize::MAX));
    let read = context.read(&listed, published, request, limit).await?;
    let source = format!("{} {}s {}", name_of(&listed), read.unit, read.returned);
    let mut text = delimited(&source, &read.text());
    if let Some(remaining) = &read.remaining {
        text.push_str(&format!(
            "\n{}s {remaining} are left: {SCHEME}{}/page/{remaining}",
            read.unit,
            listed.doc()
        ));
    }
    Ok(ReadResourceResult::new(vec![
        ResourceContents::text(text, address).with_mime_type("text/plain"),
    ]))
}

async fn read_image(
    context: &ToolContext,
    address: &str,
    document: &str,
    page: PageNo,
) -> Result<ReadResourceResult, ToolError> {
    let document = context.resolve_document(document, None)?;
    let (listed, _) = context.load_published(&document).await?;
    let picture = page_picture(context, &listed, page, PageRegion::WHOLE).await?;
    Ok(ReadResourceResult::new(vec![
        ResourceContents::blob(picture, address).with_mime_type(MIME_TYPE),
    ]))
}

// Document and page of `stemma://DOC/image/5`.
fn image_address(address: &str) -> Option<(&str, PageNo)> {
    let (document, page) = address.strip_prefix(SCHEME)?.rsplit_once("/image/")?;
    Some((document, page.parse().ok().and_then(PageNo::new)?))
}

fn unknown_address(message: impl Into<String>) -> ToolError {
    ToolError::not_found("address.unknown", message)
}
