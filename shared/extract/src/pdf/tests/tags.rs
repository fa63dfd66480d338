//! Headings by tags, in files that have no bookmarks.

use stemma_document::OutlineItem;

use super::*;

// A tagged line: its role, size, font and text.
struct Tagged<'t> {
    role: &'t str,
    size: f32,
    font: &'t str,
    text: &'t str,
}

fn plain<'t>(role: &'t str, text: &'t str) -> Tagged<'t> {
    Tagged {
        role,
        size: 10.0,
        font: "F1",
        text,
    }
}

// One page for each list of lines.
fn tagged_file(pages: &[Vec<Tagged<'_>>], bookmark: Option<&str>, root: &str) -> Vec<u8> {
    let mut fixture = PdfFixture::default();
    for (key, lines) in pages.iter().enumerate() {
        let content: String = lines
            .iter()
            .zip(0_u16..)
            .map(|(line, mcid)| {
                let y = 740.0 - 14.0 * f32::from(mcid);
                let text = styled_text_at(72.0, y, line.font, line.size, line.text);
                format!(
                    "/{}<</MCID {mcid}>> BDC {text} EMC\n",
                    line.role.replace(' ', "#20")
                )
            })
            .collect();
        fixture = fixture.page(&format!("/StructParents {key}"), content.as_bytes());
    }
    let mut next = fixture.first_object();
    let mut trees = String::new();
    for (key, lines) in pages.iter().enumerate() {
        let numbers: Vec<String> = lines
            .iter()
            .map(|line| {
                let role = line.role.replace(' ', "#20");
                fixture = std::mem::take(&mut fixture).object(&format!("<</S/{role}>>"));
                next += 1;
                format!("{} 0 R", next - 1)
            })
            .collect();
        trees.push_str(&format!("{key}[{}]", numbers.join(" ")));
    }
    fixture = fixture.catalog(&format!(
        "/StructTreeRoot<</ParentTree<</Nums[{trees}]>>{root}>>"
    ));
    if let Some(title) = bookmark {
        fixture = fixture
            .catalog(&format!("/Outlines<</First {next} 0 R>>"))
            .object(&format!("<</Title({title})/Dest[0/Fit]>>"));
    }
    fixture.build()
}

fn outline_of(file: &[u8]) -> Vec<(u16, String, u32)> {
    let entry = |item: &OutlineItem| {
        let page = item.target.map_or(0, |target| target.page.get());
        (item.level, item.title.clone(), page)
    };
    source(file).outline.iter().map(entry).collect()
}

fn filler<'t>() -> impl Iterator<Item = Tagged<'t>> {
    (0..6).map(|_| {
        plain(
            "P",
            "The fund pays what the plan of the year allows, and no more.",
        )
    })
}

fn two_pages<'t>() -> [Vec<Tagged<'t>>; 2] {
    let first = [plain("H1", "Overview of the fund")]
        .into_iter()
        .chain(filler())
        .chain([plain("H2", "Who may apply")])
        .chain(filler());
    let second = [plain("H2", "Costs that are not paid")]
        .into_iter()
        .chain(filler())
        .chain([plain("H1", "Reports")])
        .chain(filler());
    [first.collect(), second.collect()]
}

fn expected() -> Vec<(u16, String, u32)> {
    [
        (1, "Overview of the fund", 1),
        (2, "Who may apply", 1),
        (2, "Costs that are not paid", 2),
        (1, "Reports", 2),
    ]
    .map(|(level, title, page)| (level, title.to_owned(), page))
    .to_vec()
}

#[test]
fn tagged_headings_are_the_outline_of_a_file_without_bookmarks() {
    assert_eq!(outline_of(&tagged_file(&two_pages(), None, "")), expected());
    let with_bookmark = outline_of(&tagged_file(&two_pages(), Some("A bookmark"), ""));
    assert_eq!(with_bookmark, [(1, "A bookmark".to_owned(), 1)]);
}

#[test]
fn roles_of_programs_stand_for_standard_ones() {
    let mut pages = two_pages();
    for line in pages.iter_mut().flatten() {
        line.role = match line.role {
            "H1" => "Heading 1",
            "H2" => "Unterkapitel",
            other => other,
        };
    }
    let roles = "/RoleMap<</Heading#201/Top/Top/H1/Unterkapitel/H2/Loop/Loop>>";
    assert_eq!(outline_of(&tagged_file(&pages, None, roles)), expected());
    // Without the map nothing says that they are headings.
    assert!(outline_of(&tagged_file(&pages, None, "")).is_empty());
    let circle = "/RoleMap<</Heading#201/Loop/Loop/Heading#201>>";
    assert!(outline_of(&tagged_file(&pages, None, circle)).is_empty());
}

#[test]
fn tags_that_contradict_the_look_are_not_used() {
    type Spoil = fn(&mut Vec<Tagged<'_>>);
    let spoiled: [(&str, Spoil); 3] = [
        ("text is tagged as headings", |lines| {
            lines.iter_mut().for_each(|line| line.role = "H3");
        }),
        ("a heading is smaller than the ones below it", |lines| {
            for line in lines {
                line.size = match line.role {
                    "H2" => 16.0,
                    _ => line.size,
                };
            }
        }),
        ("most lines of the look have no tag", |lines| {
            for (index, line) in lines.iter_mut().enumerate() {
                if line.role != "P" || index % 3 == 2 {
                    line.font = "F2";
                }
            }
        }),
    ];
    for (why, spoil) in spoiled {
        let mut pages = two_pages();
        pages.iter_mut().for_each(spoil);
        let found = outline_of(&tagged_file(&pages, None, ""));
        assert!(found.is_empty(), "{why}: {found:?}");
    }
}

#[test]
fn the_words_of_a_heading_may_lie_in_several_elements() {
    // A heading of two lines, whose second one is a link inside of it.
    let heading = "/H1<</MCID 0>> BDC BT /F1 10 Tf 72 740 Td (Overview of all funds) Tj ET EMC \
        /Link<</MCID 1>> BDC BT /F1 10 Tf 72 726 Td (and their plans) Tj ET EMC ";
    let text: String = (2_u16..12)
        .map(|mcid| {
            let y = 740.0 - 14.0 * f32::from(mcid);
            let text = text_at(72.0, y, "The plan of the year says what is paid.");
            format!("/P<</MCID {mcid}>> BDC {text} EMC ")
        })
        .collect();
    let content = format!("{heading}{text}");
    let fixture = PdfFixture::default().page("/StructParents 0", content.as_bytes());
    let first = fixture.first_object();
    let fixture = fixture
        .object(&format!("<</S/H/P {} 0 R>>", first + 2))
        .object(&format!("<</S/Link/P {first} 0 R>>"))
        .object(&format!("<</S/Sect/P {} 0 R>>", first + 3))
        .object(&format!("<</S/Sect/P {} 0 R>>", first + 3))
        .catalog(&format!(
            "/StructTreeRoot<</ParentTree<</Nums[0[{first} 0 R {} 0 R]]>>>>",
            first + 1
        ));
    let found = outline_of(&fixture.build());
    // The sections around it are a circle, which is cut.
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].1, "Overview of all funds and their plans");
}
