//! A document: its sections next to its pages, Items, tables, facts, and what is known of it.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use stemma_archive::{ApiError, Archive, StatResponse, TextResponse, TextScope, shell_quoted};
use stemma_catalog::catalog::CatalogDocument;
use stemma_catalog::locator::{Fragment, Locator};
use stemma_document::{Extent, Gap, PublishedTree, Section, SectionId, SectionTree};
use stemma_gateway::AppState;
use stemma_gateway::extract::{Path, find_document};
use stemma_gateway::problem::Problem;

use crate::archive_page::{doubt_mark, state_badge};
use crate::context::{PageContext, encoded};
use crate::description_page;
use crate::document_parts::{self, MAX_ROWS};
use crate::layout::{Screen, collection_field, page};
use crate::page_view::PageView;
use crate::reading_layer::{cell_list, legend};
use crate::section_list::{place, section_list, section_url};
use crate::text::{Line, Message, Passage, capitalized, counted, grouped};

// Of the text of a section. The rest is in the download.
const MAX_TEXT_BYTES: usize = 200_000;

/// A document whose page is rendered.
pub(crate) struct DocumentView {
    pub label: String,
    pub stat: StatResponse,
}

const VIEWS: [(&str, &str); 5] = [
    ("", "Sections"),
    ("items", "Items"),
    ("tables", "Tables"),
    ("facts", "Facts"),
    ("about", "About"),
];

/// `GET /documents/{doc}`
pub(crate) async fn document(
    State(state): State<AppState>,
    Path(doc): Path<String>,
    context: PageContext,
) -> Result<Response, Problem> {
    let archive = context.archive(&state)?;
    let listed = find_document(&archive, &doc)?;
    // Held while the page is made: a tree too large for the cache is then read once, not by each part of the page.
    let published = archive.load_tree(&listed).await.map_err(ApiError::from)?;
    let stat = archive.stat(&listed.label).await?;
    let view = DocumentView {
        label: listed.label.clone(),
        stat,
    };
    let name = context.param("view").unwrap_or_default();
    let part = match published {
        None => unfinished(&archive, &view).await?,
        Some(published) => match name {
            "items" => document_parts::items(&context, &view),
            "tables" => document_parts::tables(&context, &archive, &view).await?,
            "facts" => document_parts::facts(&context, &archive, &view).await?,
            "about" => document_parts::about(&context, &view, &published),
            _ => sections(&context, &archive, &listed, &view, &published).await?,
        },
    };
    let body = html! {
        (heading(&context, &view, name))
        (part.body)
    };
    Ok(page(
        &context,
        Some(Screen::Archive),
        &format!("{} · {}", part.title, view.stat.document.name),
        &body,
        &part.elsewhere,
    ))
}

pub(crate) struct Part {
    pub title: String,
    pub body: Markup,
    pub elsewhere: Vec<String>,
}

fn heading(context: &PageContext, view: &DocumentView, current: &str) -> Markup {
    let document = &view.stat.document;
    let facts = document.facts.as_ref();
    let values = facts.into_iter().flat_map(|facts| {
        [&facts.issuer, &facts.form, &facts.fiscal_year]
            .into_iter()
            .filter_map(|fact| fact.as_ref().map(|fact| fact.value.as_str()))
    });
    let known = VIEWS.iter().any(|(name, _)| *name == current);
    html! {
        nav.crumbs aria-label="Position" { a href=(context.url("/", &[])) { "Archive" } " › " bdi { (Line(&document.path)) } }
        h1.title { bdi { (Line(&document.name)) } }
        p.facts {
            @for value in values { span { bdi { (Line(value)) } } }
            (state_badge(document))
            @if let Some(pages) = document.pages { span { (counted(pages.into(), "page")) } }
            @if let Some(sections) = document.sections { span { (counted(sections.into(), "section")) } }
            @if let Some(tokens) = document.tokens { span { (counted(tokens.into(), "token")) } }
            @if let Some(doubt) = document.doubt { span { "doubt " (doubt_mark(doubt)) } }
        }
        @if document.sections.is_some() {
            nav.tabs aria-label="Views of the document" { ul {
                @for (name, title) in VIEWS {
                    @let is_current = name == current || (name.is_empty() && !known);
                    li { a href=(context.document_url(&view.label, &[("view", name)])) aria-current=[is_current.then_some("page")] { (title) } }
                }
            } }
        }
    }
}

// Why there is no tree.
async fn unfinished(archive: &Archive, view: &DocumentView) -> Result<Part, Problem> {
    let why = archive.why(&view.label).await?;
    Ok(Part {
        title: "No tree".into(),
        body: html! {
            h2 { "This document has no tree" @if view.stat.document.failure.is_none() { " yet" } }
            p { (Message(&capitalized(&why.cause))) "." }
            @if let Some(next) = &why.next { p { "Next: " (Message(next)) } }
            @if why.artifacts > 0 { p.note { (counted(why.artifacts as u64, "result")) " of stages are stored, and not computed again." } }
        },
        elsewhere: vec![format!("stemma why {}", shell_quoted(&view.label))],
    })
}

