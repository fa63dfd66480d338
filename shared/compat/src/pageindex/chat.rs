//! `POST /chat/completions/`: a conversation about documents, a folder, or the whole collection.
//!
//! With `enable_citations`, citations of verified claims appear in the text as `<doc=NAME;page=N>`. Citations of unverified
//! claims are only listed; the text says ` (not verified)`.

use axum::extract::State;
use axum::response::sse::Event as Frame;
use futures::{StreamExt, stream};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use stemma_answers::{Answer, AnswerEvent, AnswerStep, Citation, QuoteMatch, StepKind};
use stemma_archive::Archive;
use stemma_archive::pageindex_fields::{is_root, name_of};
use stemma_document::DocId;
use stemma_gateway::AppState;
use stemma_gateway::admission::ModelRequest;
use stemma_gateway::extract::{HandlerResult, Json, find_document, json};
use stemma_gateway::problem::Problem;
use stemma_gateway::rights::CollectionScope;
use utoipa::ToSchema;

use crate::conversation::{
    self, ChatUsage, Conversation, InputMessage, StemmaExtension, frame, frame_response,
    last_frames,
};
use crate::render::RenderedAnswer;

/// Request body. Unknown fields are ignored.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = PageIndexChatRequest, example = json!({ "messages": [{ "role": "user", "content": "What was revenue?" }], "enable_citations": true }))]
pub(crate) struct PageIndexChatRequest {
    /// The conversation. The last user message is the question; previous turns are context.
    messages: Vec<InputMessage>,
    /// Limits the answer to these documents.
    #[serde(default)]
    doc_id: Option<DocumentIds>,
    /// Limits the answer to this folder, unless `doc_id` is set.
    #[serde(default)]
    folder_id: Option<String>,
    /// Stream as server-sent events.
    #[serde(default)]
    stream: bool,
    /// Write citations into the text and list them.
    #[serde(default)]
    enable_citations: bool,
}

/// An answer.
#[derive(Serialize, ToSchema)]
#[schema(as = PageIndexCompletion)]
pub(crate) struct PageIndexCompletion {
    /// Id of the stored answer.
    id: String,
    /// `chat.completion`.
    object: &'static str,
    /// Seconds since 1970-01-01 UTC.
    created: u64,
    /// `stemma`.
    model: &'static str,
    choices: Vec<PageIndexChoice>,
    usage: ChatUsage,
    stemma: StemmaExtension,
    /// With `enable_citations`.
    #[serde(skip_serializing_if = "Option::is_none")]
    citations: Option<Vec<PageIndexCitation>>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = PageIndexChoice)]
struct PageIndexChoice {
    /// 0.
    index: u32,
    message: PageIndexMessage,
    /// `end_turn`, or `max_tokens` if a limit cut the answer short.
    finish_reason: &'static str,
}

#[derive(Serialize, ToSchema)]
#[schema(as = PageIndexMessage)]
struct PageIndexMessage {
    /// `assistant`.
    role: &'static str,
    /// Text with marks `[1]`, or `<doc=NAME;page=N>` with `enable_citations`; ` (not verified)` follows each unverified claim.
    content: String,
}

#[derive(Serialize, ToSchema)]
#[schema(as = PageIndexCitation)]
struct PageIndexCitation {
    document: String,
    doc_id: String,
    /// Physical page, from 1; null in documents without pages.
    page: Option<u32>,
    quote: String,
    /// How the quote matches its page: `exact`, `normalised`, `number`, `none`.
    verified: &'static str,
    /// Whether a verified claim cites it.
    bears_out: bool,
    node_id: String,
    /// Path of the page on this server.
    url: String,
}

/// One or several documents.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(
    untagged,
    expecting = "`doc_id` is the name of a document or a list of names"
)]
enum DocumentIds {
    One(String),
    Several(Vec<String>),
}

/// Answer a conversation
///
/// About documents, a folder, or the whole collection. With `stream`, sends PageIndex chunks, then `[DONE]`.
/// Same answers as `POST /v1/answers`. Needs the scope `ask`.
#[utoipa::path(post, path = "/chat/completions/", operation_id = "pageindex_chat", tag = "pageindex", request_body = PageIndexChatRequest,
    responses((status = 200, content((PageIndexCompletion = "application/json"), (stemma_gateway::schema::FrameObject = "text/event-stream")))))]
pub(crate) async fn completions(
    State(state): State<AppState>,
    ModelRequest(permit): ModelRequest,
    collections: CollectionScope,
    Json(body): Json<PageIndexChatRequest>,
) -> HandlerResult {
    let place = permit.upgrade_for_model().await?;
    let archive = state.archive(&collections, None)?;
    let scopes = scopes(&archive, body.doc_id, body.folder_id)?;
    let dialogue = Conversation::new(&state, place, &archive, scopes, &body.messages)?;
    let style = CitationStyle {
        tags: body.enable_citations,
        created: state.env.now_ms() / 1_000,
    };
    if !body.stream {
        let answer = dialogue.answer(&state.env).await?;
        return json(style.completion(&archive, &answer)).await;
    }
    let events = dialogue.stream(&state.env);
    let frames = events.flat_map(move |event| {
        let frames: Vec<Frame> = match event {
            AnswerEvent::Step(step) => style.step(&step).iter().map(frame).collect(),
            AnswerEvent::Done(answer) => last_frames(&style.chunks(&archive, &answer)),
            AnswerEvent::Error { code, message } => {
                last_frames(&[json!({ "error": { "code": code, "message": message } })])
            }
            // Answer text is sent with the final event, when its id is known.
            _ => Vec::new(),
        };
        stream::iter(frames)
    });
    Ok(frame_response(frames))
}

