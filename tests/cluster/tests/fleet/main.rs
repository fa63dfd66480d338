//! Tests of the services as processes. They are one program, because each program links the whole product again.

mod forged;
mod mixed_folder;
mod operator;
mod procedures;
mod processes;
mod reindex;
mod scans;
mod servers;
mod traces;
