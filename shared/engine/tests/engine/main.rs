//! Tests of the engine, except for the simulated schedules, which run for longer.

mod budgets;
mod conformance;
mod coordinator;
mod execution;
mod message_keys;
