//! The file-system view: the contents of folders, axes and documents as rows.

use std::sync::Arc;

use serde::Serialize;
use stemma_catalog::catalog::CatalogDocument;
use stemma_catalog::facets::{FacetSelector, Scope};
use stemma_catalog::items;
use stemma_catalog::locator::Fragment;
use stemma_catalog::path::{self, DocumentPart, ResolvedPath, section_folder};
use stemma_document::{Section, SectionTree};
use stemma_store::PortResult;
use utoipa::ToSchema;

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
    pub path: String,
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
    Document,
    /// An axis, the folder of its values.
    Axis,
    Section,
    /// An Item of a filing.
    Item,
    Page,
    /// The folder of a document's Items.
    Items,
    /// The folder of a document's pages.
    Pages,
}

/// A row of the file-system view.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct FileEntry {
    pub kind: FileEntryKind,
    /// Level, from 1.
    pub depth: usize,
    /// Display name.
    pub name: String,
    pub path: String,
    /// Number of documents in a folder, values of an axis, or Items or pages of a document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub document: Option<DocumentInfo>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub section: Option<SectionInfo>,
}

impl FilesOptions {
    // The requested part of the rows of a path.
    fn listing(
        &self,
        kind: FileEntryKind,
        path: String,
        documents: usize,
        rows: Vec<FileRow<'_>>,
    ) -> Result<FileListing, ApiError> {
        let total = rows.len();
        let after = match &self.after {
            Some(path) => rows
                .iter()
                .position(|row| row.entry.path == *path)
                .map(|at| at + 1),
            None => Some(0),
        };
        let after = after.ok_or_else(|| {
            let message = "the listing has changed: the row to continue after is gone";
            ApiError::new("cursor.invalid", message, "ask again from the beginning")
        })?;
        let skip = after.saturating_add(self.skip);
        let page = rows.into_iter().skip(skip).take(self.limit);
        Ok(FileListing {
            path,
            kind,
            documents,
            total,
            more: total > skip.saturating_add(self.limit),
            entries: page.map(FileRow::into_entry).collect(),
        })
    }
}

// A row whose document or section is described in full only if the row is shown.
struct FileRow<'a> {
    entry: FileEntry,
    subject: Subject<'a>,
}

