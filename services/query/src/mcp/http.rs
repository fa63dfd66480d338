//! The Model Context Protocol over HTTP: each request is answered alone, by any replica.

use std::net::SocketAddr;
use std::sync::Arc;

use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio_util::sync::CancellationToken;

use super::desk::Desk;

/// What answers at `/mcp`.
pub(crate) type McpService = StreamableHttpService<Desk, NeverSessionManager>;

/// Which hosts requests may name, and which web pages may send them.
#[derive(Debug, Clone, Default)]
pub(crate) struct HostSettings {
    /// Names, or names with ports, beside this machine's.
    pub(crate) hosts: Vec<String>,
    /// Origins: `https://app.example.com:443`; none: no web page may.
    pub(crate) origins: Vec<String>,
    /// The largest request in bytes.
    pub(crate) max_body_bytes: usize,
}

/// The service at `/mcp`. A page in a browser that was led to this address under another name (DNS rebinding) is refused
/// by the name in `Host`; one that says where it comes from, by its `Origin`.
pub(crate) fn service(desk: Desk, listen: SocketAddr, settings: HostSettings, stop: &CancellationToken) -> McpService {
    let HostSettings { mut hosts, origins, max_body_bytes } = settings;
    hosts.extend(["localhost", "127.0.0.1", "::1"].map(ToString::to_string));
    if !listen.ip().is_unspecified() {
        hosts.push(listen.ip().to_string());
    }
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_allowed_hosts(hosts)
        .with_allowed_origins(origins)
        .enforce_origin_validation()
        .with_max_request_body_bytes(max_body_bytes)
        .with_cancellation_token(stop.child_token());
    StreamableHttpService::new(move || Ok(desk.clone()), Arc::new(NeverSessionManager::default()), config)
}
