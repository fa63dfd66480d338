//! The file-system view: the contents of folders, axes and documents as rows.

use std::sync::Arc;

use serde::Serialize;
use stemma_catalog::catalog::CatalogDocument;
use stemma_catalog::facets::{FacetSelector, Scope};
use stemma_catalog::items;
use stemma_catalog::locator::Fragment;
use stemma_catalog::path::{DocumentPart, ResolvedPath, section_folder};
use stemma_document::{Extent, PublishedTree, Section, SectionTree};
use stemma_store::PortResult;
use utoipa::ToSchema;

use crate::archive::no_tree;
use crate::list::FolderContents;
use crate::tree::resolve_section;
use crate::{ApiError, Archive, DocumentInfo, SectionInfo};

/// How much of a listing to return.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilesOptions {
    /// Levels, from 1.
    pub depth: usize,
    /// Path of the last row of the previous page.
    pub after: Option<String>,
    /// Rows to skip after it.
    pub skip: usize,
    /// Rows to return.
    pub limit: usize,
}

/// The contents of a path, in the order folders, documents, axes.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct FileListing {
    /// The path.
    pub path: String,
    /// Kind of entry.
    pub kind: FileEntryKind,
    /// Number of documents, with those of subfolders; 1 for a document and its parts.
    pub documents: usize,
    /// Number of rows on all pages.
    pub total: usize,
    /// Whether more rows follow.
    pub more: bool,
    /// The rows.
    pub entries: Vec<FileEntry>,
}

/// Kind of row in the file-system view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileEntryKind {
    /// A folder as ingested, or a value of an axis.
    Folder,
    /// A document.
    Document,
    /// An axis, the folder of its values.
    Axis,
    /// A section of a document.
    Section,
    /// An Item of a filing.
    Item,
    /// A page.
    Page,
    /// The folder of a document's Items.
    Items,
    /// The folder of a document's pages.
    Pages,
}

/// A row of the file-system view.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct FileEntry {
    /// Kind of entry.
    pub kind: FileEntryKind,
    /// Level, from 1.
    pub depth: usize,
    /// Display name.
    pub name: String,
    /// Path of the entry.
    pub path: String,
    /// Number of documents in a folder, values of an axis, or Items or pages of a document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<usize>,
    /// The document, if it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub document: Option<DocumentInfo>,
    /// The section, if it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub section: Option<SectionInfo>,
}

impl FilesOptions {
    fn window(&self, rows: Vec<FileRow<'_>>) -> Result<(usize, bool, Vec<FileEntry>), ApiError> {
        let total = rows.len();
        let after = match &self.after {
            Some(path) => {
                rows.iter()
                    .position(|row| row.path == *path)
                    .ok_or_else(|| {
                        let message =
                            "the row after which the listing was to go on is not there any more";
                        ApiError::new("cursor.invalid", message, "ask again from the beginning")
                    })?
                    + 1
            }
            None => 0,
        };
        let skip = after.saturating_add(self.skip);
        let more = total > skip.saturating_add(self.limit);
        Ok((
            total,
            more,
            rows.into_iter()
                .skip(skip)
                .take(self.limit)
                .map(FileRow::into_entry)
                .collect(),
        ))
    }
}

/// A row before it is known whether it is shown.
struct FileRow<'a> {
    kind: FileEntryKind,
    depth: usize,
    name: String,
    path: String,
    count: Option<usize>,
    document: Option<Arc<CatalogDocument>>,
    section: Option<SectionInDocument<'a>>,
}

/// A section with the tree and the label of its document.
struct SectionInDocument<'a> {
    tree: &'a SectionTree,
    section: &'a Section,
    label: &'a str,
}

