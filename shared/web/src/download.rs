//! Files of a document that the API does not have: its text as Markdown, its tables and facts as CSV.

use std::fmt::Write;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use stemma_archive::archive::{no_text, spawn_cpu};
use stemma_archive::{ApiError, FactsRequest, TableContent};
use stemma_document::text::own_text;
use stemma_gateway::AppState;
use stemma_gateway::extract::{HandlerError, Path, published_document};
use stemma_gateway::problem::Problem;

use crate::context::PageContext;

// Markdown has no deeper headings.
const MAX_HEADING: usize = 6;

/// `GET /documents/{doc}/text.md`
pub(crate) async fn markdown(
    State(state): State<AppState>,
    Path(doc): Path<String>,
    context: PageContext,
) -> Result<Response, HandlerError> {
    let archive = context.archive(&state)?;
    let listed = published_document(&archive, &doc)?;
    let published = archive.load_tree(&listed).await.map_err(ApiError::from)?;
    let published = published.ok_or_else(|| no_text(&listed))?;
    let body = archive
        .load_body(&published)
        .await
        .map_err(ApiError::from)?;
    let body = body.ok_or_else(|| no_text(&listed))?;
    let text = spawn_cpu(move || {
        let mut text = String::new();
        for (depth, section) in published.tree.walk() {
            let marks = "#".repeat(depth.min(MAX_HEADING));
            let own = own_text(section, &body);
            // The text of a section begins with its heading.
            let own = own.strip_prefix(&section.title).unwrap_or(&own).trim();
            // Writing to a string does not fail.
            let _ = write!(text, "{marks} {}\n\n{own}\n\n", section.title);
        }
        text
    });
    let text = text.await.map_err(ApiError::from)?;
    Ok(file("text/markdown; charset=utf-8", "text.md", text))
}

/// `GET /documents/{doc}/tables/{table}`
pub(crate) async fn table_csv(
    State(state): State<AppState>,
    Path((doc, table)): Path<(String, String)>,
    context: PageContext,
) -> Result<Response, HandlerError> {
    let archive = context.archive(&state)?;
    let label = &published_document(&archive, &doc)?.label;
    let content = archive.table(&format!("{label}#{table}")).await?;
    Ok(csv_file("table.csv", &table_rows(&content))?)
}

/// `GET /documents/{doc}/facts.csv`
pub(crate) async fn facts_csv(
    State(state): State<AppState>,
    Path(doc): Path<String>,
    context: PageContext,
) -> Result<Response, HandlerError> {
    let archive = context.archive(&state)?;
    // In one list: each page of one would read all facts again.
    let request = FactsRequest {
        document: published_document(&archive, &doc)?.label.clone(),
        dimensions: true,
        limit: usize::MAX,
        ..FactsRequest::default()
    };
    let heads = [
        "concept",
        "label",
        "from",
        "to",
        "unit",
        "value",
        "displayed",
        "sign",
        "dimensions",
        "page",
        "table",
        "row",
        "column",
    ];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    let list = archive.facts(&request).await?;
    rows.extend(list.facts.into_iter().map(|fact| {
        let members: Vec<String> = fact
            .dimensions
            .iter()
            .map(|dimension| format!("{}={}", dimension.axis, dimension.member))
            .collect();
        let page = fact.page.map(|page| page.to_string());
        let cell = fact.cell.as_ref();
        let row = cell.map(|cell| cell.row.to_string());
        let column = cell.map(|cell| cell.column.to_string());
        vec![
            fact.concept,
            fact.label,
            fact.from.unwrap_or_default(),
            fact.to.unwrap_or_default(),
            fact.unit.unwrap_or_default(),
            fact.value.unwrap_or_default(),
            fact.displayed,
            fact.sign.unwrap_or_default(),
            members.join("; "),
            page.unwrap_or_default(),
            fact.cell.map(|cell| cell.table).unwrap_or_default(),
            row.unwrap_or_default(),
            column.unwrap_or_default(),
        ]
    }));
    Ok(csv_file("facts.csv", &rows)?)
}

fn table_rows(content: &TableContent) -> Vec<Vec<String>> {
    let table = &content.table;
    let heads = table.columns.iter().map(|column| column.head.clone());
    let mut rows = vec![[String::new()].into_iter().chain(heads).collect::<Vec<_>>()];
    rows.extend(table.rows.iter().map(|row| {
        let cells = row.cells.iter().map(|cell| {
            let cell = cell.as_ref();
            cell.map(|cell| cell.value.clone().unwrap_or_else(|| cell.text.clone()))
                .unwrap_or_default()
        });
        [row.label.clone()].into_iter().chain(cells).collect()
    }));
    rows
}

fn csv_file(name: &str, rows: &[Vec<String>]) -> Result<Response, Problem> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let failed =
        |error: &dyn std::fmt::Display| Problem::new(500, "server.answer", error.to_string());
    for row in rows {
        let cells = row.iter().map(|cell| plain_cell(cell));
        writer.write_record(cells).map_err(|error| failed(&error))?;
    }
    let bytes = writer.into_inner().map_err(|error| failed(&error))?;
    Ok(file("text/csv; charset=utf-8", name, bytes))
}

// Spreadsheets run cells that begin like a formula (OWASP, CSV injection). Numbers with a sign are none, and neither is a sign.
fn plain_cell(cell: &str) -> String {
    let is_formula = cell.starts_with(['=', '+', '-', '@', '\t', '\r'])
        && cell != "-"
        && cell.parse::<f64>().is_err();
    if is_formula {
        format!("'{cell}")
    } else {
        cell.to_owned()
    }
}

fn file(content_type: &'static str, name: &str, content: impl IntoResponse) -> Response {
    let headers = [
        (header::CONTENT_TYPE, content_type.to_owned()),
        (
            header::CONTENT_DISPOSITION,
            format!("attachment; filename=\"{name}\""),
        ),
    ];
    (headers, content).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_of_hostile_tables_are_no_formulas() {
        for (cell, written) in [
            ("=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("-1749", "-1749"),
            ("-", "-"),
            ("+x", "'+x"),
            ("Net income", "Net income"),
        ] {
            assert_eq!(plain_cell(cell), written);
        }
    }
}
