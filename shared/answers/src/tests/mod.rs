//! `CachedAnswerer` over a small archive in memory, with a scripted model.

mod agent;
mod answering;
mod degradation;
mod further;
mod injections;
mod sight;
mod test_archive;
mod verification;
