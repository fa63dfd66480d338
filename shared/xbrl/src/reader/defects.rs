//! Defects, equal ones counted.

use std::collections::BTreeMap;

use stemma_document::Defect;

// A file with more kinds of defects is broken everywhere.
const MAX_KINDS: usize = 100;

#[derive(Default)]
pub(super) struct DefectLog {
    counts: BTreeMap<(&'static str, String), u32>,
    others: u32,
}

impl DefectLog {
    pub(super) fn record(&mut self, code: &'static str, detail: &str) {
        if let Some(count) = self.counts.get_mut(&(code, detail.to_owned())) {
            *count = count.saturating_add(1);
        } else if self.counts.len() < MAX_KINDS {
            self.counts.insert((code, detail.to_owned()), 1);
        } else {
            self.others = self.others.saturating_add(1);
        }
    }

    pub(super) fn into_defects(self) -> Vec<Defect> {
        let others = (self.others > 0).then(|| Defect {
            code: "xbrl.limit".into(),
            page: None,
            detail: format!(
                "{} further defects of the tagged facts are not listed",
                self.others
            ),
        });
        let counted = self
            .counts
            .into_iter()
            .map(|((code, detail), count)| Defect {
                code: code.into(),
                page: None,
                detail: if count == 1 {
                    detail
                } else {
                    format!("{detail} ({count} times)")
                },
            });
        counted.chain(others).collect()
    }
}
