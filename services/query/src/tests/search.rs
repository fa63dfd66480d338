//! Search, browsing and comparisons over HTTP.

use serde_json::{Value, json};
use stemma_sample_store::model::answer_model;
use stemma_sim::{Gold, Oracle, Provider, Setup};

use super::test_server::{start, start_with_model_and};
use crate::QuerySettings;

#[tokio::test]
async fn a_search_finds_sections() {
    let server = start().await;
    let results = server
        .post(
            "/v1/search",
            r#"{"query": "currency risk", "scopes": ["/10-K"], "limit": 3}"#,
        )
        .await
        .json();
    assert_eq!(results["hits"][0]["name"], "ACME_2022.pdf", "{results}");
    let first = server
        .post("/v1/search", r#"{"query": "business", "limit": 1}"#)
        .await
        .json();
    let next = first["next_cursor"].as_str().expect("a second hit");
    let second = format!(r#"{{"query": "business", "limit": 1, "cursor": "{next}"}}"#);
    let second = server.post("/v1/search", &second).await.json();
    assert_eq!(second["hits"][0]["rank"], 2, "{second}");
    assert_ne!(second["hits"][0]["locator"], first["hits"][0]["locator"]);
    let item = r#"{"query": "currency", "scopes": ["/10-K/ACME_2022.pdf/@item/7"]}"#;
    assert!(
        server.post("/v1/search", item).await.json()["hits"]
            .as_array()
            .unwrap()
            .is_empty()
    );
    let ranked = server
        .post(
            "/v1/browse",
            r#"{"query": "hedging", "scope": "/", "recursive": true}"#,
        )
        .await
        .json();
    assert_eq!(
        ranked["documents"][0]["document"]["locator"], "ACME_2022",
        "{ranked}"
    );
    let direct = server
        .post("/v1/browse", r#"{"query": "hedging", "scope": "/"}"#)
        .await
        .json();
    assert_eq!(
        (
            &direct["documents_in_scope"],
            direct["documents"].as_array().unwrap().len()
        ),
        (&1.into(), 0)
    );
}

/// `GET` and `POST` have one search behind them; the results have a tag.
#[tokio::test]
async fn a_search_by_url_is_the_same_search() {
    let server = start().await;
    server.post("/v1/search", r#"{"query": "risk"}"#).await;
    let body = r#"{"query": "\"currency risk\" -rockets", "scopes": ["/10-K"], "where": "fiscal_year>=2020",
        "limit": 2, "explain": true}"#;
    let mut posted = server.post("/v1/search", body).await.json();
    let url = "/v1/search?q=%22currency+risk%22+-rockets&documents=/10-K&where=fiscal_year%3E%3D2020&limit=2&explain=true";
    let reply = server.get(url).await;
    let mut found = reply.json();
    for response in [&mut posted, &mut found] {
        response["searched"]["took_us"] = 0.into();
    }
    assert_eq!(found, posted);
    assert_eq!(found["facets"]["facets"][0]["field"], "company", "{found}");
    let tag = reply.header("etag").expect("a tag").to_owned();
    let again = server
        .request(&format!("GET {url} HTTP/1.1\r\nIf-None-Match: {tag}\r\n"))
        .await;
    assert_eq!((again.status, again.body.as_str()), (304, ""));
    let other = "/v1/search?q=business&limit=1&skip=1";
    let second = server
        .request(&format!("GET {other} HTTP/1.1\r\nIf-None-Match: {tag}\r\n"))
        .await;
    assert_eq!(second.json()["hits"][0]["rank"], 2, "{}", second.body);
}

/// Every hit of a search by URL meets the operators of its query.
#[tokio::test]
async fn operators_hold_in_a_search_by_url() {
    let server = start().await;
    // Each query with the page of its first hit, and its notes.
    let cases: [(&str, Option<u64>, &[&str]); 10] = [
        ("%22currency+risk%22", Some(4), &[]),
        ("anvils+OR+hedging+year:2022+-anvils", Some(4), &[]),
        ("currency+-hedging", Some(3), &[]),
        ("currency+-%22foreign+currency%22", Some(4), &[]),
        ("title:business+rockets", Some(2), &[]),
        ("text:liquidity", Some(5), &[]),
        ("anvils+year:2021+form:10-K", Some(2), &[]),
        ("anvils+year:1999", None, &["search.filter_matches_nothing"]),
        (
            "%22rocket+risk%22+currency",
            Some(3),
            &["search.term_not_found"],
        ),
        ("currency+-currency", None, &["search.everything_excluded"]),
    ];
    for (query, page, notes) in cases {
        let reply = server.get(&format!("/v1/search?q={query}")).await;
        let found = reply.json();
        let first = found["hits"][0]["best_pages"][0]["page"].as_u64();
        assert_eq!(first, page, "{query}: {found}");
        let codes = found["notes"].as_array().into_iter().flatten();
        let codes: Vec<&str> = codes.filter_map(|note| note["code"].as_str()).collect();
        assert_eq!(codes, notes, "{query}: {found}");
    }
    let found = server.get("/v1/search?q=anvils+in+2021").await.json();
    let year = &found["routed"][0];
    assert_eq!(
        (&year["narrows"], &year["documents"]),
        (&false.into(), &1.into()),
        "{found}"
    );
}

/// Operators choose among the sections that a model found.
#[tokio::test]
async fn operators_hold_in_searches_with_a_model() {
    let question = "Where are spending and liquidity described?";
    let gold = Gold {
        question: question.into(),
        doc: "ACME_2022".into(),
        pages: vec![2, 5],
    };
    let setup = Setup {
        oracle: Oracle::default().with_golds(vec![gold]),
        ..Setup::default()
    };
    let provider = Provider::start_with(setup).await.unwrap();
    let query = QuerySettings::default();
    let server = start_with_model_and(answer_model(&provider), query).await;
    for strategy in ["beam", "best_first", "mcts"] {
        let search = async |query: &str| {
            let search = json!({ "query": query, "scopes": ["ACME_2022"], "strategy": strategy, "explain": true });
            let found = server.post("/v1/search", &search.to_string()).await;
            assert_eq!(found.status, 200, "{strategy}: {}", found.body);
            let found = found.json();
            let hits = found["hits"].as_array().unwrap().clone();
            assert!(
                hits.iter().any(|hit| hit["parts"]["model"].is_number()),
                "{strategy}: {found}"
            );
            (found, hits)
        };
        let names = |hit: &Value, title: &str| hit["path"].to_string().contains(title);
        let (found, hits) = search(question).await;
        for title in ["Business", "Discussion"] {
            assert!(
                hits.iter().any(|hit| names(hit, title)),
                "{strategy}, {title}: {found}"
            );
        }
        let (found, hits) = search(&format!("{question} -anvils")).await;
        assert!(
            hits.iter().any(|hit| names(hit, "Discussion"))
                && !hits.iter().any(|hit| names(hit, "Business")),
            "{strategy}: {found}"
        );
        let routed = found["routed"].as_array().unwrap();
        assert!(
            routed.iter().any(|filter| filter["facet"] == "not"),
            "{strategy}: {found}"
        );
    }
}

#[tokio::test]
async fn model_strategies_report_a_missing_model() {
    let server = start().await;
    let ask = async |rest: &str| {
        server
            .post(
                "/v1/search",
                &format!(r#"{{"query": "currency risk", {rest}}}"#),
            )
            .await
    };
    let refused = ask(r#""strategy": "beam""#).await;
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (422, "config.no_model")
    );
    let plain = ask(r#""strategy": "ranked""#).await.json();
    let auto = ask(r#""strategy": "auto-with-model", "budget_calls": 3"#)
        .await
        .json();
    assert_eq!(
        (&auto["hits"], &plain["reasoning"]),
        (&plain["hits"], &Value::Null)
    );
    assert_eq!(
        auto["reasoning"]["notes"][0]["code"],
        "model.not_configured"
    );
    assert_eq!(
        ask(r#""budget_tokens": 3"#).await.status,
        422,
        "a budget without a strategy that uses it"
    );
}

#[tokio::test]
async fn comparisons_are_paged_by_pairs() {
    let server = start().await;
    let first = server
        .post("/v1/comparisons", r#"{"right": "ACME_2022", "limit": 4}"#)
        .await;
    let first = first.json();
    assert_eq!(
        (&first["left"]["locator"], &first["total"]),
        (&"ACME_2021".into(), &6.into())
    );
    assert_eq!(
        (
            first["pairs"].as_array().map(Vec::len),
            &first["counts"]["added"]
        ),
        (Some(4), &3.into())
    );
    let cursor = first["next_cursor"].as_str().unwrap();
    let rest = server
        .post(
            "/v1/comparisons",
            &format!(r#"{{"right": "ACME_2022", "cursor": "{cursor}"}}"#),
        )
        .await;
    let rest = rest.json();
    assert_eq!(
        (rest["pairs"].as_array().map(Vec::len), &rest["next_cursor"]),
        (Some(2), &Value::Null)
    );
    let of_others =
        format!(r#"{{"left": "ACME_2022", "right": "ACME_2021", "cursor": "{cursor}"}}"#);
    let added = r#"{"right": "ACME_2022", "outcomes": ["added"], "item": "1A"}"#;
    let added = server.post("/v1/comparisons", added).await.json();
    assert_eq!(added["pairs"][0]["added"][0]["page"], 3);
    for (body, status, code) in [
        (of_others.as_str(), 400, "cursor.invalid"),
        (r#"{"left": "ACME_2021"}"#, 422, "request.invalid"),
        (r#"{"right": "ACME_2021"}"#, 422, "comparison.no_previous"),
        (r#"{"right": "NONE"}"#, 404, "locator.not_found"),
        (
            r#"{"right": "ACME_2022", "item": "99"}"#,
            404,
            "locator.no_item",
        ),
        (
            r#"{"right": "ACME_2022", "limit": 501}"#,
            422,
            "request.invalid",
        ),
        (
            r#"{"right": "ACME_2022", "sentences": 21}"#,
            422,
            "request.invalid",
        ),
        (
            r#"{"right": "ACME_2022", "outcomes": ["same"]}"#,
            422,
            "request.invalid",
        ),
        (
            r#"{"right": "ACME_2022", "colour": 1}"#,
            422,
            "request.invalid",
        ),
        (r#"{"right": "#, 400, "request.invalid"),
    ] {
        let reply = server.post("/v1/comparisons", body).await;
        assert_eq!(
            (reply.status, reply.code().as_str()),
            (status, code),
            "{body}: {}",
            reply.body
        );
    }
}
