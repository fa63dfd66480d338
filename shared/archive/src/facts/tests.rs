use std::sync::Arc;

use stemma_document::Collection;
use stemma_sample_store::InlineFiling;
use stemma_store::Env;
use stemma_store::blobs::{Blobs, MemoryBlobs};

use crate::{Archive, CellPosition, FactsRequest, ReportedValue, SeriesRequest};

const REVENUES: &str = "us-gaap:Revenues";
const YEAR_2023: (&str, &str) = ("2023-01-01", "2023-12-31");
const YEAR_2024: (&str, &str) = ("2024-01-01", "2024-12-31");

// Two annual filings of one company, of which the second restates revenues of 2023, a quarterly one, and one of another company.
async fn archive() -> Archive {
    let blobs: Arc<dyn Blobs> = Arc::new(MemoryBlobs::default());
    let filing = |cik, company, period_end, figures| InlineFiling {
        cik,
        company,
        period_end,
        figures,
    };
    let (from, to) = YEAR_2023;
    let first = [
        (REVENUES, from, to, "1,200"),
        ("us-gaap:Assets", "", to, "900"),
        ("us-gaap:Assets", "", "2023-09-30", "880"),
    ];
    filing("0000000001", "Acme Inc.", to, &first)
        .publish(
            blobs.as_ref(),
            "10-K/ACME_2023.htm",
            &[
                "Item 1. Business",
                "Item 8. Statements\nTotal net sales 1,200",
            ],
        )
        .await;
    let second = [
        (REVENUES, YEAR_2024.0, YEAR_2024.1, "1,500"),
        (REVENUES, from, to, "1,150"),
        ("us-gaap:Assets", "", YEAR_2024.1, "950"),
    ];
    filing("0000000001", "Acme Corp.", YEAR_2024.1, &second)
        .publish(
            blobs.as_ref(),
            "10-K/ACME_2024.htm",
            &["Revenues 1,500 1,150"],
        )
        .await;
    let quarter = [(REVENUES, "2025-01-01", "2025-03-31", "400")];
    filing("0000000001", "Acme Corp.", "2025-03-31", &quarter)
        .publish(blobs.as_ref(), "10-Q/ACME_2025Q1.htm", &["x"])
        .await;
    let other = [(
        "us-gaap:RevenueFromContractWithCustomerExcludingAssessedTax",
        YEAR_2024.0,
        YEAR_2024.1,
        "70",
    )];
    filing("0000000002", "Bolt Ltd.", YEAR_2024.1, &other)
        .publish(blobs.as_ref(), "10-K/BOLT_2024.htm", &["x"])
        .await;
    stemma_sample_store::publish_pages(
        blobs.as_ref(),
        "10-K/PLAIN_2024.pdf",
        &["Item 1. Business"],
    )
    .await;
    Archive::open(&Env::system(), blobs, Collection::default())
        .await
        .unwrap()
}

fn request(document: &str) -> FactsRequest {
    FactsRequest {
        document: document.into(),
        limit: 100,
        ..FactsRequest::default()
    }
}

#[tokio::test]
async fn facts_are_found_by_name_words_and_period() {
    let archive = archive().await;
    let values = async |concept: Option<&str>, period: Option<&str>, dimensions| {
        let request = FactsRequest {
            concept: concept.map(Into::into),
            period: period.map(Into::into),
            dimensions,
            ..request("ACME_2024")
        };
        let list = archive.facts(&request).await.unwrap();
        list.facts
            .into_iter()
            .filter_map(|fact| fact.value)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        values(Some("revenues"), None, false).await,
        ["1500000000", "1150000000"]
    );
    assert_eq!(
        values(Some("us-gaap:Revenues"), Some("2023"), false).await,
        ["1150000000"]
    );
    assert_eq!(
        values(Some("Revenues"), Some("2024-12-31"), true).await,
        ["1500000000", "77000000"]
    );
    assert_eq!(
        values(None, Some("2023-01-01/2023-12-31"), false).await,
        ["1150000000"]
    );
    assert_eq!(
        values(Some("registrant name"), None, false).await,
        ["Acme Corp."]
    );
    assert!(values(Some("Liabilities"), None, true).await.is_empty());
}

