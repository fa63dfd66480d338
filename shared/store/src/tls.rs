//! TLS cryptography: *ring* for every connection, because it compiles within seconds.

/// Makes *ring* the process-wide rustls provider. Call it before building a `reqwest` client, which has no provider of
/// its own; repeated calls have no effect.
pub fn install_crypto_provider() {
    drop(rustls::crypto::ring::default_provider().install_default());
}
