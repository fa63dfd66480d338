//! Items of made-up HTML filings, one for each way in which filings of EDGAR mislead a reader of Items.
#![expect(clippy::expect_used, reason = "helpers of tests fail as tests do")]

mod ends;
mod filing;
mod forms;
mod headings;
mod named;
mod registrants;
mod titles_by_year;
mod wrong_contents;