#[tokio::test]
async fn facts_whose_labels_lack_the_words_are_found_by_their_row() {
    let archive = archive().await;
    let find = async |concept: &str| {
        let request = FactsRequest {
            concept: Some(concept.into()),
            ..request("ACME_2023")
        };
        archive.facts(&request).await.unwrap().facts
    };
    let [sales] = &find("net sales").await[..] else {
        panic!("one row")
    };
    assert_eq!(sales.concept, REVENUES);
    assert!(find("net income").await.is_empty());
}

#[tokio::test]
async fn facts_know_their_page_section_and_unit() {
    let archive = archive().await;
    let list = archive
        .facts(&FactsRequest {
            concept: Some(REVENUES.into()),
            ..request("ACME_2023")
        })
        .await
        .unwrap();
    let fact = &list.facts[0];
    assert_eq!(
        (fact.page, fact.unit.as_deref(), fact.decimals.as_deref()),
        (Some(2), Some("USD"), Some("-6"))
    );
    assert_eq!((fact.displayed.as_str(), fact.scale), ("1,200", 6));
    assert_eq!(fact.section_id.as_deref(), Some("0001"));
    assert_eq!(fact.locator.as_deref(), Some("ACME_2023#p=2"));
}

#[tokio::test]
async fn facts_know_their_sign_and_table_cell() {
    let blobs: Arc<dyn Blobs> = Arc::new(MemoryBlobs::default());
    let (from, to) = YEAR_2024;
    let figures = [
        ("us-gaap:ProfitLoss", from, to, "250"),
        ("us-gaap:ProfitLoss", YEAR_2023.0, YEAR_2023.1, "(31)"),
        (REVENUES, YEAR_2023.0, YEAR_2023.1, "1,150"),
        (REVENUES, from, to, "1,500"),
        ("us-gaap:Goodwill", "", to, "12"),
    ];
    let pages = [
        "Item 8. Statements\nRevenues 1,500 1,150\nIncome (loss) 250 (31)",
        "Item 9. Goodwill\nGoodwill was 12",
    ];
    InlineFiling {
        cik: "0000000001",
        company: "Acme Corp.",
        period_end: to,
        figures: &figures,
    }
    .publish(blobs.as_ref(), "10-K/ACME_2024.htm", &pages)
    .await;
    let archive = Archive::open(&Env::system(), blobs, Collection::default())
        .await
        .unwrap();
    let cell = |row, column| {
        Some(CellPosition {
            table: "ACME_2024#t1".into(),
            row,
            column,
        })
    };
    let list = archive.facts(&request("ACME_2024")).await.unwrap();
    let found: Vec<(&str, Option<&str>, Option<CellPosition>)> = list
        .facts
        .iter()
        .filter(|fact| fact.numeric)
        .map(|fact| {
            (
                fact.value.as_deref().unwrap(),
                fact.sign.as_deref(),
                fact.cell.clone(),
            )
        })
        .collect();
    assert_eq!(
        found,
        [
            ("250000000", None, cell(2, 1)),
            ("-31000000", Some("-"), cell(2, 2)),
            ("1150000000", None, cell(1, 2)),
            ("1500000000", None, cell(1, 1)),
            ("12000000", None, None),
        ]
    );
    // The table names them at the same place.
    let table = archive.table("ACME_2024#t1").await.unwrap().table;
    for fact in &list.facts {
        let Some(cell) = &fact.cell else { continue };
        let linked = table.rows[cell.row - 1].cells[cell.column - 1].as_ref();
        assert_eq!(linked.unwrap().facts[0].byte, fact.byte, "{fact:?}");
    }
    // Also where the rows of the text were read to find them.
    let by_row = FactsRequest {
        concept: Some("income (loss)".into()),
        ..request("ACME_2024")
    };
    let losses = archive.facts(&by_row).await.unwrap().facts;
    assert_eq!(losses.len(), 2, "{losses:?}");
    assert_eq!(losses[1].cell, cell(2, 2));
}

