//! Logins with the permissions of docs/SECURITY.md: who may declare, publish and consume what.

use std::sync::Arc;
use std::time::Duration;

use lapin::options::{
    BasicPublishOptions, ConfirmSelectOptions, ExchangeDeclareOptions, QueueBindOptions,
};
use lapin::types::FieldTable;
use lapin::{BasicProperties, Connection, ConnectionProperties, ExchangeKind};
use stemma_adapters::rabbit::RabbitQueue;
use stemma_engine::queue::{Lane, Message, Queue, QueueName, RetryDelay};
use stemma_store::{Env, PortErrorKind, Priority};

use crate::broker::{Services, connect, settings};
use crate::with_own_server;

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/SECURITY.md");
const ROLES: [&str; 6] = [
    "stemma-coordinator",
    "stemma-worker",
    "stemma-assembler",
    "stemma-submit",
    "stemma-keda",
    "stemma-reindex",
];
const CPU: QueueName = QueueName::Lane(Lane::Cpu, Priority::Bulk);

/// Adds logins with the permissions that the document gives them, and returns their URLs. In one command, because each
/// starts a runtime of its own.
pub async fn add_roles(services: &Services, url: &str) -> [String; 6] {
    let document = std::fs::read_to_string(DOCUMENT).unwrap();
    let mut script = String::new();
    for role in ROLES {
        let line = document
            .lines()
            .find_map(|line| {
                line.strip_prefix(&format!(
                    "rabbitmqctl set_permissions --vhost stemma {role} "
                ))
            })
            .expect("docs/SECURITY.md sets permissions for each role");
        let patterns: Vec<_> = line
            .split_whitespace()
            .map(|pattern| {
                format!(
                    "<<\"{}\">>",
                    pattern.trim_matches('\'').replace('\\', "\\\\")
                )
            })
            .collect();
        let module = "rabbit_auth_backend_internal";
        script += &format!(
            "{module}:add_user(<<\"{role}\">>, <<\"secret\">>, <<\"test\">>), \
             {module}:set_permissions(<<\"{role}\">>, <<\"/\">>, {}, <<\"test\">>), ",
            patterns.join(", ")
        );
    }
    services.control(&["eval", &format!("{script} ok.")]).await;
    ROLES.map(|role| url.replacen("guest:guest", &format!("{role}:secret"), 1))
}

async fn is_refused(queue: &RabbitQueue, name: QueueName) -> bool {
    let subscribed = queue.subscribe(name, 1).await;
    subscribed.is_err_and(|error| error.kind == PortErrorKind::Refused)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn roles_consume_only_what_they_work_on() {
    with_own_server(async |url, services| {
        let prefix = "stemma";
        let logins = add_roles(services, &url).await;
        // Only a coordinator declares. The others wait for it.
        let early = settings(&logins[1], prefix);
        let mut early =
            tokio::spawn(async move { RabbitQueue::connect(&early, &Env::system()).await });
        let connected = tokio::time::timeout(Duration::from_secs(1), &mut early).await;
        assert!(connected.is_err(), "there is nothing to work on yet");
        let coordinator = connect(&logins[0], prefix).await;
        let worker = Arc::new(early.await.unwrap().unwrap());
        let assembler = connect(&logins[2], prefix).await;
        let submitter = connect(&logins[3], prefix).await;

        let scaler = connect(&logins[4], prefix).await;

        let flow = QueueName::Flow(0);
        // One flow queue represents all.
        for queue in QueueName::all().filter(|queue| !matches!(queue, QueueName::Flow(1..))) {
            let lane = queue.lane().map(|(lane, _)| lane);
            for (role, is_own) in [
                (&coordinator, true),
                (&worker, lane.is_some_and(|lane| lane != Lane::Publish)),
                (&assembler, lane == Some(Lane::Publish)),
                (&submitter, false),
                (&scaler, false),
            ] {
                let refused = is_refused(role, queue).await;
                assert_eq!(refused, !is_own, "{queue}");
            }
            scaler.depth(queue).await.unwrap();
        }
        for role in [&worker, &assembler, &submitter] {
            let message = vec![Message::new("x")];
            role.publish(flow, message).await.unwrap();
            role.depth(flow).await.unwrap();
            role.probe().await.unwrap();
        }
        for role in [&worker, &assembler] {
            let later = role.publish_later(CPU, Message::new("x"), RetryDelay::Long);
            later.await.unwrap();
            let event = role.announce("document.published", Message::new("{}"));
            event.await.unwrap();
        }
        for queue in [coordinator, worker, assembler, submitter, scaler] {
            queue.close().await;
        }
    })
    .await;
}

/// Publishes as a client without Stemma's adapter; whether the broker accepted and routed it.
async fn is_routed(connection: &Connection, exchange: &str, key: &str) -> bool {
    let channel = connection.create_channel().await.unwrap();
    let confirms = channel.confirm_select(ConfirmSelectOptions::default());
    confirms.await.unwrap();
    let options = BasicPublishOptions {
        mandatory: true,
        ..BasicPublishOptions::default()
    };
    let properties = BasicProperties::default();
    let sent = channel.basic_publish(exchange.into(), key.into(), options, b"{}", properties);
    match async { sent.await?.await }.await {
        Ok(confirmed) => confirmed.is_ack() && confirmed.take_message().is_none(),
        Err(_) => false,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_triggers_reindexing_reaches_no_other_queue() {
    with_own_server(async |url, services| {
        let logins = add_roles(services, &url).await;
        let coordinator = connect(&logins[0], "stemma").await;
        // As docs/OPERATING.md says.
        let operator = Connection::connect(&url, ConnectionProperties::default());
        let operator = operator.await.unwrap();
        let channel = operator.create_channel().await.unwrap();
        let durable = ExchangeDeclareOptions {
            durable: true,
            ..ExchangeDeclareOptions::default()
        };
        let nothing = FieldTable::default;
        let declared =
            channel.exchange_declare("uploads".into(), ExchangeKind::Direct, durable, nothing());
        declared.await.unwrap();
        let bound = channel.queue_bind(
            "stemma.reindex".into(),
            "uploads".into(),
            "reindex".into(),
            QueueBindOptions::default(),
            nothing(),
        );
        bound.await.unwrap();

        let client = Connection::connect(&logins[5], ConnectionProperties::default());
        let client = client.await.unwrap();
        assert!(is_routed(&client, "uploads", "reindex").await);
        let depth = coordinator.depth(QueueName::Reindex).await.unwrap();
        assert_eq!(depth.ready, 1);
        for queue in QueueName::all() {
            let key = queue.to_string();
            assert!(!is_routed(&client, "stemma", &key).await, "{key}");
        }
        for (exchange, key) in [
            ("uploads", "flow.00"),
            ("", "stemma.flow.00"),
            ("stemma.later.5s", "flow.00"),
            ("stemma.events", "document.published"),
        ] {
            let routed = is_routed(&client, exchange, key).await;
            assert!(!routed, "{exchange} with {key}");
        }
        coordinator.close().await;
    })
    .await;
}
