//! Scores answers to questions with reference answers: by a judge model, by their numbers and by their citations; and says why
//! those that are not right are not.

use serde::{Deserialize, Serialize};
use stemma_answers::{Answer, AnswerMode, AnswerOutcome, Citation, Claim, ClaimState, ReadSection};
use stemma_archive::{ApiError, Archive};
use stemma_reading::text_words::words;
use stemma_reading::vocabulary::VERDICTS;

use crate::SkippedEntry;
use crate::match_documents::DocumentMatcher;
use crate::means::{means_by_group, percentile, share};
use crate::numbers::{ReferenceNumbers, count_numbers};
use crate::question::GoldQuestion;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AnswersEval {
    pub questions: Vec<AnswerRow>,
    /// Means of all questions, and of each kind if there are several.
    pub means: Vec<AnswerMeans>,
    /// Questions that were not asked.
    #[serde(rename = "unscored")]
    pub skipped: Vec<SkippedEntry>,
}

/// An answered question: one line of the file from which a run resumes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AnswerRow {
    pub id: String,
    #[serde(default)]
    pub kind: String,
    /// A row of another question under the same id is not reused.
    pub question: String,
    /// Id of the stored answer.
    pub answer_id: String,
    pub outcome: AnswerOutcome,
    /// Whether tools were called for it.
    #[serde(default)]
    pub mode: AnswerMode,
    pub answer: String,
    /// Whether the documents have the answer, according to the question.
    #[serde(default = "answerable_by_default")]
    pub answerable: bool,
    /// The reference answer.
    #[serde(rename = "truth")]
    pub reference: Option<String>,
    /// `None` without a reference answer or without a judge.
    pub judged: Option<Judgement>,
    /// Whether the final answer has the number of the reference, or the answer has all of them. `None` if the reference has
    /// none to compare.
    pub numbers: Option<bool>,
    /// Whether the answer is yes where the reference answer is, and no where that is no. `None` where it is neither.
    #[serde(default)]
    pub verdict: Option<bool>,
    /// Whether all gold pages were put before the model. `None` without gold pages.
    #[serde(default)]
    pub pages_read: Option<bool>,
    /// Share of the text put before the model that is in sections it cites. `None` if nothing was read.
    #[serde(default)]
    pub text_used: Option<f64>,
    /// Whether a verified citation names a gold page. `None` without gold pages.
    pub cited: Option<bool>,
    /// Claims by state.
    pub claims: ClaimCounts,
    /// Why it is not right. `None` if it is, or if nothing tells.
    #[serde(default)]
    pub miss: Option<MissCause>,
    /// Code of the degradation, if any.
    #[serde(default)]
    pub degraded: Option<String>,
    /// Model calls, without the judge.
    pub calls: u32,
    /// Without the judge.
    pub prompt_tokens: u64,
    /// Without the judge.
    pub output_tokens: u64,
    /// Cost without the judge. `None` if the prices are unknown.
    pub dollars: Option<f64>,
    /// Tokens of the judge, prompt and output.
    #[serde(default)]
    pub judge_tokens: u64,
    /// Cost of the judge. `None` if the prices are unknown.
    #[serde(default)]
    pub judge_dollars: Option<f64>,
    /// Time to answer, or to read a stored answer.
    pub latency_ms: f64,
    /// The answer was stored before.
    #[serde(default)]
    pub replayed: bool,
}

/// The verdict of the judge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judgement {
    pub verdict: AnswerVerdict,
    /// The reason, in a sentence.
    pub why: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerVerdict {
    /// Agrees with the reference answer.
    Right,
    /// Disagrees with it.
    Wrong,
    /// States that the documents do not contain the answer.
    Declined,
}

/// Why an answer is not right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MissCause {
    /// A gold page was not put before the model.
    PageNotRead,
    /// The model had the pages, and its answer is wrong.
    WrongAnswer,
    /// The model had the pages, and said that the documents do not say.
    Refused,
    /// The documents do not say, and there is an answer.
    Invented,
}

