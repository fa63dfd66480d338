//! End-to-end tests of the binary: folders of documents, commands, and the resulting store.
//!
//! All documents are generated, nothing is fetched, and every command is bounded in time.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests and their fixtures"
)]

mod ask;
mod batches;
mod command_line;
mod commands;
mod crash;
mod determinism;
mod diff;
mod edgar;
mod exhibits;
mod facts;
mod gate;
mod hostile;
mod hostile_html;
mod html;
mod incremental;
mod items;
mod jobs;
mod model;
mod outline;
mod page_images;
mod pipeline;
mod planted;
mod prompts;
mod scan_fixture;
mod scanned_pages;
mod scans;
mod seen_scans;
mod serve;
mod support;
mod tables;
mod text_output;
mod vectors;
mod vision;
