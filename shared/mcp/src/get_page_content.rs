//! `get_page_content`: the text of pages, of a section, or of an Item.

use rmcp::handler::server::tool::schema_for_output;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::{tool, tool_router};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use stemma_archive::ReadRequest;
use stemma_archive::items::{ItemContent, ItemInfo};
use stemma_archive::pageindex_fields::name_of;
use stemma_catalog::catalog::CatalogDocument;
use stemma_catalog::locator::{Fragment, Locator, format_pages, parse_pages};
use stemma_document::{PageNo, PageSpan, SectionId};

use crate::error::ToolError;
use crate::get_document::{ItemRow, MAX_PLACES};
use crate::page_picture::{page_picture, parse_region};
use crate::text_pages::{ReadResult, TextPassage};
use crate::tool_context::{DocumentRef, ToolContext};
use crate::tool_result::{
    DEFAULT_TOKENS, MAX_TOKENS, MIN_TOKENS, ToolOutcome, ToolResult, delimited,
};

// A picture costs a model some 1,700 tokens.
const MAX_PICTURES: usize = 3;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct GetPageContentArguments {
    doc_name: String,
    /// physical pages: 5-7,9
    #[schemars(extend("x-list" = true))]
    pages: Option<String>,
    /// instead of pages: 0019
    section_id: Option<String>,
    /// instead of pages: 1A, II.1A, risk-factors
    item: Option<String>,
    /// picture too: page, or x,y,w,h (0-1)
    image: Option<String>,
    #[schemars(range(min = MIN_TOKENS, max = MAX_TOKENS), extend("default" = DEFAULT_TOKENS, "x-clamped" = true))]
    max_tokens: Option<usize>,
    #[schemars(extend("x-nullable" = true))]
    folder_id: Option<String>,
    #[serde(default)]
    wait_for_completion: bool,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct GetPageContentOutput {
    doc_name: String,
    total_pages: u32,
    #[schemars(skip)]
    requested_pages: String,
    returned_pages: String,
    content: Vec<TextPassage>,
    truncated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    item: Option<ItemRow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remaining: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Map<String, Value>>")]
    next_call: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    out_of_range: Option<String>,
}

#[tool_router(router = get_page_content_router, vis = "pub(crate)")]
impl ToolContext {
    #[tool(
        description = "Text of pages, a section or an Item. Ask for few pages; find them with get_document_structure or search. \
remaining names what does not fit; next_call gets it.",
        output_schema = schema_for_output::<GetPageContentOutput>()
    )]
    async fn get_page_content(
        &self,
        Parameters(arguments): Parameters<GetPageContentArguments>,
    ) -> ToolOutcome<GetPageContentOutput> {
        let (document, context) = self
            .open_document(
                &arguments.doc_name,
                arguments.folder_id.as_deref(),
                arguments.wait_for_completion,
            )
            .await?;
        let part = requested_part(&document, arguments.section_id, arguments.item)?;
        let pages = arguments
            .pages
            .as_deref()
            .map(requested_pages)
            .transpose()?;
        let region = arguments.image.as_deref().map(parse_region).transpose()?;
        let max_tokens = arguments.max_tokens;
        if part.is_none() && pages.is_none() {
            return Err(ToolError::invalid(
                "state what to read: `pages`, `section_id` or `item`",
            ));
        }
        let (listed, published) = context.load_published(&document).await?;
        let (request, item) = ReadRequest::new(&listed, &published, part.as_ref(), pages)?;
        let title = |id| Some(published.tree.section(id)?.title.clone());
        let elsewhere: Vec<String> = item
            .iter()
            .flat_map(|item| elsewhere(&item.item, &item.content, title))
            .collect();
        let limit = context.format.limit(max_tokens);
        let text = context.read(&listed, published, request, limit).await?;
        let mut pictures = Vec::new();
        if let Some(region) = region {
            let pages = text.passages.iter().map(|passage| passage.page);
            for page in pages.filter_map(PageNo::new).take(MAX_PICTURES) {
                pictures.push(page_picture(&context, &listed, page, region).await?);
            }
        }
        let result = page_result(&listed, text, item.as_ref(), part.as_ref(), max_tokens);
        Ok(result.with_options(elsewhere).with_pictures(pictures))
    }
}

