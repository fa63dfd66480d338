//! The steps of the walk, one file each.

mod outline;
mod paginate;
mod publish;

pub use outline::Outline;
pub use paginate::{Paginate, read};
pub use publish::{Publish, publish_imported, remove};
pub(crate) use publish::{Published, published};
