//! An answerer with scripted replies, for tests of interfaces.

use async_trait::async_trait;

use super::answer::{
    Answer, AnswerOutcome, AnswerStep, Claim, GenerationUsage, ReadSection, RejectedCounts,
    SearchSummary, StepKind,
};
use super::citation::Citation;
use super::event::EventSink;
use super::{AnswerError, AnswerMode, Answerer, AskRequest};
use stemma_document::Digest;
use stemma_store::PortResult;
use stemma_verify::{CitedRect, QuoteMatch};

/// Answers from a script in memory: no index, store or model. Any other question is not in the documents.
#[derive(Debug, Clone, Default)]
pub struct ScriptedAnswerer {
    replies: Vec<(String, String)>,
    unverified: Vec<String>,
}

impl ScriptedAnswerer {
    /// Answers `text` to questions that contain `words`. Each mark `[n]` in `text` cites a page.
    #[must_use]
    pub fn with_reply(mut self, words: &str, text: &str) -> Self {
        self.replies.push((words.into(), text.into()));
        self
    }

    /// Marks claims that contain `words` as not verified, whatever they cite.
    #[must_use]
    pub fn with_unverified(mut self, words: &str) -> Self {
        self.unverified.push(words.into());
        self
    }

    // One claim per sentence.
    fn claims(&self, text: &str) -> Vec<Claim> {
        text.split_inclusive(". ")
            .zip(1..)
            .map(|(sentence, number)| {
                let sentence = sentence.trim_end();
                let citations = citation_marks(sentence);
                let is_unverified = self
                    .unverified
                    .iter()
                    .any(|words| sentence.contains(words.as_str()));
                Claim {
                    id: format!("c{number}"),
                    text: strip_marks(sentence),
                    verified: !citations.is_empty() && !is_unverified,
                    citations,
                    computation: None,
                    reason: None,
                    unsupported_numbers: Vec::new(),
                    by_sight: Vec::new(),
                }
            })
            .collect()
    }

    fn build_answer(&self, question: &AskRequest) -> Answer {
        let reply = self
            .replies
            .iter()
            .find(|(words, _)| question.text.contains(words.as_str()));

        let text = reply.map_or("The documents do not say.", |(_, text)| text.as_str());
        let ids = citation_marks(text);
        let digest =
            Digest::from_content(format!("{}\n{:?}", question.text, question.earlier).as_bytes())
                .to_string();
        Answer {
            id: format!("a-{}", &digest[..16]),
            question: question.text.clone(),

            outcome: if reply.is_some() {
                AnswerOutcome::Answered
            } else {
                AnswerOutcome::NotInDocuments
            },
            text: text.to_owned(),
            final_answer: None,
            missing: Vec::new(),

            claims: reply.map(|_| self.claims(text)).unwrap_or_default(),
            citations: ids.iter().map(|id| citation(id)).collect(),

            confidence: reply.map(|_| 0.9),
            mode: AnswerMode::Search,
            model: Some("scripted".into()),
            degradation: None,
            searched: SearchSummary {
                documents_in_scope: 1,
                documents: 1,
                sections: 1,
                ..SearchSummary::default()
            },
            sections: vec![section()],
            steps: vec![AnswerStep {
                kind: StepKind::Search,
                what: "1 section".into(),
                thinking: String::new(),
            }],
            rejected: RejectedCounts::default(),
            usage: GenerationUsage {
                calls: 1,
                prompt_tokens: 100,
                output_tokens: 10,
                nanodollars: None,
            },
            pictures: Vec::new(),
            is_replay: false,
        }
    }
}

#[async_trait]
impl Answerer for ScriptedAnswerer {
    async fn answer(
        &self,
        question: &AskRequest,
        events: &mut dyn EventSink,
    ) -> Result<Answer, AnswerError> {
        self.check(question)?;
        let answer = self.build_answer(question);
        answer.replay(events);
        Ok(answer)
    }

    fn answer_id(&self, question: &AskRequest) -> PortResult<String> {
        Ok(self.build_answer(question).id)
    }

    async fn stored(&self, id: &str) -> Result<Option<Answer>, AnswerError> {
        Ok(self
            .replies
            .iter()
            .map(|(words, _)| self.build_answer(&AskRequest::new(words.clone())))
            .find(|answer| answer.id == id))
    }
}

// Each number once, in order.
fn citation_marks(text: &str) -> Vec<String> {
    let mut ids: Vec<String> = Vec::new();
    for part in text.split('[').skip(1) {
        let id = part.split(']').next().unwrap_or_default();
        if !id.is_empty()
            && id.bytes().all(|byte| byte.is_ascii_digit())
            && !ids.iter().any(|existing| existing == id)
        {
            ids.push(id.to_owned());
        }
    }
    ids
}

fn strip_marks(text: &str) -> String {
    let mut bare = text.to_owned();
    for id in citation_marks(text) {
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
        excerpt: None,
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
        verified: QuoteMatch::Exact,
        ocr_confidence: None,
        url: format!("/v1/documents/{}/pages?range=1", section.doc_id),
        locator: "SCRIPTED#p=1".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::AnswerEvent;
    use super::*;

    #[tokio::test]
    async fn scripted_answer_streams_as_stored() {
        let scripted =
            ScriptedAnswerer::default().with_reply("capex", "It was 5 [1]. It rose [2] [1].");
        let mut events: Vec<AnswerEvent> = Vec::new();
        let answer = scripted
            .answer(&AskRequest::new("capex"), &mut events)
            .await
            .unwrap();
        assert_eq!(
            scripted.stored(&answer.id).await.unwrap(),
            Some(answer.clone())
        );
        let text: String = events
            .iter()
            .filter_map(|event| {
                if let AnswerEvent::Delta { text } = event {
                    Some(text.as_str())
                } else {
                    None
                }
            })
            .collect();
        assert_eq!(text, answer.text);
        let cited: Vec<_> = events
            .iter()
            .filter(|event| event.name() == "citation")
            .collect();
        assert_eq!(cited.len(), 2);
        assert_eq!(events.last(), Some(&AnswerEvent::Done(Box::new(answer))));
        let none = scripted
            .answer(&AskRequest::new("weather"), &mut ())
            .await
            .unwrap();
        assert_eq!(none.outcome, AnswerOutcome::NotInDocuments);
        assert_eq!(none.citations.len(), 0);
    }

    #[test]
    fn json_shape_is_stable() {
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
        assert_eq!(json["verified"], "exact");
        assert_eq!(json["rects"][0]["page"], 1);
        let event = serde_json::to_value(AnswerEvent::Delta { text: "x".into() }).unwrap();
        assert_eq!(
            event,
            serde_json::json!({ "event": "delta", "data": { "text": "x" } })
        );
    }
}
