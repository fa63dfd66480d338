//! A collection opened for reading.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use stemma_answers::reason::Reasoner;
use stemma_catalog::catalogue::{Catalogue, Listed};
use stemma_catalog::filter::Filter;
use stemma_catalog::locator::Fragment;
use stemma_catalog::place::{Inside, Place};
use stemma_catalog::shelf::{Opened, Shelf};
use stemma_document::{
    Body, Collection, DocId, Extent, Page, PageNo, PageSpan, PublishedTree, SectionTree, TextLines,
    TreeObject, layout,
};
use stemma_engine::blobs::Blobs;
use stemma_engine::{PortError, TaskKey, artifact};
use stemma_extract::Packed;
use stemma_retrieval::Within;

use crate::refusal::quoted;
use crate::{Kept, Refusal};

/// Pages that are unpacked together, about.
const CHUNK_PAGES: usize = 64;

/// A collection opened for reading: its catalogue as it was when opened, and the store behind it.
pub struct Reader {
    pub(crate) blobs: Arc<dyn Blobs>,
    pub(crate) collection: Collection,
    pub(crate) catalogue: Catalogue,
    /// What outlives it; `None` for a reader without an index.
    pub(crate) kept: Option<Arc<Kept>>,
    /// The only documents it holds, where it was narrowed to some: searches look nowhere else.
    pub(crate) only: Option<Arc<BTreeSet<DocId>>>,
}

impl Reader {
    /// Reads the catalogue of a collection.
    ///
    /// # Errors
    /// [`Refusal`] when the store cannot be read.
    pub async fn open(blobs: Arc<dyn Blobs>, collection: Collection) -> Result<Self, Refusal> {
        let catalogue = Catalogue::load(blobs.as_ref(), &collection).await?;
        Ok(Self::over(blobs, collection, catalogue))
    }

    /// A reader of a catalogue that was read elsewhere.
    pub fn over(blobs: Arc<dyn Blobs>, collection: Collection, catalogue: Catalogue) -> Self {
        Self {
            blobs,
            collection,
            catalogue,
            kept: None,
            only: None,
        }
    }

    /// The same with an index, and with what earlier readers left.
    #[must_use]
    pub fn keeping(self, kept: Arc<Kept>) -> Self {
        Self {
            kept: Some(kept),
            ..self
        }
    }

    /// What walks trees with a model, and the way to it; `None` where no model is configured.
    pub fn reasoner(&self) -> Option<&Arc<Reasoner>> {
        self.kept.as_ref().and_then(|kept| kept.reasoner())
    }

    /// A reader that holds nothing but these documents, under the names they have here: whatever is asked of it, and by whom,
    /// comes from them.
    #[must_use]
    pub fn restricted(&self, within: &Within, filter: &Filter) -> Self {
        let docs: Option<BTreeSet<DocId>> = match within {
            Within::All => None,
            Within::Documents(docs) => Some(docs.iter().copied().collect()),
        };
        let all = docs.is_none() && self.only.is_none() && filter.is_empty();
        let catalogue = if all {
            self.catalogue.clone()
        } else {
            self.catalogue.narrowed(|listed: &Listed| {
                docs.as_ref()
                    .is_none_or(|docs| docs.contains(&listed.doc()))
                    && self
                        .only
                        .as_ref()
                        .is_none_or(|only| only.contains(&listed.doc()))
                    && filter.holds(listed)
            })
        };
        let held = catalogue.documents().iter().map(Listed::doc).collect();
        let only = (!all).then(|| Arc::new(held));
        let blobs = Arc::clone(&self.blobs);
        let collection = self.collection.clone();
        let kept = self.kept.clone();
        Self {
            blobs,
            collection,
            catalogue,
            kept,
            only,
        }
    }

    /// The documents of the collection.
    pub fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    /// The documents in `scope`: a document's locator, a folder, or an axis path; empty or `/` for all.
    ///
    /// # Errors
    /// [`Refusal`] when it names nothing, or two things.
    pub fn in_scope(&self, scope: &str) -> Result<Vec<&Listed>, Refusal> {
        match self.catalogue.place(scope)? {
            Place::Folder(scope) => Ok(self
                .catalogue
                .documents()
                .iter()
                .filter(|listed| scope.holds(listed))
                .collect()),
            Place::Document { listed, .. } => Ok(vec![listed]),
        }
    }