// Documents take precedence over the folder; without both, the whole collection.
fn scopes(
    archive: &Archive,
    docs: Option<DocumentIds>,
    folder: Option<String>,
) -> Result<Vec<String>, Problem> {
    let docs = match docs {
        None => return Ok(Vec::from_iter(folder.filter(|folder| !is_root(folder)))),
        Some(DocumentIds::One(doc)) => vec![doc],
        Some(DocumentIds::Several(docs)) => docs,
    };
    if docs.is_empty() {
        // An empty list must not mean all documents.
        return Err(Problem::new(
            422,
            "request.document_missing",
            "`doc_id` names no document",
        )
        .with_next("leave it out to ask about all"));
    }
    docs.iter()
        .map(|doc| Ok(find_document(archive, doc)?.label.clone()))
        .collect()
}

#[derive(Debug, Clone, Copy)]
struct CitationStyle {
    tags: bool,
    created: u64,
}

impl CitationStyle {
    fn completion(self, archive: &Archive, answer: &Answer) -> PageIndexCompletion {
        let message = PageIndexMessage {
            role: "assistant",
            content: self.render(archive, answer).text,
        };
        PageIndexCompletion {
            id: answer.id.clone(),
            object: "chat.completion",
            created: self.created,
            model: "stemma",
            choices: vec![PageIndexChoice {
                index: 0,
                message,
                finish_reason: finish_reason(answer),
            }],
            usage: conversation::usage(answer),
            stemma: conversation::stemma_extension(answer),
            citations: self.tags.then(|| page_citations(archive, answer)),
        }
    }

    fn chunks(self, archive: &Archive, answer: &Answer) -> Vec<Value> {
        let chunk = |delta, finish| self.chunk(Some(answer), &delta, finish, "text");
        let mut chunks: Vec<Value> = Vec::new();
        for content in self.render(archive, answer).pieces() {
            chunks.push(chunk(json!({ "content": content }), None));
        }
        let mut last = chunk(json!({}), Some(finish_reason(answer)));
        last["usage"] = json!(conversation::usage(answer));
        last["stemma"] = json!(conversation::stemma_extension(answer));
        if self.tags {
            last["citations"] = json!(page_citations(archive, answer));
        }
        chunks.push(last);
        chunks
    }

    // Progress as a tool call without arguments, so that it contains no text of documents or models.
    fn step(self, step: &AnswerStep) -> Vec<Value> {
        let tool = match step.kind {
            StepKind::Plan => "plan",
            StepKind::Search => "search",
            StepKind::Read => "get_page_content",
            StepKind::Tool => "tool",
            _ => return Vec::new(),
        };
        let mut start = self.chunk(None, &json!({}), None, "mcp_tool_use_start");
        start["block_metadata"]["tool_name"] = json!(tool);
        vec![start, self.chunk(None, &json!({}), None, "tool_use_stop")]
    }

    fn chunk(
        self,
        answer: Option<&Answer>,
        delta: &Value,
        finish: Option<&str>,
        block: &str,
    ) -> Value {
        json!({
            "id": answer.map(|answer| &answer.id),
            "object": "chat.completion.chunk",
            "created": self.created,
            "model": "stemma",
            "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }],
            "block_metadata": { "type": block },
        })
    }

    fn render<'a>(self, archive: &Archive, answer: &'a Answer) -> RenderedAnswer<'a> {
        match self.tags {
            true => RenderedAnswer::with_marks(answer, |citation, verified| match verified {
                true => tag(archive, citation),
                false => String::new(),
            }),
            false => RenderedAnswer::new(answer),
        }
    }
}

// `<doc=3M_2022_10K.pdf;page=60>`; empty for a citation without a page.
fn tag(archive: &Archive, citation: &Citation) -> String {
    let name = name(archive, citation);
    let plain = !name.contains([';', '<', '>']);
    match citation.page {
        Some(page) if plain && citation.verified != QuoteMatch::None => {
            format!("<doc={name};page={page}>")
        }
        _ => String::new(),
    }
}

fn name(archive: &Archive, citation: &Citation) -> String {
    let doc = citation.doc_id.parse::<DocId>();
    // The name in the answer serves where the catalog has none, or cannot be read.
    match doc.map(|doc| archive.catalog().get(doc)) {
        Ok(Ok(Some(listed))) => name_of(&listed).to_owned(),
        _ => citation.name.clone(),
    }
}

fn page_citations(archive: &Archive, answer: &Answer) -> Vec<PageIndexCitation> {
    let cited = answer.citations.iter().map(|citation| PageIndexCitation {
        document: name(archive, citation),
        doc_id: citation.doc_id.clone(),
        page: citation.page,
        quote: citation.quote.clone(),
        verified: citation.verified.as_str(),
        bears_out: (answer.claims.iter())
            .any(|claim| claim.is_supported() && claim.citations.contains(&citation.id)),
        node_id: citation.section_id.clone(),
        url: citation.url.clone(),
    });
    cited.collect()
}

fn finish_reason(answer: &Answer) -> &'static str {
    match conversation::finish_reason(answer) {
        "length" => "max_tokens",
        _ => "end_turn",
    }
}
