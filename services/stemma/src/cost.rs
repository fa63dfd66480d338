//! Budgets on the command line, and costs from the call log.

use std::collections::BTreeMap;

use serde::Serialize;
use stemma_document::Collection;
use stemma_engine::flow::JobManifest;
use stemma_llm::calls::{self, CallSum};
use stemma_llm::prices::Prices;
use stemma_llm::request::TokenUsage;
use stemma_operations::text::money;
use stemma_pipeline::RunSettings;
use stemma_store::PortResult;
use stemma_store::blobs::Blobs;
use stemma_store::spend::JobBudget;

use crate::config::Config;
use crate::embeddings::EmbeddingsConfig;
use crate::error::CommandError;

pub const NANOS_PER_DOLLAR: f64 = 1e9;

/// The budget of a job.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub struct BudgetArgs {
    /// Stop before model calls cost more than this, in dollars: `5` or `$0.50`. Needs model.prices.
    #[arg(long, value_name = "USD", value_parser = dollars)]
    pub budget: Option<f64>,
    /// Stop before prompts and replies use more tokens than this.
    #[arg(long, value_name = "N")]
    pub budget_tokens: Option<u64>,
}

/// An amount in dollars: `5`, `$0.50`.
pub fn dollars(text: &str) -> Result<f64, String> {
    let amount = text.trim().trim_start_matches('$').parse::<f64>().ok();
    amount
        .filter(|amount| (0.0..1e6).contains(amount))
        .ok_or_else(|| format!("`{text}` is not an amount in dollars; write 5 or $0.50"))
}

/// An amount of at least one nanodollar, the unit of budgets.
pub fn some_dollars(text: &str) -> Result<f64, String> {
    match dollars(text)? {
        amount if amount >= 1.0 / NANOS_PER_DOLLAR => Ok(amount),
        _ => Err("the budget must be greater than zero".into()),
    }
}

/// An amount in billionths of a dollar.
pub fn nanodollars(dollars: f64) -> u64 {
    (dollars * NANOS_PER_DOLLAR) as u64
}

/// The error of a budget in money for a model without a price.
pub fn no_price(message: impl Into<String>) -> CommandError {
    CommandError::new("config.no_price", message)
        .with_next("set model.prices.input and model.prices.output, or use --budget-tokens")
}

impl BudgetArgs {
    /// The budget of a job; `None` if no limit is set.
    pub fn budget(self) -> Option<JobBudget> {
        let budget = JobBudget {
            nanodollars: self.budget.map(nanodollars),
            tokens: self.budget_tokens,
        };
        (budget != JobBudget::default()).then_some(budget)
    }

    /// Refuses a budget in money for vectors without a price.
    pub fn check_vectors(self, embeddings: &EmbeddingsConfig) -> Result<(), CommandError> {
        if self.budget.is_none() || embeddings.prices().is_complete() {
            return Ok(());
        }
        let model = &embeddings.model;
        let message = format!("--budget needs the price of `{model}`, which is not set");
        Err(CommandError::new("config.no_price", message)
            .with_next("set embeddings.prices.input, or use --budget-tokens"))
    }

