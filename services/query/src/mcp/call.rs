//! One call of a tool: what it reads from, the documents it names, how long it may wait.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{ProgressNotificationParam, ProgressToken, Resource};
use rmcp::service::{Peer, RoleServer};
use stemma_answers::Answerer;
use stemma_catalog::catalogue::{Listed, State};
use stemma_catalog::locator::{Locator, ResolveError};
use stemma_document::{Collection, DocId, PublishedTree};
use stemma_engine::{Env, PortError};
use stemma_retrieval::find::ItemRef;
use stemma_retrieval::{FindError, Finder, Found, Query};

use super::answer::Form;
use super::desk::Desk;
use super::failure::{Failure, Kind};
use crate::Reader;
use crate::server::stay::{Place, Stay};

/// How long a call waits for a document at most, below the 20 s after which clients may give up.
const WAIT: Duration = Duration::from_secs(17);
/// After how long no further look at an index is begun; one look may take five seconds.
const INDEX_WAIT_MS: u64 = 10_000;
/// How often it looks meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// What locators of this server begin with as addresses.
pub(super) const SCHEME: &str = "stemma://";

/// One call of a tool.
pub(super) struct Call<'a> {
    /// Who answers; `None` for an agent's calls, which read what there was when its question came.
    pub(super) desk: Option<&'a Desk>,
    /// The world.
    pub(super) env: Env,
    /// The documents as they are now.
    pub(super) reader: Arc<Reader>,
    /// The collection that is read.
    pub(super) collection: Collection,
    /// In which forms the result is given.
    pub(super) form: Form,
    /// The Item that is searched, whatever the call says.
    item: Option<ItemRef>,
    /// The request over HTTP that it came with; `None`: from this machine, over standard input.
    stay: Option<Stay>,
    /// Where progress goes, when a token came with the call.
    pub(super) progress: Option<(Peer<RoleServer>, ProgressToken)>,
}

/// A document that a call names, and the part of it.
pub(super) struct Named {
    /// The document.
    pub(super) doc: DocId,
    /// What of it the name says, as in a locator.
    pub(super) fragment: Option<stemma_catalog::locator::Fragment>,
}

impl<'a> Call<'a> {
    /// A call that came to `desk`.
    pub(super) fn of(
        desk: &'a Desk,
        reader: Arc<Reader>,
        collection: Collection,
        form: Form,
        progress: Option<(Peer<RoleServer>, ProgressToken)>,
    ) -> Self {
        Self {
            desk: Some(desk),
            env: desk.env.clone(),
            reader,
            collection,
            form,
            item: None,
            stay: None,
            progress,
        }
    }

    /// The same, as a request that a gate has let in.
    #[must_use]
    pub(super) fn behind(self, stay: Option<Stay>) -> Self {
        Self { stay, ..self }
    }

    /// From here on a model is asked: the place is held by what is made, also after the call has gone.
    pub(super) async fn ask(&self) -> Result<Option<Place>, Failure> {
        match &self.stay {
            Some(stay) => Ok(Some(stay.ask().await?)),
            None => Ok(None),
        }
    }

    /// A call that an agent makes on the way to an answer.
    pub(super) fn of_agent(env: Env, reader: Arc<Reader>, item: Option<ItemRef>) -> Self {
        let collection = reader.collection.clone();
        Self {
            desk: None,
            env,
            reader,
            collection,
            form: Form::Both,
            item,
            stay: None,
            progress: None,
        }
    }

    /// Who answers questions in words over the documents as they are now.
    pub(super) fn answerer(&self) -> Result<Arc<dyn Answerer>, Failure> {
        self.desk
            .and_then(Desk::answering)
            .map(|answering| answering.over(&self.reader))
            .ok_or_else(|| {
                Failure::new(
                    Kind::Unavailable,
                    "answer.not_here",
                    "no model is configured here: search() finds, get_page_content() reads",
                )
            })
    }
}

