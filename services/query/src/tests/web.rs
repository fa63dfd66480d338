//! The pages for people: what they show, and what they refuse.

use stemma_engine_testing::wait::wait_until;
use stemma_sample_store as store;
use stemma_sample_store::model::answer_model;
use stemma_sim::{Behavior, Provider};
use stemma_store::blobs::Blobs;

use super::test_server::{
    TestReply, TestServer, start, start_answering, start_over, start_with_key,
};
use crate::ServerDeps;

const BROWSER: &str = "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n";

pub(super) async fn browse(server: &TestServer, path: &str, head: &str) -> TestReply {
    server
        .request(&format!("GET {path} HTTP/1.1\r\n{BROWSER}{head}"))
        .await
}

pub(super) async fn send_form(
    server: &TestServer,
    path: &str,
    head: &str,
    body: &str,
) -> TestReply {
    let length = body.len();
    let request = format!(
        "POST {path} HTTP/1.1\r\n{BROWSER}{head}Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    server.request(&request).await
}

/// The text between two marks.
fn between<'a>(text: &'a str, start: &str, end: &str) -> &'a str {
    let rest = text
        .split_once(start)
        .unwrap_or_else(|| panic!("no {start} in {text}"))
        .1;
    rest.split_once(end).unwrap().0
}

/// The token of the first form, and the cookie that belongs to it.
pub(super) fn form_token(reply: &TestReply) -> (String, String) {
    let token = between(&reply.body, "name=\"token\" value=\"", "\"");
    let cookie = reply.header("set-cookie").unwrap_or_default();
    let cookie = cookie.split(';').next().unwrap();
    (token.to_owned(), format!("Cookie: {cookie}\r\n"))
}

#[tokio::test]
async fn pages_have_headers_that_allow_only_their_own_content() {
    let server = start().await;
    for path in [
        "/",
        "/search",
        "/ask",
        "/conversations",
        "/compare",
        "/login",
        "/documents/ACME_2022",
        "/documents/ACME_2022?page=2&reading=true",
        "/documents/nothing",
        "/nowhere",
    ] {
        let reply = browse(&server, path, "").await;
        let policy = reply.header("content-security-policy").unwrap_or_default();
        assert!(
            policy.starts_with("default-src 'none'; script-src 'self';"),
            "{path}: {}",
            reply.head
        );
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(
            reply.header("x-content-type-options"),
            Some("nosniff"),
            "{path}"
        );
        assert_eq!(
            reply.header("referrer-policy"),
            Some("same-origin"),
            "{path}"
        );
        assert!(
            reply.body.starts_with("<!DOCTYPE html>"),
            "{path}: {}",
            reply.body
        );
        assert!(
            !reply.body.contains(" style=") && !reply.body.contains("<style"),
            "{path}"
        );
    }
}

#[tokio::test]
async fn a_page_shows_what_it_was_read_as_where_the_address_says_so() {
    let server = start().await;
    let plain = "/documents/ACME_2022?page=2&at=0002";
    let page = browse(&server, plain, "").await.body;
    assert!(!page.contains("class=\"legend\""), "{page}");
    let shown = "/documents/ACME_2022?page=2&amp;reading=true&amp;at=0002";
    assert!(
        page.contains(&format!("href=\"{shown}\">Show reading<")),
        "{page}"
    );
    let page = browse(&server, &shown.replace("&amp;", "&"), "").await.body;
    assert!(
        page.contains("<span class=\"swatch\"></span>Prose 2</li>"),
        "{page}"
    );
    assert!(
        page.contains("<title>amount 1577 × 1000000</title>"),
        "{page}"
    );
    let text = between(&page, "class=\"page-text\"", "</div>");
    assert!(
        text.contains("<p data-kind=\"label\"><span class=\"note\">label</span>"),
        "{text}"
    );
    let hide = plain.replace('&', "&amp;");
    assert!(
        page.contains(&format!("href=\"{hide}\">Hide reading<")),
        "{page}"
    );
    assert!(
        page.contains("page=3&amp;reading=true&amp;at=0002"),
        "the next page shows it too: {page}"
    );
}