    /// Refuses a budget in money for models without a price.
    pub fn check(self, config: &Config, settings: &RunSettings) -> Result<(), CommandError> {
        let names = settings.model_names();
        if self.budget.is_none() || names.is_empty() {
            return Ok(());
        }
        let unknown = config.providers().into_iter().find(|(name, provider)| {
            names.contains(name.as_str()) && !provider.endpoint.prices.is_complete()
        });
        match unknown {
            None => Ok(()),
            Some((name, _)) => Err(no_price(format!(
                "--budget needs the prices of model `{name}`, which are not set"
            ))),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct ModelUsage {
    pub calls: u64,
    /// Replies that could not be used.
    pub useless: u64,
    pub prompt_tokens: u64,
    /// Prompt tokens that the provider had cached.
    pub cached_tokens: u64,
    pub output_tokens: u64,
    /// Cost at the prices configured now.
    pub dollars: f64,
    /// Replies of models without a price, which no sum includes.
    pub without_price: u64,
}

impl ModelUsage {
    pub fn add(&mut self, sum: &CallSum, prices: &PriceList) {
        self.calls += sum.calls;
        self.useless += sum.useless;
        self.prompt_tokens += sum.prompt_tokens;
        self.cached_tokens += sum.cached_tokens;
        self.output_tokens += sum.output_tokens;
        let prices = prices.0.get(&sum.model);
        match prices.and_then(|prices| sum.cost(*prices).nanodollars) {
            Some(cost) => self.dollars += cost as f64 / NANOS_PER_DOLLAR,
            None => self.without_price += sum.calls,
        }
    }

    /// The cost as text, for example `$0.42`.
    pub fn cost_label(&self) -> String {
        match (self.calls, self.without_price) {
            (calls, unknown) if calls == unknown && calls > 0 => "price unknown".into(),
            (_, 0) => money(self.dollars),
            _ => format!("at least {}", money(self.dollars)),
        }
    }
}

/// An amount in billionths of a dollar as text.
pub fn money_from_nanos(nanodollars: u64) -> String {
    money(nanodollars as f64 / NANOS_PER_DOLLAR)
}

/// Prices of all configured models.
pub struct PriceList(BTreeMap<String, Prices>);

impl PriceList {
    pub fn from_config(config: &Config) -> Self {
        let embeddings = &config.embeddings;
        let mut prices = BTreeMap::new();
        if embeddings.is_configured() {
            prices.insert(embeddings.model.clone(), embeddings.prices());
        }
        let models = config.providers().into_iter();
        prices.extend(models.map(|(name, provider)| (name, provider.endpoint.prices)));
        Self(prices)
    }

    /// The prices of requests in batches.
    #[must_use]
    pub fn for_batch(mut self) -> Self {
        for prices in self.0.values_mut() {
            *prices = prices.for_batch();
        }
        self
    }

    /// Dollars for a million tokens of prompts, and of replies; `None` if the model has no price.
    pub fn per_million(&self, model: &str) -> Option<(f64, f64)> {
        let cost = |prompt_tokens, output_tokens| {
            let usage = TokenUsage {
                prompt_tokens,
                cached_tokens: 0,
                output_tokens,
            };
            let cost = self.0.get(model)?.cost(usage).nanodollars?;
            Some(cost as f64 / NANOS_PER_DOLLAR)
        };
        Some((cost(1_000_000, 0)?, cost(0, 1_000_000)?))
    }
}

pub async fn job_usage(
    blobs: &dyn Blobs,
    collection: &Collection,
    prices: &PriceList,
    JobManifest {
        job, submitted_ms, ..
    }: &JobManifest,
) -> PortResult<ModelUsage> {
    let mut usage = ModelUsage::default();
    calls::read_sums(blobs, &format!("c/{collection}"), *submitted_ms, |sum| {
        if sum.jobs.contains(job) {
            usage.add(&sum, prices);
        }
    })
    .await?;
    Ok(usage)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dollar_amounts_are_parsed() {
        assert_eq!((dollars("5"), dollars("$0.5")), (Ok(5.0), Ok(0.5)));
        assert!(dollars("-1").is_err() && dollars("much").is_err());
        let args = BudgetArgs {
            budget: Some(0.25),
            budget_tokens: None,
        };
        assert_eq!(
            args.budget(),
            Some(JobBudget {
                nanodollars: Some(250_000_000),
                tokens: None
            })
        );
        assert_eq!(BudgetArgs::default().budget(), None);
    }

    #[test]
    fn small_amounts_are_shown_with_more_digits() {
        assert_eq!(
            [0.0, 0.0042, 0.42, 12.0].map(money),
            ["$0.00", "$0.0042", "$0.42", "$12.00"]
        );
    }
}
