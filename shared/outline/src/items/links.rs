//! Resolves the references in the text of an Item to sections, pages and other documents.

use std::collections::HashMap;

use stemma_document::text::normalize_key;
use stemma_document::{ItemLink, ItemTarget, ReferenceTarget, Section, SectionId, SectionTree};

use super::item_text::{ItemText, truncate_text};

const MAX_LINKS: usize = 12;
const MAX_SECTIONS: usize = 50_000;

/// Sections by title.
pub(super) struct LinkResolver<'a> {
    titles: HashMap<String, Vec<&'a Section>>,
}

impl<'a> LinkResolver<'a> {
    pub(super) fn new(tree: &'a SectionTree) -> Self {
        let mut titles: HashMap<String, Vec<&'a Section>> = HashMap::new();
        for (_, section) in tree.walk().take(MAX_SECTIONS) {
            titles
                .entry(title_core(&section.title))
                .or_default()
                .push(section);
        }
        titles.remove("");
        Self { titles }
    }

    /// The only section with that title, ignoring numbers. Among several, the largest if it has over 75 % of their tokens.
    pub(super) fn find_by_title(&self, title: &str) -> Option<SectionId> {
        let sections = self.titles.get(&title_core(title))?;
        let largest = sections
            .iter()
            .max_by_key(|section| (section.tokens, std::cmp::Reverse(section.id)))?;
        let all: u64 = sections
            .iter()
            .map(|section| u64::from(section.tokens))
            .sum();
        (sections.len() == 1 || u64::from(largest.tokens) * 4 > all * 3).then_some(largest.id)
    }

    /// Targets of the referring sentences of an Item, each once.
    pub(super) fn links_in(
        &self,
        tree: &SectionTree,
        form: &str,
        sections: &[&Section],
        body: &ItemText,
    ) -> Vec<ItemLink> {
        let (Some(section), Some(last)) = (sections.first(), sections.last()) else {
            return Vec::new();
        };
        let mut links: Vec<ItemLink> = Vec::new();
        let inside = section.id.0..=last.id.0;
        let above: Vec<SectionId> = tree
            .path_to(section.id)
            .iter()
            .map(|section| section.id)
            .collect();
        let elsewhere = |id: SectionId| !inside.contains(&id.0) && !above.contains(&id);
        let referring: Vec<&str> = body.referring().collect();
        let elsewhere_too: Vec<&str> = referring
            .iter()
            .copied()
            .filter(|sentence| other_document(sentence, form).is_some())
            .collect();
        // `Item 3 … in our 2020 Form 10-K` and `“Item 2 – Ratification”` in a proxy statement belong to other documents.
        let mine = tree
            .references
            .iter()
            .filter(|reference| inside.contains(&reference.from.0));
        for reference in mine
            .filter(|reference| {
                !elsewhere_too
                    .iter()
                    .any(|sentence| is_foreign_item(&reference.text, sentence, form))
            })
            .take(MAX_LINKS)
        {
            match reference.to {
                ReferenceTarget::Section(id) if elsewhere(id) => {
                    push_link(&mut links, &reference.text, ItemTarget::Section(id));
                }
                ReferenceTarget::Section(_) => {}
                ReferenceTarget::Unresolved => {
                    // An exhibit is a document of its own.
                    let target = if reference.text.starts_with(['E', 'e']) {
                        ItemTarget::Outside(reference.text.clone())
                    } else {
                        ItemTarget::Unresolved
                    };
                    push_link(&mut links, &reference.text, target);
                }
            }
        }
        for sentence in referring {
            for quoted in quoted_phrases(sentence) {
                if let Some(id) = self.find_by_title(quoted).filter(|id| elsewhere(*id)) {
                    push_link(&mut links, quoted, ItemTarget::Section(id));
                }
            }
            if let Some(document) = other_document(sentence, form) {
                let target = ItemTarget::Outside(document.to_owned());
                push_link(&mut links, document, target);
            }
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
}

fn push_link(links: &mut Vec<ItemLink>, text: &str, target: ItemTarget) {
    let text = truncate_text(text);
    let duplicate = links
        .iter()
        .any(|link| link.target == target && target != ItemTarget::Unresolved || link.text == text);
    if !duplicate && links.len() < MAX_LINKS {
        links.push(ItemLink { text, target });
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

/// Other documents that Items refer to, by normalized name.
const OTHER_DOCUMENTS: [(&str, &str); 5] = [
    ("proxystatement", "proxy statement"),
    (
        "annualreporttoshareholders",
        "annual report to shareholders",
    ),
    (
        "annualreporttostockholders",
        "annual report to shareholders",
    ),
    ("annualreporttoshareowners", "annual report to shareholders"),
    ("informationstatement", "information statement"),
];

/// The other document that a sentence names.
fn other_document(sentence: &str, form: &str) -> Option<&'static str> {
    let normalized = normalize_key(sentence);
    let other = OTHER_DOCUMENTS
        .iter()
        .find(|(words, _)| normalized.contains(words))
        .map(|(_, document)| *document);
    other.or_else(|| other_form(sentence, form))
}

/// A filing on another form.
fn other_form(sentence: &str, form: &str) -> Option<&'static str> {
    let forms = [
        ("10-K", "annual report on Form 10-K"),
        ("10-Q", "quarterly report on Form 10-Q"),
        ("8-K", "current report on Form 8-K"),
    ];
    forms
        .into_iter()
        .find(|(name, _)| *name != form && sentence.contains(name))
        .map(|(_, document)| document)
}

/// The normalized title without `Item 7.` or `Note 3 –` before it.
fn title_core(title: &str) -> String {
    let mut rest = title.trim();
    for word in ["item", "note"] {
        let front = rest
            .get(..word.len())
            .filter(|front| front.eq_ignore_ascii_case(word));
        if front.is_some() && rest[word.len()..].starts_with(' ') {
            rest = rest[word.len()..].trim_start();
            let number = rest.split_whitespace().next().unwrap_or_default();
            rest = rest[number.len()..].trim_start();
        }
    }
    normalize_key(rest)
}

/// The texts in quotation marks.
fn quoted_phrases(sentence: &str) -> Vec<&str> {
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
