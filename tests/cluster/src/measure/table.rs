//! Tables of measured figures and their targets.

use std::fmt;

/// Figures, each with its mark if it has one.
#[derive(Debug, Default)]
pub struct MeasurementTable {
    title: String,
    rows: Vec<MeasurementRow>,
}

#[derive(Debug)]
struct MeasurementRow {
    what: String,
    figure: String,
    /// What it should be, and whether it is.
    target: Option<(String, bool)>,
}

impl MeasurementTable {
    pub(super) fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            rows: Vec::new(),
        }
    }

    /// A figure that is held to a mark.
    pub(super) fn target(&mut self, what: &str, figure: impl fmt::Display, mark: &str, met: bool) {
        self.rows.push(MeasurementRow {
            what: what.into(),
            figure: figure.to_string(),
            target: Some((mark.into(), met)),
        });
    }

    /// A figure to know.
    pub(super) fn note(&mut self, what: &str, figure: impl fmt::Display) {
        self.rows.push(MeasurementRow {
            what: what.into(),
            figure: figure.to_string(),
            target: None,
        });
    }

    /// Whether every mark is met.
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
            target: mark,
        } in &self.rows
        {
            write!(f, "  {what:width$}  {figure}")?;
            match mark {
                Some((mark, true)) => writeln!(f, "  (mark {mark}: met)")?,
                Some((mark, false)) => writeln!(f, "  (mark {mark}: MISSED)")?,
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
            "limit\n  calls    7\n  busiest  612  (mark <= 630: met)\n"
        );
        table.target("used", "91 %", ">= 95 %", false);
        assert!(!table.is_met() && table.to_string().ends_with("MISSED)\n"));
    }
}