impl Call<'_> {
    /// The document of a name, an id, a locator or an address, also under a folder that tells equal names apart.
    pub(super) fn named(&self, name: &str, folder: Option<&str>) -> Result<Named, Failure> {
        let locator = locator_of(name);
        let catalogue = self.reader.catalogue();
        let known = locator
            .document
            .parse::<DocId>()
            .ok()
            .and_then(|doc| catalogue.get(doc));
        let found = match (known, folder.filter(|folder| !is_root(folder))) {
            (Some(listed), _) => Ok(listed),
            (None, Some(folder)) => catalogue.resolve(&format!(
                "/{}/{}",
                folder.trim_matches('/'),
                locator.document
            )),
            (None, None) => catalogue.resolve(&locator.document),
        };
        match found {
            Ok(listed) => Ok(Named {
                doc: listed.doc(),
                fragment: locator.fragment,
            }),
            Err(error) => Err(self.not_resolved(error)),
        }
    }

    fn not_resolved(&self, error: ResolveError) -> Failure {
        let nothing_like = matches!(&error, ResolveError::NotFound { near, .. } if near.is_empty());
        let failure = Failure::from(crate::Refusal::from(error));
        if !nothing_like {
            return failure;
        }
        let documents = self.reader.catalogue().documents().len();
        failure.option(format!(
            "browse_documents() lists the {documents} documents there are"
        ))
    }

    /// The listing of a document that was named.
    pub(super) fn listed(&self, named: &Named) -> Result<&Listed, Failure> {
        self.reader.catalogue().get(named.doc).ok_or_else(|| {
            Failure::new(
                Kind::NotFound,
                "locator.not_found",
                "the document was removed meanwhile",
            )
        })
    }

    /// A document and its tree.
    pub(super) async fn published(
        &self,
        named: &Named,
    ) -> Result<(&Listed, PublishedTree), Failure> {
        let listed = self.listed(named)?;
        match self.reader.tree_of(listed).await? {
            Some(published) => Ok((listed, published)),
            None => Err(not_ready(listed)),
        }
    }

    /// Waits until a document has a tree or has failed, for some seconds; tells of it where progress is asked for.
    pub(super) async fn wait_for(&mut self, named: &Named) -> Result<(), Failure> {
        let looks = WAIT.as_millis() / LOOK_EVERY.as_millis();
        for look in 0..looks {
            let state = self.listed(named)?.state;
            if !matches!(state, State::Queued | State::Running) {
                return Ok(());
            }
            self.tell(look as f64 / looks as f64, status(state)).await;
            self.env.sleep(LOOK_EVERY).await;
            let Some(desk) = self.desk else { return Ok(()) };
            self.reader = desk.reader(&self.collection).await?;
        }
        Ok(())
    }

    /// Sections that fit. Where the index is being made the first time, it is waited for.
    pub(super) async fn find(&self, query: &Query) -> Result<Found, Failure> {
        let mut query = query.clone();
        query.item = self.item.clone().or(query.item);
        query.for_nothing |= self.stay.as_ref().is_some_and(|stay| !stay.may_ask());
        let began_ms = self.env.now_ms();
        loop {
            let waited_ms = self.env.now_ms().saturating_sub(began_ms);
            match self.reader.find(&query).await {
                Err(FindError::Port(error))
                    if is_being_indexed(&error) && waited_ms < INDEX_WAIT_MS =>
                {
                    self.tell(
                        waited_ms as f64 / INDEX_WAIT_MS as f64,
                        "the index is being made",
                    )
                    .await;
                    self.env.sleep(LOOK_EVERY).await;
                }
                found => return Ok(found?),
            }
        }
    }

    pub(super) async fn tell(&self, share: f64, message: &str) {
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
    error.port == "index" && error.passing
}

/// Whether a folder is the root, in the words of PageIndex and in ours.
pub(crate) fn is_root(folder: &str) -> bool {
    matches!(folder.trim(), "" | "/" | "root")
}

/// The state in PageIndex's words.
pub(crate) fn status(state: State) -> &'static str {
    match state {
        State::Queued => "queued",
        State::Running => "processing",
        State::Done | State::DoneWithGaps => "completed",
        State::Failed | State::Cancelled => "failed",
    }
}

/// The name under which a document is given out: its file name where no other document has it, else its label.
pub(crate) fn name_of(listed: &Listed) -> &str {
    let name = &listed.version().name;
    let rest = name.strip_prefix(listed.label.as_str());
    if rest.is_some_and(|ending| ending.is_empty() || ending.starts_with('.')) {
        name
    } else {
        &listed.label
    }
}

/// A document without a tree, and why.
pub(super) fn not_ready(listed: &Listed) -> Failure {
    let name = name_of(listed);
    let status = status(listed.state);
    match &listed.failure {
        Some(failure) => {
            let message = format!("`{name}` could not be processed: {}", failure.message);
            let refused = Failure::new(Kind::NotReady, &failure.code, message);
            failure
                .next
                .iter()
                .fold(refused, |refused, next| refused.option(next.clone()))
        }
        None => {
            let message = format!("`{name}` is not ready: its status is {status}");
            Failure::new(Kind::NotReady, "document.no_tree", message).option(format!(
                "Call get_document(doc_name: \"{name}\", wait_for_completion: true)"
            ))
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
    fn addresses_and_locators_name_the_same() {
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