#[tokio::test]
async fn browsers_get_pages_of_errors_and_other_clients_get_json() {
    let server = start().await;
    let page = browse(&server, "/documents/nothing", "").await;
    assert_eq!(
        (page.status, page.header("content-type")),
        (404, Some("text/html; charset=utf-8"))
    );
    assert!(page.body.contains("locator.not_found"), "{}", page.body);
    let json = server.get("/documents/nothing").await;
    assert_eq!(
        (json.status, json.code().as_str()),
        (404, "locator.not_found")
    );
    let api = browse(&server, "/v1/documents/nothing", "").await;
    assert_eq!(
        (api.status, api.code().as_str()),
        (404, "locator.not_found")
    );
    assert_eq!(server.get("/nowhere").await.code(), "route.unknown");
}

#[tokio::test]
async fn assets_are_stored_by_browsers_for_good() {
    let server = start().await;
    let page = browse(&server, "/", "").await;
    for (start, content_type) in [
        ("rel=\"stylesheet\" href=\"", "text/css; charset=utf-8"),
        ("script src=\"", "text/javascript; charset=utf-8"),
    ] {
        let asset = server.get(between(&page.body, start, "\"")).await;
        assert_eq!(
            (asset.status, asset.header("content-type")),
            (200, Some(content_type))
        );
        assert!(
            asset
                .header("cache-control")
                .unwrap()
                .ends_with("immutable")
        );
    }
    let old = server.get("/assets/0000/style.css").await;
    assert_eq!(
        (old.status, old.header("cache-control")),
        (200, Some("no-cache"))
    );
    assert_eq!(server.get("/assets/0000/other.css").await.status, 404);
}

#[tokio::test]
async fn the_archive_lists_documents_by_facet() {
    let server = start().await;
    let all = browse(&server, "/", "").await.body;
    let listed = server.get("/v1/documents").await.json();
    for document in listed["items"].as_array().unwrap() {
        let link = format!(
            "href=\"/documents/{}\"",
            document["locator"].as_str().unwrap()
        );
        assert!(all.contains(&link), "{link}");
    }
    assert!(all.contains("stemma ls /"), "{all}");
    let failed = browse(&server, "/?status=failed", "").await.body;
    let total = server.get("/v1/documents?status=failed").await.json()["total"].to_string();
    assert!(
        failed.contains(&format!("<h2 id=\"documents\">{total} document")),
        "{failed}"
    );
    assert!(failed.contains("href=\"/\">"), "{failed}");
    let company = browse(&server, "/?company=acme", "").await.body;
    let facet = between(&company, "aria-label=\"Filters\"", "</aside>");
    let chosen = between(facet, "aria-current=\"true\">", "</a>");
    assert!(
        chosen.contains("ACME INC"),
        "a value is chosen in any spelling: {facet}"
    );
    let words = browse(&server, "/?q=acme", "").await.body;
    assert!(
        !words.contains("stemma ls"),
        "no command lists documents by words"
    );
}

#[tokio::test]
async fn a_document_of_many_items_is_cut() {
    let blobs = store::store().await;
    let page = (0..1_500).map(|at| format!("Item {}. Risk {at}\ntext\n", at % 90 + 1));
    store::publish_pages(blobs.as_ref(), "many.md", &[&page.collect::<String>()]).await;
    let server = start_over(blobs, ServerDeps::default()).await;
    let items = browse(&server, "/documents/many?view=items", "").await.body;
    assert_eq!(items.matches("<th scope=\"row\">").count(), 1_000);
    assert!(items.contains("500 more are not shown"), "{items}");
}

