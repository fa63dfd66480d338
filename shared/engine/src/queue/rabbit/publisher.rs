//! Publishing with confirms, many at once.
//!
//! Each call has a channel for itself while it lasts: a message that the broker hands back as unroutable is then
//! surely one of this call, and a channel that failed is thrown away with everything that was under way on it. What was
//! not confirmed makes the call fail; callers ask again, and a duplicate is harmless.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::{StreamExt, stream};
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::{Channel, Confirmation};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use super::link::{Link, Live, PATIENCE, answered, fault};
use super::topology::Route;
use super::wire;
use crate::port::PortError;
use crate::queue::Message;

/// Messages of one call that wait for their confirms together. Waiting for each costs a write to disk each.
const WINDOW: usize = 1000;
/// Calls under way at once; more of them wait.
const CALLS: usize = 64;
/// How long a call waits while the broker holds back publishers, before it says so.
const BLOCKED_PATIENCE: Duration = Duration::from_secs(30);

pub(super) struct Publisher {
    link: Link,
    calls: Semaphore,
    idle: Mutex<Vec<Channel>>,
}

impl Publisher {
    pub(super) fn new(link: Link) -> Self {
        Self {
            link,
            calls: Semaphore::new(CALLS),
            idle: Mutex::default(),
        }
    }

    /// Publishes all of `messages`; returns once the broker has taken responsibility for every one.
    pub(super) async fn publish(
        &self,
        operation: &'static str,
        route: &Route,
        messages: Vec<Message>,
    ) -> Result<(), PortError> {
        if messages.is_empty() {
            return Ok(());
        }
        let turn = timeout(BLOCKED_PATIENCE, self.calls.acquire())
            .await
            .map_err(|_| {
                PortError::passing(
                    "queue",
                    operation,
                    "too many messages are waiting to be published",
                )
            })?;
        let _turn =
            turn.map_err(|_| PortError::lasting("queue", operation, "the connection was closed"))?;
        let live = self.link.ready(operation).await?;
        unblocked(operation, &live).await?;
        let channel = self.channel(operation, &live).await?;
        send(operation, &live, &channel, route, messages).await?;
        self.idle().push(channel);
        Ok(())
    }

    pub(super) fn blocked(&self) -> Option<String> {
        self.link.blocked()
    }

    pub(super) async fn close(&self) {
        self.calls.close();
        self.idle().clear();
        self.link.close().await;
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Channel>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A channel with confirms, used by no one else.
    async fn channel(&self, operation: &'static str, live: &Live) -> Result<Channel, PortError> {
        let idle = {
            let mut idle = self.idle();
            idle.retain(|channel| channel.status().connected()); // those of lost connections are not
            idle.pop()
        };
        if let Some(channel) = idle {
            return Ok(channel);
        }
        let channel = live.channel(operation).await?;
        live.doubt.over(
            answered(
                operation,
                channel.confirm_select(ConfirmSelectOptions::default()),
            )
            .await,
        )?;
        Ok(channel)
    }
}

/// Publishes in one go, and waits for every confirm.
async fn send(
    operation: &'static str,
    live: &Live,
    channel: &Channel,
    route: &Route,
    messages: Vec<Message>,
) -> Result<(), PortError> {
    let sent = stream::iter(messages).map(|message| publish_one(channel, route, message));
    let mut confirms = std::pin::pin!(sent.buffered(WINDOW));
    let mut heard = Instant::now();
    loop {
        let confirm = tokio::select! {
            biased;
            () = live.lost.cancelled() => {
                return Err(PortError::passing("queue", operation, "the connection was lost"));
            }
            confirm = timeout(PATIENCE, confirms.next()) => confirm,
        };
        match confirm {
            Ok(None) => return Ok(()),
            Ok(Some(Ok(confirmation))) => accepted(operation, live, route, &confirmation)?,
            Ok(Some(Err(error))) => return Err(fault(operation, Some(&error))),
            Err(_) => {
                let Some(reason) = live.blocked.borrow().clone() else {
                    return live.doubt.over(Err(fault(operation, None)));
                };
                if heard.elapsed() >= BLOCKED_PATIENCE {
                    return Err(held_back(operation, &reason));
                }
                continue;
            }
        }
        heard = Instant::now();
    }
}

/// Whether the broker took responsibility for a message.
fn accepted(
    operation: &'static str,
    live: &Live,
    route: &Route,
    answer: &Confirmation,
) -> Result<(), PortError> {
    let refusal = match answer {
        Confirmation::Ack(None) => return Ok(()),
        Confirmation::Ack(Some(_)) | Confirmation::Nack(Some(_)) => {
            live.doubt.raise(); // someone deleted a queue: connecting anew declares it again
            "reaches no queue"
        }
        Confirmation::Nack(None) => "was refused by the broker",
        Confirmation::NotRequested => "was not confirmed",
    };
    Err(PortError::passing(
        "queue",
        operation,
        format!("a message to {} {refusal}", route.key),
    ))
}

async fn publish_one(
    channel: &Channel,
    route: &Route,
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
            wire::properties(&message),
        )
        .await?
        .await
}

/// Waits while the broker holds back publishers, but not for ever.
async fn unblocked(operation: &'static str, live: &Live) -> Result<(), PortError> {
    let mut blocked = live.blocked.clone();
    let waited = timeout(BLOCKED_PATIENCE, blocked.wait_for(Option::is_none)).await;
    match waited {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(_)) => Err(PortError::passing(
            "queue",
            operation,
            "the connection was lost",
        )),
        Err(_) => Err(held_back(
            operation,
            live.blocked
                .borrow()
                .as_deref()
                .unwrap_or("no reason given"),
        )),
    }
}

fn held_back(operation: &'static str, reason: &str) -> PortError {
    PortError::passing(
        "queue",
        operation,
        format!("the broker holds back publishers: {reason}"),
    )
}
