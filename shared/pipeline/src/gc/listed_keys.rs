//! A listing that is read page by page.

use std::collections::VecDeque;

use stemma_store::PortResult;
use stemma_store::blobs::Blobs;

const PAGE: usize = 1_000;

/// The keys below a prefix, or the names of its children, in order.
pub(super) struct ListedKeys {
    prefix: String,
    of_children: bool,
    page: VecDeque<String>,
    // Where the next page begins; `None` before the first.
    after: Option<String>,
    is_last: bool,
}

impl ListedKeys {
    /// All keys below `prefix`.
    pub(super) fn below(prefix: String) -> Self {
        Self {
            prefix,
            of_children: false,
            page: VecDeque::new(),
            after: None,
            is_last: false,
        }
    }

    /// The names of the children of `prefix`.
    pub(super) fn children_of(prefix: &str) -> Self {
        Self {
            of_children: true,
            ..Self::below(prefix.into())
        }
    }

    /// The next key, which stays.
    pub(super) async fn peek(&mut self, blobs: &dyn Blobs) -> PortResult<Option<&str>> {
        if self.page.is_empty() && !self.is_last {
            let after = self.after.as_deref();
            let page = match self.of_children {
                true => blobs.children(&self.prefix, after, PAGE).await?,
                false => blobs.list(&self.prefix, after, PAGE).await?,
            };
            self.is_last = page.len() < PAGE;
            self.after = page.last().cloned().or(self.after.take());
            self.page = page.into();
        }
        Ok(self.page.front().map(String::as_str))
    }

    pub(super) async fn next(&mut self, blobs: &dyn Blobs) -> PortResult<Option<String>> {
        self.peek(blobs).await?;
        Ok(self.page.pop_front())
    }
}
