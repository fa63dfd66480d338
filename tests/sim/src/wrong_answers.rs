//! Wrong answers of the right shape.

use serde_json::{Value, json};

use crate::oracle::summary;
use crate::question::{PromptRequest, RequestStage};
use crate::seeded::SeededRng;

/// A wrong answer instead of the correct one.
pub(crate) fn wrong_answer(good: &Value, question: &PromptRequest, seed: u64) -> Value {
    let mut rng = SeededRng::new(seed, "lie", question.user.as_bytes());
    let pages: Vec<u64> = question
        .blocks_named("Page")
        .map(|block| block.number)
        .collect();
    let mut lie = good.clone();
    match question.stage {
        RequestStage::Transcribe => list(&mut lie, "lines", |lines| {
            lines.iter_mut().for_each(|line| {
                *line = changed(line.as_str().unwrap_or_default()).into();
            });
        }),
        RequestStage::DescribePage => list(&mut lie, "figures", |figures| {
            for figure in figures {
                figure["shows"] = "Another".into();
            }
        }),
        RequestStage::ReadWindow => list(&mut lie, "sections", |sections| {
            misread(sections, &pages, &mut rng);
        }),
        RequestStage::Summarize => {
            let another = |value: &mut Value| {
                *value = summary(&format!("No word of this is so: {value}")).into();
            };
            if lie["summary"].is_string() {
                another(&mut lie["summary"]);
            }
            list(&mut lie, "summaries", |all| {
                all.iter_mut().for_each(|one| another(&mut one["summary"]));
            });
        }
        RequestStage::Describe => all(&mut lie, |value| *value = "Another".into()),
        RequestStage::Analyze => lie["topic"] = "another".into(),
        RequestStage::RouteDocuments | RequestStage::ScoreSections => {
            list(&mut lie, question.stage.property(), inverted);
        }
        RequestStage::Restate => lie["standalone"] = "What is something else?".into(),
        RequestStage::Judge => {
            lie["judged_verdict"] = if good["judged_verdict"] == "right" {
                "wrong"
            } else {
                "right"
            }
            .into();
        }
        RequestStage::ChooseTool => {
            (lie["tool"], lie["document"]) = ("delete_document".into(), "another".into());
        }
        RequestStage::Answer => {
            lie["answerable"] = true.into();
            let none = lie["claims"].as_array().is_none_or(Vec::is_empty);
            if none {
                lie["claims"] = json!([{ "statement": "It was so.", "citations": [{ "passage": 1, "quote": "it was so" }], "figures": [] }]);
            }
            list(&mut lie, "claims", |claims| {
                claims
                    .iter_mut()
                    .for_each(|claim| misclaim(claim, &mut rng));
            });
        }
        RequestStage::Other => {}
    }
    lie
}

// A false claim: another number, an invented quote, a passage that was not shown, all of these, or a false
// number in the statement alone.
fn misclaim(claim: &mut Value, rng: &mut SeededRng) {
    let statement = claim["statement"].as_str().unwrap_or_default();
    let changed = changed(statement);
    let quote = |claim: &mut Value, quote: &str| {
        list(claim, "citations", |all| {
            all.iter_mut().for_each(|one| one["quote"] = quote.into());
        });
    };
    let passage = |claim: &mut Value, number: u64| {
        list(claim, "citations", |all| {
            all.iter_mut()
                .for_each(|one| one["passage"] = number.into());
        });
    };
    let way = rng.below(4);
    if way == 1 || way == 3 {
        quote(claim, &changed);
    }
    if way == 2 {
        passage(claim, 900 + rng.below(99) as u64);
    }
    list(claim, "figures", |figures| {
        for figure in figures {
            figure["value"] = "987,654,321".into();
        }
    });
    claim["statement"] = changed.into();
}

// Changes the first digit of each number, and adds an invented number.
fn changed(text: &str) -> String {
    let mut changed = String::new();
    let mut inside = false;
    for c in text.chars() {
        let other = if c.is_ascii_digit() && !inside {
            char::from(b'1' + (c as u8 - b'0' + 1) % 9)
        } else {
            c
        };
        inside = c.is_ascii_digit() || (inside && matches!(c, ',' | '.'));
        changed.push(other);
    }
    format!("{changed} It came to $987,654,321 million.")
}

fn all(object: &mut Value, change: impl Fn(&mut Value)) {
    object
        .as_object_mut()
        .into_iter()
        .flat_map(|object| object.values_mut())
        .for_each(change);
}

