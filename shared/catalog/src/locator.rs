//! Locators: names of documents, and of sections, Items or pages within them.
//!
//! ```text
//! 3M_2022_10K            by label, file name, or file name without extension
//! 10-K/2022/3M.pdf       by ingested path
//! /@company/3M/@form/10-K/3M_2022_10K
//! 3f2a9c01               by id or id prefix
//! …#0007   …#item-1A   …#item-II.1A   …#risk-factors   …#p=47   …#p=5-7,9   …#t12
//! ```
//! Items may also be written `1A`, `II.1A` or `Item 1A`, and sections with names by their titles; the forms above are those that
//! are printed.
//! Case and extension may differ. A misspelled name fails with suggestions, and an ambiguous one with its candidates.

use std::fmt;
use std::sync::Arc;

use roaring::RoaringBitmap;
use stemma_document::{PageNo, PageSpan, SectionId, SectionTree};
use stemma_store::{PortError, PortResult};

use crate::catalog::{Catalog, CatalogDocument, DocumentSet};
use crate::display_names::{fold_name, split_id_suffix, unescape};
use crate::facets::{Scope, ScopeError};
use crate::items::{self, SectionItem};
use crate::similar_labels::MAX_SUGGESTED;
use crate::store::terms::NameKind;

// Bounds the work for locators from outside.
const MAX_SPANS: usize = 64;

/// A parsed locator. Its target may not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Locator {
    /// As written.
    pub document: String,
    /// `None` for the whole document.
    pub fragment: Option<Fragment>,
}

/// A part of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fragment {
    Section(SectionId),
    Item {
        /// The part of the form (`II`), upper case.
        part: Option<String>,
        /// In upper case, or the name of a section: `risk-factors`.
        number: String,
    },
    /// Physical pages, 1-based, in the order given.
    Pages(Vec<PageSpan>),
    /// A table by its number in reading order, from 1.
    Table(u32),
}

impl Locator {
    /// Parses a locator. The text after the last `#` is a fragment only if it has the form of one, because file names may
    /// contain `#`. Paths of the file-system view (`…/@item/1A`, `…/@page/47`) work, too.
    pub fn parse(text: &str) -> Self {
        for (mark, prefix) in [("#", ""), ("/@item/", "item-"), ("/@page/", "p=")] {
            if let Some((document, rest)) = text.rsplit_once(mark)
                && let Ok(fragment) = format!("{prefix}{rest}").parse::<Fragment>()
            {
                return Self {
                    document: document.into(),
                    fragment: Some(fragment),
                };
            }
        }
        Self {
            document: text.into(),
            fragment: None,
        }
    }
}

impl std::str::FromStr for Fragment {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        if let Ok(id) = text.parse::<SectionId>() {
            return Ok(Fragment::Section(id));
        }
        if let Some(pages) = text.strip_prefix("p=") {
            return parse_pages(pages).map(Fragment::Pages).ok_or(());
        }
        if let Some(number) = text.strip_prefix('t')
            && let Ok(number) = number.parse()
        {
            return Ok(Fragment::Table(number));
        }
        let (part, number) = items::parse_item_name(text).ok_or(())?;
        Ok(Fragment::Item { part, number })
    }
}

impl fmt::Display for Fragment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fragment::Section(id) => write!(f, "{id}"),
            Fragment::Item { part, number } => {
                f.write_str(&items::fragment(part.as_deref(), number))
            }
            Fragment::Pages(spans) => write!(f, "p={}", format_pages(spans)),
            Fragment::Table(number) => write!(f, "t{number}"),
        }
    }
}

/// Parses `5-7,9`; `None` if it has another form, names page 0 or has too many spans.
pub fn parse_pages(text: &str) -> Option<Vec<PageSpan>> {
    let spans: Option<Vec<PageSpan>> = text
        .split(',')
        .take(MAX_SPANS + 1)
        .map(|part: &str| {
            let (start, end) = part.split_once(['-', '–']).unwrap_or((part, part));
            PageSpan::new(start.trim().parse().ok()?, end.trim().parse().ok()?)
        })
        .collect();
    spans.filter(|spans| spans.len() <= MAX_SPANS)
}

