//! Embedding tests. The vector of a text counts its words, so texts with common words are near each other.

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use proptest::prelude::*;
use stemma_document::{Collection, DocId, SectionId};
use stemma_llm::calls::CallRecord;
use stemma_llm::client::{ModelClient, ModelClientSettings};
use stemma_llm::embeddings::{Embedder, EmbeddingReply};
use stemma_llm::prices::{Prices, UnlimitedBudget};
use stemma_llm::request::{LlmError, TokenUsage};
use stemma_store::blobs::{Blobs, MemoryBlobs, get_json, list_all};
use stemma_store::limit::{Limiter, MemoryLimiter, ReportedLimits};
use stemma_store::spend::JobBudget;
use stemma_store::{Env, RunId};

use super::budget::{BUDGET_EXHAUSTED, EmbeddingBudget};
use super::embed::text_digest;
use super::embedder::EmbedderSettings;
use super::flat_index::FlatIndex;
use super::flat_vectors::Neighbor;
use super::knn::{dot, normalize, top_k};
use super::routing::doc_scores;
use super::vector_file::SectionVector;
use super::*;

const WORDS: [&str; 8] = [
    "tariff", "hedge", "lawsuit", "patent", "loan", "store", "crew", "vaccine",
];

// Counts words, and records the time and size of each call. Returns the queued errors first.
#[derive(Default)]
struct WordCountEmbedder {
    sent: AtomicUsize,
    errors: Mutex<VecDeque<LlmError>>,
    called_ms: Mutex<Vec<u64>>,
    env: Option<Env>,
}

impl WordCountEmbedder {
    fn failing(env: &Env, errors: impl IntoIterator<Item = LlmError>) -> Arc<Self> {
        let errors = Mutex::new(errors.into_iter().collect());
        Arc::new(Self {
            errors,
            env: Some(env.clone()),
            ..Self::default()
        })
    }

    fn times_ms(&self) -> Vec<u64> {
        self.called_ms.lock().unwrap().clone()
    }
}

fn metered_embedder(
    env: &Env,
    embedder: &Arc<WordCountEmbedder>,
    limiter: &Arc<dyn Limiter>,
    per_minute: (u32, u32),
) -> MeteredEmbedder {
    let settings = ModelClientSettings {
        requests_per_minute: per_minute.0,
        tokens_per_minute: per_minute.1,
        prices: Prices {
            input: Some(0.1),
            cached_input: None,
            output: Some(0.0),
            batch_discount: None,
        },
        ..ModelClientSettings::unlimited("counting", "here")
    };
    let model_client = ModelClient::for_embeddings(
        env.clone(),
        Arc::clone(limiter),
        Arc::<WordCountEmbedder>::clone(embedder),
        settings,
    );
    MeteredEmbedder::new(
        env.clone(),
        Arc::new(model_client),
        EmbedderSettings::default(),
    )
}

fn unlimited_embedder(env: &Env, embedder: &Arc<WordCountEmbedder>) -> MeteredEmbedder {
    metered_embedder(
        env,
        embedder,
        &(Arc::new(MemoryLimiter::default()) as Arc<dyn Limiter>),
        (0, 0),
    )
}

#[async_trait]
impl Embedder for WordCountEmbedder {
    async fn embed(&self, texts: &[&str]) -> Result<EmbeddingReply, LlmError> {
        if let Some(env) = &self.env {
            self.called_ms.lock().unwrap().push(env.now_ms());
        }
        if let Some(error) = self.errors.lock().unwrap().pop_front() {
            return Err(error);
        }
        self.sent.fetch_add(texts.len(), Ordering::Relaxed);
        let count =
            |text: &str, word: &str| text.to_lowercase().matches(word).count() as f32 + 0.01;
        let vectors = texts
            .iter()
            .map(|text| WORDS.iter().map(|word| count(text, word)).collect())
            .collect();
        let usage = TokenUsage {
            prompt_tokens: 10 * texts.len() as u32,
            ..TokenUsage::default()
        };
        Ok(EmbeddingReply {
            vectors,
            usage,
            rate_limits: ReportedLimits::default(),
        })
    }
}

fn doc(n: usize) -> DocId {
    DocId::new(&Collection::default(), &format!("file:///{n}"))
}

fn row(section: u32, text: &str) -> SectionVector {
    let vector = WORDS
        .iter()
        .map(|word| text.matches(word).count() as f32 + 0.01)
        .collect();
    SectionVector {
        section: SectionId(section),
        digest: text_digest(text),
        vector: normalize(vector),
    }
}

