//! Properties of alignments of arbitrary documents, and examples of small ones.

use proptest::prelude::*;
use stemma_document::{
    DraftEntry, EntryVerdict, EvidenceSource, Extent, Fact, LocatedEntry, Method, SectionStart,
    SectionTree, TextLines, VerifiedOutline,
};

use super::*;

// Level, title, lines.
type WrittenSection = (u16, String, Vec<String>);

fn document(sections: &[WrittenSection]) -> (SectionTree, SourceBody) {
    let mut lines = Vec::new();
    let mut entries = Vec::new();
    for (level, title, text) in sections {
        lines.push(title.clone());
        let number = None;
        let label = None;
        let target = None;
        let entry = DraftEntry {
            number,
            title: title.clone(),
            label,
            target,
            level: *level,
            evidence: EvidenceSource::Markup,
        };
        let at = SectionStart::Line(lines.len() as u32);
        entries.push((
            LocatedEntry { entry, place: at },
            EntryVerdict::Confirmed { starts_page: false },
        ));
        lines.extend(text.iter().cloned());
    }
    let outline = VerifiedOutline::new(Extent::Lines(lines.len() as u32), entries).unwrap();
    let tree = SectionTree::build(&outline, Method::Markup, Vec::new());
    (
        tree,
        SourceBody::Lines(TextLines {
            lines,
            tokens: vec![],
            headings: vec![],
        }),
    )
}

fn document_of(sections: &[(u16, &str, &str)]) -> (SectionTree, SourceBody) {
    let lines = |text: &str| text.lines().map(str::to_owned).collect();
    document(
        &sections
            .iter()
            .map(|(level, title, text)| (*level, (*title).to_owned(), lines(text)))
            .collect::<Vec<_>>(),
    )
}

fn aligned(left: &(SectionTree, SourceBody), right: &(SectionTree, SourceBody)) -> Alignment {
    let compared = |document: &'_ (SectionTree, SourceBody)| -> Alignment {
        align(
            &AlignInput::new(&left.0, Some(&left.1)),
            &AlignInput::new(&document.0, Some(&document.1)),
            &AlignOptions::default(),
        )
        .unwrap()
    };
    compared(right)
}

// One line per pair: `0001=0002 modified renamed moved`.
fn pair_lines(alignment: &Alignment) -> Vec<String> {
    let id = |id: Option<SectionId>| id.map_or_else(|| "-".to_owned(), |id| id.to_string());
    alignment
        .pairs
        .iter()
        .map(|pair: &Pair| {
            let renamed = if pair.renamed { " renamed" } else { "" };
            let moved = if pair.moved { " moved" } else { "" };
            format!(
                "{}={} {}{renamed}{moved}",
                id(pair.left),
                id(pair.right),
                pair.status.as_str()
            )
        })
        .collect()
}

const RISKS: &str = "Our suppliers are few and a strike at any of them would stop our furnaces for weeks at a time.";
const ANVILS: &str = "We cast anvils of grey iron for smiths and sell them through hardware dealers in nine countries.";
const ROCKETS: &str =
    "Rockets are assembled in Toledo under license and shipped to one customer in the desert.";
const LEASES: &str =
    "We lease two foundries and a warehouse under agreements that end between 2027 and 2031.";

