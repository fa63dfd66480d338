//! Resolves paths of the file-system view and locators, and names the entries of listings.
//!
//! ```text
//! /                      /10-K/2022/            /@company/3M/@form/10-K/
//! /10-K/2022/3M.pdf      /@company/3M/3M.pdf    3M_2022_10K            3M_2022_10K#item-1A
//! …/3M.pdf/0002-item-1-business/     …/3M.pdf/@item/1A     …/3M.pdf/@page/5-7
//! ```
//! Every printed path parses back to what it was printed for. With a leading slash, a folder wins over a document of the
//! same name; without one, the document wins.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use stemma_document::{Section, SectionId};
use stemma_store::{PortError, PortResult};

use crate::catalog::{Catalog, CatalogDocument};
use crate::display_names::split_name;
use crate::facets::{FacetSelector, Scope, ScopeError, escape_segment};
use crate::items::parse_item_name;
use crate::locator::{Fragment, ResolveError, parse_pages};
use crate::property::Property;

// Sections nest less deeply than this; longer paths are not worth resolving.
const MAX_INSIDE: usize = 32;
// In characters.
const MAX_SLUG: usize = 40;

#[derive(Debug, Clone, PartialEq)]
pub enum ResolvedPath {
    /// An ingested folder, or a facet.
    Folder(Scope),
    /// A document, or a part of it.
    Document {
        listed: Arc<CatalogDocument>,
        /// `None` for the whole document.
        inside: Option<DocumentPart>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DocumentPart {
    /// A section, an Item or pages.
    Fragment(Fragment),
    /// The folder of Items: `@item`.
    Items,
    /// The folder of pages: `@page`.
    Pages,
}

/// Why a path does not resolve.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    #[error(transparent)]
    Scope(#[from] ScopeError),
    #[error(transparent)]
    Document(#[from] ResolveError),
}

impl From<PortError> for PathError {
    fn from(error: PortError) -> Self {
        ResolveError::Port(error).into()
    }
}

impl PathError {
    fn is_port_error(&self) -> bool {
        let scope = matches!(self, PathError::Scope(ScopeError::Port(_)));
        scope || matches!(self, PathError::Document(ResolveError::Port(_)))
    }
}

impl Catalog {
    /// Resolves a path, a locator or a document name.
    pub fn resolve_path(&self, text: &str) -> Result<ResolvedPath, PathError> {
        if text.trim().trim_matches('/').is_empty() {
            return Ok(ResolvedPath::Folder(Scope::default()));
        }
        match self.resolve_whole(text) {
            Err(error) if !error.is_port_error() => match self.resolve_inside(text)? {
                Some(inside) => Ok(inside),
                None => Err(self.fragment_error(text).unwrap_or(error)),
            },
            whole => whole,
        }
    }

    // Why the text after `#` names no part of a document, if the text before it names one.
    fn fragment_error(&self, text: &str) -> Option<PathError> {
        let (document, fragment) = text.rsplit_once('#')?;
        let is_fragment = fragment.parse::<Fragment>().is_ok();
        if is_fragment {
            return None;
        }
        let document = self.resolve(document).ok()?.label.clone();
        let fragment: String = fragment.chars().take(MAX_SLUG).collect();
        Some(PathError::Document(match fragment.strip_prefix("p=") {
            Some(pages) => ResolveError::InvalidPages {
                document,
                pages: pages.into(),
            },
            None => ResolveError::InvalidFragment { document, fragment },
        }))
    }

    // A folder, a document, or a part named after a `#`.
    fn resolve_whole(&self, text: &str) -> Result<ResolvedPath, PathError> {
        // A file may be called `notes #3`.
        let exact = self.find_exact(text);
        if let Some((document, fragment)) = text.rsplit_once('#')
            && let Ok(part) = fragment.parse()
            && !matches!(exact, Ok(Some(_)))
        {
            return Ok(ResolvedPath::Document {
                listed: self.resolve(document)?,
                inside: Some(DocumentPart::Fragment(part)),
            });
        }
        let scope = Scope::parse(text, self);
        let from_root = text.starts_with('/');
        match (scope, exact) {
            (_, Err(ResolveError::Port(error))) => Err(error.into()),
            (Ok(scope), Ok(None) | Err(_)) => Ok(ResolvedPath::Folder(scope)),
            (Ok(scope), Ok(Some(_))) if from_root => Ok(ResolvedPath::Folder(scope)),
            (_, Ok(Some(catalog_document))) => Ok(whole_document(catalog_document)),
            (Err(ScopeError::Port(error)), _) => Err(error.into()),
            (Err(scope), _) => match self.resolve(text) {
                Ok(catalog_document) => Ok(whole_document(catalog_document)),
                Err(error @ (ResolveError::Ambiguous { .. } | ResolveError::Port(_))) => {
                    Err(error.into())
                }
                Err(_) if from_root => Err(scope.into()),
                Err(error) => Err(error.into()),
            },
        }
    }

    // A path inside a document: the document's own path, followed by section folders, `@item/…` or `@page/…`.
    fn resolve_inside(&self, text: &str) -> PortResult<Option<ResolvedPath>> {
        let mut document = text.trim_end_matches('/');
        let mut part: Option<DocumentPart> = None;
        for _ in 0..MAX_INSIDE {
            let Some((above, inside)) = last_part(document) else {
                return Ok(None);
            };
            document = above;
            // Only the last segment says what is named; those before it are the sections above.
            let inside = part.get_or_insert(inside);
            match self.resolve(document) {
                Ok(listed) => {
                    let inside = Some(inside.clone());
                    return Ok(Some(ResolvedPath::Document { listed, inside }));
                }
                Err(ResolveError::Port(error)) => return Err(error),
                Err(_) => {}
            }
            if !matches!(inside, DocumentPart::Fragment(Fragment::Section(_))) {
                return Ok(None);
            }
        }
        Ok(None)
    }
}

// Splits the last part off a path inside a document.
fn last_part(path: &str) -> Option<(&str, DocumentPart)> {
    let (above, last) = path.rsplit_once('/')?;
    Some(match above.rsplit_once('/') {
        Some((document, "@item")) => (document, item_part(last)?),
        Some((document, "@page")) => (
            document,
            DocumentPart::Fragment(Fragment::Pages(parse_pages(last)?)),
        ),
        _ => (above, folder_part(last)?),
    })
}

fn whole_document(document: Arc<CatalogDocument>) -> ResolvedPath {
    ResolvedPath::Document {
        listed: document,
        inside: None,
    }
}

fn item_part(name: &str) -> Option<DocumentPart> {
    let (part, number) = parse_item_name(name)?;
    Some(DocumentPart::Fragment(Fragment::Item { part, number }))
}

// `0002-item-1-business`, `@item` or `@page`.
fn folder_part(segment: &str) -> Option<DocumentPart> {
    match segment {
        "@item" => Some(DocumentPart::Items),
        "@page" => Some(DocumentPart::Pages),
        _ => {
            let id: SectionId = segment.split('-').next()?.parse().ok()?;
            Some(DocumentPart::Fragment(Fragment::Section(id)))
        }
    }
}

/// Folder name of a section: its id and a slug of its title, as in `0002-item-1-business`.
pub fn section_folder(section: &Section) -> String {
    let mut slug = String::new();
    for c in section.title.chars().flat_map(char::to_lowercase) {
        match c.is_alphanumeric() {
            true => slug.push(c),
            false if !slug.is_empty() && !slug.ends_with('-') => slug.push('-'),
            false => {}
        }
        if slug.chars().count() >= MAX_SLUG {
            break;
        }
    }
    format!("{}-{slug}", section.id)
        .trim_end_matches('-')
        .to_owned()
}

/// Names of `documents` in the listing of `scope`: the file name, or `name~3f2a.pdf` if another document or one of
/// `folders` has that name.
pub fn file_names(
    scope: &Scope,
    documents: &[Arc<CatalogDocument>],
    folders: &[&str],
) -> Vec<String> {
    let mut by_name: HashMap<&str, Vec<String>> = HashMap::with_capacity(documents.len());
    for document in documents {
        by_name
            .entry(document.version().name.as_str())
            .or_default()
            .push(document.doc().to_string());
    }
    by_name.values_mut().for_each(|ids| ids.sort_unstable());
    let folders: HashSet<&str> = folders.iter().copied().collect();
    // After a year, a two-digit name would parse as a month.
    let months = matches!(scope.filters.last(), Some((Property::Filed, FacetSelector::Range { from, .. })) if from.len() == 4);
    documents
        .iter()
        .map(|document| {
            let name = document.version().name.as_str();
            let is_alone =
                by_name.get(name).is_some_and(|ids| ids.len() == 1) && !folders.contains(name);
            match is_alone && !(months && name.len() == 2) {
                true => escape_segment(name),
                false => escape_segment(&name_with_id(document, &by_name)),
            }
        })
        .collect()
}

// Appends as many digits of the id as distinguish the document from others of its name.
fn name_with_id(document: &CatalogDocument, by_name: &HashMap<&str, Vec<String>>) -> String {
    let name = document.version().name.as_str();
    let (stem, ending) = split_name(name);
    let id = document.doc().to_string();
    let ids = by_name.get(name).map(Vec::as_slice).unwrap_or_default();
    let at = ids.partition_point(|other| *other < id);
    let differ = [at.checked_sub(1), Some(at + 1)]
        .into_iter()
        .flatten()
        .filter_map(|at| ids.get(at))
        .map(|other: &String| {
            other
                .bytes()
                .zip(id.bytes())
                .take_while(|(a, b)| a == b)
                .count()
        })
        .max()
        .unwrap_or(0)
        + 1;
    let mut choices = [4, 8, 16, 32]
        .into_iter()
        .filter(|digits| *digits >= differ)
        .map(|digits| format!("{stem}~{}{ending}", &id[..digits]));
    choices
        .find(|choice| !by_name.contains_key(choice.as_str()))
        .unwrap_or(id)
}