    /// The document a locator or path names, and what of it; a folder is none.
    ///
    /// # Errors
    /// [`Refusal`] when it names nothing, two things, or a folder.
    pub(crate) fn locate(&self, text: &str) -> Result<(&Listed, Option<Fragment>), Refusal> {
        let (next, list) = match self.catalogue.place(text)? {
            Place::Document {
                listed,
                inside: None,
            } => return Ok((listed, None)),
            Place::Document {
                listed,
                inside: Some(Inside::Part(part)),
            } => return Ok((listed, Some(part))),
            Place::Document {
                listed,
                inside: Some(Inside::Items),
            } => ("stemma items", listed.label.clone()),
            Place::Document {
                listed,
                inside: Some(Inside::Pages),
            } => ("stemma stat", listed.label.clone()),
            Place::Folder(scope) => ("stemma tree", scope.path()),
        };
        let message = format!("`{text}` is a folder, and one document is asked for");
        Err(Refusal::new(
            "locator.folder",
            message,
            format!("{next} {}", quoted(&list)),
        ))
    }

    /// The document a locator names, its published tree, and what of it is meant.
    pub(crate) async fn published(
        &self,
        locator: &str,
    ) -> Result<(&Listed, PublishedTree, Option<Fragment>), Refusal> {
        let (listed, part) = self.locate(locator)?;
        match self.tree_of(listed).await? {
            Some(published) => Ok((listed, published, part)),
            None => Err(no_tree(listed)),
        }
    }

    /// The latest tree of a listed document; `None` when it has none (yet, or any more).
    pub(crate) async fn tree_of(
        &self,
        listed: &Listed,
    ) -> Result<Option<PublishedTree>, PortError> {
        let Some(entry) = listed.entry() else {
            return Ok(None);
        };
        let doc = entry.version.doc;
        let seq = entry.version.seq;
        if let Some(tree) = self.kept.as_ref().and_then(|kept| kept.tree(doc, seq)) {
            return Ok(Some(PublishedTree::clone(&tree)));
        }
        let key = layout::tree_key(&self.collection, doc, seq);
        let Some(bytes) = self.blobs.get(&key).await? else {
            return Ok(None);
        };
        let json_bytes = bytes.len();
        match aside(move || serde_json::from_slice::<TreeObject>(&bytes)).await? {
            Ok(TreeObject::Published(published)) => {
                if let Some(kept) = &self.kept {
                    kept.keep_tree(&published, json_bytes);
                }
                Ok(Some(*published))
            }
            Ok(TreeObject::Removed) => Ok(None),
            Err(error) => Err(PortError::lasting(
                "blobs",
                "get",
                format!("{key}: {error}"),
            )),
        }
    }

    /// The file a document was read from; `None` where it is not in the store, or was torn by a power loss.
    pub(crate) async fn original(&self, listed: &Listed) -> Result<Option<Original>, PortError> {
        let version = listed.version();
        let key = layout::original_key(&self.collection, version.source);
        let size_bytes = self
            .blobs
            .size(&key)
            .await?
            .filter(|size_bytes| *size_bytes == version.size_bytes);
        Ok(size_bytes.map(|size_bytes| Original {
            blobs: Arc::clone(&self.blobs),
            key,
            size_bytes,
        }))
    }

    /// The packed text of a tree; `None` when the store does not have it (an imported tree).
    pub(crate) async fn packed(
        &self,
        published: &PublishedTree,
    ) -> Result<Option<Packed>, PortError> {
        let Ok(key) = published.text_artifact.parse::<TaskKey>() else {
            return Ok(None);
        };
        let scope = layout::document_scope(&self.collection, published.version.doc);
        let Some(bytes) = artifact::blob(self.blobs.as_ref(), &scope, &key, "source").await? else {
            return Ok(None);
        };
        Packed::open(bytes)
            .map(Some)
            .map_err(|error: stemma_extract::PackError| {
                PortError::lasting("blobs", "get", format!("{scope}: {error}"))
            })
    }