#[test]
fn sections_are_renamed_moved_reworded_added_and_removed() {
    let before = document_of(&[
        (1, "Item 1. Business", "We make things."),
        (2, "Anvils", ANVILS),
        (2, "Rockets", ROCKETS),
        (1, "Item 1A. Risk Factors", RISKS),
        (1, "Item 2. Properties", LEASES),
        (1, "Item 3. Legal Proceedings", "None."),
    ]);
    let reworded = RISKS.replace("weeks", "several months");
    let after = document_of(&[
        (1, "Item 1. Business", "We make things."),
        (2, "Aerospace", ROCKETS),
        (2, "Anvils", ANVILS),
        (1, "Item 1A. Risk Factors", &reworded),
        (
            1,
            "Item 1C. Cybersecurity",
            "A committee of the board hears reports about incidents each quarter.",
        ),
        (1, "Item 2. Properties", LEASES),
    ]);
    let alignment = aligned(&before, &after);
    let expected = [
        "0000=0000 unchanged",
        "0002=0001 unchanged renamed moved",
        "0001=0002 unchanged",
        "0003=0003 modified",
        "-=0004 added",
        "0004=0005 unchanged",
        "0005=- removed",
    ];
    assert_eq!(pair_lines(&alignment), expected);
    let risks = &alignment.pairs[3];
    assert!(
        risks.similarity.unwrap() > 0.85 && risks.reworded.len() == 1,
        "{risks:?}"
    );
    assert_eq!(risks.reworded[0].right.text, reworded);
    assert!(
        alignment.pairs[4].added[0]
            .text
            .starts_with("A committee of the board"),
        "{:?}",
        alignment.pairs[4]
    );
    let changed: Vec<f32> = alignment
        .items
        .iter()
        .map(|item| (item.churn.changed.unwrap() * 100.0).round())
        .collect();
    assert_eq!(changed, [0.0, 7.0, 100.0, 0.0, 100.0]);
}

#[test]
fn renumbered_notes_are_not_moved() {
    let before = document_of(&[
        (1, "Notes", ""),
        (2, "Note 1. Debt", ANVILS),
        (2, "Note 2. Leases", LEASES),
    ]);
    let after = document_of(&[
        (1, "Notes", ""),
        (2, "Note 1. Revenue", ROCKETS),
        (2, "Note 2. Debt", ANVILS),
        (2, "Note 3. Leases", LEASES),
    ]);
    let expected = [
        "0000=0000 unchanged",
        "-=0001 added",
        "0001=0002 unchanged",
        "0002=0003 unchanged",
    ];
    assert_eq!(pair_lines(&aligned(&before, &after)), expected);
}

#[test]
fn split_or_merged_sections_name_where_their_text_is() {
    let before = document_of(&[(1, "Item 1. Business", &format!("{ANVILS}\n{ROCKETS}"))]);
    let after = document_of(&[(1, "Item 1. Business", ANVILS), (2, "Space", ROCKETS)]);
    let divided = aligned(&before, &after);
    assert_eq!(pair_lines(&divided), ["0000=0000 modified", "-=0001 added"]);
    assert_eq!(divided.pairs[1].stands_in, Some(SectionId(0)));
    assert!(
        divided.pairs[1].added.is_empty() && divided.all.changed == Some(0.0),
        "{divided:?}"
    );
}

#[test]
fn quarterly_items_match_annual_items() {
    let on = |form: &str, mut document: (SectionTree, SourceBody)| {
        document.0.facts.form = Some(Fact::from_text(form, None));
        document
    };
    let annual = on(
        "10-K",
        document_of(&[
            (1, "Part I", ""),
            (2, "Item 1. Business", ANVILS),
            (2, "Item 3. Legal Proceedings", "None."),
            (1, "Part II", ""),
            (2, "Item 7. Management's Discussion", ROCKETS),
        ]),
    );
    let quarterly = on(
        "10-Q",
        document_of(&[
            (1, "Part I", ""),
            (2, "Item 1. Financial Statements", LEASES),
            (
                2,
                "Item 2. Management's Discussion",
                "Sales rose because more was sold.",
            ),
            (1, "Part II", ""),
            (2, "Item 1. Legal Proceedings", "We were sued."),
        ]),
    );
    let pairs = pair_lines(&aligned(&annual, &quarterly));
    for pair in [
        "0004=0002 modified",
        "0002=0004 modified",
        "0001=- removed",
        "-=0001 added",
    ] {
        assert!(pairs.contains(&pair.to_owned()), "{pair} of {pairs:?}");
    }
}

