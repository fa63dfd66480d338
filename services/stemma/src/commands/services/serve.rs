//! `stemma serve`: a query server and the services that make trees, in one process.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use stemma_boot::health::Health;
use stemma_boot::identity;
use stemma_boot::telemetry::Metrics;
use stemma_coordinator::Order;
use stemma_document::{Collection, Digest, DocId, Origin};
use stemma_engine::flow::Terms;
use stemma_engine::presence::Presence;
use stemma_engine::{Class, Env, Ports};
use stemma_pipeline::originals::{is_document, store};
use stemma_pipeline::stated::{NAMES, canonical};
use stemma_pipeline::{Settings, Submission};
use stemma_query::server::{Answering, Intake, Means, ServerSettings, Submitted, Upload, serve};
use stemma_query::{Librarians, Refusal};

use super::query::{meaning, refused};
use crate::commands::jobs::shop::Shop;
use crate::config::{Config, no_model};
use crate::context::{CommandError, Context, Exit};
use crate::models::answer_model;

/// Run one server that reads, answers, takes documents in and works on them.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The same answers as `stemma query`, and a way in: documents that are sent to it (POST /doc/) become
jobs, and are worked on in this process; with a broker configured, by the cluster. No other process
writes to a folder store meanwhile.

Who may write needs a key of the scope `write` in query.keys; without keys, whoever is on this machine.

Examples:
  stemma serve
  stemma serve --store /archive/.stemma --listen 127.0.0.1:9000
  curl 127.0.0.1:8080/doc/ -H 'api_key: any' -F file=@3M_2022_10K.pdf")]
pub struct ServeArgs {
    /// Where it listens; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:8080", value_name = "ADDRESS:PORT")]
    listen: SocketAddr,
}

/// Serves until it is asked to stop, then finishes what is in work.
///
/// # Errors
/// [`CommandError`] when the store is written to by another process, or the address cannot be had.
pub async fn run(args: ServeArgs, context: &Context) -> Result<Exit, CommandError> {
    let config = context.config()?.config;
    let settings = config.frozen()?;
    if settings.model.is_some() && !config.model.is_configured() {
        return Err(no_model("model.base_url"));
    }
    let shop = Shop::open(context, &config, "serve").await?;
    let served = served(args.listen, context, config, settings, &shop).await;
    shop.close().await;
    served
}

async fn served(
    listen: SocketAddr,
    context: &Context,
    config: Config,
    settings: Settings,
    shop: &Shop,
) -> Result<Exit, CommandError> {
    let env = shop.desk.env.clone();
    let ports = shop.desk.ports.clone();
    let stop = shop.stop();
    let presence = Presence::new(&env, identity::process_name("serve", &env), "serve");
    let health = Health::of_blobs(&env, &presence, &ports.blobs);
    let collections = vec![context.collection.clone()];
    let cache = context.cache();
    let gate = config
        .embeddings
        .gate(&env, &ports.limiter, presence.process())?;
    let meaning = meaning(
        &config.embeddings,
        &gate,
        &env,
        &ports.blobs,
        &collections,
        context,
    );
    // Questions and ingestion share the model's limits.
    let model = answer_model(&config, &env, &ports.limiter, presence.process())?;
    let query = config.query;
    let server = ServerSettings {
        listen,
        collections,
        query,
        allow_anonymous: false,
        cache,
        model,
    };
    let blobs = Arc::clone(&ports.blobs);
    let intake: Arc<dyn Intake> = Arc::new(Door {
        env: env.clone(),
        ports,
        settings,
    });
    let librarians: Arc<dyn Answering> = Arc::new(Librarians::new(
        env.clone(),
        Arc::clone(&blobs),
        config.answer,
    ));
    let means = Means {
        meaning,
        intake: Some(intake),
        answering: Some(librarians),
    };
    let serving = serve(
        env,
        blobs,
        server,
        means,
        health,
        Metrics::install(),
        stop.clone(),
    )
    .await;
    let serving = serving.map_err(|error| refused(listen, &error))?;
    context.output.note(&format!("http://{}", serving.address));
    tracing::info!(store = %context.store, listen = %serving.address, "started");
    stop.cancelled().await;
    presence.drain();
    serving
        .ended()
        .await
        .map_err(|error| CommandError::new("listen.ended", format!("{listen}: {error}")))?;
    Ok(Exit::Done)
}

/// The way in: what is sent lies in the store under its digest, and becomes a job of one document.
struct Door {
    env: Env,
    ports: Ports,
    settings: Settings,
}

#[async_trait]
impl Intake for Door {
    fn max_bytes(&self) -> u64 {
        self.settings.limits.max_bytes
    }

    async fn submit(&self, collection: &Collection, upload: Upload) -> Result<Submitted, Refusal> {
        let Upload {
            path,
            bytes,
            stated,
        } = upload;
        if !is_document(&path) {
            let message = format!("`{path}` is called like no document that is read");
            return Err(Refusal::new(
                "input.kind",
                message,
                "send a file called .pdf, .md or .txt",
            ));
        }
        let stated = facts(stated)?;
        let source = Digest::of(&bytes);
        let size_bytes = bytes.len() as u64;
        store(
            &self.env,
            self.ports.blobs.as_ref(),
            collection,
            source,
            bytes,
        )
        .await?;
        let name = path.rsplit('/').next().unwrap_or(&path).to_owned();
        // Not a place anyone can read from: the bytes lie in the store.
        let uri = format!("upload:{path}");
        let doc = DocId::of(collection, &uri);
        let label = format!("upload of {name}");
        let submission = Submission {
            uri,
            name,
            path,
            source,
            origin: Origin::Content,
            size_bytes,
            stated,
            retry_failed: true,
        };
        let terms = Terms {
            label,
            ..Terms::default()
        };
        let order = Order {
            collection,
            settings: &self.settings,
            class: Class::Interactive,
            terms,
        };
        let manifest =
            stemma_coordinator::submit(&self.env, &self.ports, order, &[submission]).await?;
        Ok(Submitted {
            doc,
            job: manifest.job.to_string(),
        })
    }

    async fn remove(&self, collection: &Collection, doc: DocId) -> Result<(), Refusal> {
        Ok(
            stemma_assembler::remove(&self.env, &self.ports, collection, doc)
                .await
                .map(drop)?,
        )
    }
}

/// Facts that may be stated; one that is none is refused rather than lost.
fn facts(stated: BTreeMap<String, String>) -> Result<BTreeMap<String, String>, Refusal> {
    for (name, value) in &stated {
        if !NAMES.contains(&name.as_str()) || canonical(name, value).is_none() {
            let message =
                format!("metadata: `{name}` is no fact that can be stated, or has another form");
            return Err(Refusal::new(
                "input.metadata",
                message,
                format!("state some of {}", NAMES.join(", ")),
            ));
        }
    }
    Ok(stated)
}
