//! How often answers are right: as a model judges them, and by their numbers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use stemma_answers::{Answer, AnswerOutcome};

use crate::SkippedTruth;
use crate::match_documents::DocumentMatcher;
use crate::numbers::states_numbers;
use crate::question::QuestionTruth;
use crate::retrieval::percentile;
use stemma_archive::Archive;

/// Answers against those of experts.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AnswersEval {
    /// Question by question.
    pub questions: Vec<AnswerRow>,
    /// Means of all, and of each kind of question where there are several.
    pub means: Vec<AnswerMeans>,
    /// Questions that were not asked.
    pub unscored: Vec<SkippedTruth>,
}

/// One question, as it was answered: a line of the file that a run goes on from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AnswerRow {
    /// Its id.
    pub id: String,
    /// Its kind.
    #[serde(default)]
    pub kind: String,
    /// The question: a row of another question under the same id is not taken for this one.
    pub question: String,
    /// The stored answer.
    pub answer_id: String,
    /// What came of it.
    pub outcome: AnswerOutcome,
    /// The answer.
    pub answer: String,
    /// The true answer.
    pub truth: Option<String>,
    /// What the judge says; `None` where there is no true answer, or no judge.
    pub judged: Option<Judgement>,
    /// Whether the numbers of the true answer stand in it; `None` where those say nothing.
    pub numbers: Option<bool>,
    /// Whether a citation whose quote stands there names a page that answers; `None` where none is known.
    pub cited: Option<bool>,
    /// Claims, and those of them that are verified.
    pub claims: (usize, usize),
    /// Why it is less than it could be.
    #[serde(default)]
    pub degraded: Option<String>,
    /// Calls of the model, without the judge.
    pub calls: u32,
    /// Tokens of prompts, without the judge.
    pub prompt_tokens: u64,
    /// Tokens of replies, without the judge.
    pub output_tokens: u64,
    /// What that costs, where prices are known.
    pub dollars: Option<f64>,
    /// Tokens that the judge took, prompt and reply.
    #[serde(default)]
    pub judge_tokens: u64,
    /// What that costs, where prices are known.
    #[serde(default)]
    pub judge_dollars: Option<f64>,
    /// How long the answer took, in milliseconds; of one that was stored before, how long it took to read.
    pub latency_ms: f64,
    /// Whether it was stored before.
    #[serde(default)]
    pub replayed: bool,
}

/// What a judge says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judgement {
    /// The verdict.
    pub verdict: AnswerVerdict,
    /// Why, in a sentence.
    pub why: String,
}

/// Whether an answer is right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerVerdict {
    /// It says what the expert says.
    Right,
    /// It does not.
    Wrong,
    /// It says that the documents do not tell.
    Declined,
}

/// Means over questions.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct AnswerMeans {
    /// `all`, or a kind of question.
    pub set: String,
    /// Questions.
    pub questions: usize,
    /// Share that is answered, rather than declined or only searched for.
    pub answered: f64,
    /// Share of judged answers that are right; `None` where none was judged.
    pub judged: Option<f64>,
    /// Answers that were judged.
    pub judged_of: usize,
    /// Share of answers, where numbers say something, that state them.
    pub numbers: Option<f64>,
    /// Answers for which they do.
    pub numbers_of: usize,
    /// Share of answers with a verified citation of a page that answers.
    pub cited: Option<f64>,
    /// Share of claims that are verified.
    pub verified: Option<f64>,
    /// Calls per question.
    pub calls: f64,
    /// Tokens per question, prompt and reply.
    pub tokens: f64,
    /// Dollars of all, where prices are known.
    pub dollars: Option<f64>,
    /// Half of the answers took no longer, in milliseconds; of those that were made now.
    pub p50_ms: f64,
    /// 95 of 100 took no longer.
    pub p95_ms: f64,
}

/// Where a question is asked, and where its answer stands.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QuestionTarget {
    /// The label of its own document, where it names one.
    pub within: Option<String>,
    /// The pages that answer it: ids of documents, and physical pages.
    pub gold: Vec<(String, u32)>,
}

/// Where each question is asked; an error says why one cannot be.
pub fn eval_targets(
    archive: &Archive,
    truths: &[QuestionTruth],
) -> Vec<Result<QuestionTarget, String>> {
    let pairing = DocumentMatcher::new(&archive.catalog);
    truths
        .iter()
        .map(|truth: &QuestionTruth| {
            let own = truth
                .doc
                .as_deref()
                .map(|doc| pairing.find(doc))
                .transpose()?;
            let gold = truth.gold.iter().map(|gold| {
                let listed = gold
                    .doc
                    .as_deref()
                    .map(|doc| pairing.find(doc))
                    .transpose()?
                    .or(own);
                Ok(listed.map(|listed| (listed.doc().to_string(), gold.page)))
            });
            let gold = gold
                .filter_map(Result::transpose)
                .collect::<Result<_, String>>()?;
            Ok(QuestionTarget {
                within: own.map(|listed| listed.label.clone()),
                gold,
            })
        })
        .collect()
}

