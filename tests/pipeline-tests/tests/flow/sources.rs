//! Reads documents from buckets of a real S3 server. `STEMMA_TEST_S3` names it: `http://127.0.0.1:PORT ACCESS
//! SECRET`.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use stemma_adapters::s3::{BucketReader, LazyBucketReader, S3, S3Blobs, S3Credentials, S3Settings};
use stemma_document::{Collection, Digest, DocId, DocumentVersion, Origin};
use stemma_engine_testing::servers::server_from_env;
use stemma_pipeline::Submission;
use stemma_pipeline::sources::{SchemeRouter, SourceStore};
use stemma_store::Secret;
use stemma_store::blobs::Blobs;

// A bucket that no other run uses.
async fn server() -> Option<(S3Settings, S3, String)> {
    let address = server_from_env("STEMMA_TEST_S3")?;
    let parts: Vec<&str> = address.split_whitespace().collect();
    let [endpoint, id, secret] = parts[..] else {
        panic!("STEMMA_TEST_S3 is not a `URL ACCESS SECRET`")
    };
    let settings = S3Settings {
        endpoint: Some(endpoint.into()),
        access: S3Credentials::Key {
            id: Secret::from(id),
            secret: Secret::from(secret),
        },
        force_path_style: true,
        checksums_when_required: true,
        ..S3Settings::default()
    };
    let s3 = S3::connect(&settings).await.unwrap();
    let nanos = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_nanos();
    let bucket = format!("test-originals-{}-{nanos}", std::process::id());
    s3.create_bucket(&bucket).await.unwrap();
    Some((settings, s3, bucket))
}

fn version(submission: Submission) -> DocumentVersion {
    let Submission {
        uri,
        name,
        path,
        source,
        origin,
        size_bytes,
        ..
    } = submission;
    let doc = DocId::new(&Collection::default(), &uri);
    let settings = "s".into();
    let stated = BTreeMap::new();
    DocumentVersion {
        doc,
        seq: 1,
        uri,
        name,
        path,
        source,
        origin,
        size_bytes,
        settings,
        sidecar_facts: stated,
        filing_facts: Default::default(),
        correction: None,
        labels: None,
    }
}

#[tokio::test]
async fn object_is_read_only_as_submitted() {
    let Some((settings, s3, bucket)) = server().await else {
        return;
    };
    let inbox = S3Blobs::new(s3.clone(), &bucket, "in").unwrap();
    inbox
        .put("2022/a=b.md", Bytes::from_static(b"# One"))
        .await
        .unwrap();
    let object = BucketReader::new(s3)
        .list_page(&bucket, "in/", None)
        .await
        .unwrap()
        .remove(0);
    let object = version(Submission::from_object(&bucket, "in/", &object));
    let router = SchemeRouter::new(LazyBucketReader::new(settings));
    let code =
        async |version: &DocumentVersion, max| router.read(version, max).await.unwrap_err().code;
    assert_eq!(
        (object.uri.as_str(), object.path.as_str()),
        (
            format!("s3://{bucket}/in/2022/a%3Db.md").as_str(),
            "2022/a=b.md"
        )
    );
    assert_eq!(router.read(&object, 5).await.unwrap().as_ref(), b"# One");
    assert_eq!(code(&object, 4).await, "limits.bytes");
    let by_content = DocumentVersion {
        source: Digest::from_content(b"# One"),
        origin: Origin::Content,
        ..object.clone()
    };
    assert_eq!(
        router.read(&by_content, 5).await.unwrap().as_ref(),
        b"# One"
    );

    inbox.delete("2022/a=b.md").await.unwrap();
    assert_eq!(code(&object, 5).await, "input.unreadable");
    inbox
        .put("2022/a=b.md", Bytes::from_static(b"# Two"))
        .await
        .unwrap();
    assert_eq!(code(&object, 5).await, "input.changed");
    let elsewhere = DocumentVersion {
        uri: "s3://test-not-there/a.md".into(),
        ..object
    };
    assert_eq!(code(&elsewhere, 5).await, "input.denied");
}
