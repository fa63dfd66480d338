//! `stemma tree`: shows the sections of a document.

use std::num::NonZeroUsize;

use stemma_archive::{
    Archive, ExportFormat, FileEntry, FilesOptions, HeadingDecision, HeadingFeatures,
    HeadingReport, TreeRequest, TreeResponse, TreeRow,
};
use stemma_document::{CatalogEntry, DoubtReason, Gap, SectionKind};

use crate::commands::format::{badge, identity, length, links_line, page_or_line_range, word};
use crate::commands::open::open;
use crate::context::Context;
use crate::error::{CommandError, Exit};
use crate::output::{Output, clean};
use crate::table::{Column, Table, counted, thousands};

// Rows of a page.
const ROWS: usize = 200;

/// Show the sections of a document (ids, titles, pages, tokens), or the content of a folder.
#[derive(Debug, Default, clap::Args)]
#[command(after_help = "\
Examples:
  stemma tree 3M_2022_10K -L 2
  stemma tree 3M_2022_10K#item-7      one Item and its subsections
  stemma tree 3M_2022_10K --summaries
  stemma tree 3M_2022_10K --page 2    its second 200 sections
  stemma tree / -L 2                  folders, documents and facets
  stemma tree /@company -L 2 --page 3 rows 401–600
  stemma tree 3M_2022_10K --why p12   which lines of page 12 are headings, and why others are not
  stemma tree 3M_2022_10K --format pageindex > 3M_2022_10K.json")]
pub struct TreeArgs {
    /// A document, section or Item, or a folder or facet path.
    #[arg(value_name = "LOCATOR", default_value = "/")]
    locator: String,
    /// Levels to show [default: all; 1 for a folder].
    #[arg(short = 'L', long, value_name = "N")]
    depth: Option<usize>,
    /// Include summaries.
    #[arg(long)]
    summaries: bool,
    /// Page of 200 rows, from 1 [default: all sections of a document; 1 for a folder].
    #[arg(long, value_name = "N")]
    page: Option<NonZeroUsize>,
    /// Only sections whose titles could not be verified on their page.
    #[arg(long, conflicts_with = "page")]
    show_doubts: bool,
    /// Lines of a page that may be headings, with the rules that dropped them: p12.
    #[arg(
        long,
        value_name = "PAGE",
        value_parser = parse_page,
        conflicts_with_all = ["depth", "summaries", "page", "show_doubts", "format"]
    )]
    why: Option<u32>,
    /// Output format.
    #[arg(long, value_enum, default_value_t)]
    format: TreeFormat,
}

impl TreeArgs {
    /// All sections of a document.
    pub fn all_levels(locator: String) -> Self {
        Self {
            locator,
            ..Self::default()
        }
    }

    /// The top sections of a document.
    pub fn top_level(locator: String) -> Self {
        Self {
            locator,
            depth: Some(1),
            ..Self::default()
        }
    }

    fn skipped_rows(&self) -> usize {
        let before = self.page.map_or(0, |page| page.get() - 1);
        before.saturating_mul(ROWS)
    }

    fn note_more(&self, rows: usize, total: usize, output: &Output) {
        let skipped = self.skipped_rows();
        output.note(&format!(
            "rows {}–{} of {total}; more with --page {}",
            skipped + 1,
            skipped + rows,
            self.page.map_or(2, |page| page.get() + 1)
        ));
    }
}

/// How a tree is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
enum TreeFormat {
    /// Text, or an object with --json.
    #[default]
    Stemma,
    /// PageIndex-compatible JSON of the whole document.
    Pageindex,
}

pub async fn run(args: TreeArgs, context: &Context) -> Result<Exit, CommandError> {
    let reader = open(context).await?;
    let output = &context.output;
    if let Some(page) = args.why {
        return explain(&reader, &args.locator, page, context).await;
    }
    if reader.is_folder(&args.locator)? {
        return folder(&reader, &args, output).await;
    }
    if args.format == TreeFormat::Pageindex {
        let locator = stemma_archive::document_part(&args.locator);
        let listed = reader.documents_in_scope(&locator)?;
        let [listed] = listed.as_slice() else {
            return Err(
                CommandError::new("tree.one_document_only", "--format needs one document")
                    .with_next("stemma export --format pageindex --out DIR"),
            );
        };
        let format = ExportFormat::PageIndex { text: false };
        let exported = reader.export(listed, &listed.label, format).await?;
        output.line(exported.content.trim_end());
        return Ok(Exit::Done);
    }
    let request = TreeRequest {
        locator: args.locator.clone(),
        depth: args.depth,
        summaries: args.summaries || !output.is_text(),
        limit: args.page.map(|_| ROWS),
        skip: args.skipped_rows(),
        cursor: None,
    };
    let mut view = reader.tree(&request).await?;
    let rows = view.sections.len();
    if args.show_doubts {
        view.sections.retain(is_doubtful);
    }
    output.print(&view, &view.sections, || print(&view, &args, output));
    if view.next_cursor.is_some() {
        args.note_more(rows, view.total, output);
    }
    Ok(Exit::nothing_if(view.sections.is_empty()))
}

