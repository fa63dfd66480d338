//! `get_page_content`: the text of pages, of a section, or of an Item.

use rmcp::model::{Resource, Tool};
use serde_json::{Value, json};
use stemma_archive::items::{self as items_of, ItemInfo};
use stemma_archive::pageindex_fields::name_of;
use stemma_archive::tree::resolve_section;
use stemma_catalog::catalog::CatalogDocument;
use stemma_catalog::locator::{Fragment, parse_pages};
use stemma_document::{DocId, PublishedTree};

use crate::arguments::Arguments;
use crate::error::ToolError;
use crate::get_document;
use crate::text_pages::{ReadRequest, ReadResult};
use crate::tool_context::{DocumentRef, ToolContext, link, page_address};
use crate::tool_result::{DEFAULT_TOKENS, MAX_TOKENS, MIN_TOKENS, ToolResult, delimited};
use crate::tools::{items, read_only_tool};

pub(crate) const NAME: &str = "get_page_content";
const MAX_LINKS: usize = 3;

pub(crate) fn tool() -> Tool {
    let takes = json!({
        "doc_name": { "type": "string" },
        "pages": { "type": "string", "description": "physical pages: 5-7,9" },
        "section_id": { "type": "string", "description": "instead of pages: 0019" },
        "item": { "type": "string", "description": "instead of pages: 1A, II.1A" },
        "max_tokens": { "type": "integer", "minimum": MIN_TOKENS, "maximum": MAX_TOKENS, "default": DEFAULT_TOKENS },
        "folder_id": { "type": ["string", "null"] },
        "wait_for_completion": { "type": "boolean" },
    });
    let gives = json!({
        "doc_name": { "type": "string" },
        "total_pages": { "type": "integer" },
        "returned_pages": { "type": "string" },
        "content": items(json!({ "page": { "type": "integer" }, "label": { "type": "string" }, "text": { "type": "string" } })),
        "truncated": { "type": "boolean" },
        "remaining": { "type": "string" },
        "next_call": { "type": "object" },
    });
    let about = "Text of pages, of a section or of an Item. Ask for few pages; in long documents find them with \
get_document_structure or search. What does not fit is named in remaining; next_call gets it.";
    read_only_tool(NAME, about, takes, &["doc_name"], gives)
}

pub(crate) async fn call(
    call: &mut ToolContext<'_>,
    mut arguments: Arguments,
) -> Result<ToolResult, ToolError> {
    let name = arguments.required_text("doc_name")?;
    let pages = arguments.text("pages")?;
    let section = arguments.text("section_id")?;
    let item = arguments.text("item")?;
    let max_tokens = arguments.number("max_tokens", 1..=1_000_000)?;
    let folder = arguments.text("folder_id")?;
    let wait = arguments.flag("wait_for_completion")?;
    arguments.reject_unknown()?;
    let document = call.resolve_document(&name, folder.as_deref())?;
    if wait {
        call.wait_until_ready(&document).await?;
    }
    let part = part(&document, section, item)?;
    let pages = pages.map(|pages| {
        parse_pages(&pages).ok_or_else(|| {
            ToolError::invalid(format!("`{pages}` are no pages"))
                .with_option("Pages are written 5, 5-10 or 1-3,7,9-12")
        })
    });
    let pages = pages.transpose()?;
    if part.is_none() && pages.is_none() {
        return Err(ToolError::invalid(
            "say what to read: `pages`, `section_id` or `item`",
        ));
    }
    let (listed, published) = call.load_published(&document).await?;
    let (read_request, item) = read_request(listed, &published, part.as_ref(), pages)?;
    let limit = call.form.limit(max_tokens);
    let reading = call.read(listed, published, read_request, limit).await?;
    Ok(answer(
        listed,
        &reading,
        item.as_ref(),
        part.as_ref(),
        max_tokens,
    ))
}

// The part is given by an argument or by the fragment of the document name.
fn part(
    document: &DocumentRef,
    section: Option<String>,
    item: Option<String>,
) -> Result<Option<Fragment>, ToolError> {
    let text = match (section, item) {
        (None, None) => return Ok(document.fragment.clone()),
        (Some(_), Some(_)) => {
            return Err(ToolError::invalid("say `section_id` or `item`, not both"));
        }
        (Some(section), None) => section.rsplit('#').next().unwrap_or_default().to_owned(),
        (None, Some(item)) => format!(
            "item-{}",
            item.trim_start_matches("Item")
                .trim_start_matches("item-")
                .trim()
        ),
    };
    text.parse().map(Some).map_err(|()| {
        ToolError::invalid(format!("`{text}` names no part of a document"))
            .with_option("A section_id is like 0007, an item like 1A or II.1A")
    })
}