impl AnswerRow {
    /// A question as it was answered; `gold` are the pages that answer it, as document id and page.
    pub fn new(
        truth: &QuestionTruth,
        answer: &Answer,
        gold: &[(String, u32)],
        latency_ms: f64,
    ) -> Self {
        Self {
            id: truth.id.clone(),
            kind: truth.kind.clone(),
            question: truth.question.clone(),
            answer_id: answer.id.clone(),
            outcome: answer.outcome,
            answer: answer.text.clone(),
            truth: truth.answer.clone(),
            judged: None,
            numbers: truth
                .answer
                .as_deref()
                .and_then(|truth| states_numbers(truth, &answer.text)),
            cited: (!gold.is_empty()).then(|| {
                answer
                    .citations
                    .iter()
                    .any(|citation: &stemma_answers::Citation| {
                        let page = citation.page.map(|page| (citation.doc_id.clone(), page));
                        citation.verified.is_verbatim()
                            && page.is_some_and(|page| gold.contains(&page))
                    })
            }),
            claims: (
                answer.claims.len(),
                answer.claims.iter().filter(|claim| claim.verified).count(),
            ),
            degraded: answer
                .degradation
                .as_ref()
                .map(|degraded| degraded.code.clone()),
            calls: answer.usage.calls,
            prompt_tokens: answer.usage.prompt_tokens,
            output_tokens: answer.usage.output_tokens,
            dollars: answer.usage.nanodollars.map(|nanos| nanos as f64 / 1e9),
            judge_tokens: 0,
            judge_dollars: None,
            latency_ms,
            replayed: answer.is_replay,
        }
    }

    /// Tokens it took, prompt and reply.
    pub fn tokens(&self) -> u64 {
        self.prompt_tokens + self.output_tokens
    }
}

impl AnswersEval {
    /// Rows with their means.
    pub fn from_rows(questions: Vec<AnswerRow>, unscored: Vec<SkippedTruth>) -> Self {
        let mut kinds: BTreeMap<&str, Vec<&AnswerRow>> = BTreeMap::new();
        questions
            .iter()
            .for_each(|row| kinds.entry(&row.kind).or_default().push(row));
        let all =
            (!questions.is_empty()).then(|| means_of("all", &questions.iter().collect::<Vec<_>>()));
        let several = if kinds.len() > 1 {
            kinds
        } else {
            BTreeMap::new()
        };
        let means = all
            .into_iter()
            .chain(several.iter().map(|(kind, rows)| means_of(kind, rows)))
            .collect();
        Self {
            questions,
            means,
            unscored,
        }
    }
}

fn means_of(set: &str, rows: &[&AnswerRow]) -> AnswerMeans {
    let count = rows.len().max(1) as f64;
    let judged: Vec<bool> = rows
        .iter()
        .filter_map(|row| row.judged.as_ref())
        .map(|one| one.verdict == AnswerVerdict::Right)
        .collect();
    let numbers: Vec<bool> = rows.iter().filter_map(|row| row.numbers).collect();
    let cited: Vec<bool> = rows.iter().filter_map(|row| row.cited).collect();
    let share = |of: &[bool]| {
        (!of.is_empty()).then(|| of.iter().filter(|yes| **yes).count() as f64 / of.len() as f64)
    };
    let (claims, verified) = rows.iter().fold((0, 0), |sum, row| {
        (sum.0 + row.claims.0, sum.1 + row.claims.1)
    });
    let fresh: Vec<f64> = rows
        .iter()
        .filter(|row| !row.replayed)
        .map(|row| row.latency_ms)
        .collect();
    // What was stored before cost nothing now.
    let dollars: Option<Vec<f64>> = rows
        .iter()
        .filter(|row| !row.replayed)
        .map(|row| row.dollars)
        .collect();
    AnswerMeans {
        set: set.into(),
        questions: rows.len(),
        answered: rows
            .iter()
            .filter(|row| row.outcome == AnswerOutcome::Answered)
            .count() as f64
            / count,
        judged: share(&judged),
        judged_of: judged.len(),
        numbers: share(&numbers),
        numbers_of: numbers.len(),
        cited: share(&cited),
        verified: (claims > 0).then(|| verified as f64 / claims as f64),
        calls: rows.iter().map(|row| f64::from(row.calls)).sum::<f64>() / count,
        tokens: rows.iter().map(|row| row.tokens() as f64).sum::<f64>() / count,
        dollars: dollars.map(|all| all.iter().sum()),
        p50_ms: percentile(&fresh, 0.50),
        p95_ms: percentile(&fresh, 0.95),
    }
}

#[cfg(test)]
mod tests {
    use stemma_answers::{Answerer, AskRequest, ScriptedAnswerer};

    use super::*;

    #[tokio::test]
    async fn rows_and_means_count_correct_answers() {
        let scripted =
            ScriptedAnswerer::default().with_reply("capex", "It was $1,577 million [1].");
        let truth = |text: &str| {
            let json = format!(
                r#"{{"id": 1, "question": "{text}", "answer": "$1577.00", "gold_pages": [1]}}"#
            );
            serde_json::from_str::<QuestionTruth>(&json).unwrap()
        };
        let mut rows = Vec::new();
        for text in ["capex?", "weather?"] {
            let answer = scripted
                .answer(&AskRequest::new(text), &mut ())
                .await
                .unwrap();
            let gold = [("00000000000000000000000000000000".to_owned(), 1)];
            rows.push(AnswerRow::new(&truth(text), &answer, &gold, 8.0));
        }
        rows[0].judged = Some(Judgement {
            verdict: AnswerVerdict::Right,
            why: String::new(),
        });
        let eval = AnswersEval::from_rows(rows, Vec::new());
        let means = &eval.means[0];
        assert_eq!(
            (means.answered, means.judged, means.judged_of),
            (0.5, Some(1.0), 1)
        );
        assert_eq!(
            (means.numbers, means.cited, means.verified),
            (Some(0.5), Some(0.5), Some(1.0))
        );
        assert_eq!(
            (means.tokens, means.p95_ms, means.dollars),
            (110.0, 8.0, None)
        );
        let line = serde_json::to_string(&eval.questions[0]).unwrap();
        assert_eq!(
            serde_json::from_str::<AnswerRow>(&line).unwrap(),
            eval.questions[0]
        );
    }
}
