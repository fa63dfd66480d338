//! Images in questions. What they show is what a test says: the simulated model has no eyes.

use std::collections::HashMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::dialect::WireDialect;
use crate::question::PromptRequest;
use crate::seeded::SeededRng;

// Anthropic's limits of an image.
const MAX_BASE64_BYTES: usize = 5_000_000;
const MAX_SIDE: u32 = 8_000;

/// An image of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptImage {
    /// Digest of its bytes.
    pub digest: blake3::Hash,
    /// In pixels.
    pub width: u32,
    pub height: u32,
}

impl PromptImage {
    /// The images of a message, in order.
    ///
    /// # Errors
    /// What a provider says about the first image that it does not take.
    pub(crate) fn from_content(content: &Value) -> Result<Vec<Self>, String> {
        let parts = content.as_array().into_iter().flatten();
        parts.filter_map(encoded_image).map(Self::decode).collect()
    }

    fn decode(encoded: Option<(&str, &str)>) -> Result<Self, String> {
        let (media_type, data) = encoded.ok_or("image: no data in base64")?;
        if media_type != "image/png" {
            return Err(format!("image: {media_type} is not simulated"));
        }
        if data.len() > MAX_BASE64_BYTES {
            return Err(format!("image: exceeds {MAX_BASE64_BYTES} bytes"));
        }
        let bytes = STANDARD
            .decode(data)
            .map_err(|error| format!("image: {error}"))?;
        let (width, height) = png_size(&bytes).ok_or("image: could not process image")?;
        if width.max(height) > MAX_SIDE {
            return Err(format!("image: more than {MAX_SIDE} pixels on a side"));
        }
        Ok(Self {
            digest: blake3::hash(&bytes),
            width,
            height,
        })
    }

    /// The tokens that a provider bills: Anthropic a 750th of the pixels, at most 1,600, and OpenAI 85 and 170 for each tile of
    /// 512 pixels, after it has made the image smaller.
    pub(crate) fn tokens(&self, dialect: WireDialect) -> u32 {
        let [width, height] = [self.width, self.height].map(f64::from);
        match dialect {
            WireDialect::Anthropic => ((width * height / 750.0).ceil() as u32).min(1_600),
            WireDialect::OpenAi => {
                let fits = (2_048.0 / width.max(height)).min(1.0);
                let scale = fits * (768.0 / (fits * width.min(height))).min(1.0);
                let tiles = |side: f64| (side * scale / 512.0).ceil() as u32;
                85 + 170 * tiles(width) * tiles(height)
            }
        }
    }
}

// Media type and data of an image; `None` for other parts, and inside for an image that is not given in base64.
fn encoded_image(part: &Value) -> Option<Option<(&str, &str)>> {
    match part["type"].as_str()? {
        "image_url" => {
            let url = part["image_url"]["url"].as_str().unwrap_or_default();
            let data = url.strip_prefix("data:");
            Some(data.and_then(|data| data.split_once(";base64,")))
        }
        "image" => {
            let source = &part["source"];
            let is_base64 = source["type"] == "base64";
            let media_type = source["media_type"].as_str().filter(|_| is_base64);
            Some(media_type.zip(source["data"].as_str()))
        }
        _ => None,
    }
}

