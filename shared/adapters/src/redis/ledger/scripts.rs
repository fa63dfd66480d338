//! The Lua scripts of the ledger, one for each operation that a single command cannot do atomically. They are embedded
//! in the binary, sent to servers that lack them, and then called by their digest.

use redis::Script;

pub(super) struct LedgerScripts {
    pub(super) outcomes: Script,
    pub(super) record: Script,
    pub(super) request_tasks: Script,
    pub(super) overdue: Script,
    pub(super) mark_republished: Script,
    pub(super) lease: Script,
    pub(super) park_run: Script,
    pub(super) release: Script,
    pub(super) add_watcher: Script,
    pub(super) schedule: Script,
    pub(super) claim_due: Script,
    pub(super) post_status: Script,
    pub(super) status_records: Script,
}

/// A script about one run, preceded by the shared prelude.
macro_rules! of_run {
    ($file:literal) => {
        Script::new(concat!(include_str!("run.lua"), include_str!($file)))
    };
}

impl Default for LedgerScripts {
    fn default() -> Self {
        Self {
            outcomes: of_run!("outcomes.lua"),
            record: of_run!("record.lua"),
            request_tasks: of_run!("request_tasks.lua"),
            overdue: of_run!("overdue.lua"),
            mark_republished: of_run!("mark_republished.lua"),
            lease: of_run!("lease.lua"),
            park_run: of_run!("park_run.lua"),
            release: of_run!("release.lua"),
            add_watcher: of_run!("add_watcher.lua"),
            schedule: Script::new(include_str!("schedule.lua")),
            claim_due: Script::new(include_str!("claim_due.lua")),
            post_status: Script::new(include_str!("post_status.lua")),
            status_records: Script::new(include_str!("status_records.lua")),
        }
    }
}
