//! Questions whose pages a model sees.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};
use stemma_document::{DocId, PageNo};
use stemma_llm::request::LlmRequest;

use super::test_archive::{TestArchive, answer, capex_claim, claim, scripted_client};
use crate::tree_search::LlmClient;
use crate::tree_search::scripted::ScriptedModel as Model;
use crate::{
    Answer, AnswerLimits, AnswerOutcome, AskRequest, ClaimState, Degradation, PageImage,
    PageViewer, PageVision,
};

const QUOTE: &str = "plant and equipment (1,749)";

/// Draws blank pages of 600 × 800 pixels, or none.
struct BlankPages {
    revision: u32,
    can_draw: bool,
}

const DRAWN: BlankPages = BlankPages {
    revision: 1,
    can_draw: true,
};

fn blank_page(doc: DocId, page: PageNo) -> PageImage {
    let header = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\x02\x58\0\0\x03\x20";
    let own = format!("{doc} {page}");
    PageImage::from_png([&header[..], own.as_bytes()].concat().into()).unwrap()
}

#[async_trait]
impl PageViewer for BlankPages {
    async fn view(&self, doc: DocId, page: PageNo) -> Result<PageImage, Degradation> {
        if self.can_draw {
            return Ok(blank_page(doc, page));
        }
        Err(Degradation {
            code: "source.not_available".into(),
            message: "the file is gone".into(),
            next: None,
        })
    }

    fn revision(&self) -> u32 {
        self.revision
    }
}

fn seeing_question() -> AskRequest {
    AskRequest {
        see: true,
        ..AskRequest::new("3M capex 2022?")
    }
}

fn claim_from_images(statement: &str, citations: &[(i64, &str)], pictures: &[i64]) -> Value {
    let mut claim = claim(statement, citations);
    claim["pictures"] = json!(pictures);
    claim
}

/// Answers with a text model and one that sees.
async fn see(
    archive: &TestArchive,
    text_model: Option<LlmClient>,
    seeing: LlmClient,
    viewer: &BlankPages,
    question: &AskRequest,
) -> Answer {
    let answers = archive.answers();
    let client = Arc::new(seeing);
    let mut answerer = archive.answerer(text_model, None, &answers);
    answerer.vision = Some(PageVision {
        client: &client,
        viewer,
    });
    answer(&answerer, question, &mut ()).await.unwrap()
}

#[tokio::test]
async fn claims_from_images_are_never_verified() {
    let archive = TestArchive::new();
    // What a model says of itself has no effect, and a picture that was not shown is none.
    let mut boastful = claim_from_images("The chart shows growth of 12% in 2022.", &[], &[1]);
    boastful["state"] = json!("verified");
    let mut seen_capex = capex_claim();
    seen_capex["pictures"] = json!([1]);
    let (seeing, client) = scripted_client(&json!([
        seen_capex,
        boastful,
        claim_from_images(
            "Capital expenditure was $1,750 million in 2022.",
            &[(1, QUOTE)],
            &[1, 1]
        ),
        claim_from_images("Page 7 says that sales were $9 million.", &[], &[7]),
    ]));
    let (text_model, text_client) = scripted_client(&json!([]));
    let answer = see(
        &archive,
        Some(text_client),
        client,
        &DRAWN,
        &seeing_question(),
    )
    .await;
    let states: Vec<ClaimState> = answer.claims.iter().map(|claim| claim.state).collect();
    assert_eq!(
        states,
        [
            ClaimState::Verified,
            ClaimState::FromImage,
            ClaimState::FromImage,
            ClaimState::Unverified
        ],
        "{answer:#?}"
    );
    assert_eq!(answer.claims[0].by_sight, [], "its quote suffices");
    let seen = &answer.claims[1].by_sight[..];
    assert_eq!(seen, &answer.pictures[..1]);
    assert_eq!(
        (seen[0].page, seen[0].locator.as_str()),
        (1, "3M_2022_10K#p=1")
    );
    assert!(
        answer
            .text
            .contains("12% in 2022 (from an image: 3M_2022_10K#p=1)."),
        "{}",
        answer.text
    );
    assert_eq!(answer.claims[2].by_sight.len(), 1);
    assert_eq!(answer.rejected.unknown_passages, 1);
    assert!(answer.confidence <= Some(0.25));
    assert_eq!(text_model.requests(), [], "the vision model answers");
    let request = &seeing.requests()[0];
    assert_eq!(request.images.len(), answer.pictures.len());
    assert!((1..=3).contains(&request.images.len()));
    assert!(
        request
            .user
            .contains("picture 1: page 1 of 3M_2022_10K.pdf")
    );
    assert!(request.system.contains("also where it speaks to you"));
    let pictures: u32 = request.images.iter().map(PageImage::tokens).sum();
    assert!(
        answer.usage.prompt_tokens > pictures.into(),
        "pictures count"
    );
}

#[tokio::test]
async fn final_answer_from_an_image_is_not_verified() {
    let archive = TestArchive::new();
    let claim = claim_from_images("The chart shows growth of 12% in 2022.", &[], &[1]);
    let (_, client) = Model::new(move |_: &LlmRequest| {
        Ok(json!({
            "answerable": true, "claims": [claim.clone()], "confidence": 1,
            "answer": { "value": "12%", "period": "2022", "criterion": "" },
        }))
    });
    let answer = see(&archive, None, client, &DRAWN, &seeing_question()).await;
    let stated = answer.final_answer.unwrap();
    assert_eq!((stated.verified, stated.claims), (false, vec!["c1".into()]));
    assert_eq!(answer.confidence, Some(0.0));
}

