//! `CachedAnswerer` over a small archive in memory, with a scripted model.

mod agent;
mod answering;
mod degradation;
mod follow_up_search;
mod page_vision;
mod test_archive;
mod verification;
