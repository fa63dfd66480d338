//! Tests over a hand-made store: two filings, a text, a failed document and a queued one.

use std::sync::Arc;

use stemma_document::{ChangeKind, Collection, FilingFacts};
use stemma_retrieval::index::local_index::IndexSettings;
use stemma_retrieval::search::TotalHits;
use stemma_store::blobs::Blobs;
use stemma_store::env::Env;

use crate::{
    Archive, CollectionCache, ExportFormat, GrepOptions, ListRequest, SearchRequest, TextScope,
    TreeRequest,
};
pub use stemma_sample_store::*;

async fn archive() -> Archive {
    Archive::open(&Env::system(), store().await, Collection::default())
        .await
        .unwrap()
}

fn all_documents() -> ListRequest {
    ListRequest {
        recursive: true,
        ..ListRequest::new("/")
    }
}

#[tokio::test]
async fn conditions_list_documents_of_all_subfolders() {
    let archive = archive().await;
    let request = ListRequest {
        filter: Some("fiscal_year<2022".into()),
        ..ListRequest::default()
    };
    let view = archive.list(&request).unwrap();
    assert_eq!(view.documents[0].path, "10-K/ACME_2021.pdf");
    assert_eq!(view.total, 1);
    assert!(view.folders.is_empty());
    let request = ListRequest {
        words: Some("acme  2021".into()),
        ..ListRequest::new("/10-K")
    };
    assert_eq!(archive.list(&request).unwrap().documents, view.documents);
}

