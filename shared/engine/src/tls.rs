//! The one cryptography of every TLS connection: *ring*, which compiles in seconds.

/// Makes *ring* the default provider of rustls in this process. Call it before building a `reqwest` client, which has none of its
/// own; a second call changes nothing.
pub fn install_crypto_provider() {
    drop(rustls::crypto::ring::default_provider().install_default());
}