#[tokio::test]
async fn lists_are_paged_by_cursor() {
    let blobs = store::store().await;
    for number in 0..60 {
        store::publish_pages(
            blobs.as_ref(),
            &format!("many/{number:02}.md"),
            &["# One\nText"],
        )
        .await;
    }
    let server = start_over(blobs, ServerDeps::default()).await;
    for sort in ["", "&sort=-path"] {
        let first = browse(&server, &format!("/?scope=%2Fmany{sort}"), "")
            .await
            .body;
        let next = between(&first, "rel=\"next\" href=\"", "\"").replace("&amp;", "&");
        let second = browse(&server, &next, "").await.body;
        assert_eq!(first.matches("href=\"/documents/").count(), 50);
        assert_eq!(second.matches("href=\"/documents/").count(), 10);
        assert!(!second.contains("rel=\"next\""));
        let is_ascending = sort.is_empty();
        assert_eq!(first.contains("many/00.md"), is_ascending);
        assert_eq!(second.contains("many/00.md"), !is_ascending);
    }
}

#[tokio::test]
async fn heads_of_columns_sort_the_list_and_keep_its_filters() {
    let server = start().await;
    let page = browse(&server, "/?form=10-K&sort=-fiscal_year", "")
        .await
        .body;
    let head = |page: &str, name: &str| -> String {
        let heads = between(page, "<thead>", "</thead>").split("<th");
        let head = heads
            .into_iter()
            .find(|head| head.contains(&format!(">{name}<")));
        head.unwrap().to_owned()
    };
    let year = head(&page, "Year");
    assert!(year.contains("aria-sort=\"descending\""), "{year}");
    assert!(
        year.contains("href=\"/?form=10-K&amp;sort=fiscal_year\""),
        "{year}"
    );
    let company = head(&page, "Company");
    assert!(!company.contains("aria-sort"), "{company}");
    assert!(
        company.contains("href=\"/?form=10-K&amp;sort=company\""),
        "{company}"
    );
    assert!(
        head(&page, "Document").contains("href=\"/?form=10-K\""),
        "the default order has no parameter"
    );
    assert!(page.find("ACME_2022").unwrap() < page.find("ACME_2021").unwrap());
    assert!(
        page.contains("stemma ls /@form/10-K --sort -fiscal_year"),
        "{page}"
    );
    assert!(
        page.contains("/v1/documents?form=10-K&amp;sort=-fiscal_year"),
        "{page}"
    );
    let form = between(&page, "<form class=\"search\"", "</form>");
    for (name, value) in [("form", "10-K"), ("sort", "-fiscal_year")] {
        let field = format!("<input type=\"hidden\" name=\"{name}\" value=\"{value}\">");
        assert!(form.contains(&field), "searching keeps the filters: {form}");
    }
    assert_eq!(browse(&server, "/?sort=size", "").await.status, 400);
}

#[tokio::test]
async fn a_document_shows_its_sections_next_to_the_page() {
    let server = start().await;
    let overview = browse(&server, "/documents/ACME_2022", "").await.body;
    assert!(
        overview.contains("\"/documents/ACME_2022/pages/1/image?width=1000\""),
        "{overview}"
    );
    assert!(
        overview.contains("text.md") && !overview.contains("facts.csv"),
        "a PDF tags no facts: {overview}"
    );
    let item = browse(&server, "/documents/ACME_2022?at=item-1A", "")
        .await
        .body;
    assert!(
        item.contains("Foreign currency may move against us."),
        "{item}"
    );
    assert!(
        item.contains("\"/documents/ACME_2022/pages/3/image"),
        "{item}"
    );
    assert!(item.contains("aria-current=\"true\""), "{item}");
    assert!(item.contains("stemma cat ACME_2022#item-1A"), "{item}");
    for view in ["items", "tables", "facts", "about"] {
        let reply = browse(&server, &format!("/documents/ACME_2022?view={view}"), "").await;
        assert_eq!(reply.status, 200, "{view}: {}", reply.body);
    }
    let text = server.get("/documents/ACME_2022/text.md").await;
    assert!(
        text.body
            .contains("# Item 1A. Risk Factors\n\nForeign currency"),
        "{}",
        text.body
    );
    assert_eq!(
        server
            .get("/documents/ACME_2022/facts.csv")
            .await
            .header("content-type"),
        Some("text/csv; charset=utf-8")
    );
}

