//! Chooses filings by form, filing date and company before anything is extracted.

use stemma_document::FilingFacts;

use crate::folder::FilingFolder;
use crate::header::{SubmissionHeader, iso_date};

/// Which filings to read. An empty list chooses all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FilingSelection {
    /// `10-K`, `10-Q/A`; amendments are forms of their own.
    pub forms: Vec<String>,
    /// First filing date, ISO 8601.
    pub since: Option<String>,
    /// Central Index Keys without leading zeros.
    pub ciks: Vec<String>,
}

/// What is known of a filing without reading its documents.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FilingSummary {
    pub form: Option<String>,
    /// ISO 8601.
    pub filed: Option<String>,
    /// CIKs of all parties, without leading zeros.
    pub ciks: Vec<String>,
}

/// Why a filing is not chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FilterMismatch {
    Form,
    Filed,
    Cik,
    /// Nothing says what a filter asks for.
    Unknown,
}

impl FilterMismatch {
    /// For messages: `3 of another form`.
    pub fn label(self) -> &'static str {
        match self {
            Self::Form => "of another form",
            Self::Filed => "filed earlier",
            Self::Cik => "of another company",
            Self::Unknown => "without the facts asked for",
        }
    }
}

impl FilingSummary {
    pub fn new(header: &SubmissionHeader, folder: Option<&FilingFolder>) -> Self {
        let stated = header
            .parties
            .iter()
            .filter_map(|party| party.cik.as_deref());
        let mut ciks: Vec<String> = stated.filter_map(FilingFacts::parse_cik).collect();
        ciks.extend(folder.and_then(|folder| folder.cik.clone()));
        Self {
            form: header.form.clone(),
            filed: header.filed.as_deref().map(iso_date),
            ciks,
        }
    }
}

impl FilingSelection {
    pub fn is_empty(&self) -> bool {
        self.forms.is_empty() && self.since.is_none() && self.ciks.is_empty()
    }

    /// Checks a filing; `None` if it is chosen.
    pub fn mismatch(&self, filing: &FilingSummary) -> Option<FilterMismatch> {
        if !self.ciks.is_empty() {
            if filing.ciks.is_empty() {
                return Some(FilterMismatch::Unknown);
            }
            if !filing.ciks.iter().any(|cik| self.ciks.contains(cik)) {
                return Some(FilterMismatch::Cik);
            }
        }
        if !self.forms.is_empty() {
            let Some(form) = &filing.form else {
                return Some(FilterMismatch::Unknown);
            };
            if !self
                .forms
                .iter()
                .any(|asked| asked.eq_ignore_ascii_case(form))
            {
                return Some(FilterMismatch::Form);
            }
        }
        if let Some(since) = &self.since {
            let Some(filed) = &filing.filed else {
                return Some(FilterMismatch::Unknown);
            };
            // ISO dates order as texts.
            if filed < since {
                return Some(FilterMismatch::Filed);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filings_are_chosen_by_all_that_is_asked() {
        let filing = FilingSummary {
            form: Some("10-K".into()),
            filed: Some("2020-03-01".into()),
            ciks: vec!["77".into(), "88".into()],
        };
        let refuse = |forms: &str, since: &str, ciks: &str| {
            let list = |text: &str| text.split_whitespace().map(str::to_owned).collect();
            let selection = FilingSelection {
                forms: list(forms),
                since: Some(since.to_owned()).filter(|since| !since.is_empty()),
                ciks: list(ciks),
            };
            (
                selection.mismatch(&filing),
                selection.mismatch(&FilingSummary::default()),
            )
        };
        let unknown = Some(FilterMismatch::Unknown);
        assert_eq!(refuse("", "", ""), (None, None));
        assert_eq!(refuse("10-q 10-k", "2020-03-01", "88"), (None, unknown));
        assert_eq!(
            refuse("10-K/A", "", ""),
            (Some(FilterMismatch::Form), unknown)
        );
        assert_eq!(
            refuse("", "2020-03-02", ""),
            (Some(FilterMismatch::Filed), unknown)
        );
        assert_eq!(
            refuse("10-K", "", "99"),
            (Some(FilterMismatch::Cik), unknown)
        );
    }
}