fn flat_index(folder: &Path) -> Arc<FlatIndex> {
    Arc::new(FlatIndex::new(folder, &Collection::default(), "counting"))
}

async fn filled_index(folder: &Path) -> Arc<FlatIndex> {
    let vectors = flat_index(folder);
    for (n, word) in WORDS.iter().enumerate() {
        let rows = (0..3).map(|section| {
            row(
                section,
                &format!("{word} {word} {}", WORDS[(n + section as usize) % 8]),
            )
        });
        vectors.put(doc(n), 1, rows.collect()).await.unwrap();
    }
    vectors
}

#[tokio::test]
async fn vectors_are_shared_between_processes() {
    let folder = tempfile::tempdir().unwrap();
    let first = filled_index(folder.path()).await;
    let query = row(0, "lawsuit").vector;
    let near = first.nearest(&query, None, 4).await.unwrap();
    assert_eq!(
        (near[0].doc, near[0].section, near.len()),
        (doc(2), SectionId(0), 4)
    );
    let again = flat_index(folder.path());
    assert_eq!(again.nearest(&query, None, 4).await.unwrap(), near);
    assert_eq!(
        (
            again.count().await.unwrap(),
            again.versions().await.unwrap()[&doc(2)]
        ),
        (24, 1)
    );
    let others = HashSet::from([doc(0), doc(5)]);
    let within = again.nearest(&query, Some(&others), 100).await.unwrap();
    assert!(within.len() == 6 && within.iter().all(|near| others.contains(&near.doc)));
    again.put(doc(2), 2, vec![row(7, "crew")]).await.unwrap();
    again.remove(doc(0)).await.unwrap();
    let third = flat_index(folder.path());
    assert_eq!(
        (
            third.count().await.unwrap(),
            third.versions().await.unwrap().get(&doc(2))
        ),
        (19, Some(&2))
    );
    assert_eq!(third.get(doc(2)).await.unwrap(), [row(7, "crew")]);
    assert_eq!(
        std::fs::read_dir(third.folder()).unwrap().count(),
        7,
        "one file per document"
    );
    // The next search sees what another process has added or removed.
    third
        .put(doc(40), 1, vec![row(0, "lawsuit lawsuit")])
        .await
        .unwrap();
    third.remove(doc(5)).await.unwrap();
    let near = again.nearest(&query, None, 1).await.unwrap();
    assert_eq!(
        (
            near[0].doc,
            again.versions().await.unwrap().contains_key(&doc(5))
        ),
        (doc(40), false)
    );
    assert_eq!(first.count().await.unwrap(), 17);
}

#[tokio::test]
async fn torn_files_and_other_dimensions_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let vectors = filled_index(folder.path()).await;
    let file = std::fs::read_dir(vectors.folder())
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let bytes = std::fs::read(&file).unwrap();
    for cut in [0, 7, 12, 30, bytes.len() - 1] {
        std::fs::write(&file, &bytes[..cut]).unwrap();
        let read = flat_index(folder.path());
        assert_eq!(read.versions().await.unwrap().len(), 7, "{cut}");
        std::fs::write(&file, &bytes).unwrap();
    }
    let long = SectionVector {
        vector: vec![1.0; 9],
        ..row(0, "loan")
    };
    assert!(matches!(
        vectors.put(doc(0), 2, vec![long]).await,
        Err(EmbeddingError::Dimensions { stored: 8, new: 9 })
    ));
    assert!(matches!(
        vectors.nearest(&[1.0; 9], None, 1).await,
        Err(EmbeddingError::Dimensions { .. })
    ));
    let few =
        FlatIndex::new(folder.path(), &Collection::default(), "counting").with_max_vectors(24);
    few.put(doc(0), 2, vec![row(0, "loan")]).await.unwrap();
    let many = (0..3).map(|section| row(section, "loan")).collect();
    assert!(matches!(
        few.put(doc(99), 1, many).await,
        Err(EmbeddingError::TooManyVectors {
            vectors: 25,
            most: 24
        })
    ));
}

#[test]
fn doc_score_grows_sublinearly_with_sections() {
    let near = |n: usize, score| Neighbor {
        doc: doc(n),
        section: SectionId(0),
        score,
    };
    let scored = doc_scores(&[
        near(1, 0.9),
        near(2, 0.6),
        near(2, 0.6),
        near(2, 0.6),
        near(3, 0.2),
    ]);
    assert_eq!(
        scored.iter().map(|(doc, _)| *doc).collect::<Vec<_>>(),
        [doc(2), doc(1), doc(3)]
    );
    assert!(
        (scored[0].1 - 1.8 / 2.0).abs() < 1e-6 && (scored[1].1 - 0.9 / 2.0_f32.sqrt()).abs() < 1e-6
    );
}

