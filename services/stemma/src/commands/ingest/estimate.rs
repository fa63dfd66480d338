//! Estimates the cost of an ingest from the texts, without calling a model.
//!
//! The prompts are those that a run plans. What the model replies is not known, so an estimate is a range.

use futures::stream::{self, StreamExt};
use serde::Serialize;
use stemma_document::{Extent, SourceBody, SourceFormat};
use stemma_extract::{EncodedSource, ExtractJob, Extractor, Task};
use stemma_operations::text::money;
use stemma_pipeline::sources::file_path;
use stemma_pipeline::stages::split_extracted;
use stemma_pipeline::{
    ModelUse, OcrMode, OcrSettings, Purpose, RunSettings, Submission, estimate_model_use,
    most_vision_use,
};

use crate::children;
use crate::config::Config;
use crate::cost::PriceList;
use crate::error::CommandError;
use crate::table::thousands;

// Lines of a text without pages that count as one page.
const LINES_PER_PAGE: u64 = 50;

// CPU time of text recognition for a page, and of a second reader that reads its numbers again (tests/bench/run ocr, ADR 0048).
const MS_PER_SCAN: u64 = 2_200;
const MS_PER_SECOND_READING: u64 = 1_000;

// Measured runs differ from their estimates by less than this share.
const ERROR: f64 = 0.15;

/// A value with its bounds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct EstimateRange {
    low: f64,
    about: f64,
    high: f64,
}

impl EstimateRange {
    fn around(about: u64) -> Self {
        let about = about as f64;
        Self {
            low: about - about * ERROR,
            about,
            high: about + about * ERROR,
        }
    }
}

/// What a vision model costs if text recognition is sure of no page.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct VisionEstimate {
    model: String,
    pages: u64,
    tokens: u64,
    // `None` where no price is known.
    dollars: Option<f64>,
}

/// The estimated cost of an ingest.
#[derive(Debug, Default, Serialize)]
pub struct IngestEstimate {
    pages: u64,
    text_tokens: u64,
    // Pages that text recognition would read, and how long that takes on this machine.
    recognized_pages: u64,
    recognition_seconds: u64,
    // What a vision model costs at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    vision: Option<VisionEstimate>,
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
        batch: bool,
    ) -> Result<Self, CommandError> {
        let pool = children::extraction_pool(&config.local)
            .map_err(|error| CommandError::new("extract.no_child", error.to_string()))?;
        let at_once = usize::from(config.local.concurrency());
        let sizes = stream::iter(documents)
            .map(|document| measure(&pool, document, settings, batch))
            .buffer_unordered(at_once);
        let mut estimate = Self::default();
        let mut model_use = ModelUse::default();
        for size in sizes.collect::<Vec<_>>().await {
            match size {
                Some(size) => {
                    estimate.pages += size.pages;
                    estimate.recognized_pages += size.recognized_pages;
                    estimate.text_tokens += size.text_tokens;
                    model_use += size.model_use;
                }
                None => estimate.unreadable += 1,
            }
        }
        estimate.recognition_seconds =
            recognition_seconds(estimate.recognized_pages, &settings.ocr, at_once);
        let prices = PriceList::from_config(config);
        let prices = if batch { prices.for_batch() } else { prices };
        estimate.add_model_use(&prices, settings, model_use);
        estimate.add_vision(&prices, settings);
        Ok(estimate)
    }

    fn add_model_use(&mut self, prices: &PriceList, settings: &RunSettings, model_use: ModelUse) {
        let Some(model) = &settings.model else { return };
        let prompt = EstimateRange::around(model_use.prompt_tokens);
        let output = EstimateRange::around(model_use.output_tokens);
        let names = [Purpose::Structure, Purpose::Summaries].map(|purpose| model.name_for(purpose));
        let dollars = |prompt, output| highest_cost(prices, names, prompt, output);
        self.dollars = dollars(prompt.low, output.low)
            .zip(dollars(prompt.about, output.about))
            .zip(dollars(prompt.high, output.high))
            .map(|((low, about), high)| EstimateRange { low, about, high });
        self.calls = Some(EstimateRange::around(model_use.calls));
        (self.prompt_tokens, self.output_tokens) = (Some(prompt), Some(output));
    }

    fn add_vision(&mut self, prices: &PriceList, settings: &RunSettings) {
        let pages = self.recognized_pages;
        let vision = settings.vision.as_ref().filter(|_| pages > 0);
        self.vision = vision.map(|vision| {
            let most = most_vision_use(pages);
            let names = [vision.model.as_str(); 2];
            let prompt = most.prompt_tokens as f64;
            VisionEstimate {
                model: vision.model.clone(),
                pages,
                tokens: most.prompt_tokens + most.output_tokens,
                dollars: highest_cost(prices, names, prompt, most.output_tokens as f64),
            }
        });
    }

    /// For people, on one line.
    pub fn line(&self) -> String {
        let mut pages = format!(
            "estimate {} pages · {} tokens of text",
            thousands(self.pages),
            thousands(self.text_tokens)
        );
        if self.recognized_pages > 0 {
            let scans = thousands(self.recognized_pages);
            let minutes = thousands(self.recognition_seconds.div_ceil(60));
            pages += &format!(" · text recognition of {scans} pages, ~{minutes} min");
        }
        if let Some(vision) = &self.vision {
            let most = thousands(vision.pages);
            let paid = vision.dollars.map_or("price unknown".into(), money);
            pages += &format!(" · {} reads up to {most} of them, ~{paid}", vision.model);
        }
        let (Some(calls), Some(prompt), Some(output)) =
            (self.calls, self.prompt_tokens, self.output_tokens)
        else {
            return match &self.vision {
                Some(_) => pages,
                None => format!("{pages} · no model is used, so nothing is charged"),
            };
        };
        let tokens = thousands((prompt.about + output.about).round() as u64);
        let calls = thousands(calls.about.round() as u64);
        let paid = match self.dollars {
            Some(EstimateRange { low, about, high }) => {
                format!("{} ({}–{})", money(about), money(low), money(high))
            }
            None => "price unknown: set model.prices".into(),
        };
        format!("{pages} · ~{calls} calls · ~{tokens} tokens · {paid}")
    }
}