/// Formats spans as `5-7,9`; the inverse of [`parse_pages`].
pub fn format_pages(spans: &[PageSpan]) -> String {
    spans
        .iter()
        .map(|span: &PageSpan| match (span.start(), span.end()) {
            (start, end) if start == end => start.to_string(),
            (start, end) => format!("{start}-{end}"),
        })
        .collect::<Vec<_>>()
        .join(",")
}

pub fn page_locator(label: &str, page: PageNo) -> String {
    format!("{label}#p={page}")
}

pub fn section_locator(label: &str, section: SectionId) -> String {
    format!("{label}#{section}")
}

/// Why a locator does not resolve.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    #[error("no document `{name}`")]
    NotFound {
        name: String,
        /// Labels of documents with similar names, at most five.
        near: Vec<String>,
    },
    #[error("`{name}` fits {count} documents")]
    Ambiguous {
        name: String,
        count: usize,
        /// Labels, at most five.
        candidates: Vec<String>,
    },
    #[error("invalid page range `{pages}`; write 5-7,9")]
    InvalidPages {
        /// Label.
        document: String,
        pages: String,
    },
    #[error("`{fragment}` is not a part of a document; write 0007, item-1A or p=5-7,9")]
    InvalidFragment {
        /// Label.
        document: String,
        fragment: String,
    },
    #[error("`{document}` has no section {section}; its last is {last}")]
    NoSection {
        document: String,
        section: SectionId,
        last: SectionId,
    },
    #[error("`{document}` has no {item}")]
    NoItem {
        /// Label.
        document: String,
        /// As a fragment.
        item: String,
        /// The Items that exist, as fragments.
        has: Vec<String>,
    },
    /// The Item appears in several parts of the document.
    #[error("`{document}` has {item} more than once")]
    AmbiguousItem {
        /// Label.
        document: String,
        /// As a fragment.
        item: String,
        /// Locators, at most five.
        candidates: Vec<String>,
    },
    /// The catalog cannot be read.
    #[error(transparent)]
    Port(#[from] PortError),
}

impl Catalog {
    /// Resolves the document part of a locator.
    ///
    /// The first of these that matches decides: label; path; name; id or id prefix; path in the file-system view; name with
    /// another case or extension.
    pub fn resolve(&self, name: &str) -> Result<Arc<CatalogDocument>, ResolveError> {
        if let Some(document) = self.find_exact(name)? {
            return Ok(document);
        }
        let name = name.trim();
        let is_id =
            name.len() >= 4 && name.len() <= 32 && name.bytes().all(|b| b.is_ascii_hexdigit());
        if is_id {
            let with_id = self.with_id_prefix(&name.to_ascii_lowercase())?;
            if let Some(document) = self.find_unique(name, with_id, None)? {
                return Ok(document);
            }
        }
        if let Some(document) = self.find_in_folder(name)? {
            return Ok(document);
        }
        let normalized = fold_name(&unescape(name));
        let folded = self.with_name(NameKind::Folded, &normalized)?;
        let labeled = self.labeled_in_any_case(&name.to_lowercase(), &folded)?;
        match self.find_unique(name, folded | labeled, None)? {
            Some(document) => Ok(document),
            None => Err(ResolveError::NotFound {
                name: name.into(),
                near: self.similar_labels(&normalized)?,
            }),
        }
    }

    // Matches a label, path or name exactly.
    pub(crate) fn find_exact(
        &self,
        name: &str,
    ) -> Result<Option<Arc<CatalogDocument>>, ResolveError> {
        if let Some(document) = self.find_unique(name, self.labeled(name)?, None)? {
            return Ok(Some(document));
        }
        let name = name.trim();
        let plain = unescape(name);
        // A folder whose name starts with `@` is printed escaped, so an unescaped `@` always means a facet.
        let has_facet = name.split('/').any(|segment| segment.starts_with('@'));
        let path = (!has_facet).then(|| plain.trim_matches('/'));
        let at_place = self.with_path_or_uri(path, name)?;
        if let Some(document) = self.find_unique(name, at_place, None)? {
            return Ok(Some(document));
        }
        let named = self.with_name(NameKind::Name, &plain)?;
        self.find_unique(name, named | self.with_name(NameKind::Stem, &plain)?, None)
    }