#[tokio::test]
async fn hostile_titles_are_text() {
    let blobs = store::store().await;
    let hostile = "# <script>alert(1)</script>\u{202e}\u{1b}[31m\"onload=x\nbody <img src=x onerror=alert(1)>";
    let long = format!("# {}\nbody", "W".repeat(1 << 20));
    publish(&blobs, "<b>bold\u{202e}.md", hostile).await;
    publish(&blobs, "long.md", &long).await;
    let server = start_over(blobs, ServerDeps::default()).await;
    let listed = server.get("/v1/documents").await.json();
    let names = listed["items"].as_array().unwrap().iter();
    let hostile: Vec<_> = names
        .filter(|document| document["path"].as_str().unwrap().contains("bold"))
        .collect();
    let id = hostile[0]["doc_id"].as_str().unwrap();
    for path in [
        "/".to_owned(),
        format!("/documents/{id}"),
        format!("/documents/{id}?at=0000"),
        format!("/documents/{id}?view=about"),
        "/search?q=alert".to_owned(),
    ] {
        let body = browse(&server, &path, "").await.body;
        assert!(
            !body.contains("<script>alert")
                && !body.contains("<b>bold")
                && !body.contains("<img src=x"),
            "{path}: {body}"
        );
        assert!(!body.contains(['\u{202e}', '\u{1b}']), "{path}");
    }
    let long = browse(&server, "/documents/long", "").await;
    assert_eq!(long.status, 200);
    assert!(long.body.len() < 300_000, "{}", long.body.len());
    let query = browse(&server, "/search?q=%3Cscript%3Ealert(1)%3C%2Fscript%3E", "")
        .await
        .body;
    assert!(!query.contains("<script>alert"), "{query}");
}

async fn publish(blobs: &std::sync::Arc<stemma_store::blobs::MemoryBlobs>, path: &str, text: &str) {
    let blobs: &dyn Blobs = blobs.as_ref();
    store::publish_pages(blobs, path, &[text]).await;
}

#[tokio::test]
async fn searching_shows_hits_and_what_is_not_here() {
    let server = start().await;
    let found = browse(&server, "/search?q=anvils", "").await.body;
    assert!(found.contains("<mark>anvils</mark>"), "{found}");
    let missing = browse(&server, "/search?q=anvls", "").await.body;
    assert!(missing.contains("No document has “anvls”"), "{missing}");
    assert!(missing.contains("href=\"/search?q=anvils\""), "{missing}");
}

