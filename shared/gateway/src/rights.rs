//! What an authorized request may do.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use stemma_document::Collection;

/// What an authorized request may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rights {
    /// Position of the API key in `query.keys`; its concurrent requests are counted.
    pub key: Option<usize>,
    pub collections: CollectionScope,
    /// Call a model.
    pub ask: bool,
    /// Submit and remove documents.
    pub write: bool,
}

/// The collections a request may read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CollectionScope {
    All,
    Only(Vec<String>),
}

impl CollectionScope {
    /// The scope that [`crate::access_control`] stored in the request; nothing if the request passed no access control.
    pub fn from_parts(parts: &Parts) -> &Self {
        static NOTHING: CollectionScope = CollectionScope::Only(Vec::new());
        parts.extensions.get().unwrap_or(&NOTHING)
    }

    pub fn allows(&self, collection: &Collection) -> bool {
        match self {
            CollectionScope::All => true,
            CollectionScope::Only(collections) => {
                collections.iter().any(|name| name == collection.as_str())
            }
        }
    }
}

impl<S: Sync> FromRequestParts<S> for CollectionScope {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self::from_parts(parts).clone())
    }
}
