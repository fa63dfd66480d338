//! Configuration, logging, shutdown and the choice of ports.
