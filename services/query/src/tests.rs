//! Tests over a store made by hand.
