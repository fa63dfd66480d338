//! What must hold at the end of every schedule.

use super::{FaultEvent, JobCommand, Simulation, SimulationScenario};

impl Simulation {
    /// Checks what must hold for every schedule.
    pub(super) fn check_invariants(&self, script: &SimulationScenario) -> Result<(), String> {
        let history = self.tools.history();
        // Unfinished work of a cancelled run may be repeated by the next run of the same document.
        let cancelled = script
            .fault_events
            .iter()
            .any(|(_, event)| matches!(event, FaultEvent::Command(_, JobCommand::Cancel)));
        if let Some(redundant) = history.redundant_starts.first().filter(|_| !cancelled) {
            return Err(format!(
                "started although its artifact existed: {redundant}"
            ));
        }
        let blows = script
            .fault_events
            .iter()
            .filter(|(_, event)| !matches!(event, FaultEvent::Drain(_)))
            .count();
        let cut_off = script
            .fault_events
            .iter()
            .filter(|(_, event)| matches!(event, FaultEvent::Drain(_)))
            .count();
        for (task, starts) in &history.starts {
            let failures = history.failures.get(task).copied().unwrap_or(0);
            let most = 1 + failures as usize + blows + cut_off;
            // A process whose clock is wrong sees leases end early.
            if *starts as usize > most && script.clocks_ahead_ms.is_empty() {
                return Err(format!(
                    "{task:?} was started {starts} times, expected at most {most}"
                ));
            }
        }
        // A coordinator that crashes while it claims a document leaves a watcher, which expires in Redis after a week.
        let may_leave_watchers = script.fault_events.iter().any(|(_, event)| {
            matches!(event, FaultEvent::Crash(process, _) if *process < script.coordinators)
        });
        let left_watchers = if may_leave_watchers {
            self.ledger.watched_runs()
        } else {
            0
        };
        // So does a request that takes effect again when its run has ended.
        let left_requests = match script.plan.rates.duplicate {
            0 => 0,
            _ => self.ledger.requested_runs(),
        };
        let runs = self.ledger.runs() - left_watchers - left_requests;
        if script.plan.rates.lose == 0 && runs > 0 {
            return Err(format!("the ledger still holds {runs} runs"));
        }
        if let Some(violation) = self.spending.iter().find_map(|all| all.lock().violation()) {
            return Err(violation);
        }
        let reserved = self.limiter.reserved_total(self.env.now_ms());
        if reserved > 0 {
            return Err(format!("{reserved} tokens are still reserved"));
        }
        if self.ledger.scheduled() > 0 {
            return Err(format!(
                "{} items are still scheduled",
                self.ledger.scheduled()
            ));
        }
        Ok(())
    }
}
