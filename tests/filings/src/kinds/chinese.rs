//! A Chinese annual report.

use super::look;
use crate::fonts::Family;
use crate::manuscript::{Block, Foot, Heading, Manuscript, Numbering, Style, Table};
use crate::plan::{Manner, Section, answering, fill, plant, unfold};
use crate::random::Rng;
use crate::words::{self, Titles, chinese_number};
use crate::{Facts, Spec};

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
    let mut look = look(rng);
    look.family = Family::Song;
    look.size = 10.5;
    look.leading = 1.5;
    look.page = (595.0, 842.0);
    look.back_link = false;
    look.bare_parts = false;
    look.foot = if rng.chance(50) {
        Foot::Centered
    } else {
        Foot::Outer
    };
    look.contents_title = Some("目录");
    let name = words::chinese_company(rng);
    let year = rng.between(2014, 2024);
    let mut sections: Vec<Section> = CHAPTERS
        .iter()
        .map(|name| chapter(name, spec.pages > 30))
        .collect();
    let heading = |rng: &mut Rng, titles: &mut Titles, level: u16, _: &str| {
        Heading::new(
            titles.chinese(rng),
            level,
            Style::plain(if level == 2 { 12.0 } else { 10.5 }),
        )
    };
    let manner = Manner {
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
        &mut Titles::default(),
    );
    let staff = format!("{}人", rng.between(800, 9999));
    let text = format!(
        "\u{3000}\u{3000}截至报告期末，公司在职员工的数量合计为{staff}，其中研发人员约占三分之一。"
    );
    plant(
        &mut sections,
        |s| s.heading.title == "公司治理",
        answering("公司在职员工的数量是多少?", text, staff),
    );
    plant_table(&mut sections, rng);
    number(&mut sections, 1);
    let title = format!("{name}{year}年年度报告");
    let mut body = vec![
        Block::RunningHead(title.clone()),
        Block::Numbering(Numbering::Arabic(1)),
    ];
    body.extend(unfold(sections));
    Manuscript {
        cover: vec![
            Block::Gap(200.0),
            Block::Line(name.clone(), Style::plain(24.0).centered()),
            Block::Line(format!("{year}年年度报告"), Style::plain(20.0).centered()),
            Block::Gap(60.0),
            Block::Line(
                format!("证券代码：{:06}", rng.between(600_000, 603_999)),
                Style::plain(12.0).centered(),
            ),
        ],
        facts: Facts {
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
        look,
    }
}

fn chapter(name: &str, pages: bool) -> Section {
    let mut heading = Heading::new(name, 1, Style::plain(16.0).centered());
    heading.new_page = pages;
    let weight = if name.starts_with("管理层") || name.starts_with("财务") {
        6
    } else {
        2
    };
    Section::new(heading, weight).about(name)
}

fn plant_table(sections: &mut [Section], rng: &mut Rng) {
    let labels = ["营业收入", "营业成本", "净利润", "总资产", "净资产"];
    let rows = labels.map(|label| {
        (
            label.to_owned(),
            (0..2).map(|_| words::figure(rng)).collect(),
        )
    });
    if let Some(section) = sections.get_mut(1) {
        section.own.push(Block::Table(Table {
            heads: vec!["本期".into(), "上期".into()],
            rows: rows.into(),
        }));
    }
}

/// `第一节`, `一、`, `（一）`, `1.`; planned depth is at most four.
fn number(sections: &mut [Section], level: u16) {
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