#[test]
fn without_text_pairs_match_by_title_and_change_is_unknown() {
    let one = document_of(&[(1, "Anvils", ANVILS), (1, "Rockets", ROCKETS)]);
    let other = document_of(&[(1, "Rockets", ROCKETS), (1, "Leases", LEASES)]);
    let alignment = align(
        &AlignInput::new(&one.0, Some(&one.1)),
        &AlignInput::new(&other.0, None),
        &AlignOptions::default(),
    )
    .unwrap();
    assert_eq!(
        pair_lines(&alignment),
        ["0000=- removed", "0001=0000 unknown", "-=0001 added"]
    );
    assert_eq!(alignment.all.changed, None);
}

#[test]
fn sections_of_one_document_can_be_aligned() {
    let document = document_of(&[
        (1, "Plan A", ""),
        (2, "1.1 Benefits", ANVILS),
        (2, "1.2 Governing Law", LEASES),
        (1, "Plan B", ""),
        (2, "2.1 Governing Law", LEASES),
        (2, "2.2 Benefits", ANVILS),
    ]);
    let of = |id: u32| AlignInput {
        within: Some(SectionId(id)),
        ..AlignInput::new(&document.0, Some(&document.1))
    };
    let alignment = align(&of(0), &of(3), &AlignOptions::default()).unwrap();
    assert!(
        pair_lines(&alignment).contains(&"0001=0005 unchanged".to_owned()),
        "{:?}",
        pair_lines(&alignment)
    );
    assert!(
        pair_lines(&alignment).contains(&"0002=0004 unchanged moved".to_owned()),
        "{:?}",
        pair_lines(&alignment)
    );
}

// A document of about 5,000 sections; its words depend on `salt`.
fn large(
    sections: usize,
    salt: usize,
    title: impl Fn(usize) -> (u16, String),
) -> (SectionTree, SourceBody) {
    let words = [
        "furnace", "margin", "currency", "tariff", "lease", "patent", "audit", "pension", "rocket",
        "anvil",
    ];
    let line = |at: usize| {
        let word =
            |step: usize| format!("{}{}", words[(at * 7 + step * salt) % 10], (at * step) % 97);
        format!(
            "The {} of our {} depends on {} and on the {}.",
            word(1),
            word(2),
            word(3),
            word(salt)
        )
    };
    document(
        &(0..sections)
            .map(|at: usize| {
                let (level, title) = title(at);
                (level, title, vec![line(at)])
            })
            .collect::<Vec<_>>(),
    )
}

// So many that to compare each pair of sections takes longer than a test may, and so deep that recursion overflows the stack.
#[test]
fn large_and_hostile_trees_align_in_linear_time() {
    type Titles = fn(usize) -> (u16, String);
    let shapes: [(&str, usize, Titles); 4] = [
        ("usual", 6_000, |at| {
            (
                (at % 5) as u16 + 1,
                format!("{at}. Section about matter {}", at % 900),
            )
        }),
        ("one title", 6_000, |_| (1, "General".to_owned())),
        ("no titles", 6_000, |at| {
            ((at % 3) as u16 + 1, "-".to_owned())
        }),
        ("deep", 20_000, |at| {
            (at as u16 + 1, format!("Item {}", at % 20))
        }),
    ];
    for (name, sections, shape) in shapes {
        let one = large(sections, 3, shape);
        let other = large(sections, 4, shape);
        let alignment = aligned(&one, &other);
        let sides =
            |side: fn(&Pair) -> Option<SectionId>| alignment.pairs.iter().filter_map(side).count();
        assert_eq!(sides(|pair| pair.left), sections, "{name}");
        assert_eq!(sides(|pair| pair.right), sections, "{name}");
        let few = large(900, 3, shape);
        let same = aligned(&few, &few);
        let unlike = same
            .pairs
            .iter()
            .find(|pair| pair.left != pair.right || pair.status != DiffStatus::Unchanged);
        assert_eq!(unlike, None, "{name}");
    }
}

