//! Resolves the references in the text of an Item to sections, pages and other documents.

use stemma_document::text::normalize_key;
use stemma_document::{ItemLink, ItemTarget, ReferenceTarget, Section, SectionId, SectionTree};
use stemma_reading::vocabulary::{ADDRESSED_DOCUMENTS, OTHER_DOCUMENTS, OTHER_FORMS};

use super::targets::{TargetFinder, link};
use crate::structure::numbering::{NumberClass, first_number};

const MAX_LINKS: usize = 12;

/// Targets of the referring sentences of an Item, each once.
pub(super) fn links_in(
    finder: &TargetFinder<'_>,
    tree: &SectionTree,
    form: &str,
    sections: &[&Section],
    referring: &[&str],
) -> Vec<ItemLink> {
    let (Some(section), Some(last)) = (sections.first(), sections.last()) else {
        return Vec::new();
    };
    let inside = section.id.0..=last.id.0;
    let above: Vec<SectionId> = tree
        .path_to(section.id)
        .iter()
        .map(|section| section.id)
        .collect();
    let elsewhere = |id: SectionId| !inside.contains(&id.0) && !above.contains(&id);
    let mut links: Vec<ItemLink> = Vec::new();
    for sentence in referring {
        for link in finder.targets_in(sentence, &elsewhere) {
            push_link(&mut links, link);
        }
    }
    let found = !links.is_empty();
    let foreign: Vec<&str> = referring
        .iter()
        .copied()
        .filter(|sentence| other_document(sentence, form).is_some())
        .collect();
    // `Item 3 … in our 2020 Form 10-K` and `“Item 2 – Ratification”` in a proxy statement belong to other documents.
    let mine = tree
        .references
        .iter()
        .filter(|reference| inside.contains(&reference.from.0))
        .filter(|reference| {
            referring
                .iter()
                .any(|sentence| sentence.contains(&reference.text))
                && !foreign
                    .iter()
                    .any(|sentence| is_foreign_item(&reference.text, sentence, form))
        });
    for reference in mine.take(MAX_LINKS) {
        // An exhibit is a document of its own. Other references are already resolved, or name a place that is not there.
        let exhibit = reference.text.starts_with(['E', 'e']);
        match reference.to {
            ReferenceTarget::Section(id) if elsewhere(id) && (exhibit || !found) => {
                push_link(&mut links, link(&reference.text, ItemTarget::Section(id)));
            }
            ReferenceTarget::Section(_) => {}
            ReferenceTarget::Unresolved if exhibit => {
                let target = ItemTarget::Outside(reference.text.clone());
                push_link(&mut links, link(&reference.text, target));
            }
            ReferenceTarget::Unresolved => {
                push_link(&mut links, link(&reference.text, ItemTarget::Unresolved));
            }
        }
    }
    for document in foreign
        .iter()
        .filter_map(|sentence| other_document(sentence, form))
    {
        let target = ItemTarget::Outside(document.to_owned());
        push_link(&mut links, link(document, target));
    }
    // Next to a resolved link, unresolved ones are only noise.
    if links
        .iter()
        .any(|link| link.target != ItemTarget::Unresolved)
    {
        links.retain(|link| link.target != ItemTarget::Unresolved);
    }
    links
}

fn push_link(links: &mut Vec<ItemLink>, link: ItemLink) {
    let duplicate = links.iter().any(|other| {
        other.target == link.target && link.target != ItemTarget::Unresolved
            || other.text == link.text
    });
    if !duplicate && links.len() < MAX_LINKS {
        links.push(link);
    }
}

/// Whether `text` names an Item of the other document that a sentence mentions.
fn is_foreign_item(text: &str, sentence: &str, form: &str) -> bool {
    let of_form = sentence.contains(text) && other_form(sentence, form).is_some();
    text.starts_with("Item")
        && (of_form
            || quoted_phrases(sentence)
                .iter()
                .any(|quoted| quoted.contains(text)))
}

/// Words of other documents in lower case, for a filing on `form`.
pub(super) fn foreign_marks(form: &str) -> Vec<String> {
    let others = OTHER_FORMS.iter().filter(|(name, _)| *name != form);
    ADDRESSED_DOCUMENTS
        .iter()
        .map(|words| (*words).to_owned())
        .chain(others.map(|(name, _)| name.to_lowercase()))
        .collect()
}

pub(super) fn other_document(sentence: &str, form: &str) -> Option<&'static str> {
    let normalized = normalize_key(sentence);
    let other = OTHER_DOCUMENTS
        .iter()
        .find(|(words, _)| normalized.contains(words))
        .map(|(_, document)| *document);
    other.or_else(|| other_form(sentence, form))
}

/// A filing on another form.
fn other_form(sentence: &str, form: &str) -> Option<&'static str> {
    OTHER_FORMS
        .iter()
        .find(|(name, _)| *name != form && sentence.contains(name))
        .map(|(_, document)| *document)
}

/// The normalized title without `Item 7.`, `Note 3 –` or `3.` before it.
pub(super) fn title_core(title: &str) -> String {
    normalize_key(title_text(title))
}

/// The title without `Item 7.`, `Note 3 –` or `3.` before it.
pub(super) fn title_text(title: &str) -> &str {
    first_number(title)
        .filter(|number| {
            matches!(
                number.class,
                NumberClass::Item | NumberClass::Note | NumberClass::Decimal(1)
            )
        })
        .map_or(title, |number| number.rest)
}

/// The texts in quotation marks.
pub(super) fn quoted_phrases(sentence: &str) -> Vec<&str> {
    let mut phrases = Vec::new();
    let mut rest = sentence;
    while let Some(start) = rest.find(['“', '"']) {
        let mark = rest[start..].chars().next().map_or(1, char::len_utf8);
        let behind = &rest[start + mark..];
        let Some(end) = behind.find(['”', '"', '“']) else {
            break;
        };
        let quoted = behind[..end].trim_end_matches([',', '.', ';']);
        if (4..=200).contains(&quoted.len()) {
            phrases.push(quoted);
        }
        let mark = behind[end..].chars().next().map_or(1, char::len_utf8);
        rest = &behind[end + mark..];
    }
    phrases
}
