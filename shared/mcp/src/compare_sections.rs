//! `compare_sections`: two filings side by side, section by section.

use rmcp::handler::server::tool::schema_for_output;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::Resource;
use rmcp::{tool, tool_router};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use stemma_archive::{
    ChangedSentence, CompareRequest, Comparison, ItemTextChurn, OutcomeCounts, PairedSection,
    SectionInfo, SectionPair,
};
use stemma_diff::DiffStatus;
use stemma_document::DocId;

use crate::error::ToolError;
use crate::paging::{PageRequest, default_limit};
use crate::tool_context::{ToolContext, link, part_locator, section_address};
use crate::tool_result::{
    ResultFormat, ToolOutcome, ToolResult, delimited, first_chars, format_span, take_fitting,
};

const SENTENCES: usize = 2;
const MAX_ITEMS: usize = 30;
// Estimated tokens of an entry of `items`.
const ITEM_TOKENS: usize = 14;
const MAX_LINKS: usize = 4;
const TITLE_CHARS: usize = 100;
const LINK_CHARS: usize = 60;
const SENTENCE_CHARS: usize = 240;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct CompareSectionsArguments {
    /// document before, or part; else the filing before right
    left: Option<String>,
    right: Option<String>,
    company: Option<String>,
    /// with company, instead: 2022-2023
    years: Option<String>,
    item: Option<String>,
    /// list those too
    #[serde(default)]
    unchanged: bool,
    #[serde(default = "default_limit")]
    #[schemars(range(min = 1, max = 200))]
    limit: usize,
    #[serde(default)]
    #[schemars(extend("x-hidden" = true))]
    offset: usize,
    cursor: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct CompareSectionsOutput {
    #[schemars(skip)]
    left: String,
    #[schemars(skip)]
    right: String,
    #[schemars(skip)]
    counts: OutcomeCounts,
    #[schemars(skip)]
    changed: Option<f64>,
    total: usize,
    #[schemars(with = "Vec<ListedPair>")]
    pairs: Vec<Value>,
    // Only on the first page.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    items: Option<Vec<ItemChurn>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(skip)]
    notes: Vec<String>,
    next_cursor: Option<String>,
}

// The field of a pair that every pair has.
#[derive(JsonSchema)]
#[schemars(inline)]
struct ListedPair {
    #[expect(dead_code, reason = "only its schema is used")]
    outcome: String,
}

#[derive(Serialize)]
struct ItemChurn {
    item: Option<String>,
    changed: Option<f64>,
}

#[tool_router(router = compare_sections_router, vis = "pub(crate)")]
impl ToolContext {
    #[tool(
        description = "Sections of two filings aligned: modified, added, removed, renamed, moved, with key sentences and pages.",
        output_schema = schema_for_output::<CompareSectionsOutput>()
    )]
    async fn compare_sections(
        &self,
        Parameters(arguments): Parameters<CompareSectionsArguments>,
    ) -> ToolOutcome<CompareSectionsOutput> {
        let item = arguments.item;
        let list = format!(
            "{:?} {:?} {:?} {:?} {item:?} {}",
            arguments.left,
            arguments.right,
            arguments.company,
            arguments.years,
            arguments.unchanged
        );
        let cursor = arguments.cursor.as_deref();
        let page = PageRequest::new(arguments.limit, arguments.offset, cursor, &list)?;
        let (left, right) = match (arguments.left, arguments.right, arguments.company) {
            (left, Some(right), None) => (left, right),
            // A single document is compared with the previous filing of its issuer.
            (Some(only), None, None) => (None, only),
            (None, None, Some(company)) => {
                self.filings_of_years(&company, arguments.years.as_deref())?
            }
            _ => {
                return Err(ToolError::invalid(
                    "state which documents: `left` and `right`, or `company` and `years`",
                )
                .with_option("compare_sections(right: NAME) compares with the filing before it"));
            }
        };
        let left = left.map(|name| self.document_locator(&name)).transpose()?;
        let request = CompareRequest {
            left,
            right: self.document_locator(&right)?,
            item,
            sentences: Some(SENTENCES),
            all_pairs: true,
            ..CompareRequest::default()
        };
        let comparison = self.archive.compare(&request).await?;
        Ok(comparison_result(
            &comparison,
            &page,
            arguments.unchanged,
            self.format,
        ))
    }
}

