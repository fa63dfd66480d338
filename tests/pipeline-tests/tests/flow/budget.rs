//! Budgets in the complete flow: they are never exceeded, they pause the job, and no answer is lost. With a
//! larger budget the job continues where it stopped, even if everything but the blobs is lost.
#![expect(clippy::unwrap_used, reason = "tests and their helpers")]

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use stemma_document::Collection;
use stemma_engine::Ports;
use stemma_engine::flow::JobOptions;
use stemma_engine::jobs::{self, CHUNK_ENTRIES, PauseReason};
use stemma_engine::queue::Lane;
use stemma_filings::{Filing, FilingKind, Spec, generate};
use stemma_llm::client::{ModelClient, ModelClientSettings};
use stemma_llm::prices::Prices;
use stemma_llm::request::{Llm, LlmError, LlmReply, LlmRequest, TokenUsage};
use stemma_pipeline::{ModelSettings, RunSettings, StructureMode, Submission, WorkerDeps};
use stemma_pipeline_tests::{
    InProcessExtractor, Services, SingleDocument, call_records, report, simulate, submission,
};
use stemma_roles::coordinator::{SubmitRequest, submit};
use stemma_store::blobs::MemoryBlobs;
use stemma_store::spend::JobBudget;
use stemma_store::{Env, JobId, Priority};

const PRICES: Prices = Prices {
    input: Some(1.0),
    cached_input: None,
    output: Some(4.0),
    batch_discount: None,
};

// Replies as the schema requires, and records all requests.
#[derive(Default)]
struct RecordingEcho(Mutex<Vec<String>>);

#[async_trait]
impl Llm for RecordingEcho {
    async fn complete(&self, request: &LlmRequest) -> Result<LlmReply, LlmError> {
        tokio::time::sleep(Duration::from_millis(300)).await;
        self.0.lock().unwrap().push(request.digest());
        let sections = request
            .user
            .lines()
            .filter(|line| line.starts_with("Section "))
            .count();
        let properties = request.schema.json["properties"].as_object().unwrap();
        let text = properties
            .iter()
            .map(|(name, property): (&String, &Value)| {
                let value = match property["type"].as_str().unwrap() {
                    "boolean" => json!(true),
                    "integer" => json!(0),
                    "array" if name == "summaries" => (1..=sections)
                        .map(|at| json!({ "section": at, "summary": "It says what it says." }))
                        .collect(),
                    "array" => json!([]),
                    _ => json!("What it says."),
                };
                (name.clone(), value)
            })
            .collect::<serde_json::Map<_, _>>();
        let usage = TokenUsage {
            prompt_tokens: request.prompt_tokens(),
            cached_tokens: 0,
            output_tokens: 40,
        };
        Ok(LlmReply::new(Value::Object(text).to_string(), usage))
    }
}

fn settings() -> RunSettings {
    let model = Some(ModelSettings {
        name: "echo".into(),
        ..ModelSettings::default()
    });
    RunSettings {
        structure: StructureMode::Llm,
        model,
        ..RunSettings::default()
    }
}

// A fresh deployment over `store`: only the blobs are kept.
struct BudgetScenario {
    env: Env,
    ports: Ports,
    echo: Arc<RecordingEcho>,
    services: Services,
}

impl BudgetScenario {
    fn start(env: &Env, store: &Arc<MemoryBlobs>, pdf: &[u8]) -> Self {
        let ports = Ports::embedded(env, Arc::<MemoryBlobs>::clone(store));
        let echo = Arc::new(RecordingEcho::default());
        let client = ModelClientSettings {
            prices: PRICES,
            ..ModelClientSettings::unlimited("echo", "here")
        };
        let client = ModelClient::new(
            env.clone(),
            Arc::clone(&ports.limiter),
            Arc::<RecordingEcho>::clone(&echo),
            client,
        );
        let deps = WorkerDeps::new(
            Arc::new(SingleDocument(pdf.to_vec().into())),
            Arc::new(InProcessExtractor),
        );
        let deps = deps.with_models([Arc::new(client)]);
        let services = Services::start(&ports, deps, [(Lane::Cpu, 2), (Lane::Llm, 6)]);
        Self {
            env: env.clone(),
            ports,
            echo,
            services,
        }
    }

