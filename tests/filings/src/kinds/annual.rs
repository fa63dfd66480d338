//! Form 10-K.

use super::statements::{exhibits, note_count, notes, signatures, statements, table};
use super::{
    ItemHeadingFormat, Registrant, children, english_typography, prose_capacity, sub_heading,
};
use crate::Spec;
use crate::manuscript::{
    Block, Manuscript, ManuscriptHeading, Numbering, Paragraph, TextStyle, Typography,
};
use crate::plan::{
    PlannedSection, ProseFormat, fill, into_blocks, paragraph_with_answer, paragraph_with_mentions,
    plant,
};
use crate::random::Rng;
use crate::words::{self, UniqueTitles};

// Properties of one generated annual report.
struct AnnualReport<'a> {
    spec: &'a Spec,
    look: Typography,
    items: ItemHeadingFormat,
    registrant: Registrant,
    // Statements on pages F-1, F-2, … after the signatures.
    f_pages: bool,
    // Items 10 to 13 under one heading.
    combined: bool,
    heads: Vec<String>,
}

pub(super) fn manuscript(spec: &Spec) -> Manuscript {
    let rng = &mut Rng::new(spec.seed, "ten-k");
    let look = english_typography(rng);
    let registrant = Registrant::new(rng);
    let heads = (0..3)
        .map(|ago| (registrant.year - ago).to_string())
        .collect();
    let mut items = ItemHeadingFormat::new(rng, look.size);
    items.pages &= spec.pages >= 20;
    let report = AnnualReport {
        spec,
        look,
        items,
        registrant,
        f_pages: rng.chance(35),
        combined: rng.chance(30),
        heads,
    };
    let size = report.look.size;
    let year = report.registrant.year;
    let period = [
        "ANNUAL REPORT PURSUANT TO SECTION 13 OR 15(d) OF THE SECURITIES EXCHANGE ACT OF 1934"
            .to_owned(),
        format!("For the fiscal year ended December 31, {year}"),
    ];
    Manuscript {
        title: format!("{} Form 10-K {year}", report.registrant.name),
        facts: report
            .registrant
            .facts("10-K", "FY", &format!("{year}-12-31")),
        cover: report.registrant.cover("10-K", &period, size),
        body: report.body(rng),
        typography: report.look,
    }
}

