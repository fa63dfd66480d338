//! Opaque pagination cursors, bound to the request whose pages they separate.

use stemma_document::Digest;

use crate::ApiError;

/// Encodes a position. The cursor is valid only for requests with the same `key`.
pub fn encode(key: &str, position: &str) -> String {
    hex::encode(format!("{}\n{position}", short_digest(key)))
}

/// Decodes a position.
///
/// # Errors
/// [`ApiError`] for a malformed cursor or one of another request; it is never read as the first page.
pub fn decode(cursor: &str, key: &str) -> Result<String, ApiError> {
    decode_position(cursor, key).ok_or_else(invalid)
}

/// The number of entries to skip; 0 without a cursor.
pub fn decode_offset(cursor: Option<&str>, key: &str) -> Result<usize, ApiError> {
    cursor.map_or(Ok(0), |cursor| {
        decode(cursor, key)?.parse().map_err(|_| invalid())
    })
}

/// The error for a cursor that is malformed, from another request, or whose position no longer exists.
pub fn invalid() -> ApiError {
    let message = "the cursor belongs to another listing: the other parameters must stay the same from page to page";
    ApiError::new("cursor.invalid", message, "ask again without a cursor")
}

fn decode_position(cursor: &str, key: &str) -> Option<String> {
    let text = String::from_utf8(hex::decode(cursor).ok()?).ok()?;
    let (digest, position) = text.split_once('\n')?;
    (digest == short_digest(key)).then(|| position.to_owned())
}

fn short_digest(key: &str) -> String {
    let digest = Digest::from_content(key.as_bytes()).to_string();
    digest.chars().take(16).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_are_bound_to_their_request() {
        let text = encode("form=10-K", "10-K/a\nb ä.pdf");
        assert_eq!(decode(&text, "form=10-K").unwrap(), "10-K/a\nb ä.pdf");
        assert!(decode(&text, "form=8-K").is_err());
        for wrong in [
            "",
            "0",
            "zz",
            "é",
            "00",
            &text[2..],
            &text.to_uppercase()[..10],
        ] {
            let error = decode(wrong, "form=10-K").unwrap_err();
            assert_eq!(error.code, "cursor.invalid", "{wrong}");
        }
    }
}