    // Waits until `job` is paused for its budget and all running tasks have ended.
    async fn wait_until_paused(&self, job: &JobId) {
        let wait = async {
            loop {
                let control = jobs::load_control(&self.ports.blobs, job).await.unwrap();
                if control
                    .paused
                    .is_some_and(|paused| paused.reason == PauseReason::Budget)
                {
                    return;
                }
                self.env.sleep(Duration::from_millis(100)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(600), wait)
            .await
            .unwrap();
        self.env.sleep(Duration::from_secs(120)).await;
    }

    async fn end(self) -> Vec<String> {
        self.services.stop().await.unwrap();
        self.echo.0.lock().unwrap().clone()
    }
}

async fn total_spend(store: &MemoryBlobs, job: &JobId) -> (u64, u64) {
    let mut nanodollars = 0;
    let mut tokens = 0;
    for record in call_records(store).await.unwrap() {
        if record.jobs.contains(job) {
            let cost = PRICES.cost(record.usage);
            nanodollars += cost.nanodollars.unwrap();
            tokens += cost.tokens;
        }
    }
    (nanodollars, tokens)
}

async fn submit_job(scenario: &BudgetScenario, filing: &Filing, budget: JobBudget) -> JobId {
    submit_documents(scenario, &[submission("a.pdf", &filing.pdf)], budget).await
}

async fn submit_documents(
    scenario: &BudgetScenario,
    documents: &[Submission],
    budget: JobBudget,
) -> JobId {
    let collection = Collection::default();
    let options = JobOptions {
        budget: Some(budget),
        ..JobOptions::default()
    };
    let request = SubmitRequest {
        collection: &collection,
        settings: &settings(),
        priority: Priority::Bulk,
        options,
    };
    submit(&scenario.ports, request, documents)
        .await
        .unwrap()
        .job
}

// A filing of several windows: half of the cost must pay for the first one.
fn filing() -> Filing {
    generate(&Spec {
        pages: 48,
        ..Spec::new(FilingKind::TenK, 11)
    })
}

// Cost of the complete document.
fn full_cost(filing: &Filing) -> (u64, u64) {
    simulate(async {
        let env = Env::simulated(1);
        let store = Arc::<MemoryBlobs>::default();
        let scenario = BudgetScenario::start(&env, &store, &filing.pdf);
        let job = submit_job(
            &scenario,
            filing,
            JobBudget {
                nanodollars: None,
                tokens: Some(u64::MAX >> 12),
            },
        )
        .await;
        report(&env, &store, &job).await.unwrap();
        scenario.end().await;
        total_spend(&store, &job).await
    })
    .unwrap()
}

// Larger jobs are divided into parts, which have ids of their own.
#[test]
fn jobs_of_several_parts_call_the_model_within_their_budget() {
    const TEXT: &[u8] = b"# Business\n\nWe make paper.\n\n# Risks\n\nPaper burns.\n";
    simulate(async {
        let env = Env::simulated(3);
        let store = Arc::<MemoryBlobs>::default();
        let scenario = BudgetScenario::start(&env, &store, TEXT);
        let documents: Vec<Submission> = (0..=CHUNK_ENTRIES)
            .map(|number| submission(&format!("{number}.md"), TEXT))
            .collect();
        let budget = JobBudget {
            nanodollars: None,
            tokens: Some(u64::MAX >> 12),
        };
        let job = submit_documents(&scenario, &documents, budget).await;
        let report = report(&env, &store, &job).await.unwrap();
        assert_eq!(report.counts.done, documents.len() as u64, "{report:?}");
        assert!(!scenario.end().await.is_empty());
        assert!(total_spend(&store, &job).await.1 > 0);
    })
    .unwrap();
}

#[test]
fn budget_pauses_job_until_raised() {
    let filing = filing();
    let (money, tokens) = full_cost(&filing);
    assert!(money > 0 && tokens > 0);
    for in_money in [true, false] {
        let all = if in_money { money } else { tokens };
        let budget = |limit: u64| JobBudget {
            nanodollars: in_money.then_some(limit),
            tokens: (!in_money).then_some(limit),
        };
        simulate(async {
            let env = Env::simulated(2);
            let store = Arc::<MemoryBlobs>::default();
            let scenario = BudgetScenario::start(&env, &store, &filing.pdf);
            let job = submit_job(&scenario, &filing, budget(all / 2)).await;
            scenario.wait_until_paused(&job).await;
            let first = scenario.end().await;
            let paid = async || {
                let (money, tokens) = total_spend(&store, &job).await;
                if in_money { money } else { tokens }
            };
            let at_pause = paid().await;
            assert!(
                at_pause <= all / 2 && at_pause > 0,
                "{at_pause} of {}",
                all / 2
            );

            // Everything but the blobs is lost. With a larger budget the job continues, and repeats no
            // question.
            let scenario = BudgetScenario::start(&env, &store, &filing.pdf);
            jobs::set_budget(&scenario.ports, &job, budget(all * 2))
                .await
                .unwrap();
            jobs::resume(&scenario.ports, &job).await.unwrap();
            report(&env, &store, &job).await.unwrap();
            let second = scenario.end().await;
            let first_requests: BTreeSet<_> = first.iter().collect();
            assert!(
                !second.is_empty() && second.iter().all(|digest| !first_requests.contains(digest)),
                "a question was asked twice"
            );
            assert!(paid().await <= all * 2);
        })
        .unwrap();
    }
}
