//! Reads the text of pages: words, numbers, periods, statements and tables. Pure: no IO and no async.
//!
//! - [`tokenizer`]: the normalized words that index, queries and comparisons share; [`question_words`]: words of asking.
//! - [`text_words`]: the words of a text as written; [`terms`]: its terms for summaries; [`language`]: its language; [`numbers`]: numbers with scale, unit and sign; [`period`]: the periods
//!   that a text names; [`query_period`]: the period that a query asks about; [`calendar`]: dates.
//! - [`letters`]: letters and digits of any script; [`sentences`]: where sentences end; [`companies`]: names of companies;
//!   [`section_names`]: sections that forms prescribe; [`vocabulary`]: the words of the language, which are data.
//! - [`heading_look`]: what sets a heading apart from text; [`text_headings`]: headings of plain text; [`numerals`]: numbers
//!   that titles count with; [`title`]: titles on one line.
//! - [`document_reading`]: what all lines of a document are, and its tables, read once and stored; [`lines`]: what a line is by
//!   its words; [`text_blocks`]: tables and paragraphs of lines; [`page_features`]: what ranks a page; [`statement_pages`]: the
//!   financial statement that it is.
//! - [`figures`]: figures that filings declare, as passages display them and as queries ask for them.
//! - [`tables`]: rows and cells for claims, and whole tables for people; [`typewriter`]: where the words of typewritten lines are.

pub mod calendar;
mod cells;
pub mod companies;
pub mod document_reading;
pub mod figures;
pub mod heading_look;
pub mod language;
pub mod letters;
pub mod lines;
pub mod numbers;
pub mod numerals;
pub mod page_features;
pub mod period;
pub mod query_period;
pub mod question_words;
pub mod section_names;
pub mod sentences;
pub mod statement_pages;
pub mod tables;
pub mod terms;
pub mod text_blocks;
pub mod text_headings;
pub mod text_words;
pub mod title;
pub mod tokenizer;
pub mod typewriter;
pub mod vocabulary;