    fn find_unique(
        &self,
        name: &str,
        numbers: RoaringBitmap,
        inside: Option<&DocumentSet>,
    ) -> Result<Option<Arc<CatalogDocument>>, ResolveError> {
        let named = self.listed(numbers);
        let named = inside.map_or(named.clone(), |inside| named.and(inside));
        let mut first: Vec<_> = self
            .list(&named)
            .take(MAX_SUGGESTED)
            .collect::<PortResult<_>>()?;
        if named.len() > 1 {
            return Err(ResolveError::Ambiguous {
                name: name.into(),
                count: named.len(),
                candidates: first
                    .iter()
                    .map(|document| document.label.clone())
                    .collect(),
            });
        }
        Ok(first.pop())
    }

    // `/folder/name` or `/@facet/value/name`, with the name as `path::file_names` prints it.
    fn find_in_folder(&self, name: &str) -> Result<Option<Arc<CatalogDocument>>, ResolveError> {
        let Some((folder, leaf)) = name.trim_end_matches('/').rsplit_once('/') else {
            return Ok(None);
        };
        let scope = match Scope::parse(folder, self) {
            Ok(scope) => scope,
            Err(ScopeError::Port(error)) => return Err(error.into()),
            Err(_) => return Ok(None),
        };
        let inside = self.in_scope(&scope)?;
        let plain = unescape(leaf);
        let exact = self.labeled(leaf)? | self.with_name(NameKind::Name, &plain)?;
        if let Some(document) = self.find_unique(name, exact, Some(&inside))? {
            return Ok(Some(document));
        }
        if let Some((own, id)) = split_id_suffix(&plain) {
            let with_id = self.named_with_id(NameKind::Name, &own, id)?;
            let with_id = with_id.into_iter().collect();
            if let Some(document) = self.find_unique(name, with_id, Some(&inside))? {
                return Ok(Some(document));
            }
        }
        let folded = self.with_name(NameKind::Folded, &fold_name(&plain))?;
        self.find_unique(name, folded, Some(&inside))
    }
}

