//! Compares the published trees of two stores byte by byte.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use aws_sdk_s3::Client;
use bytes::Bytes;
use stemma_document::{Collection, blob_keys};
use stemma_store::blobs::{Blobs, list_all};

/// Documents per listing.
const PAGE: usize = 1_000;

/// Every published tree of a collection by its key. A document has the same key in every store that ingested it
/// from the same location.
///
/// # Errors
/// If the store cannot be read.
pub async fn trees(blobs: &dyn Blobs, collection: &Collection) -> Result<BTreeMap<String, Bytes>> {
    let prefix = blob_keys::documents_prefix(collection);
    let mut trees = BTreeMap::new();
    let mut after: Option<String> = None;
    loop {
        let documents = blobs.children(&prefix, after.as_deref(), PAGE).await?;
        for document in &documents {
            for key in list_all(blobs, &format!("{prefix}{document}trees/")).await? {
                let bytes = blobs
                    .get(&key)
                    .await?
                    .with_context(|| format!("{key} was listed but is missing"))?;
                trees.insert(key, bytes);
            }
        }
        if documents.len() < PAGE {
            return Ok(trees);
        }
        after = documents.last().cloned();
    }
}

/// Every published tree of a store in a bucket, below `prefix`. Uses a client other than Stemma's.
///
/// # Errors
/// If the bucket cannot be read.
pub async fn bucket_trees(
    s3: &Client,
    bucket: &str,
    prefix: &str,
    collection: &Collection,
) -> Result<BTreeMap<String, Bytes>> {
    let root = format!("{prefix}/");
    let documents = format!("{root}{}", blob_keys::documents_prefix(collection));
    let mut pages = s3
        .list_objects_v2()
        .bucket(bucket)
        .prefix(documents)
        .into_paginator()
        .send();
    let mut trees = BTreeMap::new();
    while let Some(page) = pages.next().await {
        let page = page.context("listing the bucket")?;
        for key in page
            .contents()
            .iter()
            .filter_map(|object| object.key())
            .filter(|key| key.contains("/trees/"))
        {
            let object = s3
                .get_object()
                .bucket(bucket)
                .key(key)
                .send()
                .await
                .with_context(|| format!("getting {key}"))?;
            let bytes = object.body.collect().await?.into_bytes();
            trees.insert(key.strip_prefix(&root).unwrap_or(key).to_string(), bytes);
        }
    }
    Ok(trees)
}

/// How `found` differs from `expected`: a line per tree that is missing, additional or different.
pub fn differences(
    expected: &BTreeMap<String, Bytes>,
    actual: &BTreeMap<String, Bytes>,
) -> Vec<String> {
    let missing = expected
        .keys()
        .filter(|key| !actual.contains_key(*key))
        .map(|key| format!("{key} is missing"));
    let more = actual
        .keys()
        .filter(|key| !expected.contains_key(*key))
        .map(|key| format!("{key} was not expected"));
    let different = expected.iter().filter_map(|(key, bytes)| {
        let other = actual.get(key).filter(|other| *other != bytes)?;
        let same = bytes
            .iter()
            .zip(other.iter())
            .take_while(|(a, b)| a == b)
            .count();
        Some(format!(
            "{key} differs from byte {same} of {} and {}",
            bytes.len(),
            other.len()
        ))
    });
    missing.chain(more).chain(different).collect()
}

#[cfg(test)]
mod tests {
    use stemma_document::DocId;
    use stemma_store::blobs::MemoryBlobs;

    use super::*;

    async fn store(trees: &[(&str, u64, &'static str)]) -> BTreeMap<String, Bytes> {
        let blobs = MemoryBlobs::default();
        let collection = Collection::default();
        for (uri, seq, tree) in trees {
            let doc = DocId::new(&collection, uri);
            blobs
                .put(
                    &blob_keys::tree_key(&collection, doc, *seq),
                    Bytes::from(*tree),
                )
                .await
                .unwrap();
            blobs
                .put(
                    &blob_keys::version_key(&collection, doc, *seq),
                    Bytes::from("claim"),
                )
                .await
                .unwrap();
        }
        super::trees(&blobs, &collection).await.unwrap()
    }

    #[tokio::test]
    async fn differences_name_missing_extra_and_changed_trees() {
        let expected = store(&[("file:///a", 1, "{1}"), ("file:///b", 1, "{2}")]).await;
        assert_eq!(expected.len(), 2);
        assert_eq!(
            differences(
                &expected,
                &store(&[("file:///b", 1, "{2}"), ("file:///a", 1, "{1}")]).await
            ),
            [""; 0]
        );
        let other = store(&[("file:///a", 1, "{3}"), ("file:///c", 2, "{2}")]).await;
        let reported = differences(&expected, &other);
        assert_eq!(reported.len(), 3);
        assert!(
            reported[0].ends_with("is missing") && reported[1].ends_with("was not expected"),
            "{reported:?}"
        );
        assert!(
            reported[2].ends_with("differs from byte 1 of 3 and 3"),
            "{reported:?}"
        );
    }
}
