//! Reading documents: listings, trees, pages, sections, Items, facets, files.

use serde_json::{Value, json};
use stemma_document::Collection;
use stemma_engine_testing::wait::wait_until;
use stemma_store::Env;

use super::test_server::start;
use stemma_sample_store as store;

#[tokio::test]
async fn listings_are_paged_and_bad_cursors_are_refused() {
    let server = start().await;
    let whole = server.get("/v1/documents?limit=500").await;
    let ids = whole.column("items", "doc_id");
    assert_eq!(whole.json()["total"], ids.len());
    let paged = server
        .column("/v1/documents?limit=2", "items", "doc_id")
        .await;
    assert_eq!(paged, ids);
    let first = server.get("/v1/documents?limit=2").await.json();
    let cursor = first["next_cursor"].as_str().unwrap();
    let other_list = format!("/v1/documents?form=10-K&cursor={cursor}");
    assert_eq!(server.get(&other_list).await.code(), "cursor.invalid");
    assert_eq!(server.get("/v1/documents?cursor=1").await.status, 400);
    let annual = server
        .get("/v1/documents?form=10-K&fiscal_year=2022")
        .await
        .json();
    assert_eq!(
        (annual["total"].clone(), annual["items"][0]["name"].clone()),
        (1.into(), "ACME_2022.pdf".into())
    );
    assert_eq!(
        server.get("/v1/documents?form=none").await.json()["total"],
        0
    );
}

#[tokio::test]
async fn listings_are_sorted_by_a_property_over_all_pages() {
    let server = start().await;
    for sort in [
        "company",
        "-form",
        "-fiscal_year",
        "status",
        "-published",
        "-pages",
        "doubt",
        "-path",
    ] {
        let whole = server
            .get(&format!("/v1/documents?limit=500&sort={sort}"))
            .await;
        let paged = format!("/v1/documents?limit=2&sort={sort}");
        let paged = server.column(&paged, "items", "doc_id").await;
        assert_eq!(paged, whole.column("items", "doc_id"), "{sort}");
    }
    let by_path = server
        .get("/v1/documents?limit=500")
        .await
        .column("items", "path");
    let mut reversed = server
        .get("/v1/documents?limit=500&sort=-path")
        .await
        .column("items", "path");
    reversed.reverse();
    assert_eq!(reversed, by_path);
    let years = server.get("/v1/documents?sort=fiscal_year").await.json();
    let year = |at: usize| years["items"][at]["facts"]["fiscal_year"]["value"].clone();
    assert_eq!([year(0), year(1)], ["2021", "2022"]);
    let first = server
        .get("/v1/documents?limit=2&sort=company")
        .await
        .json();
    let cursor = first["next_cursor"].as_str().unwrap();
    let other = format!("/v1/documents?limit=2&sort=-company&cursor={cursor}");
    assert_eq!(server.get(&other).await.code(), "cursor.invalid");
    for wrong in ["size", "--path", "Path", "-"] {
        let reply = server.get(&format!("/v1/documents?sort={wrong}")).await;
        assert_eq!(
            (reply.status, reply.json()["errors"][0]["pointer"].clone()),
            (400, "sort".into()),
            "{}",
            reply.body
        );
    }
}

#[tokio::test]
async fn documents_are_read_by_tree_pages_sections_and_items() {
    let server = start().await;
    let stat = server.get("/v1/documents/ACME_2022").await.json();
    let id = stat["document"]["doc_id"].as_str().unwrap().to_string();
    assert_eq!(
        server.get(&format!("/v1/documents/{id}")).await.json(),
        stat
    );
    let tree = server.get("/v1/documents/ACME_2022/tree?depth=1").await;
    assert!(
        tree.column("sections", "depth")
            .iter()
            .all(|depth| *depth == 1)
    );
    let tag = tree.header("etag").unwrap();
    let again = server
        .request(&format!(
            "GET /v1/documents/{id}/tree HTTP/1.1\r\nIf-None-Match: \"x\", {tag}\r\n"
        ))
        .await;
    assert_eq!((again.status, again.body.as_str()), (304, ""));
    let outline = server
        .get(&format!("/v1/documents/{id}/tree?format=outline"))
        .await;
    assert!(
        outline.body.contains("Item 1. Business  p 2–2"),
        "{}",
        outline.body
    );
    assert!(
        server
            .get(&format!("/v1/documents/{id}/tree?format=pageindex"))
            .await
            .json()["structure"]
            .is_array()
    );
    let pages = server
        .get(&format!("/v1/documents/{id}/pages?range=2-3,5"))
        .await;
    assert_eq!(pages.column("pages", "page"), [2, 3, 5]);
    let section = server
        .get(&format!("/v1/documents/{id}/sections/0002?text=true"))
        .await
        .json();
    assert!(
        section["text"].as_str().unwrap().contains("anvils"),
        "{section}"
    );
    let items = server.get(&format!("/v1/documents/{id}/items")).await;
    assert!(!items.column("items", "item").is_empty());
}

