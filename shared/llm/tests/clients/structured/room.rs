//! Room for models that think.

use stemma_llm::structured::complete_from;

use super::*;

// A reply of a model that thought for so many tokens and wrote `text`.
fn thinking_reply(
    text: &str,
    output_tokens: u32,
    finish: FinishReason,
) -> Result<LlmReply, LlmError> {
    let usage = TokenUsage {
        prompt_tokens: 20,
        cached_tokens: 0,
        output_tokens,
    };
    Ok(LlmReply {
        finish,
        has_thought: true,
        ..LlmReply::new(text, usage)
    })
}

// The results of as many requests to one client, and the limit of each call.
async fn ask_times(
    times: usize,
    replies: Vec<Result<LlmReply, LlmError>>,
) -> (Vec<Result<String, Failure>>, Vec<u32>) {
    let (client, script) = client_with(replies, Duration::ZERO);
    let mut results = Vec::new();
    for _ in 0..times {
        let request = request();
        let log = RejectedReplies::default();
        let read = |reply: TitleOutput| Ok(reply.title);
        let result = complete_structured(&client, &request, Priority::Bulk, &log, read).await;
        results.push(result.map(|output| output.value));
    }
    let limits = script.limits.lock().unwrap().clone();
    (results, limits)
}

#[tokio::test(start_paused = true)]
async fn a_model_that_thinks_gets_more_room_once_and_keeps_it() {
    let good = || Ok("Risk Factors".to_owned());
    for cut_off in [
        thinking_reply("", LIMIT, FinishReason::Length),
        thinking_reply(r#"{"ti"#, LIMIT, FinishReason::Length),
        thinking_reply("<think>Let me see", LIMIT, FinishReason::Length),
        thinking_reply("", 60, FinishReason::Complete),
    ] {
        let answered = || thinking_reply(GOOD, 600, FinishReason::Complete);
        let (results, limits) = ask_times(2, vec![cut_off, answered(), answered()]).await;
        assert_eq!(results, [good(), good()]);
        assert_eq!(limits, [LIMIT, RAISED, RAISED]);
    }
    // A model that does not think needed more room for this reply alone.
    let prose = prose_cut_at(LIMIT);
    let (results, limits) =
        ask_times(2, vec![prose, complete_reply(GOOD), complete_reply(GOOD)]).await;
    assert_eq!(results, [good(), good()]);
    assert_eq!(limits, [LIMIT, RAISED, LIMIT]);
}

#[tokio::test(start_paused = true)]
async fn a_reply_without_text_is_asked_for_twice_at_most_and_names_its_cause() {
    let ended = |tokens| thinking_reply("", tokens, FinishReason::Length);
    let refused = || {
        Err(LlmError::Refused {
            status: 400,
            message: "max_tokens is too large".into(),
        })
    };
    for (replies, limits, code, cause, next) in [
        (
            vec![ended(LIMIT), ended(RAISED)],
            vec![LIMIT, RAISED],
            "model.reply_cut_off",
            "its limit of 900 tokens, before any answer: the model thought",
            "model.max_reply_tokens",
        ),
        // Not the limit of the request ended it.
        (
            vec![ended(LIMIT / 2)],
            vec![LIMIT],
            "model.reply_cut_off",
            "after 50 of 100 tokens",
            "OLLAMA_CONTEXT_LENGTH=256",
        ),
        (
            vec![ended(LIMIT), ended(RAISED / 2)],
            vec![LIMIT, RAISED],
            "model.reply_cut_off",
            "after 450 of 900 tokens",
            "OLLAMA_CONTEXT_LENGTH=1024",
        ),
        (
            vec![
                thinking_reply("", 60, FinishReason::Complete),
                thinking_reply("", 60, FinishReason::Complete),
            ],
            vec![LIMIT, RAISED],
            "model.reply_cut_off",
            "wrote no answer",
            "turn thinking off",
        ),
        (
            vec![ended(LIMIT), refused()],
            vec![LIMIT, RAISED],
            "model.refused",
            "a higher one is refused",
            "choose another model",
        ),
    ] {
        let (results, called) = ask_times(1, replies).await;
        let failure = results[0].clone().unwrap_err();
        assert_eq!(called, limits, "{failure}");
        assert_eq!(failure.code, code);
        assert_eq!(failure.kind, FailureKind::Permanent);
        assert!(failure.message.contains(cause), "{failure}");
        assert!(failure.next.unwrap().contains(next), "{cause}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_truncated_reply_is_written_as_text_where_more_room_is_refused() {
    let refused = LlmError::Refused {
        status: 400,
        message: "max_tokens: 900 > 100".into(),
    };
    let cut_off = prose_cut_at(LIMIT).map(|reply| LlmReply {
        text: String::new(),
        ..reply
    });
    let replies = vec![
        cut_off,
        Err(refused),
        reply(r#"{"title":"Ri"#, FinishReason::Length),
        complete_reply(r#"sk Factors"}"#),
    ];
    let (answer, _, follow_ups) = run_structured(replies, Duration::ZERO).await;
    assert_eq!(answer.unwrap().value, "Risk Factors");
    let partial = String::new();
    assert_eq!(follow_ups[2], Some(FollowUp::Continue { partial }));
}

fn context_exceeded() -> Result<LlmReply, LlmError> {
    Err(LlmError::ContextExceeded {
        message: String::new(),
        needed_tokens: 1_024,
    })
}

fn answer_after(thought_tokens: u32) -> Result<LlmReply, LlmError> {
    thinking_reply(GOOD, thought_tokens, FinishReason::Complete)
}

fn cut_at(limit: u32) -> Result<LlmReply, LlmError> {
    thinking_reply("", limit, FinishReason::Length)
}

#[tokio::test(start_paused = true)]
async fn later_requests_begin_with_the_room_that_thoughts_needed_where_it_fits() {
    let replies = vec![
        cut_at(LIMIT),
        answer_after(200),
        answer_after(30),
        // A longer prompt: less fits, and suffices.
        context_exceeded(),
        answer_after(30),
        answer_after(30),
        // Nothing but its own limit fits.
        context_exceeded(),
        answer_after(30),
        answer_after(30),
    ];
    let (results, limits) = ask_times(6, replies).await;
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    assert_eq!(
        limits,
        [LIMIT, RAISED, 400, 400, 200, 200, 200, LIMIT, LIMIT]
    );
}

#[tokio::test(start_paused = true)]
async fn a_raised_limit_that_does_not_fit_into_the_context_is_halved() {
    let replies = vec![cut_at(LIMIT), context_exceeded(), answer_after(300)];
    let (results, limits) = ask_times(1, replies).await;
    assert_eq!(results, [Ok("Risk Factors".to_owned())]);
    assert_eq!(limits, [LIMIT, RAISED, RAISED / 2]);
    // The cause is the context, not the limit that was left.
    let replies = vec![cut_at(LIMIT), context_exceeded(), cut_at(RAISED / 2)];
    let (results, _) = ask_times(1, replies).await;
    let failure = results[0].clone().unwrap_err();
    assert_eq!(failure.code, "model.context_exceeded");
    assert!(
        failure.message.contains("a higher one is refused"),
        "{failure}"
    );
}

#[tokio::test(start_paused = true)]
async fn room_is_learned_for_each_stage_alone() {
    let replies = vec![cut_at(LIMIT), answer_after(200), complete_reply(GOOD)];
    let (client, script) = client_with(replies, Duration::ZERO);
    let other = LlmRequest {
        schema: OutputSchema::strict("other", &json!({ "title": { "type": "string" } })),
        ..request()
    };
    for request in [request(), other] {
        let log = RejectedReplies::default();
        let read = |reply: TitleOutput| Ok(reply.title);
        let result = complete_structured(&client, &request, Priority::Bulk, &log, read).await;
        assert!(result.is_ok(), "{result:?}");
    }
    assert_eq!(*script.limits.lock().unwrap(), [LIMIT, RAISED, LIMIT]);
}

// A budget for calls of at most so many tokens.
struct CallsUpTo(u64);

#[async_trait]
impl CallBudget for CallsUpTo {
    async fn reserve(&self, call: &CallReservation) -> Result<(), Failure> {
        match call.max.tokens > self.0 {
            true => Err(Failure::permanent("test.used_up", "the budget is used up")),
            false => Ok(()),
        }
    }

    async fn settle(&self, _: &CallReservation, _: SpendAmount) {}
}

#[async_trait]
impl CallLog for CallsUpTo {
    async fn record_rejected(&self, _: &LlmRequest, _: &ReplyStats) -> Result<(), Failure> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_budget_that_covers_a_request_covers_it_after_others_needed_more_room() {
    let replies = vec![cut_at(LIMIT), answer_after(400), answer_after(50)];
    let (client, script) = client_with(replies, Duration::ZERO);
    let request = request();
    let tokens = u64::from(request.prompt_tokens()) * 2 + u64::from(LIMIT);
    for budget in [CallsUpTo(u64::MAX), CallsUpTo(tokens)] {
        let read = |reply: TitleOutput| Ok(reply.title);
        let result = complete_structured(&client, &request, Priority::Bulk, &budget, read).await;
        assert!(result.is_ok(), "{result:?}");
    }
    assert_eq!(*script.limits.lock().unwrap(), [LIMIT, RAISED, LIMIT]);
}

#[tokio::test(start_paused = true)]
async fn a_reply_of_a_batch_is_judged_by_the_limit_of_its_request() {
    let replies = vec![cut_at(LIMIT), answer_after(600), answer_after(600)];
    let (client, script) = client_with(replies, Duration::ZERO);
    let request = request();
    for first in [None, Some(cut_at(LIMIT).unwrap())] {
        let log = RejectedReplies::default();
        let read = |reply: TitleOutput| Ok(reply.title);
        let answer = complete_from(&client, &request, first, Priority::Bulk, &log, read).await;
        assert_eq!(answer.unwrap().value, "Risk Factors");
    }
    assert_eq!(*script.limits.lock().unwrap(), [LIMIT, RAISED, RAISED]);
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_is_asked_for_with_more_room_is_written_whole() {
    for invalid in [None, Some(complete_reply("no"))] {
        let parts = [
            reply(r#"{"title":"Ri"#, FinishReason::Length),
            cut_at(LIMIT),
            answer_after(300),
        ];
        let replies = invalid.clone().into_iter().chain(parts).collect();
        let (answer, _, follow_ups) = run_structured(replies, Duration::ZERO).await;
        assert_eq!(answer.unwrap().value, "Risk Factors");
        let last = follow_ups.last().unwrap();
        match invalid {
            None => assert_eq!(*last, None),
            Some(_) => assert!(matches!(last, Some(FollowUp::Retry { .. })), "{last:?}"),
        }
    }
}
