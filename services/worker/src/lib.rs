//! Consumes the cpu and llm lanes.
