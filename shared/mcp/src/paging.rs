//! Pagination by offset, or by a cursor that is bound to the arguments of its list.

use crate::arguments::Arguments;
use crate::error::{ToolError, ToolErrorKind};

const MAX_OFFSET: usize = 1_000_000_000;

pub(crate) struct PageRequest {
    pub(crate) offset: usize,
    pub(crate) limit: usize,
    digest: String,
}

/// The arguments `offset`, `cursor` and `limit` (10, at most `most`) of a list under `filters`.
pub(crate) fn page_request(
    arguments: &mut Arguments,
    most: usize,
    filters: &str,
) -> Result<PageRequest, ToolError> {
    let limit = arguments.number("limit", 1..=most)?.unwrap_or(10);
    let offset = arguments.number("offset", 0..=MAX_OFFSET)?;
    let cursor = arguments.text("cursor")?;
    let digest: String = blake3::hash(filters.as_bytes())
        .to_hex()
        .chars()
        .take(12)
        .collect();
    let mut page = PageRequest {
        offset: offset.unwrap_or(0),
        limit,
        digest,
    };
    if let Some(cursor) = cursor {
        page.offset = page.decode_cursor(&cursor).ok_or_else(|| {
            let message =
                "the cursor is not one of this list: the other arguments must stay the same";
            ToolError::new(ToolErrorKind::InvalidInput, "cursor.invalid", message)
                .with_option("Call again without a cursor")
        })?;
    }
    Ok(page)
}

impl PageRequest {
    pub(crate) fn cursor(&self, offset: usize) -> String {
        format!("{}.{offset}", self.digest)
    }

    fn decode_cursor(&self, cursor: &str) -> Option<usize> {
        let (digest, offset) = cursor.split_once('.')?;
        let offset = offset.parse().ok().filter(|offset| *offset <= MAX_OFFSET);
        offset.filter(|_| digest == self.digest)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn page(arguments: &serde_json::Value, filters: &str) -> Result<PageRequest, ToolError> {
        page_request(
            &mut Arguments::new(arguments.as_object().cloned()),
            50,
            filters,
        )
    }

    #[test]
    fn cursors_are_bound_to_their_arguments() {
        let first = page(&json!({}), "form=10-K").unwrap();
        assert_eq!((first.offset, first.limit), (0, 10));
        let cursor = first.cursor(10);
        assert_eq!(
            page(&json!({"cursor": cursor}), "form=10-K")
                .unwrap()
                .offset,
            10
        );
        for (cursor, filters) in [
            (cursor.as_str(), "form=8-K"),
            ("1", "form=10-K"),
            ("x.y", ""),
            ("", "."),
        ] {
            let refused = page(&json!({"cursor": cursor}), filters);
            assert_eq!(refused.is_err(), !cursor.is_empty(), "{cursor}");
        }
    }
}