// What is shown of a document next to its tree.
struct Place {
    section: Option<SectionId>,
    text: Option<TextResponse>,
    page: Option<u32>,
}

impl Place {
    async fn find(
        context: &PageContext,
        archive: &Archive,
        view: &DocumentView,
        tree: &SectionTree,
    ) -> Result<Self, Problem> {
        let count = match tree.extent {
            Extent::Pages(count) => count,
            Extent::Lines(_) => 0,
        };
        let page = context.param("page").and_then(|page| page.parse().ok());
        let page = page.filter(|page| (1..=count).contains(page));
        let first = (count > 0).then_some(1);
        let Some(at) = context.param("at") else {
            return Ok(Self {
                section: None,
                text: None,
                page: page.or(first),
            });
        };
        let locator = format!("{}#{at}", view.label);
        let text = archive.text(&locator, TextScope::Own).await?;
        let section = text.section.as_ref();
        let id = section.and_then(|section| section.section_id.parse().ok());
        let start = section
            .and_then(|section| section.pages)
            .map(|(start, _)| start)
            .or(text.pages.first().map(|page| page.page))
            .or(table_page(archive, &locator).await?);
        Ok(Self {
            section: id.or_else(|| start.and_then(|page| innermost(tree, page))),
            page: page.or(start).or(first),
            text: id.is_some().then_some(text),
        })
    }
}

// The page of a table that a locator names.
async fn table_page(archive: &Archive, locator: &str) -> Result<Option<u32>, Problem> {
    match Locator::parse(locator).fragment {
        Some(Fragment::Table(_)) => {
            let pages = archive.table(locator).await?.table.page_range();
            Ok(pages.map(|(first, _)| first))
        }
        _ => Ok(None),
    }
}

// The innermost section that begins last on or before a page.
fn innermost(tree: &SectionTree, page: u32) -> Option<SectionId> {
    let covering = tree.walk().filter(|(_, section)| {
        let pages = section.span.pages();
        pages.is_some_and(|pages| (pages.start().get()..=pages.end().get()).contains(&page))
    });
    covering.last().map(|(_, section)| section.id)
}

async fn sections(
    context: &PageContext,
    archive: &Arc<Archive>,
    listed: &CatalogDocument,
    view: &DocumentView,
    published: &PublishedTree,
) -> Result<Part, Problem> {
    let tree = &published.tree;
    let place = Place::find(context, archive, view, tree).await?;
    let section = place.section.and_then(|id| tree.section(id));
    let visible = match place.page {
        Some(number) => {
            let with_reading = context.param("reading").is_some();
            PageView::read(archive, listed, published, number, section, with_reading).await?
        }
        None => None,
    };
    let at = context.param("at").unwrap_or_default();
    let locator = match at {
        "" => view.label.clone(),
        at => format!("{}#{at}", view.label),
    };
    let title = section.map_or("Sections".to_owned(), |section| section.title.clone());
    let (verb, path) = match (&place.text, place.page) {
        (Some(_), _) => (
            "cat",
            format!(
                "sections/{}?text=true",
                place.section.unwrap_or(SectionId(0))
            ),
        ),
        (None, _) => ("tree", "tree".to_owned()),
    };
    let api = format!("/v1/documents/{}/", encoded(&view.label));
    let read = visible
        .as_ref()
        .filter(|visible| visible.words.reading.is_some())
        .map(|visible| {
            let words = format!("{api}pages/{}/words", visible.words.page);
            context.request(&words, &[("reading", "true")])
        });
    Ok(Part {
        title,
        body: html! {
            div.reader {
                nav.sections aria-label="Sections" tabindex="0" { (section_list(context, &view.label, tree, place.section)) }
                section.text aria-label="Text" {
                    @match (&place.text, section) {
                        (Some(text), Some(section)) => (section_text(context, view, tree, section, text)),
                        _ => (overview(context, view, published)),
                    }
                }
                @if let Some(visible) = &visible { (page_pane(context, view, published, visible)) }
            }
        },
        elsewhere: [
            context.command(&[verb, &locator]),
            context.request(&format!("{api}{path}"), &[]),
        ]
        .into_iter()
        .chain(read)
        .collect(),
    })
}

fn section_text(
    context: &PageContext,
    view: &DocumentView,
    tree: &SectionTree,
    section: &Section,
    text: &TextResponse,
) -> Markup {
    let content = text.text.as_deref().unwrap_or_default();
    let visible = crate::text::cut_to(content, MAX_TEXT_BYTES);
    let neighbor = |id: Option<u32>| id.and_then(|id| tree.section(SectionId(id)));
    html! {
        @if let [above @ .., _] = tree.path_to(section.id).as_slice() && !above.is_empty() {
            p.crumbs { @for above in above { a href=(section_url(context, &view.label, above)) { bdi { (Line(&above.title)) } } " › " } }
        }
        h2 { bdi { (Line(&section.title)) } }
        p.note {
            (place(section)) " · " (grouped(section.own_tokens)) " of " (grouped(section.tokens)) " tokens are its own · "
            code { (Line(&text.locator)) }
        }
        @if let Some(summary) = &section.summary { p.summary { (Passage(&summary.text)) } }
        @if content.is_empty() {
            p.note { "It has no text of its own before its first subsection." }
        } @else {
            pre.passage tabindex="0" { (Passage(visible)) }
            @if visible.len() < content.len() { p.note { "The text goes on; the download has all of it." } }
        }
        nav.pages aria-label="Sections before and after" {
            @if let Some(before) = neighbor(section.id.0.checked_sub(1)) { a rel="prev" href=(section_url(context, &view.label, before)) { "‹ " (Line(&before.title)) } }
            @if let Some(after) = neighbor(section.id.0.checked_add(1)) { a rel="next" href=(section_url(context, &view.label, after)) { (Line(&after.title)) " ›" } }
        }
    }
}

