//! A Chinese annual report.

use super::english_typography;
use crate::fonts::Family;
use crate::manuscript::{
    Block, FigureTable, Manuscript, ManuscriptHeading, Numbering, PageFooter, TextStyle,
};
use crate::plan::{PlannedSection, ProseFormat, fill, into_blocks, paragraph_with_answer, plant};
use crate::random::Rng;
use crate::words::{self, UniqueTitles, chinese_number};
use crate::{CoverFacts, Spec};

const CHAPTERS: [&str; 9] = [
    "重要提示、目录和释义",
    "公司简介和主要财务指标",
    "管理层讨论与分析",
    "公司治理",
    "环境和社会责任",
    "重要事项",
    "股份变动及股东情况",
    "债券相关情况",
    "财务报告",
];

pub(super) fn manuscript(spec: &Spec) -> Manuscript {
    let rng = &mut Rng::new(spec.seed, "chinese");
    let mut look = english_typography(rng);
    look.family = Family::Song;
    look.size = 10.5;
    look.leading = 1.5;
    look.page = (595.0, 842.0);
    look.back_link = false;
    look.bare_parts = false;
    look.foot = if rng.chance(50) {
        PageFooter::Centered
    } else {
        PageFooter::Outer
    };
    look.contents_title = Some("目录");
    let name = words::chinese_company(rng);
    let year = rng.between(2014, 2024);
    let mut sections: Vec<PlannedSection> = CHAPTERS
        .iter()
        .map(|name| chapter(name, spec.pages > 30))
        .collect();
    let heading = |rng: &mut Rng, titles: &mut UniqueTitles, level: u16, _: &str| {
        ManuscriptHeading::new(
            titles.chinese(rng),
            level,
            TextStyle::plain(if level == 2 { 12.0 } else { 10.5 }),
        )
    };
    let manner = ProseFormat {
        heading: &heading,
        paragraph: words::chinese_paragraph,
        longest: 1500,
        deepest: 4,
        bullets: false,
    };
    let page = (look.page.0 - 2.0 * look.margin) / look.size * (look.page.1 - 2.0 * look.margin)
        / (look.size * look.leading);
    let characters = spec.pages.saturating_sub(3).max(1) as f32 * page * 1.12;
    fill(
        &mut sections,
        characters as usize,
        &manner,
        rng,
        &mut UniqueTitles::default(),
    );
    let staff = format!("{}人", rng.between(800, 9999));
    let text = format!(
        "\u{3000}\u{3000}截至报告期末，公司在职员工的数量合计为{staff}，其中研发人员约占三分之一。"
    );
    plant(
        &mut sections,
        |s| s.heading.title == "公司治理",
        paragraph_with_answer("公司在职员工的数量是多少?", text, staff),
    );
    plant_table(&mut sections, rng);
    number(&mut sections, 1);
    let title = format!("{name}{year}年年度报告");
    let mut body = vec![
        Block::RunningHead(title.clone()),
        Block::Numbering(Numbering::Arabic(1)),
    ];
    body.extend(into_blocks(sections));
    Manuscript {
        cover: vec![
            Block::Gap(200.0),
            Block::Line(name.clone(), TextStyle::plain(24.0).centered()),
            Block::Line(
                format!("{year}年年度报告"),
                TextStyle::plain(20.0).centered(),
            ),
            Block::Gap(60.0),
            Block::Line(
                format!("证券代码：{:06}", rng.between(600_000, 603_999)),
                TextStyle::plain(12.0).centered(),
            ),
        ],
        facts: CoverFacts {
            issuer: Some(name),
            form: Some("annual_report".into()),
            fiscal_year: Some(year.to_string()),
            fiscal_period: Some("FY".into()),
            period_end: Some(format!("{year}-12-31")),
            language: Some("zh".into()),
            file_number: None,
        },
        title,
        body,
        typography: look,
    }
}

fn chapter(name: &str, pages: bool) -> PlannedSection {
    let mut heading = ManuscriptHeading::new(name, 1, TextStyle::plain(16.0).centered());
    heading.new_page = pages;
    let weight = if name.starts_with("管理层") || name.starts_with("财务") {
        6
    } else {
        2
    };
    PlannedSection::new(heading, weight).with_topic(name)
}

fn plant_table(sections: &mut [PlannedSection], rng: &mut Rng) {
    let labels = ["营业收入", "营业成本", "净利润", "总资产", "净资产"];
    let rows = labels.map(|label| {
        (
            label.to_owned(),
            (0..2).map(|_| words::figure(rng)).collect(),
        )
    });
    if let Some(section) = sections.get_mut(1) {
        section.own.push(Block::Table(FigureTable {
            heads: vec!["本期".into(), "上期".into()],
            rows: rows.into(),
        }));
    }
}

// `第一节`, `一、`, `（一）`, `1.`. Planned depth is at most four.
fn number(sections: &mut [PlannedSection], level: u16) {
    for (n, section) in sections.iter_mut().enumerate() {
        let digits = chinese_number(n + 1);
        let title = &section.heading.title;
        section.heading.title = match level {
            1 => format!("第{digits}节 {title}"),
            2 => format!("{digits}、{title}"),
            3 => format!("（{digits}）{title}"),
            _ => format!("{}. {title}", n + 1),
        };
        number(&mut section.children, level + 1);
    }
}
