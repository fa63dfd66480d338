//! The clients of both batch dialects against the simulated provider.
#![expect(clippy::unwrap_used, clippy::panic, reason = "test code")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use stemma_llm::anthropic::Anthropic;
use stemma_llm::batch::{BatchName, BatchPhase, BatchProvider, BatchResult, FoundBatch};
use stemma_llm::http::Endpoint;
use stemma_llm::openai::OpenAi;
use stemma_llm::request::{Llm, LlmRequest, OutputSchema};
use stemma_sim::{Behavior, Provider, ReplyFault, ReplyFaults, SimulatedBatches};
use stemma_store::Env;
use stemma_store::env::Millis;
use stemma_store::secret::Secret;

fn clients(provider: &Provider) -> [Arc<dyn Llm>; 2] {
    let endpoint = || Endpoint {
        base_url: provider.base_url("w"),
        api_key: Secret::from("top secret"),
        key_header: String::new(),
        headers: Vec::new(),
        timeout: Duration::from_secs(60),
        process: "worker-7".into(),
        env: Env::system(),
    };
    [
        Arc::new(OpenAi::new(endpoint()).unwrap()),
        Arc::new(Anthropic::new(endpoint()).unwrap()),
    ]
}

fn request(text: &str) -> LlmRequest {
    let array = json!({ "summaries": { "type": "array" } });
    LlmRequest {
        model: "m".into(),
        system: "Sum up.".into(),
        user: format!("Section 1:\n[0123456789abcdef]\n{text}\n[/0123456789abcdef]"),
        images: Vec::new(),
        schema: OutputSchema::strict("summarize", &array),
        max_output_tokens: 400,
        follow_up: None,
        urgency: 0,
    }
}

const IDS: [&str; 3] = ["one", "two", "three"];

fn ids() -> Vec<String> {
    IDS.map(Into::into).to_vec()
}

fn lines(provider: &dyn BatchProvider) -> Vec<String> {
    let texts = [
        "We sell things.",
        "We \"buy\" things,\nat a price.",
        "We own things.",
    ];
    IDS.iter()
        .zip(texts)
        .map(|(id, text)| provider.line(id, &request(text)))
        .collect()
}

fn name(lines: &[String], since_ms: Millis) -> BatchName<'_> {
    BatchName {
        name: "stemma-0123",
        lines,
        since_ms,
    }
}

