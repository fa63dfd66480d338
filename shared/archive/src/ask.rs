//! `ask`: a question as received, and its resolution against a catalog.

use serde::Deserialize;
use serde_json::Value;
use stemma_answers::{
    AnswerLimits, AnswerMode, AskRequest, CitationPolicy, ConversationTurn, RetrievalStrategy,
};
use utoipa::ToSchema;

use crate::request::{filter_schema, limits_from_object, limits_schema, parse_filter};
use crate::{ApiError, Archive};

/// A question to answer: the JSON of `POST /v1/answers`.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, ToSchema)]
#[schema(example = json!({ "question": "What was revenue?", "where": "fiscal_year>=2015" }))]
#[serde(deny_unknown_fields)]
pub struct AnswerRequest {
    pub question: String,
    /// Defaults to the server's first collection.
    pub collection: Option<String>,
    /// Documents, one Item (`3M_2022_10K#item-7A`), folders or axis paths. Defaults to all documents. The answer never uses others.
    #[serde(default)]
    pub scopes: Vec<String>,
    /// Conditions on documents: text (`(form=10-K or form=10-Q) and fiscal_year>=2020`), or an object (`{"form": "10-K"}`).
    #[serde(rename = "where")]
    #[schema(schema_with = filter_schema)]
    pub filter: Option<Value>,
    /// Limits the answer to an Item: 1A, II.1A.
    pub item: Option<String>,
    /// Keeps the question in this conversation, whose turns are then the earlier ones; `new` begins one.
    pub conversation: Option<String>,
    /// Previous turns, oldest first: `{question, answer}`.
    #[serde(default)]
    #[schema(value_type = Vec<Object>)]
    pub earlier: Vec<ConversationTurn>,
    /// Retrieval strategy: `ranked` (default); with a model: `single`, `best_first`, `beam`, `mcts`, `auto-with-model`.
    pub strategy: Option<String>,
    /// `search` retrieves sections, then answers; `agent` lets the model call tools; `auto` (default) searches, and lets the
    /// model call tools for what is left open.
    #[schema(pattern = "^(auto|search|agent)$")]
    pub mode: Option<String>,
    /// `verified` omits citations whose quote is not on the cited page.
    #[schema(pattern = "^(all|verified)$")]
    pub citations: Option<String>,
    /// Shows the pictures of the pages of the best passages, at most three, to the vision model (`vision.model`). A claim that
    /// only a picture supports is never verified.
    #[serde(default)]
    pub see: bool,
    #[serde(default, deserialize_with = "limits_from_object")]
    #[schema(schema_with = limits_schema)]
    pub limits: Option<AnswerLimits>,
}

impl Archive {
    /// Resolves the names in a question.
    pub fn ask_request(&self, request: &AnswerRequest) -> Result<AskRequest, ApiError> {
        let filter = parse_filter(request.filter.as_ref())?;
        let (within, item) = self.resolve_scopes(&request.scopes, request.item.as_deref())?;
        let strategy = match request.strategy.as_deref() {
            None => RetrievalStrategy::default(),
            Some(name) => RetrievalStrategy::from_name(name)
                .ok_or_else(|| unknown_name("/strategy", &RetrievalStrategy::names()))?,
        };
        let mode = match request.mode.as_deref() {
            None => AnswerMode::default(),
            Some(name) => AnswerMode::from_name(name)
                .ok_or_else(|| unknown_name("/mode", &AnswerMode::ALL.map(AnswerMode::as_str)))?,
        };
        let citations = match request.citations.as_deref() {
            None | Some("all") => CitationPolicy::All,
            Some("verified") => CitationPolicy::Verified,
            Some(_) => return Err(unknown_name("/citations", &["all", "verified"])),
        };
        Ok(AskRequest {
            text: request.question.clone(),
            within,
            filter,
            item,
            earlier: request.earlier.clone(),
            strategy,
            mode,
            limits: request.limits.unwrap_or_default(),
            citations,
            see: request.see,
        })
    }
}

fn unknown_name(pointer: &str, names: &[&str]) -> ApiError {
    let message = format!("`{}` is one of {}", &pointer[1..], names.join(", "));
    ApiError::invalid_field(pointer, message)
}