impl ToolContext {
    fn document_locator(&self, name: &str) -> Result<String, ToolError> {
        let document = self.resolve_document(name, None)?;
        let label = &self.listed(&document)?.label;
        Ok(part_locator(label, document.fragment.as_ref()))
    }

    // Without a second year, the previous filing is compared.
    fn filings_of_years(
        &self,
        company: &str,
        years: Option<&str>,
    ) -> Result<(Option<String>, String), ToolError> {
        let digits = years
            .unwrap_or_default()
            .split(|c: char| !c.is_ascii_digit());
        let mut years: Vec<&str> = digits.filter(|year| !year.is_empty()).collect();
        years.sort_unstable();
        years.dedup();
        match years.as_slice() {
            [year] => Ok((None, self.filing_of_year(company, year)?)),
            [before, after] => {
                let before = self.filing_of_year(company, before)?;
                Ok((Some(before), self.filing_of_year(company, after)?))
            }
            _ => Err(ToolError::invalid("`years` are one or two fiscal years")
                .with_option("years: \"2022-2023\"")),
        }
    }

    fn filing_of_year(&self, company: &str, year: &str) -> Result<String, ToolError> {
        let filing = self.archive.filing_for_year(company, None, year)?;
        Ok(filing.label.clone())
    }
}

fn comparison_result(
    comparison: &Comparison,
    page: &PageRequest,
    unchanged: bool,
    format: ResultFormat,
) -> ToolResult<CompareSectionsOutput> {
    let pairs: Vec<&SectionPair> = comparison
        .pairs
        .iter()
        .filter(|pair| {
            unchanged || pair.outcome != DiffStatus::Unchanged || pair.renamed || pair.moved
        })
        .collect();
    let total = pairs.len();
    let items = (page.offset == 0).then(|| {
        let items = comparison.items.iter().take(MAX_ITEMS);
        items.map(ItemChurn::new).collect::<Vec<_>>()
    });
    let room = format.limit(None);
    let room = room.saturating_sub(items.as_ref().map_or(0, Vec::len) * ITEM_TOKENS);
    let requested = pairs.iter().skip(page.offset).take(page.limit);
    let rows = take_fitting(requested.map(|pair| pair_json(pair)), room);
    let page_pairs = &pairs[page.offset.min(total)..][..rows.len()];
    let links = links(comparison, page_pairs);
    let next = page.offset + rows.len();
    let next_cursor = (next < total).then(|| page.cursor(next));
    let text = delimited("comparison", &listing(page_pairs));
    let more = next_cursor
        .as_ref()
        .map(|cursor| format!("More: the same call with cursor: \"{cursor}\""));
    let data = CompareSectionsOutput {
        left: comparison.left.locator.clone(),
        right: comparison.right.locator.clone(),
        counts: comparison.counts,
        changed: comparison.changed.changed,
        total,
        pairs: rows,
        items,
        notes: comparison.notes.clone(),
        next_cursor,
    };
    ToolResult::new(data, summary(comparison))
        .with_text(text)
        .with_links(links)
        .with_option("Text of either side: get_page_content(doc_name, section_id); cite both pages")
        .with_options(more)
}

fn summary(comparison: &Comparison) -> String {
    let counts = &comparison.counts;
    let changed = comparison
        .changed
        .changed
        .map(|share| format!("{:.0}% of words changed; ", share * 100.0));
    format!(
        "{} to {}: {}{} modified, {} added, {} removed, {} unchanged, {} renamed, {} moved{}",
        comparison.left.locator,
        comparison.right.locator,
        changed.unwrap_or_default(),
        counts.modified,
        counts.added,
        counts.removed,
        counts.unchanged,
        counts.renamed,
        counts.moved,
        comparison
            .notes
            .iter()
            .map(|note| format!("; {note}"))
            .collect::<String>()
    )
}

