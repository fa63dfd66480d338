//! Publishing with confirms, many messages at a time.
//!
//! Each call uses a channel exclusively. A message returned as unroutable therefore belongs to that call, and a channel
//! that failed is dropped with everything in flight on it. Unconfirmed messages fail the call; callers retry, and
//! duplicates are harmless.

use std::time::Duration;

use futures::{StreamExt, stream};
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::{Channel, Confirmation};
use parking_lot::Mutex;
use stemma_engine::queue::Message;
use stemma_store::port_error::{PortError, PortResult};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use super::connection::{ConnectionHandle, SupervisedConnection};
use super::encoding;
use super::reply::ANSWER_TIMEOUT;
use super::topology::PublishRoute;

// Messages in flight per call. Waiting for each confirm separately would cost a disk write per message.
const WINDOW: usize = 1000;
// Concurrent calls; further calls wait.
const MAX_CALLS: usize = 64;
// How long a call waits while the broker blocks publishers, before it fails.
const BLOCKED_TIMEOUT: Duration = Duration::from_secs(30);

pub(super) struct Publisher {
    connection: SupervisedConnection,
    calls: Semaphore,
    idle: Mutex<Vec<Channel>>,
}

impl Publisher {
    pub(super) fn new(connection: SupervisedConnection) -> Self {
        Self {
            connection,
            calls: Semaphore::new(MAX_CALLS),
            idle: Mutex::default(),
        }
    }

    /// Waits until the connection is up.
    pub(super) async fn connected(&self, patience: Duration) -> PortResult<()> {
        let handle = self.connection.handle("queue.connect", patience).await;
        handle.map(drop)
    }

    /// Publishes `messages`; returns once the broker has confirmed all of them.
    pub(super) async fn publish(
        &self,
        operation: &'static str,
        route: &PublishRoute,
        messages: Vec<Message>,
    ) -> PortResult<()> {
        if messages.is_empty() {
            return Ok(());
        }
        let turn = timeout(BLOCKED_TIMEOUT, self.calls.acquire())
            .await
            .map_err(|_| {
                PortError::transient(operation, "too many messages are waiting to be published")
            })?;
        let _turn =
            turn.map_err(|_| PortError::permanent(operation, "the connection was closed"))?;
        let handle = self.connection.ready(operation).await?;
        wait_unblocked(operation, &handle).await?;
        let channel = self.channel(operation, &handle).await?;
        send(operation, &handle, &channel, route, messages).await?;
        self.idle.lock().push(channel);
        Ok(())
    }

    pub(super) fn blocked(&self) -> Option<String> {
        self.connection.blocked()
    }

    pub(super) async fn close(&self) {
        self.calls.close();
        self.idle.lock().clear();
        self.connection.close().await;
    }

    /// An exclusive channel with confirms.
    async fn channel(
        &self,
        operation: &'static str,
        handle: &ConnectionHandle,
    ) -> PortResult<Channel> {
        let idle = {
            let mut idle = self.idle.lock();
            idle.retain(|channel| channel.status().connected()); // drop channels of lost connections
            idle.pop()
        };
        if let Some(channel) = idle {
            return Ok(channel);
        }
        let channel = handle.channel(operation).await?;
        let selected = channel.confirm_select(ConfirmSelectOptions::default());
        handle.reconnect.request(operation, selected).await?;
        Ok(channel)
    }
}

async fn send(
    operation: &'static str,
    handle: &ConnectionHandle,
    channel: &Channel,
    route: &PublishRoute,
    messages: Vec<Message>,
) -> PortResult<()> {
    let sent = stream::iter(messages).map(|message| publish_one(channel, route, message));
    let mut confirms = std::pin::pin!(sent.buffered(WINDOW));
    let mut last_confirm = Instant::now();
    loop {
        let confirm = tokio::select! {
            biased;
            () = handle.lost.cancelled() => {
                return Err(PortError::transient(operation, "the connection was lost"));
            }
            confirm = timeout(ANSWER_TIMEOUT, confirms.next()) => confirm,
        };
        match confirm {
            Ok(None) => return Ok(()),
            Ok(Some(Ok(confirmation))) => check_confirm(operation, handle, route, &confirmation)?,
            Ok(Some(Err(error))) => {
                return Err(handle.reconnect.port_error(operation, Some(&error)));
            }
            Err(_) => {
                let Some(reason) = handle.blocked.borrow().clone() else {
                    return Err(handle.reconnect.port_error(operation, None));
                };
                if last_confirm.elapsed() >= BLOCKED_TIMEOUT {
                    return Err(blocked_error(operation, &reason));
                }
                continue;
            }
        }
        last_confirm = Instant::now();
    }
}

fn check_confirm(
    operation: &'static str,
    handle: &ConnectionHandle,
    route: &PublishRoute,
    confirmation: &Confirmation,
) -> PortResult<()> {
    let refusal = match confirmation {
        Confirmation::Ack(None) => return Ok(()),
        Confirmation::Ack(Some(_)) | Confirmation::Nack(Some(_)) => {
            handle
                .reconnect
                .raise_missing(format!("a message to {} reaches no queue", route.key));
            "reaches no queue"
        }
        Confirmation::Nack(None) => "was refused by the broker",
        Confirmation::NotRequested => "was not confirmed",
    };
    Err(PortError::transient(
        operation,
        format!("a message to {} {refusal}", route.key),
    ))
}

async fn publish_one(
    channel: &Channel,
    route: &PublishRoute,
    message: Message,
) -> lapin::Result<Confirmation> {
    let options = BasicPublishOptions {
        mandatory: route.mandatory,
        immediate: false,
    };
    let exchange = route.exchange.clone();
    let key = route.key.clone();
    channel
        .basic_publish(
            exchange,
            key,
            options,
            &message.body,
            encoding::properties(&message),
        )
        .await?
        .await
}

/// Waits while the broker blocks publishers, with a timeout.
async fn wait_unblocked(operation: &'static str, handle: &ConnectionHandle) -> PortResult<()> {
    let mut blocked = handle.blocked.clone();
    let waited = timeout(BLOCKED_TIMEOUT, blocked.wait_for(Option::is_none)).await;
    match waited {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(_)) => Err(PortError::transient(operation, "the connection was lost")),
        Err(_) => Err(blocked_error(
            operation,
            handle
                .blocked
                .borrow()
                .as_deref()
                .unwrap_or("no reason given"),
        )),
    }
}

fn blocked_error(operation: &'static str, reason: &str) -> PortError {
    PortError::transient(operation, format!("the broker blocks publishers: {reason}"))
}
