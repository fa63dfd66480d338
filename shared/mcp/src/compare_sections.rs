//! `compare_sections`: two filings side by side, section by section.

use rmcp::model::{Resource, Tool};
use serde_json::{Value, json};
use stemma_archive::{CompareRequest, Comparison, SectionPair};
use stemma_diff::DiffStatus;
use stemma_document::DocId;

use crate::arguments::Arguments;
use crate::error::ToolError;
use crate::paging::{PageRequest, page_request};
use crate::tool_context::{ToolContext, link, section_address};
use crate::tool_result::{ToolResult, delimited, take_fitting};
use crate::tools::{items, read_only_tool};

pub(crate) const NAME: &str = "compare_sections";
const SENTENCES: usize = 2;
const MAX_ITEMS: usize = 30;
const MAX_LINKS: usize = 4;
const TITLE_CHARS: usize = 100;
const SENTENCE_CHARS: usize = 240;

pub(crate) fn tool() -> Tool {
    let takes = json!({
        "left": { "type": "string", "description": "document before, or part; else the filing before right" },
        "right": { "type": "string" },
        "company": { "type": "string" },
        "years": { "type": "string", "description": "with company, instead: 2022-2023" },
        "item": { "type": "string" },
        "unchanged": { "type": "boolean", "description": "list those too" },
        "limit": { "type": "integer", "maximum": 200, "default": 10 },
        "cursor": { "type": "string" },
    });
    let gives = json!({
        "pairs": items(json!({ "outcome": { "type": "string" } })),
        "total": { "type": "integer" },
        "next_cursor": { "type": ["string", "null"] },
    });
    let about = "Sections of two filings aligned: modified, added, removed, renamed, moved, with key sentences and pages. \
Without a model.";
    read_only_tool(NAME, about, takes, &[], gives)
}

pub(crate) async fn call(
    call: &mut ToolContext<'_>,
    mut arguments: Arguments,
) -> Result<ToolResult, ToolError> {
    let left = arguments.text("left")?;
    let right = arguments.text("right")?;
    let company = arguments.text("company")?;
    let years = arguments.text("years")?;
    let item = arguments
        .text("item")?
        .map(|item| item.trim_start_matches("Item").trim().to_owned());
    let unchanged = arguments.flag("unchanged")?;
    let filters = format!("{left:?} {right:?} {company:?} {years:?} {item:?} {unchanged}");
    let page = page_request(&mut arguments, 200, &filters)?;
    arguments.reject_unknown()?;
    let (left, right) = match (left, right, company) {
        (left, Some(right), None) => (left, right),
        // A single document is compared with the previous filing of its issuer.
        (Some(only), None, None) => (None, only),
        (None, None, Some(company)) => sides_for_years(call, &company, years.as_deref())?,
        _ => {
            return Err(ToolError::invalid(
                "say which documents: `left` and `right`, or `company` and `years`",
            )
            .with_option("compare_sections(right: NAME) compares with the filing before it"));
        }
    };
    let located = |name: &str| -> Result<String, ToolError> {
        let document = call.resolve_document(name, None)?;
        let label = call.listed(&document)?.label.clone();
        Ok(document
            .fragment
            .map_or(label.clone(), |part| format!("{label}#{part}")))
    };
    let left = left.as_deref().map(located).transpose()?;
    let right = located(&right)?;
    let view = call
        .archive
        .compare(&CompareRequest {
            left,
            right,
            item,
            sentences: Some(SENTENCES),
            all_pairs: true,
            ..CompareRequest::default()
        })
        .await?;
    Ok(answer(call, &view, &page, unchanged))
}

// Without a second year, the previous year is compared.
fn sides_for_years(
    call: &ToolContext<'_>,
    company: &str,
    years: Option<&str>,
) -> Result<(Option<String>, String), ToolError> {
    let digits = years
        .unwrap_or_default()
        .split(|c: char| !c.is_ascii_digit());
    let mut years: Vec<&str> = digits.filter(|year| !year.is_empty()).collect();
    years.sort_unstable();
    years.dedup();
    let of = |year: &str| -> Result<String, ToolError> {
        Ok(call
            .archive
            .filing_for_year(company, None, year)?
            .label
            .clone())
    };
    match years.as_slice() {
        [year] => Ok((None, of(year)?)),
        [before, after] => Ok((Some(of(before)?), of(after)?)),
        _ => Err(ToolError::invalid("`years` are one or two fiscal years")
            .with_option("years: \"2022-2023\"")),
    }
}

fn answer(
    call: &ToolContext<'_>,
    view: &Comparison,
    page: &PageRequest,
    unchanged: bool,
) -> ToolResult {
    let pairs: Vec<&SectionPair> = view
        .pairs
        .iter()
        .filter(|pair: &&SectionPair| {
            unchanged || pair.outcome != DiffStatus::Unchanged || pair.renamed || pair.moved
        })
        .collect();
    let total = pairs.len();
    let rows = pairs
        .iter()
        .skip(page.offset)
        .take(page.limit)
        .map(|pair| row(pair));
    let churn: Vec<Value> = view.items.iter().take(MAX_ITEMS).map(churn).collect();
    let room = call.form.limit(None);
    let rows = take_fitting(
        rows,
        room.saturating_sub(if page.offset == 0 {
            churn.len() * 14
        } else {
            0
        }),
    );
    let links = links(view, &pairs[page.offset.min(total)..], rows.len());
    let next = page.offset + rows.len();
    let next = (next < total).then_some(next);
    let body = delimited("comparison", &listing(&rows));
    let mut data = json!({
        "left": view.left.locator,
        "right": view.right.locator,
        "counts": view.counts,
        "changed": view.changed.changed,
        "total": total,
        "next_cursor": next.map(|next| page.cursor(next)),
    });
    if page.offset == 0 {
        data["items"] = churn.into();
    }
    if !view.notes.is_empty() {
        data["notes"] = json!(view.notes);
    }
    let answer = ToolResult::new(data, summary(view))
        .with_field("pairs", rows.into())
        .text_body(body)
        .resources(links);
    let answer = answer.with_option(
        "Text of either side: get_page_content(doc_name, section_id); cite both pages",
    );
    match next {
        Some(next) => answer.with_option(format!(
            "More: the same call with cursor: \"{}\"",
            page.cursor(next)
        )),
        None => answer,
    }
}

