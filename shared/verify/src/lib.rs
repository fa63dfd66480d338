//! Checks claims against the pages that they cite. Pure: no IO, no async and no model.
//!
//! A model states each figure of a claim as data: the row and column of a table, or a sentence, or a formula over other figures.
//! [`verify_claim`] finds each one on its page, writes it into the statement, and checks the rest of the statement. What the page
//! does not have as stated is never verified.
//!
//! - [`check_quote`]: where a quote is on its page, and how well it matches ([`QuoteTarget`], [`QuoteMatch`]).
//! - [`StatedClaim`] goes in with its [`Evidence`], and a [`VerifiedClaim`] comes out.

mod bind;
mod cells;
mod claim;
mod computed;
mod direction;
mod evidence;
mod facts;
mod formula;
mod labels;
mod meaning;
mod normalize;
mod periods;
mod quantity;
mod quote;
mod quote_match;
mod quote_target;
mod sentences;
mod statement;
mod template;
#[cfg(test)]
mod tests;
mod unit;
mod verify_claim;
mod words;

pub use claim::{
    BoundFigure, ClaimState, StatedCitation, StatedClaim, StatedFigure, VerifiedClaim,
};
pub use evidence::Evidence;
pub use normalize::CharPosition;
pub use quote::{DisputedQuote, QuoteCheck, check_quote};
pub use quote_match::QuoteMatch;
pub use quote_target::{CitedRect, QuoteTarget, SourceLines};
pub use template::{PrintedText, print_figures};
pub use verify_claim::verify_claim;