pub(crate) fn read_request(
    listed: &CatalogDocument,
    published: &PublishedTree,
    part: Option<&Fragment>,
    pages: Option<Vec<stemma_document::PageSpan>>,
) -> Result<(ReadRequest, Option<ItemInfo>), ToolError> {
    let tree = &published.tree;
    let label = &listed.label;
    match part {
        None => Ok((ReadRequest::Pages(pages.unwrap_or_default()), None)),
        Some(Fragment::Pages(spans)) => Ok((
            ReadRequest::Pages(pages.unwrap_or_else(|| spans.clone())),
            None,
        )),
        // Only the form's page index names this Item: it has pages but no section.
        Some(Fragment::Item { part, number })
            if let Some((item, spans)) =
                items_of::find_indexed_item(tree, label, part.as_deref(), number) =>
        {
            if spans.is_empty() {
                let message = format!("`{label}` answers Item {number} elsewhere");
                let elsewhere = item
                    .content
                    .iter()
                    .filter_map(|link| link.to.clone().or(link.outside.clone()));
                return Err(ToolError::invalid(message).with_candidates(elsewhere.collect()));
            }
            Ok((ReadRequest::Pages(pages.unwrap_or(spans)), Some(item)))
        }
        Some(fragment) => {
            let id = resolve_section(tree, label, fragment)?;
            Ok((
                ReadRequest::Section(id, pages),
                items_of::item_at_section(tree, label, id),
            ))
        }
    }
}

fn answer(
    listed: &CatalogDocument,
    reading: &ReadResult,
    item: Option<&ItemInfo>,
    part: Option<&Fragment>,
    max_tokens: Option<usize>,
) -> ToolResult {
    let name = name_of(listed);
    let unit = reading.unit;
    let mut data = json!({
        "doc_name": name,
        "total_pages": reading.total,
        "requested_pages": reading.requested,
        "returned_pages": reading.returned,
        "content": content(reading),
        "truncated": reading.is_truncated(),
    });
    if let Some(item) = item {
        data["item"] = get_document::row(item);
    }
    let mut answer_options = Vec::new();
    if let Some(remaining) = &reading.remaining {
        data["remaining"] = json!(remaining);
        data["next_call"] =
            json!({ "tool": NAME, "arguments": next_arguments(name, remaining, part, max_tokens) });
        answer_options.push(format!(
            "For the rest: the same call with pages: \"{remaining}\""
        ));
    }
    if let Some(out) = &reading.out_of_range {
        data["out_of_range"] = json!(out);
        answer_options.push(format!(
            "{unit}s {out} are not there: the document has {unit}s 1-{}",
            reading.total
        ));
    }
    if reading.passages.iter().any(|passage| passage.cut) {
        answer_options.push(format!(
            "A {unit} is too long for one answer: a larger max_tokens, or grep_document()"
        ));
    }
    let summary = format!(
        "{unit}s {} of {} of {name}",
        reading.returned, reading.total
    );
    let body = delimited(
        &format!("{name} {unit}s {}", reading.returned),
        &text(reading),
    );
    let answer = ToolResult::new(data, summary)
        .text_body(body)
        .resources(links(listed.doc(), reading));
    answer_options
        .into_iter()
        .fold(answer, ToolResult::with_option)
        .with_option("Cite the document and the page")
}

fn next_arguments(
    name: &str,
    remaining: &str,
    part: Option<&Fragment>,
    max_tokens: Option<usize>,
) -> Value {
    let mut arguments = json!({ "doc_name": name, "pages": remaining });
    match part {
        Some(Fragment::Section(id)) => arguments["section_id"] = json!(id.to_string()),
        Some(item @ Fragment::Item { .. }) => {
            arguments["item"] = json!(item.to_string().trim_start_matches("item-"));
        }
        _ => {}
    }
    if let Some(max_tokens) = max_tokens {
        arguments["max_tokens"] = json!(max_tokens);
    }
    arguments
}

fn content(reading: &ReadResult) -> Vec<Value> {
    reading
        .passages
        .iter()
        .map(|passage: &crate::text_pages::TextPassage| {
            let mut value = json!({ "page": passage.page, "text": passage.text });
            if let Some(label) = &passage.label {
                value["label"] = json!(label);
            }
            if passage.cut {
                value["cut"] = json!(true);
            }
            value
        })
        .collect()
}

pub(crate) fn text(reading: &ReadResult) -> String {
    reading
        .passages
        .iter()
        .map(|passage: &crate::text_pages::TextPassage| {
            let label = passage
                .label
                .as_ref()
                .map(|label| format!(" ({label})"))
                .unwrap_or_default();
            let cut = if passage.cut { "\n[cut here]" } else { "" };
            format!(
                "[{} {}{label}]\n{}{cut}",
                reading.unit, passage.page, passage.text
            )
        })
        .collect::<Vec<_>>()
        .join("\n")
}

pub(crate) fn links(doc: DocId, reading: &ReadResult) -> Vec<Resource> {
    let pages = reading
        .passages
        .iter()
        .filter(|_| reading.unit == "page")
        .take(MAX_LINKS);
    pages
        .map(|passage| {
            link(
                page_address(doc, passage.page),
                &format!("page {}", passage.page),
            )
        })
        .collect()
}
