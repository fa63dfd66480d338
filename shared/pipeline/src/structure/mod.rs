//! Deterministic structure: witnesses, location, verification.
