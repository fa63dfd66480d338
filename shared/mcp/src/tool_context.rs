//! Context of one tool call: archive, rights, named documents and waiting.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{ProgressNotificationParam, ProgressToken, Resource};
use rmcp::service::{Peer, RoleServer};
use stemma_answers::Answerer;
use stemma_archive::collections::Collections;
use stemma_archive::pageindex_fields::{is_root, name_of, status};
use stemma_archive::{
    AnswererFactory, ApiError, Archive, PageImages, SearchRequest, SearchResponse, Vision,
};
use stemma_catalog::catalog::{CatalogDocument, DocumentState};
use stemma_catalog::locator::{Fragment, Locator, ResolveError};
use stemma_document::{Collection, DocId, PublishedTree};
use stemma_gateway::admission::{ConcurrencyPermit, RequestPermit};
use stemma_store::Env;

use crate::error::{ToolError, ToolErrorKind};
use crate::preset::Preset;
use crate::tool_result::ResultFormat;

const LOAD_TIMEOUT: Duration = Duration::from_secs(15);
// Clients may time out after 20 s.
const DOCUMENT_TIMEOUT: Duration = Duration::from_secs(17);
// No new index lookup starts after this; one lookup can take five seconds.
const INDEX_TIMEOUT_MS: u64 = 10_000;
const POLL_INTERVAL: Duration = Duration::from_millis(500);
pub(crate) const SCHEME: &str = "stemma://";

/// What some tools need and not every configuration has.
#[derive(Clone, Default)]
pub struct OptionalServices {
    /// `None` without a model.
    pub answerers: Option<Arc<dyn AnswererFactory>>,
    /// `None` where no pages are drawn.
    pub page_images: Option<Arc<PageImages>>,
    /// `None` without a vision model.
    pub vision: Option<Arc<Vision>>,
}

#[derive(Clone)]
pub(crate) struct ToolContext {
    pub(crate) env: Env,
    pub(crate) archive: Arc<Archive>,
    pub(crate) preset: Preset,
    pub(crate) format: ResultFormat,
    // Source of newer archives.
    pub(crate) collections: Arc<Collections>,
    pub(crate) services: OptionalServices,
    // `None` over stdio, which has full access.
    pub(crate) permit: Option<RequestPermit>,
    // Set if the client sent a progress token.
    pub(crate) progress: Option<(Peer<RoleServer>, ProgressToken)>,
}

pub(crate) struct DocumentRef {
    pub(crate) doc: DocId,
    pub(crate) fragment: Option<Fragment>,
}

impl ToolContext {
    // Call before any model call. The generation holds the permit, even after the call times out.
    pub(crate) async fn acquire_model_permit(
        &self,
    ) -> Result<Option<ConcurrencyPermit>, ToolError> {
        match &self.permit {
            Some(permit) => Ok(Some(permit.upgrade_for_model().await?)),
            None => Ok(None),
        }
    }

    pub(crate) fn answerer(&self) -> Result<Arc<dyn Answerer>, ToolError> {
        let Some(answerers) = &self.services.answerers else {
            let message = "no model is configured here: search() finds, get_page_content() reads";
            return Err(ToolError::unavailable("answer.not_available", message));
        };
        Ok(answerers.answerer(&self.archive))
    }
}

/// The newest archive of a collection. Waits while its catalog is loaded for the first time.
pub(crate) async fn load_archive(
    env: &Env,
    collections: &Collections,
    collection: &Collection,
) -> Result<Arc<Archive>, ToolError> {
    let pause = Duration::from_millis(50);
    for _ in 0..LOAD_TIMEOUT.as_millis() / pause.as_millis() {
        if let Some(archive) = collections.get(collection) {
            return Ok(archive);
        }
        env.sleep(pause).await;
    }
    let message = "the catalog is still being loaded";
    Err(ToolError::unavailable("catalog.loading", message))
}

impl ToolContext {
    // Accepts a name, id, locator or URI, also with a folder that disambiguates equal names.
    pub(crate) fn resolve_document(
        &self,
        name: &str,
        folder: Option<&str>,
    ) -> Result<DocumentRef, ToolError> {
        let catalog = self.archive.catalog();
        let locator = match catalog.resolve(name) {
            // A file may be called `notes #3`.
            Ok(_) if name.contains('#') => Locator {
                document: name.into(),
                fragment: None,
            },
            _ => locator_of(name),
        };
        let by_id = match locator.document.parse::<DocId>() {
            Ok(doc) => catalog.get(doc)?,
            Err(_) => None,
        };
        let resolved = match (by_id, folder.filter(|folder| !is_root(folder))) {
            (Some(listed), _) => Ok(listed),
            (None, Some(folder)) => {
                let folder = folder.trim_matches('/');
                catalog.resolve(&format!("/{folder}/{}", locator.document))
            }
            (None, None) => catalog.resolve(&locator.document),
        };
        Ok(DocumentRef {
            doc: resolved.map_err(|error| self.resolve_error(error))?.doc(),
            fragment: locator.fragment,
        })
    }

