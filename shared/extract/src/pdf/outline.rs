//! PDF bookmarks. Hostile files contain cycles, self-parents and endless lists, so each item is visited once.

use std::collections::HashSet;

use hayro_syntax::Pdf;
use hayro_syntax::object::{Dict, ObjectIdentifier, String as PdfString};
use stemma_document::OutlineItem;
use stemma_reading::title::UNTITLED;

use super::destinations::Destinations;
use super::strings::decode_text_string;
use crate::Limits;

/// Returns the bookmarks in reading order.
pub(super) fn read_outline<'a>(
    pdf: &'a Pdf,
    root: &Dict<'a>,
    destinations: &Destinations<'a>,
    limits: &Limits,
) -> Vec<OutlineItem> {
    let mut items = Vec::new();
    let mut visited: HashSet<ObjectIdentifier> = HashSet::new();
    let top = root.get::<Dict<'a>>("Outlines").unwrap_or_default();
    visited.extend(top.obj_id());
    let mut stack: Vec<(ObjectIdentifier, u32)> = Vec::new();
    stack.extend(top.get_ref("First").map(|first| (first.into(), 1)));
    while let Some((id, level)) = stack.pop() {
        if items.len() >= limits.max_outline_items as usize || !visited.insert(id) {
            continue;
        }
        let Some(entry) = pdf.xref().get::<Dict<'a>>(id) else {
            continue;
        };
        items.push(OutlineItem {
            title: title(&entry),
            level: u16::try_from(level.min(limits.max_outline_depth)).unwrap_or(u16::MAX),
            target: destinations.resolve(&entry),
        });
        stack.extend(entry.get_ref("Next").map(|next| (next.into(), level)));
        stack.extend(
            entry
                .get_ref("First")
                .map(|first| (first.into(), level.saturating_add(1))),
        );
    }
    items
}

fn title(entry: &Dict<'_>) -> String {
    let title = entry
        .get::<PdfString<'_>>("Title")
        .map(|title| decode_text_string(title.as_bytes()))
        .unwrap_or_default();
    if title.is_empty() {
        UNTITLED.into()
    } else {
        title
    }
}