#[tokio::test]
async fn routing_keeps_documents_without_vectors() {
    let folder = tempfile::tempdir().unwrap();
    let vectors = filled_index(folder.path()).await;
    let embedder = Arc::new(WordCountEmbedder::default());
    let settings = EmbeddingSettings {
        documents: 2,
        nearest: 6,
        ..EmbeddingSettings::default()
    };
    let env = Env::system();
    let router = SemanticRouter::new(
        env.clone(),
        unlimited_embedder(&env, &embedder),
        vectors,
        settings,
    );
    let mut among: HashMap<DocId, u64> = (0..8).map(|n| (doc(n), 1)).collect();
    let first = router.route("Which patent?", &among, None).await.unwrap();
    assert_eq!((first.documents.len(), first.documents[0]), (2, doc(3)));
    assert_eq!(
        (
            first.usage.calls,
            first.usage.prompt_tokens,
            first.usage.nanodollars
        ),
        (1, 10, 1_000)
    );
    among.insert(doc(50), 1);
    among.insert(doc(3), 2); // a newer version without vectors
    let second = router.route("Which patent?", &among, None).await.unwrap();
    assert_eq!(
        second.usage,
        CallUsage::default(),
        "what was asked lately costs nothing"
    );
    let routed = second.documents;
    assert!(
        routed.len() == 4 && routed.contains(&doc(50)) && routed.contains(&doc(3)),
        "{routed:?}"
    );
    assert_eq!(
        embedder.sent.load(Ordering::Relaxed),
        1,
        "a question is embedded once"
    );
    assert!(router.narrows(3) && !router.narrows(2));
}

fn throttled(seconds: u64) -> LlmError {
    LlmError::Throttled {
        retry_after: Some(Duration::from_secs(seconds)),
        rate_limits: ReportedLimits::default(),
    }
}

fn failed() -> LlmError {
    LlmError::Server {
        status: 500,
        message: String::new(),
    }
}

