//! Mounts the surfaces behind access control.

use std::sync::Arc;

use axum::extract::DefaultBodyLimit;
use axum::routing::get;
use axum::{Router, middleware};
use stemma_gateway::access_control::{self, AccessControl};
use stemma_gateway::extract::{self, HandlerResult};
use stemma_gateway::problem::Problem;
use stemma_gateway::{AppState, Route};
use stemma_mcp::McpService;
use utoipa::openapi::OpenApi;

/// All routes but `/mcp`.
pub(crate) fn routes() -> Vec<Route> {
    [
        vec![("/openapi.json", get(openapi_document))],
        stemma_http::routes(),
        stemma_compat::routes(),
    ]
    .concat()
}

/// The routes of all surfaces as one OpenAPI 3.1 document.
fn openapi() -> OpenApi {
    let mut api = stemma_http::describe();
    api.merge(stemma_compat::describe());
    stemma_http::add_common_parts(&mut api);
    api
}

async fn openapi_document() -> HandlerResult {
    extract::json(openapi()).await
}

/// All routes behind access control.
pub(crate) fn router(state: AppState, control: Arc<AccessControl>, mcp: McpService) -> Router {
    let max_body_bytes = control.max_body_bytes;
    let routes = routes()
        .into_iter()
        .fold(Router::new(), |router, (path, method)| {
            router.route(path, method)
        });
    routes
        .route_service("/mcp", mcp)
        .fallback(|| async {
            Problem::new(404, "route.unknown", "there is no such route")
                .with_next("GET /openapi.json")
        })
        .method_not_allowed_fallback(|| async {
            Problem::new(405, "route.method", "this route does not take that method")
        })
        .layer(DefaultBodyLimit::max(max_body_bytes))
        .layer(middleware::from_fn_with_state(
            control,
            access_control::enforce,
        ))
        .with_state(state)
}
