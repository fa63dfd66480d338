//! Tests of searches over a small archive of invented companies, in memory.

use stemma_catalog::document_store::OpenDocument;
use stemma_catalog::filter::Filter;
use stemma_catalog::fixtures::company_entry;
use stemma_document::{
    CatalogEntry, DraftEntry, EntryVerdict, EvidenceSource, Extent, Fact, Line, LineRole,
    LocatedEntry, Method, Page, SectionStart, SectionTree, SourceBody, TextLines, Ticker,
    VerifiedOutline,
};
use tantivy::Index;

use super::doc_mapper::DocMapper;
use super::entry::map_document;
use super::query::search;
use super::searcher::IndexSearcher;
use super::shard::ShardCount;
use crate::alias_file::AliasFile;
use crate::search::{DocumentScope, Query, SearchResults, TotalHits};

// Words that every filing has.
const COMMON: &str = "The company reports revenue, income and cash. Risk factors may affect results of the year and gilt bonds.";

struct Filing {
    issuer: &'static str,
    ticker: &'static str,
    year: &'static str,
    text: &'static str,
}

const FILINGS: [Filing; 8] = [
    Filing {
        issuer: "Umber Beauty Group, Inc.",
        ticker: "UMBR",
        year: "2022",
        text: "Umber Beauty Group, Inc. (the “Company” or “Umber Beauty”) sells fragrance in target markets.",
    },
    Filing {
        issuer: "Umber Beauty Group, Inc.",
        ticker: "UMBR",
        year: "2023",
        text: "Umber Beauty Group, Inc. sells fragrance. Our health is good.",
    },
    Filing {
        issuer: "Corvid Freight Corporation",
        ticker: "CVF",
        year: "2022",
        text: "Corvid Freight (formerly known as Rook Haulage, Inc.) moves parcels to target markets by aircraft.",
    },
    Filing {
        issuer: "Target Widgets Corp",
        ticker: "TGW",
        year: "2022",
        text: "Target Widgets makes anvils of cast iron.",
    },
    Filing {
        issuer: "Gilt",
        ticker: "GLT",
        year: "2022",
        text: "Gilt lends money. The target of Gilt is growth; its health plans are old.",
    },
    Filing {
        issuer: "Jarvis & Jarvis",
        ticker: "JRV",
        year: "2022",
        text: "Jarvis & Jarvis sells soap in target markets with gilt edges and gilt frames.",
    },
    // One issuer, which changed its name.
    Filing {
        issuer: "Saffron Systems Incorporated",
        ticker: "SFRN",
        year: "2020",
        text: "Saffron Systems sells spices.",
    },
    Filing {
        issuer: "Saffron Inc.",
        ticker: "SFRN",
        year: "2022",
        text: "Saffron sells spices.",
    },
];

fn archive() -> IndexSearcher {
    archive_in(ShardCount::default())
}

fn archive_in(shards: ShardCount) -> IndexSearcher {
    let filings = FILINGS.iter().map(|filing| {
        let path = format!("{} {}.txt", filing.ticker.to_lowercase(), filing.year);
        let mut entry = company_entry(&path, filing.issuer);
        entry.facts.form = Some(Fact::from_text("10-K", None));
        entry.facts.file_number = Some(Fact::from_text(format!("001-{}", filing.ticker), None));
        entry.facts.fiscal_year = Some(Fact::from_text(filing.year, None));
        entry.facts.period_end = Some(Fact::from_text(format!("{}-12-31", filing.year), None));
        entry.facts.tickers = vec![Ticker {
            symbol: Fact::from_text(filing.ticker, None),
            exchange: None,
        }];
        let lines = vec![filing.text.to_owned(), COMMON.to_owned()];
        let outline = VerifiedOutline::new(Extent::Lines(2), Vec::new()).unwrap();
        let opened = OpenDocument::new(
            SectionTree::build(&outline, Method::Markup, Vec::new()),
            Some(SourceBody::Lines(TextLines {
                lines,
                tokens: Vec::new(),
                headings: Vec::new(),
            })),
            None,
        );
        (entry, opened)
    });
    indexed_in(shards, filings)
}