fn summary(view: &Comparison) -> String {
    let counts = &view.counts;
    let changed = view
        .changed
        .changed
        .map(|share| format!("{:.0}% of words changed; ", share * 100.0));
    format!(
        "{} to {}: {}{} modified, {} added, {} removed, {} unchanged, {} renamed, {} moved{}",
        view.left.locator,
        view.right.locator,
        changed.unwrap_or_default(),
        counts.modified,
        counts.added,
        counts.removed,
        counts.unchanged,
        counts.renamed,
        counts.moved,
        view.notes
            .iter()
            .map(|note| format!("; {note}"))
            .collect::<String>()
    )
}

fn churn(item: &stemma_archive::ItemTextChurn) -> Value {
    let side = item.right.as_ref().or(item.left.as_ref());
    let name = side.and_then(|side| {
        side.item
            .clone()
            .or_else(|| Some(side.section.section_id.clone()))
    });
    json!({ "item": name, "changed": item.churn.changed })
}

fn row(pair: &SectionPair) -> Value {
    let side = |side: &stemma_archive::PairedSection| {
        let pages = side.section.pages;
        let lines = side.section.lines;
        let span = pages.or(lines).map(|(start, end)| {
            if start == end {
                start.to_string()
            } else {
                format!("{start}-{end}")
            }
        });
        json!({
            "section_id": side.section.section_id,
            "title": cut(&side.section.title, TITLE_CHARS),
            if pages.is_some() { "pages" } else { "lines" }: span,
        })
    };
    let sentence = |sentences: &stemma_archive::ChangedSentence| json!({ "page": sentences.page, "text": cut(&sentences.text, SENTENCE_CHARS) });
    let mut row = json!({ "outcome": pair.outcome.as_str() });
    let sides = [("left", &pair.left), ("right", &pair.right)];
    sides
        .into_iter()
        .filter_map(|(name, of)| Some((name, of.as_ref()?)))
        .for_each(|(name, of)| row[name] = side(of));
    if pair.outcome == DiffStatus::Modified {
        row["similarity"] = json!(pair.similarity);
    }
    [("renamed", pair.renamed), ("moved", pair.moved)]
        .into_iter()
        .filter(|(_, is)| *is)
        .for_each(|(name, _)| row[name] = json!(true));
    if let Some(place) = &pair.stands_in {
        row["stands_in"] = json!(place);
    }
    for (name, sentences) in [("removed", &pair.removed), ("added", &pair.added)] {
        if !sentences.is_empty() {
            row[name] = sentences.iter().map(sentence).collect();
        }
    }
    if !pair.reworded.is_empty() {
        row["reworded"] = pair.reworded.iter().map(|both: &stemma_archive::RewordedSentence| json!({ "left": sentence(&both.left), "right": sentence(&both.right) })).collect();
    }
    row
}

fn cut(text: &str, most: usize) -> String {
    if text.chars().nth(most).is_none() {
        text.to_owned()
    } else {
        text.chars().take(most).chain(['…']).collect()
    }
}

fn listing(rows: &[Value]) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let side = |side: &Value| match side["pages"].as_str() {
        Some(pages) => format!("#{} p {pages}", text(&side["section_id"])),
        None => format!(
            "#{} lines {}",
            text(&side["section_id"]),
            text(&side["lines"])
        ),
    };
    let mut lines = Vec::new();
    for row in rows {
        let places: Vec<String> = ["left", "right"]
            .iter()
            .filter(|name| row[**name].is_object())
            .map(|name| side(&row[*name]))
            .collect();
        let title = if row["right"].is_object() {
            &row["right"]["title"]
        } else {
            &row["left"]["title"]
        };
        let mut line = format!(
            "{} {}  {}",
            text(&row["outcome"]),
            places.join(" → "),
            text(title)
        );
        if row["renamed"] == true {
            line.push_str(&format!(" (was {})", text(&row["left"]["title"])));
        }
        if row["moved"] == true {
            line.push_str(" (moved)");
        }
        lines.push(line);
        for (name, sign) in [("removed", "-"), ("added", "+")] {
            let sentences = row[name].as_array().into_iter().flatten();
            lines.extend(
                sentences.map(|sentences| format!("  {sign} {}", text(&sentences["text"]))),
            );
        }
        for both in row["reworded"].as_array().into_iter().flatten() {
            lines.push(format!(
                "  ~ {} → {}",
                text(&both["left"]["text"]),
                text(&both["right"]["text"])
            ));
        }
    }
    lines.join("\n")
}

fn links(view: &Comparison, pairs: &[&SectionPair], count: usize) -> Vec<Resource> {
    let Ok(doc) = view.right.document.doc_id.parse::<DocId>() else {
        return Vec::new();
    };
    let sections = pairs
        .iter()
        .take(count)
        .filter_map(|pair| pair.right.as_ref());
    sections
        .take(MAX_LINKS)
        .map(|side: &stemma_archive::PairedSection| {
            link(
                section_address(doc, &side.section.section_id),
                &cut(&side.section.title, 60),
            )
        })
        .collect()
}
