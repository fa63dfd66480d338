//! Compatible APIs: OpenAI chat completions, responses and models, and PageIndex Cloud.

mod conversation;
pub mod openai;
mod openapi;
pub mod pageindex;
mod render;

pub use openapi::describe;

use stemma_gateway::Route;

/// All compatibility routes.
pub fn routes() -> Vec<Route> {
    [openai::routes(), pageindex::routes()].concat()
}