#[tokio::test]
async fn items_facets_and_files_are_listed() {
    let server = start().await;
    let item = server
        .get("/v1/documents/ACME_2022/items/1a?text=true")
        .await
        .json();
    assert_eq!(item["item"]["item"], "1A");
    assert!(item["text"].as_str().unwrap().contains("Hedging"), "{item}");
    let facets = server
        .get("/v1/facets?fields=form,fiscal_year&q=acme")
        .await
        .json();
    assert_eq!(
        (
            &facets["total"],
            &facets["facets"][0]["values"][0]["documents"]
        ),
        (&2.into(), &2.into()),
        "{facets}"
    );
    assert_eq!(facets["facets"][1]["distinct"], 2);
    let filtered = server
        .get("/v1/documents?where=form=10-K%20and%20fiscal_year%3C2022")
        .await
        .json();
    assert_eq!(
        (&filtered["total"], &filtered["items"][0]["locator"]),
        (&1.into(), &"ACME_2021".into())
    );
    let paths = server
        .column("/v1/fs?depth=2&limit=3", "entries", "path")
        .await;
    let paths: Vec<&str> = paths.iter().filter_map(|path| path.as_str()).collect();
    insta::assert_snapshot!(paths.join("\n"), @r"
    /10-K
    /10-K/ACME_2021.pdf
    /10-K/ACME_2022.pdf
    /8-K
    /8-K/BROKEN.pdf
    /8-K/QUEUED.pdf
    /manual.md
    /@fiscal_year
    /@status
    ");
    for path in paths {
        let opened = server.get(&format!("/v1/fs{path}")).await;
        let has_tree = !path.contains("BROKEN") && !path.contains("QUEUED");
        assert!(
            opened.status == if has_tree { 200 } else { 422 },
            "{path}: {}",
            opened.body
        );
    }
    let inside = server.get("/v1/fs/10-K/ACME_2022.pdf?depth=3").await;
    for path in inside.column("entries", "path") {
        let opened = server
            .get(&format!("/v1/fs{}", path.as_str().unwrap()))
            .await;
        assert_eq!(opened.json()["path"], path);
    }
}

#[tokio::test]
async fn stored_files_support_range_requests() {
    let server = start().await;
    let document = server.get("/v1/documents/ACME_2022").await.json();
    let digest: stemma_document::Digest = document["source"].as_str().unwrap().parse().unwrap();
    let [_, key] = stemma_document::blob_keys::original_keys(&Collection::default(), digest);
    let bytes: Vec<u8> = (0..1_000_u32).map(|at| b'a' + (at % 26) as u8).collect();
    server.blobs.put(&key, bytes.into()).await.unwrap();
    let path = "/v1/documents/ACME_2022/source";
    let whole = server.get(path).await;
    assert_eq!(
        (whole.status, whole.body.len(), whole.header("content-type")),
        (200, 1_000, Some("application/pdf"))
    );
    let part = server
        .request(&format!("GET {path} HTTP/1.1\r\nRange: bytes=26-28\r\n"))
        .await;
    assert_eq!(
        (
            part.status,
            part.body.as_str(),
            part.header("content-range")
        ),
        (206, "abc", Some("bytes 26-28/1000"))
    );
    let past = server
        .request(&format!("GET {path} HTTP/1.1\r\nRange: bytes=1000-\r\n"))
        .await;
    assert_eq!(
        (
            past.status,
            past.code().as_str(),
            past.header("content-range")
        ),
        (416, "source.range_invalid", Some("bytes */1000"))
    );
    let tag = whole.header("etag").unwrap();
    assert_eq!(
        server
            .request(&format!("GET {path} HTTP/1.1\r\nIf-None-Match: {tag}\r\n"))
            .await
            .status,
        304
    );
    let head = server.request(&format!("HEAD {path} HTTP/1.1\r\n")).await;
    assert_eq!(
        (
            head.status,
            head.header("content-length"),
            head.body.as_str()
        ),
        (200, Some("1000"), "")
    );
}

/// A document without a tree is not an error: the response is its state.
#[tokio::test]
async fn documents_without_a_tree_report_their_state() {
    let server = start().await;
    let all = server.get("/v1/documents").await.json();
    let open = all["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|item| item["state"] == "failed")
        .expect("one failed");
    let reply = server
        .get(&format!(
            "/v1/documents/{}/tree",
            open["doc_id"].as_str().unwrap()
        ))
        .await;
    assert_eq!(
        (reply.status, reply.json()["ready"].clone()),
        (200, false.into()),
        "{}",
        reply.body
    );
    assert_eq!(reply.json()["document"]["state"], "failed");
}

#[tokio::test]
async fn publications_become_visible() {
    let server = start().await;
    store::publish_now(
        server.blobs.as_ref(),
        "10-K/NEW_2023.pdf",
        Env::system().now_ms(),
    )
    .await;
    wait_until("the document is visible", async || {
        server.get("/v1/documents/NEW_2023/tree").await.status == 200
    })
    .await;
    let search = r#"{"query": "anvils and rockets", "limit": 50}"#;
    wait_until("the document is found", async || {
        let found = server.post("/v1/search", search).await;
        found.body.contains("NEW_2023")
    })
    .await;
    server.stop.cancel();
    server.serving.join().await.unwrap();
}

#[tokio::test]
async fn tagged_facts_and_series_are_served() {
    let server = start().await;
    let filing = store::InlineFiling {
        cik: "0000000009",
        company: "Nine Inc.",
        period_end: "2024-12-31",
        figures: &[
            ("us-gaap:Assets", "", "2024-12-31", "1,234"),
            ("us-gaap:Assets", "", "2023-12-31", "(1,111)"),
        ],
    };
    let path = "10-K/NINE_2024.htm";
    filing
        .publish(server.blobs.as_ref(), path, &["Assets 1,234 (1,111)"])
        .await;
    store::announce(server.blobs.as_ref(), path, Env::system().now_ms()).await;
    wait_until("the document is visible", async || {
        server.get("/v1/documents/NINE_2024").await.status == 200
    })
    .await;
    let facts = "/v1/documents/NINE_2024/facts?concept=assets&limit=1";
    let first = server.get(facts).await.json();
    assert_eq!(
        (&first["total"], &first["facts"][0]["value"]),
        (&2.into(), &"1234000000".into())
    );
    let cursor = first["next_cursor"].as_str().unwrap();
    let second = server.get(&format!("{facts}&cursor={cursor}")).await.json();
    let fact = &second["facts"][0];
    assert_eq!(fact["to"], "2023-12-31");
    assert_eq!(
        (&first["facts"][0]["sign"], &fact["sign"]),
        (&Value::Null, &"-".into())
    );
    let cell = json!({ "table": "NINE_2024#t1", "row": 1, "column": 2 });
    assert_eq!(fact["cell"], cell);
    let file = server.get("/documents/NINE_2024/facts.csv").await.body;
    assert!(file.contains("\"1,111\",-,,1,NINE_2024#t1,1,2\n"), "{file}");
    let page = server.get("/documents/NINE_2024?view=facts").await.body;
    assert!(page.contains("title=\"row 1, column 2\">t1</a>"), "{page}");
    let series = server
        .get("/v1/series?scope=/10-K&concept=Assets")
        .await
        .json();
    assert_eq!(series["series"][0]["name"], "Nine Inc.");
    assert_eq!(series["series"][0]["points"][1]["value"], "1234000000");
    for (wrong, status) in [
        ("/v1/series", 422),
        ("/v1/series?concept=Assets&frequency=weekly", 422),
        ("/v1/series?concept=Assets&x=1", 400),
        ("/v1/series?concept=Assets&scope=/none", 404),
        ("/v1/documents/NINE_2024/facts?period=soon", 422),
        ("/v1/documents/NINE_2024/facts?limit=0", 400),
    ] {
        assert_eq!(server.get(wrong).await.status, status, "{wrong}");
    }
}

#[tokio::test]
async fn words_of_a_page_are_listed() {
    let server = start().await;
    let path = "/v1/documents/ACME_2022/pages/2/words";
    let words = server.get(path).await.json();
    assert_eq!(words["locator"], "ACME_2022#p=2");
    assert_eq!(
        (&words["width"], &words["height"]),
        (&json!(612.0), &json!(792.0))
    );
    assert_eq!(words["lines"].as_array().unwrap().len(), 4);
    assert_eq!(words["extent"], json!(null));
    assert_eq!(words["has_image"], true);
    assert_eq!(words["reading"], json!(null));
    let read = server.get(&format!("{path}?reading=true")).await.json();
    assert_eq!(
        read["reading"]["lines"][3]["mentions"][0]["value"], "1577",
        "{read}"
    );
    let section = server.get(&format!("{path}?section=0002")).await.json();
    assert!(section["extent"].is_array(), "{section}");
    for (path, status, code) in [
        ("ACME_2022/pages/9/words", 404, "locator.no_page"),
        (
            "ACME_2022/pages/2/words?section=0999",
            404,
            "locator.no_section",
        ),
        ("ACME_2022/pages/2/words?section=x", 400, "request.invalid"),
        ("manual/pages/1/words", 422, "document.no_pages"),
    ] {
        let refused = server.get(&format!("/v1/documents/{path}")).await;
        assert_eq!(
            (refused.status, refused.code().as_str()),
            (status, code),
            "{path}"
        );
    }
}
