//! Estimates the cost of an ingest from the texts, without calling a model.
//!
//! How many calls are made and how often a page is sent again depends on how much the rules find. An estimate is
//! therefore a range, from the lowest to the highest measured rate.

use futures::stream::{self, StreamExt};
use serde::Serialize;
use stemma_document::{Extent, SourceBody};
use stemma_extract::{EncodedSource, ExtractJob, Extractor, Limits};
use stemma_llm::request::TokenUsage;
use stemma_pipeline::sources::file_path;
use stemma_pipeline::{Purpose, RunSettings, StructureMode, Submission};

use crate::config::Config;
use crate::cost::{PriceList, money};
use crate::embedded;
use crate::error::CommandError;
use crate::table::thousands;

// Lines of a text without pages that count as one page.
const LINES_PER_PAGE: u64 = 50;

// The lowest and the highest measured rate of each kind of usage.
struct UsageRates {
    // Per page.
    calls: (f64, f64),
    // Prompt tokens per token of text.
    prompt: (f64, f64),
    // Reply tokens per page.
    output: (f64, f64),
}

// With `auto`, rules find most of the structure; the model writes summaries and resolves doubtful cases.
const AUTO: UsageRates = UsageRates {
    calls: (0.08, 0.25),
    prompt: (0.85, 1.15),
    output: (25.0, 80.0),
};
// With `llm`, the model reads every page and judges every section.
const LLM: UsageRates = UsageRates {
    calls: (0.5, 1.8),
    prompt: (1.6, 3.6),
    output: (40.0, 140.0),
};

/// A value with its bounds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct EstimateRange {
    low: f64,
    about: f64,
    high: f64,
}

impl EstimateRange {
    fn scaled((low, high): (f64, f64), number: f64) -> Self {
        // The geometric mean, because errors are factors: half and double are equally likely.
        Self {
            low: low * number,
            about: (low * high).sqrt() * number,
            high: high * number,
        }
    }
}

/// The estimated cost of an ingest.
#[derive(Debug, Default, Serialize)]
pub struct IngestEstimate {
    pages: u64,
    text_tokens: u64,
    // Number of documents that could not be read.
    unreadable: u64,
    calls: Option<EstimateRange>,
    prompt_tokens: Option<EstimateRange>,
    output_tokens: Option<EstimateRange>,
    // `None` where no price is known.
    dollars: Option<EstimateRange>,
}

impl IngestEstimate {
    /// Reads every document as ingest would, and estimates.
    pub async fn for_documents(
        config: &Config,
        settings: &RunSettings,
        documents: &[Submission],
    ) -> Result<Self, CommandError> {
        let pool = embedded::extraction_pool(&config.local)
            .map_err(|error| CommandError::new("extract.no_child", error.to_string()))?;
        let at_once = usize::from(config.local.concurrency());
        let limits = &config.settings.limits;
        let sizes = stream::iter(documents)
            .map(|document| size(&pool, document, limits))
            .buffer_unordered(at_once);
        let mut estimate = Self::default();
        for size in sizes.collect::<Vec<_>>().await {
            match size {
                Some((pages, tokens)) => {
                    estimate.pages += pages;
                    estimate.text_tokens += tokens;
                }
                None => estimate.unreadable += 1,
            }
        }
        estimate.add_model_calls(config, settings);
        Ok(estimate)
    }

    // Adds the usage of models.
    fn add_model_calls(&mut self, config: &Config, settings: &RunSettings) {
        let Some(model) = &settings.model else { return };
        let needs = if settings.structure == StructureMode::Llm {
            &LLM
        } else {
            &AUTO
        };
        let pages = self.pages as f64;
        let tokens = self.text_tokens as f64;
        let prompt = EstimateRange::scaled(needs.prompt, tokens);
        let output = EstimateRange::scaled(needs.output, pages);
        let prices = PriceList::from_config(config);
        let names = [Purpose::Structure, Purpose::Summaries].map(|purpose| model.name_for(purpose));
        let dollars = (
            highest_cost(&prices, names, prompt.low, output.low),
            highest_cost(&prices, names, prompt.about, output.about),
            highest_cost(&prices, names, prompt.high, output.high),
        );
        self.dollars = match dollars {
            (Some(low), Some(about), Some(high)) => Some(EstimateRange { low, about, high }),
            _ => None,
        };
        self.calls = Some(EstimateRange::scaled(needs.calls, pages));
        (self.prompt_tokens, self.output_tokens) = (Some(prompt), Some(output));
    }

    /// For people, on one line.
    pub fn line(&self) -> String {
        let pages = format!(
            "estimate {} pages · {} tokens of text",
            rounded(self.pages as f64),
            rounded(self.text_tokens as f64)
        );
        let (Some(calls), Some(prompt), Some(output)) =
            (self.calls, self.prompt_tokens, self.output_tokens)
        else {
            return format!("{pages} · no model is used, so nothing is charged");
        };
        let tokens = prompt.about + output.about;
        let paid = match self.dollars {
            Some(EstimateRange { low, about, high }) => {
                format!("{} ({}–{})", money(about), money(low), money(high))
            }
            None => "price unknown: set model.prices".into(),
        };
        format!(
            "{pages} · ~{} calls · ~{} tokens · {paid}",
            rounded(calls.about),
            rounded(tokens)
        )
    }
}

fn rounded(number: f64) -> String {
    thousands(number.round() as u64)
}

// If two models are used, all tokens are charged at the higher price: an upper bound.
fn highest_cost(prices: &PriceList, names: [&str; 2], prompt: f64, output: f64) -> Option<f64> {
    let mut highest = 0.0_f64;
    for name in names {
        let million_in = TokenUsage {
            prompt_tokens: 1_000_000,
            cached_tokens: 0,
            output_tokens: 0,
        };
        let million_out = TokenUsage {
            prompt_tokens: 0,
            cached_tokens: 0,
            output_tokens: 1_000_000,
        };
        let input_price = prices.dollars(name, million_in)?;
        let output_price = prices.dollars(name, million_out)?;
        highest = highest.max((input_price * prompt + output_price * output) / 1e6);
    }
    Some(highest)
}

// Pages and tokens of a document; `None` where it cannot be read.
async fn size(pool: &impl Extractor, document: &Submission, limits: &Limits) -> Option<(u64, u64)> {
    let bytes = tokio::fs::read(file_path(&document.uri)?).await.ok()?;
    let packed = pool
        .extract(ExtractJob::new(
            document.name.clone(),
            bytes,
            None,
            limits.clone(),
        ))
        .await
        .ok()?;
    let packed = EncodedSource::open(packed).ok()?;
    let extent = packed.extent();
    let tokens = match packed.decode().ok()?.body {
        SourceBody::Pages(pages) => pages
            .iter()
            .flat_map(|page| &page.lines)
            .map(|line| u64::from(line.tokens))
            .sum(),
        SourceBody::Lines(text) => text.tokens.iter().map(|tokens| u64::from(*tokens)).sum(),
    };
    let pages = match extent {
        Extent::Pages(pages) => u64::from(pages),
        Extent::Lines(lines) => u64::from(lines).div_ceil(LINES_PER_PAGE),
    };
    Some((pages, tokens))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_has_a_range_around_it() {
        let range = EstimateRange::scaled((0.5, 2.0), 100.0);
        assert_eq!((range.low, range.about, range.high), (50.0, 100.0, 200.0));
        let none = IngestEstimate {
            pages: 12,
            text_tokens: 480,
            ..IngestEstimate::default()
        };
        assert_eq!(
            none.line(),
            "estimate 12 pages · 480 tokens of text · no model is used, so nothing is charged"
        );
    }
}