enum Subject<'a> {
    None,
    Document(Arc<CatalogDocument>),
    // With its tree and the label of its document.
    Section(&'a SectionTree, &'a Section, &'a str),
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
                let kind = match scope.values_of {
                    Some(_) => FileEntryKind::Axis,
                    None => FileEntryKind::Folder,
                };
                let documents = level.total;
                let mut rows = Vec::new();
                self.collect_rows(&scope, level, 1, options.depth, &mut rows)?;
                options.listing(kind, scope.path(), documents, rows)
            }
            ResolvedPath::Document { listed, inside } => {
                let published = self.require_tree(&listed).await?;
                let place = DocumentFolder {
                    listed: &listed,
                    tree: &published.tree,
                    path: self.path_of(&listed)?,
                };
                let (kind, path, rows) = place.rows(inside.as_ref(), options.depth)?;
                options.listing(kind, path, 1, rows)
            }
        }
    }

    /// The path of a document in its folder.
    pub fn path_of(&self, listed: &CatalogDocument) -> PortResult<String> {
        let folder = listed
            .version()
            .path
            .rsplit_once('/')
            .map(|(folder, _)| folder);
        let scope = Scope {
            folder: folder.unwrap_or_default().to_owned(),
            ..Scope::default()
        };
        let documents = self.catalog.folder_level(&scope.folder)?.documents;
        let at = documents
            .iter()
            .position(|other| other.doc() == listed.doc());
        let names = path::file_names(&scope, &documents, &[]);
        Ok(match at.and_then(|at| names.get(at)) {
            Some(name) => format!("{}/{name}", scope.path().trim_end_matches('/')),
            None => listed.label.clone(),
        })
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
        let mut below = match depth < deepest {
            true => self.subfolders(scope, &level)?.into_iter(),
            false => Vec::new().into_iter(),
        };
        for folder in level.folders {
            let row = FileRow::new(FileEntryKind::Folder, depth, folder.name, folder.locator);
            rows.push(row.with_count(folder.documents));
            if let Some((inside, level)) = below.next() {
                self.collect_rows(&inside, level, depth + 1, deepest, rows)?;
            }
        }
        for (listed, name) in level.documents.into_iter().zip(leaves) {
            let path = format!("{base}/{name}");
            rows.push(FileRow {
                subject: Subject::Document(listed),
                ..FileRow::new(FileEntryKind::Document, depth, name, path)
            });
        }
        // Below the first level, axes would repeat.
        for axis in level.axes.into_iter().filter(|_| depth == 1) {
            let name = format!("@{}", axis.axis);
            let row = FileRow::new(FileEntryKind::Axis, depth, name, axis.locator);
            rows.push(row.with_count(axis.values));
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
            let opened = level.folders.iter().map(|folder| {
                let inside = scope.subfolder(&folder.name);
                let contents = self.folder_contents(&inside, false)?;
                Ok((inside, contents))
            });
            return opened.collect();
        };
        let opened = scope
            .buckets(axis, &self.catalog)?
            .into_iter()
            .map(|group| {
                let is_value = matches!(group.selector, FacetSelector::Exact(_));
                let mut narrowed = scope.without(axis);
                narrowed.filters.push((axis, group.selector));
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
    tree: &'a SectionTree,
    path: String,
}

type DocumentRows<'a> = (FileEntryKind, String, Vec<FileRow<'a>>);

impl<'a> DocumentFolder<'a> {
    fn rows(
        &self,
        inside: Option<&DocumentPart>,
        deepest: usize,
    ) -> Result<DocumentRows<'a>, ApiError> {
        let tree = self.tree;
        let base = &self.path;
        let mut rows = Vec::new();
        Ok(match inside {
            None => {
                self.sections(&tree.sections, base, 1, deepest, &mut rows);
                for (kind, name, count) in [
                    (
                        FileEntryKind::Items,
                        "@item",
                        items::section_items(tree).len(),
                    ),
                    (FileEntryKind::Pages, "@page", self.pages() as usize),
                ] {
                    if count > 0 {
                        let path = format!("{base}/{name}");
                        rows.push(FileRow::new(kind, 1, name.into(), path).with_count(count));
                    }
                }
                (FileEntryKind::Document, base.clone(), rows)
            }
            Some(DocumentPart::Items) => {
                for item in items::section_items(tree) {
                    let fragment = item.fragment();
                    let name = fragment.trim_start_matches("item-").to_owned();
                    let path = format!("{base}/@item/{name}");
                    let row = FileRow::new(FileEntryKind::Item, 1, name, path);
                    rows.push(match tree.section(item.section) {
                        Some(section) => self.with_section(row, section),
                        None => row,
                    });
                }
                (FileEntryKind::Items, format!("{base}/@item"), rows)
            }
            Some(DocumentPart::Pages) => {
                for page in 1..=self.pages() {
                    let path = format!("{base}/@page/{page}");
                    rows.push(FileRow::new(FileEntryKind::Page, 1, page.to_string(), path));
                }
                (FileEntryKind::Pages, format!("{base}/@page"), rows)
            }
            Some(DocumentPart::Fragment(part @ Fragment::Pages(_))) => {
                let pages = part.to_string();
                let pages = pages.trim_start_matches("p=");
                (FileEntryKind::Page, format!("{base}/@page/{pages}"), rows)
            }
            Some(DocumentPart::Fragment(part)) => {
                let path = tree.path_to(resolve_section(tree, &self.listed.label, part)?);
                let folders = path
                    .iter()
                    .map(|section| format!("/{}", section_folder(section)));
                let base = format!("{base}{}", folders.collect::<String>());
                if let Some(section) = path.last() {
                    self.sections(&section.children, &base, 1, deepest, &mut rows);
                }
                (FileEntryKind::Section, base, rows)
            }
        })
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
            let row = FileRow::new(FileEntryKind::Section, depth, name, path.clone());
            rows.push(self.with_section(row, section));
            if depth < deepest {
                self.sections(&section.children, &path, depth + 1, deepest, rows);
            }
        }
    }

    fn with_section(&self, row: FileRow<'a>, section: &'a Section) -> FileRow<'a> {
        FileRow {
            subject: Subject::Section(self.tree, section, &self.listed.label),
            ..row
        }
    }

    fn pages(&self) -> u32 {
        self.tree.extent.pages().unwrap_or(0)
    }
}

impl FileRow<'_> {
    fn new(kind: FileEntryKind, depth: usize, name: String, path: String) -> Self {
        Self {
            entry: FileEntry {
                kind,
                depth,
                name,
                path,
                count: None,
                document: None,
                section: None,
            },
            subject: Subject::None,
        }
    }

    fn with_count(mut self, count: usize) -> Self {
        self.entry.count = Some(count);
        self
    }

    fn into_entry(self) -> FileEntry {
        let mut entry = self.entry;
        match self.subject {
            Subject::None => {}
            Subject::Document(listed) => entry.document = Some(DocumentInfo::from_catalog(&listed)),
            Subject::Section(tree, section, label) => {
                entry.section = Some(SectionInfo::new(tree, section, label));
            }
        }
        entry
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use stemma_catalog::catalog::Catalog;
    use stemma_document::{
        CatalogEntry, Collection, Digest, DocId, DocumentVersion, Extent, Fact, FilingFacts,
        Method, Ticker,
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