pub(super) fn indexed(
    documents: impl Iterator<Item = (CatalogEntry, OpenDocument)>,
) -> IndexSearcher {
    indexed_in(ShardCount::default(), documents)
}

fn indexed_in(
    count: ShardCount,
    documents: impl Iterator<Item = (CatalogEntry, OpenDocument)>,
) -> IndexSearcher {
    let mapper = DocMapper::current();
    let shards = count.shards().map(|_| {
        let mut index = Index::create_in_ram(mapper.schema.clone());
        index.set_tokenizers(mapper.tokenizers.clone());
        let writer = index.writer_with_num_threads(1, 16 << 20).unwrap();
        (index, writer)
    });
    let shards: Vec<_> = shards.collect();
    for (entry, opened) in documents {
        let shard = count.shard_of(entry.version.doc).number();
        map_document(&entry, &opened, &mut |document| {
            shards[shard].1.add_document(document).unwrap();
        });
    }
    let searchers = shards.into_iter().map(|(index, mut writer)| {
        writer.commit().unwrap();
        index.reader().unwrap().searcher()
    });
    IndexSearcher::new(mapper.schema, searchers.collect())
}

// Annual reports of one issuer with 60 notes each. Later ones have the words of a question more often.
fn reports_of_notes() -> IndexSearcher {
    reports_of_notes_in(ShardCount::default())
}

fn reports_of_notes_in(shards: ShardCount) -> IndexSearcher {
    let reports = (2012..2023).map(|year| {
        let mut entry = company_entry(&format!("acme {year}.txt"), "Acme Works");
        entry.facts.form = Some(Fact::from_text("10-K", None));
        entry.facts.fiscal_year = Some(Fact::from_text(year.to_string(), None));
        entry.facts.period_end = Some(Fact::from_text(format!("{year}-12-31"), None));
        let sales = "Net sales of anvils rose. ".repeat(if year == 2015 { 1 } else { 2 });
        let notes = (1..=60).map(|note| format!("{sales}Mill {note} works well."));
        let lines: Vec<String> = notes.collect();
        let judged = (1..=60).map(|line| {
            let entry = DraftEntry {
                number: None,
                title: format!("Note {line} on wire"),
                label: None,
                target: None,
                level: 1,
                evidence: EvidenceSource::Markup,
            };
            let place = SectionStart::Line(line);
            let verdict = EntryVerdict::Confirmed { starts_page: true };
            (LocatedEntry { entry, place }, verdict)
        });
        let outline = VerifiedOutline::new(Extent::Lines(60), judged.collect()).unwrap();
        let opened = OpenDocument::new(
            SectionTree::build(&outline, Method::Markup, Vec::new()),
            Some(SourceBody::Lines(TextLines {
                lines,
                tokens: Vec::new(),
                headings: Vec::new(),
            })),
            None,
        );
        (entry, opened)
    });
    indexed_in(shards, reports)
}

fn found(text: &str) -> SearchResults {
    search(&archive(), &AliasFile::default(), &Query::new(text)).unwrap()
}

// The companies a query is routed to.
fn companies(text: &str) -> Vec<String> {
    let filters = found(text).applied_filters.into_iter();
    filters
        .filter(|filter| filter.facet == "company")
        .map(|filter| filter.value)
        .collect()
}

fn missing(text: &str) -> Vec<String> {
    let missing = found(text).missing_terms.into_iter();
    missing.map(|missing| missing.term).collect()
}

