//! What stands between Stemma and language models.
