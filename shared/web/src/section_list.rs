//! The section tree as nested lists. Small trees are complete; large ones are opened along the path to one section.

use std::collections::{BTreeMap, BTreeSet};

use maud::{Markup, PreEscaped, Render, html};
use stemma_archive::SectionRecognition;
use stemma_catalog::items::section_items;
use stemma_document::{Section, SectionId, SectionKind, SectionSpan, SectionTree};

use crate::context::PageContext;
use crate::text::{Line, grouped};

// A browser lays out this many rows without delay.
const MAX_COMPLETE: usize = 400;
// Sections of one level that are shown at once, and of all levels along a path.
const MAX_SIBLINGS: usize = 200;
const MAX_ROWS: usize = 1_000;

struct Row<'a> {
    depth: usize,
    section: &'a Section,
    has_shown_children: bool,
    is_open: bool,
    // Sections of its level that come before and after what is shown.
    more_before: Option<&'a Section>,
    more_after: Option<&'a Section>,
}

/// The sections of a tree, with `selected` marked.
pub(crate) fn section_list(
    context: &PageContext,
    label: &str,
    tree: &SectionTree,
    selected: Option<SectionId>,
) -> Markup {
    let rows = rows(tree, selected);
    let visible: BTreeSet<SectionId> = rows.iter().map(|row| row.section.id).collect();
    let items: BTreeMap<SectionId, String> = section_items(tree)
        .into_iter()
        .filter(|item| visible.contains(&item.section))
        .map(|item| (item.section, item.fragment()))
        .collect();
    let mut out = String::new();
    let mut closers: Vec<String> = Vec::new();
    for row in rows {
        while closers.len() >= row.depth {
            out.push_str(&closers.pop().unwrap_or_default());
        }
        let is_selected = selected == Some(row.section.id);
        let read = SectionRecognition::from_pages(tree.recognized_pages(row.section));
        let link = section_link(context, label, &row, read, is_selected, &items);
        if let Some(before) = row.more_before {
            jump(context, label, before, "Earlier sections").render_to(&mut out);
        }
        if row.has_shown_children {
            // A link inside of a summary would be two controls in one.
            out.push_str("<li class=\"branch\">");
            link.render_to(&mut out);
            out.push_str(if row.is_open {
                "<details open><summary>"
            } else {
                "<details><summary>"
            });
            html! { span.hidden { "Sections below " (Line(&row.section.title)) } }
                .render_to(&mut out);
            out.push_str("</summary><ul>");
            closers.push("</ul></details></li>".into());
        } else {
            html! { li.leaf { (link) } }.render_to(&mut out);
            closers.push(String::new());
        }
        if let (Some(after), Some(closer)) = (row.more_after, closers.last_mut()) {
            jump(context, label, after, "Later sections").render_to(closer);
        }
    }
    while let Some(closer) = closers.pop() {
        out.push_str(&closer);
    }
    html! { ul.tree { (PreEscaped(out)) } }
}

fn section_link(
    context: &PageContext,
    label: &str,
    row: &Row<'_>,
    read: Option<SectionRecognition>,
    is_selected: bool,
    items: &BTreeMap<SectionId, String>,
) -> Markup {
    let Row {
        section,
        has_shown_children,
        ..
    } = row;
    let is_doubtful = !section.verified && section.kind == SectionKind::Heading;
    html! {
        a href=(section_url(context, label, section)) aria-current=[is_selected.then_some("true")] {
            span.name { bdi { (Line(&section.title)) } }
            @if let Some(item) = items.get(&section.id) { span.badge { (item.replace("item-", "Item ")) } }
            @if is_doubtful { span.badge data-state="queued" title="its title was not found on its page" { "doubtful" } }
            @if let Some(read) = read { span.badge data-state=[(read.doubtful > 0).then_some("queued")] title=(read) { "OCR" } }
            span.note { (place(section)) " · " (grouped(section.tokens)) " tokens" }
            @if !has_shown_children && !section.children.is_empty() {
                span.note { " · " (grouped(section.children.len())) " below" }
            }
        }
    }
}

fn jump(context: &PageContext, label: &str, section: &Section, text: &str) -> Markup {
    html! { li.leaf { a.jump href=(section_url(context, label, section)) { (text) } } }
}

/// The address of a section.
pub(crate) fn section_url(context: &PageContext, label: &str, section: &Section) -> String {
    context.document_url(&format!("{label}#{}", section.id), &[])
}

/// `p 5–7`
pub(crate) fn place(section: &Section) -> String {
    let (unit, start, end) = match section.span {
        SectionSpan::Pages { pages, .. } => ("p", pages.start().get(), pages.end().get()),
        SectionSpan::Lines { start, end } => ("lines", start, end),
    };
    if start == end {
        format!("{unit} {start}")
    } else {
        format!("{unit} {start}–{end}")
    }
}

// The shown sections in reading order.
fn rows<'a>(tree: &'a SectionTree, selected: Option<SectionId>) -> Vec<Row<'a>> {
    let is_complete = tree.walk().nth(MAX_COMPLETE).is_none();
    let path: Vec<SectionId> = selected
        .map(|id| tree.path_to(id))
        .unwrap_or_default()
        .iter()
        .map(|section| section.id)
        .collect();
    let mut rows = Vec::new();
    let mut stack = level(&tree.sections, 1, &path);
    while let Some((depth, section, before, after)) = stack.pop() {
        let is_open = path.get(depth - 1) == Some(&section.id);
        let has_shown_children = !section.children.is_empty() && (is_complete || is_open);
        rows.push(Row {
            depth,
            section,
            has_shown_children,
            is_open,
            more_before: before,
            more_after: after,
        });
        if has_shown_children {
            stack.extend(level(&section.children, depth + 1, &path));
        }
    }
    rows
}

type StackedRow<'a> = (usize, &'a Section, Option<&'a Section>, Option<&'a Section>);

// The window of a level that contains the path, last section first.
fn level<'a>(sections: &'a [Section], depth: usize, path: &[SectionId]) -> Vec<StackedRow<'a>> {
    let on_path = path.get(depth - 1);
    let on_path =
        on_path.and_then(|id| sections.binary_search_by_key(id, |section| section.id).ok());
    let siblings = MAX_SIBLINGS.min(MAX_ROWS / path.len().max(1)).max(1);
    let start = on_path.unwrap_or(0) / siblings * siblings;
    let end = sections.len().min(start + siblings);
    let visible = sections[start..end].iter().enumerate().rev();
    visible
        .map(|(at, section)| {
            let before = (at == 0 && start > 0).then(|| &sections[start - 1]);
            let after = (start + at + 1 == end).then(|| sections.get(end)).flatten();
            (depth, section, before, after)
        })
        .collect()
}