fn parse_page(text: &str) -> Result<u32, String> {
    let digits = text.trim_start_matches(['p', '.', '=', ' ']);
    digits
        .parse()
        .map_err(|_| "name a page, such as p12".into())
}

async fn explain(
    reader: &Archive,
    locator: &str,
    page: u32,
    context: &Context,
) -> Result<Exit, CommandError> {
    let settings = &context.config()?.settings.outline;
    let view = reader.explain_headings(locator, page, settings).await?;
    let output = &context.output;
    output.print(&view, &view.headings, || {
        let page = output.bold(&clean(&view.locator));
        output.line(&format!("{page}  {}", word(&view.method)));
        headings_table(&view.headings).print(output);
    });
    Ok(Exit::nothing_if(view.headings.is_empty()))
}

// One row per line: its number, what was decided, its look, its title.
fn headings_table(headings: &[HeadingReport]) -> Table {
    use Column::{Left, Right, Text};
    let mut table = Table::with_one_line_rows([Right, Left, Left, Left, Text])
        .with_heads(["LINE", "DECISION", "EVIDENCE", "LOOK", "TITLE"]);
    for heading in headings {
        let decision = match heading.decision {
            HeadingDecision::Kept { level } => format!("level {level}"),
            HeadingDecision::Dropped { rule } => rule.to_owned(),
        };
        table.row([
            heading.line.to_string(),
            decision,
            word(&heading.evidence),
            look(&heading.features),
            heading.title.clone(),
        ]);
    }
    table
}

// `12 in 10 pt, bold, capitals, gap 0.8`
fn look(features: &HeadingFeatures) -> String {
    let flags = [
        (features.bold, "bold"),
        (features.emphasized, "emphasized"),
        (features.capitals, "capitals"),
        (features.centered, "centered"),
        (features.numbered, "numbered"),
        (features.run_in, "opens a paragraph"),
        (features.dense, "frequent"),
        (features.over_text, "over text"),
    ];
    let mut parts = vec![format!(
        "{:.1} in {:.1} pt",
        features.size, features.text_size
    )];
    let named = flags.iter().filter(|(is_set, _)| *is_set);
    parts.extend(named.map(|(_, name)| (*name).to_owned()));
    parts.push(format!("gap {:.1}", features.gap));
    parts.join(", ")
}

// Folders, documents and facets, a page of rows.
async fn folder(reader: &Archive, args: &TreeArgs, output: &Output) -> Result<Exit, CommandError> {
    let skip = args.skipped_rows();
    let options = FilesOptions {
        depth: args.depth.unwrap_or(1).max(1),
        after: None,
        skip,
        limit: ROWS,
    };
    let view = reader.files(&args.locator, &options).await?;
    output.print(&view, &view.entries, || {
        view.entries
            .iter()
            .for_each(|row| output.line(&entry(row, output)));
    });
    if view.more {
        args.note_more(view.entries.len(), view.total, output);
    }
    Ok(Exit::nothing_if(view.entries.is_empty()))
}

// A row of a folder's tree: the path at the first level, names below it.
fn entry(row: &FileEntry, output: &Output) -> String {
    let name = if row.depth == 1 { &row.path } else { &row.name };
    let mut line = format!(
        "{}{}",
        "  ".repeat(row.depth.saturating_sub(1)),
        clean(name)
    );
    if let Some(count) = row.count {
        line += &output.dim(&format!("  ({count})"));
    }
    if let Some(document) = &row.document {
        let about = clean(&format!("  {}", identity(document).join(" · ")));
        line += &output.dim(about.trim_end());
    }
    line
}

/// Shows the tree of a document that was just ingested, down to `depth` levels.
pub async fn show(
    archive: &Archive,
    entry: &CatalogEntry,
    depth: Option<usize>,
    output: &Output,
) -> Result<(), CommandError> {
    let request = TreeRequest {
        locator: entry.version.doc.to_string(),
        depth,
        ..TreeRequest::default()
    };
    let view = archive.tree(&request).await?;
    print(&view, &TreeArgs::default(), output);
    Ok(())
}

/// `large_leaf: … (p 3-20)`.
pub(super) fn doubt_line(reason: &DoubtReason) -> String {
    let mut line = format!("{}: {}", reason.code.as_str(), clean(&reason.detail));
    if let Some(pages) = reason.pages {
        line += &format!(" (p {pages})");
    }
    line
}

