//! Reads JSON bodies and the fields that several requests share.

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::http::header;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use crate::parameters::Parameters;
use crate::problem::Problem;

/// Parses a JSON body. Query parameters are refused.
pub fn parse_body<T: DeserializeOwned>(
    parts: &Parts,
    body: Result<Bytes, BytesRejection>,
) -> Result<T, Problem> {
    Parameters::from_query(parts.uri.query())?.reject_unknown()?;
    let body = body.map_err(|rejection| {
        let status = rejection.status().as_u16();
        Problem::new(
            status,
            if status == 413 {
                "body.too_large"
            } else {
                "body.unreadable"
            },
            rejection.body_text(),
        )
    })?;
    let kind = parts
        .headers
        .get(header::CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok())
        .unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/json") {
        return Err(Problem::new(
            415,
            "body.type",
            "the body is to be application/json",
        ));
    }
    serde_json::from_slice(&body).map_err(|error| {
        let status = if error.is_data() { 422 } else { 400 };
        Problem::parameter(status, "", error.to_string())
    })
}