// How long `cores` take to read pages.
fn recognition_seconds(pages: u64, settings: &OcrSettings, cores: usize) -> u64 {
    let per_page = match settings.second_reader.as_str() {
        "" => MS_PER_SCAN,
        _ => MS_PER_SCAN + MS_PER_SECOND_READING,
    };
    let cores = u64::try_from(cores).unwrap_or(u64::MAX).max(1);
    pages.saturating_mul(per_page).div_ceil(1_000 * cores)
}

// If two models are used, all tokens are charged at the higher price: an upper bound.
fn highest_cost(prices: &PriceList, names: [&str; 2], prompt: f64, output: f64) -> Option<f64> {
    let mut highest = 0.0_f64;
    for name in names {
        let (input_price, output_price) = prices.per_million(name)?;
        highest = highest.max((input_price * prompt + output_price * output) / 1e6);
    }
    Some(highest)
}

// What is known of a document before it is ingested.
struct DocumentEstimate {
    pages: u64,
    recognized_pages: u64,
    text_tokens: u64,
    model_use: ModelUse,
}

// `None` where the document cannot be read.
async fn measure(
    pool: &impl Extractor,
    document: &Submission,
    settings: &RunSettings,
    batch: bool,
) -> Option<DocumentEstimate> {
    let bytes = tokio::fs::read(file_path(&document.uri)?).await.ok()?;
    let limits = settings.limits.clone();
    let mode = settings.ocr.mode;
    let job = ExtractJob {
        task: match mode {
            OcrMode::Never => Task::Text,
            OcrMode::Auto | OcrMode::Always => Task::TextAndPictures,
        },
        ..ExtractJob::new(document.name.clone(), bytes, None, limits)
    };
    let blobs = split_extracted(pool.extract(job).await.ok()?.into())?;
    let packed = EncodedSource::open(blobs.source).ok()?;
    let is_pdf = packed.header().format == SourceFormat::Pdf;
    let recognized_pages = match mode {
        OcrMode::Never => 0,
        OcrMode::Auto => blobs.pictures.len() as u64,
        OcrMode::Always if is_pdf => u64::from(packed.extent().size()),
        OcrMode::Always => 0,
    };
    let settings = settings.clone();
    let measured = tokio::task::spawn_blocking(move || {
        measure_source(packed, recognized_pages, &settings, batch)
    });
    measured.await.ok()?
}

fn measure_source(
    packed: EncodedSource,
    recognized_pages: u64,
    settings: &RunSettings,
    batch: bool,
) -> Option<DocumentEstimate> {
    let pages = match packed.extent() {
        Extent::Pages(pages) => u64::from(pages),
        Extent::Lines(lines) => u64::from(lines).div_ceil(LINES_PER_PAGE),
    };
    let source = packed.decode().ok()?;
    let text_tokens = match &source.body {
        SourceBody::Pages(pages) => pages
            .iter()
            .flat_map(|page| &page.lines)
            .map(|line| u64::from(line.tokens))
            .sum(),
        SourceBody::Lines(text) => text.tokens.iter().map(|tokens| u64::from(*tokens)).sum(),
    };
    Some(DocumentEstimate {
        pages,
        recognized_pages,
        text_tokens,
        model_use: estimate_model_use(&source, settings, batch).ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_has_a_range_around_it() {
        let range = EstimateRange::around(100);
        assert_eq!((range.low, range.about, range.high), (85.0, 100.0, 115.0));
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

    #[test]
    fn second_reader_takes_a_second_more_for_each_page() {
        let one = OcrSettings::default();
        let two = OcrSettings {
            second_reader: "0a".repeat(32),
            ..OcrSettings::default()
        };
        assert_eq!(recognition_seconds(0, &two, 4), 0);
        assert_eq!(recognition_seconds(100, &one, 2), 110);
        assert_eq!(recognition_seconds(100, &two, 2), 160);
        assert_eq!(recognition_seconds(1, &two, 4), 1);
    }
}
