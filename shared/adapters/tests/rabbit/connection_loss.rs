//! Lost connections, simulated by a proxy in front of the server.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use lapin::uri::AMQPUri;
use stemma_adapters::rabbit::RabbitQueue;
use stemma_engine::consumer::{Consumer, Disposition, Handler};
use stemma_engine::heartbeat::HeartbeatReporter;
use stemma_engine::queue::{Lane, Message, Queue, QueueName};
use stemma_engine_testing::wait::wait_until;
use stemma_store::key::Priority;
use stemma_store::{Env, Retrying};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::broker::{connect, fresh_prefix, remove};
use crate::with_server;

pub const LANE: QueueName = QueueName::Lane(Lane::Llm, Priority::Bulk);

/// Forwards connections to the server until they are cut.
pub struct CutProxy {
    pub url: String,
    cuts: watch::Sender<u32>,
    stalls: watch::Sender<u32>,
    accepting: tokio::task::JoinHandle<()>,
}

impl CutProxy {
    pub async fn in_front_of(url: &str) -> Self {
        let mut uri: AMQPUri = url.parse().expect("an amqp URL");
        let server = (uri.authority.host.clone(), uri.authority.port);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        uri.authority.host = "127.0.0.1".into();
        uri.authority.port = listener.local_addr().expect("an address").port();
        let (cuts, cut) = watch::channel(0);
        let (stalls, stall) = watch::channel(0);
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(forward(client, server.clone(), cut.clone(), stall.clone()));
            }
        });
        let login = &uri.authority.userinfo;
        let place = format!("{}:{}/%2f", uri.authority.host, uri.authority.port);
        Self {
            url: format!("amqp://{}:{}@{place}", login.username, login.password),
            cuts,
            stalls,
            accepting,
        }
    }

    /// Cuts every open connection.
    pub fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Stops forwarding on every open connection without closing it. Afterwards nothing that is sent arrives.
    pub async fn stall(&self) {
        self.stalls.send_modify(|stalls| *stalls += 1);
        // The connections that still forward have a receiver each, and accepting has one.
        wait_until("nothing is forwarded", async || {
            self.stalls.receiver_count() <= 1
        })
        .await;
    }

    /// Cuts every connection and accepts no new ones, like a dead machine.
    pub fn die(&self) {
        self.accepting.abort();
        self.cut();
    }
}

impl Drop for CutProxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn forward(
    mut client: TcpStream,
    server: (String, u16),
    mut cut: watch::Receiver<u32>,
    mut stall: watch::Receiver<u32>,
) {
    cut.mark_unchanged();
    stall.mark_unchanged();
    let Ok(mut server) = TcpStream::connect(server).await else {
        return;
    };
    let stalled = tokio::select! {
        _ = tokio::io::copy_bidirectional(&mut client, &mut server) => false,
        _ = cut.changed() => false,
        _ = stall.changed() => true,
    };
    drop(stall);
    if stalled {
        let _ = cut.changed().await;
    }
}

/// Counts how often each message was handled.
#[derive(Default)]
pub struct HandledCounts(pub Mutex<BTreeMap<String, u32>>);