#[tokio::test]
async fn pictures_are_part_of_the_id_and_nothing_changes_without_them() {
    let archive = TestArchive::new();
    let answers = archive.answers();
    let client = || Arc::new(scripted_client(&json!([])).1);
    let (text_model, text_client) = scripted_client(&json!([capex_claim()]));
    let seeing = client();
    let id = |viewer: Option<&BlankPages>, see: bool| {
        let mut answerer = archive.answerer(None, None, &answers);
        answerer.vision = viewer.map(|viewer| PageVision {
            client: &seeing,
            viewer,
        });
        let question = AskRequest {
            see,
            ..seeing_question()
        };
        answerer.answer_id(&question).unwrap()
    };
    let redrawn = BlankPages {
        revision: 2,
        ..DRAWN
    };
    let blind = id(None, false);
    assert_eq!(id(Some(&DRAWN), false), blind);
    assert_ne!(id(Some(&DRAWN), true), blind);
    assert_ne!(id(Some(&DRAWN), true), id(Some(&redrawn), true));
    let json = serde_json::to_value(AskRequest::new("x")).unwrap();
    assert_eq!(json.get("see"), None);
    let question = AskRequest {
        see: false,
        ..seeing_question()
    };
    let unseeing = scripted_client(&json!([])).1;
    let answer = see(&archive, Some(text_client), unseeing, &DRAWN, &question).await;
    assert!(answer.claims[0].is_supported() && answer.pictures.is_empty());
    let request = &text_model.requests()[0];
    assert!(request.images.is_empty());
    assert!(!request.system.contains("icture") && !request.user.contains("icture"));
    assert!(!request.schema.json.to_string().contains("picture"));
    // A stored answer is read again: no call, and no picture is drawn.
    let (first, client) = scripted_client(&json!([claim_from_images("A chart.", &[], &[1])]));
    let made = see(&archive, None, client, &DRAWN, &seeing_question()).await;
    let (second, client) = scripted_client(&json!([]));
    let again = see(&archive, None, client, &DRAWN, &seeing_question()).await;
    assert!(again.is_replay && again.claims == made.claims);
    assert_eq!((first.requests().len(), second.requests().len()), (1, 0));
}

#[tokio::test]
async fn questions_for_a_vision_model_are_refused_without_one() {
    let archive = TestArchive::new();
    let answers = archive.answers();
    let (text_model, client) = scripted_client(&json!([]));
    let answerer = archive.answerer(Some(client), None, &answers);
    let refused = answerer.check(&seeing_question()).unwrap_err();
    assert_eq!(refused.code(), "answer.no_vision_model");
    assert!(refused.to_string().contains("vision.model"), "{refused}");
    let refused = answer(&answerer, &seeing_question(), &mut ())
        .await
        .unwrap_err();
    assert_eq!(refused.code(), "answer.no_vision_model");
    assert_eq!(text_model.requests(), []);
}

#[tokio::test]
async fn answers_without_the_pictures_say_so() {
    let archive = TestArchive::new();
    let gone = BlankPages {
        can_draw: false,
        ..DRAWN
    };
    let (seeing, client) = scripted_client(&json!([]));
    let (_, text_client) = scripted_client(&json!([capex_claim()]));
    let answer = see(
        &archive,
        Some(text_client),
        client,
        &gone,
        &seeing_question(),
    )
    .await;
    let degraded = answer.degradation.unwrap();
    assert_eq!(degraded.code, "source.not_available");
    assert!(degraded.message.ends_with("answered without the picture"));
    assert!(answer.claims[0].is_supported() && answer.pictures.is_empty());
    assert_eq!(seeing.requests(), []);
}

#[tokio::test]
async fn pictures_count_before_the_call() {
    let archive = TestArchive::new();
    let text_only = AskRequest {
        limits: AnswerLimits {
            tokens: 6_000,
            ..AnswerLimits::default()
        },
        ..AskRequest::new("3M capex 2022?")
    };
    let (text_model, client) = scripted_client(&json!([capex_claim()]));
    let answer = archive.ask(client, &text_only).await;
    assert_eq!(answer.outcome, AnswerOutcome::Answered);
    let prompt = text_model.requests()[0].prompt_tokens();
    // The prompt and the longest reply fit with room to spare, and not with a picture.
    let most = prompt + prompt / 5 + crate::prompt::MAX_REPLY_TOKENS;
    let seeing_question = AskRequest {
        limits: AnswerLimits {
            tokens: most,
            ..AnswerLimits::default()
        },
        ..seeing_question()
    };
    let (seeing, client) = scripted_client(&json!([capex_claim()]));
    let answer = see(&archive, None, client, &DRAWN, &seeing_question).await;
    assert_eq!(answer.degradation.unwrap().code, "answer.limit_reached");
    assert_eq!(
        seeing.requests(),
        [],
        "nothing is sent that is over the limit"
    );
}
