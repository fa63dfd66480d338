//! Where trees and texts come from.

use async_trait::async_trait;
use stemma_document::{Body, SectionTree};
use stemma_engine::PortError;

use crate::catalogue::Listed;

/// A document opened for search.
pub struct Opened {
    /// Its tree.
    pub tree: SectionTree,
    /// Its text; `None` when it is not in the store (an imported tree).
    pub body: Option<Body>,
}

/// Where trees and texts come from.
#[async_trait]
pub trait Shelf: Send + Sync {
    /// Opens a document; `None` when its tree has gone meanwhile.
    ///
    /// # Errors
    /// [`PortError`] when the store could not say.
    async fn open(&self, listed: &Listed) -> Result<Option<Opened>, PortError>;
}
