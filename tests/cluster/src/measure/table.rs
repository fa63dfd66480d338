//! Tables of measured figures and their targets.

use std::fmt;

/// Figures, some with a target.
#[derive(Debug, Default)]
pub struct MeasurementTable {
    title: String,
    rows: Vec<MeasurementRow>,
}

#[derive(Debug)]
struct MeasurementRow {
    what: String,
    figure: String,
    /// The target, and whether it is met.
    target: Option<(String, bool)>,
}

impl MeasurementTable {
    pub(super) fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            rows: Vec::new(),
        }
    }

    /// Adds a figure with a target.
    pub(super) fn target(
        &mut self,
        what: &str,
        figure: impl fmt::Display,
        target: &str,
        met: bool,
    ) {
        self.rows.push(MeasurementRow {
            what: what.into(),
            figure: figure.to_string(),
            target: Some((target.into(), met)),
        });
    }

    /// Adds a figure without a target.
    pub(super) fn note(&mut self, what: &str, figure: impl fmt::Display) {
        self.rows.push(MeasurementRow {
            what: what.into(),
            figure: figure.to_string(),
            target: None,
        });
    }

    /// Whether every target is met.
    pub fn is_met(&self) -> bool {
        self.rows
            .iter()
            .all(|row| row.target.as_ref().is_none_or(|(_, met)| *met))
    }
}

impl fmt::Display for MeasurementTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.title)?;
        let width = self
            .rows
            .iter()
            .map(|row| row.what.chars().count())
            .max()
            .unwrap_or_default();
        for MeasurementRow {
            what,
            figure,
            target,
        } in &self.rows
        {
            write!(f, "  {what:width$}  {figure}")?;
            match target {
                Some((target, true)) => writeln!(f, "  (target {target}: met)")?,
                Some((target, false)) => writeln!(f, "  (target {target}: MISSED)")?,
                None => writeln!(f)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_missed_target_fails_the_table() {
        let mut table = MeasurementTable::new("limit");
        table.note("calls", 7);
        table.target("busiest", 612, "<= 630", true);
        assert!(table.is_met());
        assert_eq!(
            table.to_string(),
            "limit\n  calls    7\n  busiest  612  (target <= 630: met)\n"
        );
        table.target("used", "91 %", ">= 95 %", false);
        assert!(!table.is_met() && table.to_string().ends_with("MISSED)\n"));
    }
}