impl AnnualReport<'_> {
    fn body(&self, rng: &mut Rng) -> Vec<Block> {
        let size = self.look.size;
        let mut titles = UniqueTitles::default();
        let mut parts = vec![
            self.first(rng),
            self.second(rng),
            self.third(),
            self.fourth(),
        ];
        parts.push(vec![signatures(
            &self.registrant.name,
            &format!("February 11, {}", self.registrant.year + 1),
            size,
        )]);
        if self.f_pages {
            let heading = ManuscriptHeading::new(
                "INDEX TO CONSOLIDATED FINANCIAL STATEMENTS",
                1,
                TextStyle::bold(size + 1.0).centered(),
            );
            let index =
                PlannedSection::new(heading.with_new_page(), 0).with_content(vec![Block::Prose(
                    "The statements listed below are filed as part of this report."
                        .to_owned()
                        .into(),
                )]);
            parts.push(vec![index.with_children(self.financials(2, rng))]);
        }
        let heading = sub_heading(size);
        let manner = ProseFormat {
            heading: &heading,
            paragraph: words::paragraph,
            longest: 6500,
            deepest: 5,
            bullets: true,
        };
        let characters = prose_capacity(&self.look, self.spec.pages, 14.5);
        let mut sections: Vec<PlannedSection> = parts.iter().flatten().cloned().collect();
        if rng.chance(25) {
            sections
                .iter_mut()
                .for_each(|part| part.children.iter_mut().for_each(continue_head));
        }
        fill(&mut sections, characters, &manner, rng, &mut titles);
        self.plant_answers(&mut sections, rng);
        self.bind(parts.iter().map(Vec::len).collect(), sections, rng)
    }

    // Joins the parts, with running heads and sometimes an unnumbered page.
    fn bind(
        &self,
        lengths: Vec<usize>,
        sections: Vec<PlannedSection>,
        rng: &mut Rng,
    ) -> Vec<Block> {
        const HEADS: [&str; 6] = ["PART I", "PART II", "PART III", "PART IV", "", ""];
        let by_part = rng.chance(40);
        let mut blocks = vec![Block::Numbering(Numbering::Arabic(if rng.chance(60) {
            1
        } else {
            rng.between(2, 5) as u32
        }))];
        let mut sections = sections.into_iter();
        for (n, length) in lengths.into_iter().enumerate() {
            let head = if by_part {
                HEADS[n].to_owned()
            } else {
                self.registrant.name.clone()
            };
            blocks.push(Block::RunningHead(head));
            if n == 5 {
                blocks.push(Block::Numbering(Numbering::Prefixed("F-", 1)));
            } else if n > 0 && rng.chance(35) {
                blocks.push(Block::Aside("[This page intentionally left blank]".into()));
            }
            blocks.extend(into_blocks(sections.by_ref().take(length).collect()));
        }
        blocks
    }

    fn part(&self, number: &str, pages: bool) -> PlannedSection {
        let mut heading = ManuscriptHeading::new(
            format!("PART {number}"),
            1,
            TextStyle::bold(self.look.size + 2.0).centered(),
        );
        heading.new_page = pages;
        PlannedSection::new(
            heading.with_key(format!("part {}", number.to_lowercase())),
            0,
        )
    }

    fn item(&self, number: &str, name: &str, weight: usize) -> PlannedSection {
        PlannedSection::new(self.items.heading(number, name, 2), weight)
            .with_topic(&name.to_lowercase())
    }

    fn stub(&self, number: &str, name: &str, text: &str) -> PlannedSection {
        let mut section = self.item(number, name, 0);
        section.heading.new_page = false;
        section.with_content(vec![Block::Prose(text.to_owned().into())])
    }

    fn first(&self, rng: &mut Rng) -> Vec<PlannedSection> {
        let size = self.look.size;
        let business = [
            "Overview",
            "Products and Services",
            "Competition",
            "Human Capital",
        ];
        let mut items = vec![
            self.item("1", "Business", 2)
                .with_children(children(&business, 3, 3, size)),
            self.item("1A", "Risk Factors", 18),
            self.stub("1B", "Unresolved Staff Comments", "None."),
        ];
        if self.registrant.year >= 2023 {
            items.push(self.item("1C", "Cybersecurity", 2));
        }
        let legal = self
            .item("3", "Legal Proceedings", 1)
            .with_content(vec![Block::Prose(paragraph_with_mentions(
                "Information about these matters is given in",
                &[("Note 6", "note 6"), ("Item 1A of this report", "item 1a")],
                "and is incorporated here by reference.",
            ))]);
        items.extend([
            self.item("2", "Properties", 2),
            legal,
            self.stub("4", "Mine Safety Disclosures", "Not applicable."),
        ]);
        if let Some(first) = items.first_mut() {
            first.heading.new_page = false;
        }
        vec![self.part("I", rng.chance(80)).with_children(items)]
    }

    fn second(&self, rng: &mut Rng) -> Vec<PlannedSection> {
        let size = self.look.size;
        let market = "Market for Registrant\u{2019}s Common Equity, Related Stockholder Matters and Issuer Purchases of Equity Securities";
        let analysis = "Management\u{2019}s Discussion and Analysis of Financial Condition and Results of Operations";
        let accountants =
            "Changes in and Disagreements With Accountants on Accounting and Financial Disclosure";
        let mut sub = children(
            &[
                "OVERVIEW",
                "Results of Operations",
                "Liquidity and Capital Resources",
                "Critical Accounting Estimates",
            ],
            3,
            5,
            size,
        );
        if rng.chance(40) {
            // Letter spacing that readers take for a space.
            sub[0].heading.printed = Some(vec!["OVERVI EW".into()]);
        }
        sub[1].own.push(table(
            &["Net sales", "Operating income", "Net income"],
            &self.heads,
            rng,
        ));
        sub[2].own.push(Block::Prose(paragraph_with_mentions(
            "Our borrowings are described in",
            &[("Note 4", "note 4")],
            "to the consolidated financial statements.",
        )));
        let financial = if self.f_pages {
            self.stub(
                "8",
                "Financial Statements and Supplementary Data",
                "The statements begin on page F-1 of this report.",
            )
        } else {
            self.item("8", "Financial Statements and Supplementary Data", 0)
                .with_children(self.financials(3, rng))
        };
        let reserved = if self.registrant.year >= 2021 {
            "[Reserved]"
        } else {
            "Selected Financial Data"
        };
        let items = vec![
            self.item("5", market, 3),
            self.stub("6", reserved, "Not applicable."),
            self.item("7", analysis, 1).with_children(sub),
            self.item(
                "7A",
                "Quantitative and Qualitative Disclosures About Market Risk",
                3,
            )
            .with_topic("interest and exchange rates"),
            financial,
            self.stub("9", accountants, "None."),
            self.item("9A", "Controls and Procedures", 2),
            self.stub("9B", "Other Information", "None."),
            self.stub(
                "9C",
                "Disclosure Regarding Foreign Jurisdictions that Prevent Inspections",
                "Not applicable.",
            ),
        ];
        vec![self.part("II", rng.chance(50)).with_children(items)]
    }

    fn financials(&self, level: u16, rng: &mut Rng) -> Vec<PlannedSection> {
        let size = self.look.size;
        let heading = ManuscriptHeading::new(
            "Report of Independent Registered Public Accounting Firm",
            level,
            TextStyle::bold(size).centered(),
        );
        let mut sections = vec![
            PlannedSection::new(heading, 2)
                .with_topic("our audits")
                .undivided(),
        ];
        sections.extend(statements(
            "Consolidated",
            &self.heads,
            level,
            self.spec.pages >= 20,
            size,
            rng,
        ));
        let all = notes(
            note_count(self.spec.pages),
            level + 1,
            size,
            &self.heads,
            rng,
        );
        let heading = ManuscriptHeading::new(
            "Notes to Consolidated Financial Statements",
            level,
            TextStyle::bold(size + 1.0).centered(),
        );
        sections.push(PlannedSection::new(heading.with_new_page(), 0).with_children(all));
        sections
    }

    fn third(&self) -> Vec<PlannedSection> {
        let text = "The information required by this Item is incorporated by reference from the proxy statement, which will be filed within 120 days after the end of the fiscal year.";
        let proxy = |number: &str, name: &str| self.stub(number, name, text);
        let last = proxy("14", "Principal Accountant Fees and Services");
        let mut items = Vec::new();
        if self.combined {
            let title = "ITEMS 10, 11, 12 and 13. DIRECTORS, EXECUTIVE OFFICERS AND CORPORATE GOVERNANCE; EXECUTIVE COMPENSATION; SECURITY OWNERSHIP; AND CERTAIN RELATIONSHIPS";
            let heading = ManuscriptHeading::new(title, 2, self.items.style).with_key("item 10");
            items.push(
                PlannedSection::new(heading, 0)
                    .with_content(vec![Block::Prose(text.to_owned().into())]),
            );
        } else {
            items.extend([
                proxy("10", "Directors, Executive Officers and Corporate Governance"),
                proxy("11", "Executive Compensation"),
                proxy(
                    "12",
                    "Security Ownership of Certain Beneficial Owners and Management and Related Stockholder Matters",
                ),
                proxy("13", "Certain Relationships and Related Transactions, and Director Independence"),
            ]);
        }
        items.push(last);
        vec![self.part("III", true).with_children(items)]
    }

    fn fourth(&self) -> Vec<PlannedSection> {
        let schedules = self.stub(
            "15",
            "Exhibits and Financial Statement Schedules",
            "The following documents are filed as part of this report.",
        );
        let mut own = schedules.own.clone();
        own.push(exhibits());
        vec![self.part("IV", false).with_children(vec![
            schedules.with_content(own),
            self.stub("16", "Form 10-K Summary", "None."),
        ])]
    }

    fn plant_answers(&self, sections: &mut [PlannedSection], rng: &mut Rng) {
        let year = self.registrant.year;
        let mut plant_at = |title: &str, prose: Paragraph| {
            plant(
                sections,
                |s| s.heading.title.eq_ignore_ascii_case(title),
                prose,
            )
        };
        let staff = format!("{},{:03}", rng.between(2, 90), rng.below(1000));
        let text = format!(
            "At December 31, {year}, the Company employed approximately {staff} people, of whom about half work outside the United States."
        );
        plant_at(
            "Human Capital",
            paragraph_with_answer("How many people does the company employ?", text, staff),
        );
        let facility = format!("${}.{} billion", rng.between(1, 9), rng.between(1, 9));
        let text = format!(
            "In May {year} the Company renewed its five-year revolving credit facility, which now provides for borrowings of up to {facility}."
        );
        plant_at(
            "Liquidity and Capital Resources",
            paragraph_with_answer(
                "How large is the revolving credit facility?",
                text,
                facility,
            ),
        );
        let growth = format!("{}.{}%", rng.between(2, 14), rng.between(1, 9));
        let text =
            format!("Organic sales grew by {growth} in {year}, led by the service business.");
        plant_at(
            "Results of Operations",
            paragraph_with_answer("How fast did organic sales grow?", text, growth),
        );
    }
}

// An Item is in the running head from the page after its heading.
fn continue_head(item: &mut PlannedSection) {
    let head: String = item.heading.title.chars().take(60).collect();
    item.own
        .insert(0, Block::RunningHead(format!("{head} (continued)")));
}