// How to read the content of an Item that only refers to it.
fn elsewhere(
    number: &str,
    content: &[ItemContent],
    title: impl Fn(SectionId) -> Option<String>,
) -> impl Iterator<Item = String> {
    let places = content.iter().take(MAX_PLACES);
    places.filter_map(move |place| {
        let Some(to) = &place.to else {
            let outside = place.outside.as_ref()?;
            return Some(format!("Item {number} refers to the {outside}"));
        };
        let refers = if place.approximate {
            "refers to a place in"
        } else {
            "refers to"
        };
        Some(match Locator::parse(to).fragment? {
            Fragment::Section(id) => {
                let title = title(id)?;
                format!("Item {number} {refers} section {id} “{title}”: section_id: \"{id}\"")
            }
            Fragment::Pages(pages) => {
                let pages = format_pages(&pages);
                format!("Item {number} {refers} pages {pages}: pages: \"{pages}\"")
            }
            Fragment::Item { .. } | Fragment::Table(_) => return None,
        })
    })
}

fn requested_pages(pages: &str) -> Result<Vec<PageSpan>, ToolError> {
    parse_pages(pages).ok_or_else(|| {
        ToolError::invalid(format!("invalid page range `{pages}`"))
            .with_option("Pages are written 5, 5-10 or 1-3,7,9-12")
    })
}

// The part is given by an argument or by the fragment of the document name.
fn requested_part(
    document: &DocumentRef,
    section: Option<String>,
    item: Option<String>,
) -> Result<Option<Fragment>, ToolError> {
    let text = match (section, item) {
        (None, None) => return Ok(document.fragment.clone()),
        (Some(_), Some(_)) => {
            return Err(ToolError::invalid("give `section_id` or `item`, not both"));
        }
        (Some(part), None) | (None, Some(part)) => part,
    };
    let text = text.rsplit('#').next().unwrap_or_default();
    text.parse().map(Some).map_err(|()| {
        ToolError::invalid(format!("`{text}` names no part of a document"))
            .with_option("A section_id is like 0007, an item like 1A, II.1A or risk-factors")
    })
}

fn page_result(
    listed: &CatalogDocument,
    read: ReadResult,
    item: Option<&ItemInfo>,
    part: Option<&Fragment>,
    max_tokens: Option<usize>,
) -> ToolResult<GetPageContentOutput> {
    let name = name_of(listed);
    let unit = read.unit;
    let mut options = Vec::new();
    if let Some(remaining) = &read.remaining {
        options.push(format!(
            "For the rest: the same call with pages: \"{remaining}\""
        ));
    }
    if let Some(out_of_range) = &read.out_of_range {
        options.push(format!(
            "{unit}s {out_of_range} do not exist: the document has {unit}s 1-{}",
            read.total
        ));
    }
    if read.passages.iter().any(|passage| passage.cut) {
        options.push(format!(
            "A {unit} is too long for one answer: a larger max_tokens, or grep_document()"
        ));
    }
    options.push("Cite the document and the page".into());
    let summary = format!("{unit}s {} of {} of {name}", read.returned, read.total);
    let text = delimited(&format!("{name} {unit}s {}", read.returned), &read.text());
    let links = read.links(listed.doc());
    let next_call = read.remaining.as_ref().map(|remaining| {
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
        json!({ "tool": "get_page_content", "arguments": arguments })
    });
    let data = GetPageContentOutput {
        doc_name: name.to_owned(),
        total_pages: read.total,
        truncated: read.is_truncated(),
        requested_pages: read.requested,
        returned_pages: read.returned,
        content: read.passages,
        item: item.map(ItemRow::new),
        remaining: read.remaining,
        next_call,
        out_of_range: read.out_of_range,
    };
    ToolResult::new(data, summary)
        .with_text(text)
        .with_links(links)
        .with_options(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_by_reference_names_where_to_read_on() {
        let place = |to: Option<&str>, outside: Option<&str>| ItemContent {
            text: "see below".into(),
            to: to.map(str::to_owned),
            outside: outside.map(str::to_owned),
            approximate: false,
        };
        let content = [
            place(Some("ACME#0021"), None),
            ItemContent {
                approximate: true,
                ..place(Some("ACME#0004"), None)
            },
            place(Some("ACME#p=5-7"), None),
            place(None, Some("proxy statement")),
            place(None, None),
        ];
        let steps: Vec<String> = elsewhere("15", &content, |_| Some("Notes".into())).collect();
        assert_eq!(
            steps,
            [
                "Item 15 refers to section 0021 “Notes”: section_id: \"0021\"",
                "Item 15 refers to a place in section 0004 “Notes”: section_id: \"0004\"",
                "Item 15 refers to pages 5-7: pages: \"5-7\"",
                "Item 15 refers to the proxy statement",
            ]
        );
    }
}
