//! Tests of comparisons over a hand-made store.

use stemma_document::Collection;
use stemma_store::Env;

use super::*;

async fn archive() -> Archive {
    Archive::open(
        &Env::system(),
        crate::tests::store().await,
        Collection::default(),
    )
    .await
    .unwrap()
}

fn compare_request(left: Option<&str>, right: &str, item: Option<&str>) -> CompareRequest {
    CompareRequest {
        left: left.map(str::to_owned),
        right: right.into(),
        item: item.map(str::to_owned),
        all_pairs: true,
        ..CompareRequest::default()
    }
}

fn outline_lines(view: &Comparison) -> Vec<String> {
    let title = |side: &Option<PairedSection>| {
        side.as_ref()
            .map_or("-".into(), |side| side.section.title.clone())
    };
    view.pairs
        .iter()
        .map(|pair: &SectionPair| {
            format!(
                "{} = {}: {}",
                title(&pair.left),
                title(&pair.right),
                pair.outcome.as_str()
            )
        })
        .collect()
}

#[tokio::test]
async fn left_side_defaults_to_the_previous_filing() {
    let archive = archive().await;
    let view = archive
        .compare(&compare_request(None, "ACME_2022", None))
        .await
        .unwrap();
    assert_eq!(
        (view.left.locator.as_str(), view.right.locator.as_str()),
        ("ACME_2021", "ACME_2022")
    );
    let expected = [
        "Preface = Preface: unchanged",
        "PART I = PART I: unchanged",
        "Item 1. Business = Item 1. Business: unchanged",
        "- = Item 1A. Risk Factors: added",
        "- = PART II: added",
        "- = Item 7. Management's Discussion: added",
    ];
    assert_eq!(outline_lines(&view), expected);
    let counts = OutcomeCounts {
        added: 3,
        unchanged: 3,
        ..OutcomeCounts::default()
    };
    assert_eq!(view.counts, counts);
    let risks = view.pairs[3].right.as_ref().unwrap();
    assert_eq!(
        (risks.item.as_deref(), risks.section.pages),
        (Some("item-1A"), Some((3, 4)))
    );
    assert_eq!(view.pairs[3].added[0].page, Some(3));
    assert!(view.notes.is_empty());
    let listed = |name: &str| archive.catalog.resolve(name).unwrap();
    assert_eq!(
        missing_years_note(&listed("ACME_2021"), &listed("ACME_2022")),
        None
    );
    let skipped = missing_years_note(
        &with_fiscal_year(&listed("ACME_2021"), "2019"),
        &listed("ACME_2022"),
    );
    assert_eq!(
        skipped.unwrap(),
        "`ACME_2021` is for 2019: no filing between 2019 and 2022 is in the collection"
    );
}

/// The same document for another year.
fn with_fiscal_year(listed: &CatalogDocument, year: &str) -> CatalogDocument {
    let mut entry = listed.entry().unwrap().clone();
    entry.facts.fiscal_year = Some(stemma_document::Fact::from_text(year, None));
    CatalogDocument {
        record: stemma_catalog::catalog::DocumentRecord::Published(Arc::new(entry)),
        ..listed.clone()
    }
}

#[tokio::test]
async fn item_comparison_covers_its_subsections() {
    let archive = archive().await;
    let items = |view: &Comparison| {
        (
            view.left.locator.clone(),
            view.right.locator.clone(),
            view.pairs.len(),
        )
    };
    let business = archive
        .compare(&compare_request(Some("ACME_2021"), "ACME_2022", Some("1")))
        .await
        .unwrap();
    assert_eq!(
        items(&business),
        ("ACME_2021#0002".into(), "ACME_2022#0002".into(), 1)
    );
    assert_eq!(business.changed.changed, Some(0.0));
    // Only the document before has it: nothing of the document after.
    let risks = archive
        .compare(&compare_request(Some("ACME_2022"), "ACME_2021", Some("1A")))
        .await
        .unwrap();
    assert_eq!(
        outline_lines(&risks),
        ["Item 1A. Risk Factors = -: removed"]
    );
    let by_part = archive
        .compare(&compare_request(
            Some("ACME_2021#0001"),
            "ACME_2022#0001",
            None,
        ))
        .await
        .unwrap();
    assert_eq!(outline_lines(&by_part).len(), 3);
}

#[tokio::test]
async fn invalid_comparisons_are_refused_with_candidates() {
    let archive = archive().await;
    let refused = async |left, right, item| {
        let refusal = archive
            .compare(&compare_request(left, right, item))
            .await
            .unwrap_err();
        (refusal.code, refusal.candidates)
    };
    let older = vec!["ACME_2022".to_owned()];
    assert_eq!(
        refused(None, "ACME_2021", None).await,
        ("comparison.no_previous", older)
    );
    assert_eq!(
        refused(None, "manual", None).await.0,
        "comparison.not_a_filing"
    );
    assert_eq!(
        refused(None, "BROKEN", None).await.0,
        "comparison.not_a_filing"
    );
    assert_eq!(
        refused(Some("ACME_2021"), "BROKEN", None).await.0,
        "document.no_tree"
    );
    assert_eq!(
        refused(Some("ACME_2021"), "ACME_2022", Some("99")).await.0,
        "locator.no_item"
    );
    assert_eq!(
        refused(Some("ACME_2021"), "ACME_2022", Some("x")).await.0,
        "search.item_unknown"
    );
    assert_eq!(
        refused(Some("ACME_2021#0001"), "ACME_2022", Some("1"))
            .await
            .0,
        "comparison.item_of_part"
    );
    assert_eq!(
        refused(Some("ACME_2021#p=1"), "ACME_2022", None).await.0,
        "locator.not_a_section"
    );
    assert_eq!(
        refused(Some("10-K"), "ACME_2022", None).await.0,
        "locator.folder"
    );
    let year = |form: Option<&str>, year| {
        archive
            .filing_for_year("acme", form, year)
            .map(|listed| listed.label.clone())
    };
    assert_eq!(year(None, "2021").unwrap(), "ACME_2021");
    assert_eq!(year(None, "2019").unwrap_err().code, "comparison.no_filing");
    assert_eq!(
        year(Some("10-Q"), "2021").unwrap_err().code,
        "comparison.no_filing"
    );
}

#[tokio::test]
async fn comparing_a_document_with_itself_adds_a_note() {
    let archive = archive().await;
    let view = archive
        .compare(&compare_request(Some("manual"), "manual.md", None))
        .await
        .unwrap();
    assert_eq!(view.notes, ["both sides are the same document"]);
    let counts = OutcomeCounts {
        unchanged: 2,
        ..OutcomeCounts::default()
    };
    assert_eq!((view.counts, view.changed.changed), (counts, Some(0.0)));
}
