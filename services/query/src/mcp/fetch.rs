//! `fetch`: the text of what `search` found, or of anything else a locator names.

use rmcp::model::Tool;
use serde_json::{Value, json};
use stemma_catalog::catalogue::Listed;
use stemma_catalog::locator::Fragment;

use super::answer::{Answer, DEFAULT_TOKENS, HARD_TOKENS, LEAST_TOKENS, fence};
use super::arguments::Arguments;
use super::browse_documents::metadata;
use super::call::{Call, SCHEME, name_of, page_address, section_address};
use super::failure::Failure;
use super::get_page_content::{links, text, wanted};
use super::reading::{Reading, Wanted};
use super::tools::reading;
use crate::ItemView;

pub(super) const NAME: &str = "fetch";
/// Characters of a title.
const TITLE_CHARS: usize = 400;

fn id_argument() -> Value {
    json!({ "type": "string", "description": "from search, or any locator: NAME#0019, NAME#item-7, NAME#p=5-7" })
}

/// How it is announced.
pub(super) fn tool() -> Tool {
    let takes = json!({
        "id": id_argument(),
        "max_tokens": { "type": "integer", "minimum": LEAST_TOKENS, "maximum": HARD_TOKENS, "default": DEFAULT_TOKENS },
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
    reading(
        NAME,
        "Text of a section, Item, pages or document by its id.",
        takes,
        &["id"],
        gives,
    )
}

/// The same with nothing but an id.
pub(super) fn id_only() -> Tool {
    let about = "Fetch the text of a search result by its id; a result that is cut names the id of the rest.";
    reading(
        NAME,
        about,
        json!({ "id": id_argument() }),
        &["id"],
        json!({}),
    )
}

/// Calls it.
pub(super) async fn call(call: &mut Call<'_>, mut arguments: Arguments) -> Result<Answer, Failure> {
    let id = arguments.needed("id")?;
    let max_tokens = arguments.number("max_tokens", 1..=1_000_000)?;
    arguments.none_left()?;
    let named = call.named(&id, None)?;
    let (listed, published) = call.published(&named).await?;
    let (what, item) = match &named.fragment {
        None => (
            Wanted::Pages(
                stemma_document::PageSpan::new(1, u32::MAX)
                    .into_iter()
                    .collect(),
            ),
            None,
        ),
        part => wanted(listed, &published, part.as_ref(), None)?,
    };
    let section = match &what {
        Wanted::Section(id, _) => Some(*id),
        Wanted::Pages(_) => None,
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
    let title = title(listed, named.fragment.as_ref(), &path);
    let url = match (section, reading.passages.first()) {
        (Some(id), _) => section_address(listed.doc(), id),
        (None, Some(first)) if named.fragment.is_some() => page_address(listed.doc(), first.page),
        _ => format!("{SCHEME}{}", listed.doc()),
    };
    Ok(answer(
        listed,
        named.fragment.as_ref(),
        &reading,
        (title, url),
        item,
    ))
}

/// What a person would call it.
fn title(listed: &Listed, part: Option<&Fragment>, path: &str) -> String {
    let name = name_of(listed);
    let title = match part {
        None => name.to_owned(),
        Some(_) if !path.is_empty() => format!("{name} › {path}"),
        Some(fragment) => format!("{name} › {fragment}"),
    };
    title.chars().take(TITLE_CHARS).collect()
}

fn answer(
    listed: &Listed,
    part: Option<&Fragment>,
    reading: &Reading,
    (title, url): (String, String),
    item: Option<ItemView>,
) -> Answer {
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
    let body = fence(&format!("{name} {unit}s {}", reading.returned), &text);
    let data = json!({ "id": id, "title": title, "text": text, "url": url, "truncated": reading.is_truncated() });
    let links = links(listed.doc(), reading);
    let mut answer = Answer::new(data, summary)
        .with("metadata", about.into())
        .body(body)
        .links(links)
        .bare_as_json();
    if let Some(rest) = rest {
        answer = answer
            .with("remaining", json!(reading.remaining))
            .with(
                "next_call",
                json!({ "tool": NAME, "arguments": { "id": rest } }),
            )
            .option(format!("For the rest: fetch(id: \"{rest}\")"));
    }
    answer.option("Cite the document and the page")
}

/// The id under which the rest can be fetched. Pages of a section are fetched whole, which may bring a little of the
/// sections beside it.
fn rest(reading: &Reading, label: &str, part: Option<&Fragment>) -> Option<String> {
    let remaining = reading.remaining.as_ref()?;
    let pages = format!("p={remaining}").parse::<Fragment>().ok()?;
    (part != Some(&pages)).then(|| format!("{label}#{pages}"))
}
