//! Calls with images that fail: the document is published all the same, and no page is paid for twice.

use stemma_llm::request::FinishReason;
use stemma_pipeline_tests::call_records;

use super::*;

/// What goes wrong with a call.
#[derive(Debug, Clone, Copy)]
enum Fault {
    Throttled,
    Status(u16),
    Timeout,
    NotJson,
    Truncated,
}

impl Fault {
    const ALL: [Self; 6] = [
        Self::Throttled,
        Self::Status(500),
        Self::Status(503),
        Self::Timeout,
        Self::NotJson,
        Self::Truncated,
    ];

    fn result(self, request: &LlmRequest, text: &str) -> Result<LlmReply, LlmError> {
        match self {
            Self::Throttled => Err(LlmError::Throttled {
                retry_after: Some(Duration::from_secs(30)),
                rate_limits: Default::default(),
            }),
            Self::Status(status) => Err(LlmError::Server {
                status,
                message: String::new(),
            }),
            Self::Timeout => Err(LlmError::TimedOut(Duration::from_secs(120))),
            Self::NotJson => Ok(reply(request, "The page says: 99,999")),
            Self::Truncated => Ok(LlmReply {
                finish: FinishReason::Length,
                ..reply(request, &text[..text.len() / 2])
            }),
        }
    }

    // Whether the provider bills the call.
    fn is_billed(self) -> bool {
        matches!(self, Self::NotJson | Self::Truncated)
    }
}

// The replies that the log of paid calls has.
async fn paid_replies(store: &MemoryBlobs) -> usize {
    let records = call_records(store).await.unwrap();
    let paid = records.iter().filter(|record| record.usage.total() > 0);
    paid.count()
}

// So that the flow runs again, over the same readings.
fn changed_settings() -> RunSettings {
    let mut settings = settings(true);
    settings.sections.summary_tokens_verbatim += 1;
    settings
}

#[test]
fn a_page_is_seen_after_a_fault_that_passes() {
    let lines = page_lines(&filing());
    let text = reply_text(&lines);
    for fault in Fault::ALL {
        simulate(async {
            let store = Arc::<MemoryBlobs>::default();
            let text = text.clone();
            let replies: Replies = Box::new(move |request, call| match (call, fault) {
                (0, _) => fault.result(request, &text),
                (_, Fault::Truncated) => Ok(reply(request, &text[text.len() / 2..])),
                _ => Ok(reply(request, text.as_str())),
            });
            let failing = Scenario::start_with(&store, &[UNSURE], replies);
            let began_ms = failing.env.now_ms();
            let detail = note(&failing.publish(&settings(true)).await);
            assert!(
                detail.contains("a model looked at 1 of the pages")
                    && detail.contains(" 0 words that it read have no place"),
                "{fault:?}: {detail}"
            );
            if matches!(fault, Fault::Throttled) {
                let waited_ms = failing.env.now_ms() - began_ms;
                assert!(waited_ms >= 30_000, "{waited_ms} ms");
            }
            assert_eq!(failing.end().await, [UNSURE as u8; 2], "{fault:?}");
            let paid = 1 + usize::from(fault.is_billed());
            assert_eq!(paid_replies(&store).await, paid, "{fault:?}");

            let again = Scenario::start(&store, Ok(Vec::new()));
            assert_eq!(note(&again.publish(&changed_settings()).await), detail);
            assert_eq!(again.end().await, [0; 0], "{fault:?}");
            assert_eq!(paid_replies(&store).await, paid, "{fault:?}");
        })
        .unwrap();
    }
}

#[test]
fn a_page_that_a_model_cannot_see_is_a_gap_and_seen_by_a_later_run() {
    let lines = page_lines(&filing());
    // Five attempts, three replies that cannot be used, and one of five parts that does not end.
    for (fault, code, calls) in [
        (Fault::Status(500), "model.server_error", 5),
        (Fault::Status(503), "model.server_error", 5),
        (Fault::Timeout, "model.timeout", 5),
        (Fault::NotJson, "model.reply_unreadable", 3),
        (Fault::Truncated, "model.reply_unreadable", 5),
    ] {
        simulate(async {
            let store = Arc::<MemoryBlobs>::default();
            let blind = Scenario::start(&store, Ok(Vec::new()));
            let unseen = note(&blind.publish(&settings(false)).await);
            blind.end().await;

            let text = reply_text(&lines);
            let replies: Replies = Box::new(move |request, _| fault.result(request, &text));
            let failing = Scenario::start_with(&store, &[UNSURE], replies);
            let gaps = failing.publish(&settings(true)).await;
            let gap = gaps.iter().find(|gap| gap.code == code);
            let detail = &gap.unwrap().detail;
            assert!(
                detail.starts_with("a model did not see 1 pages"),
                "{detail}"
            );
            assert_eq!(note(&gaps), unseen, "{fault:?}: all words stay in doubt");
            assert_eq!(failing.end().await.len(), calls, "{fault:?}");
            let paid = if fault.is_billed() { calls } else { 0 };
            assert_eq!(paid_replies(&store).await, paid, "{fault:?}");

            let healed = Scenario::start(&store, Ok(lines.clone()));
            let gaps = healed.publish(&changed_settings()).await;
            assert!(note(&gaps).contains("a model looked at 1"), "{gaps:?}");
            assert!(gaps.iter().all(|gap| gap.code != code), "{gaps:?}");
            assert_eq!(healed.end().await, [UNSURE as u8], "{fault:?}");
        })
        .unwrap();
    }
}
