//! Conformance suite of the object storage port.
#![expect(
    clippy::expect_used,
    reason = "a suite of tests, compiled only for tests"
)]

use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::join_all;

use stemma_store::blobs::{Blobs, PutOutcome, list_all};

/// Checks that an adapter keeps the guarantees of [`Blobs`]. `make` returns an empty store.
///
/// # Panics
/// When a guarantee is broken.
pub async fn conformance<F: Future<Output = Arc<dyn Blobs>>>(make: impl Fn() -> F) {
    creates_once(make().await).await;
    one_of_sixteen_writers_wins(make().await).await;
    reads_ranges(make().await).await;
    lists_in_byte_order(make().await).await;
    lists_page_by_page(make().await).await;
    lists_children(make().await).await;
    deletes(make().await).await;
    rejects_invalid_keys(make().await).await;
    stores_large_objects(make().await).await;
}

async fn put(blobs: &Arc<dyn Blobs>, key: &str, bytes: impl Into<Bytes>) -> PutOutcome {
    blobs.put(key, bytes.into()).await.expect("written")
}

async fn get(blobs: &Arc<dyn Blobs>, key: &str) -> Option<Bytes> {
    blobs.get(key).await.expect("read")
}

async fn list(
    blobs: &Arc<dyn Blobs>,
    prefix: &str,
    after: Option<&str>,
    limit: usize,
) -> Vec<String> {
    blobs.list(prefix, after, limit).await.expect("listed")
}

async fn creates_once(blobs: Arc<dyn Blobs>) {
    assert_eq!(get(&blobs, "c/x").await, None);
    assert_eq!(blobs.size("c/x").await.expect("sized"), None);
    assert_eq!(put(&blobs, "c/x", "first").await, PutOutcome::Created);
    assert_eq!(put(&blobs, "c/x", "second").await, PutOutcome::Exists);
    assert_eq!(get(&blobs, "c/x").await.as_deref(), Some(&b"first"[..]));
    assert_eq!(blobs.size("c/x").await.expect("sized"), Some(5));
    assert_eq!(put(&blobs, "c/empty", "").await, PutOutcome::Created);
    assert_eq!(get(&blobs, "c/empty").await.as_deref(), Some(&b""[..]));
    assert_eq!(get(&blobs, "c").await, None, "a prefix is not an object");
    assert_eq!(blobs.size("c").await.expect("sized"), None);
    blobs.barrier().await.expect("a barrier");
    join_all((0..4).map(|_| blobs.barrier()))
        .await
        .into_iter()
        .for_each(|barrier| barrier.expect("a barrier"));
}

async fn one_of_sixteen_writers_wins(blobs: Arc<dyn Blobs>) {
    for round in 0..8 {
        let key = format!("race/deep/{round}/object");
        let writers = (0..16u8).map(|n| {
            let blobs = Arc::clone(&blobs);
            let key = key.clone();
            tokio::spawn(async move { (n, put(&blobs, &key, vec![n; 10_000]).await) })
        });
        let puts = join_all(writers)
            .await
            .into_iter()
            .map(|put| put.expect("put succeeds"));
        let winners: Vec<u8> = puts
            .filter(|(_, put)| *put == PutOutcome::Created)
            .map(|(n, _)| n)
            .collect();
        assert_eq!(winners.len(), 1, "{winners:?} all claim to have created it");
        let winner = winners[0];
        assert_eq!(
            get(&blobs, &key).await,
            Some(Bytes::from(vec![winner; 10_000])),
            "the winner's complete object"
        );
    }
}

async fn reads_ranges(blobs: Arc<dyn Blobs>) {
    put(&blobs, "r", "0123456789").await;
    for (range, expected) in [
        (0..4, "0123"),
        (4..10, "456789"),
        (8..99, "89"),
        (10..12, ""),
        (50..60, ""),
        (3..3, ""),
    ] {
        let read = blobs.get_range("r", range.clone()).await.expect("read");
        assert_eq!(read.as_deref(), Some(expected.as_bytes()), "{range:?}");
    }
    assert_eq!(blobs.get_range("absent", 0..4).await.expect("read"), None);
    put(&blobs, "nothing", "").await;
    assert_eq!(
        blobs
            .get_range("nothing", 0..8192)
            .await
            .expect("read")
            .as_deref(),
        Some(&b""[..])
    );
}

