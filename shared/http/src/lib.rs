//! The REST surface: `/v1`, described by `/openapi.json`.
//!
//! A handler parses its request, makes one call to the [`Archive`](stemma_archive::Archive) and renders the response.

mod answers;
mod compare;
mod documents;
mod files;
mod list;
mod openapi;
mod routes;
mod search;
mod source;
mod text;

pub use openapi::{add_common_parts, describe};
pub use routes::routes;
