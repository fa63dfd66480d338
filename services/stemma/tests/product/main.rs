//! The product as its users meet it: the binary, folders of documents, and what lies in the store afterwards.
//!
//! All documents are generated, nothing is fetched, and every command is bounded in time.

mod crash;
mod support;
mod threads;
mod walk;
