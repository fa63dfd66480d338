//! Pagination by offset, or by a cursor that is bound to the arguments of its list.

use crate::error::{ToolError, ToolErrorKind};

const MAX_OFFSET: usize = 1_000_000_000;

pub(crate) fn default_limit() -> usize {
    10
}

pub(crate) struct PageRequest {
    pub(crate) offset: usize,
    pub(crate) limit: usize,
    digest: String,
}

impl PageRequest {
    /// A page of a list; `list` identifies it by its other arguments. A cursor takes precedence over `offset`.
    pub(crate) fn new(
        limit: usize,
        offset: usize,
        cursor: Option<&str>,
        list: &str,
    ) -> Result<Self, ToolError> {
        let digest = blake3::hash(list.as_bytes()).to_hex()[..12].to_owned();
        let mut page = Self {
            offset,
            limit,
            digest,
        };
        if let Some(cursor) = cursor {
            page.offset = page.decode_cursor(cursor).ok_or_else(|| {
                let message =
                    "the cursor belongs to another list: the other arguments must stay the same";
                ToolError::new(ToolErrorKind::InvalidInput, "cursor.invalid", message)
                    .with_option("Call again without a cursor")
            })?;
        }
        Ok(page)
    }

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
    use super::*;

    #[test]
    fn cursors_are_bound_to_their_arguments() {
        let first = PageRequest::new(10, 0, None, "form=10-K").unwrap();
        let cursor = first.cursor(10);
        let next = PageRequest::new(10, 0, Some(&cursor), "form=10-K").unwrap();
        assert_eq!(next.offset, 10);
        for (cursor, list) in [
            (cursor.as_str(), "form=8-K"),
            ("1", "form=10-K"),
            ("x.y", ""),
        ] {
            assert!(
                PageRequest::new(10, 0, Some(cursor), list).is_err(),
                "{cursor}"
            );
        }
    }
}
