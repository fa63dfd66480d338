//! Generated filings whose truth is known by construction.
