//! The wire formats of OpenAI and Anthropic.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::behavior::LimitHeaders;
use crate::limits::Remaining;
use crate::malformed::ReplyText;
use crate::question::PromptRequest;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WireDialect {
    OpenAi,
    Anthropic,
}

impl WireDialect {
    pub(crate) fn reply(
        self,
        body: &Value,
        question: &PromptRequest,
        reply_text: &ReplyText,
        tokens: [u32; 2],
    ) -> Value {
        let [prompt, output] = tokens;
        match self {
            Self::OpenAi => json!({
                "id": "chatcmpl-sim", "object": "chat.completion", "created": 0, "model": question.model,
                "choices": [{
                    "index": 0,
                    "message": { "role": "assistant", "content": reply_text.text, "refusal": null },
                    "finish_reason": if reply_text.is_cut { "length" } else { "stop" },
                }],
                "usage": {
                    "prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output,
                    "prompt_tokens_details": { "cached_tokens": 0 },
                },
            }),
            Self::Anthropic => {
                let tool = body["tools"][0]["name"]
                    .as_str()
                    .filter(|_| body["tool_choice"]["type"] != "none");
                // The input of a tool must be an object, so anything else is sent as text.
                let input = serde_json::from_str::<Value>(&reply_text.text)
                    .ok()
                    .filter(Value::is_object);
                let (content, stop) = match (tool, input) {
                    (Some(name), Some(input)) => (
                        json!([{ "type": "tool_use", "id": "toolu_sim", "name": name, "input": input }]),
                        "tool_use",
                    ),
                    _ if reply_text.text.is_empty() => (json!([]), "end_turn"),
                    _ => (
                        json!([{ "type": "text", "text": reply_text.text }]),
                        "end_turn",
                    ),
                };
                json!({
                    "id": "msg_sim", "type": "message", "role": "assistant", "model": question.model,
                    "content": content,
                    "stop_reason": if reply_text.is_cut { "max_tokens" } else { stop },
                    "stop_sequence": null,
                    "usage": {
                        "input_tokens": prompt, "output_tokens": output,
                        "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
                    },
                })
            }
        }
    }

    /// The body of an error.
    pub(crate) fn error(self, status: u16, message: &str) -> Value {
        let kind = match (self, status) {
            (_, 400) => "invalid_request_error",
            (_, 404) => "not_found_error",
            (Self::OpenAi, 429) => "rate_limit_exceeded",
            (Self::Anthropic, 429) => "rate_limit_error",
            (Self::Anthropic, 529) => "overloaded_error",
            (Self::Anthropic, _) => "api_error",
            (Self::OpenAi, _) => "server_error",
        };
        match self {
            Self::OpenAi => {
                json!({ "error": { "message": message, "type": kind, "param": null, "code": kind } })
            }
            Self::Anthropic => {
                json!({ "type": "error", "error": { "type": kind, "message": message } })
            }
        }
    }

    /// Headers about request limits, token limits and retry time.
    pub(crate) fn headers(
        self,
        remaining: [Option<Remaining>; 2],
        pause: Option<Duration>,
        detail: LimitHeaders,
    ) -> String {
        let mut lines = String::new();
        for (name, remaining) in ["requests", "tokens"].iter().zip(remaining) {
            let Some(Remaining {
                limit,
                available,
                full_in,
            }) = remaining.filter(|_| detail == LimitHeaders::All)
            else {
                continue;
            };
            let [prefix, infix, reset] = match self {
                Self::OpenAi => ["x-ratelimit", "", &format_duration(full_in)],
                Self::Anthropic => [
                    "anthropic-ratelimit",
                    name,
                    &format_timestamp(SystemTime::now() + full_in),
                ],
            };
            for (what, value) in [
                ("limit", &limit.to_string()),
                ("remaining", &available.to_string()),
                ("reset", &reset.to_string()),
            ] {
                let header = if infix.is_empty() {
                    format!("{prefix}-{what}-{name}")
                } else {
                    format!("{prefix}-{infix}-{what}")
                };
                lines.push_str(&format!("{header}: {value}\r\n"));
            }
        }
        if let Some(pause) = pause.filter(|_| detail != LimitHeaders::Nothing) {
            lines.push_str(&format!("retry-after: {}\r\n", pause.as_secs_f64().ceil()));
            if self == Self::OpenAi {
                lines.push_str(&format!("retry-after-ms: {}\r\n", pause.as_millis() + 1));
            }
        }
        lines
    }
}

// As OpenAI writes it: `120ms`, `6.5s`, `1m30s`.
fn format_duration(span: Duration) -> String {
    let seconds = span.as_secs_f64();
    match (span.as_secs() / 60, seconds) {
        (0, seconds) if seconds < 1.0 => format!("{}ms", span.as_millis()),
        (0, seconds) => format!("{seconds:.3}s"),
        (minutes, seconds) => format!("{minutes}m{:.3}s", seconds % 60.0),
    }
}

// RFC 3339, in whole seconds of UTC. Days to date: Howard Hinnant's `civil_from_days`.
pub(crate) fn format_timestamp(at: SystemTime) -> String {
    let seconds = at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let days = seconds / 86_400 + 719_468;
    let time = seconds % 86_400;
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z",
        time / 3_600,
        time / 60 % 60,
        time % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_formatted_like_the_providers() {
        assert_eq!(
            ["0ms", "120ms"],
            [
                format_duration(Duration::ZERO),
                format_duration(Duration::from_millis(120))
            ]
            .map(|s| s)
            .each_ref()
            .map(String::as_str)
        );
        assert_eq!(format_duration(Duration::from_millis(6_500)), "6.500s");
        assert_eq!(format_duration(Duration::from_secs(90)), "1m30.000s");
        let at = |seconds| format_timestamp(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "1970-01-01T00:00:00Z");
        assert_eq!(at(951_827_696), "2000-02-29T12:34:56Z");
        assert_eq!(at(1_767_225_599), "2025-12-31T23:59:59Z");
    }

    #[test]
    fn limit_headers_follow_the_configured_detail() {
        let remaining = Remaining {
            limit: 60,
            available: 3,
            full_in: Duration::from_secs(2),
        };
        let headers = |dialect: WireDialect, detail| {
            dialect.headers(
                [Some(remaining), None],
                Some(Duration::from_millis(1_500)),
                detail,
            )
        };
        let all = headers(WireDialect::OpenAi, LimitHeaders::All);
        for line in [
            "x-ratelimit-limit-requests: 60",
            "x-ratelimit-reset-requests: 2.000s",
            "retry-after: 2",
            "retry-after-ms: 1501",
        ] {
            assert!(all.contains(&format!("{line}\r\n")), "{all}");
        }
        let all = headers(WireDialect::Anthropic, LimitHeaders::All);
        assert!(
            all.contains("anthropic-ratelimit-requests-remaining: 3\r\n") && all.contains("T"),
            "{all}"
        );
        assert_eq!(
            headers(WireDialect::Anthropic, LimitHeaders::Pause),
            "retry-after: 2\r\n"
        );
        assert_eq!(headers(WireDialect::OpenAi, LimitHeaders::Nothing), "");
    }
}
