//! What a chaos run showed, and whether that is what it has to show.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::plan::Fault;
use crate::asked::Asked;

/// Replies that were had and asked for again, at most this share of all.
const AGAIN_SHARE: f64 = 0.005;
/// Differences that are shown.
const SHOWN: usize = 10;

/// A fault as it was done.
#[derive(Debug, Clone, Copy)]
pub struct Done {
    /// What.
    pub fault: Fault,
    /// Requests at the provider at that moment.
    pub in_flight: usize,
}

/// What a run was asked to show.
#[derive(Debug, Clone, Copy)]
pub struct Demand {
    /// The kinds there are.
    pub kinds: &'static [Fault],
    /// Faults in all.
    pub faults: usize,
    /// Faults of each kind.
    pub each: usize,
    /// Requests in flight at each fault.
    pub in_flight: usize,
    /// Model tasks of the quiet run.
    pub tasks: usize,
    /// Replies that may be asked for again whatever their share: a run of a few hundred tasks says nothing about a
    /// share of half a percent, and one moment in which Redis forgets who works on what, the broker hands everything
    /// out again and S3 does not take the replies costs what one worker has in hand.
    pub again: usize,
}

/// What a run showed.
#[derive(Debug)]
pub struct Report {
    /// Of the plan.
    pub seed: u64,
    /// What was demanded.
    pub demand: Demand,
    /// Documents submitted.
    pub documents: usize,
    /// Model tasks and time of the quiet run.
    pub quiet: (usize, Duration),
    /// Time of the run with faults.
    pub took: Duration,
    /// The faults, in order.
    pub done: Vec<Done>,
    /// Trees of the quiet run.
    pub trees: usize,
    /// How the trees of the run with faults differ from them.
    pub differences: Vec<String>,
    /// What was asked.
    pub asked: Asked,
    /// Whatever else was wrong: a process that fell, a job that did not end well.
    pub wrong: Vec<String>,
}

impl Report {
    /// What keeps the run from having shown what was demanded; empty when it has.
    pub fn complaints(&self) -> Vec<String> {
        let Demand {
            kinds: _,
            faults,
            each,
            in_flight,
            tasks,
            again,
        } = self.demand;
        let mut complaints = self.wrong.clone();
        let mut demand =
            |met: bool, complaint: String| complaints.extend((!met).then_some(complaint));
        demand(
            self.done.len() >= faults,
            format!(
                "{} of {faults} faults were done before the job ended",
                self.done.len()
            ),
        );
        for (fault, done) in self.by_kind() {
            demand(
                done.len() >= each,
                format!("{}: {} times, not {each}", fault.name(), done.len()),
            );
        }
        let idle = self
            .done
            .iter()
            .filter(|done| done.in_flight < in_flight)
            .count();
        demand(
            idle == 0,
            format!("{idle} faults with fewer than {in_flight} requests in flight"),
        );
        demand(
            self.quiet.0 >= tasks,
            format!("{} model tasks, not {tasks}", self.quiet.0),
        );
        demand(
            self.trees >= self.documents,
            format!(
                "{} trees of {} documents in the quiet run",
                self.trees, self.documents
            ),
        );
        demand(
            self.differences.is_empty(),
            format!("{} trees are missing or different", self.differences.len()),
        );
        let share = self.asked.again_share();
        demand(
            share <= AGAIN_SHARE || self.asked.again <= again,
            format!(
                "{} ({:.2} %) of the replies that were had were asked for again",
                self.asked.again,
                share * 100.0
            ),
        );
        complaints
    }

    fn by_kind(&self) -> BTreeMap<Fault, Vec<Done>> {
        let mut kinds: BTreeMap<_, Vec<_>> = self
            .demand
            .kinds
            .iter()
            .map(|fault| (*fault, Vec::new()))
            .collect();
        for done in &self.done {
            kinds.entry(done.fault).or_default().push(*done);
        }
        kinds
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<30} {:>6} {:>12}", "fault", "times", "in flight ≥")?;
        for (fault, done) in self.by_kind() {
            let least = done.iter().map(|done| done.in_flight).min().unwrap_or(0);
            writeln!(f, "{:<30} {:>6} {least:>12}", fault.name(), done.len())?;
        }
        let asked = &self.asked;
        let seconds = |time: Duration| time.as_secs();
        writeln!(f, "\n{:<44} {:>10}", format!("seed {}", self.seed), "")?;
        let mut line = |what: &str, value: String| writeln!(f, "{what:<44} {value:>10}");
        line("documents", self.documents.to_string())?;
        line("model tasks (quiet run)", self.quiet.0.to_string())?;
        line("quiet run, seconds", seconds(self.quiet.1).to_string())?;
        line("run with faults, seconds", seconds(self.took).to_string())?;
        line("faults", self.done.len().to_string())?;
        line(
            "trees missing or different",
            format!("{} of {}", self.differences.len(), self.trees),
        )?;
        line("requests to the provider", asked.requests.to_string())?;
        line("  refused by it (429, 5xx)", asked.refused.to_string())?;
        line(
            "  replies had by a process that lived",
            asked.had.to_string(),
        )?;
        line(
            "  of these asked for again",
            format!("{} ({:.2} %)", asked.again, asked.again_share() * 100.0),
        )?;
        line(
            "  lost in flight, and asked again",
            asked.lost_in_flight.to_string(),
        )?;
        for difference in self.differences.iter().take(SHOWN) {
            writeln!(f, "  {difference}")?;
        }
        let complaints = self.complaints();
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

    fn report(done: usize, again: usize) -> Report {
        Report {
            seed: 1,
            demand: Demand {
                kinds: Fault::CLUSTER,
                faults: 10,
                each: 1,
                in_flight: 50,
                tasks: 100,
                again: 2,
            },
            documents: 3,
            quiet: (100, Duration::from_secs(3)),
            took: Duration::from_secs(9),
            done: Fault::CLUSTER
                .iter()
                .take(done)
                .map(|fault| Done {
                    fault: *fault,
                    in_flight: 60,
                })
                .collect(),
            trees: 3,
            differences: Vec::new(),
            asked: Asked {
                requests: 120,
                digests: 100,
                refused: 0,
                had: 110,
                again,
                lost_in_flight: 10,
            },
            wrong: Vec::new(),
        }
    }

    #[test]
    fn a_run_that_showed_everything_is_ok() {
        let report = report(10, 0);
        assert_eq!(report.complaints(), [""; 0]);
        assert!(report.to_string().ends_with("ok"), "{report}");
    }

    #[test]
    fn what_was_not_shown_is_complained_of() {
        let fewer = report(9, 0);
        assert_eq!(fewer.complaints().len(), 2, "{fewer}");
        let again = report(10, 3).complaints();
        assert_eq!(
            again,
            ["3 (2.73 %) of the replies that were had were asked for again"]
        );
        assert_eq!(report(10, 2).complaints(), [""; 0]);
        let different = Report {
            differences: vec!["a is missing".into()],
            ..report(10, 0)
        };
        assert!(
            different.to_string().contains("a is missing")
                && different.to_string().ends_with("FAILED")
        );
        let idle = Report {
            done: vec![
                Done {
                    fault: Fault::SlowS3,
                    in_flight: 49
                };
                10
            ],
            ..report(10, 0)
        };
        assert!(
            idle.complaints()
                .iter()
                .any(|complaint| complaint.contains("fewer than 50")),
            "{idle}"
        );
    }
}
