//! What was measured, and whether it is enough.

use std::fmt;

/// Figures, each with its mark if it has one.
#[derive(Debug, Default)]
pub struct Table {
    title: String,
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    what: String,
    figure: String,
    /// What it should be, and whether it is.
    mark: Option<(String, bool)>,
}

impl Table {
    pub(super) fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            rows: Vec::new(),
        }
    }

    /// A figure that is held to a mark.
    pub(super) fn mark(&mut self, what: &str, figure: impl fmt::Display, mark: &str, met: bool) {
        self.rows.push(Row {
            what: what.into(),
            figure: figure.to_string(),
            mark: Some((mark.into(), met)),
        });
    }

    /// A figure to know.
    pub(super) fn note(&mut self, what: &str, figure: impl fmt::Display) {
        self.rows.push(Row {
            what: what.into(),
            figure: figure.to_string(),
            mark: None,
        });
    }

    /// Whether every mark is met.
    pub fn is_met(&self) -> bool {
        self.rows
            .iter()
            .all(|row| row.mark.as_ref().is_none_or(|(_, met)| *met))
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.title)?;
        let width = self
            .rows
            .iter()
            .map(|row| row.what.chars().count())
            .max()
            .unwrap_or_default();
        for Row { what, figure, mark } in &self.rows {
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
    fn one_missed_mark_is_seen() {
        let mut table = Table::new("limit");
        table.note("calls", 7);
        table.mark("busiest", 612, "<= 630", true);
        assert!(table.is_met());
        assert_eq!(
            table.to_string(),
            "limit\n  calls    7\n  busiest  612  (mark <= 630: met)\n"
        );
        table.mark("used", "91 %", ">= 95 %", false);
        assert!(!table.is_met() && table.to_string().ends_with("MISSED)\n"));
    }
}