impl ItemChurn {
    fn new(item: &ItemTextChurn) -> Self {
        let side = item.right.as_ref().or(item.left.as_ref());
        let name = side.map(|side| side.item.as_ref().unwrap_or(&side.section.section_id));
        Self {
            item: name.cloned(),
            changed: item.churn.changed,
        }
    }
}

fn pair_json(pair: &SectionPair) -> Value {
    let mut row = json!({ "outcome": pair.outcome.as_str() });
    for (name, side) in [("left", &pair.left), ("right", &pair.right)] {
        if let Some(PairedSection { section, .. }) = side {
            let (unit, span) = span(section);
            row[name] = json!({
                "section_id": section.section_id,
                "title": shortened(&section.title, TITLE_CHARS),
                unit: span,
            });
        }
    }
    if pair.outcome == DiffStatus::Modified {
        row["similarity"] = json!(pair.similarity);
    }
    for (name, is_set) in [("renamed", pair.renamed), ("moved", pair.moved)] {
        if is_set {
            row[name] = json!(true);
        }
    }
    if let Some(place) = &pair.stands_in {
        row["stands_in"] = json!(place);
    }
    for (name, sentences) in [("removed", &pair.removed), ("added", &pair.added)] {
        if !sentences.is_empty() {
            row[name] = sentences.iter().map(sentence_json).collect();
        }
    }
    if !pair.reworded.is_empty() {
        row["reworded"] = pair
            .reworded
            .iter()
            .map(|both| json!({ "left": sentence_json(&both.left), "right": sentence_json(&both.right) }))
            .collect();
    }
    row
}

fn sentence_json(sentence: &ChangedSentence) -> Value {
    json!({ "page": sentence.page, "text": shortened(&sentence.text, SENTENCE_CHARS) })
}

// The unit of a section's extent, and the extent.
fn span(section: &SectionInfo) -> (&'static str, Option<String>) {
    match section.pages {
        Some(pages) => ("pages", Some(format_span(pages))),
        None => ("lines", section.lines.map(format_span)),
    }
}

fn shortened(text: &str, chars: usize) -> String {
    let first = first_chars(text, chars);
    let ellipsis = if first.len() < text.len() { "…" } else { "" };
    format!("{first}{ellipsis}")
}

fn listing(pairs: &[&SectionPair]) -> String {
    let mut lines = Vec::new();
    for pair in pairs {
        let (titles, places): (Vec<String>, Vec<String>) = [&pair.left, &pair.right]
            .into_iter()
            .flatten()
            .map(|side| {
                (
                    shortened(&side.section.title, TITLE_CHARS),
                    place(&side.section),
                )
            })
            .unzip();
        let mut line = format!(
            "{} {}  {}",
            pair.outcome.as_str(),
            places.join(" → "),
            titles.last().map_or("", String::as_str)
        );
        if pair.renamed {
            line.push_str(&format!(" (was {})", titles[0]));
        }
        if pair.moved {
            line.push_str(" (moved)");
        }
        lines.push(line);
        for (sign, sentences) in [("-", &pair.removed), ("+", &pair.added)] {
            for one in sentences {
                lines.push(format!("  {sign} {}", shortened(&one.text, SENTENCE_CHARS)));
            }
        }
        for both in &pair.reworded {
            let left = shortened(&both.left.text, SENTENCE_CHARS);
            let right = shortened(&both.right.text, SENTENCE_CHARS);
            lines.push(format!("  ~ {left} → {right}"));
        }
    }
    lines.join("\n")
}

fn place(section: &SectionInfo) -> String {
    let (unit, span) = span(section);
    let unit = if unit == "pages" { "p" } else { unit };
    let span = span.unwrap_or_default();
    format!("#{} {unit} {span}", section.section_id)
}

fn links(comparison: &Comparison, pairs: &[&SectionPair]) -> Vec<Resource> {
    let Ok(doc) = comparison.right.document.doc_id.parse::<DocId>() else {
        return Vec::new();
    };
    pairs
        .iter()
        .filter_map(|pair| pair.right.as_ref())
        .take(MAX_LINKS)
        .map(|side| {
            link(
                section_address(doc, &side.section.section_id),
                &shortened(&side.section.title, LINK_CHARS),
            )
        })
        .collect()
}
