//! Properties of generated filings, for every kind and contents mode.

use super::*;

fn small(kind: FilingKind, contents: ContentsMode, seed: u64) -> Spec {
    Spec {
        pages: 14,
        contents,
        ..Spec::new(kind, seed)
    }
}

fn for_each_filing(check: impl Fn(&Spec, &Filing)) {
    for kind in FilingKind::ALL {
        for (n, contents) in ContentsMode::ALL.into_iter().enumerate() {
            let spec = small(kind, contents, n as u64 * 7 + 3);
            check(&spec, &generate(&spec));
        }
    }
}

fn without_whitespace(text: &str) -> String {
    text.split_whitespace().collect()
}

#[test]
fn titles_appear_on_their_pages_in_order() {
    for_each_filing(|spec, filing| {
        assert_eq!(filing.page_texts.len(), filing.truth.pages as usize);
        assert!(
            filing.truth.nodes.is_sorted_by_key(|node| node.page),
            "{spec:?}"
        );
        for node in &filing.truth.nodes {
            let page = without_whitespace(&filing.page_texts[node.page as usize - 1]);
            assert!(
                page.contains(&without_whitespace(&node.title)),
                "{spec:?}: {node:?}"
            );
        }
    });
}

#[test]
fn starts_page_means_only_furniture_above() {
    for_each_filing(|_, filing| {
        for node in filing.truth.nodes.iter().filter(|node| node.starts_page) {
            let text = &filing.page_texts[node.page as usize - 1];
            let start: String = without_whitespace(&node.title).chars().take(5).collect();
            assert!(
                text.lines()
                    .take(2)
                    .any(|line| without_whitespace(line).starts_with(&start)),
                "{node:?}"
            );
        }
    });
}

#[test]
fn answers_and_mentions_appear_on_their_pages() {
    for_each_filing(|spec, filing| {
        assert!(!filing.answers.is_empty(), "{spec:?}");
        for answer in &filing.answers {
            assert!(
                without_whitespace(&filing.page_texts[answer.page as usize - 1])
                    .contains(&without_whitespace(&answer.answer))
            );
            assert!(answer.node.is_some());
        }
        assert!(
            filing
                .truth
                .references
                .iter()
                .all(|reference| reference.target.is_some()),
            "{spec:?}"
        );
    });
}

#[test]
fn every_pdf_object_offset_is_correct() {
    for_each_filing(|spec, filing| {
        let text = String::from_utf8_lossy(&filing.pdf);
        let start: usize = text.lines().rev().nth(1).unwrap().parse().unwrap();
        let table = std::str::from_utf8(&filing.pdf[start..]).unwrap();
        let offsets = table
            .lines()
            .skip(3)
            .take_while(|line| line.ends_with(" n "));
        for (n, line) in offsets.enumerate() {
            let at: usize = line[..10].parse().unwrap();
            let marker = format!("{} 0 obj", n + 1);
            assert!(
                filing.pdf[at..].starts_with(marker.as_bytes()),
                "{spec:?}: object {}",
                n + 1
            );
        }
    });
}

#[test]
fn generation_is_deterministic() {
    for encryption in [
        None,
        Some(Encryption::EmptyUserRc4),
        Some(Encryption::Password("open sesame".into())),
    ] {
        let spec = Spec {
            encryption,
            ..small(FilingKind::TenK, ContentsMode::Outline, 5)
        };
        assert_eq!(generate(&spec), generate(&spec));
    }
    assert_ne!(
        generate(&Spec::new(FilingKind::TenK, 5)).pdf,
        generate(&Spec::new(FilingKind::TenK, 6)).pdf
    );
}

#[test]
fn changing_a_page_leaves_all_others_alone() {
    for kind in FilingKind::ALL {
        let before = generate(&small(kind, ContentsMode::Links, 2));
        for page in 1..=before.truth.pages {
            let after = generate(&small(kind, ContentsMode::Links, 2).with_page_changed(page));
            assert_eq!(after.truth, before.truth);
            for (n, (a, b)) in after.page_texts.iter().zip(&before.page_texts).enumerate() {
                assert_eq!(
                    a != b,
                    n + 1 == page as usize,
                    "{kind:?} page {} after a change of {page}",
                    n + 1
                );
            }
        }
    }
}

#[test]
fn a_page_at_the_front_moves_everything_by_one() {
    for kind in FilingKind::ALL {
        let before = generate(&small(kind, ContentsMode::Outline, 4));
        let after = generate(&small(kind, ContentsMode::Outline, 4).with_page_inserted_at_front());
        assert_eq!(after.page_texts[1..], before.page_texts[..]);
        assert_eq!(after.truth.printed[1..], before.truth.printed[..]);
        for (a, b) in after.truth.nodes.iter().zip(&before.truth.nodes) {
            assert_eq!((a.page, &a.title), (b.page + 1, &b.title));
        }
    }
}

#[test]
fn a_scanned_page_has_no_text() {
    let filing = generate(&Spec {
        scanned_page: Some(4),
        ..Spec::new(FilingKind::TenQ, 1)
    });
    assert_eq!(filing.page_texts[3], "");
    assert!(!filing.page_texts[4].is_empty());
}

#[test]
fn documents_have_about_the_requested_size() {
    for kind in FilingKind::ALL {
        let filing = generate(&Spec {
            pages: 100,
            ..Spec::new(kind, 9)
        });
        assert!(
            (85..=115).contains(&filing.truth.pages),
            "{kind:?}: {}",
            filing.truth.pages
        );
    }
}

#[test]
fn truth_json_matches_the_scoring_format() {
    let truth = Truth {
        nodes: vec![HeadingTruth {
            title: "Item 1. Business".into(),
            level: 2,
            page: 3,
            starts_page: true,
            baseline: 7200,
        }],
        pages: 9,
        ..Truth::default()
    };
    let expected = r#"{"doc":"a","nodes":[{"level":2,"page":3,"title":"Item 1. Business"}],"pages":9,"scope":"full","source":"generated"}"#;
    assert_eq!(truth.to_json("a").to_string(), expected);
}