impl Archive {
    /// Lists a path: folders, documents and axes; in a document its sections, Items and pages.
    ///
    /// # Errors
    /// [`ApiError`] when it names nothing, two things, or lies in a document without a tree.
    pub async fn files(&self, path: &str, options: &FilesOptions) -> Result<FileListing, ApiError> {
        match self.catalog.resolve_path(path)? {
            ResolvedPath::Folder(scope) => {
                let level = self.folder_contents(&scope, false)?;
                let kind = if scope.values_of.is_some() {
                    FileEntryKind::Axis
                } else {
                    FileEntryKind::Folder
                };
                let documents = level.total;
                let mut rows = Vec::new();
                self.collect_rows(&scope, level, 1, options.depth, &mut rows)?;
                let (total, more, entries) = options.window(rows)?;
                Ok(FileListing {
                    path: scope.path(),
                    kind,
                    documents,
                    total,
                    more,
                    entries,
                })
            }
            ResolvedPath::Document { listed, inside } => {
                let published = self
                    .load_tree(&listed)
                    .await?
                    .ok_or_else(|| no_tree(&listed))?;
                let place = DocumentFolder {
                    listed: &listed,
                    published: &published,
                    path: self.path_of(&listed)?,
                };
                let (kind, path, rows) = place.rows(inside.as_ref(), options.depth)?;
                let (total, more, entries) = options.window(rows)?;
                Ok(FileListing {
                    path,
                    kind,
                    documents: 1,
                    total,
                    more,
                    entries,
                })
            }
        }
    }

    /// The path of a document in its folder.
    ///
    /// # Errors
    /// `PortError` when the catalog cannot be read.
    pub fn path_of(&self, listed: &CatalogDocument) -> PortResult<String> {
        let path = &listed.version().path;
        let folder = path
            .rsplit_once('/')
            .map(|(folder, _)| folder.to_owned())
            .unwrap_or_default();
        let scope = Scope {
            folder,
            ..Scope::default()
        };
        let level = FolderContents {
            folders: Vec::new(),
            ..FolderContents::from_documents(self.catalog.folder_level(&scope.folder)?.documents)
        };
        let at = level
            .documents
            .iter()
            .position(|other| other.doc() == listed.doc());
        let leaf = at.and_then(|at| level.leaf_names(&scope).into_iter().nth(at));
        Ok(leaf.map_or_else(
            || listed.label.clone(),
            |leaf| format!("{}/{leaf}", scope.path().trim_end_matches('/')),
        ))
    }

    fn collect_rows(
        &self,
        scope: &Scope,
        level: FolderContents,
        depth: usize,
        deepest: usize,
        rows: &mut Vec<FileRow<'_>>,
    ) -> PortResult<()> {
        let leaves = level.leaf_names(scope);
        let base = scope.path();
        let base = base.trim_end_matches('/');
        let below = if depth < deepest {
            self.subfolders(scope, &level)?
        } else {
            Vec::new()
        };
        let mut below = below.into_iter();
        for folder in level.folders {
            let kind = FileEntryKind::Folder;
            let count = Some(folder.documents);
            rows.push(FileRow {
                count,
                ..FileRow::new(kind, depth, folder.name, folder.locator)
            });
            if let Some((inside, level)) = below.next() {
                self.collect_rows(&inside, level, depth + 1, deepest, rows)?;
            }
        }
        for (listed, name) in level.documents.into_iter().zip(leaves) {
            let path = format!("{base}/{name}");
            rows.push(FileRow {
                document: Some(listed),
                ..FileRow::new(FileEntryKind::Document, depth, name, path)
            });
        }
        // Below the first level, axes would repeat.
        for axis in level.axes.into_iter().filter(|_| depth == 1) {
            let name = format!("@{}", axis.axis);
            rows.push(FileRow {
                count: Some(axis.values),
                ..FileRow::new(FileEntryKind::Axis, depth, name, axis.locator)
            });
        }
        Ok(())
    }

