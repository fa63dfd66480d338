//! Original files in the store.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::IntoResponse;
use bytes::Bytes;
use futures::stream;
use stemma_archive::ApiError;
use stemma_archive::archive::OriginalFile;
use stemma_document::DocumentVersion;
use stemma_gateway::extract::{ArchiveRequest, HandlerResult};
use stemma_gateway::problem::Problem;

// Large files are streamed in chunks, never read whole.
const CHUNK_BYTES: u64 = 1 << 20;

/// The file a document was read from
///
/// A single byte `Range` returns 206. Only files in the store are served: those uploaded to a cluster. For others, see
/// `uri` of the document.
#[utoipa::path(get, path = "/v1/documents/{doc}/source", tag = "text",
    params(
        ("doc" = String, Path), ("collection" = Option<String>, Query),
        ("Range" = Option<String>, Header, description = "bytes=0-1023"),
        ("If-None-Match" = Option<String>, Header),
    ),
    responses(
        (status = 200, content_type = "application/octet-stream", body = Vec<u8>, headers(("ETag" = String))),
        (status = 206, content_type = "application/octet-stream", body = Vec<u8>, headers(("Content-Range" = String))),
        (status = 304, description = "the file has not changed"),
        (status = 416, description = "the range is outside the file", body = stemma_gateway::problem::ProblemBody, content_type = "application/problem+json")))]
pub(crate) async fn source(request: ArchiveRequest, headers: HeaderMap) -> HandlerResult {
    let listed = request.document()?;
    let version = listed.version();
    let Some(original) = request
        .archive
        .original(listed)
        .await
        .map_err(ApiError::from)?
    else {
        let detail = "the file is not in the store: it was read where it lies";
        return Err(Problem::new(404, "source.elsewhere", detail)
            .with_next("read it where `uri` of the document says")
            .into());
    };
    let tag = format!("\"{}\"", version.source);
    let text = |name| {
        headers
            .get(name)
            .and_then(|value: &HeaderValue| value.to_str().ok())
    };
    if text(header::IF_NONE_MATCH).is_some_and(|tags| {
        tags.split(',')
            .any(|tags| matches!(tags.trim(), "*") || tags.trim() == tag)
    }) {
        return Ok((StatusCode::NOT_MODIFIED, [(header::ETAG, tag)]).into_response());
    }
    // `If-Range` limits the range to the version the client has.
    let current = text(header::IF_RANGE).is_none_or(|tags| tags.trim() == tag);
    let range = text(header::RANGE)
        .filter(|_| current)
        .map_or(RangeRequest::All, |range| {
            parse_range(range, original.size_bytes)
        });
    let (status, begin, end) = match range {
        RangeRequest::All => (StatusCode::OK, 0, original.size_bytes),
        RangeRequest::Part(begin, end) => (StatusCode::PARTIAL_CONTENT, begin, end),
        RangeRequest::Unsatisfiable => {
            let problem = Problem::new(
                416,
                "source.range",
                format!("the file has {} bytes", original.size_bytes),
            );
            return Err(problem
                .with_header(
                    header::CONTENT_RANGE,
                    format!("bytes */{}", original.size_bytes),
                )
                .into());
        }
    };
    let size_bytes = original.size_bytes;
    let mut response = (status, body(original, begin, end)).into_response();
    let answer = response.headers_mut();
    let mut set = |name, value: String| {
        if let Ok(value) = HeaderValue::from_str(&value) {
            answer.insert(name, value);
        }
    };
    set(header::CONTENT_TYPE, content_type(version).into());
    set(header::CONTENT_LENGTH, (end - begin).to_string());
    set(header::CONTENT_DISPOSITION, "attachment".into());
    set(header::X_CONTENT_TYPE_OPTIONS, "nosniff".into());
    set(header::ACCEPT_RANGES, "bytes".into());
    set(header::ETAG, tag);
    if status == StatusCode::PARTIAL_CONTENT {
        set(
            header::CONTENT_RANGE,
            format!("bytes {begin}-{}/{size_bytes}", end - 1),
        );
    }
    Ok(response)
}

#[derive(Debug, PartialEq, Eq)]
enum RangeRequest {
    All,
    // Half-open: start, end.
    Part(u64, u64),
    Unsatisfiable,
}

// A single range (RFC 9110 §14). Invalid and multiple ranges select the whole file.
fn parse_range(range: &str, size_bytes: u64) -> RangeRequest {
    let Some((from, to)) = range
        .trim()
        .strip_prefix("bytes=")
        .and_then(|range| range.split_once('-'))
    else {
        return RangeRequest::All;
    };
    match (from.trim().parse::<u64>(), to.trim().parse::<u64>()) {
        (Ok(from), Ok(to)) if from > to => RangeRequest::All,
        (Ok(from), _) if from >= size_bytes => RangeRequest::Unsatisfiable,
        (Ok(from), Ok(to)) => RangeRequest::Part(from, size_bytes.min(to.saturating_add(1))),
        (Ok(from), Err(_)) if to.trim().is_empty() => RangeRequest::Part(from, size_bytes),
        (Err(_), Ok(last)) if from.trim().is_empty() => match last.min(size_bytes) {
            0 => RangeRequest::Unsatisfiable,
            last => RangeRequest::Part(size_bytes - last, size_bytes),
        },
        _ => RangeRequest::All,
    }
}

fn body(original: OriginalFile, begin: u64, end: u64) -> Body {
    Body::from_stream(stream::try_unfold(
        (original, begin),
        move |(original, at)| async move {
            if at >= end {
                return Ok::<_, std::io::Error>(None);
            }
            let read = original
                .read(at..end.min(at + CHUNK_BYTES))
                .await
                .map_err(std::io::Error::other)?;
            let bytes: Bytes = read
                .filter(|bytes| !bytes.is_empty())
                .ok_or_else(|| std::io::Error::other("the file was removed"))?;
            let next = at + bytes.len() as u64;
            Ok(Some((bytes, (original, next))))
        },
    ))
}

// By file extension: the declared type of a document is not trusted.
fn content_type(version: &DocumentVersion) -> &'static str {
    match version
        .name
        .rsplit('.')
        .next()
        .map(str::to_ascii_lowercase)
        .as_deref()
    {
        Some("pdf") => "application/pdf",
        Some("md" | "markdown") => "text/markdown; charset=utf-8",
        Some("txt") => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_ranges_are_partial_and_all_else_is_whole() {
        for (range, expected) in [
            ("bytes=0-3", RangeRequest::Part(0, 4)),
            ("bytes=8-", RangeRequest::Part(8, 10)),
            ("bytes=-4", RangeRequest::Part(6, 10)),
            ("bytes=-40", RangeRequest::Part(0, 10)),
            ("bytes=3-99999999999999999999", RangeRequest::All),
            ("bytes=3-18446744073709551615", RangeRequest::Part(3, 10)),
            ("bytes=10-", RangeRequest::Unsatisfiable),
            ("bytes=-0", RangeRequest::Unsatisfiable),
            ("bytes=4-2", RangeRequest::All),
            ("bytes=0-1,3-4", RangeRequest::All),
            ("lines=1-2", RangeRequest::All),
            ("bytes=-", RangeRequest::All),
        ] {
            assert_eq!(parse_range(range, 10), expected, "{range}");
        }
    }
}