async fn lists_in_byte_order(blobs: Arc<dyn Blobs>) {
    for key in [
        "p/a/b", "p/a-b", "p/a.b", "p/a/0/z", "p/ab", "p/A", "p/_", "p/~", "p/0=", "q/1", "p0/1",
    ] {
        put(&blobs, key, "").await;
    }
    let expected = [
        "p/0=", "p/A", "p/_", "p/a-b", "p/a.b", "p/a/0/z", "p/a/b", "p/ab", "p/~",
    ];
    assert_eq!(list(&blobs, "p/", None, 100).await, expected);
    assert_eq!(list(&blobs, "p/a/", None, 100).await, ["p/a/0/z", "p/a/b"]);
    assert_eq!(list(&blobs, "p/absent/", None, 100).await, [""; 0]);
    assert_eq!(list(&blobs, "", None, 100).await.len(), 11);
    for (n, after) in expected.iter().enumerate() {
        assert_eq!(
            list(&blobs, "p/", Some(after), 100).await,
            expected[n + 1..],
            "after {after}"
        );
    }
    assert_eq!(
        list(&blobs, "p/", Some("p/a"), 100).await,
        expected[3..],
        "`after` need not be an existing key"
    );
}

async fn lists_page_by_page(blobs: Arc<dyn Blobs>) {
    let keys: Vec<String> = (0..1_203)
        .map(|n| format!("pages/{:02}/{n:05}", n / 100))
        .collect();
    for chunk in keys.chunks(100) {
        join_all(chunk.iter().map(|key| put(&blobs, key, "x"))).await;
    }
    assert_eq!(
        list_all(blobs.as_ref(), "pages/").await.expect("listed"),
        keys
    );
    assert_eq!(list(&blobs, "pages/", None, 7).await, keys[..7]);
    assert_eq!(
        list(&blobs, "pages/", Some(&keys[1_199]), 7).await,
        keys[1_200..]
    );
    assert_eq!(list(&blobs, "pages/", None, 0).await, [""; 0]);
}

async fn lists_children(blobs: Arc<dyn Blobs>) {
    for key in [
        "j/1/manifest",
        "j/1/entries/0",
        "j/2/manifest",
        "j/10/x",
        "j/note",
        "j/1-b",
    ] {
        put(&blobs, key, "").await;
    }
    let children = |after: Option<&'static str>, limit| {
        let blobs = Arc::clone(&blobs);
        async move { blobs.children("j/", after, limit).await.expect("listed") }
    };
    let expected = ["1-b", "1/", "10/", "2/", "note"];
    assert_eq!(children(None, 10).await, expected);
    assert_eq!(children(None, 2).await, expected[..2]);
    assert_eq!(children(Some("1/"), 10).await, expected[2..]);
    assert_eq!(children(Some("2/"), 10).await, expected[4..]);
    assert_eq!(
        blobs.children("absent/", None, 10).await.expect("listed"),
        [""; 0]
    );
}

async fn deletes(blobs: Arc<dyn Blobs>) {
    put(&blobs, "d/x", "1").await;
    blobs.delete("d/x").await.expect("deleted");
    blobs
        .delete("d/x")
        .await
        .expect("deleting a missing object succeeds");
    assert_eq!(get(&blobs, "d/x").await, None);
    assert_eq!(list(&blobs, "d/", None, 10).await, [""; 0]);
    assert_eq!(put(&blobs, "d/x", "2").await, PutOutcome::Created);
    assert_eq!(get(&blobs, "d/x").await.as_deref(), Some(&b"2"[..]));
}

async fn rejects_invalid_keys(blobs: Arc<dyn Blobs>) {
    let long = "x/".repeat(300) + "x";
    for name in [
        "",
        "/",
        "a//b",
        "../x",
        "a/../b",
        "a/.",
        "/etc/passwd",
        "a/",
        "a\0b",
        "a b",
        "é",
        "a\\b",
        &long,
    ] {
        let refusals = [
            blobs.put(name, Bytes::new()).await.map(|_| ()),
            blobs.get(name).await.map(|_| ()),
            blobs.get_range(name, 0..1).await.map(|_| ()),
            blobs.size(name).await.map(|_| ()),
            blobs.delete(name).await,
        ];
        for refusal in refusals {
            assert!(
                refusal.is_err_and(|error| !error.is_transient()),
                "{name:?}"
            );
        }
    }
    for prefix in ["/", "../", "a/../", "a", "a//", "a b/"] {
        assert!(
            blobs
                .list(prefix, None, 1)
                .await
                .is_err_and(|error| !error.is_transient()),
            "{prefix:?}"
        );
        assert!(
            blobs
                .children(prefix, None, 1)
                .await
                .is_err_and(|error| !error.is_transient()),
            "{prefix:?}"
        );
    }
}

async fn stores_large_objects(blobs: Arc<dyn Blobs>) {
    let large: Bytes = (0..20_000_000u32)
        .map(|n| (n ^ (n >> 11)) as u8)
        .collect::<Vec<_>>()
        .into();
    assert_eq!(
        put(&blobs, "large", large.clone()).await,
        PutOutcome::Created
    );
    assert_eq!(blobs.size("large").await.expect("sized"), Some(20_000_000));
    assert!(
        get(&blobs, "large").await == Some(large.clone()),
        "every byte"
    );
    let middle = blobs
        .get_range("large", 9_999_990..10_000_010)
        .await
        .expect("read");
    assert_eq!(middle, Some(large.slice(9_999_990..10_000_010)));
}
