//! The roles of the processes that run jobs. A cluster has any number of processes in each role; on one machine a single
//! process has all of them.

pub mod assembler;
pub mod coordinator;
pub mod worker;
