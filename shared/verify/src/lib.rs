//! Checks claims against the pages that they cite. Pure: no IO, no async and no model.
//!
//! - [`check_quote`]: where a quote is on its page, and how well it matches ([`QuoteTarget`], [`QuoteMatch`]).
//! - [`formula`]: formulas of computed figures, parsed with bounds and evaluated in decimal arithmetic.

pub mod formula;
mod normalize;
mod quote;
mod quote_match;
mod quote_target;

pub use normalize::CharPosition;
pub use quote::{DisputedQuote, QuoteCheck, check_quote};
pub use quote_match::QuoteMatch;
pub use quote_target::{CitedRect, QuoteTarget};
mod claim;
pub use claim::*;
