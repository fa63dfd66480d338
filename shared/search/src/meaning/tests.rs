//! Vectors of words that are counted: texts with words in common are near each other.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use proptest::prelude::*;
use stemma_document::{Collection, DocId, SectionId};
use stemma_engine::Env;
use stemma_llm::embeddings::{Embedded as Made, Embedder};
use stemma_llm::request::{LlmError, Usage};

use super::exact::ExactVectors;
use super::nearest::{best, product, unit};
use super::route::doc_scores;
use super::vectors::{Near, Row, Vectors};
use super::*;

const WORDS: [&str; 8] = ["tariff", "hedge", "lawsuit", "patent", "loan", "store", "crew", "vaccine"];

/// Counts words; says how many texts it was sent.
#[derive(Default)]
struct Counting {
    sent: AtomicUsize,
}

#[async_trait]
impl Embedder for Counting {
    async fn embed(&self, texts: &[&str]) -> Result<Made, LlmError> {
        self.sent.fetch_add(texts.len(), Ordering::Relaxed);
        let count = |text: &str, word: &str| text.to_lowercase().matches(word).count() as f32 + 0.01;
        let vectors = texts.iter().map(|text| WORDS.iter().map(|word| count(text, word)).collect()).collect();
        Ok(Made { vectors, usage: Usage { prompt_tokens: 10 * texts.len() as u32, ..Usage::default() } })
    }
}

fn doc(n: usize) -> DocId {
    DocId::of(&Collection::default(), &format!("file:///{n}"))
}

fn row(section: u32, text: &str) -> Row {
    let vector = WORDS.iter().map(|word| text.matches(word).count() as f32 + 0.01).collect();
    Row { section: SectionId(section), digest: digest(text), vector: unit(vector) }
}

fn exact(folder: &Path) -> Arc<ExactVectors> {
    Arc::new(ExactVectors::new(folder, &Collection::default(), "counting"))
}

async fn filled(folder: &Path) -> Arc<ExactVectors> {
    let vectors = exact(folder);
    for (n, word) in WORDS.iter().enumerate() {
        let rows = (0..3).map(|section| row(section, &format!("{word} {word} {}", WORDS[(n + section as usize) % 8])));
        vectors.put(doc(n), 1, rows.collect()).await.unwrap();
    }
    vectors
}

#[tokio::test]
async fn what_is_kept_is_found_again_by_another_process() {
    let folder = tempfile::tempdir().unwrap();
    let first = filled(folder.path()).await;
    let asked = row(0, "lawsuit").vector;
    let near = first.nearest(&asked, None, 4).await.unwrap();
    assert_eq!((near[0].doc, near[0].section, near.len()), (doc(2), SectionId(0), 4));
    let again = exact(folder.path());
    assert_eq!(again.nearest(&asked, None, 4).await.unwrap(), near);
    assert_eq!((again.count().await.unwrap(), again.held().await.unwrap()[&doc(2)]), (24, 1));
    let others = HashSet::from([doc(0), doc(5)]);
    let within = again.nearest(&asked, Some(&others), 100).await.unwrap();
    assert!(within.len() == 6 && within.iter().all(|near| others.contains(&near.doc)));
    again.put(doc(2), 2, vec![row(7, "crew")]).await.unwrap();
    again.remove(doc(0)).await.unwrap();
    let third = exact(folder.path());
    assert_eq!((third.count().await.unwrap(), third.held().await.unwrap().get(&doc(2))), (19, Some(&2)));
    assert_eq!(third.of(doc(2)).await.unwrap(), [row(7, "crew")]);
    assert_eq!(std::fs::read_dir(third.folder()).unwrap().count(), 7, "one file per document");
}