    fn resolve_error(&self, error: ResolveError) -> ToolError {
        let nothing_like = matches!(&error, ResolveError::NotFound { near, .. } if near.is_empty());
        let failure = ToolError::from(ApiError::from(error));
        if !nothing_like {
            return failure;
        }
        let documents = self.archive.catalog().len();
        failure.with_option(format!(
            "browse_documents() lists the {documents} documents there are"
        ))
    }

    pub(crate) fn listed(&self, document: &DocumentRef) -> Result<Arc<CatalogDocument>, ToolError> {
        self.archive.catalog().get(document.doc)?.ok_or_else(|| {
            let message = "the document was removed in the meantime";
            ToolError::not_found("locator.not_found", message)
        })
    }

    pub(crate) async fn load_published(
        &self,
        document: &DocumentRef,
    ) -> Result<(Arc<CatalogDocument>, Arc<PublishedTree>), ToolError> {
        let listed = self.listed(document)?;
        match self.archive.load_tree(&listed).await? {
            Some(published) => Ok((listed, published)),
            None => Err(not_ready(&listed)),
        }
    }

    // Resolves a document. With `wait`, waits some seconds until it has a tree or failed, and reports progress. The
    // returned context has the archive in that state.
    pub(crate) async fn open_document(
        &self,
        name: &str,
        folder: Option<&str>,
        wait: bool,
    ) -> Result<(DocumentRef, ToolContext), ToolError> {
        let document = self.resolve_document(name, folder)?;
        let mut context = self.clone();
        if !wait {
            return Ok((document, context));
        }
        let looks = DOCUMENT_TIMEOUT.as_millis() / POLL_INTERVAL.as_millis();
        for look in 0..looks {
            let state = context.listed(&document)?.state;
            if !matches!(state, DocumentState::Queued | DocumentState::Running) {
                break;
            }
            self.report_progress(look as f64 / looks as f64, status(state))
                .await;
            self.env.sleep(POLL_INTERVAL).await;
            context.archive =
                load_archive(&self.env, &self.collections, &self.archive.collection).await?;
        }
        Ok((document, context))
    }

    /// Searches with the rights and limits of this call. Waits while the index is built for the first time.
    pub(crate) async fn find_sections(
        &self,
        request: SearchRequest,
    ) -> Result<SearchResponse, ToolError> {
        let request = SearchRequest {
            free_only: self.permit.as_ref().is_some_and(|permit| !permit.may_ask()),
            ..request
        };
        let began_ms = self.env.now_ms();
        loop {
            let waited_ms = self.env.now_ms().saturating_sub(began_ms);
            match self.archive.search(&request).await {
                Err(error) if error.is_index_pending() && waited_ms < INDEX_TIMEOUT_MS => {
                    let share = waited_ms as f64 / INDEX_TIMEOUT_MS as f64;
                    self.report_progress(share, "the index is being built")
                        .await;
                    self.env.sleep(POLL_INTERVAL).await;
                }
                response => return Ok(response?),
            }
        }
    }

    pub(crate) async fn report_progress(&self, share: f64, message: &str) {
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

pub(crate) fn not_ready(listed: &CatalogDocument) -> ToolError {
    let name = name_of(listed);
    let status = status(listed.state);
    match &listed.failure {
        Some(failure) => {
            let message = format!("`{name}` could not be processed: {}", failure.message);
            let refused = ToolError::new(ToolErrorKind::NotReady, &failure.code, message);
            match &failure.next {
                Some(next) => refused.with_option(next.clone()),
                None => refused,
            }
        }
        None => {
            let message = format!("`{name}` is not ready: its status is {status}");
            ToolError::new(ToolErrorKind::NotReady, "document.no_tree", message).with_option(
                format!("Call get_document(doc_name: \"{name}\", wait_for_completion: true)"),
            )
        }
    }
}

// A locator as it is, or as a URI `stemma://DOC/section/0007`.
pub(crate) fn locator_of(name: &str) -> Locator {
    let Some(address) = name.trim().strip_prefix(SCHEME) else {
        return Locator::parse(name.trim());
    };
    let text = match address.split('/').collect::<Vec<_>>().as_slice() {
        [doc, "section", id] => format!("{doc}#{id}"),
        [doc, "item", name] => format!("{doc}#{name}"),
        [doc, "page", pages] => format!("{doc}#p={pages}"),
        _ => address.trim_end_matches('/').to_owned(),
    };
    Locator::parse(&text)
}

pub(crate) fn part_locator(label: &str, part: Option<&Fragment>) -> String {
    part.map_or_else(|| label.to_owned(), |part| format!("{label}#{part}"))
}

pub(crate) fn section_address(doc: DocId, section: impl std::fmt::Display) -> String {
    format!("{SCHEME}{doc}/section/{section}")
}

pub(crate) fn page_address(doc: DocId, page: u32) -> String {
    format!("{SCHEME}{doc}/page/{page}")
}

pub(crate) fn link(address: String, name: &str) -> Resource {
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