    // The contents of each folder of a level; value ranges are not opened.
    fn subfolders(
        &self,
        scope: &Scope,
        level: &FolderContents,
    ) -> PortResult<Vec<(Scope, FolderContents)>> {
        let Some(axis) = scope.values_of else {
            let scopes = level.folders.iter().map(|folder| {
                let path = [scope.folder.as_str(), &folder.name]
                    .into_iter()
                    .filter(|part| !part.is_empty());
                Scope {
                    folder: path.collect::<Vec<_>>().join("/"),
                    filters: scope.filters.clone(),
                    values_of: None,
                }
            });
            return scopes
                .map(|scope| Ok((scope.clone(), self.folder_contents(&scope, false)?)))
                .collect();
        };
        let others: Vec<_> = scope
            .filters
            .iter()
            .filter(|(on, _)| *on != axis)
            .cloned()
            .collect();
        let groups = scope.buckets(axis, &self.catalog)?.into_iter();
        let opened = groups.map(|group| {
            let mut filters = others.clone();
            let is_value = matches!(group.selector, FacetSelector::Exact(_));
            filters.push((axis, group.selector));
            let narrowed = Scope {
                folder: scope.folder.clone(),
                filters,
                values_of: None,
            };
            let mut documents = Vec::new();
            if is_value {
                let inside = self.catalog.in_scope(&narrowed)?;
                let inside = inside.and(&self.catalog.in_scope(scope)?);
                documents = self.catalog.list(&inside).collect::<PortResult<_>>()?;
            }
            Ok((narrowed, FolderContents::from_documents(documents)))
        });
        opened.collect()
    }
}

/// A document opened like a folder.
struct DocumentFolder<'a> {
    listed: &'a CatalogDocument,
    published: &'a PublishedTree,
    path: String,
}

type DocumentRows<'a> = (FileEntryKind, String, Vec<FileRow<'a>>);

impl<'a> DocumentFolder<'a> {
    fn rows(
        &self,
        inside: Option<&DocumentPart>,
        deepest: usize,
    ) -> Result<DocumentRows<'a>, ApiError> {
        let tree = &self.published.tree;
        let label = self.listed.label.as_str();
        let mut rows = Vec::new();
        match inside {
            None => {
                self.sections(&tree.sections, &self.path, 1, deepest, &mut rows);
                let items = items::section_items(tree).len();
                let pages = self.pages();
                for (kind, name, count) in [
                    (FileEntryKind::Items, "@item", items),
                    (FileEntryKind::Pages, "@page", pages),
                ] {
                    if count > 0 {
                        let path = format!("{}/{name}", self.path);
                        rows.push(FileRow {
                            count: Some(count),
                            ..FileRow::new(kind, 1, name.into(), path)
                        });
                    }
                }
                Ok((FileEntryKind::Document, self.path.clone(), rows))
            }
            Some(DocumentPart::Items) => {
                let all = items::section_items(tree);
                for item in &all {
                    let fragment = item.fragment();
                    let name = fragment
                        .strip_prefix("item-")
                        .unwrap_or(&fragment)
                        .to_owned();
                    let path = format!("{}/@item/{name}", self.path);
                    let section = tree.section(item.section).map(|section| SectionInDocument {
                        tree,
                        section,
                        label,
                    });
                    rows.push(FileRow {
                        section,
                        ..FileRow::new(FileEntryKind::Item, 1, name, path)
                    });
                }
                Ok((FileEntryKind::Items, format!("{}/@item", self.path), rows))
            }
            Some(DocumentPart::Pages) => Ok((
                FileEntryKind::Pages,
                format!("{}/@page", self.path),
                (1..=self.pages())
                    .map(|page: usize| {
                        let path = format!("{}/@page/{page}", self.path);
                        FileRow::new(FileEntryKind::Page, 1, page.to_string(), path)
                    })
                    .collect(),
            )),
            Some(DocumentPart::Fragment(part @ Fragment::Pages(_))) => {
                let pages = part.to_string();
                Ok((
                    FileEntryKind::Page,
                    format!("{}/@page/{}", self.path, pages.trim_start_matches("p=")),
                    rows,
                ))
            }
            Some(DocumentPart::Fragment(part)) => {
                let path = tree.path_to(resolve_section(tree, label, part)?);
                let folders: String = path
                    .iter()
                    .map(|section| format!("/{}", section_folder(section)))
                    .collect();
                let base = format!("{}{folders}", self.path);
                let children = path
                    .last()
                    .map(|section| section.children.as_slice())
                    .unwrap_or_default();
                self.sections(children, &base, 1, deepest, &mut rows);
                Ok((FileEntryKind::Section, base, rows))
            }
        }
    }

    fn sections(
        &self,
        sections: &'a [Section],
        base: &str,
        depth: usize,
        deepest: usize,
        rows: &mut Vec<FileRow<'a>>,
    ) {
        for section in sections {
            let name = section_folder(section);
            let path = format!("{base}/{name}");
            let section_ref = Some(SectionInDocument {
                tree: &self.published.tree,
                section,
                label: self.listed.label.as_str(),
            });
            rows.push(FileRow {
                section: section_ref,
                ..FileRow::new(FileEntryKind::Section, depth, name, path.clone())
            });
            if depth < deepest {
                self.sections(&section.children, &path, depth + 1, deepest, rows);
            }
        }
    }

    fn pages(&self) -> usize {
        match self.published.tree.extent {
            Extent::Pages(pages) => pages as usize,
            Extent::Lines(_) => 0,
        }
    }
}