fn png_size(bytes: &[u8]) -> Option<(u32, u32)> {
    let header = bytes.strip_prefix(b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR")?;
    let side = |at: usize| {
        let bytes = header.get(at..at + 4)?.try_into().ok()?;
        Some(u32::from_be_bytes(bytes)).filter(|side| *side > 0)
    };
    Some((side(0)?, side(4)?))
}

/// The texts on images, by the digests of the images.
#[derive(Debug, Clone, Default)]
pub(crate) struct ImageTexts(HashMap<blake3::Hash, String>);

impl ImageTexts {
    pub(crate) fn add(&mut self, image: &[u8], text: &str) {
        self.0.insert(blake3::hash(image), text.into());
    }

    /// The texts on the images of a question. An unknown image shows nothing.
    pub(crate) fn texts_for(&self, question: &PromptRequest) -> Vec<&str> {
        let texts = question
            .images
            .iter()
            .map(|image| self.0.get(&image.digest));
        texts.map(|text| text.map_or("", String::as_str)).collect()
    }
}

/// The lines on images, with a share of the words misread.
pub(crate) fn transcribe(texts: &[&str], misreads: f64, seed: u64) -> Value {
    let lines = texts.iter().flat_map(|text| text.lines());
    let lines: Vec<String> = lines
        .enumerate()
        .map(|(at, line)| {
            let about = format!("{at} {line}");
            let mut rng = SeededRng::new(seed, "misread", about.as_bytes());
            let words = line.split_whitespace().map(|word| {
                if rng.chance(misreads) {
                    misread(word)
                } else {
                    word.to_owned()
                }
            });
            words.collect::<Vec<_>>().join(" ")
        })
        .collect();
    json!({ "lines": lines })
}

/// The figures on images: of each, the first line is the title, and lines of the form `label: value` are its values.
pub(crate) fn describe(texts: &[&str]) -> Value {
    let shown = texts.iter().filter(|text| !text.trim().is_empty());
    let figures = shown.map(|text| {
        let title = text.lines().next().unwrap_or_default();
        let values = text.lines().filter_map(|line| line.split_once(": "));
        let values = values.map(|(label, value)| json!({ "label": label, "value": value }));
        let values: Vec<Value> = values.collect();
        json!({ "title": title, "kind": "chart", "shows": format!("It shows {title}."), "values": values })
    });
    json!({ "figures": figures.collect::<Vec<_>>() })
}

/// An answer with a claim for each line on an image that shares a longer word with the question.
pub(crate) fn with_seen_claims(
    mut answer: Value,
    question: &PromptRequest,
    texts: &[&str],
) -> Value {
    if !question.takes_pictures() {
        return answer;
    }
    let words = |text: &str| -> Vec<String> {
        text.split(|c: char| !c.is_alphanumeric())
            .filter(|word| word.chars().count() > 4)
            .map(str::to_lowercase)
            .collect()
    };
    let asked = question.blocks_named("Question").next();
    let asked = asked.map_or_else(Vec::new, |block| words(&block.text));
    let mut seen = Vec::new();
    for (number, text) in (1_u64..).zip(texts) {
        for line in text.lines() {
            if words(line).iter().any(|word| asked.contains(word)) {
                seen.push(json!({ "statement": line, "citations": [], "figures": [], "pictures": [number] }));
            }
        }
    }
    if let Some(claims) = answer["claims"].as_array_mut().filter(|_| !seen.is_empty()) {
        claims.extend(seen);
        answer["answerable"] = true.into();
    }
    answer
}

// The next digit for the last one, or a letter more.
fn misread(word: &str) -> String {
    match word.rfind(|c: char| c.is_ascii_digit()) {
        Some(at) => {
            let digit = (word.as_bytes()[at] - b'0' + 1) % 10;
            format!("{}{digit}{}", &word[..at], &word[at + 1..])
        }
        None => format!("{word}l"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn png(width: u32, height: u32) -> Vec<u8> {
        let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR".to_vec();
        bytes.extend(width.to_be_bytes());
        bytes.extend(height.to_be_bytes());
        bytes
    }

    fn openai(bytes: &[u8]) -> Value {
        let url = format!("data:image/png;base64,{}", STANDARD.encode(bytes));
        json!([{ "type": "image_url", "image_url": { "url": url } }, { "type": "text", "text": "x" }])
    }

    fn anthropic(bytes: &[u8]) -> Value {
        let data = STANDARD.encode(bytes);
        json!([{ "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": data } }])
    }

    #[test]
    fn images_of_both_dialects_are_decoded() {
        let page = png(1_212, 1_568);
        let images = PromptImage::from_content(&openai(&page)).unwrap();
        assert_eq!(
            images,
            PromptImage::from_content(&anthropic(&page)).unwrap()
        );
        let [image] = &images[..] else {
            panic!("{images:?}")
        };
        assert_eq!((image.width, image.height), (1_212, 1_568));
        assert_eq!(PromptImage::from_content(&"text".into()), Ok(Vec::new()));
        for broken in [
            openai(b"not a png"),
            openai(&png(9_000, 10)),
            json!([{ "type": "image_url", "image_url": { "url": "https://example.com/a.png" } }]),
            json!([{ "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": "%" } }]),
        ] {
            assert!(PromptImage::from_content(&broken).is_err(), "{broken}");
        }
    }

    #[test]
    fn tokens_are_those_of_the_providers() {
        let tokens = |width, height| {
            let image = &PromptImage::from_content(&openai(&png(width, height))).unwrap()[0];
            [WireDialect::OpenAi, WireDialect::Anthropic].map(|dialect| image.tokens(dialect))
        };
        assert_eq!(tokens(1_024, 1_024), [765, 1_399]);
        assert_eq!(tokens(2_048, 4_096), [1_105, 1_600]);
        assert_eq!(tokens(200, 200), [255, 54]);
    }

    #[test]
    fn figures_have_the_values_of_their_lines() {
        assert_eq!(describe(&["", " "]), json!({ "figures": [] }));
        let described = describe(&["Sales by region\nAsia: 45%\n2022"]);
        let figure = &described["figures"][0];
        assert_eq!(figure["title"], "Sales by region");
        assert_eq!(
            figure["values"],
            json!([{ "label": "Asia", "value": "45%" }])
        );
    }

    #[test]
    fn a_share_of_the_words_is_misread() {
        let text = "Net sales 1,239\nCost (45)";
        let lines = |misreads| transcribe(&[text], misreads, 1)["lines"].clone();
        assert_eq!(lines(0.0), json!(["Net sales 1,239", "Cost (45)"]));
        assert_eq!(lines(1.0), json!(["Netl salesl 1,230", "Costl (46)"]));
    }
}