#[test]
fn issuers_are_found_by_every_name() {
    let expected = [
        (
            "umber beauty group",
            &[
                "UMBR",
                "Umber Beauty",
                "UmberBeauty",
                "umber",
                "UBG",
                "Umber Beauty Group Inc",
            ][..],
        ),
        (
            "corvid freight",
            &[
                "CVF",
                "Corvid",
                "CorvidFreight",
                "Rook Haulage",
                "CF",
                "corvid freight",
            ],
        ),
        (
            "jarvis & jarvis",
            &["J&J", "JnJ", "Jarvis and Jarvis", "JRV"],
        ),
        (
            "target widgets",
            &["Target Widgets", "TGW", "target widgets"],
        ),
        ("gilt", &["Gilt", "GLT"]),
    ];
    for (company, names) in expected {
        for name in names {
            for query in [
                format!("What was the revenue of {name}?"),
                format!("How did {name}'s income change?"),
            ] {
                assert_eq!(companies(&query), [company], "{query}");
            }
        }
    }
}

#[test]
fn ordinary_words_are_no_names() {
    for query in [
        "which target markets are there",
        "Target markets by aircraft",
        "What are gilt edges?",
        "the company's health",
        "What is cf worth?",
    ] {
        assert!(
            companies(query).is_empty(),
            "{query}: {:?}",
            companies(query)
        );
    }
    for query in [
        "Gilt's revenue",
        "Gilt 2022 revenue",
        "What does Gilt lend?",
    ] {
        assert_eq!(companies(query), ["gilt"], "{query}");
    }
}

#[test]
fn misspelled_names_are_corrected_and_said() {
    for (name, company) in [
        ("Umbre Beauty", "umber beauty group"),
        ("Corvd Freight", "corvid freight"),
        ("Corivd", "corvid freight"),
        ("Orvid", "corvid freight"),
        ("Jarvs", "jarvis & jarvis"),
        // Both words are known, but not side by side.
        ("Parget Widgets", "target widgets"),
        ("Target Midgets", "target widgets"),
    ] {
        let results = found(&format!("What was the revenue of {name} in 2022?"));
        let filter = &results.applied_filters[0];
        assert_eq!(
            (filter.value.as_str(), filter.from.as_str()),
            (company, name)
        );
        assert!(
            filter.did_you_mean && results.missing_terms.is_empty(),
            "{name}: {results:?}"
        );
    }
    for name in ["Kodak", "Corinth"] {
        assert!(
            companies(&format!("What was the revenue of {name}?")).is_empty(),
            "{name}"
        );
    }
}

#[test]
fn a_misspelled_issuer_that_changed_its_name_is_one_issuer() {
    let results = found("What was the revenue of Safrfon?");
    let filter = &results.applied_filters[0];
    assert!(filter.did_you_mean, "{results:?}");
    assert_eq!(results.stats.documents, 2);
}

#[test]
fn ordinary_words_are_no_misspelled_names() {
    for query in [
        "the covid years and their revenue",
        "What does Form 10-K say about Risk?",
        "What are the targets of growth?",
    ] {
        assert!(companies(query).is_empty(), "{query}");
    }
}

#[test]
fn several_issuers_are_named_together() {
    let named = companies("Compare the revenue of Umber and of Jarvis and Jarvis");
    assert_eq!(named, ["umber beauty group", "jarvis & jarvis"]);
}

#[test]
fn names_of_the_owner_are_known() {
    let names = AliasFile::parse(
        "\"Corvid Freight\" = [\"the crows\", \"Blackbird\"]",
        "aliases.toml",
    )
    .unwrap();
    for query in [
        "How do the crows move parcels?",
        "What was Blackbird's revenue?",
    ] {
        let results = search(&archive(), &names, &Query::new(query)).unwrap();
        assert_eq!(
            results.applied_filters[0].value, "corvid freight",
            "{query}"
        );
    }
}