impl FileRow<'_> {
    fn new(kind: FileEntryKind, depth: usize, name: String, path: String) -> Self {
        Self {
            kind,
            depth,
            name,
            path,
            count: None,
            document: None,
            section: None,
        }
    }

    fn into_entry(self) -> FileEntry {
        let FileRow {
            kind,
            depth,
            name,
            path,
            count,
            document,
            section,
        } = self;
        let document = document.map(|listed| DocumentInfo::from_catalog(&listed));
        let section = section.map(|at| SectionInfo::new(at.tree, at.section, at.label));
        FileEntry {
            kind,
            depth,
            name,
            path,
            count,
            document,
            section,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use stemma_catalog::catalog::Catalog;
    use stemma_document::{
        CatalogEntry, Collection, Digest, DocId, DocumentVersion, Fact, FilingFacts, Method, Ticker,
    };
    use stemma_store::blobs::MemoryBlobs;

    use super::*;

    const ALL: FilesOptions = FilesOptions {
        depth: 1,
        after: None,
        skip: 0,
        limit: usize::MAX,
    };

    fn entry(root: usize, path: &str, [company, form, year, filed]: [&str; 4]) -> CatalogEntry {
        let uri = format!("file:///{root}/{path}");
        let name = path.rsplit('/').next().unwrap().to_owned();
        let version = DocumentVersion {
            doc: DocId::new(&Collection::default(), &uri),
            seq: 1,
            uri,
            name,
            path: path.into(),
            source: Digest::from_content(b""),
            origin: Default::default(),
            size_bytes: 0,
            settings: "".into(),
            sidecar_facts: Default::default(),
            filing_facts: Default::default(),
            correction: None,
            labels: None,
        };
        let fact = |value: &str| Some(Fact::from_text(value, None)).filter(|_| !value.is_empty());
        let facts = FilingFacts {
            issuer: fact(company),
            form: fact(form),
            fiscal_year: fact(year),
            filed: fact(filed),
            tickers: company
                .split(' ')
                .filter(|word| !word.is_empty())
                .map(|value: &str| Ticker {
                    symbol: Fact::from_text(value, None),
                    exchange: None,
                })
                .collect(),
            ..FilingFacts::default()
        };
        CatalogEntry {
            version,
            extent: Extent::Pages(1),
            sections: 1,
            tokens: 1,
            method: Method::Layout,
            doubt: Some(0.0),
            gaps: Vec::new(),
            facts,
            description: None,
        }
    }

    fn archive(entries: Vec<CatalogEntry>) -> Archive {
        let catalog = Catalog::from_entries(entries);
        Archive::new(
            Arc::new(MemoryBlobs::default()),
            Collection::default(),
            catalog,
        )
    }

    /// Goes through all folders and axes, `deepest` levels down, and pastes back what is printed.
    fn assert_paths_resolve(archive: &Archive, path: &str, deepest: usize) {
        let view = futures::executor::block_on(archive.files(path, &ALL))
            .unwrap_or_else(|error| panic!("{path}: {error}"));
        let mut paths = std::collections::HashSet::new();
        for entry in &view.entries {
            assert!(
                paths.insert(&entry.path),
                "{} is listed twice in {path}",
                entry.path
            );
            assert!(entry.count != Some(0), "{} is empty", entry.path);
            match (archive.catalog().resolve_path(&entry.path), &entry.document) {
                (
                    Ok(ResolvedPath::Document {
                        listed,
                        inside: None,
                    }),
                    Some(document),
                ) => {
                    assert_eq!(
                        listed.doc().to_string(),
                        document.doc_id,
                        "{} in {path}",
                        entry.path
                    );
                }
                (Ok(ResolvedPath::Folder(scope)), None) => {
                    assert_eq!(scope.path(), entry.path, "in {path}");
                    let count = archive.catalog().in_scope(&scope).unwrap().len();
                    let axis = entry.kind == FileEntryKind::Axis;
                    assert!(
                        axis || Some(count) == entry.count,
                        "{} holds {count}: {entry:?}",
                        entry.path
                    );
                    if deepest > 0 {
                        assert_paths_resolve(archive, &entry.path, deepest - 1);
                    }
                }
                (other, _) => panic!("{} in {path} names {other:?}", entry.path),
            }
        }
        let all = FilesOptions { depth: 9, ..ALL };
        let deep = futures::executor::block_on(archive.files(path, &all)).unwrap();
        assert!(deep.entries.len() >= view.entries.len());
        for entry in deep.entries {
            let doc = entry.document.map(|document| document.doc_id);
            match archive
                .catalog()
                .resolve_path(&entry.path)
                .unwrap_or_else(|error| panic!("{}: {error}", entry.path))
            {
                ResolvedPath::Document { listed, .. } => {
                    assert_eq!(Some(listed.doc().to_string()), doc, "{}", entry.path);
                }
                ResolvedPath::Folder(_) => assert!(doc.is_none(), "{}", entry.path),
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn whatever_is_listed_can_be_pasted_back(documents in prop::collection::vec((
            0..2_usize,
            "([@.%#a年\u{202e}~]{1,2}/){0,2}[@aAx#%~. 年]{0,3}(x|02|~0000)(\\.pdf|\\.md)?",
            prop::sample::select(vec!["", "3M COMPANY", "3M Co.", "Café & Söhne AG", "A..B", "@home", "The A/S #1", "%41"]),
            prop::sample::select(vec!["", "10-K", "10-K/A", "10-Q"]),
            prop::sample::select(vec!["", "2021", "2022"]),
            prop::sample::select(vec!["", "2022-02-01", "2022-02-02", "2022-11-30", "2023-02-01", "unknown"]),
        ), 1..16)) {
            let entries = documents.iter().map(|(root, path, company, form, year, filed)| entry(*root, path, [company, form, year, filed]));
            assert_paths_resolve(&archive(entries.collect()), "/", 3);
        }
    }

    #[test]
    fn folders_come_first_and_equal_names_get_suffixes() {
        let none = [""; 4];
        let archive = archive(vec![
            entry(0, "a/x.pdf", ["3M COMPANY", "10-K", "2022", "2023-02-08"]),
            entry(1, "a/x.pdf", ["3M COMPANY", "10-Q", "2022", "2023-05-01"]),
            entry(0, "b.md", none),
            entry(0, "a", none),
        ]);
        let all = [
            "/",
            "/a",
            "/@filed",
            "/@filed/2023",
            "/@filed/2023/02",
            "/@company/3M",
        ]
        .map(|path: &str| {
            let view = futures::executor::block_on(archive.files(path, &ALL)).unwrap();
            view.entries
                .iter()
                .map(|entry: &FileEntry| {
                    format!(
                        "{}{}",
                        entry.path,
                        entry.count.map(|n| format!(" ({n})")).unwrap_or_default()
                    )
                })
                .collect::<Vec<_>>()
                .join("\n")
        })
        .join("\n\n");
        insta::assert_snapshot!(all, @r"
        /a (2)
        /a~d3ef
        /b.md
        /@form (2)
        /@filed (2)
        /@ticker (2)

        /a/x~f32f.pdf
        /a/x~fc41.pdf
        /a/@form (2)
        /a/@filed (2)
        /a/@ticker (2)

        /@filed/2023 (2)

        /@filed/2023/02 (1)
        /@filed/2023/05 (1)

        /@filed/2023/02/x.pdf

        /@company/3m/x~f32f.pdf
        /@company/3m/x~fc41.pdf
        /@company/3m/@form (2)
        /@company/3m/@filed (2)
        /@company/3m/@ticker (2)
        ");
    }
}