#[tokio::test]
async fn torn_files_and_other_lengths_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let vectors = filled(folder.path()).await;
    let file = std::fs::read_dir(vectors.folder()).unwrap().next().unwrap().unwrap().path();
    let bytes = std::fs::read(&file).unwrap();
    for cut in [0, 7, 12, 30, bytes.len() - 1] {
        std::fs::write(&file, &bytes[..cut]).unwrap();
        let read = exact(folder.path());
        assert_eq!(read.held().await.unwrap().len(), 7, "{cut}");
        std::fs::write(&file, &bytes).unwrap();
    }
    let long = Row { vector: vec![1.0; 9], ..row(0, "loan") };
    assert!(matches!(vectors.put(doc(0), 2, vec![long]).await, Err(MeaningError::Dimensions { kept: 8, new: 9 })));
    assert!(matches!(vectors.nearest(&[1.0; 9], None, 1).await, Err(MeaningError::Dimensions { .. })));
    let few = ExactVectors::new(folder.path(), &Collection::default(), "counting").at_most(24);
    few.put(doc(0), 2, vec![row(0, "loan")]).await.unwrap();
    let many = (0..3).map(|section| row(section, "loan")).collect();
    assert!(matches!(few.put(doc(99), 1, many).await, Err(MeaningError::TooMany { vectors: 25, most: 24 })));
}

#[test]
fn many_sections_count_and_not_each_as_much() {
    let near = |n: usize, score| Near { doc: doc(n), section: SectionId(0), score };
    let scored = doc_scores(&[near(1, 0.9), near(2, 0.6), near(2, 0.6), near(2, 0.6), near(3, 0.2)]);
    assert_eq!(scored.iter().map(|(doc, _)| *doc).collect::<Vec<_>>(), [doc(2), doc(1), doc(3)]);
    assert!((scored[0].1 - 1.8 / 2.0).abs() < 1e-6 && (scored[1].1 - 0.9 / 2.0_f32.sqrt()).abs() < 1e-6);
}

#[tokio::test]
async fn a_question_is_routed_and_what_is_not_known_is_not_lost() {
    let folder = tempfile::tempdir().unwrap();
    let vectors = filled(folder.path()).await;
    let embedder = Arc::new(Counting::default());
    let settings = MeaningSettings { documents: 2, nearest: 6, ..MeaningSettings::default() };
    let meaning = Meaning::new(Env::system(), embedder.clone(), vectors, settings);
    let mut among: HashMap<DocId, u64> = (0..8).map(|n| (doc(n), 1)).collect();
    let routed = meaning.route("Which patent?", &among).await.unwrap();
    assert_eq!((routed.len(), routed[0]), (2, doc(3)));
    among.insert(doc(50), 1);
    among.insert(doc(3), 2); // published again, and not embedded yet
    let routed = meaning.route("Which patent?", &among).await.unwrap();
    assert!(routed.len() == 4 && routed.contains(&doc(50)) && routed.contains(&doc(3)), "{routed:?}");
    assert_eq!(embedder.sent.load(Ordering::Relaxed), 1, "a question is embedded once");
    assert!(meaning.narrows(3) && !meaning.narrows(2));
}

proptest! {
    #[test]
    fn the_best_are_the_best(
        rows in proptest::collection::vec(proptest::collection::vec(-1.0_f32..1.0, 19), 0..120),
        vector in proptest::collection::vec(-1.0_f32..1.0, 19),
        most in 1_usize..12,
    ) {
        let flat: Vec<f32> = rows.iter().flatten().copied().collect();
        let mut all: Vec<(usize, f32)> = rows.iter().enumerate().map(|(at, row)| (at, product(row, &vector))).collect();
        all.retain(|(at, _)| at % 3 != 0);
        all.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        all.truncate(most);
        prop_assert_eq!(best(&flat, &vector, most, |at| at % 3 != 0, |at| at), all);
        let exact: f64 = rows.first().map_or(0.0, |row| row.iter().zip(&vector).map(|(x, y)| f64::from(x * y)).sum());
        let near = rows.first().map_or(0.0, |row| f64::from(product(row, &vector)));
        prop_assert!((exact - near).abs() < 1e-4);
    }
}
