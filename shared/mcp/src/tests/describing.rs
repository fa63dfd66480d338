//! The tool `describe`, with a simulated vision model.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};
use stemma_extract::{ExtractError, ExtractJob, Extractor, Task};
use stemma_llm::tokens;
use stemma_sample_store::model::answer_model;
use stemma_sim::{Behavior, Provider};

use super::{TestClient, text};
use crate::Preset;

const CHART: &str = "Revenue by region\nAsia: 45%\nEurope: ~30%";

/// A PNG header, and a text that differs from page to page.
fn image(page: u32) -> Vec<u8> {
    let header = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\x04\0\0\0\x04\0";
    [&header[..], format!("page {page}").as_bytes()].concat()
}

struct Renderer;

#[async_trait]
impl Extractor for Renderer {
    async fn extract(&self, job: ExtractJob) -> Result<Vec<u8>, ExtractError> {
        let Task::Image(request) = job.task else {
            panic!("only images are asked for");
        };
        Ok(image(request.page.get()))
    }
}

/// A client whose model sees `CHART` on page 2 of each document.
async fn seeing(preset: Preset, behavior: Behavior) -> (Provider, TestClient) {
    let provider = Provider::start(behavior).await.unwrap();
    provider.add_image(&image(2), CHART);
    let model = answer_model(&provider);
    let client = TestClient::with_vision(preset, model, Arc::new(Renderer)).await;
    (provider, client)
}

fn page(number: u32) -> Value {
    json!({ "doc_name": "ACME_2022", "page": number })
}

#[tokio::test]
async fn figures_of_a_page_are_described_once_and_unchecked() {
    let (provider, mut client) = seeing(Preset::All, Behavior::default()).await;
    let size = tokens::count(&client.ask("tools/list", json!({})).await.to_string());
    // Every conversation pays for the list once.
    assert!(size <= 3_600, "{size} tokens");
    let hints = &client.tools().await["describe"]["annotations"];
    assert_eq!(hints["readOnlyHint"], false);
    let described = client.data("describe", page(2)).await;
    assert_eq!(described["by_sight"], true);
    assert_eq!(described["locator"], "ACME_2022#p=2");
    let values = &described["figures"][0]["values"];
    assert_eq!(values[1], json!({ "label": "Europe", "value": "~30%" }));
    let again = client.call("describe", page(2)).await;
    assert_eq!(again["structuredContent"]["cached"], true, "{again}");
    let text = text(&again);
    assert!(
        text.starts_with("From the image, unchecked: 1 figures on ACME_2022#p=2"),
        "{text}"
    );
    // What a model reads from a document is data, as the text of a document is.
    let figures = text.split("untrusted-document-text").nth(1).unwrap();
    assert!(figures.contains("Europe = ~30%"), "{text}");
    assert_eq!(provider.report().calls, 1);
    let without = client.data("describe", page(1)).await;
    assert_eq!(without["figures"], json!([]));
}

#[tokio::test]
async fn describe_is_listed_where_a_model_sees() {
    let provider = Provider::start(Behavior::default()).await.unwrap();
    let mut blind = TestClient::with_model(answer_model(&provider)).await;
    assert!(blind.tools().await["describe"].is_null());
    let refused = blind.call_error("describe", page(2)).await;
    assert_eq!(refused["code"], "vision.no_model");
    assert_eq!(refused["errorCode"], "UNAVAILABLE");
    let (seen, mut other) = seeing(Preset::OpenAi, Behavior::default()).await;
    let refused = other.call("describe", page(2)).await.to_string();
    assert!(refused.contains("tool.unknown"), "{refused}");
    assert_eq!(provider.report().calls + seen.report().calls, 0);
}

#[tokio::test]
async fn describe_refuses_pages_that_are_not_there_and_names_what_a_model_lacks() {
    let blind = Behavior {
        blind: true,
        ..Behavior::default()
    };
    let (provider, mut client) = seeing(Preset::All, blind).await;
    let none = json!({ "doc_name": "nothing", "page": 1 });
    for (arguments, code) in [
        (page(9), "locator.no_page"),
        (page(0), "request.invalid"),
        (none, "locator.not_found"),
    ] {
        let refused = client.call_error("describe", arguments.clone()).await;
        assert_eq!(refused["code"], code, "{arguments}: {refused}");
    }
    assert_eq!(provider.report().calls, 0);
    let refused = client.call_error("describe", page(2)).await;
    assert_eq!(refused["code"], "model.no_images", "{refused}");
    assert_eq!(refused["errorCode"], "UNAVAILABLE", "{refused}");
}
