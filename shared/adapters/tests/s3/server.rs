//! The S3 adapters on a real server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use futures::TryStreamExt;
use futures::future::join_all;
use stemma_adapters::s3::{BucketReader, S3, S3Blobs, S3Credentials, S3Settings};
use stemma_engine::objects::{FetchOutcome, ObjectLookup, ObjectMeta, ObjectReader, ObjectRequest};
use stemma_engine_testing::blobs_conformance;
use stemma_engine_testing::servers::server_from_env;
use stemma_store::blobs::{Blobs, PutOutcome};
use stemma_store::{Env, Secret};

/// The server, and a name that no other run uses.
struct S3TestServer {
    settings: S3Settings,
    name: String,
}

fn server(test: &str) -> Option<S3TestServer> {
    let spec = server_from_env("STEMMA_TEST_S3")?;
    let parts: Vec<&str> = spec.split_whitespace().collect();
    let [endpoint, id, secret] = parts[..] else {
        panic!("STEMMA_TEST_S3 is not `URL ACCESS SECRET`")
    };
    let settings = S3Settings {
        endpoint: Some(endpoint.into()),
        access: S3Credentials::Key {
            id: Secret::from(id),
            secret: Secret::from(secret),
        },
        force_path_style: true,
        checksums_when_required: true,
        call_timeout: Duration::from_secs(60),
        ..S3Settings::default()
    };
    let nanos = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_nanos();
    Some(S3TestServer {
        settings,
        name: format!("test-{test}-{}-{nanos}", std::process::id()),
    })
}

impl S3TestServer {
    /// A connection, and an empty bucket.
    async fn bucket(&self) -> S3 {
        let s3 = S3::connect(&self.settings).await.unwrap();
        s3.create_bucket(&self.name).await.unwrap();
        s3.create_bucket(&self.name).await.unwrap();
        s3
    }

    fn blobs(&self, s3: &S3, prefix: &str) -> S3Blobs {
        S3Blobs::new(s3.clone(), &self.name, prefix).unwrap()
    }

    /// A plain client, for operations that the adapters do not offer.
    fn client(&self) -> aws_sdk_s3::Client {
        let S3Credentials::Key { id, secret } = &self.settings.access else {
            panic!("no key")
        };
        let config = aws_sdk_s3::Config::builder()
            .http_client(stemma_adapters::s3::http_client())
            .endpoint_url(self.settings.endpoint.clone().unwrap())
            .credentials_provider(aws_sdk_s3::config::Credentials::new(
                id.reveal(),
                secret.reveal(),
                None,
                None,
                "test",
            ))
            .region(aws_sdk_s3::config::Region::from_static("us-east-1"))
            .behavior_version_latest()
            .force_path_style(true)
            .request_checksum_calculation(
                aws_sdk_s3::config::RequestChecksumCalculation::WhenRequired,
            )
            .build();
        aws_sdk_s3::Client::from_conf(config)
    }

