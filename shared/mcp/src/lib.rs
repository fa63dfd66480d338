//! The read side over the Model Context Protocol (MCP): tools, resources and prompts, over stdio and HTTP.
//!
//! The first four tools use PageIndex's names, arguments and envelope, so that prompts written for its tools work. `search`
//! and `fetch` follow OpenAI's contract. Tools change no documents. A wrong call returns a result with a next step, never a
//! protocol error. Results stay below the token limits of clients, calls below 20 s, and document text is marked as
//! untrusted content.
//!
//! [`serve_stdio`] serves one client over the standard streams. Over HTTP, [`McpServer`] serves `/mcp` of the query service
//! without sessions.

mod arguments;
mod ask;
mod browse_documents;
mod compare_sections;
mod describe;
mod error;
mod fetch;
mod get_document;
mod get_document_structure;
mod get_facts;
mod get_folder_structure;
mod get_page_content;
mod get_series;
mod grep_document;
mod http;
mod page_picture;
mod paging;
mod preset;
mod prompts;
mod resources;
mod search;
mod server;
#[cfg(test)]
mod tests;
mod text_pages;
mod tool_context;
mod tool_result;
mod tools;

use std::sync::Arc;

use rmcp::service::serve_server_with_ct;
use rmcp::transport::io::stdio_pipes;
use stemma_answers::tree_search::AnswerModel;
use stemma_archive::collections::Collections;
use stemma_archive::{
    AnswerService, AnswerSettings, AnswererFactory, IndexSettings, PageImages, Vision,
};
use stemma_document::Collection;
use stemma_retrieval::embedding::SemanticRouter;
use stemma_store::Env;
use stemma_store::blobs::Blobs;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

pub use http::{McpService, service};
pub use preset::Preset;
pub use server::McpServer;
pub use tool_context::OptionalServices;

/// Settings of a stdio server.
pub struct McpOptions<'a> {
    pub collection: Collection,
    /// Where and how this machine keeps the index.
    pub index: &'a IndexSettings,
    pub model: Option<&'a AnswerModel>,
    /// `None` without an embeddings endpoint.
    pub meaning: Option<Arc<SemanticRouter>>,
    pub preset: Preset,
    pub answer: AnswerSettings,
    /// `None` where no pages are drawn.
    pub page_images: Option<Arc<PageImages>>,
    /// `None` without a vision model.
    pub vision: Option<Arc<Vision>>,
}

/// Serves one client over the standard streams until it closes them, or until `stop`.
///
/// # Errors
/// A failed handshake or a broken connection.
pub async fn serve_stdio(
    env: Env,
    blobs: Arc<dyn Blobs>,
    served: McpOptions<'_>,
    stop: CancellationToken,
) -> std::io::Result<()> {
    serve(env, blobs, served, stdio_pipes(), stop).await
}

/// Serves one client over a pair of streams.
async fn serve<R, W>(
    env: Env,
    blobs: Arc<dyn Blobs>,
    served: McpOptions<'_>,
    streams: (R, W),
    stop: CancellationToken,
) -> std::io::Result<()>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let McpOptions {
        collection,
        index,
        model,
        meaning,
        preset,
        answer,
        page_images,
        vision,
    } = served;
    let meaning: Vec<_> = meaning
        .into_iter()
        .map(|meaning| (collection.clone(), meaning))
        .collect();
    let archive = Collections::start(
        &env,
        &blobs,
        vec![collection],
        &meaning,
        index,
        model,
        &stop,
    );
    let answerers = model.map(|_| {
        let answers = AnswerService::new(env.clone(), blobs, answer);
        Arc::new(answers.with_vision(vision.clone())) as Arc<dyn AnswererFactory>
    });
    let services = OptionalServices {
        answerers,
        page_images,
        vision,
    };
    let server = McpServer::for_local_client(env, archive, preset, services);
    let served = match serve_server_with_ct(server, streams, stop.clone()).await {
        Ok(running) => running
            .waiting()
            .await
            .map(drop)
            .map_err(std::io::Error::other),
        Err(_) if stop.is_cancelled() => Ok(()),
        // A client that disconnects before the handshake is not an error.
        Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => Ok(()),
        Err(error) => Err(std::io::Error::other(error)),
    };
    stop.cancel();
    served
}