impl HandledCounts {
    pub fn distinct(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    pub fn total(&self) -> u32 {
        self.0.lock().unwrap().values().sum()
    }

    pub async fn wait_for(&self, count: usize) {
        wait_until("the messages are handled", async || {
            self.distinct() >= count
        })
        .await;
    }
}

#[async_trait]
impl Handler for HandledCounts {
    async fn handle(&self, message: &Message, _redeliveries: u32) -> Disposition {
        tokio::time::sleep(Duration::from_millis(2)).await;
        let body = String::from_utf8(message.body.to_vec()).unwrap();
        *self.0.lock().unwrap().entry(body).or_default() += 1;
        Disposition::Ack
    }
}

/// Runs the engine's consumer loop on a queue until the token is cancelled.
pub fn consume(
    queue: &Arc<RabbitQueue>,
    handled: &Arc<HandledCounts>,
) -> (CancellationToken, tokio::task::JoinHandle<()>) {
    let stop = CancellationToken::new();
    let env = Env::system();
    let consumer = Consumer {
        heartbeat: HeartbeatReporter::new(&env, "w-1", "worker"),
        queue: Retrying::new(&env, Arc::clone(queue) as Arc<dyn Queue>),
        env,
        name: LANE,
        concurrency: 16,
        grace: Duration::from_secs(5),
    };
    (
        stop.clone(),
        tokio::spawn(consumer.run(Arc::clone(handled) as Arc<dyn Handler>, stop)),
    )
}

/// Publishes messages `from..to`, repeatedly until the broker has confirmed them.
pub async fn publish_until_confirmed(queue: &RabbitQueue, from: usize, to: usize) -> u32 {
    for failures in 0.. {
        let batch = (from..to).map(|n| Message::new(n.to_string())).collect();
        match queue.publish(LANE, batch).await {
            Ok(()) => return failures,
            Err(error) => assert!(error.is_transient(), "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    unreachable!("the loop ends by returning")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cut_connections_lose_no_message() {
    with_server(async |url| {
        const BATCHES: usize = 100;
        const BATCH: usize = 20;
        let prefix = fresh_prefix();
        let proxy = CutProxy::in_front_of(&url).await;
        let queue = connect(&proxy.url, &prefix).await;
        let handled = Arc::new(HandledCounts::default());
        let (stop, consuming) = consume(&queue, &handled);
        let mut failed = 0;
        let mut stalled_cuts = 0;
        for batch in 0..BATCHES {
            let publishing = publish_until_confirmed(&queue, batch * BATCH, (batch + 1) * BATCH);
            match batch % 16 {
                // In flight when the connection is cut: nothing can be confirmed.
                7 => {
                    proxy.stall().await;
                    let cutting = async { proxy.cut() };
                    failed += tokio::join!(publishing, cutting).0;
                    stalled_cuts += 1;
                }
                // At various moments.
                15 => {
                    let cutting = async {
                        tokio::time::sleep(Duration::from_millis(batch as u64 % 5)).await;
                        proxy.cut();
                    };
                    failed += tokio::join!(publishing, cutting).0;
                }
                _ => failed += publishing.await,
            }
        }
        handled.wait_for(BATCHES * BATCH).await;
        stop.cancel();
        consuming.await.expect("the consumer ends");
        println!(
            "{failed} failed calls, {} of {} handled twice",
            handled.total() as usize - BATCHES * BATCH,
            BATCHES * BATCH
        );
        assert!(
            stalled_cuts > 0 && failed >= stalled_cuts,
            "{failed} of {stalled_cuts}"
        );
        queue.close().await;
        remove(&url, &prefix).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_connection_is_replaced() {
    with_server(async |url| {
        let prefix = fresh_prefix();
        let proxy = CutProxy::in_front_of(&url).await;
        let queue = connect(&proxy.url, &prefix).await;
        let handled = Arc::new(HandledCounts::default());
        let (stop, consuming) = consume(&queue, &handled);
        publish_until_confirmed(&queue, 0, 10).await;
        handled.wait_for(10).await;
        proxy.stall().await;
        assert!(
            publish_until_confirmed(&queue, 10, 20).await >= 1,
            "the first call detects the loss"
        );
        handled.wait_for(20).await; // an idle consumer detects the loss only by heartbeats
        stop.cancel();
        consuming.await.expect("the consumer ends");
        queue.close().await;
        remove(&url, &prefix).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_consumer_messages_are_redelivered() {
    with_server(async |url| {
        let prefix = fresh_prefix();
        let proxy = CutProxy::in_front_of(&url).await;
        let healthy = connect(&url, &prefix).await;
        let doomed = connect(&proxy.url, &prefix).await;
        publish_until_confirmed(&healthy, 0, 20).await;
        let mut subscription = doomed.subscribe(LANE, 20).await.unwrap();
        let mut deliveries = Vec::new();
        for _ in 0..10 {
            deliveries.push(subscription.next().await.unwrap()); // ten received, ten prefetched
        }
        proxy.die();
        let handled = Arc::new(HandledCounts::default());
        let (stop, consuming) = consume(&healthy, &handled);
        handled.wait_for(20).await;
        assert!(
            subscription
                .next()
                .await
                .is_err_and(|error| error.is_transient()),
            "the subscription reports its end"
        );
        for delivery in deliveries {
            assert!(
                delivery
                    .receipt
                    .ack()
                    .await
                    .is_err_and(|error| error.is_transient()),
                "too late to acknowledge"
            );
        }
        stop.cancel();
        consuming.await.expect("the consumer ends");
        doomed.close().await;
        healthy.close().await;
        remove(&url, &prefix).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn message_that_kills_consumers_is_dead_lettered() {
    with_server(async |url| {
        let prefix = fresh_prefix();
        let queue = connect(&url, &prefix).await;
        publish_until_confirmed(&queue, 0, 1).await;
        let mut deaths = 0;
        let mut dead = queue.subscribe(QueueName::Dead, 1).await.unwrap();
        let dead = loop {
            let mut subscription = queue.subscribe(LANE, 1).await.unwrap();
            tokio::select! {
                delivery = subscription.next() => {
                    std::mem::forget(delivery.unwrap().receipt); // never acknowledged or requeued
                    deaths += 1;
                }
                delivery = dead.next() => break delivery.unwrap(),
            }
        };
        assert!((20..=22).contains(&deaths), "{deaths}");
        assert_eq!(dead.message.body, "0");
        dead.receipt.ack().await.unwrap();
        queue.close().await;
        remove(&url, &prefix).await;
    })
    .await;
}
