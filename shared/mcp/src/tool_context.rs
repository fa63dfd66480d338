//! One call of a tool: what it reads from, the documents it names, how long it may wait.

use std::sync::Arc;
use std::time::Duration;
use stemma_archive::pageindex_fields::{is_root, name_of, status};

use rmcp::model::{ProgressNotificationParam, ProgressToken, Resource};
use rmcp::service::{Peer, RoleServer};
use stemma_answers::Answerer;
use stemma_catalog::catalog::{CatalogDocument, DocumentState};
use stemma_catalog::locator::{Locator, ResolveError};
use stemma_document::{Collection, DocId, PublishedTree};
use stemma_engine::{Env, PortError};
use stemma_retrieval::search::ItemRef;
use stemma_retrieval::{Query, SearchError, SearchResults, SearchService};

use crate::error::{ToolError, ToolErrorKind};
use crate::server::McpServer;
use crate::tool_result::ResultFormat;
use stemma_archive::Archive;
use stemma_gateway::admission::{ConcurrencyPermit, RequestPermit};

/// How long a call waits for a document at most, below the 20 s after which clients may give up.
const DOCUMENT_TIMEOUT: Duration = Duration::from_secs(17);
/// After how long no further look at an index is begun; one look may take five seconds.
const INDEX_TIMEOUT_MS: u64 = 10_000;
/// How often it looks meanwhile.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// What locators of this server begin with as addresses.
pub(super) const SCHEME: &str = "stemma://";

/// One call of a tool.
pub(super) struct ToolContext<'a> {
    /// Who answers; `None` for an agent's calls, which read what there was when its question came.
    pub(super) server: Option<&'a McpServer>,
    /// The world.
    pub(super) env: Env,
    /// The documents as they are now.
    pub(super) archive: Arc<Archive>,
    /// The collection that is read.
    pub(super) collection: Collection,
    /// In which forms the result is given.
    pub(super) form: ResultFormat,
    /// The Item that is searched, whatever the call says.
    item: Option<ItemRef>,
    /// The request over HTTP that it came with; `None`: from this machine, over standard input.
    permit: Option<RequestPermit>,
    /// Where progress goes, when a token came with the call.
    pub(super) progress: Option<(Peer<RoleServer>, ProgressToken)>,
}

/// A document that a call names, and the part of it.
pub(super) struct DocumentRef {
    /// The document.
    pub(super) doc: DocId,
    /// What of it the name says, as in a locator.
    pub(super) fragment: Option<stemma_catalog::locator::Fragment>,
}

impl<'a> ToolContext<'a> {
    /// A call that came to `server`.
    pub(super) fn new(
        server: &'a McpServer,
        archive: Arc<Archive>,
        collection: Collection,
        form: ResultFormat,
        progress: Option<(Peer<RoleServer>, ProgressToken)>,
    ) -> Self {
        Self {
            server: Some(server),
            env: server.env.clone(),
            archive: archive,
            collection,
            form,
            item: None,
            permit: None,
            progress,
        }
    }

    /// The same, as a request that a gate has let in.
    #[must_use]
    pub(super) fn with_permit(self, permit: Option<RequestPermit>) -> Self {
        Self { permit, ..self }
    }

    /// From here on a model is asked: the place is held by what is made, also after the call has gone.
    pub(super) async fn acquire_model_permit(
        &self,
    ) -> Result<Option<ConcurrencyPermit>, ToolError> {
        match &self.permit {
            Some(permit) => Ok(Some(permit.upgrade_for_model().await?)),
            None => Ok(None),
        }
    }

    /// A call that an agent makes on the way to an answer.
    pub(super) fn for_agent(env: Env, archive: Arc<Archive>, item: Option<ItemRef>) -> Self {
        let collection = archive.collection.clone();
        Self {
            server: None,
            env,
            archive: archive,
            collection,
            form: ResultFormat::Both,
            item,
            permit: None,
            progress: None,
        }
    }

    /// Who answers questions in words over the documents as they are now.
    pub(super) fn answerer(&self) -> Result<Arc<dyn Answerer>, ToolError> {
        self.server
            .and_then(McpServer::answerers)
            .map(|answering| answering.answerer(&self.archive))
            .ok_or_else(|| {
                ToolError::new(
                    ToolErrorKind::Unavailable,
                    "answer.not_here",
                    "no model is configured here: search() finds, get_page_content() reads",
                )
            })
    }
}