fn list(object: &mut Value, name: &str, change: impl FnOnce(&mut Vec<Value>)) {
    if let Some(list) = object.get_mut(name).and_then(Value::as_array_mut) {
        change(list);
    }
}

// Inverts the scores, and adds an unknown section as the best.
fn inverted(list: &mut Vec<Value>) {
    for one in list.iter_mut() {
        one["score"] = (1.0 - one["score"].as_f64().unwrap_or(0.0)).into();
    }
    list.push(json!({ "id": "99999999", "document": 999, "score": 1.0, "reason": "invented" }));
}

// A shown page other than the right one; 0 if there is none.
fn other_page(pages: &[u64], right: Option<u64>, rng: &mut SeededRng) -> u64 {
    let others: Vec<u64> = pages
        .iter()
        .copied()
        .filter(|page| Some(*page) != right)
        .collect();
    others.get(rng.below(others.len())).copied().unwrap_or(0)
}

// One of: every other section missing, all on other pages, one invented, or all titles
// shifted by one.
fn misread(sections: &mut Vec<Value>, pages: &[u64], rng: &mut SeededRng) {
    match rng.below(4) {
        0 => {
            let mut keep = false;
            sections.retain(|_| {
                keep = !keep;
                keep
            });
        }
        1 => {
            for section in sections.iter_mut() {
                let other = other_page(pages, section["page"].as_u64(), rng);
                section["page"] = other.max(1).into();
            }
        }
        2 => {
            let invented = json!({ "number": "", "title": "Matters of Another Kind", "level": 1 });
            let mut section = sections
                .first()
                .cloned()
                .unwrap_or_else(|| invented.clone());
            for name in ["number", "title", "level"] {
                section[name] = invented[name].clone();
            }
            section["page"] = other_page(pages, None, rng).into();
            sections.insert(rng.below(sections.len() + 1), section);
        }
        _ => {
            let titles: Vec<Value> = sections
                .iter()
                .map(|section| section["title"].clone())
                .collect();
            for (at, section) in sections.iter_mut().enumerate() {
                section["title"] = titles[(at + 1) % titles.len()].clone();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(stage: RequestStage, user: &str) -> PromptRequest {
        let message = json!({ "role": "user", "content": user });
        let mut question = PromptRequest::parse(&json!({ "messages": [message] })).unwrap();
        question.stage = stage;
        question
    }

    #[test]
    fn wrong_answers_keep_the_shape_and_differ() {
        let pages: Vec<_> = (1..4)
            .map(|n| format!("Page {n}:\n[0123456789abcdef]\nx\n[/0123456789abcdef]"))
            .collect();
        let pages = pages.join("\n\n");
        let window =
            |n: u64| json!({"number": "", "title": format!("T{n}"), "page": n, "level": 1});
        let cases = [
            (
                RequestStage::ReadWindow,
                json!({"sections": [window(1), window(2)]}),
            ),
            (
                RequestStage::Summarize,
                json!({"summaries": [{"section": 1, "summary": "a"}]}),
            ),
            (RequestStage::Summarize, json!({"summary": "a"})),
            (
                RequestStage::Describe,
                json!({"description": "a", "form": "10-K"}),
            ),
            (
                RequestStage::Answer,
                json!({"answerable": true, "claims": [{"statement": "It was 5.", "citations": [{"passage": 1, "quote": "5"}]}], "confidence": 0.9}),
            ),
            (
                RequestStage::Answer,
                json!({"answerable": false, "claims": [], "confidence": 0.9}),
            ),
            (RequestStage::Restate, json!({"standalone": "a"})),
            (
                RequestStage::ChooseTool,
                json!({"tool": "search", "document": "a"}),
            ),
            (
                RequestStage::ScoreSections,
                json!({"sections": [{"id": "0001", "score": 0.9}]}),
            ),
        ];
        for (stage, good) in cases {
            for n in 0..20 {
                let question = question(stage, &format!("{pages}\n{n}"));
                let lie = wrong_answer(&good, &question, 1);
                assert_ne!(lie, good, "{}", stage.name());
                assert_eq!(lie, wrong_answer(&good, &question, 1));
                let keys = |value: &Value| {
                    value
                        .as_object()
                        .unwrap()
                        .keys()
                        .cloned()
                        .collect::<Vec<_>>()
                };
                assert_eq!(keys(&lie), keys(&good));
                let sections = lie["sections"].as_array().into_iter().flatten();
                assert!(
                    sections
                        .filter_map(|one| one["page"].as_u64())
                        .all(|page| (1..=3).contains(&page)),
                    "{lie}"
                );
            }
        }
    }
}
