//! Error responses as `application/problem+json` (RFC 9457).

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use stemma_answers::AnswerError;
use stemma_archive::{ApiError, is_store_error};
use stemma_operations::OperationsError;
use utoipa::ToSchema;

/// An error response: status, stable code, message and next step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Problem(Box<ProblemBody>);

/// A problem (RFC 9457).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Problem)]
pub struct ProblemBody {
    /// `https://…/errors/{code}`, relative.
    #[serde(rename = "type")]
    kind: String,
    /// The reason phrase of the status.
    title: &'static str,
    status: u16,
    detail: String,
    code: &'static str,
    /// The next step: a request or a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
    /// Names the request in the server's log.
    #[serde(skip_serializing_if = "String::is_empty")]
    trace_id: String,
    /// Candidates to choose from, at most five.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    candidates: Vec<String>,
    /// Which parts of the request are wrong.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<FieldError>,
    // Sent as response headers.
    #[serde(skip)]
    headers: Vec<(HeaderName, String)>,
    // For the log only: errors of the store may contain keys and addresses.
    #[serde(skip)]
    cause: Option<String>,
}

/// An invalid part of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct FieldError {
    /// JSON pointer into the body, or the name of a parameter.
    pointer: String,
    detail: String,
}

/// A problem in OpenAI's error format.
#[derive(Debug, Serialize, ToSchema)]
pub struct OpenAiProblem {
    error: OpenAiError,
}

#[derive(Debug, Serialize, ToSchema)]
struct OpenAiError {
    message: String,
    /// `invalid_request_error`, `authentication_error`, `permission_error`, `rate_limit_error`, `server_error`.
    #[serde(rename = "type")]
    kind: &'static str,
    /// Our stable code.
    code: &'static str,
    /// The part of the request that is wrong.
    param: Option<String>,
    next: Option<String>,
    /// Names the request in the server's log.
    trace_id: String,
}

impl Problem {
    pub fn new(status: u16, code: &'static str, detail: impl Into<String>) -> Self {
        let title = StatusCode::from_u16(status)
            .ok()
            .and_then(|status| status.canonical_reason())
            .unwrap_or("Error");
        Self(Box::new(ProblemBody {
            kind: format!("/errors/{code}"),
            title,
            status,
            detail: detail.into(),
            code,
            next: None,
            trace_id: String::new(),
            candidates: Vec::new(),
            errors: Vec::new(),
            headers: Vec::new(),
            cause: None,
        }))
    }

    /// An invalid parameter or body field; `pointer` is its name or JSON pointer.
    pub fn parameter(status: u16, pointer: &str, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        let wrong = FieldError {
            pointer: pointer.into(),
            detail: detail.clone(),
        };
        let mut problem = Self::new(status, "request.invalid", detail);
        problem.0.errors.push(wrong);
        problem
    }

    #[must_use]
    pub fn with_next(mut self, next: impl Into<String>) -> Self {
        self.0.next = Some(next.into());
        self
    }

    #[must_use]
    pub fn with_header(mut self, name: HeaderName, value: impl Into<String>) -> Self {
        self.0.headers.push((name, value.into()));
        self
    }

    #[must_use]
    pub fn with_retry_after(self, seconds: u64) -> Self {
        self.with_header(header::RETRY_AFTER, seconds.to_string())
    }

    #[must_use]
    pub fn with_trace_id(mut self, trace_id: String) -> Self {
        self.0.trace_id = trace_id;
        self
    }

    pub fn as_openai(&self) -> OpenAiProblem {
        let kind = match self.0.status {
            401 => "authentication_error",
            403 => "permission_error",
            429 => "rate_limit_error",
            500.. => "server_error",
            _ => "invalid_request_error",
        };
        let param = self
            .0
            .errors
            .first()
            .map(|wrong| wrong.pointer.trim_start_matches('/').to_owned());
        let param = param.filter(|param| !param.is_empty());
        let ProblemBody {
            detail: message,
            code,
            next,
            trace_id,
            ..
        } = (*self.0).clone();
        OpenAiProblem {
            error: OpenAiError {
                message,
                kind,
                code,
                param,
                next,
                trace_id,
            },
        }
    }

    pub fn code(&self) -> &'static str {
        self.0.code
    }

    pub fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.0.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    pub fn title(&self) -> &'static str {
        self.0.title
    }

    pub fn detail(&self) -> &str {
        &self.0.detail
    }

    pub fn next(&self) -> Option<&str> {
        self.0.next.as_deref()
    }

    pub fn candidates(&self) -> &[String] {
        &self.0.candidates
    }

    /// Headers of the response other than its type.
    pub fn headers(&self) -> &[(HeaderName, String)] {
        &self.0.headers
    }

    pub fn trace_id(&self) -> &str {
        &self.0.trace_id
    }

    /// The detail for the log. Never send it to clients.
    pub fn cause(&self) -> &str {
        self.0.cause.as_deref().unwrap_or(&self.0.detail)
    }

    pub fn is_server_error(&self) -> bool {
        self.0.status >= 500
    }
}

