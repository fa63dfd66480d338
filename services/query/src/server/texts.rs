//! Text: of sections, Items and pages.

use serde::Serialize;
use stemma_catalog::locator::{Fragment, parse_pages, section_locator, show_pages};
use utoipa::ToSchema;

use super::asked::{Answer, Asked, Ready, json};
use super::documents::section_id;
use super::problem::Problem;
use crate::{DocumentView, ItemView, PageView, Part, SectionStat, TextView};

/// The most pages of one answer.
const MAX_PAGES: usize = 200;

/// A section of a document.
#[derive(Serialize, ToSchema)]
pub(super) struct SectionAnswer {
    document: DocumentView,
    #[serde(flatten)]
    section: SectionStat,
    /// With all sub-sections.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

/// An Item of a filing.
#[derive(Serialize, ToSchema)]
pub(super) struct ItemAnswer {
    document: DocumentView,
    item: ItemView,
    /// With all sub-sections.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    /// Its pages, where only an index says where it is.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pages: Vec<PageView>,
}

/// A section
///
/// What is known of it; with `text=true` its text with all sub-sections.
#[utoipa::path(get, path = "/v1/documents/{doc}/sections/{id}", tag = "text",
    params(
        ("doc" = String, Path), ("id" = String, Path, pattern = "^[0-9]{4,9}$", description = "0007"), ("collection" = Option<String>, Query),
        ("text" = Option<bool>, Query),
    ),
    responses((status = 200, body = Ready<SectionAnswer>)))]
pub(super) async fn section(mut asked: Asked) -> Answer {
    let with_text = asked.parameters.flag("text")?;
    let id = section_id(asked.segment("id"))?;
    let listed = asked.published()?;
    let locator = section_locator(&listed.label, id);
    let stat = asked.reader.stat(&locator).await?;
    let text = if with_text {
        asked.reader.text(&locator, Part::Full).await?.text
    } else {
        None
    };
    let section = stat
        .section
        .ok_or_else(|| Problem::new(404, "locator.no_section", "the tree was removed meanwhile"))?;
    json(Ready::Yes(SectionAnswer {
        document: stat.document,
        section,
        text,
    }))
    .await
}

/// An Item of a filing
///
/// How it is answered; with `text=true` its text, or its pages where only an index says where it is.
#[utoipa::path(get, path = "/v1/documents/{doc}/items/{item}", tag = "text",
    params(
        ("doc" = String, Path), ("item" = String, Path, pattern = r"^([IV]{1,3}\.)?[0-9]{1,2}([A-Z]|\.[0-9]{2})?$", description = "1A, II.1A, 2.02"),
        ("collection" = Option<String>, Query), ("text" = Option<bool>, Query),
    ),
    responses((status = 200, body = Ready<ItemAnswer>)))]
pub(super) async fn item(mut asked: Asked) -> Answer {
    let with_text = asked.parameters.flag("text")?;
    let name = asked.segment("item");
    let Ok(fragment @ Fragment::Item { .. }) = format!("item-{name}").parse::<Fragment>() else {
        return Err(Problem::parameter(400, "item", "an Item is written 1A, II.1A or 2.02").into());
    };
    let listed = asked.published()?;
    let locator = format!("{}#{fragment}", listed.label);
    let read = asked.reader.text(&locator, Part::Full).await?;
    let of_map = match read.item {
        Some(item) => Some(item),
        // A tree without a map: what titles say.
        None => {
            let all = asked.reader.items(&listed.label).await?.items;
            let section = read
                .section
                .as_ref()
                .map(|section| section.section_id.as_str());
            all.into_iter()
                .find(|item| item.section_id.as_deref() == section && section.is_some())
        }
    };
    let item = of_map
        .ok_or_else(|| Problem::new(404, "locator.no_item", "the document has no such Item"))?;
    let text = read.text.filter(|_| with_text);
    let pages = if with_text { read.pages } else { Vec::new() };
    json(Ready::Yes(ItemAnswer {
        document: DocumentView::of(listed),
        item,
        text,
        pages,
    }))
    .await
}

/// The text of pages
///
/// At most 200 pages, counted from the first page of the file.
#[utoipa::path(get, path = "/v1/documents/{doc}/pages", tag = "text",
    params(
        ("doc" = String, Path), ("collection" = Option<String>, Query),
        ("range" = String, Query, pattern = "^[1-9][0-9]{0,4}(-[1-9][0-9]{0,4})?(,[1-9][0-9]{0,4})*$", description = "physical pages: 5-7,9"),
    ),
    responses((status = 200, body = Ready<TextView>)))]
pub(super) async fn pages(mut asked: Asked) -> Answer {
    let range = asked.parameters.text("range").unwrap_or_default();
    let Some(spans) = parse_pages(&range) else {
        return Err(
            Problem::parameter(400, "range", "range names physical pages, such as 5-7,9").into(),
        );
    };
    let listed = asked.published()?;
    if spans
        .iter()
        .map(|span| span.len())
        .fold(0, usize::saturating_add)
        > MAX_PAGES
    {
        let detail = format!("at most {MAX_PAGES} pages are read at once");
        return Err(Problem::parameter(422, "range", detail).into());
    }
    let locator = format!("{}#p={}", listed.label, show_pages(&spans));
    json(Ready::Yes(asked.reader.text(&locator, Part::Full).await?)).await
}