#[test]
fn what_no_document_has_is_said() {
    for (query, expected) in [
        ("What was Kodak's revenue?", &["Kodak"][..]),
        (
            "What was the revenue of Ochre Health in 2022?",
            &["Ochre Health"],
        ),
        // Both words occur, but not as this name.
        (
            "What was the revenue of Parcels Health?",
            &["Parcels Health"],
        ),
        ("Which risks come from zeppelins?", &["zeppelins"]),
        // Others sell it.
        (
            "How much fragrance does Corvid Freight move?",
            &["fragrance"],
        ),
        (
            "What was the revenue of Corvid Freight in FY2009?",
            &["2009"],
        ),
        ("What was the revenue of Corvid Freight in FY2022?", &[]),
        ("How much fragrance does Umber Beauty sell?", &[]),
        ("What are the risk factors of Gilt?", &[]),
    ] {
        assert_eq!(missing(query), expected, "{query}");
    }
    // Questions say much in other words than documents.
    let paraphrase =
        "How many parcels does Corvid Freight's aircraft fleet move to target markets hourly?";
    assert_eq!(missing(paraphrase), [""; 0]);
    let old = found("What was the revenue of Corvid Freight in FY2009?");
    assert_eq!(old.missing_terms[0].nearest, ["2022"]);
    let terms = found("Which anvlis are there?").missing_terms;
    assert_eq!(terms.len(), 1, "{terms:?}");
    assert_eq!(terms[0].nearest, ["anvils"]);
}

#[test]
fn a_name_outside_the_scope_is_missing() {
    let own = found("What was the income of Gilt?").hits[0].doc_id;
    let query = Query {
        within: DocumentScope::Documents(vec![own]),
        ..Query::new("What was the income of Corvid Freight?")
    };
    let results = search(&archive(), &AliasFile::default(), &query).unwrap();
    assert_eq!(results.missing_terms[0].term, "Corvid Freight");
}

#[test]
fn evidence_tells_answers_from_their_absence() {
    let there = found("Who makes anvils of cast iron?");
    let absent = found("Which trombones are made of velvet?");
    assert!(
        there.evidence > Some(0.6) && there.has_low_evidence() == Some(false),
        "{:?}",
        there.evidence
    );
    assert_eq!(
        absent.has_low_evidence(),
        Some(true),
        "{:?}",
        absent.evidence
    );
}

#[test]
fn the_words_of_a_running_head_are_evidence() {
    let line = |text: &str, role| Line {
        text: text.into(),
        role,
        ..Line::default()
    };
    let page = |body: &str| Page {
        lines: vec![
            line("Zanzibar Bulletin", LineRole::Head),
            line(body, LineRole::Body),
        ],
        ..Page::default()
    };
    let pages = vec![page("The harbor is deep."), page("Ships sail at dawn.")];
    let outline = VerifiedOutline::new(Extent::Pages(2), Vec::new()).unwrap();
    let opened = OpenDocument::new(
        SectionTree::build(&outline, Method::Layout, Vec::new()),
        Some(SourceBody::Pages(pages)),
        None,
    );
    let searcher = indexed(std::iter::once((
        company_entry("bulletin.pdf", "Press"),
        opened,
    )));
    let query = Query::new("zanzibar");
    let results = search(&searcher, &AliasFile::default(), &query).unwrap();
    assert_eq!(results.hits.len(), 1);
    assert_eq!(results.evidence, Some(1.0));
    assert_eq!(results.has_low_evidence(), Some(false));
}

#[test]
fn the_filing_of_the_period_is_first() {
    for (query, year) in [
        ("Umber Beauty revenue in FY22", "2022"),
        ("Umber Beauty revenue in 2023", "2023"),
        ("Umber Beauty's revenue last year", "2023"),
        ("Umber Beauty's revenue as of December 31, 2022", "2022"),
        ("Umber Beauty revenue", "2023"),
    ] {
        let name = found(query).hits[0].name.clone();
        assert!(name.contains(year), "{query}: {name}");
    }
}