impl From<ApiError> for Problem {
    fn from(error: ApiError) -> Self {
        let status = match error.code {
            "locator.no_page"
            | "source.not_available"
            | "job.unknown"
            | "dead_letter.unknown"
            | "conversation.not_found" => 404,
            "job.ended" | "conversation.full" => 409,
            "server.busy" | "image.busy" | "image.interrupted" | "extract.stalled"
            | "extract.killed" => 503,
            "cursor.invalid" => 400,
            "model.unavailable" | "model.throttled" => 503,
            "conversation.not_available"
            | "model.no_images"
            | "model.configuration"
            | "model.context_exceeded" => 501,
            "model.refused" | "model.reply_unreadable" | "model.reply_cut_off" => 502,
            "store.unreadable" | "index.building" => 503,
            "store.damaged" => 500,
            _ if error.is_not_found() => 404,
            _ => 422,
        };
        let wrong = error.pointer().map(|pointer| FieldError {
            pointer: pointer.into(),
            detail: error.message.clone(),
        });
        let errors = wrong.into_iter().collect();
        let (detail, cause) = match status {
            _ if error.is_index_pending() => {
                let detail = "the index is not built yet";
                (detail.to_owned(), Some(error.message))
            }
            // The server cannot store them, for a reason that is the operator's.
            501 if error.code == "conversation.not_available" => (
                "this server does not store conversations".to_owned(),
                Some(error.message),
            ),
            500.. if is_store_error(error.code) => {
                ("the store cannot be read".to_owned(), Some(error.message))
            }
            _ => (error.message, None),
        };
        let mut problem = Self::new(status, error.code, detail);
        problem.0.cause = cause;
        problem.0.errors = errors;
        problem.0.next = match error.code {
            // How to write a query is the same everywhere.
            "search.syntax_invalid" | "search.too_long" => error.next,
            code => next_request(code, !error.candidates.is_empty()).map(str::to_owned),
        };
        problem.0.candidates = error.candidates;
        problem
    }
}

impl From<OperationsError> for Problem {
    fn from(error: OperationsError) -> Self {
        match error {
            OperationsError::Api(error) => error.into(),
            OperationsError::Port(error) => ApiError::from(error).into(),
        }
    }
}

// The next step of an `ApiError` is a command, which a client of this server cannot run.
fn next_request(code: &str, has_candidates: bool) -> Option<&'static str> {
    Some(match code {
        _ if has_candidates => "use one of the candidates",
        "locator.not_found" | "scope.not_found" => "GET /v1/documents lists the documents",
        "locator.folder" => {
            "name one document; GET /v1/documents?scope=… lists the documents of a folder"
        }
        "scope.facet_unknown" | "scope.too_long" => "GET /v1/facets lists the values of a facet",
        "locator.invalid" | "locator.no_section" | "locator.no_item" | "locator.no_page"
        | "document.no_pages" => "GET /v1/documents/{doc}/tree shows the sections and their pages",
        "document.no_tree" => "GET /v1/documents/{doc} has the reason",
        "filter.invalid" => "a filter looks like: (form=10-K or form=10-Q) and fiscal_year>=2020",
        "search.scope_invalid" => "name documents in `scopes`, and one Item in `item`",
        "search.no_words" => "ask with words; letters and digits are searched",
        "comparison.not_a_filing" | "comparison.no_previous" => {
            "name both documents: `left` and `right`"
        }
        "comparison.too_large" => {
            "compare a section with a section: `left` and `right` as DOCUMENT#0007"
        }
        "job.unknown" => "GET /v1/jobs lists the jobs",
        "dead_letter.unknown" => "GET /v1/health lists dead letters",
        "job.ended" => "GET /v1/jobs/{job} says how it ended",
        "conversation.not_found" => "GET /v1/conversations lists the conversations",
        "conversation.full" => "begin another: `\"conversation\": \"new\"`",
        "conversation.not_available" => {
            "ask without `conversation`; the server needs write permission below conversations/"
        }
        "store.unreadable" | "index.building" | "image.busy" | "image.interrupted" => {
            "try again in a moment"
        }
        "image.not_a_pdf" | "image.not_drawable" => {
            "GET /v1/documents/{doc}/pages?range=5 reads the text of a page"
        }
        "source.not_available" => "read the file at `uri` of the document",
        _ => return None,
    })
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = self.status();
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let mut response = (
            status,
            [(header::CONTENT_TYPE, "application/problem+json")],
            body,
        )
            .into_response();
        let headers = response.headers_mut();
        match status {
            StatusCode::SERVICE_UNAVAILABLE => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static("2"));
            }
            StatusCode::UNAUTHORIZED => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            _ => {}
        }
        for (name, value) in &self.0.headers {
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(name, value);
            }
        }
        response.extensions_mut().insert(self);
        // The middleware writes the body again, with the trace id.
        response
    }
}

/// Whether clients of this path expect OpenAI's error format.
pub fn is_openai_path(path: &str) -> bool {
    matches!(path, "/v1/chat/completions" | "/v1/models") || path.starts_with("/v1/models/")
}

/// The problem for a failed question.
pub fn answer_problem(error: AnswerError) -> Problem {
    match error {
        AnswerError::Search(error) => ApiError::from(error).into(),
        AnswerError::Question { code, message } => Problem::new(422, code, message),
        AnswerError::Timeout { .. } => Problem::new(504, "answer.timeout", error.to_string()),
        AnswerError::Internal => Problem::new(500, "answer.failed", error.to_string()),
    }
}
