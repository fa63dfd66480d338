//! The job runtime: stages, replayed flows, one consumer loop, ports and adapters.
