//! The commands, one file each.

pub mod browse;
pub mod cat;
pub mod completions;
pub mod config;
pub mod cost;
pub mod diff;
pub mod doctor;
pub mod eval;
pub mod export;
pub mod failures;
pub mod gc;
pub mod grep;
pub mod import;
pub mod index;
pub mod ingest;
pub mod items;
pub mod jobs;
pub mod ls;
pub mod mcp;
pub mod probe;
pub mod prompts;
mod reading;
pub mod rm;
pub mod search;
pub mod services;
pub mod stat;
pub mod tree;