async fn wait_until_ended(batches: &dyn BatchProvider, id: &str) -> BatchPhase {
    for _ in 0..6_000 {
        let status = batches.status(id).await.unwrap();
        if status.phase != BatchPhase::Running {
            return status.phase;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{id} does not end");
}

async fn results(batches: &dyn BatchProvider, id: &str) -> BTreeMap<String, BatchResult> {
    batches.results(id).await.unwrap().into_iter().collect()
}

async fn start(behavior: Behavior) -> Provider {
    Provider::start(behavior).await.unwrap()
}

#[tokio::test]
async fn replies_of_a_batch_are_those_of_calls() {
    let provider = start(Behavior::default()).await;
    for client in clients(&provider) {
        provider.set_behavior(Behavior {
            batches: SimulatedBatches {
                takes_ms: u64::MAX,
                ..SimulatedBatches::default()
            },
            ..Behavior::default()
        });
        let batches = client.batches().unwrap();
        let id = batches
            .submit(&name(&ids(), 0), &lines(batches))
            .await
            .unwrap();
        let status = batches.status(&id).await.unwrap();
        assert_eq!((status.phase, status.requests), (BatchPhase::Running, 3));
        provider.set_behavior(Behavior::default());
        assert_eq!(wait_until_ended(batches, &id).await, BatchPhase::Ended);
        let status = batches.status(&id).await.unwrap();
        assert_eq!((status.done, status.requests), (3, 3));
        let got = results(batches, &id).await;
        assert_eq!(got.len(), 3);
        let called = client.complete(&request("We sell things.")).await.unwrap();
        let BatchResult::Reply(reply) = &got["one"] else {
            panic!("{got:?}")
        };
        assert_eq!(
            (&reply.text, reply.usage, reply.finish),
            (&called.text, called.usage, called.finish)
        );
        for _ in 0..2 {
            batches.remove_requests(&id).await.unwrap();
        }
        assert_eq!(results(batches, &id).await.len(), 3, "results stay");
    }
    let totals = provider.report().batches;
    assert_eq!((totals.executed, totals.files), (6, 0));
}

#[tokio::test]
async fn submitted_batches_are_found_although_the_reply_was_lost() {
    let behavior = |takes_ms, loses_replies| Behavior {
        batches: SimulatedBatches {
            takes_ms,
            loses_replies,
            ..SimulatedBatches::default()
        },
        ..Behavior::default()
    };
    let provider = start(behavior(u64::MAX, true)).await;
    for client in clients(&provider) {
        let batches = client.batches().unwrap();
        let name = BatchName {
            name: "stemma-0123",
            lines: &ids(),
            since_ms: Env::system().now_ms(),
        };
        assert_eq!(batches.find(&name).await.unwrap(), FoundBatch::Missing);
        let lost = batches.submit(&name, &lines(batches)).await.unwrap_err();
        assert!(lost.is_outage(), "{lost}");
        // More batches of others, so that ours is on another page of the list.
        for other in 0..25 {
            let ids: Vec<String> = (0..3).map(|line| format!("other{other}-{line}")).collect();
            let lines: Vec<String> = ids
                .iter()
                .map(|id| batches.line(id, &request(id)))
                .collect();
            let name = BatchName {
                name: "other",
                lines: &ids,
                ..name
            };
            batches.submit(&name, &lines).await.unwrap_err();
        }
        let found = batches.find(&name).await.unwrap();
        let is_certain = found != FoundBatch::Undecided;
        provider.set_behavior(behavior(0, true));
        let FoundBatch::Submitted(id) = batches.find(&name).await.unwrap() else {
            panic!("{found:?}")
        };
        assert!(!is_certain || found == FoundBatch::Submitted(id.clone()));
        assert_eq!(results(batches, &id).await.len(), 3);
        provider.set_behavior(behavior(u64::MAX, true));
    }
}

#[tokio::test]
async fn requests_that_were_not_executed_are_told_apart_from_refused_ones() {
    let faults = |kinds| ReplyFaults {
        always: 1.0,
        kinds,
        ..ReplyFaults::default()
    };
    for (behavior, expected) in [
        (
            Behavior {
                faults: faults(vec![ReplyFault::Error]),
                ..Behavior::default()
            },
            "not executed",
        ),
        (
            Behavior {
                batches: SimulatedBatches {
                    expires: 1.0,
                    ..SimulatedBatches::default()
                },
                ..Behavior::default()
            },
            "not executed",
        ),
        (
            Behavior {
                faults: faults(vec![ReplyFault::Empty]),
                ..Behavior::default()
            },
            "model.reply_unreadable",
        ),
    ] {
        let provider = start(behavior).await;
        for client in clients(&provider) {
            let batches = client.batches().unwrap();
            let id = batches
                .submit(&name(&ids(), 0), &lines(batches))
                .await
                .unwrap();
            assert_eq!(wait_until_ended(batches, &id).await, BatchPhase::Ended);
            for result in results(batches, &id).await.values() {
                let got = match result {
                    BatchResult::Reply(_) => "reply",
                    BatchResult::Failed(error) => error.code(),
                    BatchResult::NotExecuted => "not executed",
                };
                assert_eq!(got, expected);
            }
        }
    }
}

#[tokio::test]
async fn a_cancelled_batch_ends_and_bills_only_what_it_did() {
    let batches = SimulatedBatches {
        takes_ms: u64::MAX,
        ..SimulatedBatches::default()
    };
    let provider = start(Behavior {
        batches,
        ..Behavior::default()
    })
    .await;
    for client in clients(&provider) {
        let batches = client.batches().unwrap();
        let id = batches
            .submit(&name(&ids(), 0), &lines(batches))
            .await
            .unwrap();
        batches.cancel(&id).await.unwrap();
        assert_eq!(wait_until_ended(batches, &id).await, BatchPhase::Ended);
        let got = results(batches, &id).await;
        assert!(
            got.values()
                .all(|result| *result == BatchResult::NotExecuted),
            "{got:?}"
        );
    }
    assert_eq!(provider.report().batches.executed, 0);
}

#[tokio::test]
async fn rejected_batches_and_unknown_ids_are_errors() {
    let batches = SimulatedBatches {
        rejects: true,
        ..SimulatedBatches::default()
    };
    let provider = start(Behavior {
        batches,
        ..Behavior::default()
    })
    .await;
    let [openai, anthropic] = clients(&provider);
    let batches = openai.batches().unwrap();
    let id = batches
        .submit(&name(&ids(), 0), &lines(batches))
        .await
        .unwrap();
    let phase = wait_until_ended(batches, &id).await;
    assert_eq!(phase, BatchPhase::Rejected("token_limit_exceeded".into()));
    for client in [&openai, &anthropic] {
        let batches = client.batches().unwrap();
        assert!(batches.status("none").await.is_err());
        assert!(batches.status("../models").await.is_err());
    }
}
