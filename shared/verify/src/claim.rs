//! STUB
use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};
use stemma_reading::tables::FigureTable;
use stemma_xbrl::FactTable;
use crate::{QuoteCheck, QuoteTarget};

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct StatedClaim { pub statement: String, pub citations: Vec<StatedCitation>, pub figures: Vec<StatedFigure>, pub pictures: Vec<i64> }
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct StatedCitation { pub passage: i64, pub quote: String }
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct StatedFigure { pub name: String, pub citation: i64, pub value: String, pub unit: String, pub row: String, pub column: String, pub formula: String }
pub struct Evidence<'a> { pub quote: QuoteCheck, pub targets: Vec<QuoteTarget<'a>>, pub tables: Vec<&'a FigureTable>, pub facts: Option<&'a FactTable>, pub year_shift: i32, pub location: String }
#[derive(Debug, Clone, Default)]
pub struct BoundFigure { pub name: String, pub text: String, pub value: Option<Decimal>, pub unit: String, pub period: String, pub row: String, pub column: String, pub citation: Option<usize>, pub formula: String }
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimState { Verified, Computed, Quoted, #[serde(rename = "by_sight")] FromImage, Unverified }
pub struct VerifiedClaim { pub state: ClaimState, pub text: String, pub figures: Vec<BoundFigure>, pub earlier: Vec<String>, pub reason: Option<String> }
pub struct PrintedText { pub text: String, pub names: Vec<String>, pub problem: Option<String> }
pub fn print_figures(text: &str, _figures: &[BoundFigure]) -> PrintedText { PrintedText { text: text.to_owned(), names: Vec::new(), problem: None } }
pub fn verify_claim(claim: &StatedClaim, _evidence: &[Option<&Evidence<'_>>], _earlier: &[BoundFigure]) -> VerifiedClaim {
    VerifiedClaim { state: ClaimState::Unverified, text: claim.statement.clone(), figures: Vec::new(), earlier: Vec::new(), reason: None }
}
