//! The report of a chaos run, with its requirements.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::fault_plan::ChaosFault;
use crate::duplicate_calls::CallSummary;

/// Highest allowed share of delivered replies that are requested again.
const MAX_REPEATED_SHARE: f64 = 0.005;
/// Limit of listed differences.
const MAX_DIFFERENCES_SHOWN: usize = 10;

/// An injected fault.
#[derive(Debug, Clone, Copy)]
pub struct InjectedFault {
    pub fault: ChaosFault,
    /// Requests in flight at the provider at that moment.
    pub in_flight: usize,
}

/// Requirements of a run.
#[derive(Debug, Clone, Copy)]
pub struct Requirements {
    /// The kinds of faults in the scenario.
    pub kinds: &'static [ChaosFault],
    /// Required faults.
    pub faults: usize,
    /// Required faults of each kind.
    pub min_per_kind: usize,
    /// Required requests in flight at each fault.
    pub in_flight: usize,
    /// Model tasks of the run without faults.
    pub tasks: usize,
    /// Repeated replies that are allowed whatever their share. In a run of a few hundred tasks the share means
    /// little: when Redis loses all leases while the broker redelivers everything and S3 refuses writes, all
    /// calls of one worker are repeated.
    pub max_repeated: usize,
}

/// The results of a run.
#[derive(Debug)]
pub struct ChaosReport {
    /// Seed of the fault plan.
    pub seed: u64,
    pub requirements: Requirements,
    /// Submitted documents.
    pub documents: usize,
    /// Model tasks and duration of the run without faults.
    pub baseline: (usize, Duration),
    /// Duration of the run with faults.
    pub took: Duration,
    /// In order of injection.
    pub injected: Vec<InjectedFault>,
    /// Trees of the run without faults.
    pub trees: usize,
    /// Differences of the trees of the run with faults.
    pub differences: Vec<String>,
    /// The requests to the provider.
    pub calls: CallSummary,
    /// Other defects: a process that crashed, a job that failed.
    pub errors: Vec<String>,
}

impl ChaosReport {
    /// Unmet requirements; empty if the run passed.
    pub fn unmet_requirements(&self) -> Vec<String> {
        let Requirements {
            kinds: _,
            faults,
            min_per_kind: each,
            in_flight,
            tasks,
            max_repeated: again,
        } = self.requirements;
        let mut complaints = self.errors.clone();
        let mut demand =
            |met: bool, complaint: String| complaints.extend((!met).then_some(complaint));
        demand(
            self.injected.len() >= faults,
            format!(
                "{} of {faults} faults were injected before the job ended",
                self.injected.len()
            ),
        );
        for (fault, done) in self.by_kind() {
            demand(
                done.len() >= each,
                format!("{}: {} times, not {each}", fault.name(), done.len()),
            );
        }
        let idle = self
            .injected
            .iter()
            .filter(|done| done.in_flight < in_flight)
            .count();
        demand(
            idle == 0,
            format!("{idle} faults with fewer than {in_flight} requests in flight"),
        );
        demand(
            self.baseline.0 >= tasks,
            format!("{} model tasks, not {tasks}", self.baseline.0),
        );
        demand(
            self.trees >= self.documents,
            format!(
                "{} trees of {} documents in the run without faults",
                self.trees, self.documents
            ),
        );
        demand(
            self.differences.is_empty(),
            format!("{} trees are missing or different", self.differences.len()),
        );
        let share = self.calls.repeated_share();
        demand(
            share <= MAX_REPEATED_SHARE || self.calls.repeated <= again,
            format!(
                "{} ({:.2} %) of the delivered replies were requested again",
                self.calls.repeated,
                share * 100.0
            ),
        );
        complaints
    }

    fn by_kind(&self) -> BTreeMap<ChaosFault, Vec<InjectedFault>> {
        let mut kinds: BTreeMap<_, Vec<_>> = self
            .requirements
            .kinds
            .iter()
            .map(|fault| (*fault, Vec::new()))
            .collect();
        for done in &self.injected {
            kinds.entry(done.fault).or_default().push(*done);
        }
        kinds
    }
}