#[tokio::test]
async fn documents_without_tree_are_listed_with_their_state() {
    let archive = archive().await;
    let view = archive.list(&all_documents()).unwrap();
    let rows: Vec<String> = view
        .documents
        .iter()
        .map(|d| format!("{} {} {}", d.path, d.locator, d.state.as_str()))
        .collect();
    insta::assert_snapshot!(rows.join("\n"), @r"
    10-K/ACME_2021.pdf ACME_2021 done
    10-K/ACME_2022.pdf ACME_2022 done
    8-K/BROKEN.pdf BROKEN failed
    8-K/QUEUED.pdf QUEUED queued
    manual.md manual done
    ");
    let folders = archive.list(&ListRequest::new("/")).unwrap();
    insta::assert_json_snapshot!((folders.folders, folders.axes), @r#"
    [
      [
        {
          "name": "10-K",
          "locator": "/10-K",
          "documents": 2
        },
        {
          "name": "8-K",
          "locator": "/8-K",
          "documents": 2
        }
      ],
      [
        {
          "axis": "fiscal_year",
          "locator": "/@fiscal_year",
          "values": 2
        },
        {
          "axis": "status",
          "locator": "/@status",
          "values": 3
        }
      ]
    ]
    "#);
}

#[tokio::test]
async fn a_listed_document_has_the_documented_shape() {
    let archive = archive().await;
    insta::assert_json_snapshot!(archive.list(&ListRequest::new("/@company/acme/@fiscal_year/2022")).unwrap().documents, @r#"
    [
      {
        "doc_id": "ade0cc517417a4a865cef893d845c4c5",
        "name": "ACME_2022.pdf",
        "locator": "ACME_2022",
        "path": "10-K/ACME_2022.pdf",
        "state": "done",
        "version": 1,
        "pages": 5,
        "lines": null,
        "sections": 6,
        "tokens": 0,
        "method": "layout",
        "doubt": null,
        "gaps": [],
        "facts": {
          "issuer": {
            "value": "ACME INC",
            "page": 1
          },
          "form": {
            "value": "10-K",
            "page": 1
          },
          "fiscal_year": {
            "value": "2022",
            "page": 1
          }
        },
        "description": "About 10-K/ACME_2022.pdf",
        "published_ms": 1700000000000
      }
    ]
    "#);
}

#[tokio::test]
async fn removed_documents_are_gone() {
    let blobs = store().await;
    let doc = version("manual.md", 1).doc;
    change(blobs.as_ref(), ChangeKind::Removed { doc, seq: 2 }, 255).await;
    let archive = Archive::open(&Env::system(), blobs, Collection::default())
        .await
        .unwrap();
    assert_eq!(
        archive.catalog().resolve("manual").unwrap_err().to_string(),
        "no document `manual`"
    );
}

#[tokio::test]
async fn trees_list_depths_items_and_locators() {
    let archive = archive().await;
    let whole = tree_request("ACME_2022", None);
    let view = archive.tree(&whole).await.unwrap();
    let rows = view.sections.iter().map(|row| {
        let item = row.item.as_deref().unwrap_or("-");
        format!(
            "{} {} {:?} {item} {}",
            row.depth,
            row.section.locator,
            row.section.pages.unwrap(),
            row.section.title
        )
    });
    insta::assert_snapshot!(rows.collect::<Vec<_>>().join("\n"), @r"
    1 ACME_2022#0000 (1, 1) - Preface
    1 ACME_2022#0001 (2, 4) - PART I
    2 ACME_2022#0002 (2, 2) item-1 Item 1. Business
    2 ACME_2022#0003 (3, 4) item-1A Item 1A. Risk Factors
    1 ACME_2022#0004 (5, 5) - PART II
    2 ACME_2022#0005 (5, 5) item-7 Item 7. Management's Discussion
    ");
    assert_eq!((view.covered, view.hidden), (5, 0));
    let part = tree_request("ACME_2022#0001", Some(1));
    let part = archive.tree(&part).await.unwrap();
    assert_eq!((part.sections.len(), part.hidden), (1, 2));
}

fn tree_request(locator: &str, depth: Option<usize>) -> TreeRequest {
    TreeRequest {
        locator: locator.into(),
        depth,
        ..TreeRequest::default()
    }
}

#[tokio::test]
async fn pages_of_a_tree_are_all_of_its_sections() {
    let archive = archive().await;
    for (locator, depth) in [
        ("ACME_2022", None),
        ("ACME_2022", Some(1)),
        ("ACME_2022#0001", None),
        ("ACME_2022#0005", None),
    ] {
        let mut request = tree_request(locator, depth);
        let whole = archive.tree(&request).await.unwrap();
        assert_eq!(whole.next_cursor, None);
        for limit in 1..=whole.total + 1 {
            request.limit = Some(limit);
            request.cursor = None;
            let mut rows = Vec::new();
            loop {
                let page = archive.tree(&request).await.unwrap();
                assert!(page.sections.len() <= limit, "{locator} {limit}");
                assert_eq!((page.total, page.hidden), (whole.total, whole.hidden));
                rows.extend(page.sections);
                request.cursor = page.next_cursor;
                if request.cursor.is_none() {
                    break;
                }
            }
            assert_eq!(rows, whole.sections, "{locator} {limit}");
        }
    }
}

#[tokio::test]
async fn cursors_of_trees_are_of_one_request() {
    let archive = archive().await;
    let mut request = tree_request("ACME_2022", None);
    request.limit = Some(2);
    let cursor = archive.tree(&request).await.unwrap().next_cursor;
    for other in [
        tree_request("ACME_2022", Some(2)),
        tree_request("ACME_2022#0001", None),
        tree_request("ACME_2021", None),
    ] {
        let cursor = cursor.clone();
        let error = archive
            .tree(&TreeRequest { cursor, ..other })
            .await
            .unwrap_err();
        assert_eq!(error.code, "cursor.invalid");
    }
}

#[tokio::test]
async fn printed_locators_resolve() {
    let archive = archive().await;
    for listed in archive
        .list(&all_documents())
        .unwrap()
        .documents
        .iter()
        .filter(|d| d.sections.is_some())
    {
        let request = tree_request(&listed.locator, None);
        for row in archive.tree(&request).await.unwrap().sections {
            let text = archive
                .text(&row.section.locator, TextScope::Full)
                .await
                .unwrap();
            assert_eq!(text.section.unwrap().section_id, row.section.section_id);
        }
    }
    let (_cache, indexed) = indexed_archive().await;
    let hit = &search(&indexed, "hedging").await.hits[0];
    let page = archive
        .text(&hit.best_pages[0].locator, TextScope::Full)
        .await
        .unwrap();
    assert!(page.pages[0].text.contains("Hedging"), "{page:?}");
}

#[tokio::test]
async fn text_reads_sections_items_and_pages() {
    let archive = archive().await;
    insta::assert_json_snapshot!(archive.text("acme_2022.PDF#item-1a", TextScope::Full).await.unwrap(), @r#"
    {
      "doc_id": "ade0cc517417a4a865cef893d845c4c5",
      "name": "ACME_2022.pdf",
      "locator": "ACME_2022#0003",
      "section": {
        "section_id": "0003",
        "structure": "2.2",
        "title": "Item 1A. Risk Factors",
        "locator": "ACME_2022#0003",
        "kind": "heading",
        "pages": [
          3,
          4
        ],
        "lines": null,
        "tokens": 0,
        "verified": true
      },
      "path": [
        "PART I",
        "Item 1A. Risk Factors"
      ],
      "tokens": 0,
      "text": "Item 1A. Risk Factors\nForeign currency may move against us.\nHedging reduces but does not remove currency risk."
    }
    "#);
    insta::assert_json_snapshot!(archive.text("ACME_2022#p=3", TextScope::Full).await.unwrap(), @r#"
    {
      "doc_id": "ade0cc517417a4a865cef893d845c4c5",
      "name": "ACME_2022.pdf",
      "locator": "ACME_2022#p=3",
      "tokens": 10,
      "pages": [
        {
          "page": 3,
          "label": "2",
          "locator": "ACME_2022#p=3",
          "tokens": 10,
          "text": "Item 1A. Risk Factors\nForeign currency may move against us."
        }
      ]
    }
    "#);
    let manual = archive.text("manual", TextScope::Full).await.unwrap();
    assert_eq!(
        manual.text.unwrap(),
        "# 手册\n营业收入增长\n## Setup\nplug it in"
    );
}

#[tokio::test]
async fn unknown_locators_are_refused_with_a_next_step() {
    let archive = archive().await;
    let mut refusals = Vec::new();
    for locator in [
        "ACME_2023",
        "ACME",
        "ACME_2022#0099",
        "ACME_2022#item-9",
        "ACME_2022#p=6",
        "manual#p=1",
        "BROKEN",
    ] {
        let refusal = archive.text(locator, TextScope::Full).await.unwrap_err();
        let candidates = refusal.candidates.join(" ");
        let next = refusal.next.as_deref().unwrap_or_default();
        refusals.push(format!(
            "{}: {refusal}; {next} [{candidates}]",
            refusal.code
        ));
    }
    insta::assert_snapshot!(refusals.join("\n"), @r"
    locator.not_found: no document `ACME_2023`; stemma stat ACME_2021 [ACME_2021 ACME_2022]
    locator.not_found: no document `ACME`; stemma stat ACME_2021 [ACME_2021 ACME_2022]
    locator.no_section: `ACME_2022` has no section 0099; its last is 0005; stemma tree ACME_2022 []
    locator.no_item: `ACME_2022` has no item-9; stemma tree ACME_2022 [ACME_2022#item-1 ACME_2022#item-1A ACME_2022#item-7]
    locator.no_page: page 6 lies outside of `ACME_2022`, which has 5 pages; stemma cat 'ACME_2022#p=5' []
    document.no_pages: `manual` is a text without pages; stemma tree manual []
    document.no_tree: `BROKEN` has no tree: ends after page 3 of 12; stemma why BROKEN []
    ");
}

#[tokio::test]
async fn grep_names_section_page_and_label() {
    let archive = archive().await;
    let options = GrepOptions {
        pattern: "currency".into(),
        ignore_case: true,
        fixed: false,
        limit: 10,
    };
    insta::assert_json_snapshot!(archive.grep("/@form/10-K", &options).await.unwrap(), @r#"
    {
      "pattern": "currency",
      "scope": "/@form/10-K",
      "documents_read": 2,
      "documents_matching": 1,
      "documents_without_text": 0,
      "truncated": false,
      "hits": [
        {
          "doc_id": "ade0cc517417a4a865cef893d845c4c5",
          "locator": "ACME_2022#0003",
          "section_id": "0003",
          "title": "Item 1A. Risk Factors",
          "page": 3,
          "label": "2",
          "line": 2,
          "text": "Foreign currency may move against us.",
          "marks": [
            [
              8,
              16
            ]
          ]
        },
        {
          "doc_id": "ade0cc517417a4a865cef893d845c4c5",
          "locator": "ACME_2022#0003",
          "section_id": "0003",
          "title": "Item 1A. Risk Factors",
          "page": 4,
          "label": "3",
          "line": 1,
          "text": "Hedging reduces but does not remove currency risk.",
          "marks": [
            [
              36,
              44
            ]
          ]
        }
      ]
    }
    "#);
    let one = archive
        .grep(
            "ACME_2022#p=4",
            &GrepOptions {
                limit: 1,
                ..options.clone()
            },
        )
        .await
        .unwrap();
    assert_eq!((one.hits.len(), one.truncated), (1, false));
    let bad = GrepOptions {
        pattern: "(".into(),
        ..options
    };
    assert_eq!(
        archive.grep("/", &bad).await.unwrap_err().code,
        "grep.pattern_invalid"
    );
}

async fn indexed_archive() -> (tempfile::TempDir, Archive) {
    let cache = tempfile::tempdir().unwrap();
    let blobs: Arc<dyn Blobs> = store().await;
    let collection_cache = CollectionCache::new(
        stemma_store::Env::system(),
        &IndexSettings::for_folder(cache.path()),
        &blobs,
        &Collection::default(),
    );
    let archive = Archive::open(&Env::system(), blobs, Collection::default())
        .await
        .unwrap();
    collection_cache
        .index()
        .sync(archive.catalog(), &|_| {})
        .await
        .unwrap();
    (cache, archive.with_cache(collection_cache))
}

async fn search(archive: &Archive, query: &str) -> crate::SearchResponse {
    let request = SearchRequest {
        query: query.into(),
        limit: Some(5),
        rectangles: true,
        explain: true,
        ..SearchRequest::default()
    };
    archive.search(&request).await.unwrap()
}

#[tokio::test]
async fn search_finds_sections_by_title_body_and_script() {
    let (_cache, archive) = indexed_archive().await;
    for (query, scope, locator) in [
        ("risk factors 2022", "/", "ACME_2022#0003"),
        ("hedged currencies", "/", "ACME_2022#0003"),
        ("$1,577", "ACME_2021", "ACME_2021#0002"),
        ("liquidity at year end", "/10-K", "ACME_2022#0005"),
        ("收入", "/", "manual#0000"),
    ] {
        let request = SearchRequest {
            query: query.into(),
            scopes: vec![scope.into()],
            limit: Some(5),
            ..SearchRequest::default()
        };
        let response = archive.search(&request).await.unwrap();
        assert_eq!(response.hits[0].locator, locator, "{query}: {response:#?}");
    }
    let in_item = |query: &str| SearchRequest {
        query: query.into(),
        item: Some("1".into()),
        ..SearchRequest::default()
    };
    let response = archive.search(&in_item("hedging")).await.unwrap();
    assert!(response.hits.is_empty());
    let error = archive.search(&in_item("?!")).await.unwrap_err();
    assert_eq!(error.code, "search.no_words");
}

// The sections found for a query, by locator, and the codes of its notes.
async fn locators(archive: &Archive, query: &str) -> (Vec<String>, Vec<&'static str>) {
    let request = SearchRequest {
        query: query.into(),
        ..SearchRequest::default()
    };
    let response = archive.search(&request).await.unwrap();
    let mut locators: Vec<String> = response.hits.into_iter().map(|hit| hit.locator).collect();
    locators.sort_unstable();
    let codes = response.notes.into_iter().map(|note| note.code).collect();
    (locators, codes)
}

#[tokio::test]
async fn operators_select_sections() {
    let (_cache, archive) = indexed_archive().await;
    let business = ["ACME_2021#0002", "ACME_2022#0002"];
    for (query, expected, notes) in [
        (r#""anvils and rockets""#, &business[..], &[][..]),
        (
            r#""rockets and anvils""#,
            &business,
            &["search.term_not_found"],
        ),
        (r#""foreign currency" risk"#, &["ACME_2022#0003"], &[]),
        (r#"currency -"foreign currency""#, &["ACME_2022#0003"], &[]),
        ("currency -risk", &[], &["search.everything_excluded"]),
        (
            "rockets -title:business",
            &[],
            &["search.everything_excluded"],
        ),
        (
            "liquidity OR hedging risk",
            &["ACME_2022#0003", "ACME_2022#0005"],
            &[],
        ),
        ("title:risk currency", &["ACME_2022#0003"], &[]),
        (
            r#"currency title:"risk factors" OR title:business"#,
            &["ACME_2021#0002", "ACME_2022#0002", "ACME_2022#0003"],
            &[],
        ),
        ("rockets year:2021", &business[..1], &[]),
        ("rockets company:Acme year:>=2022", &business[1..], &[]),
        ("rockets -year:2021", &business[1..], &[]),
        (
            "rockets company:Beta",
            &[],
            &["search.filter_matches_nothing"],
        ),
        (
            r#""anvils" "hedging reduces""#,
            &["ACME_2021#0002", "ACME_2022#0002", "ACME_2022#0003"],
            &["search.terms_not_together"],
        ),
    ] {
        let found = locators(&archive, query).await;
        assert_eq!(
            found,
            (
                expected.iter().map(ToString::to_string).collect(),
                notes.to_vec()
            ),
            "{query}"
        );
    }
    // A name selects documents, whether in quotation marks or not.
    let request = SearchRequest {
        query: r#""Acme" liquidity"#.into(),
        ..SearchRequest::default()
    };
    let response = archive.search(&request).await.unwrap();
    assert_eq!(response.hits[0].locator, "ACME_2022#0005");
    assert!(response.notes.is_empty());
    let request = SearchRequest {
        query: "rockets OR form:10-K".into(),
        ..SearchRequest::default()
    };
    let error = archive.search(&request).await.unwrap_err();
    assert_eq!(error.code, "search.syntax_invalid");
}

#[tokio::test]
async fn facets_count_the_matching_documents() {
    let (_cache, archive) = indexed_archive().await;
    let request = SearchRequest {
        query: "rockets".into(),
        limit: Some(1),
        ..SearchRequest::default()
    };
    let response = archive.search(&request).await.unwrap();
    let facets: Vec<String> = response
        .facets
        .facets
        .iter()
        .flat_map(|facet| {
            let values = facet.values.iter();
            values.map(|value| format!("{} {} {}", facet.field, value.value, value.documents))
        })
        .collect();
    assert_eq!(response.facets.total, TotalHits::Exact(2));
    assert_eq!(
        facets,
        [
            "company ACME INC 2",
            "form 10-K 2",
            "fiscal_year 2021 1",
            "fiscal_year 2022 1"
        ],
    );
}

#[tokio::test]
async fn cursors_page_through_all_hits() {
    let (_cache, archive) = indexed_archive().await;
    let all = search(&archive, "currency hedging business").await;
    let mut request = SearchRequest {
        query: "currency hedging business".into(),
        limit: Some(2),
        ..SearchRequest::default()
    };
    let mut paged: Vec<(usize, String)> = Vec::new();
    while paged.len() < all.hits.len() {
        let page = archive.search(&request).await.unwrap();
        paged.extend(page.hits.into_iter().map(|hit| (hit.rank, hit.locator)));
        request.cursor = page.next_cursor;
        if request.cursor.is_none() {
            break;
        }
    }
    let expected: Vec<(usize, String)> = all
        .hits
        .into_iter()
        .map(|hit| (hit.rank, hit.locator))
        .collect();
    assert_eq!(paged[..expected.len()], expected);
    request.cursor = Some("00".into());
    let error = archive.search(&request).await.unwrap_err();
    assert_eq!(error.code, "cursor.invalid");
}

#[tokio::test]
async fn invalid_fields_are_named() {
    let (_cache, archive) = indexed_archive().await;
    for (request, pointer) in [
        (r#"{"query": "capex", "limit": 0}"#, "/limit"),
        (r#"{"query": "capex", "strategy": "guess"}"#, "/strategy"),
        (r#"{"query": "capex", "budget_calls": 1}"#, "/budget_calls"),
    ] {
        let request: SearchRequest = serde_json::from_str(request).unwrap();
        let error = archive.search(&request).await.unwrap_err();
        assert_eq!(error.code, "request.invalid");
        assert_eq!(error.pointer(), Some(pointer));
    }
    assert!(serde_json::from_str::<SearchRequest>(r#"{"query": "capex", "skip": 1}"#).is_err());
}

#[tokio::test]
async fn hits_say_where_and_why() {
    let (_cache, reader) = indexed_archive().await;
    let view = search(&reader, "hedging currency").await;
    let hit = &view.hits[0];
    assert_eq!(
        (hit.locator.as_str(), hit.pages),
        ("ACME_2022#0003", Some((3, 4)))
    );
    assert_eq!(hit.path, ["PART I", "Item 1A. Risk Factors"]);
    assert_eq!(
        (hit.best_pages[0].page, hit.best_pages[0].label.as_deref()),
        (4, Some("3"))
    );
    assert_eq!(
        hit.excerpt.text,
        "Hedging reduces but does not remove currency risk."
    );
    assert!(
        hit.excerpt.highlights.contains(&(0, 7)),
        "{:?}",
        hit.excerpt.highlights
    );
    let sum: f32 = hit.parts.values().sum();
    assert!(
        (f64::from(sum) - hit.score).abs() < 0.01 && hit.parts.contains_key("text"),
        "{hit:#?}"
    );
    assert!(hit.why.contains("currency"), "{}", hit.why);
    assert_eq!(
        (view.searched.documents_in_scope, view.searched.documents),
        (3, 3)
    );
}

#[tokio::test]
async fn issuer_year_and_item_in_a_question_route_it() {
    let (_cache, reader) = indexed_archive().await;
    let view = search(
        &reader,
        "What does ACME say of its business in Item 1 for 2021?",
    )
    .await;
    assert_eq!(view.hits[0].locator, "ACME_2021#0002", "{view:#?}");
    let chips: Vec<&str> = view.routed.iter().map(|chip| chip.facet.as_str()).collect();
    assert_eq!(chips, ["company", "fiscal_year", "item"]);
    assert!(view.searched.documents < view.searched.documents_in_scope);
}

#[tokio::test]
async fn why_and_failures_name_cause_and_remedy() {
    let archive = archive().await;
    let why = archive.why("BROKEN").await.unwrap();
    assert_eq!(
        why.cause,
        "pdf.truncated: ends after page 3 of 12 (stage paginate, 1 try)"
    );
    assert_eq!(why.next.as_deref(), Some("get the whole file"));
    insta::assert_json_snapshot!(archive.failures("/", 1_000).unwrap(), @r#"
    {
      "total": 1,
      "reasons": [
        {
          "code": "pdf.truncated",
          "documents": 1,
          "example": "BROKEN",
          "message": "ends after page 3 of 12",
          "next": "get the whole file"
        }
      ],
      "failures": [
        {
          "doc_id": "6041d251af994bdabdc4d38bf45b3267",
          "locator": "BROKEN",
          "path": "8-K/BROKEN.pdf",
          "state": "failed",
          "code": "pdf.truncated",
          "message": "ends after page 3 of 12",
          "next": "get the whole file",
          "stage": "paginate",
          "attempts": 1,
          "at_ms": 7
        }
      ]
    }
    "#);
    assert!(
        archive
            .why("QUEUED")
            .await
            .unwrap()
            .cause
            .contains("not started")
    );
}

#[tokio::test]
async fn exports_keep_folders_and_avoid_collisions() {
    let blobs = store().await;
    publish(
        blobs.as_ref(),
        "10-K/ACME_2022.md",
        pages(&ANNUAL[..1]),
        FilingFacts::default(),
    )
    .await;
    let archive = Archive::open(&Env::system(), blobs, Collection::default())
        .await
        .unwrap();
    let documents = archive.documents_in_scope("/10-K").unwrap();
    let paths = archive.export_paths(&documents);
    assert_eq!(paths[..2], ["10-K/ACME_2021", "10-K/ACME_2022"]);
    assert!(paths[2].starts_with("10-K/ACME_2022~"), "{paths:?}");
    let pages = archive
        .export(&documents[0], &paths[0], ExportFormat::Pages)
        .await
        .unwrap();
    assert_eq!(pages.path, "10-K/ACME_2021.jsonl");
    assert_eq!(
        pages.content.lines().next().unwrap(),
        r#"{"doc":"ACME_2021","page":1,"text":"ACME INC\nAnnual report"}"#
    );
    let tree = archive
        .export(
            &documents[0],
            &paths[0],
            ExportFormat::PageIndex { text: true },
        )
        .await
        .unwrap();
    let tree: serde_json::Value = serde_json::from_str(&tree.content).unwrap();
    assert_eq!(
        tree["structure"][1]["nodes"][0]["title"],
        "Item 1. Business"
    );
    assert_eq!(tree["structure"][0]["text"], "ACME INC\nAnnual report");
}

#[tokio::test]
async fn stat_knows_items_and_sections() {
    let archive = archive().await;
    let stat = archive.stat("ACME_2022").await.unwrap();
    let items: Vec<&str> = stat
        .items
        .iter()
        .filter_map(|item| item.locator.as_deref())
        .collect();
    assert_eq!(
        items,
        ["ACME_2022#item-1", "ACME_2022#item-1A", "ACME_2022#item-7"]
    );
    let section = archive
        .stat("ACME_2022#item-II.7")
        .await
        .unwrap()
        .section
        .unwrap();
    assert_eq!(section.path, ["PART II", "Item 7. Management's Discussion"]);
    assert_eq!(
        archive
            .stat("QUEUED")
            .await
            .unwrap()
            .document
            .state
            .as_str(),
        "queued"
    );
}
