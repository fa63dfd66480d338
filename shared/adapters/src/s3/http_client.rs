//! The HTTP client of S3: the SDK's default, but with *ring* as cryptography provider.

use aws_sdk_s3::config::SharedHttpClient;
use aws_smithy_http_client::proxy::ProxyConfig;
use aws_smithy_http_client::tls::Provider;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_http_client::{Builder, ConnectorBuilder};

/// A client with the system's root certificates and the proxies configured in the environment.
pub fn http_client() -> SharedHttpClient {
    Builder::new().build_with_connector_fn(|settings, parts| {
        let mut connector =
            ConnectorBuilder::default().tls_provider(Provider::Rustls(CryptoMode::Ring));
        connector.set_connector_settings(settings.cloned());
        if let Some(parts) = parts {
            connector.set_sleep_impl(parts.sleep_impl());
        }
        connector.set_proxy_config(Some(ProxyConfig::from_env()));
        connector.build()
    })
}
