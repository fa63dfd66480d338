//! Original files in the store.

use std::ops::Range;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::IntoResponse;
use bytes::Bytes;
use futures::stream;
use http_range_header::{RangeUnsatisfiableError, parse_range_header};
use stemma_archive::ApiError;
use stemma_archive::archive::OriginalFile;
use stemma_document::DocumentVersion;
use stemma_gateway::extract::{CollectionQuery, HandlerResult, Path, QueryParams, find_document};
use stemma_gateway::problem::Problem;
use stemma_gateway::rights::CollectionScope;
use stemma_gateway::{AppState, StreamBuffer};

use crate::etag;

// Large files are streamed in chunks, never read whole. One is in memory for each response.
const CHUNK_BYTES: usize = 1 << 20;

/// The file a document was read from
///
/// A single byte `Range` returns 206. Only files in the store are served: those uploaded to a cluster. For others, see
/// `uri` of the document.
#[utoipa::path(get, path = "/v1/documents/{doc}/source", tag = "text",
    params(
        ("doc" = String, Path), CollectionQuery,
        ("Range" = Option<String>, Header, description = "bytes=0-1023"),
        ("If-None-Match" = Option<String>, Header),
    ),
    responses(
        (status = 200, content_type = "application/octet-stream", body = Vec<u8>, headers(("ETag" = String))),
        (status = 206, content_type = "application/octet-stream", body = Vec<u8>, headers(("Content-Range" = String))),
        (status = 304, description = "the file has not changed"),
        (status = 416, description = "the range is outside the file", body = stemma_gateway::problem::ProblemBody, content_type = "application/problem+json")))]
pub(crate) async fn source(
    State(state): State<AppState>,
    scope: CollectionScope,
    Path(doc): Path<String>,
    QueryParams(query): QueryParams<CollectionQuery>,
    headers: HeaderMap,
) -> HandlerResult {
    let archive = state.archive(&scope, query.collection.as_deref())?;
    let listed = find_document(&archive, &doc)?;
    let version = listed.version();
    let Some(original) = archive.original(&listed).await.map_err(ApiError::from)? else {
        let detail = "the store does not have the file: it was ingested in place";
        return Err(Problem::new(404, "source.not_available", detail)
            .with_next("read the file at `uri` of the document")
            .into());
    };
    let tag = format!("\"{}\"", version.source);
    if etag::is_current(&headers, &tag) {
        return Ok(etag::not_modified(tag));
    }
    let size_bytes = original.size_bytes;
    // `If-Range` limits the range to the version the client has.
    let current = header_text(&headers, header::IF_RANGE).is_none_or(|tags| tags.trim() == tag);
    let requested = header_text(&headers, header::RANGE)
        .filter(|_| current)
        .map_or(RangeRequest::All, |range| parse_range(range, size_bytes));
    let (status, range) = match requested {
        RangeRequest::All => (StatusCode::OK, 0..size_bytes),
        RangeRequest::Part(range) => (StatusCode::PARTIAL_CONTENT, range),
        RangeRequest::Unsatisfiable => {
            let detail = format!("the file has {size_bytes} bytes");
            return Err(Problem::new(416, "source.range_invalid", detail)
                .with_header(header::CONTENT_RANGE, format!("bytes */{size_bytes}"))
                .into());
        }
    };
    let fixed = [
        (header::CONTENT_TYPE, content_type(version)),
        (header::CONTENT_DISPOSITION, "attachment"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::ACCEPT_RANGES, "bytes"),
    ];
    let entity = [
        (
            header::CONTENT_LENGTH,
            (range.end - range.start).to_string(),
        ),
        (header::ETAG, tag),
    ];
    let part = (status == StatusCode::PARTIAL_CONTENT).then(|| {
        let value = format!("bytes {}-{}/{size_bytes}", range.start, range.end - 1);
        [(header::CONTENT_RANGE, value)]
    });
    let size = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
    let buffer = Extension(StreamBuffer(size.min(CHUNK_BYTES)));
    let body = body(original, range);
    Ok((status, fixed, entity, part, buffer, body).into_response())
}

fn header_text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

#[derive(Debug, PartialEq, Eq)]
enum RangeRequest {
    All,
    Part(Range<u64>),
    Unsatisfiable,
}

// A single range (RFC 9110 §14). Invalid and multiple ranges select the whole file.
fn parse_range(range: &str, size_bytes: u64) -> RangeRequest {
    match parse_range_header(range.trim()).and_then(|ranges| ranges.validate(size_bytes)) {
        Ok(ranges) => match &ranges[..] {
            [range] => RangeRequest::Part(*range.start()..range.end() + 1),
            _ => RangeRequest::All,
        },
        Err(RangeUnsatisfiableError::Unsatisfiable) => RangeRequest::Unsatisfiable,
        Err(_) => RangeRequest::All,
    }
}

fn body(original: OriginalFile, range: Range<u64>) -> Body {
    let end = range.end;
    Body::from_stream(stream::try_unfold(
        (original, range.start),
        move |(original, at)| async move {
            if at >= end {
                return Ok::<_, std::io::Error>(None);
            }
            let read = original
                .read(at..end.min(at + CHUNK_BYTES as u64))
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
            ("bytes=0-3", RangeRequest::Part(0..4)),
            ("bytes=8-", RangeRequest::Part(8..10)),
            ("bytes=-4", RangeRequest::Part(6..10)),
            ("bytes=-40", RangeRequest::Part(0..10)),
            ("bytes=3-99999999999999999999", RangeRequest::Part(3..10)),
            ("bytes=3-18446744073709551615", RangeRequest::Part(3..10)),
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
