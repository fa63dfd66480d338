//! Compatible APIs: OpenAI chat completions and models, and PageIndex Cloud.

mod conversation;
pub mod openai;
pub mod pageindex;
mod render;

use stemma_gateway::AppState;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;

#[derive(OpenApi)]
#[openapi(
    tags(
        (name = "openai", description = "The API of OpenAI, for its clients: a model is a collection or a part of it"),
        (name = "pageindex", description = "The dialect of PageIndex Cloud, for programs written for its SDK. Each route is there without the slash at its end, too; parameters that are not known are passed over"),
    )
)]
struct Api;

/// All compatibility routes with their OpenAPI. Uploads have at most `max_upload_bytes`.
pub fn router(max_upload_bytes: usize) -> OpenApiRouter<AppState> {
    OpenApiRouter::with_openapi(Api::openapi())
        .merge(openai::router())
        .merge(pageindex::router(max_upload_bytes))
}
