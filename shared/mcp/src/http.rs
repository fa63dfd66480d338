//! MCP over HTTP, without sessions: any replica can answer any request.

use std::sync::Arc;

use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use stemma_gateway::host_guard::HostGuard;
use tokio_util::sync::CancellationToken;

use crate::server::McpServer;

pub type McpService = StreamableHttpService<McpServer, NeverSessionManager>;

/// The service at `/mcp`. `Host` and `Origin` are checked against `host_guard`, which prevents DNS rebinding.
pub fn service(
    server: McpServer,
    host_guard: &HostGuard,
    max_body_bytes: usize,
    stop: &CancellationToken,
) -> McpService {
    // `increase` misses the first event of a counter that begins with it.
    for result in ["ok", "UNAVAILABLE", "INTERNAL_ERROR"] {
        metrics::counter!("stemma_mcp_calls_total", "result" => result).increment(0);
    }
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_allowed_hosts(host_guard.hosts().to_vec())
        .with_allowed_origins(host_guard.origins().to_vec())
        .enforce_origin_validation()
        .with_max_request_body_bytes(max_body_bytes)
        .with_cancellation_token(stop.child_token());
    StreamableHttpService::new(
        move || Ok(server.clone()),
        Arc::new(NeverSessionManager::default()),
        config,
    )
}
