//! `fetch`: the text of a search result or of any locator.

use rmcp::model::Tool;
use serde_json::{Value, json};
use stemma_archive::ItemInfo;
use stemma_archive::pageindex_fields::{metadata, name_of};
use stemma_catalog::catalog::CatalogDocument;
use stemma_catalog::locator::Fragment;

use crate::arguments::Arguments;
use crate::error::ToolError;
use crate::get_page_content::{links, read_request, text};
use crate::text_pages::{ReadRequest, ReadResult};
use crate::tool_context::{SCHEME, ToolContext, page_address, section_address};
use crate::tool_result::{DEFAULT_TOKENS, MAX_TOKENS, MIN_TOKENS, ToolResult, delimited};
use crate::tools::read_only_tool;

pub(crate) const NAME: &str = "fetch";
const TITLE_CHARS: usize = 400;

fn id_argument() -> Value {
    json!({ "type": "string", "description": "from search, or any locator: NAME#0019, NAME#item-7, NAME#p=5-7" })
}

pub(crate) fn tool() -> Tool {
    let takes = json!({
        "id": id_argument(),
        "max_tokens": { "type": "integer", "minimum": MIN_TOKENS, "maximum": MAX_TOKENS, "default": DEFAULT_TOKENS },
    });
    let string = || json!({ "type": "string" });
    let gives = json!({
        "id": string(),
        "title": string(),
        "text": string(),
        "url": string(),
        "metadata": { "type": "object" },
        "truncated": { "type": "boolean" },
        "remaining": string(),
        "next_call": { "type": "object" },
    });
    read_only_tool(
        NAME,
        "Text of a section, Item, pages or document by its id.",
        takes,
        &["id"],
        gives,
    )
}

// OpenAI's contract: `id` is the only argument.
pub(crate) fn id_only() -> Tool {
    let about = "Fetch the text of a search result by its id; a result that is cut names the id of the rest.";
    read_only_tool(
        NAME,
        about,
        json!({ "id": id_argument() }),
        &["id"],
        json!({}),
    )
}

pub(crate) async fn call(
    call: &mut ToolContext<'_>,
    mut arguments: Arguments,
) -> Result<ToolResult, ToolError> {
    let id = arguments.required_text("id")?;
    let max_tokens = arguments.number("max_tokens", 1..=1_000_000)?;
    arguments.reject_unknown()?;
    let document = call.resolve_document(&id, None)?;
    let (listed, published) = call.load_published(&document).await?;
    let (what, item) = match &document.fragment {
        None => (
            ReadRequest::Pages(
                stemma_document::PageSpan::new(1, u32::MAX)
                    .into_iter()
                    .collect(),
            ),
            None,
        ),
        part => read_request(listed, &published, part.as_ref(), None)?,
    };
    let section = match &what {
        ReadRequest::Section(id, _) => Some(*id),
        ReadRequest::Pages(_) => None,
    };
    let path = section
        .map(|id| published.tree.path_to(id))
        .unwrap_or_default();
    let path = path
        .iter()
        .map(|section| section.title.as_str())
        .collect::<Vec<_>>()
        .join(" › ");
    let reading = call
        .read(listed, published, what, call.form.limit(max_tokens))
        .await?;
    let title = title(listed, document.fragment.as_ref(), &path);
    let url = match (section, reading.passages.first()) {
        (Some(id), _) => section_address(listed.doc(), id),
        (None, Some(first)) if document.fragment.is_some() => {
            page_address(listed.doc(), first.page)
        }
        _ => format!("{SCHEME}{}", listed.doc()),
    };
    Ok(answer(
        listed,
        document.fragment.as_ref(),
        &reading,
        (title, url),
        item,
    ))
}

// Display title.
fn title(listed: &CatalogDocument, part: Option<&Fragment>, path: &str) -> String {
    let name = name_of(listed);
    let title = match part {
        None => name.to_owned(),
        Some(_) if !path.is_empty() => format!("{name} › {path}"),
        Some(fragment) => format!("{name} › {fragment}"),
    };
    title.chars().take(TITLE_CHARS).collect()
}

fn answer(
    listed: &CatalogDocument,
    part: Option<&Fragment>,
    reading: &ReadResult,
    (title, url): (String, String),
    item: Option<ItemInfo>,
) -> ToolResult {
    let name = name_of(listed);
    let unit = reading.unit;
    let id = part.map_or_else(
        || listed.label.clone(),
        |part| format!("{}#{part}", listed.label),
    );
    let mut about = metadata(listed);
    about.insert("document".into(), json!(name));
    about.insert(format!("{unit}s"), json!(reading.returned));
    about.extend(item.map(|item| ("item".to_owned(), json!(item.id.unwrap_or(item.item)))));
    let rest = rest(reading, &listed.label, part);
    about.extend(rest.as_ref().map(|rest| ("rest".to_owned(), json!(rest))));
    let text = text(reading);
    let summary = format!("{title}: {unit}s {}", reading.returned);
    let body = delimited(&format!("{name} {unit}s {}", reading.returned), &text);
    let data = json!({ "id": id, "title": title, "text": text, "url": url, "truncated": reading.is_truncated() });
    let links = links(listed.doc(), reading);
    let mut answer = ToolResult::new(data, summary)
        .with_field("metadata", about.into())
        .text_body(body)
        .resources(links)
        .without_json_envelope();
    if let Some(rest) = rest {
        answer = answer
            .with_field("remaining", json!(reading.remaining))
            .with_field(
                "next_call",
                json!({ "tool": NAME, "arguments": { "id": rest } }),
            )
            .with_option(format!("For the rest: fetch(id: \"{rest}\")"));
    }
    answer.with_option("Cite the document and the page")
}

// Locator of the remaining text. Pages of a section are fetched whole, so the rest may include text of adjacent sections.
fn rest(reading: &ReadResult, label: &str, part: Option<&Fragment>) -> Option<String> {
    let remaining = reading.remaining.as_ref()?;
    let pages = format!("p={remaining}").parse::<Fragment>().ok()?;
    (part != Some(&pages)).then(|| format!("{label}#{pages}"))
}