#[tokio::test]
async fn facts_are_paged() {
    let archive = archive().await;
    let mut concepts = Vec::new();
    let mut cursor = None;
    loop {
        let list = archive
            .facts(&FactsRequest {
                limit: 2,
                cursor,
                ..request("ACME_2024")
            })
            .await
            .unwrap();
        assert_eq!(list.total, 5);
        concepts.extend(list.facts.into_iter().map(|fact| fact.concept));
        cursor = list.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(concepts.len(), 5);
    let other = FactsRequest {
        cursor: Some("00".into()),
        ..request("ACME_2024")
    };
    assert_eq!(
        archive.facts(&other).await.unwrap_err().code,
        "cursor.invalid"
    );
}

#[tokio::test]
async fn documents_without_inline_xbrl_have_no_facts() {
    let archive = archive().await;
    assert_eq!(
        archive.facts(&request("PLAIN_2024")).await.unwrap().total,
        0
    );
    let invalid = FactsRequest {
        period: Some("last year".into()),
        ..request("ACME_2024")
    };
    assert_eq!(
        archive.facts(&invalid).await.unwrap_err().pointer(),
        Some("/period")
    );
}

fn series(concept: &str) -> SeriesRequest {
    SeriesRequest {
        scope: "/".into(),
        concept: concept.into(),
        ..SeriesRequest::default()
    }
}

#[tokio::test]
async fn series_take_the_newest_filing_and_show_restatements() {
    let archive = archive().await;
    let response = archive.series(&series("Revenues")).await.unwrap();
    assert_eq!((response.documents, response.documents_with_facts), (5, 4));
    let [acme] = response.series.as_slice() else {
        panic!("{response:?}")
    };
    assert_eq!(
        (acme.name.as_deref(), acme.unit.as_str()),
        (Some("Acme Corp."), "USD")
    );
    let points: Vec<(&str, &str, bool)> = acme
        .points
        .iter()
        .map(|point| {
            (
                point.to.as_str(),
                point.reported.value.as_str(),
                point.restated,
            )
        })
        .collect();
    assert_eq!(
        points,
        [
            ("2023-12-31", "1150000000", true),
            ("2024-12-31", "1500000000", false)
        ]
    );
    let before: &ReportedValue = &acme.points[0].earlier[0];
    assert_eq!(
        (before.value.as_str(), before.locator.as_str()),
        ("1200000000", "ACME_2023#p=2")
    );
}

#[tokio::test]
async fn series_compare_companies_by_the_first_concept_that_has_a_value() {
    let archive = archive().await;
    let both = "Revenues, RevenueFromContractWithCustomerExcludingAssessedTax";
    let response = archive.series(&series(both)).await.unwrap();
    let names: Vec<Option<&str>> = response
        .series
        .iter()
        .map(|series| series.name.as_deref())
        .collect();
    assert_eq!(names, [Some("Acme Corp."), Some("Bolt Ltd.")]);
    let none = archive.series(&series("Revenue")).await.unwrap();
    assert!(none.series.is_empty());
    assert!(none.similar.contains(&REVENUES.to_owned()));
}

#[tokio::test]
async fn frequency_selects_years_and_quarters() {
    let archive = archive().await;
    let ends = async |concept: &str, frequency: &str| {
        let request = SeriesRequest {
            frequency: Some(frequency.into()),
            ..series(concept)
        };
        let response = archive.series(&request).await.unwrap();
        response.series[0]
            .points
            .iter()
            .map(|point| point.to.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(ends("Revenues", "quarterly").await, ["2025-03-31"]);
    assert_eq!(
        ends("Revenues", "all").await,
        ["2023-12-31", "2024-12-31", "2025-03-31"]
    );
    // Balances at the end of fiscal years only.
    assert_eq!(ends("Assets", "annual").await, ["2023-12-31", "2024-12-31"]);
    assert_eq!(
        ends("Assets", "quarterly").await,
        ["2023-09-30", "2023-12-31", "2024-12-31"]
    );
    let wrong = SeriesRequest {
        frequency: Some("weekly".into()),
        ..series("Assets")
    };
    assert_eq!(
        archive.series(&wrong).await.unwrap_err().pointer(),
        Some("/frequency")
    );
    assert_eq!(
        archive.series(&series(" ,")).await.unwrap_err().pointer(),
        Some("/concept")
    );
}
