//! From a verified outline to a finished tree without a model: spans, text, summaries, facts, references.