fn overview(context: &PageContext, view: &DocumentView, published: &PublishedTree) -> Markup {
    let tree = &published.tree;
    let warnings: Vec<&Gap> = tree
        .gaps
        .iter()
        .filter(|gap| Gap::is_warning(&gap.code))
        .collect();
    let doubt = tree.provenance.doubt.as_ref();
    html! {
        h2 { "Overview" }
        @if let Some(description) = &view.stat.document.description { p.summary { (Passage(description)) } }
        @if let Some(newer) = view.stat.newer_version { p { "Version " (newer) " is being processed; this is version " (view.stat.document.version) "." } }
        @if let Some(doubt) = doubt.filter(|doubt| !doubt.reasons.is_empty()) {
            h3 { "Reasons to doubt this tree" }
            ul { @for reason in doubt.reasons.iter().take(MAX_ROWS) { li { (Message(&capitalized(&reason.detail))) } } }
        }
        @if !warnings.is_empty() {
            h3 { "What is missing" }
            ul { @for gap in warnings.into_iter().take(MAX_ROWS) { li { (Message(&capitalized(&gap.detail))) " " code { (Line(&gap.code)) } } } }
        }
        (downloads(context, view, tree))
    }
}

fn downloads(context: &PageContext, view: &DocumentView, tree: &SectionTree) -> Markup {
    // Only markup tags facts, and only its sections know their bytes in the file.
    let is_markup = tree.walk().any(|(_, section)| section.bytes.is_some());
    let api = format!("/v1/documents/{}", encoded(&view.label));
    let own = format!("/documents/{}", encoded(&view.label));
    html! {
        h3 { "Downloads" }
        ul {
            li { a href=(context.url(&format!("{api}/tree"), &[])) { "Tree (JSON)" } }
            li { a href=(context.url(&format!("{api}/tree"), &[("format", "pageindex")])) { "Tree for PageIndex (JSON)" } }
            li { a href=(context.url(&format!("{own}/text.md"), &[])) { "Text (Markdown)" } }
            @if is_markup { li { a href=(context.url(&format!("{own}/facts.csv"), &[])) { "Tagged facts (CSV)" } } }
            li { a href=(context.url(&format!("{api}/source"), &[])) { "Original file" } }
        }
    }
}

fn page_pane(
    context: &PageContext,
    view: &DocumentView,
    published: &PublishedTree,
    visible: &PageView,
) -> Markup {
    let Extent::Pages(count) = published.tree.extent else {
        return html! {};
    };
    let words = &visible.words;
    let at = context.param("at").unwrap_or_default();
    let reading = words.reading.as_ref();
    let reading_param = reading.map_or("", |_| "true");
    let to = |number: u32, reading: &str| {
        context.document_url(
            &format!("{}#{at}", view.label),
            &[("page", &number.to_string()), ("reading", reading)],
        )
    };
    html! {
        section.sheetpane aria-label="Page" {
            nav.pager aria-label="Pages" {
                @if words.page > 1 { a rel="prev" href=(to(words.page - 1, reading_param)) { "‹ Previous" } } @else { span.note { "‹ Previous" } }
                form method="get" action=(context.document_url(&view.label, &[])) {
                    (collection_field(context))
                    @if !at.is_empty() { input type="hidden" name="at" value=(at); }
                    @if reading.is_some() { input type="hidden" name="reading" value=(reading_param); }
                    label { span.hidden { "Page" } input type="number" name="page" min="1" max=(count) value=(words.page) required; }
                    span { " of " (grouped(count)) }
                    @if let Some(label) = &words.label { span.note { " printed " (Line(label)) } }
                }
                @if reading.is_some() { a href=(to(words.page, "")) { "Hide reading" } } @else { a href=(to(words.page, "true")) { "Show reading" } }
                @if words.page < count { a rel="next" href=(to(words.page + 1, reading_param)) { "Next ›" } } @else { span.note { "Next ›" } }
            }
            (visible.recognition())
            @if let Some(reading) = reading { (legend(reading)) }
            @if words.has_image || reading.is_some() { (visible.image(context, &view.label)) }
            @if let Some(reading) = reading { (cell_list(reading)) }
            @if words.has_image {
                (description_page::form(context, &view.label, words.page))
                details.text-of-page { summary { "Text of this page" } (visible.text()) }
            } @else {
                (visible.text())
            }
        }
    }
}
