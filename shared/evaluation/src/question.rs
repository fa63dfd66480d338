//! Questions with gold pages and reference answers.

use serde::Deserialize;
use serde_json::Value;

/// A question in Stemma's own format or in that of FinanceBench's open-source sample.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "RawQuestion")]
pub struct GoldQuestion {
    /// Identifies the question in reports and in the file of a resumed run.
    pub id: String,
    pub question: String,
    /// The document that the question is about, if known.
    pub doc: Option<String>,
    /// Pages that contain the answer, sorted.
    pub gold_pages: Vec<GoldPage>,
    /// The reference answer.
    pub answer: Option<String>,
    /// The unit of its numbers, where it does not say: `USD millions`, `%`.
    pub unit: Option<String>,
    /// How far a number may be off, as a share of it. `None`: half of the last digit of the reference.
    pub tolerance: Option<f64>,
    /// Whether the documents have the answer. If not, only a refusal is right.
    pub answerable: bool,
    /// Kind of question. Means are also given per kind.
    pub kind: String,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct GoldPage {
    /// Set if it is not the document of the question.
    pub doc: Option<String>,
    /// Physical page, from 1.
    pub page: u32,
}

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
    #[serde(default)]
    unit: Option<String>,
    #[serde(default)]
    tolerance: Option<f64>,
    #[serde(default)]
    answerable: Option<bool>,
    #[serde(default, alias = "question_type")]
    kind: Option<String>,
}

#[derive(Deserialize)]
struct RawEvidence {
    #[serde(default, alias = "evidence_doc_name", alias = "doc_name")]
    doc: Option<String>,
    /// From 1.
    #[serde(default)]
    page: Option<u32>,
    /// From 0, as in FinanceBench.
    #[serde(default)]
    evidence_page_num: Option<u32>,
}

impl TryFrom<RawQuestion> for GoldQuestion {
    type Error = String;

    fn try_from(raw: RawQuestion) -> Result<Self, String> {
        if raw.question.trim().is_empty() {
            return Err("`question` is empty".into());
        }
        let doc = raw.doc;
        let mut gold_pages: Vec<GoldPage> = if raw.gold_pages.is_empty() {
            raw.evidence
                .into_iter()
                .filter_map(|evidence| evidence.gold_page(doc.as_ref()))
                .collect()
        } else {
            raw.gold_pages
                .into_iter()
                .map(|page| GoldPage { doc: None, page })
                .collect()
        };
        gold_pages.sort();
        gold_pages.dedup();
        if gold_pages.iter().any(|gold| gold.page == 0) {
            return Err("pages count from 1 (`evidence_page_num` alone counts from 0)".into());
        }
        if raw
            .tolerance
            .is_some_and(|share| !(0.0..1.0).contains(&share))
        {
            return Err("`tolerance` is a share of the number, from 0 to below 1".into());
        }
        let answerable = raw.answerable.unwrap_or(true);
        if !answerable && !gold_pages.is_empty() {
            return Err("a question that is not answerable has no `gold_pages`".into());
        }
        Ok(Self {
            id: plain_text(raw.id),
            question: raw.question,
            doc,
            gold_pages,
            answer: raw
                .answer
                .filter(|answer| !answer.is_null())
                .map(plain_text),
            unit: raw.unit,
            tolerance: raw.tolerance,
            answerable,
            kind: raw.kind.unwrap_or_default(),
        })
    }
}

impl RawEvidence {
    fn gold_page(self, question_doc: Option<&String>) -> Option<GoldPage> {
        let page = self
            .page
            .or_else(|| self.evidence_page_num?.checked_add(1))?;
        Some(GoldPage {
            doc: self.doc.filter(|doc| question_doc != Some(doc)),
            page,
        })
    }
}

fn plain_text(value: Value) -> String {
    match value {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gold::parse_gold;

    #[test]
    fn both_question_formats_are_parsed() {
        let ours = r#"{"id": 7, "question": "Capex?", "doc": "A", "gold_pages": [52, 48, 48], "answer": 1577}"#;
        let theirs = r#"{"financebench_id": "fb_1", "question": "Capex?", "doc_name": "A", "answer": "$1577.00",
            "question_type": "metrics-generated", "justification": "…", "evidence": [
            {"evidence_text": "…", "doc_name": "A", "evidence_page_num": 47},
            {"evidence_text": "…", "evidence_doc_name": "B", "evidence_page_num": 0}]}"#;
        let questions: Vec<GoldQuestion> = parse_gold(&format!("{ours}\n{theirs}")).unwrap();
        let pages = |at: usize| {
            questions[at]
                .gold_pages
                .iter()
                .map(|gold| (gold.doc.clone(), gold.page))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            (questions[0].id.as_str(), questions[0].answer.as_deref()),
            ("7", Some("1577"))
        );
        assert_eq!(pages(0), [(None, 48), (None, 52)]);
        assert_eq!(
            (questions[1].id.as_str(), questions[1].kind.as_str()),
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
            r#"{"id": 1, "question": "x", "tolerance": 5}"#,
            r#"{"id": 1, "question": "x", "answerable": false, "gold_pages": [3]}"#,
        ] {
            assert!(parse_gold::<GoldQuestion>(wrong).is_err(), "{wrong}");
        }
    }
}