    /// The whole text of a tree; `None` when the store does not have it.
    pub(crate) async fn body(&self, published: &PublishedTree) -> Result<Option<Body>, PortError> {
        let Some(packed) = self.packed(published).await? else {
            return Ok(None);
        };
        match aside(move || packed.source()).await? {
            Ok(source) => Ok(Some(source.body)),
            Err(error) => Err(PortError::lasting(
                "blobs",
                "get",
                format!("{}: {error}", published.version.name),
            )),
        }
    }
}

/// The chunk of a packed text in which a page lies.
fn chunk_of(number: u32) -> usize {
    (number as usize - 1) / CHUNK_PAGES
}

/// The bytes of a document, as they lie in the store.
pub(crate) struct Original {
    blobs: Arc<dyn Blobs>,
    key: String,
    /// How many.
    pub(crate) size_bytes: u64,
}

impl Original {
    /// Some of them; `None` when they were removed meanwhile.
    pub(crate) async fn read(
        &self,
        range: std::ops::Range<u64>,
    ) -> Result<Option<bytes::Bytes>, PortError> {
        self.blobs.get_range(&self.key, range).await
    }
}

/// Work that keeps a core busy, off the threads that serve IO.
pub(crate) async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, PortError> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| PortError::lasting("query", "compute", error.to_string()))
}

/// A document that is listed and has no tree: its state says why.
pub(crate) fn no_tree(listed: &Listed) -> Refusal {
    let label = &listed.label;
    let message = match &listed.failure {
        Some(failure) => format!("`{label}` has no tree: {}", failure.message),
        None => format!("`{label}` has no tree yet: {}", listed.state.as_str()),
    };
    Refusal::new(
        "document.no_tree",
        message,
        format!("stemma why {}", quoted(label)),
    )
    .about(label)
}

/// A document whose tree is there and whose text is not.
pub(crate) fn no_text(listed: &Listed) -> Refusal {
    let label = &listed.label;
    let message = format!("the text of `{label}` is not in the store");
    Refusal::new(
        "document.no_text",
        message,
        "stemma ingest the file to have its text",
    )
    .about(label)
}

#[async_trait]
impl Shelf for Reader {
    async fn tree(&self, listed: &Listed) -> Result<Option<Arc<SectionTree>>, PortError> {
        Ok(self
            .tree_of(listed)
            .await?
            .map(|published| Arc::new(published.tree)))
    }

    async fn open(&self, listed: &Listed) -> Result<Option<Opened>, PortError> {
        let Some(published) = self.tree_of(listed).await? else {
            return Ok(None);
        };
        let body = self.body(&published).await?;
        Ok(Some(Opened {
            tree: published.tree,
            body,
        }))
    }

    async fn pages(&self, listed: &Listed, numbers: &[u32]) -> Result<Vec<(u32, Page)>, PortError> {
        let Some(published) = self.tree_of(listed).await? else {
            return Ok(Vec::new());
        };
        let Some(packed) = self.packed(&published).await? else {
            return Ok(Vec::new());
        };
        let name = published.version.name.clone();
        let last = match published.tree.extent {
            Extent::Pages(count) => count,
            Extent::Lines(_) => 0,
        };
        let wanted: BTreeSet<u32> = numbers
            .iter()
            .copied()
            .filter(|number| (1..=last).contains(number))
            .collect();
        aside(move || {
            let mut pages = Vec::new();
            // What lies in one chunk is unpacked once.
            let wanted: Vec<u32> = wanted.into_iter().collect();
            for near in wanted.chunk_by(|one, other| chunk_of(*one) == chunk_of(*other)) {
                let Some(span) = PageSpan::new(near[0], near[near.len() - 1]) else {
                    continue;
                };
                let read = packed.pages(span).map_err(|error| {
                    PortError::lasting("blobs", "get", format!("{name}: {error}"))
                })?;
                let numbered = span.pages().map(PageNo::get).zip(read);
                pages.extend(numbered.filter(|(number, _)| near.contains(number)));
            }
            Ok(pages)
        })
        .await?
    }

    async fn lines(&self, listed: &Listed) -> Result<Option<Arc<TextLines>>, PortError> {
        let Some(published) = self.tree_of(listed).await? else {
            return Ok(None);
        };
        match self.body(&published).await? {
            Some(Body::Lines(lines)) => Ok(Some(Arc::new(lines))),
            _ => Ok(None),
        }
    }
}
