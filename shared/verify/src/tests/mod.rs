//! Claims over generated pages.