/// `pages.unreadable p 3-4: …`.
pub(super) fn gap_line(gap: &Gap) -> String {
    let pages = gap
        .pages
        .map_or_else(String::new, |pages| format!(" p {pages}"));
    format!("{}{pages}: {}", gap.code, clean(&gap.detail))
}

fn is_doubtful(row: &TreeRow) -> bool {
    !row.section.verified && row.section.kind == SectionKind::Heading
}

fn print(view: &TreeResponse, args: &TreeArgs, output: &Output) {
    let document = &view.document;
    let mut header = identity(document);
    header.push(length(document));
    header.extend(document.method.map(|method| word(&method)));
    header.extend(document.doubt.map(|doubt| format!("doubt {doubt:.2}")));
    let name = output.bold(&clean(&document.name));
    output.line(&format!("{name}  {}", clean(&header.join(" · "))));
    for reason in view.doubt.iter().flat_map(|doubt| &doubt.reasons) {
        output.line(&output.dim(&format!("  {}", doubt_line(reason))));
    }
    let mut lines = section_table(view).lines(output.width).into_iter();
    if let Some(heads) = lines.next() {
        output.line(&output.dim(&heads));
    }
    for (row, line) in view.sections.iter().zip(lines) {
        output.line(&line);
        if let Some(summary) = row.summary.as_ref().filter(|_| args.summaries) {
            output.line(&output.dim(&format!("     {}", clean(summary))));
        }
    }
    footer(view, args, output);
}

// One row per section: id, branches and title, status, pages, tokens, words in doubt, links.
fn section_table(view: &TreeResponse) -> Table {
    use Column::{Left, Right, Text};
    let mut table = Table::with_one_line_rows([Text, Left, Left, Right, Left, Text])
        .with_heads(["SECTION", "STATUS", "PAGES", "TOKENS", "OCR", "CONTENT"])
        .with_optional([4, 5]);
    for (row, branch) in view.sections.iter().zip(branches(&view.sections)) {
        let section = &row.section;
        let doubt = if is_doubtful(row) { " ?" } else { "" };
        let tokens = Some(section.tokens).filter(|tokens| *tokens > 0);
        let ocr = section.ocr.map(|ocr| {
            format!(
                "{} of {} in doubt",
                thousands(ocr.doubtful),
                thousands(ocr.words)
            )
        });
        table.row([
            format!("{} {branch}{}{doubt}", section.section_id, section.title),
            badge(row.status),
            page_or_line_range(section.pages, section.lines),
            tokens.map_or_else(String::new, thousands),
            ocr.unwrap_or_default(),
            links_line(&row.content),
        ]);
    }
    table
}

// The lines that join sections to those above them.
fn branches(rows: &[TreeRow]) -> Vec<String> {
    let mut follows: Vec<bool> = Vec::new();
    let mut branches: Vec<String> = Vec::with_capacity(rows.len());
    // Going from the last row up, `follows` holds which levels have later siblings.
    for row in rows.iter().rev() {
        let depth = row.depth;
        follows.resize(follows.len().max(depth + 1), false);
        let mut branch: String = (2..depth)
            .map(|level| if follows[level] { "│ " } else { "  " })
            .collect();
        if depth > 1 {
            branch.push_str(if follows[depth] { "├ " } else { "└ " });
        }
        branches.push(branch);
        follows.truncate(depth + 1);
        follows[depth] = true;
    }
    branches.reverse();
    branches
}

fn footer(view: &TreeResponse, args: &TreeArgs, output: &Output) {
    let (unit, all) = match (view.document.pages, view.document.lines) {
        (Some(pages), _) => ("pages", pages),
        (None, lines) => ("lines", lines.unwrap_or_default()),
    };
    let mut parts = vec![
        format!("{unit} covered {}/{all}", view.covered),
        format!("gaps {}", view.gaps.len()),
    ];
    if view.doubtful > 0 {
        let hint = if args.show_doubts {
            ""
        } else {
            " (--show-doubts)"
        };
        parts.push(format!("low-confidence titles {}{hint}", view.doubtful));
    }
    if view.hidden > 0 {
        parts.push(format!(
            "{} below (-L)",
            counted(view.hidden, "more section")
        ));
    }
    output.line(&output.dim(&parts.join(" · ")));
    for gap in view.gaps.iter().take(10) {
        output.line(&output.dim(&format!("gap {}", gap_line(gap))));
    }
    if view.gaps.len() > 10 {
        output.line(&output.dim(&format!("… {} more gaps (--json)", view.gaps.len() - 10)));
    }
}
