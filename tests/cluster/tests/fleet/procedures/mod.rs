//! The procedures of docs/OPERATING.md, carried out on a fleet that works. None of them may change a result.
#![expect(clippy::unwrap_used, reason = "tests")]

mod deployment;
mod disk;
mod keys;
mod logins;
mod nodes;
mod restore;
mod scaling;
mod versions;
