//! Tests of the clients against local servers, and of structured replies.

mod anthropic;
mod openai;
mod structured;
