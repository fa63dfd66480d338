//! Formats of reindex messages: our own, and notifications of object storage.
//!
//! ```json
//! { "source": "s3://filings/2024/a.pdf", "collection": "default", "action": "index", "class": "interactive" }
//! ```
//! `action` is `index` (default) or `remove`; `collection` may be omitted where the configured sources determine it;
//! `class` is `bulk` (default) or `interactive`; `retry_failed` processes a version again that failed. Notifications
//! are accepted as S3 writes them (`Records`, event structure 2.x), as MinIO wraps them, and as EventBridge delivers
//! them (`detail-type`).

use serde::Deserialize;
use stemma_store::Priority;

/// One object to check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReindexRequest {
    pub bucket: String,
    /// Decoded.
    pub key: String,
    /// `None` if the message names none.
    pub collection: Option<String>,
    pub priority: Priority,
    /// Process a version again that failed.
    pub retry_failed: bool,
    /// The sender says that the object was removed.
    pub removed: bool,
    /// Whether the bucket notifies of it, or someone asks for it by name.
    pub is_notification: bool,
}

/// A message that cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a reindex message: {0}")]
pub struct MessageError(String);

/// A message in exactly one of the known formats.
#[derive(Deserialize)]
#[serde(untagged)]
enum RawMessage {
    Notification {
        #[serde(rename = "Records")]
        records: Vec<EventRecord>,
    },
    // Sent by S3 when a notification is configured.
    Test {
        #[serde(rename = "Event")]
        event: String,
    },
    Bridge {
        #[serde(rename = "detail-type")]
        kind: String,
        detail: EventObject,
    },
    Own(OwnMessage),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OwnMessage {
    source: String,
    #[serde(default)]
    collection: Option<String>,
    #[serde(default)]
    action: ReindexAction,
    #[serde(default, rename = "class")]
    priority: Priority,
    #[serde(default)]
    retry_failed: bool,
}

#[derive(Deserialize, Default, PartialEq)]
#[serde(rename_all = "snake_case")]
enum ReindexAction {
    #[default]
    Index,
    Remove,
}

#[derive(Deserialize)]
struct EventRecord {
    #[serde(rename = "eventName")]
    event: String,
    s3: EventObject,
}

#[derive(Deserialize)]
struct EventObject {
    bucket: EventBucket,
    object: EventObjectKey,
}

#[derive(Deserialize)]
struct EventBucket {
    name: String,
}

#[derive(Deserialize)]
struct EventObjectKey {
    key: String,
}

/// Parses a message. Empty for messages that request nothing (test events, events other than creation and removal).
///
/// # Errors
/// [`MessageError`] for unknown formats.
pub fn parse(body: &[u8]) -> Result<Vec<ReindexRequest>, MessageError> {
    let unreadable = |error: &dyn std::fmt::Display| MessageError(error.to_string());
    match serde_json::from_slice(body).map_err(|error| unreadable(&error))? {
        RawMessage::Notification { records } => records
            .into_iter()
            .filter_map(|record| request_from_record(record).transpose())
            .collect(),
        RawMessage::Test { event } if event.ends_with(":TestEvent") => Ok(Vec::new()),
        RawMessage::Test { event } => Err(unreadable(&format!("event `{event}` without records"))),
        RawMessage::Bridge { kind, detail } => {
            // EventBridge does not encode keys, unlike S3 notifications.
            let removed = match kind.as_str() {
                "Object Created" => false,
                "Object Deleted" => true,
                _ => return Ok(Vec::new()),
            };
            Ok(vec![request(
                detail.bucket.name,
                detail.object.key,
                removed,
            )])
        }
        RawMessage::Own(own) => own_request(own).map(|request| vec![request]),
    }
}

/// Handles `ObjectCreated:*` and `ObjectRemoved:*`, with or without a leading `s3:`; other events request nothing.
fn request_from_record(record: EventRecord) -> Result<Option<ReindexRequest>, MessageError> {
    let event = record.event.strip_prefix("s3:").unwrap_or(&record.event);
    let removed = match event.split(':').next() {
        Some("ObjectCreated") => false,
        Some("ObjectRemoved" | "LifecycleExpiration") => true,
        _ => return Ok(None),
    };
    let key = decode_key(&record.s3.object.key)
        .ok_or_else(|| MessageError("an object key that is not encoded".into()))?;
    Ok(Some(request(record.s3.bucket.name, key, removed)))
}

fn request(bucket: String, key: String, removed: bool) -> ReindexRequest {
    ReindexRequest {
        bucket,
        key,
        collection: None,
        priority: Priority::Bulk,
        retry_failed: false,
        removed,
        is_notification: true,
    }
}

fn own_request(own: OwnMessage) -> Result<ReindexRequest, MessageError> {
    let place = own
        .source
        .strip_prefix("s3://")
        .and_then(|place| place.split_once('/'));
    match place {
        Some((bucket, key)) if !bucket.is_empty() && !key.is_empty() => Ok(ReindexRequest {
            bucket: bucket.into(),
            key: key.into(),
            collection: own.collection,
            priority: own.priority,
            retry_failed: own.retry_failed,
            removed: own.action == ReindexAction::Remove,
            is_notification: false,
        }),
        // Local paths and other URLs would let the sender choose what this machine reads.
        _ => Err(MessageError(format!(
            "source `{}` is not s3://bucket/key",
            own.source.escape_debug()
        ))),
    }
}

// Notifications form-encode keys (`+` is a space). Decoded exactly once.
fn decode_key(key: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(key.len());
    let mut rest = key.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let high = char::from(rest.next()?).to_digit(16)?;
                let low = char::from(rest.next()?).to_digit(16)?;
                bytes.push(u8::try_from(high * 16 + low).ok()?);
            }
            plain => bytes.push(plain),
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requested_keys(body: &str) -> Vec<(String, bool)> {
        let requests = parse(body.as_bytes()).unwrap();
        requests
            .into_iter()
            .map(|request| {
                (
                    format!("{}/{}", request.bucket, request.key),
                    request.removed,
                )
            })
            .collect()
    }

