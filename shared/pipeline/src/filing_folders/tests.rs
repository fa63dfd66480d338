use async_trait::async_trait;
use bytes::Bytes;
use stemma_store::PortError;

use super::*;

/// Objects of one bucket, by key.
#[derive(Default)]
struct FakeBucket(BTreeMap<String, Vec<u8>>);

impl FakeBucket {
    fn new(objects: &[(&str, &str)]) -> Self {
        Self(
            objects
                .iter()
                .map(|(key, text)| ((*key).into(), text.as_bytes().to_vec()))
                .collect(),
        )
    }

    fn meta(key: &str, bytes: &[u8]) -> ObjectMeta {
        ObjectMeta {
            key: key.into(),
            size_bytes: bytes.len() as u64,
            etag: "e".into(),
            // Larger files are newer.
            modified_ms: bytes.len() as Millis,
            version: None,
        }
    }
}

#[async_trait]
impl ObjectLookup for FakeBucket {
    async fn head(&self, _bucket: &str, key: &str) -> PortResult<Option<ObjectMeta>> {
        Ok(self.0.get(key).map(|bytes| Self::meta(key, bytes)))
    }

    async fn list(&self, _bucket: &str, prefix: &str) -> PortResult<Vec<ObjectMeta>> {
        let below = self.0.iter().filter(|(key, _)| key.starts_with(prefix));
        Ok(below.map(|(key, bytes)| Self::meta(key, bytes)).collect())
    }

    async fn read(&self, _bucket: &str, key: &str, max_bytes: u64) -> PortResult<Option<Bytes>> {
        let bytes = self
            .0
            .get(key)
            .filter(|bytes| bytes.len() as u64 <= max_bytes);
        Ok(bytes.cloned().map(Bytes::from))
    }

    async fn read_start(&self, _bucket: &str, key: &str, bytes: u64) -> PortResult<Bytes> {
        let mut start = self.0.get(key).cloned().unwrap_or_default();
        start.truncate(usize::try_from(bytes).unwrap());
        Ok(start.into())
    }
}

const HEADER: &str = "<SEC-HEADER>\nACCESSION NUMBER: 0000000077-23-000012\n\
    CONFORMED SUBMISSION TYPE: 10-K\nFILED AS OF DATE: 20230301\n</SEC-HEADER>\n";

fn submission(documents: &[(&str, &str)]) -> String {
    let documents: String = documents
        .iter()
        .map(|(kind, name)| {
            format!(
                "<DOCUMENT>\n<TYPE>{kind}\n<FILENAME>{name}\n<TEXT>\n<html><p>x</p></html>\n</TEXT>\n</DOCUMENT>\n"
            )
        })
        .collect();
    format!("<SEC-DOCUMENT>0000000077-23-000012.txt\n{HEADER}{documents}</SEC-DOCUMENT>\n")
}

async fn grouped(bucket: &FakeBucket, named: &str) -> Vec<(String, Vec<String>)> {
    let listing = stream::iter(bucket.list("b", "").await.unwrap().into_iter().map(Ok));
    let groups: Vec<_> = group_folders(listing, named).try_collect().await.unwrap();
    let mut described = Vec::new();
    for group in groups {
        described.push(match group {
            ListedFiles::Document(object) => ("document".to_owned(), vec![object.key]),
            ListedFiles::Folder(folder) => {
                let accession = folder.folder.accession.clone();
                let plan = folder.plan(bucket, "b").await.unwrap();
                let documents = plan.documents().map(|document| document.object.key.clone());
                (accession, documents.collect())
            }
        });
    }
    described
}

fn group(name: &str, keys: &[&str]) -> (String, Vec<String>) {
    (name.into(), keys.iter().map(|key| (*key).into()).collect())
}

#[tokio::test]
async fn files_of_a_folder_are_planned_together_in_any_listing() {
    let whole = submission(&[("10-K", "a.htm"), ("EX-21", "b.htm")]);
    let bucket = FakeBucket::new(&[
        ("77/0000000077-23-000012.txt", &whole),
        ("77/000000007723000012/", ""),
        ("77/000000007723000012/R1.htm", "x"),
        ("77/000000007723000012/a.htm", "x"),
        ("77/000000007723000012/b.htm", "x"),
        ("77/000000007723000012/index.json", "{}"),
        ("77/0000000077-23-000099.txt", &whole),
        ("78/0000000078-23-000001/c.htm", "x"),
        ("notes.docx", "x"),
        ("z.md", "x"),
    ]);
    let expected = [
        group(
            "0000000077-23-000012",
            &["77/000000007723000012/a.htm", "77/000000007723000012/b.htm"],
        ),
        group("document", &["77/0000000077-23-000099.txt"]),
        group("0000000078-23-000001", &["78/0000000078-23-000001/c.htm"]),
        group("document", &["z.md"]),
    ];
    assert_eq!(grouped(&bucket, "").await, expected);
    let named = grouped(&bucket, "notes.docx").await;
    assert!(named.contains(&group("document", &["notes.docx"])));
}