impl fmt::Display for ChaosReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<30} {:>6} {:>12}", "fault", "times", "in flight ≥")?;
        for (fault, done) in self.by_kind() {
            let least = done.iter().map(|done| done.in_flight).min().unwrap_or(0);
            writeln!(f, "{:<30} {:>6} {least:>12}", fault.name(), done.len())?;
        }
        let calls = &self.calls;
        let seconds = |time: Duration| time.as_secs();
        writeln!(f, "\n{:<44} {:>10}", format!("seed {}", self.seed), "")?;
        let mut line = |what: &str, value: String| writeln!(f, "{what:<44} {value:>10}");
        line("documents", self.documents.to_string())?;
        line(
            "model tasks (run without faults)",
            self.baseline.0.to_string(),
        )?;
        line(
            "run without faults, seconds",
            seconds(self.baseline.1).to_string(),
        )?;
        line("run with faults, seconds", seconds(self.took).to_string())?;
        line("faults", self.injected.len().to_string())?;
        line(
            "trees missing or different",
            format!("{} of {}", self.differences.len(), self.trees),
        )?;
        line("requests to the provider", calls.requests.to_string())?;
        line("  refused (429, 5xx)", calls.refused.to_string())?;
        line(
            "  replies delivered to surviving processes",
            calls.delivered.to_string(),
        )?;
        line(
            "  of these requested again",
            format!(
                "{} ({:.2} %)",
                calls.repeated,
                calls.repeated_share() * 100.0
            ),
        )?;
        let within = |from: u64, to: u64| {
            let delays = calls.outage_delays.iter().flatten();
            delays
                .filter(|delay| (from..to).contains(&delay.as_secs()))
                .count()
        };
        let survived = calls.outage_delays.iter().filter(|it| it.is_none());
        line("    its process died within 1 s", within(0, 1).to_string())?;
        line("    within 1 to 10 s", within(1, 10).to_string())?;
        line("    later", within(10, u64::MAX).to_string())?;
        line("    not at all", survived.count().to_string())?;
        line(
            "  lost in flight, requested again",
            calls.lost_in_flight.to_string(),
        )?;
        for difference in self.differences.iter().take(MAX_DIFFERENCES_SHOWN) {
            writeln!(f, "  {difference}")?;
        }
        let complaints = self.unmet_requirements();
        for complaint in &complaints {
            writeln!(f, "WRONG: {complaint}")?;
        }
        write!(
            f,
            "{}",
            if complaints.is_empty() {
                "ok"
            } else {
                "FAILED"
            }
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(done: usize, again: usize) -> ChaosReport {
        ChaosReport {
            seed: 1,
            requirements: Requirements {
                kinds: ChaosFault::CLUSTER,
                faults: 10,
                min_per_kind: 1,
                in_flight: 50,
                tasks: 100,
                max_repeated: 2,
            },
            documents: 3,
            baseline: (100, Duration::from_secs(3)),
            took: Duration::from_secs(9),
            injected: ChaosFault::CLUSTER
                .iter()
                .take(done)
                .map(|fault| InjectedFault {
                    fault: *fault,
                    in_flight: 60,
                })
                .collect(),
            trees: 3,
            differences: Vec::new(),
            calls: CallSummary {
                requests: 120,
                digests: 100,
                refused: 0,
                delivered: 110,
                repeated: again,
                outage_delays: Vec::new(),
                lost_in_flight: 10,
            },
            errors: Vec::new(),
        }
    }

    #[test]
    fn complete_run_meets_requirements() {
        let report = report(10, 0);
        assert_eq!(report.unmet_requirements(), [""; 0]);
        assert!(report.to_string().ends_with("ok"), "{report}");
    }

    #[test]
    fn unmet_requirements_are_reported() {
        let fewer = report(9, 0);
        assert_eq!(fewer.unmet_requirements().len(), 2, "{fewer}");
        let again = report(10, 3).unmet_requirements();
        assert_eq!(
            again,
            ["3 (2.73 %) of the delivered replies were requested again"]
        );
        assert_eq!(report(10, 2).unmet_requirements(), [""; 0]);
        let different = ChaosReport {
            differences: vec!["a is missing".into()],
            ..report(10, 0)
        };
        assert!(
            different.to_string().contains("a is missing")
                && different.to_string().ends_with("FAILED")
        );
        let idle = ChaosReport {
            injected: vec![
                InjectedFault {
                    fault: ChaosFault::SlowS3,
                    in_flight: 49
                };
                10
            ],
            ..report(10, 0)
        };
        assert!(
            idle.unmet_requirements()
                .iter()
                .any(|complaint| complaint.contains("fewer than 50")),
            "{idle}"
        );
    }
}