    #[test]
    fn parses_own_message() {
        let body =
            r#"{"source":"s3://filings/2024/a b%20c.pdf","class":"interactive","collection":"x"}"#;
        let request = parse(body.as_bytes()).unwrap().remove(0);
        assert_eq!(
            (request.bucket.as_str(), request.key.as_str()),
            ("filings", "2024/a b%20c.pdf"),
            "taken as it is"
        );
        assert_eq!(
            (request.priority, request.collection.as_deref()),
            (Priority::Interactive, Some("x"))
        );
        assert_eq!(
            requested_keys(r#"{"source":"s3://f/a.md","action":"remove"}"#),
            [("f/a.md".into(), true)]
        );
    }

    #[test]
    fn parses_s3_notifications_and_decodes_keys_once() {
        let record = |event: &str, key: &str| {
            format!(
                r#"{{"eventVersion":"2.1","eventName":"{event}","s3":{{"bucket":{{"name":"filings"}},
                    "object":{{"key":"{key}","size":3,"eTag":"e","versionId":"v","sequencer":"0"}}}}}}"#
            )
        };
        let body = format!(
            r#"{{"Records":[{},{},{}]}}"#,
            record("ObjectCreated:Put", "2024/Q1+a%2Bb%2520.pdf"),
            record("ObjectRemoved:DeleteMarkerCreated", "gone.pdf"),
            record("ObjectTagging:Put", "tagged.pdf")
        );
        assert_eq!(
            requested_keys(&body),
            [
                ("filings/2024/Q1 a+b%20.pdf".into(), false),
                ("filings/gone.pdf".into(), true)
            ]
        );
        assert_eq!(
            requested_keys(r#"{"Service":"Amazon S3","Event":"s3:TestEvent","Bucket":"filings"}"#),
            []
        );
    }

    #[test]
    fn parses_minio_notifications() {
        let body = r#"{"EventName":"s3:ObjectCreated:Put","Key":"filings/a.pdf","Records":[{"eventName":"s3:ObjectCreated:Put",
            "s3":{"bucket":{"name":"filings"},"object":{"key":"a%C3%A4.pdf","eTag":"x"}}}]}"#;
        assert_eq!(requested_keys(body), [("filings/aä.pdf".into(), false)]);
    }

    #[test]
    fn parses_eventbridge_events() {
        let body = r#"{"detail-type":"Object Deleted","source":"aws.s3","detail":{"bucket":{"name":"filings"},"object":{"key":"a+b.pdf"}}}"#;
        assert_eq!(requested_keys(body), [("filings/a+b.pdf".into(), true)]);
    }

    #[test]
    fn unknown_message_shapes_are_rejected() {
        for wrong in [
            "",
            "[]",
            "{}",
            r#"{"source":"/etc/passwd"}"#,
            r#"{"source":"https://example.com/a.pdf"}"#,
            r#"{"source":"s3://bucket"}"#,
            r#"{"source":"s3://b/k","colection":"x"}"#,
            r#"{"Records":[{"eventName":"ObjectCreated:Put","s3":{"bucket":{"name":"b"},"object":{"key":"%zz"}}}]}"#,
        ] {
            assert!(parse(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