impl ToolContext<'_> {
    /// The document of a name, an id, a locator or an address, also under a folder that tells equal names apart.
    pub(super) fn resolve_document(
        &self,
        name: &str,
        folder: Option<&str>,
    ) -> Result<DocumentRef, ToolError> {
        let locator = locator_of(name);
        let catalog = self.archive.catalog();
        let by_id = locator
            .document
            .parse::<DocId>()
            .ok()
            .and_then(|doc| catalog.get(doc));
        let resolved = match (by_id, folder.filter(|folder| !is_root(folder))) {
            (Some(listed), _) => Ok(listed),
            (None, Some(folder)) => catalog.resolve(&format!(
                "/{}/{}",
                folder.trim_matches('/'),
                locator.document
            )),
            (None, None) => catalog.resolve(&locator.document),
        };
        match resolved {
            Ok(listed) => Ok(DocumentRef {
                doc: listed.doc(),
                fragment: locator.fragment,
            }),
            Err(error) => Err(self.resolve_error(error)),
        }
    }

    fn resolve_error(&self, error: ResolveError) -> ToolError {
        let nothing_like = matches!(&error, ResolveError::NotFound { near, .. } if near.is_empty());
        let failure = ToolError::from(stemma_archive::ApiError::from(error));
        if !nothing_like {
            return failure;
        }
        let documents = self.archive.catalog().documents().len();
        failure.with_option(format!(
            "browse_documents() lists the {documents} documents there are"
        ))
    }

    /// The listing of a document that was named.
    pub(super) fn listed(&self, document: &DocumentRef) -> Result<&CatalogDocument, ToolError> {
        self.archive.catalog().get(document.doc).ok_or_else(|| {
            ToolError::new(
                ToolErrorKind::NotFound,
                "locator.not_found",
                "the document was removed meanwhile",
            )
        })
    }

    /// A document and its tree.
    pub(super) async fn load_published(
        &self,
        document: &DocumentRef,
    ) -> Result<(&CatalogDocument, Arc<PublishedTree>), ToolError> {
        let listed = self.listed(document)?;
        match self.archive.load_tree(listed).await? {
            Some(published) => Ok((listed, published)),
            None => Err(not_ready(listed)),
        }
    }

    /// Waits until a document has a tree or has failed, for some seconds; tells of it where progress is asked for.
    pub(super) async fn wait_until_ready(
        &mut self,
        document: &DocumentRef,
    ) -> Result<(), ToolError> {
        let looks = DOCUMENT_TIMEOUT.as_millis() / POLL_INTERVAL.as_millis();
        for look in 0..looks {
            let state = self.listed(document)?.state;
            if !matches!(state, DocumentState::Queued | DocumentState::Running) {
                return Ok(());
            }
            self.report_progress(look as f64 / looks as f64, status(state))
                .await;
            self.env.sleep(POLL_INTERVAL).await;
            let Some(server) = self.server else {
                return Ok(());
            };
            self.archive = server.archive(&self.collection).await?;
        }
        Ok(())
    }

    /// Sections that fit. Where the index is being made the first time, it is waited for.
    pub(super) async fn search(&self, query: &Query) -> Result<SearchResults, ToolError> {
        let mut query = query.clone();
        query.item = self.item.clone().or(query.item);
        query.free_only |= self.permit.as_ref().is_some_and(|permit| !permit.may_ask());
        let began_ms = self.env.now_ms();
        loop {
            let waited_ms = self.env.now_ms().saturating_sub(began_ms);
            match SearchService::search(self.archive.as_ref(), &query).await {
                Err(SearchError::Port(error))
                    if is_being_indexed(&error) && waited_ms < INDEX_TIMEOUT_MS =>
                {
                    self.report_progress(
                        waited_ms as f64 / INDEX_TIMEOUT_MS as f64,
                        "the index is being made",
                    )
                    .await;
                    self.env.sleep(POLL_INTERVAL).await;
                }
                response => return Ok(response?),
            }
        }
    }

    pub(super) async fn report_progress(&self, share: f64, message: &str) {
        let Some((peer, token)) = &self.progress else {
            return;
        };
        let note = ProgressNotificationParam::new(token.clone(), share)
            .with_total(1.0)
            .with_message(message);
        if let Err(error) = peer.notify_progress(note).await {
            tracing::debug!(%error, "progress was not taken");
        }
    }
}

/// Whether a search failed because there is no index yet.
pub(super) fn is_being_indexed(error: &PortError) -> bool {
    error.port == "index" && error.transient
}

/// A document without a tree, and why.
pub(super) fn not_ready(listed: &CatalogDocument) -> ToolError {
    let name = name_of(listed);
    let status = status(listed.state);
    match &listed.failure {
        Some(failure) => {
            let message = format!("`{name}` could not be processed: {}", failure.message);
            let refused = ToolError::new(ToolErrorKind::NotReady, &failure.code, message);
            failure
                .next
                .iter()
                .fold(refused, |refused, next| refused.with_option(next.clone()))
        }
        None => {
            let message = format!("`{name}` is not ready: its status is {status}");
            ToolError::new(ToolErrorKind::NotReady, "document.no_tree", message).with_option(
                format!("Call get_document(doc_name: \"{name}\", wait_for_completion: true)"),
            )
        }
    }
}

/// The locator in a name: as it is, or as an address `stemma://DOC/section/0007`.
pub(super) fn locator_of(name: &str) -> Locator {
    let Some(address) = name.trim().strip_prefix(SCHEME) else {
        return Locator::parse(name.trim());
    };
    let text = match address.split('/').collect::<Vec<_>>().as_slice() {
        [doc, "section", id] => format!("{doc}#{id}"),
        [doc, "item", number] => format!("{doc}#item-{number}"),
        [doc, "page", pages] => format!("{doc}#p={pages}"),
        _ => address.trim_end_matches('/').to_owned(),
    };
    Locator::parse(&text)
}

/// The address of a section.
pub(super) fn section_address(doc: DocId, section: impl std::fmt::Display) -> String {
    format!("{SCHEME}{doc}/section/{section}")
}

/// The address of a page.
pub(super) fn page_address(doc: DocId, page: u32) -> String {
    format!("{SCHEME}{doc}/page/{page}")
}

/// A text that a result speaks of.
pub(super) fn link(address: String, name: &str) -> Resource {
    Resource::new(address, name).with_mime_type("text/plain")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_locators_are_equivalent() {
        for (name, locator) in [
            (" 3M_2022_10K ", "3M_2022_10K"),
            ("stemma://3f2a9c01/section/0007", "3f2a9c01#0007"),
            ("stemma://3f2a9c01/page/5-7", "3f2a9c01#p=5-7"),
            ("stemma://3f2a9c01/item/1A", "3f2a9c01#item-1A"),
            ("stemma://3f2a9c01", "3f2a9c01"),
            ("3M_2022_10K#item-7", "3M_2022_10K#item-7"),
        ] {
            assert_eq!(locator_of(name), Locator::parse(locator), "{name}");
        }
    }
}
