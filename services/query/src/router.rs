//! Mounts the surfaces behind access control.

use std::sync::Arc;

use axum::extract::DefaultBodyLimit;
use axum::routing::get;
use axum::{Json, Router, middleware};
use stemma_gateway::AppState;
use stemma_gateway::access_control::{self, AccessControl};
use stemma_gateway::problem::Problem;
use stemma_mcp::McpService;
use tower_http::catch_panic::CatchPanicLayer;
use utoipa::openapi::OpenApi;

/// All routes but `/mcp` and `/openapi.json`, and their description as one OpenAPI 3.1 document.
fn routes(max_upload_bytes: usize) -> (Router<AppState>, OpenApi) {
    let routes = stemma_http::router().merge(stemma_compat::router(max_upload_bytes));
    let (router, mut api) = routes.split_for_parts();
    stemma_http::add_common_parts(&mut api);
    (router, api)
}

/// All routes behind access control.
pub(crate) fn router(state: AppState, control: Arc<AccessControl>, mcp: McpService) -> Router {
    let uploads = state.deps.uploads.as_ref();
    let max_upload_bytes = uploads.map_or(0, |uploads| uploads.max_bytes());
    let (routes, api) = routes(usize::try_from(max_upload_bytes).unwrap_or(usize::MAX));
    // Each connection copies its routes, and the description is large.
    let api = Arc::new(api);
    let web = stemma_web::router(state.clone());
    let openapi = move || async move { Json(OpenApi::clone(&api)) };
    routes
        .route("/openapi.json", get(openapi))
        .route_service("/mcp", mcp)
        .merge(web)
        .fallback(|| async {
            Problem::new(404, "route.unknown", "this path does not exist")
                .with_next("GET /openapi.json")
        })
        .method_not_allowed_fallback(|| async {
            let detail = "this path does not support the method";
            Problem::new(405, "route.method_unsupported", detail)
        })
        .layer(DefaultBodyLimit::max(control.max_body_bytes))
        .layer(CatchPanicLayer::custom(access_control::panic_response))
        .layer(middleware::from_fn_with_state(
            control,
            access_control::enforce,
        ))
        .with_state(state)
}
