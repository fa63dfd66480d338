//! The server on a local port over the sample store: one file for each kind of route or client.

mod access;
mod answer_service;
mod answers;
mod bad_requests;
mod conversations;
mod documents;
mod fair_share;
mod hostile;
mod jobs;
mod large_documents;
mod load;
mod mcp;
mod model_access;
mod openai;
mod openapi;
mod page_images;
mod pageindex;
mod search;
mod test_server;
mod vision;
mod web;
