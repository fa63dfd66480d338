//! The steps of the walk, one file each.

mod outline;
mod paginate;
mod publish;
mod withdraw;

use stemma_engine::stage::Stage;

pub use outline::Outline;
pub use paginate::{Paginate, read};
pub use publish::{Publish, publish_imported, remove};
pub(crate) use publish::{Published, published};
pub use withdraw::Withdraw;

/// The stages of the flow with their revisions, in order: what a tree records of how it was made, and what makes a document
/// published under lower ones be indexed again.
pub(crate) const REVISIONS: [(&str, u32); 3] =
    [(Paginate::NAME, Paginate::REVISION), (Outline::NAME, Outline::REVISION), (Publish::NAME, Publish::REVISION)];
