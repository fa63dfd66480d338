//! Runs every call of a port through a layer: retries in production, fault injection in tests.

use std::future::Future;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;

use crate::blobs::{Blobs, PutOutcome};
use crate::env::Millis;
use crate::limit::{
    AccountReservation, Limiter, Permit, Quota, ReportedLimits, RequestCost, Reservation,
};
use crate::port_error::PortResult;

/// Wraps port calls.
pub trait PortLayer: Send + Sync {
    /// Makes a call, any number of times. `operation` is `port.method`; `about` says what the call is about, for logs.
    fn call<'a, T, F>(
        &'a self,
        operation: &'static str,
        about: impl Fn() -> String + Send + 'a,
        call: F,
    ) -> impl Future<Output = PortResult<T>> + Send + 'a
    where
        T: Send + 'a,
        F: FnMut() -> BoxFuture<'a, PortResult<T>> + Send + 'a;
}

/// A port behind a layer.
pub struct Layered<L, P: ?Sized> {
    pub layer: L,
    pub port: Arc<P>,
}

impl<L: Clone, P: ?Sized> Clone for Layered<L, P> {
    fn clone(&self) -> Self {
        Self {
            layer: self.layer.clone(),
            port: Arc::clone(&self.port),
        }
    }
}

/// The calls of a port.
pub trait PortOperations {
    /// `port.method` of each.
    const OPERATIONS: &'static [&'static str];
}

/// Implements a port by passing each method through the layer. Arguments before `;` are what the call is about. All are
/// cloned for each attempt: they are references, numbers, or shared bytes.
#[macro_export]
macro_rules! layered {
    ($port:ident, $name:literal:
        $($method:ident($($about:ident: $subject:ty),* $(; $($arg:ident: $type:ty),*)?) -> $result:ty;)*
    ) => {
        impl $crate::port_layer::PortOperations for dyn $port {
            const OPERATIONS: &'static [&'static str] =
                &[$(concat!($name, ".", stringify!($method))),*];
        }

        #[async_trait::async_trait]
        impl<L: $crate::port_layer::PortLayer> $port for $crate::port_layer::Layered<L, dyn $port> {
            $(async fn $method(
                &self, $($about: $subject,)* $($($arg: $type,)*)?
            ) -> $crate::PortResult<$result> {
                self.layer.call(
                    concat!($name, ".", stringify!($method)),
                    || format!("{:?}", ($(&$about,)*)),
                    || self.port.$method($(Clone::clone(&$about),)* $($(Clone::clone(&$arg),)*)?),
                ).await
            })*
        }
    };
}

layered! { Blobs, "blobs":
    put(key: &str; bytes: Bytes) -> PutOutcome;
    get(key: &str) -> Option<Bytes>;
    get_range(key: &str; range: Range<u64>) -> Option<Bytes>;
    size(key: &str) -> Option<u64>;
    list(prefix: &str; after: Option<&str>, limit: usize) -> Vec<String>;
    children(prefix: &str; after: Option<&str>, limit: usize) -> Vec<String>;
    delete(key: &str) -> ();
    barrier() -> ();
}

layered! { Limiter, "limiter":
    acquire(bucket: &str; quota: Quota, cost: RequestCost, now_ms: Millis) -> Permit;
    settle(bucket: &str; quota: Quota, estimated: u32, used: u32) -> ();
    pause(bucket: &str; until_ms: Millis) -> ();
    report_limits(bucket: &str; quota: Quota, reported: ReportedLimits, now_ms: Millis) -> ();
    decrease_rate(bucket: &str; age_ms: u64, now_ms: Millis) -> ();
    reserve(account: &str; limit: u64, call: AccountReservation, now_ms: Millis) -> Reservation;
    settle_reservation(account: &str; call: AccountReservation, used: u64, now_ms: Millis) -> ();
    begin_opening(account: &str; proposed: u64) -> u64;
    open_account(account: &str; opening: u64, used: u64) -> ();
}