/// Answers that are not right, by cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct MissCounts {
    pub page_not_read: usize,
    pub wrong_answer: usize,
    pub refused: usize,
    pub invented: usize,
}

/// Means over questions.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct AnswerMeans {
    /// `all`, or a kind of question.
    pub set: String,
    pub questions: usize,
    /// Share with an answer, rather than a decline or a search result.
    pub answered: f64,
    /// Share that is right: by the judge, else by its verdict, else by its numbers; a refusal if the documents do not say. `None` if
    /// nothing tells.
    pub right: Option<f64>,
    /// Answers for which that is known.
    pub right_of: usize,
    /// Share of judged answers that are right. `None` if none was judged.
    pub judged: Option<f64>,
    /// Judged answers.
    pub judged_of: usize,
    /// Share of answers that have the numbers of the reference.
    pub numbers: Option<f64>,
    /// Answers whose reference has numbers to compare.
    pub numbers_of: usize,
    /// Share of answers with a verified citation of a gold page.
    pub cited: Option<f64>,
    /// Share of answers whose gold pages were all put before the model.
    pub pages_read: Option<f64>,
    /// Mean share of the text put before the model that is in sections it cites.
    pub text_used: Option<f64>,
    /// Share of claims whose figures are those of cited cells and sentences.
    pub verified: Option<f64>,
    /// Share of claims with a figure that is computed from such.
    pub computed: Option<f64>,
    /// Share of claims without a figure whose quotes are on their pages.
    pub quoted: Option<f64>,
    /// Questions that the documents do not answer.
    pub unanswerable: usize,
    /// Share of these that are refused.
    pub rightly_refused: Option<f64>,
    /// Share of the others that are refused.
    pub falsely_refused: Option<f64>,
    pub misses: MissCounts,
    /// Share for which tools were called.
    pub agent: f64,
    /// Model calls per question.
    pub calls: f64,
    /// Prompt and output tokens per question.
    pub tokens: f64,
    /// Total cost of new answers. `None` if the prices are unknown.
    pub dollars: Option<f64>,
    /// Median latency of new answers.
    pub p50_ms: f64,
    /// 95th percentile of the latency of new answers.
    pub p95_ms: f64,
}

/// The scope of a question and its gold pages.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QuestionTarget {
    /// Locator of the document of the question.
    pub within: Option<String>,
    /// Document ids and physical pages.
    pub gold_pages: Vec<(String, u32)>,
}

/// Resolves the documents of each question; the inner error is the reason why the question is skipped.
///
/// # Errors
/// [`ApiError`] if the catalog cannot be read.
pub fn eval_targets(
    archive: &Archive,
    questions: &[GoldQuestion],
) -> Result<Vec<Result<QuestionTarget, String>>, ApiError> {
    let matcher = DocumentMatcher::new(&archive.catalog)?;
    let targets = questions.iter().map(|question| {
        let resolved = matcher.resolve(question)?;
        Ok(QuestionTarget {
            within: resolved.document.map(|document| document.label.clone()),
            gold_pages: resolved
                .gold_pages
                .iter()
                .map(|(document, page)| (document.doc().to_string(), *page))
                .collect(),
        })
    });
    Ok(targets.collect())
}

/// The claims of an answer by state. Those in none of the listed states are read from an image, or unverified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ClaimCounts {
    pub all: usize,
    pub verified: usize,
    pub computed: usize,
    pub quoted: usize,
}

impl ClaimCounts {
    fn new(claims: &[Claim]) -> Self {
        let count = |state| claims.iter().filter(|claim| claim.state == state).count();
        Self {
            all: claims.len(),
            verified: count(ClaimState::Verified),
            computed: count(ClaimState::Computed),
            quoted: count(ClaimState::Quoted),
        }
    }
}

