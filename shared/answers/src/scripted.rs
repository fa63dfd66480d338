//! An answerer that knows its answers: for tests of surfaces.

use async_trait::async_trait;

use super::citation::{Citation, CitedRect, Verified};
use super::event::{Sink, Step, StepKind};
use super::record::{Answer, Claim, Dropped, Looked, Outcome, ReadSection, Spent};
use super::{AnswerError, Answerer, Question};
use stemma_document::Digest;

/// Answers from a script, in memory: no index, no store, no model. What it was not told is in no document.
#[derive(Debug, Clone, Default)]
pub struct Scripted {
    lines: Vec<(String, String)>,
    doubted: Vec<String>,
}

impl Scripted {
    /// The same, which answers `text` to questions that contain `words`. Each mark `[n]` in `text` cites a page.
    #[must_use]
    pub fn says(mut self, words: &str, text: &str) -> Self {
        self.lines.push((words.into(), text.into()));
        self
    }

    /// The same, whose claims with `words` are not verified, whatever they cite.
    #[must_use]
    pub fn doubts(mut self, words: &str) -> Self {
        self.doubted.push(words.into());
        self
    }

    /// Each sentence as a claim.
    fn claims(&self, text: &str) -> Vec<Claim> {
        let claim = |sentence: &str| {
            let citations = marks(sentence);
            let doubted = self
                .doubted
                .iter()
                .any(|words| sentence.contains(words.as_str()));
            let verified = !citations.is_empty() && !doubted;
            Claim {
                text: without_marks(sentence),
                citations,
                verified,
                unfounded: Vec::new(),
            }
        };
        text.split_inclusive(". ")
            .map(|sentence| claim(sentence.trim_end()))
            .collect()
    }

    fn made(&self, question: &Question) -> Answer {
        let line = self
            .lines
            .iter()
            .find(|(words, _)| question.text.contains(words.as_str()));
        let text = line.map_or("The documents do not say.", |(_, text)| text.as_str());
        let ids = marks(text);
        let digest =
            Digest::of(format!("{}\n{:?}", question.text, question.earlier).as_bytes()).to_string();
        Answer {
            id: format!("a-{}", &digest[..16]),
            question: question.text.clone(),
            outcome: if line.is_some() {
                Outcome::Answered
            } else {
                Outcome::NotInDocuments
            },
            text: text.to_owned(),
            claims: line.map(|_| self.claims(text)).unwrap_or_default(),
            citations: ids.iter().map(|id| citation(id)).collect(),
            confidence: line.map(|_| 0.9),
            model: Some("scripted".into()),
            degraded: None,
            searched: Looked {
                documents_in_scope: 1,
                documents: 1,
                sections: 1,
                ..Looked::default()
            },
            sections: vec![section()],
            steps: vec![Step {
                kind: StepKind::Search,
                what: "1 section".into(),
                thinking: String::new(),
            }],
            dropped: Dropped::default(),
            usage: Spent {
                calls: 1,
                prompt_tokens: 100,
                output_tokens: 10,
                nanodollars: None,
            },
            replayed: false,
        }
    }
}

#[async_trait]
impl Answerer for Scripted {
    async fn answer(
        &self,
        question: &Question,
        events: &mut dyn Sink,
    ) -> Result<Answer, AnswerError> {
        self.check(question)?;
        let answer = self.made(question);
        answer.retell(events);
        Ok(answer)
    }

    fn id_of(&self, question: &Question) -> String {
        self.made(question).id
    }

    async fn stored(&self, id: &str) -> Result<Option<Answer>, AnswerError> {
        let made = self
            .lines
            .iter()
            .map(|(words, _)| self.made(&Question::of(words.clone())));
        Ok(made.into_iter().find(|answer| answer.id == id))
    }
}

/// The numbers between brackets, each once, in order.
fn marks(text: &str) -> Vec<String> {
    let mut ids: Vec<String> = Vec::new();
    for part in text.split('[').skip(1) {
        let id = part.split(']').next().unwrap_or_default();
        if !id.is_empty()
            && id.bytes().all(|byte| byte.is_ascii_digit())
            && !ids.iter().any(|known| known == id)
        {
            ids.push(id.to_owned());
        }
    }
    ids
}

fn without_marks(text: &str) -> String {
    let mut bare = text.to_owned();
    for id in marks(text) {
        bare = bare
            .replace(&format!(" [{id}]"), "")
            .replace(&format!("[{id}]"), "");
    }
    bare
}

fn section() -> ReadSection {
    ReadSection {
        doc_id: "00000000000000000000000000000000".into(),
        name: "SCRIPTED.pdf".into(),
        section_id: "0001".into(),
        locator: "SCRIPTED#0001".into(),
        path: vec!["Scripted section".into()],
        pages: vec![1],
        lines: None,
        tokens: 10,
        score: 1.0,
        why: "scripted".into(),
        cited: true,
        step: 0,
    }
}

fn citation(id: &str) -> Citation {
    let section = section();
    Citation {
        id: id.into(),
        doc_id: section.doc_id.clone(),
        name: section.name,
        version: 1,
        section_id: section.section_id,
        path: section.path,
        page: Some(1),
        page_label: None,
        line: None,
        quote: "a scripted quote".into(),
        rects: vec![CitedRect {
            page: 1,
            x: 0.1,
            y: 0.1,
            w: 0.5,
            h: 0.02,
        }],
        page_size: Some([612.0, 792.0]),
        verified: Verified::Exact,
        url: format!("/v1/documents/{}/pages?range=1", section.doc_id),
        locator: "SCRIPTED#p=1".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Event;
    use super::*;

    #[tokio::test]
    async fn a_script_is_told_as_it_is_stored() {
        let scripted = Scripted::default().says("capex", "It was 5 [1]. It rose [2] [1].");
        let mut heard: Vec<Event> = Vec::new();
        let answer = scripted
            .answer(&Question::of("capex"), &mut heard)
            .await
            .unwrap();
        assert_eq!(
            scripted.stored(&answer.id).await.unwrap(),
            Some(answer.clone())
        );
        let text: String = heard
            .iter()
            .filter_map(|event| {
                if let Event::Delta { text } = event {
                    Some(text.as_str())
                } else {
                    None
                }
            })
            .collect();
        assert_eq!(text, answer.text);
        let cited: Vec<_> = heard
            .iter()
            .filter(|event| event.name() == "citation")
            .collect();
        assert_eq!(cited.len(), 2);
        assert_eq!(heard.last(), Some(&Event::Done(Box::new(answer))));
        let none = scripted
            .answer(&Question::of("weather"), &mut ())
            .await
            .unwrap();
        assert_eq!(
            (none.outcome, none.citations.len()),
            (Outcome::NotInDocuments, 0)
        );
    }

    #[test]
    fn shapes_are_those_of_the_interfaces() {
        let json = serde_json::to_value(citation("1")).unwrap();
        for name in [
            "id",
            "doc_id",
            "name",
            "section_id",
            "path",
            "page",
            "quote",
            "rects",
            "page_size",
            "verified",
            "url",
        ] {
            assert!(!json[name].is_null(), "{name}");
        }
        assert_eq!(
            (json["verified"].as_str(), json["rects"][0]["page"].as_u64()),
            (Some("exact"), Some(1))
        );
        let event = serde_json::to_value(Event::Delta { text: "x".into() }).unwrap();
        assert_eq!(
            event,
            serde_json::json!({ "event": "delta", "data": { "text": "x" } })
        );
    }
}
