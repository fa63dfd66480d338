//! Bytes to Source: PDF, Markdown and plain text.