fn sections() -> impl Strategy<Value = Vec<WrittenSection>> {
    let title = prop::sample::select(vec![
        "Item 1. Business",
        "Item 1A. Risk Factors",
        "General",
        "General",
        "Note 2. Leases",
        "Overview",
        "Part I",
        "-",
        "",
    ]);
    let line = prop::sample::select(vec![
        RISKS,
        ANVILS,
        ROCKETS,
        LEASES,
        "None.",
        "Net sales 4,610 (4,110)",
        "",
        "年报 概况。",
    ]);
    let section = (1u16..4, title, prop::collection::vec(line, 0..4));
    prop::collection::vec(
        section.prop_map(|(level, title, text): (u16, &str, Vec<&str>)| {
            (
                level,
                title.to_owned(),
                text.into_iter().map(str::to_owned).collect(),
            )
        }),
        1..14,
    )
}

proptest! {
    #[test]
    fn a_document_against_itself_is_unchanged(sections in sections()) {
        let one = document(&sections);
        let alignment = aligned(&one, &one.clone());
        for pair in &alignment.pairs {
            prop_assert_eq!(pair.left, pair.right);
            prop_assert_eq!(pair.status, DiffStatus::Unchanged);
assert!(!pair.renamed);
assert!(!pair.moved);
        }
        prop_assert_eq!(alignment.all.changed, Some(0.0));
    }

    #[test]
    fn swapped_documents_mirror_the_alignment(left in sections(), right in sections()) {
        let left = document(&left);
        let right = document(&right);
        let forward = aligned(&left, &right);
        let backward = aligned(&right, &left);
        let place = |pair: &Pair| (pair.left, pair.right);
        let mut mirrored: Vec<Pair> = backward.pairs.into_iter().map(Pair::mirrored).collect();
        let mut pairs = forward.pairs;
        pairs.sort_by_key(place);
        mirrored.sort_by_key(place);
        prop_assert_eq!(pairs, mirrored);
        prop_assert_eq!(forward.all.changed, backward.all.changed);
    }

    #[test]
    fn sections_are_listed_once_and_equal_ones_are_unchanged(left in sections(), right in sections()) {
        let left = document(&left);
        let right = document(&right);
        let alignment = aligned(&left, &right);
        let mut ids: Vec<SectionId> = alignment.pairs.iter().filter_map(|pair| pair.left).collect();
        ids.sort_unstable();
        prop_assert_eq!(ids, left.0.walk().map(|(_, section)| section.id).collect::<Vec<_>>());
        let ids: Vec<SectionId> = alignment.pairs.iter().filter_map(|pair| pair.right).collect();
        prop_assert_eq!(ids, right.0.walk().map(|(_, section)| section.id).collect::<Vec<_>>());
        // The words after the heading, split independently of the code under test.
        let words = |document: &(SectionTree, SourceBody), id: SectionId| {
            let section = document.0.section(id).unwrap();
            let text = stemma_document::text::own_text(section, &document.1);
            text.split_once('\n').map_or(String::new(), |(_, text)| text.split_whitespace().collect::<Vec<_>>().join(" "))
        };
        for pair in &alignment.pairs {
            if let (Some(one), Some(other)) = (pair.left, pair.right) {
                let same = words(&left, one) == words(&right, other);
                prop_assert_eq!(same, pair.status == DiffStatus::Unchanged, "{:?}", pair);
            }
        }
    }

    #[test]
    fn distinctive_text_of_both_never_counts_as_new(left in sections(), at in 0usize..14) {
        // Move one section with a text of its own, under another title.
        let telling = "The committee resolved to sell the foundry in Lübeck to its former manager, who pays in yearly \
                       rates until 2041 and takes over all of its pension obligations.";
        let mut before = left.clone();
        let mut after = left;
        before.push((1, "Sale of the foundry".into(), vec![telling.into()]));
        after.insert(at.min(after.len()), (1, "Subsequent events".into(), vec![telling.into()]));
        let before = document(&before);
        let after = document(&after);
        let alignment = aligned(&before, &after);
        let last = before.0.walk().last().unwrap().1.id;
        let pair = alignment.pairs.iter().find(|pair| pair.left == Some(last)).unwrap();
        prop_assert_eq!(pair.status, DiffStatus::Unchanged);
assert!(pair.renamed);
    }
}