#[test]
fn pages_of_a_list_have_each_hit_once() {
    let searcher = reports_of_notes();
    let page = |skip: usize, limit: usize| {
        let query = Query {
            skip,
            limit,
            ..Query::new("Acme net sales of anvils in FY2015")
        };
        let results = search(&searcher, &AliasFile::default(), &query).unwrap();
        let hits: Vec<String> = results
            .hits
            .into_iter()
            .map(|hit| format!("{} {}", hit.name, hit.title))
            .collect();
        (hits, results.total)
    };
    let (whole, total) = (page(0, 500).0, page(600, 100).1);
    assert_eq!(total, TotalHits::Exact(660));
    let mut paged: Vec<String> = (0..7).flat_map(|at| page(100 * at, 100).0).collect();
    assert_eq!(paged[..500], whole);
    paged.sort();
    paged.dedup();
    assert_eq!(paged.len(), 660);
}

#[test]
fn the_requested_filing_is_among_the_candidates() {
    let searcher = reports_of_notes();
    let query = Query {
        limit: 60,
        ..Query::new("Acme net sales of anvils in FY2015")
    };
    let results = search(&searcher, &AliasFile::default(), &query).unwrap();
    let others = results
        .hits
        .iter()
        .filter(|hit| hit.name != "acme 2015.txt");
    assert_eq!(others.count(), 0);
    assert!(results.hits.iter().all(|hit| !hit.excerpt.text.is_empty()));
}

#[test]
fn an_item_that_no_document_has_is_said_and_hides_nothing() {
    let results = found("What does Item 9Z say about fragrance?");
    assert_eq!(results.notes[0].code, "search.filter_matches_nothing");
    assert_eq!(results.hits.len(), 2);
    let given = Query {
        item: Some("9Z".parse().unwrap()),
        ..Query::new("fragrance")
    };
    let results = search(&archive(), &AliasFile::default(), &given).unwrap();
    assert_eq!(
        results.notes[0].message,
        "no document in scope has an Item 9Z"
    );
    assert_eq!(results.hits, []);
}

#[test]
fn limits_below_zero_and_between_numbers_are_limits() {
    let count = |filter: &str| {
        let query = Query {
            filter: Filter::parse(filter).unwrap(),
            ..Query::new("company")
        };
        let results = search(&archive(), &AliasFile::default(), &query);
        results.unwrap().stats.documents_in_scope
    };
    for (filter, documents) in [
        ("year>-1", 8),
        ("year>=-1", 8),
        ("year>2022.5", 1),
        ("year<2022.5", 7),
        ("year<=2022.5", 7),
        ("year>=2022.5", 1),
        ("year<-1", 0),
        ("year=2022.5", 0),
        ("year!=-1", 8),
    ] {
        assert_eq!(
            count(&filter.replace("year", "fiscal_year")),
            documents,
            "{filter}"
        );
    }
}

#[test]
fn results_do_not_depend_on_the_number_of_shards() {
    let queries = [
        "What was the revenue of Umber Beauty in 2023?",
        "Orvid revenue",
        "gilt edges",
        "which target markets are there",
        "Saffron spices 2020",
        "anvils of cast irn",
        "zyzzyva",
        "net sales of anvils",
        "net sales of anvils in 2015",
        "mill 42 works well",
    ];
    for archive in [archive_in, reports_of_notes_in] {
        let one = archive(ShardCount::default());
        for count in [2, 8, 64] {
            let many = archive(ShardCount::try_from(count).unwrap());
            for text in queries {
                let query = Query {
                    limit: 20,
                    ..Query::new(text)
                };
                let search = |index| search(index, &AliasFile::default(), &query).unwrap();
                let mut expected = search(&one);
                let mut results = search(&many);
                results.stats.took_us = expected.stats.took_us;
                for hit in expected.hits.iter_mut().chain(&mut results.hits) {
                    // Sums of floats depend on their order.
                    hit.score = (hit.score * 1e4).round() / 1e4;
                }
                assert_eq!(results, expected, "{text}, {count} shards");
            }
        }
    }
}