impl AnswerRow {
    /// Scores an answer, except for the judgement. `gold_pages` are document ids and physical pages.
    pub fn new(
        question: &GoldQuestion,
        answer: &Answer,
        gold_pages: &[(String, u32)],
        latency_ms: f64,
    ) -> Self {
        Self {
            id: question.id.clone(),
            kind: question.kind.clone(),
            question: question.question.clone(),
            answer_id: answer.id.clone(),
            outcome: answer.outcome,
            mode: answer.mode,
            answer: answer.text.clone(),
            answerable: question.answerable,
            reference: question.answer.clone(),
            judged: None,
            numbers: states_reference(question, answer),
            verdict: gives_verdict(question, answer),
            text_used: share_used(answer),
            pages_read: (!gold_pages.is_empty()).then(|| {
                gold_pages
                    .iter()
                    .all(|(doc, page)| has_read(answer, doc, *page))
            }),
            cited: (!gold_pages.is_empty()).then(|| {
                answer.citations.iter().any(|citation| {
                    citation.verified.is_verbatim() && cites_page(citation, gold_pages)
                })
            }),
            claims: ClaimCounts::new(&answer.claims),
            miss: None,
            degraded: answer
                .degradation
                .as_ref()
                .map(|degradation| degradation.code.clone()),
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

    fn is_refusal(&self) -> bool {
        self.outcome == AnswerOutcome::NotInDocuments
    }

    /// By the judge, else by its verdict, else by its numbers. `None` if nothing tells.
    pub fn is_right(&self) -> Option<bool> {
        if self.is_refusal() || !self.answerable {
            return Some(self.is_refusal() != self.answerable);
        }
        let judged = self.judged.as_ref();
        judged
            .map(|judgement| judgement.verdict == AnswerVerdict::Right)
            .or(self.verdict)
            .or(self.numbers)
    }

    fn miss_cause(&self) -> Option<MissCause> {
        match self.is_right()? {
            true => None,
            false if !self.answerable => Some(MissCause::Invented),
            false if self.pages_read == Some(false) => Some(MissCause::PageNotRead),
            false if self.is_refusal() => Some(MissCause::Refused),
            false => Some(MissCause::WrongAnswer),
        }
    }

    /// Prompt and output tokens, without the judge.
    pub fn tokens(&self) -> u64 {
        self.prompt_tokens + self.output_tokens
    }
}

impl AnswersEval {
    pub fn from_rows(mut questions: Vec<AnswerRow>, skipped: Vec<SkippedEntry>) -> Self {
        for row in &mut questions {
            row.miss = row.miss_cause();
        }
        Self {
            means: means_by_group(&questions, |row| &row.kind, AnswerMeans::new),
            questions,
            skipped,
        }
    }
}

impl AnswerMeans {
    fn new(set: &str, rows: &[&AnswerRow]) -> Self {
        let count = rows.len().max(1) as f64;
        let answered = rows
            .iter()
            .filter(|row| row.outcome == AnswerOutcome::Answered)
            .count();
        let judged: Vec<bool> = rows
            .iter()
            .filter_map(|row| row.judged.as_ref())
            .map(|judgement| judgement.verdict == AnswerVerdict::Right)
            .collect();
        let right: Vec<bool> = rows.iter().filter_map(|row| row.is_right()).collect();
        let numbers: Vec<bool> = rows.iter().filter_map(|row| row.numbers).collect();
        let pages_read: Vec<bool> = rows.iter().filter_map(|row| row.pages_read).collect();
        let used: Vec<f64> = rows.iter().filter_map(|row| row.text_used).collect();
        let refusals = |answerable: bool| -> Vec<bool> {
            let questions = rows.iter().filter(|row| row.answerable == answerable);
            questions.map(|row| row.is_refusal()).collect()
        };
        let cited: Vec<bool> = rows.iter().filter_map(|row| row.cited).collect();
        let share_of_claims = |count: fn(&ClaimCounts) -> usize| {
            let all: usize = rows.iter().map(|row| row.claims.all).sum();
            let counted: usize = rows.iter().map(|row| count(&row.claims)).sum();
            (all > 0).then(|| counted as f64 / all as f64)
        };
        // A stored answer costs nothing, and its latency is that of a read.
        let new_rows: Vec<&&AnswerRow> = rows.iter().filter(|row| !row.replayed).collect();
        let latencies: Vec<f64> = new_rows.iter().map(|row| row.latency_ms).collect();
        let dollars: Option<Vec<f64>> = new_rows.iter().map(|row| row.dollars).collect();
        Self {
            set: set.into(),
            questions: rows.len(),
            answered: answered as f64 / count,
            right: share(&right),
            right_of: right.len(),
            judged: share(&judged),
            judged_of: judged.len(),
            numbers: share(&numbers),
            numbers_of: numbers.len(),
            cited: share(&cited),
            pages_read: share(&pages_read),
            text_used: (!used.is_empty()).then(|| used.iter().sum::<f64>() / used.len() as f64),
            verified: share_of_claims(|claims| claims.verified),
            computed: share_of_claims(|claims| claims.computed),
            quoted: share_of_claims(|claims| claims.quoted),
            unanswerable: refusals(false).len(),
            rightly_refused: share(&refusals(false)),
            falsely_refused: share(&refusals(true)),
            misses: MissCounts::from_rows(rows),
            agent: rows
                .iter()
                .filter(|row| row.mode == AnswerMode::Agent)
                .count() as f64
                / count,
            calls: rows.iter().map(|row| f64::from(row.calls)).sum::<f64>() / count,
            tokens: rows.iter().map(|row| row.tokens() as f64).sum::<f64>() / count,
            dollars: dollars.map(|dollars| dollars.iter().sum()),
            p50_ms: percentile(&latencies, 0.50),
            p95_ms: percentile(&latencies, 0.95),
        }
    }
}

impl MissCounts {
    fn from_rows(rows: &[&AnswerRow]) -> Self {
        let count = |cause| rows.iter().filter(|row| row.miss == Some(cause)).count();
        Self {
            page_not_read: count(MissCause::PageNotRead),
            wrong_answer: count(MissCause::WrongAnswer),
            refused: count(MissCause::Refused),
            invented: count(MissCause::Invented),
        }
    }
}

fn answerable_by_default() -> bool {
    true
}

/// One number is looked for in the final answer alone: the reasons name others. Several are looked for in the whole answer.
fn states_reference(question: &GoldQuestion, answer: &Answer) -> Option<bool> {
    let reference = question.answer.as_deref().filter(|_| question.answerable)?;
    let unit = question.unit.as_deref();
    let numbers = ReferenceNumbers::new(reference, unit, &question.question, question.tolerance)?;
    let stated = answer.final_answer.as_ref();
    let stated = stated.filter(|stated| numbers.count() == 1 && count_numbers(&stated.value) > 0);
    Some(match stated {
        Some(stated) => numbers.are_stated(&stated.value),
        None => numbers.are_stated(&answer.text),
    })
}

/// What follows a verdict is its reasons, which may differ.
fn gives_verdict(question: &GoldQuestion, answer: &Answer) -> Option<bool> {
    let reference = question.answer.as_deref().filter(|_| question.answerable)?;
    let expected = verdict(reference)?;
    let stated = answer.final_answer.as_ref();
    let given = stated.and_then(|stated| verdict(&stated.value));
    Some(given.or_else(|| verdict(&answer.text)) == Some(expected))
}

fn verdict(text: &str) -> Option<String> {
    let words = words(text);
    let (first, _) = words.first()?;
    VERDICTS.contains(first).then(|| (*first).to_owned())
}

fn share_used(answer: &Answer) -> Option<f64> {
    let tokens = |is_counted: fn(&ReadSection) -> bool| -> u32 {
        answer
            .sections
            .iter()
            .filter(|section| is_counted(section))
            .map(|section| section.tokens)
            .sum()
    };
    let all = tokens(|_| true);
    (all > 0).then(|| f64::from(tokens(|section| section.cited)) / f64::from(all))
}

fn has_read(answer: &Answer, doc: &str, page: u32) -> bool {
    answer
        .sections
        .iter()
        .any(|section| section.doc_id == doc && section.pages.contains(&page))
}

fn cites_page(citation: &Citation, pages: &[(String, u32)]) -> bool {
    pages
        .iter()
        .any(|(doc, page)| *doc == citation.doc_id && citation.page == Some(*page))
}

#[cfg(test)]
mod tests {
    use stemma_answers::{Answerer, AskRequest, ScriptedAnswerer};

    use super::*;

    #[tokio::test]
    async fn rows_and_means_count_correct_answers() {
        let scripted =
            ScriptedAnswerer::default().with_reply("capex", "It was $1,577 million [1].");
        let question = |text: &str| {
            let json = format!(
                r#"{{"id": 1, "question": "{text}", "answer": "$1577.00", "gold_pages": [1]}}"#
            );
            serde_json::from_str::<GoldQuestion>(&json).unwrap()
        };
        let mut rows = Vec::new();
        for text in ["capex?", "weather?"] {
            let answer = scripted
                .answer(&AskRequest::new(text), &mut ())
                .await
                .unwrap();
            let gold = [("00000000000000000000000000000000".to_owned(), 1)];
            rows.push(AnswerRow::new(&question(text), &answer, &gold, 8.0));
        }
        rows[0].judged = Some(Judgement {
            verdict: AnswerVerdict::Right,
            why: String::new(),
        });
        // The documents do not say: one refusal, and one answer.
        for text in ["weather?", "capex?"] {
            let answer = scripted
                .answer(&AskRequest::new(text), &mut ())
                .await
                .unwrap();
            let absent = GoldQuestion {
                answerable: false,
                ..question(text)
            };
            rows.push(AnswerRow::new(&absent, &answer, &[], 8.0));
        }
        // The model had the page, or had another one.
        for (gold_page, reply) in [(1, "weather?"), (9, "weather?"), (1, "capex?")] {
            let answer = scripted
                .answer(&AskRequest::new(reply), &mut ())
                .await
                .unwrap();
            let gold = [("00000000000000000000000000000000".to_owned(), gold_page)];
            let other = GoldQuestion {
                answer: Some("$1,749".into()),
                ..question(reply)
            };
            rows.push(AnswerRow::new(&other, &answer, &gold, 8.0));
        }
        let eval = AnswersEval::from_rows(rows, Vec::new());
        let means = &eval.means[0];
        assert_eq!(
            (means.questions, means.judged, means.judged_of),
            (7, Some(1.0), 1)
        );
        assert_eq!((means.right, means.right_of), (Some(2.0 / 7.0), 7));
        assert_eq!((means.numbers, means.numbers_of), (Some(0.2), 5));
        assert_eq!((means.cited, means.verified), (Some(0.4), Some(1.0)));
        assert_eq!(means.pages_read, Some(0.8));
        assert_eq!(means.unanswerable, 2);
        assert_eq!(
            (means.rightly_refused, means.falsely_refused),
            (Some(0.5), Some(0.6))
        );
        let misses = MissCounts {
            page_not_read: 1,
            wrong_answer: 1,
            refused: 2,
            invented: 1,
        };
        assert_eq!(means.misses, misses);
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

    #[tokio::test]
    async fn a_question_for_a_verdict_is_judged_by_the_verdict() {
        let scripted = ScriptedAnswerer::default()
            .with_reply("intensive", "No. Capital spending is 5% of sales [1].");
        let answer = scripted
            .answer(&AskRequest::new("Is it capital intensive?"), &mut ())
            .await
            .unwrap();
        for (reference, right) in [
            ("No, as capital spending is 5.1% of sales.", Some(true)),
            ("Yes.", Some(false)),
            ("Noble metals", None),
        ] {
            let question = GoldQuestion {
                answer: Some(reference.into()),
                ..serde_json::from_str(r#"{"id": 1, "question": "Is it capital intensive?"}"#)
                    .unwrap()
            };
            let row = AnswerRow::new(&question, &answer, &[], 8.0);
            assert_eq!((row.verdict, row.is_right()), (right, right), "{reference}");
            assert_eq!(row.text_used, Some(1.0));
        }
    }
}