#[tokio::test]
async fn incomplete_folders_are_read_from_the_full_submission() {
    let whole = submission(&[("10-K", "a.htm"), ("EX-21", "b.htm")]);
    let bucket = FakeBucket::new(&[
        ("77/0000000077-23-000012.txt", &whole),
        ("77/000000007723000012/a.htm", "x"),
    ]);
    let expected = [group(
        "0000000077-23-000012",
        &["77/0000000077-23-000012.txt"],
    )];
    assert_eq!(grouped(&bucket, "").await, expected);
}

#[tokio::test]
async fn folder_is_found_from_each_of_its_files() {
    let whole = submission(&[("10-K", "a.htm")]);
    let submission_key = "in/77/0000000077-23-000012.txt";
    let document_key = "in/77/000000007723000012/a.htm";
    let bucket = FakeBucket::new(&[(submission_key, &whole), (document_key, "x")]);
    for key in [submission_key, document_key] {
        let folder = BucketFolder::find(&bucket, "b", key)
            .await
            .unwrap()
            .unwrap();
        assert!(folder.has_object(submission_key) && folder.has_object(document_key));
        let plan = folder.plan(&bucket, "b").await.unwrap();
        let documents: Vec<_> = plan.documents().collect();
        assert_eq!(documents.len(), 1);
        assert_eq!(documents[0].object.key, document_key);
        assert_eq!(documents[0].filing["form"], "10-K");
        assert_eq!(documents[0].modified_ms, whole.len() as Millis);
        let superseded: Vec<_> = plan.superseded().map(|object| &object.key).collect();
        assert_eq!(superseded, [submission_key]);
    }
    for key in ["in/77/a.htm", "a.txt"] {
        assert_eq!(BucketFolder::find(&bucket, "b", key).await.unwrap(), None);
    }
}

#[tokio::test]
async fn labels_of_a_filing_are_identified_by_their_object() {
    let folder = "77/000000007723000012";
    let document = format!("{folder}/a.htm");
    let labels = format!("{folder}/a_lab.xml");
    let bucket = FakeBucket::new(&[(document.as_str(), "x"), (labels.as_str(), "<x/>")]);
    let found = BucketFolder::find(&bucket, "b", &labels).await.unwrap();
    let plan = found.unwrap().plan(&bucket, "b").await.unwrap();
    let documents: Vec<_> = plan.documents().collect();
    assert_eq!(documents.len(), 1, "{documents:?}");
    let object = FakeBucket::meta(&labels, b"<x/>");
    let expected = CompanionFile {
        name: "a_lab.xml".into(),
        source: Digest::from_object(&object.etag, object.size_bytes),
        origin: Origin::Object {
            etag: object.etag,
            version: object.version,
        },
        size_bytes: 4,
    };
    assert_eq!(documents[0].labels.as_deref(), Some(&expected));
    assert_eq!(documents[0].modified_ms, 4, "as new as the labels");
}

#[test]
fn changes_of_labels_concern_documents_of_filings_only() {
    for (key, expected) in [
        ("77/000000007723000012/a_lab.xml", true),
        ("77/000000007723000012/a_pre.xml", false),
        ("77/000000007723000012/R1.htm", false),
        ("77/000000007723000012/a.htm", true),
        ("notes/a_lab.xml", false),
        ("notes/R1.htm", true),
    ] {
        assert_eq!(may_change_document(key), expected, "{key}");
    }
}

#[tokio::test]
async fn filters_read_the_header_of_a_folder() {
    let whole = submission(&[("10-K", "a.htm")]);
    let bucket = FakeBucket::new(&[
        ("77/000000007723000012/0000000077-23-000012.txt", &whole),
        ("77/000000007723000012/a.htm", "x"),
    ]);
    let key = "77/000000007723000012/a.htm";
    let folder = BucketFolder::find(&bucket, "b", key)
        .await
        .unwrap()
        .unwrap();
    let plan = folder.plan(&bucket, "b").await.unwrap();
    let mismatch = |forms: &[&str], since: Option<&str>| {
        plan.mismatch(&FilingSelection {
            forms: forms.iter().map(|form| (*form).into()).collect(),
            since: since.map(Into::into),
            ciks: Vec::new(),
        })
    };
    assert_eq!(mismatch(&["10-K"], Some("2023-01-01")), None);
    assert_eq!(mismatch(&["10-Q"], None), Some(FilterMismatch::Form));
    assert_eq!(
        mismatch(&[], Some("2023-03-02")),
        Some(FilterMismatch::Filed)
    );
    assert_eq!(
        summarize_file("in/a.txt", whole.as_bytes()).form.as_deref(),
        Some("10-K")
    );
}

#[tokio::test]
async fn failing_listing_ends_with_its_error() {
    let error = PortError::transient("bucket.list", "away");
    let listing = stream::iter([Ok(FakeBucket::meta("a.md", b"x")), Err(error)]);
    let groups: Vec<_> = group_folders(listing, "").collect().await;
    assert!(groups[0].is_ok() && groups[1].is_err());
}
