//! Embeddings: hashed bags of words, so that texts with common words are near each other.

use serde_json::{Value, json};
use stemma_llm::tokens;

const DIMENSIONS: usize = 256;

/// Answers a request in OpenAI's embedding format.
///
/// # Errors
/// The defect of the request.
pub(crate) fn answer(body: &Value) -> Result<(Value, u32), String> {
    let texts: Vec<&str> = match &body["input"] {
        Value::String(text) => vec![text],
        Value::Array(texts) => texts
            .iter()
            .map(|text| text.as_str().ok_or("input: not a text"))
            .collect::<Result<_, _>>()?,
        _ => return Err("input: missing".into()),
    };
    if texts.is_empty() || texts.iter().any(|text| text.is_empty()) {
        return Err("input: empty text".into());
    }
    let dimensions = body["dimensions"]
        .as_u64()
        .map_or(DIMENSIONS, |n| (n as usize).clamp(1, 4_096));
    let tokens = texts
        .iter()
        .map(|text| tokens::count(text))
        .fold(0, u32::saturating_add);
    let data: Vec<_> = texts.iter().enumerate().map(|(index, text): (usize, &&str)| json!({ "object": "embedding", "index": index, "embedding": vector(text, dimensions) })).collect();
    let usage = json!({ "prompt_tokens": tokens, "total_tokens": tokens });
    Ok((
        json!({ "object": "list", "model": body["model"], "data": data, "usage": usage }),
        tokens,
    ))
}

// A vector of length 1. Each word adds or subtracts at the index of its hash.
fn vector(text: &str, dimensions: usize) -> Vec<f32> {
    let mut vector = vec![0.0_f32; dimensions];
    for word in text
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
    {
        let hash = blake3::hash(word.to_lowercase().as_bytes());
        let bytes = hash.as_bytes();
        let place =
            u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize % dimensions;
        vector[place] += if bytes[4] & 1 == 0 { 1.0 } else { -1.0 };
    }
    let length = vector.iter().map(|n| n * n).sum::<f32>().sqrt();
    if length > 0.0 {
        vector.iter_mut().for_each(|n| *n /= length);
    } else {
        vector[0] = 1.0;
    }
    vector
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_sharing_words_have_near_vectors() {
        let near = |a: &str, b: &str| -> f32 {
            vector(a, 256)
                .iter()
                .zip(vector(b, 256))
                .map(|(x, y)| x * y)
                .sum()
        };
        assert!((near("Net sales rose", "net SALES rose!") - 1.0).abs() < 1e-5);
        assert!(
            near("net sales rose", "net sales fell") > near("net sales rose", "legal proceedings")
        );
        let (answer, tokens) =
            answer(&json!({"model": "m", "input": ["a", "b"], "dimensions": 8})).unwrap();
        assert_eq!(
            (
                answer["data"][1]["embedding"].as_array().unwrap().len(),
                tokens
            ),
            (8, 2)
        );
        assert!(
            super::answer(&json!({"input": [""]})).is_err() && super::answer(&json!({})).is_err()
        );
    }
}