fn run_id() -> RunId {
    RunId("d-1".into())
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_honored_and_every_reply_is_logged() {
    let env = Env::simulated(1);
    let blobs = Arc::new(MemoryBlobs::default());
    let unreadable = LlmError::Unreadable {
        message: "no".into(),
        usage: TokenUsage {
            prompt_tokens: 7,
            ..TokenUsage::default()
        },
    };
    let embedder = WordCountEmbedder::failing(&env, [throttled(7), failed(), unreadable]);
    let shared: Arc<dyn Blobs> = Arc::<MemoryBlobs>::clone(&blobs);
    let vectorizer =
        unlimited_embedder(&env, &embedder).with_call_log(shared, &Collection::default());
    let texts = ["a loan", "a store"];
    let batch = vectorizer.batches(&texts).unwrap()[0];
    let (vectors, call_usage) = vectorizer
        .embed_batch(&batch, &run_id(), &UnlimitedBudget)
        .await
        .unwrap();
    assert_eq!(
        (vectors.len(), call_usage.calls, call_usage.prompt_tokens),
        (2, 2, 27)
    );
    let times = embedder.times_ms();
    let pauses: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(
        pauses[0] >= 7_000 && pauses[1] >= 400 && pauses[2] >= 800 && pauses[2] < 7_000,
        "{pauses:?}"
    );
    let mut log = Vec::new();
    for key in list_all(blobs.as_ref(), "c/default/calls/").await.unwrap() {
        log.extend(get_json::<CallRecord>(blobs.as_ref(), &key).await.unwrap());
    }
    log.sort_by_key(|record| record.attempt);
    let logged: Vec<_> = log
        .iter()
        .map(|call| (call.stage.as_str(), call.useful, call.usage.prompt_tokens))
        .collect();
    assert_eq!(logged, [("embed", false, 7), ("embed", true, 20)]);
    assert!(
        log.iter()
            .all(|call| call.run == run_id() && call.model == "counting")
    );
}

#[tokio::test(start_paused = true)]
async fn permanent_errors_are_not_retried_and_queries_time_out() {
    let env = Env::simulated(1);
    let refused = LlmError::Configuration {
        status: 401,
        message: String::new(),
    };
    let embedder = WordCountEmbedder::failing(&env, [refused]);
    let texts = ["a loan"];
    let one = unlimited_embedder(&env, &embedder);
    let batch = one.batches(&texts).unwrap()[0];
    let error = one
        .embed_batch(&batch, &run_id(), &UnlimitedBudget)
        .await
        .unwrap_err();
    assert!(
        matches!(&error, EmbeddingError::Endpoint(failure) if failure.code == "model.configuration"),
        "{error}"
    );
    assert_eq!(embedder.times_ms().len(), 1);
    let embedder = WordCountEmbedder::failing(&env, [throttled(60)]);
    let began_ms = env.now_ms();
    unlimited_embedder(&env, &embedder)
        .embed_query("Which loan?", None)
        .await
        .unwrap_err();
    assert!(env.now_ms() - began_ms <= 8_000 && embedder.times_ms().len() == 1);
    let unreadable = || LlmError::Unreadable {
        message: String::new(),
        usage: TokenUsage::default(),
    };
    let embedder = WordCountEmbedder::failing(&env, (0..9).map(|_| unreadable()));
    unlimited_embedder(&env, &embedder)
        .embed_batch(&batch, &run_id(), &UnlimitedBudget)
        .await
        .unwrap_err();
    assert_eq!(embedder.times_ms().len(), 6, "each is paid for");
    // While the circuit breaker is open, no attempt is counted.
    let embedder = WordCountEmbedder::failing(&env, (0..9).map(|_| failed()));
    unlimited_embedder(&env, &embedder)
        .embed_batch(&batch, &run_id(), &UnlimitedBudget)
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn rate_limits_are_shared_and_budget_is_not_overdrawn() {
    let env = Env::simulated(1);
    let limiter: Arc<dyn Limiter> = Arc::new(MemoryLimiter::default());
    let embedder = WordCountEmbedder::failing(&env, []);
    let both = [0, 1].map(|_| Arc::new(metered_embedder(&env, &embedder, &limiter, (30, 0))));
    let asking = (0..40).map(|n| {
        let one = Arc::clone(&both[n % 2]);
        async move {
            let texts = ["a loan"];
            let batch = one.batches(&texts).unwrap()[0];
            one.embed_batch(&batch, &run_id(), &UnlimitedBudget)
                .await
                .unwrap();
        }
    });
    futures::future::join_all(asking).await;
    let times = embedder.times_ms();
    let worst = times
        .iter()
        .map(|from| {
            times
                .iter()
                .filter(|at| (*from..from + 60_000).contains(at))
                .count()
        })
        .max();
    assert!(
        times.len() == 40 && worst <= Some(36),
        "30 a minute and a burst: {worst:?}"
    );
    let embedder = WordCountEmbedder::failing(&env, []);
    let one = unlimited_embedder(&env, &embedder);
    let budget = EmbeddingBudget::new(JobBudget {
        nanodollars: Some(3_000),
        tokens: None,
    });
    let texts = ["a loan of a store for a crew in a lawsuit"];
    let batch = one.batches(&texts).unwrap()[0];
    let mut embedded = 0;
    let error = loop {
        match one.embed_batch(&batch, &run_id(), &budget).await {
            Ok(_) => embedded += 1,
            Err(error) => break error,
        }
    };
    assert!(
        matches!(&error, EmbeddingError::Endpoint(failure) if failure.code == BUDGET_EXHAUSTED),
        "{error}"
    );
    assert!(
        (1..=3).contains(&embedded) && embedder.times_ms().len() == embedded,
        "{embedded} calls of 1,000 each"
    );
}

proptest! {
    #[test]
    fn top_k_equals_sorting_all_scores(
        rows in proptest::collection::vec(proptest::collection::vec(-1.0_f32..1.0, 19), 0..120),
        vector in proptest::collection::vec(-1.0_f32..1.0, 19),
        most in 1_usize..12,
    ) {
        let flat: Vec<f32> = rows.iter().flatten().copied().collect();
        let mut all: Vec<(usize, f32)> = rows.iter().enumerate().map(|(at, row)| (at, dot(row, &vector))).collect();
        all.retain(|(at, _)| at % 3 != 0);
        all.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        all.truncate(most);
        prop_assert_eq!(top_k(&flat, &vector, most, |at| at % 3 != 0, |at| at), all);
        let exact: f64 = rows.first().map_or(0.0, |row| row.iter().zip(&vector).map(|(x, y)| f64::from(x * y)).sum());
        let near = rows.first().map_or(0.0, |row| f64::from(dot(row, &vector)));
        prop_assert!((exact - near).abs() < 1e-4);
    }
}