#[tokio::test]
async fn a_key_is_asked_for_and_kept_in_a_cookie_that_only_reads() {
    let server = start_with_key("open sesame").await;
    let refused = browse(&server, "/search?q=anvils", "").await;
    assert_eq!(
        (refused.status, refused.header("content-type")),
        (401, Some("text/html; charset=utf-8"))
    );
    assert!(
        refused.body.contains("/login?next=%2Fsearch%3Fq%3Danvils"),
        "{}",
        refused.body
    );
    assert!(!refused.body.contains("ACME"));
    assert_eq!(server.get("/").await.code(), "key.unknown");

    let form = browse(&server, "/login?next=%2Fsearch%3Fq%3Danvils", "").await;
    let (token, cookie) = form_token(&form);
    let body = format!("token={token}&key=open+sesame&next=%2Fsearch%3Fq%3Danvils");
    let signed_in = send_form(&server, "/login", &cookie, &body).await;
    assert_eq!(
        (signed_in.status, signed_in.header("location")),
        (303, Some("/search?q=anvils"))
    );
    let set = signed_in.header("set-cookie").unwrap();
    assert!(
        set.starts_with("stemma_key=open%20sesame; ") && set.contains("HttpOnly; SameSite=Strict"),
        "{set}"
    );

    let cookie = "Cookie: stemma_key=open%20sesame\r\n";
    assert_eq!(browse(&server, "/", cookie).await.status, 200);
    let read = server
        .request(&format!("GET /v1/documents HTTP/1.1\r\n{cookie}"))
        .await;
    assert_eq!(read.status, 200);
    let other_port = format!("GET /v1/documents HTTP/1.1\r\n{cookie}Sec-Fetch-Site: same-site\r\n");
    assert_eq!(server.request(&other_port).await.code(), "key.unknown");
    let posted = server
        .post_with(cookie, "/v1/search", r#"{"query": "anvils"}"#)
        .await;
    assert_eq!(
        (posted.status, posted.code().as_str()),
        (401, "key.unknown")
    );
    let wrong = browse(&server, "/", "Cookie: stemma_key=wrong\r\n").await;
    assert!(
        wrong.status == 401 && wrong.body.contains("The key of this browser is unknown"),
        "{}",
        wrong.body
    );
}

#[tokio::test]
async fn forms_need_the_token_of_their_browser() {
    let server = start().await;
    let (token, cookie) = form_token(&browse(&server, "/ask", "").await);
    let body = format!("token={token}&question=anvils");
    let accepted = send_form(&server, "/ask", &cookie, &body).await;
    assert_eq!(
        (accepted.status, accepted.header("location")),
        (303, Some("/search?q=anvils"))
    );
    for (cookie, body) in [
        (cookie.as_str(), "question=anvils".to_owned()),
        (cookie.as_str(), "token=&question=anvils".to_owned()),
        ("Cookie: stemma_form=other\r\n", body.clone()),
        ("", body.clone()),
    ] {
        let refused = send_form(&server, "/ask", cookie, &body).await;
        assert!(
            refused.status == 403 && refused.body.contains("form.token_invalid"),
            "{}",
            refused.body
        );
    }
    let foreign = format!("{cookie}Origin: http://evil.example\r\n");
    assert_eq!(
        send_form(&server, "/ask", &foreign, &body).await.status,
        403
    );
    let own = format!("{cookie}Origin: http://localhost\r\n");
    assert_eq!(send_form(&server, "/ask", &own, &body).await.status, 303);
}

#[tokio::test]
async fn an_answer_has_an_address_and_shows_its_quotes_on_the_page() {
    let provider = Provider::start(Behavior::default()).await.unwrap();
    let server = start_answering(answer_model(&provider)).await;
    let (token, cookie) = form_token(&browse(&server, "/ask", "").await);
    let body = format!("token={token}&question=How+much+was+R%26D+spending%3F&scope=ACME_2022");
    let asked = send_form(&server, "/ask", &cookie, &body).await;
    assert_eq!(asked.status, 303, "{}", asked.body);
    let address = asked.header("location").unwrap().to_owned();
    let mut page = browse(&server, &address, "").await;
    wait_until("the answer is complete", async || {
        page = browse(&server, &address, "").await;
        !page.body.contains("data-stream")
    })
    .await;
    let address = between(&page.body, "href=\"/answers/", "\"");
    let answer = server.get(&format!("/v1/answers/{address}")).await.json();
    let alone = browse(&server, &format!("/answers/{address}"), "").await;
    assert!(
        alone.body.contains("<li class=\"claim\">"),
        "{}",
        alone.body
    );
    let claims = answer["claims"].as_array().unwrap();
    assert!(!claims.is_empty(), "{answer}");
    assert_eq!(
        page.body.matches("<li class=\"claim\">").count(),
        claims.len(),
        "{}",
        page.body
    );
    let verified = claims
        .iter()
        .filter(|claim| claim["state"] == "verified")
        .count();
    let shown = page.body.matches("data-claim=\"verified\"").count();
    assert!(shown >= verified, "{}", page.body);
    for citation in answer["citations"].as_array().unwrap() {
        let id = citation["id"].as_str().unwrap();
        assert!(
            page.body.contains(&format!("id=\"citation-{id}\"")),
            "{}",
            page.body
        );
    }
    assert_eq!(
        browse(&server, "/answers/a-0000000000000000", "")
            .await
            .status,
        404
    );
}
