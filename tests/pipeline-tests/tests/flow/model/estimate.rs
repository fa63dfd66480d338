//! The estimated use of a model against what a run really uses.

use stemma_extract::{EncodedSource, ExtractJob, Extractor, Limits};
use stemma_filings::{Filing, FilingKind, Spec, generate};
use stemma_pipeline::stages::split_extracted;
use stemma_pipeline::{ModelUse, OnModelFailure, RunSettings, StructureMode, estimate_model_use};
use stemma_pipeline_tests::{InProcessExtractor, simulate};

use super::echo::DeterministicEcho;
use super::run::{run_alone, settings};

fn estimate(filing: &Filing, settings: &RunSettings) -> ModelUse {
    let job = ExtractJob::new("a.pdf".into(), filing.pdf.clone(), None, Limits::default());
    let reply = simulate(async { InProcessExtractor.extract(job).await.unwrap() }).unwrap();
    let blobs = split_extracted(reply.into()).unwrap();
    let source = EncodedSource::open(blobs.source).unwrap().decode().unwrap();
    estimate_model_use(&source, settings, false).unwrap()
}

fn assert_near(what: &str, estimated: u64, real: u64) {
    let error = estimated as f64 / real as f64 - 1.0;
    println!(
        "{what}: {estimated} estimated, {real} used, {:+.1} %",
        100.0 * error
    );
    assert!(error.abs() <= 0.15, "{what}: {estimated} instead of {real}");
}

#[test]
fn estimates_are_within_fifteen_percent() {
    for (kind, pages) in [(FilingKind::TenK, 60), (FilingKind::TenQ, 24)] {
        let filing = generate(&Spec {
            pages,
            ..Spec::new(kind, 11)
        });
        for structure in [StructureMode::Auto, StructureMode::Llm] {
            let settings = settings(structure, OnModelFailure::Gap);
            let estimated = estimate(&filing, &settings);
            let ran = run_alone(1, &filing, DeterministicEcho::default(), &settings);
            let mut real = ModelUse::default();
            for record in &ran.records {
                real.calls += 1;
                real.prompt_tokens += u64::from(record.usage.prompt_tokens);
                real.output_tokens += u64::from(record.usage.output_tokens);
            }
            let tokens = |used: &ModelUse| used.prompt_tokens + used.output_tokens;
            assert_near(
                &format!("{structure:?}, calls"),
                estimated.calls,
                real.calls,
            );
            assert_near(
                &format!("{structure:?}, tokens"),
                tokens(&estimated),
                tokens(&real),
            );
        }
    }
}

#[test]
fn rules_alone_use_no_model() {
    let filing = generate(&Spec {
        pages: 8,
        ..Spec::new(FilingKind::TenQ, 3)
    });
    let settings = settings(StructureMode::Layout, OnModelFailure::Gap);
    assert_eq!(estimate(&filing, &settings), ModelUse::default());
}
