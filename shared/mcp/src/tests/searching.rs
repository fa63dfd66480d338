//! What a search says of documents that its index lacks.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use stemma_document::Collection;
use stemma_retrieval::index::doc_mapper::DocMapper;
use stemma_retrieval::index::folder::IndexFolder;
use stemma_retrieval::index::shard::ShardCount;
use stemma_sample_store as store;
use stemma_store::Env;

use super::TestClient;
use crate::Preset;

const POLLS: usize = 1_200;

// Searches until `is_due`.
async fn search_until(client: &mut TestClient, is_due: impl Fn(&Value) -> bool) -> Value {
    for _ in 0..POLLS {
        let results = client.data("search", json!({ "query": "zyzzyva" })).await;
        if is_due(&results) {
            return results;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("no search was as expected");
}

#[tokio::test]
async fn what_an_index_behind_the_catalog_cannot_tell_is_null() {
    let mut client = TestClient::start(Preset::All).await;
    let results = client.data("search", json!({ "query": "anvils" })).await;
    assert_eq!(results["missing_terms"], json!([]));
    assert_eq!(results["low_evidence"], false);
    assert!(results["evidence"].is_number(), "{results}");
    // Another process writes to the index.
    let mapper = Arc::new(DocMapper::current());
    let only_shard = ShardCount::default().shards().next().unwrap();
    let folder = IndexFolder::new(
        client.cache.path(),
        &Collection::default(),
        only_shard,
        mapper,
    );
    let lock = folder.lock().unwrap().unwrap();
    let now_ms = Env::system().now_ms();
    store::publish_now(client.blobs.as_ref(), "10-K/NEW_2023.pdf", now_ms).await;
    let behind = search_until(&mut client, |results| results["missing_terms"].is_null()).await;
    for field in ["missing_terms", "evidence", "low_evidence"] {
        let value = behind.get(field).expect(field);
        assert!(value.is_null(), "{field}: {value}");
    }
    let note = behind["notes"][0].as_str().unwrap();
    assert!(note.contains("not indexed yet"), "{note}");
    drop(lock);
    let results = search_until(&mut client, |results| results["missing_terms"].is_array()).await;
    assert_eq!(results["missing_terms"][0]["term"], "zyzzyva");
    assert_eq!(results["low_evidence"], true);
}
