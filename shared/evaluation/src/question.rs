//! Questions whose answer, and whose pages, are known.

use serde::Deserialize;
use serde_json::Value;

/// A question of a file: our own fields, or those of FinanceBench's open-source sample as they are.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "RawQuestion")]
pub struct QuestionTruth {
    /// Names it in tables and in the file that a run goes on from.
    pub id: String,
    /// The question.
    pub question: String,
    /// The document it is about, where that is known.
    pub doc: Option<String>,
    /// The pages an answer stands on.
    pub gold: Vec<GoldPage>,
    /// The answer, in words.
    pub answer: Option<String>,
    /// What kind of question it is: means are given for each kind.
    pub kind: String,
}

/// A page an answer stands on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GoldPage {
    /// The document, where it is another than that of the question.
    pub doc: Option<String>,
    /// Physical page, from 1.
    pub page: u32,
}

/// A question as files have it.
#[derive(Deserialize)]
struct RawQuestion {
    #[serde(alias = "financebench_id")]
    id: Value,
    #[serde(alias = "query")]
    question: String,
    #[serde(default, alias = "doc_name")]
    doc: Option<String>,
    #[serde(default, alias = "pages")]
    gold_pages: Vec<u32>,
    #[serde(default)]
    evidence: Vec<RawEvidence>,
    #[serde(default)]
    answer: Option<Value>,
    #[serde(default, alias = "question_type")]
    kind: Option<String>,
}

/// A passage that speaks for an answer.
#[derive(Deserialize)]
struct RawEvidence {
    #[serde(default, alias = "evidence_doc_name", alias = "doc_name")]
    doc: Option<String>,
    /// From 1.
    #[serde(default)]
    page: Option<u32>,
    /// FinanceBench counts from 0.
    #[serde(default)]
    evidence_page_num: Option<u32>,
}

impl TryFrom<RawQuestion> for QuestionTruth {
    type Error = String;

    fn try_from(written: RawQuestion) -> Result<Self, String> {
        let RawQuestion {
            id,
            question,
            doc,
            gold_pages,
            evidence,
            answer,
            kind,
        } = written;
        let plain = |value: Value| match value {
            Value::String(text) => text,
            other => other.to_string(),
        };
        if question.trim().is_empty() {
            return Err("`question` is empty".into());
        }
        let mut gold: Vec<GoldPage> = gold_pages
            .into_iter()
            .map(|page| GoldPage { doc: None, page })
            .collect();
        if gold.is_empty() {
            gold = evidence
                .into_iter()
                .filter_map(|one: RawEvidence| {
                    let page = one
                        .page
                        .or_else(|| one.evidence_page_num.and_then(|page| page.checked_add(1)))?;
                    Some(GoldPage {
                        doc: one.doc.filter(|other| doc.as_ref() != Some(other)),
                        page,
                    })
                })
                .collect();
        }
        gold.sort_by(|a, b| (&a.doc, a.page).cmp(&(&b.doc, b.page)));
        gold.dedup();
        if gold.iter().any(|gold| gold.page == 0) {
            return Err("pages count from 1 (`evidence_page_num` alone counts from 0)".into());
        }
        let answer = answer.filter(|answer| !answer.is_null()).map(plain);
        Ok(Self {
            id: plain(id),
            question,
            doc,
            gold,
            answer,
            kind: kind.unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::truth::read;

    #[test]
    fn both_question_formats_are_parsed() {
        let ours = r#"{"id": 7, "question": "Capex?", "doc": "A", "gold_pages": [52, 48, 48], "answer": 1577}"#;
        let theirs = r#"{"financebench_id": "fb_1", "question": "Capex?", "doc_name": "A", "answer": "$1577.00",
            "question_type": "metrics-generated", "justification": "…", "evidence": [
            {"evidence_text": "…", "doc_name": "A", "evidence_page_num": 47},
            {"evidence_text": "…", "evidence_doc_name": "B", "evidence_page_num": 0}]}"#;
        let read: Vec<QuestionTruth> = read(&format!("{ours}\n{theirs}")).unwrap();
        let pages = |at: usize| {
            read[at]
                .gold
                .iter()
                .map(|gold| (gold.doc.clone(), gold.page))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            (read[0].id.as_str(), read[0].answer.as_deref()),
            ("7", Some("1577"))
        );
        assert_eq!(pages(0), [(None, 48), (None, 52)]);
        assert_eq!(
            (read[1].id.as_str(), read[1].kind.as_str()),
            ("fb_1", "metrics-generated")
        );
        assert_eq!(pages(1), [(None, 48), (Some("B".into()), 1)]);
    }

    #[test]
    fn invalid_questions_are_refused() {
        for wrong in [
            r#"{"question": "x"}"#,
            r#"{"id": 1, "question": " "}"#,
            r#"{"id": 1, "question": "x", "gold_pages": [0]}"#,
            r#"{"id": 1}"#,
        ] {
            assert!(read::<QuestionTruth>(wrong).is_err(), "{wrong}");
        }
    }
}
