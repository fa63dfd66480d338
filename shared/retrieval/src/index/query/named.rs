//! What a query names, as its results say it.

use std::collections::BTreeSet;

use tantivy::Term;

use super::SearchRun;
use crate::search::AppliedFilter;

impl SearchRun<'_> {
    // What the query names: issuers, a period, a form, an Item, and operators. A period and a form only order documents.
    pub(super) fn applied_filters(&self) -> tantivy::Result<Vec<AppliedFilter>> {
        let period = &self.parsed.period;
        let mut filters = self.issuers.applied_filters.clone();
        for year in &period.years {
            filters.push(AppliedFilter {
                documents: Some(self.count_documents("fiscal_year", u64::from(*year))?),
                ..applied("fiscal_year", year.to_string(), year.to_string())
            });
        }
        filters.extend(
            period
                .latest
                .map(|latest| applied("period", latest.as_str().to_owned(), "latest".to_owned())),
        );
        if let Some(quarter) = period.quarter {
            let name = format!("Q{quarter}");
            filters.push(AppliedFilter {
                documents: Some(self.count_documents("quarter", u64::from(quarter))?),
                ..applied("fiscal_period", name.clone(), name)
            });
        }
        if let Some(form) = &self.parsed.form {
            let term = Term::from_field_text(self.fields.form, form);
            let documents = self.documents.having(&term)?;
            filters.push(AppliedFilter {
                documents: Some(documents.into_iter().filter(|has| *has).count()),
                ..applied("form", form.to_uppercase(), form.clone())
            });
        }
        if let Some((item, from)) = &self.parsed.item {
            let passages = self.of_item.as_ref();
            let keys = passages.map(|passages| passages.column("doc_key"));
            let keys = keys.transpose()?.unwrap_or_default();
            filters.push(AppliedFilter {
                narrows: passages.is_some(),
                documents: Some(keys.into_iter().collect::<BTreeSet<_>>().len()),
                ..applied("item", item.number.clone(), from.clone())
            });
        }
        filters.extend(self.conditions.applied_filters());
        Ok(filters)
    }

    fn count_documents(&self, column: &str, value: u64) -> tantivy::Result<usize> {
        let values = self.documents.column(column)?;
        Ok(values.into_iter().filter(|found| *found == value).count())
    }
}

fn applied(facet: &str, value: String, from: String) -> AppliedFilter {
    AppliedFilter {
        facet: facet.into(),
        value,
        from,
        ..AppliedFilter::default()
    }
}