    async fn write(&self, client: &aws_sdk_s3::Client, key: &str, text: &str) {
        let body = Bytes::from(text.to_string()).into();
        client
            .put_object()
            .bucket(&self.name)
            .key(key)
            .body(body)
            .send()
            .await
            .unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s3_blobs_conform() {
    let Some(server) = server("port") else { return };
    let s3 = server.bucket().await;
    let next = AtomicU32::new(0);
    blobs_conformance::conformance(|| async {
        let number = next.fetch_add(1, Ordering::SeqCst);
        Arc::new(server.blobs(&s3, &format!("store/{number}/"))) as Arc<dyn Blobs>
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_sixteen_concurrent_puts_creates() {
    let Some(server) = server("race") else { return };
    server.bucket().await;
    for round in 0..10 {
        let key = format!("c/{round}");
        let writers = join_all((0..16u8).map(|_| S3::connect(&server.settings))).await;
        let writers = writers
            .into_iter()
            .map(|s3| server.blobs(&s3.unwrap(), ""))
            .zip(0u8..);
        let puts = writers.map(|(blobs, n)| {
            let key = key.clone();
            tokio::spawn(async move {
                (
                    n,
                    blobs.put(&key, Bytes::from(vec![n; 5_000])).await.unwrap(),
                )
            })
        });
        let puts: Vec<(u8, PutOutcome)> = join_all(puts.collect::<Vec<_>>())
            .await
            .into_iter()
            .map(Result::unwrap)
            .collect();
        let winners: Vec<u8> = puts
            .iter()
            .filter(|(_, put)| *put == PutOutcome::Created)
            .map(|(n, _)| *n)
            .collect();
        assert_eq!(winners.len(), 1, "{winners:?} all claim to have created it");
        let blobs = server.blobs(&S3::connect(&server.settings).await.unwrap(), "");
        assert_eq!(
            blobs.get(&key).await.unwrap(),
            Some(Bytes::from(vec![winners[0]; 5_000]))
        );
    }
}

#[tokio::test]
async fn invalid_store_locations_are_rejected() {
    let settings = S3Settings {
        access: S3Credentials::Key {
            id: Secret::from("id"),
            secret: Secret::from("secret"),
        },
        ..S3Settings::default()
    };
    let s3 = S3::connect(&settings).await.unwrap();
    for (bucket, prefix) in [
        ("", ""),
        ("a/b", ""),
        ("filings", "../x"),
        ("filings", "a//b"),
        ("filings--az4--x-s3", ""),
    ] {
        let refusal = S3Blobs::new(s3.clone(), bucket, prefix).err().unwrap();
        assert!(!refusal.is_transient(), "{refusal}");
    }
    assert!(S3Blobs::new(s3, "filings", "/stores/a/").is_ok());
}

#[tokio::test]
async fn foreign_objects_are_not_listed() {
    let Some(server) = server("foreign") else {
        return;
    };
    let s3 = server.bucket().await;
    let client = server.client();
    for key in [
        "store/",
        "store/c/",
        "store/c/a b",
        "store/c/x",
        "store2/c/y",
    ] {
        server.write(&client, key, "").await;
    }
    let blobs = server.blobs(&s3, "store/");
    assert_eq!(blobs.list("", None, 10).await.unwrap(), ["c/x"]);
    assert_eq!(blobs.children("", None, 10).await.unwrap(), ["c/"]);
    assert_eq!(blobs.children("c/", None, 10).await.unwrap(), ["x"]);
}

#[tokio::test]
async fn errors_for_bad_key_and_bucket_say_what_to_check() {
    let Some(server) = server("refused") else {
        return;
    };
    let s3 = server.bucket().await;
    let S3Credentials::Key { id, .. } = &server.settings.access else {
        panic!("no key")
    };
    let access = S3Credentials::Key {
        id: id.clone(),
        secret: Secret::from("a-very-wrong-secret"),
    };
    let stranger = S3::connect(&S3Settings {
        access,
        ..server.settings.clone()
    })
    .await
    .unwrap();
    let refused = server.blobs(&stranger, "");
    let missing = S3Blobs::new(s3.clone(), "test-not-there", "").unwrap();
    for (blobs, name, check) in [
        (&refused, server.name.as_str(), "check"),
        (&missing, "test-not-there", "check the"),
    ] {
        let errors = [
            blobs
                .put("c/x", Bytes::from_static(b"x"))
                .await
                .unwrap_err(),
            blobs.get("c/x").await.unwrap_err(),
            blobs.get_range("c/x", 0..4).await.unwrap_err(),
            blobs.list("", None, 1).await.unwrap_err(),
            blobs.children("", None, 1).await.unwrap_err(),
        ];
        for error in errors {
            let text = format!("{error} {error:?}");
            assert!(
                !error.is_transient() && text.contains(name) && text.contains(check),
                "{text}"
            );
            assert!(
                !text.contains("very-wrong") && !text.contains(id.reveal()),
                "{text}"
            );
        }
    }
    let error = BucketReader::new(s3)
        .head("test-not-there", "x")
        .await
        .unwrap_err();
    assert!(
        !error.is_transient() && error.message.contains("no such bucket"),
        "{error}"
    );
}

#[tokio::test]
async fn changed_object_is_not_read() {
    let Some(server) = server("read") else { return };
    let s3 = server.bucket().await;
    let client = server.client();
    let buckets = BucketReader::new(s3);
    let key = "ätna/第 1+2%20.pdf";
    server.write(&client, key, "first bytes").await;
    let meta = buckets.head(&server.name, key).await.unwrap().unwrap();
    assert_eq!((meta.key.as_str(), meta.size_bytes), (key, 11));
    assert!(
        meta.modified_ms > 1_700_000_000_000 && !meta.etag.is_empty() && !meta.etag.contains('"'),
        "{meta:?}"
    );
    let request = ObjectRequest {
        bucket: &server.name,
        key,
        version: None,
        etag: Some(&meta.etag),
        max_bytes: 11,
    };
    let bytes = Bytes::from_static(b"first bytes");
    assert_eq!(
        buckets.get(&request).await.unwrap(),
        FetchOutcome::Read {
            bytes,
            etag: meta.etag.clone()
        }
    );
    let small = buckets
        .get(&ObjectRequest {
            max_bytes: 10,
            ..request
        })
        .await
        .unwrap();
    assert_eq!(small, FetchOutcome::TooLarge { size_bytes: 11 });
    server.write(&client, key, "other bytes").await;
    assert_eq!(buckets.get(&request).await.unwrap(), FetchOutcome::Changed);
    client
        .delete_object()
        .bucket(&server.name)
        .key(key)
        .send()
        .await
        .unwrap();
    assert_eq!(buckets.get(&request).await.unwrap(), FetchOutcome::Missing);
    assert_eq!(buckets.head(&server.name, key).await.unwrap(), None);
}

#[tokio::test]
async fn old_object_version_stays_readable() {
    let Some(server) = server("versions") else {
        return;
    };
    let s3 = server.bucket().await;
    let client = server.client();
    let enabled = aws_sdk_s3::types::BucketVersioningStatus::Enabled;
    let configuration = aws_sdk_s3::types::VersioningConfiguration::builder()
        .status(enabled)
        .build();
    let versioning = client
        .put_bucket_versioning()
        .bucket(&server.name)
        .versioning_configuration(configuration);
    versioning.send().await.unwrap();
    let buckets = BucketReader::new(s3);
    server.write(&client, "a.pdf", "first").await;
    let meta = buckets.head(&server.name, "a.pdf").await.unwrap().unwrap();
    server.write(&client, "a.pdf", "second").await;
    let version = meta.version.as_deref();
    assert!(version.is_some(), "{meta:?}");
    let request = ObjectRequest {
        bucket: &server.name,
        key: "a.pdf",
        version,
        etag: Some(&meta.etag),
        max_bytes: 100,
    };
    let bytes = Bytes::from_static(b"first");
    assert_eq!(
        buckets.get(&request).await.unwrap(),
        FetchOutcome::Read {
            bytes,
            etag: meta.etag.clone()
        }
    );
    let newest = buckets
        .get(&ObjectRequest {
            version: None,
            ..request
        })
        .await
        .unwrap();
    assert_eq!(newest, FetchOutcome::Changed);
    let gone = buckets
        .get(&ObjectRequest {
            version: Some("no-such-version"),
            ..request
        })
        .await;
    assert!(gone.is_err() || gone.unwrap() == FetchOutcome::Missing);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_is_listed_page_by_page_in_byte_order() {
    let Some(server) = server("list") else { return };
    let s3 = server.bucket().await;
    let client = server.client();
    let mut keys: Vec<String> = (0..1_100).map(|n| format!("in/{n:05} ä+%&.pdf")).collect();
    keys.extend(["in/~".into(), "in/ÿ".into(), "in/\u{1}".into()]);
    for chunk in keys.chunks(50) {
        join_all(chunk.iter().map(|key| server.write(&client, key, "x"))).await;
    }
    server.write(&client, "out/x", "x").await;
    keys.sort_unstable();
    let buckets = BucketReader::new(s3);
    let env = Env::system();
    let listed: Vec<ObjectMeta> = buckets
        .list(&env, &server.name, "in/", None)
        .try_collect()
        .await
        .unwrap();
    assert_eq!(
        listed
            .iter()
            .map(|entry| entry.key.clone())
            .collect::<Vec<_>>(),
        keys
    );
    assert!(
        listed
            .iter()
            .all(|entry| entry.size_bytes == 1 && !entry.etag.is_empty())
    );
    let after = Some(keys[1_000].clone());
    let rest: Vec<ObjectMeta> = buckets
        .list(&env, &server.name, "in/", after)
        .try_collect()
        .await
        .unwrap();
    assert_eq!(rest, listed[1_001..]);
}