/// Finds the section of an Item.
pub fn resolve_item(
    tree: &SectionTree,
    label: &str,
    part: Option<&str>,
    number: &str,
) -> Result<SectionId, ResolveError> {
    let all = items::section_items(tree);
    let fitting: Vec<&SectionItem> = all
        .iter()
        .filter(|item: &&SectionItem| {
            item.number == number && part.is_none_or(|part| item.part.as_deref() == Some(part))
        })
        .collect();
    let document = label.to_owned();
    let item = items::fragment(part, number);
    match fitting.as_slice() {
        [] => {
            let has = all.iter().map(|item| item.fragment()).collect();
            Err(ResolveError::NoItem {
                document,
                item,
                has,
            })
        }
        [one] => Ok(one.section),
        more => {
            // The part tells equal numbers apart, unless a part is missing or has the number twice.
            let parts_differ = more.iter().all(|item| {
                item.part.is_some() && more.iter().filter(|o| o.part == item.part).count() == 1
            });
            let candidates = more
                .iter()
                .map(|item| match parts_differ {
                    true => format!("{label}#{}", item.fragment()),
                    false => section_locator(label, item.section),
                })
                .take(MAX_SUGGESTED)
                .collect();
            Err(ResolveError::AmbiguousItem {
                document,
                item,
                candidates,
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use stemma_document::{Collection, DocId, Fact};

    use super::*;
    use crate::fixtures::{self, company_entry, entry};

    fn catalog(paths: &[&str]) -> Catalog {
        Catalog::from_entries(paths.iter().map(|path| entry(path)))
    }

    fn resolved(catalog: &Catalog, name: &str) -> String {
        match catalog.resolve(name) {
            Ok(listed) => listed.version().path.clone(),
            Err(ResolveError::Ambiguous { candidates, .. }) => {
                format!("? {}", candidates.join(" "))
            }
            Err(ResolveError::NotFound { near, .. }) => format!("! {}", near.join(" ")),
            Err(other) => other.to_string(),
        }
    }

    #[test]
    fn names_resolve_leniently_and_ambiguity_is_rejected() {
        let catalog = catalog(&[
            "10-K/3M_2022_10K.pdf",
            "10-K/AMD_2022_10K.pdf",
            "a/notes.md",
            "b/notes.txt",
            "Notes.pdf",
        ]);
        for (name, expected) in [
            ("3M_2022_10K", "10-K/3M_2022_10K.pdf"),
            ("3m_2022_10k.PDF", "10-K/3M_2022_10K.pdf"),
            ("10-K/AMD_2022_10K.pdf", "10-K/AMD_2022_10K.pdf"),
            ("/10-K/amd_2022_10k", "10-K/AMD_2022_10K.pdf"),
            ("notes.md", "a/notes.md"),
            ("Notes", "Notes.pdf"),
            ("notes", "? notes.md notes.txt"),
            ("NOTES", "? Notes notes.md notes.txt"),
            ("3M_2023_10K", "! 3M_2022_10K"),
            ("AMD", "! AMD_2022_10K"),
            ("3M", "! 3M_2022_10K"),
            ("3M annual report 2022", "! 3M_2022_10K"),
            ("AMD 10-K 2021", "! AMD_2022_10K"),
            ("Apple 10-K 2022", "! "),
            ("nothing like it", "! "),
        ] {
            assert_eq!(resolved(&catalog, name), expected, "{name}");
        }
        let id = DocId::new(&Collection::default(), "file:///a/notes.md").to_string();
        assert_eq!(resolved(&catalog, &id), "a/notes.md");
        assert_eq!(resolved(&catalog, &id[..8]), "a/notes.md");
    }

    #[test]
    fn documents_are_suggested_by_company_form_and_year() {
        let filing = |path: &str, company: &str, form: &str, year: &str| {
            let mut entry = company_entry(path, company);
            entry.facts.form = Some(Fact::from_text(form, None));
            entry.facts.fiscal_year = Some(Fact::from_text(year, None));
            entry
        };
        let catalog = Catalog::from_entries([
            filing("0001.pdf", "Acme Corporation", "10-K", "2021"),
            filing("0002.pdf", "Acme Corporation", "10-K", "2022"),
            filing("0003.pdf", "Acme Corporation", "10-Q", "2022"),
            filing("0004.pdf", "Beta, Inc.", "10-K", "2022"),
        ]);
        assert_eq!(resolved(&catalog, "Acme 10-K 2022"), "! 0002 0001 0003");
        assert_eq!(resolved(&catalog, "beta_2022_10Q"), "! 0004");
        assert_eq!(resolved(&catalog, "Gamma 10-K 2022"), "! ");
    }

    #[test]
    fn invalid_fragments_are_named() {
        let catalog = catalog(&["3M_2022_10K.pdf", "notes #3.md"]);
        for (text, message) in [
            ("3M_2022_10K#p=abc", "invalid page range `abc`; write 5-7,9"),
            (
                "3M_2022_10K#risks",
                "`risks` is not a part of a document; write 0007, item-1A or p=5-7,9",
            ),
            ("nothing#p=abc", "no document `nothing#p=abc`"),
        ] {
            let error = catalog.resolve_path(text).unwrap_err();
            assert_eq!(error.to_string(), message);
        }
        for text in ["3M_2022_10K#1A", "3M_2022_10K#Item II.1A", "notes #3"] {
            assert!(catalog.resolve_path(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn equal_names_are_distinguished_by_id() {
        let catalog = catalog(&["a/x.pdf", "b/x.pdf", "x.md"]);
        let documents = fixtures::documents(&catalog);
        let labels: Vec<&str> = documents
            .iter()
            .map(|document| document.label.as_str())
            .collect();
        assert!(
            labels[0].starts_with("x~") && labels[0].ends_with(".pdf") && labels[0] != labels[1],
            "{labels:?}"
        );
        assert_eq!(labels[2], "x.md");
        assert_eq!(
            resolved(&catalog, "x.pdf"),
            format!("? {} {}", labels[0], labels[1])
        );
        assert_eq!(resolved(&catalog, "/b/x.pdf"), "b/x.pdf");
    }

    #[test]
    fn fragments_round_trip() {
        for text in [
            "0007",
            "12345",
            "item-1A",
            "item-II.1A",
            "item-2.02",
            "p=47",
            "p=5-7,9",
        ] {
            assert_eq!(text.parse::<Fragment>().unwrap().to_string(), text);
        }
        assert_eq!(
            "ITEM-ii.1a".parse::<Fragment>().unwrap().to_string(),
            "item-II.1A"
        );
        for (written, printed) in [
            ("7", "item-7"),
            ("1a", "item-1A"),
            ("II.1A", "item-II.1A"),
            ("Item 1A.", "item-1A"),
            ("ITEM II.7", "item-II.7"),
            ("item 2.02", "item-2.02"),
            ("Part II, Item 1A", "item-II.1A"),
            ("part-iv item-15", "item-IV.15"),
            ("10-K.II.7A", "item-II.7A"),
            ("8-K.2.02", "item-2.02"),
            ("SC 13D.4", "item-4"),
            ("N-CSR.11", "item-11"),
            ("risk-factors", "risk-factors"),
            ("item-risk-factors", "risk-factors"),
            ("Use of Proceeds", "use-of-proceeds"),
            ("424B4.use-of-proceeds", "use-of-proceeds"),
            ("md-and-a", "managements-discussion-and-analysis"),
        ] {
            assert_eq!(written.parse::<Fragment>().unwrap().to_string(), printed);
        }
        for bad in [
            "item-", "item-x", "item", "II", "Part II", "3.pdf", "123", "p=0", "p=9-5", "p=",
            "p=1,,2", "q=1", "",
        ] {
            assert!(bad.parse::<Fragment>().is_err(), "{bad}");
        }
        let locator = Locator::parse("/@company/3M/x.pdf/@item/1A");
        assert_eq!(locator.document, "/@company/3M/x.pdf");
        assert_eq!(locator.fragment.unwrap().to_string(), "item-1A");
        assert_eq!(Locator::parse("report #3.pdf").fragment, None);
    }

    proptest! {
        #[test]
        fn printed_locators_parse_back(
            names in prop::collection::vec(("[ab]{0,2}", "[aAxX#%~.\u{202e}年/ ]{1,5}(\\.pdf|\\.md)?"), 1..12),
            section in 0u32..200_000,
            page in 1u32..5_000,
        ) {
            let paths: Vec<String> = names.iter().map(|(folder, name)| format!("{folder}/{}", name.replace('/', ""))).collect();
            let catalog = Catalog::from_entries(paths.iter().enumerate().map(|(at, path)| entry(&format!("{at}{path}"))));
            for listed in fixtures::documents(&catalog) {
                prop_assert_eq!(catalog.resolve(&listed.label).map(|found| found.doc()), Ok(listed.doc()));
                for printed in [section_locator(&listed.label, SectionId(section)), page_locator(&listed.label, PageNo::new(page).unwrap())] {
                    let locator = Locator::parse(&printed);
                    prop_assert_eq!(&locator.document, &listed.label);
                    prop_assert!(printed.ends_with(&locator.fragment.unwrap().to_string()));
                }
            }
        }

        #[test]
        fn no_text_panics(text in ".{0,40}") {
            let catalog = catalog(&["a/notes.md"]);
            let locator = Locator::parse(&text);
            let _ = catalog.resolve(&locator.document);
            let _ = Scope::parse(&text, &catalog);
        }
    }
}
