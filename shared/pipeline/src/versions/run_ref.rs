//! Where a run is: header and artifacts follow from its id, which names document and version, and its collection.

use stemma_document::{Collection, DocId, blob_keys};
use stemma_store::{Failure, RunId, RunRef};

/// The id of the run of a version.
pub fn run_id(doc: DocId, seq: u64) -> RunId {
    RunId(format!("{doc}-{seq}"))
}

fn parse_run_id(run: &RunId) -> Option<(DocId, u64)> {
    let (doc, seq) = run.0.rsplit_once('-')?;
    let doc = doc.parse().ok()?;
    let seq = seq.parse().ok()?;
    (run_id(doc, seq) == *run).then_some((doc, seq))
}

/// The reference of the run of a version.
pub(super) fn version_ref(collection: &Collection, doc: DocId, seq: u64) -> RunRef {
    RunRef {
        run: run_id(doc, seq),
        header: blob_keys::version_key(collection, doc, seq),
        scope: blob_keys::document_scope(collection, doc),
    }
}

/// The reference of a run of a collection; `None` if [`run_id`] did not make the name.
pub fn run_ref(collection: &Collection, run: &RunId) -> Option<RunRef> {
    let (doc, seq) = parse_run_id(run)?;
    Some(version_ref(collection, doc, seq))
}

/// The collection of the run of a stage that publishes version `seq` of `doc`.
///
/// # Errors
/// A permanent failure if the run is of another document or version.
pub(crate) fn published_collection(
    run: &RunRef,
    doc: DocId,
    seq: u64,
) -> Result<Collection, Failure> {
    let collection = blob_keys::parse_collection(&run.scope).ok();
    collection
        .filter(|collection| version_ref(collection, doc, seq) == *run)
        .ok_or_else(|| {
            let message = format!("run {} does not publish version {seq} of {doc}", run.run);
            Failure::permanent("publish.scope", message)
        })
}

#[cfg(test)]
mod tests {
    use stemma_engine::stage::Work;

    use super::*;
    use crate::FilingFlow;

    #[test]
    fn a_run_is_where_its_id_and_its_collection_say() {
        let collection = Collection::default();
        let doc = DocId::new(&collection, "file:///a.md");
        let at = version_ref(&collection, doc, 1);
        let by_id = |run: &str, scope: &str| FilingFlow::run_ref(&RunId(run.into()), scope);
        assert_eq!(by_id(&at.run.0, &at.scope), Some(at.clone()));
        let elsewhere = by_id(&at.run.0, "c/other/d/x").unwrap();
        assert!(elsewhere.header.starts_with("c/other/d/"), "{elsewhere:?}");
        for (run, scope) in [
            (format!("{doc}-01"), at.scope.as_str()),
            (format!("{doc}-+1"), &at.scope),
            (format!("{doc}-"), &at.scope),
            (doc.to_string(), &at.scope),
            (at.run.0.clone(), "jobs/x"),
            (at.run.0.clone(), "c/../d/x"),
        ] {
            assert_eq!(by_id(&run, scope), None, "{run} in {scope}");
        }
    }

    #[test]
    fn a_run_publishes_only_its_own_version() {
        let collection = Collection::default();
        let doc = DocId::new(&collection, "file:///a.md");
        let at = version_ref(&collection, doc, 1);
        assert_eq!(published_collection(&at, doc, 1).unwrap(), collection);
        let other = DocId::new(&collection, "file:///b.md");
        for (doc, seq) in [(doc, 2), (other, 1)] {
            let refused = published_collection(&at, doc, seq).unwrap_err();
            assert_eq!(refused.code, "publish.scope");
        }
    }
}
