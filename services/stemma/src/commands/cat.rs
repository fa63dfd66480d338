//! `stemma cat`: prints the text of sections, Items and pages, and pictures of pages.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use stemma_archive::{Archive, ImageRequest, PageRegion, TextResponse, TextScope};

use crate::commands::format::{links_line, printed_label, word};
use crate::commands::open::open;
use crate::commands::tree::{self, TreeArgs};
use crate::context::Context;
use crate::error::{CommandError, Exit};
use crate::output::{Output, clean};
use crate::page_images::page_images;
use crate::table::counted;

/// Print the text of a section, an Item, pages, a table, or a whole document.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stemma cat 3M_2022_10K#0019        a section with its sub-sections
  stemma cat 3M_2022_10K#item-7A     an Item
  stemma cat 3M_2022_10K#p=5-7,9     pages, counted from the first page of the file
  stemma cat 3M_2022_10K#t12         a table as Markdown (stemma table has CSV and JSON)
  stemma cat 3M_2022_10K --page 5-7  the same
  stemma cat 3M_2022_10K --structure its sections instead of text (stemma tree)
  stemma cat 3M_2022_10K --hidden    text of its pages that nobody sees, such as white on white
  stemma cat 3M_2022_10K#p=5 --image -o page.png
                                     the picture of a page of a PDF

If the start or end of an Item cannot be verified, its text is printed with a warning and exit
code 3; its JSON says `boundary_unverifiable`.")]
pub struct CatArgs {
    /// A document, or a section, an Item, pages or a table of it.
    #[arg(value_name = "LOCATOR", required = true)]
    locators: Vec<String>,
    /// Pages, counted from the first page of the file: 5-7,9.
    #[arg(long, value_name = "PAGES", group = "what")]
    page: Option<String>,
    /// A section of the document, by id.
    #[arg(long, value_name = "ID", group = "what")]
    section: Option<String>,
    /// An Item of the document: 1A, II.1A, risk-factors.
    #[arg(long, value_name = "ITEM", group = "what")]
    item: Option<String>,
    /// List the sections instead of the text.
    #[arg(long, group = "what")]
    structure: bool,
    /// What pages of a PDF hide from the eye and is not read: white or covered text, and the like.
    #[arg(
        long,
        conflicts_with = "own",
        conflicts_with = "section",
        conflicts_with = "item",
        conflicts_with = "structure",
        conflicts_with = "image"
    )]
    hidden: bool,
    /// Only the text before the first subsection.
    #[arg(long)]
    own: bool,
    /// The picture of one page of a PDF instead of its text, as PNG.
    #[arg(long, conflicts_with_all = ["own", "section", "item", "structure"])]
    image: bool,
    /// Width of the picture in pixels.
    #[arg(long, requires = "image", default_value_t = 1_000, value_name = "PIXELS",
        value_parser = clap::value_parser!(u32).range(50..=2_000))]
    width: u32,
    /// A part of the page: left, top, width and height in fractions of it, such as 0,0.5,1,0.5.
    #[arg(long, requires = "image", value_name = "X,Y,W,H", value_parser = parse_region)]
    region: Option<PageRegion>,
    /// File for the picture [default: standard output].
    #[arg(short, long, requires = "image", value_name = "FILE")]
    output: Option<PathBuf>,
}

pub async fn run(args: CatArgs, context: &Context) -> Result<Exit, CommandError> {
    if args.structure {
        let mut ended = Exit::Nothing;
        for locator in args.locators {
            ended = tree::run(TreeArgs::all_levels(locator), context).await?;
        }
        return Ok(ended);
    }
    let reader = open(context).await?;
    if args.image {
        return write_image(&reader, &args, context).await;
    }
    if args.hidden {
        return show_hidden(&reader, &args, context).await;
    }
    let part = if args.own {
        TextScope::Own
    } else {
        TextScope::Full
    };
    let output = &context.output;
    let mut views = Vec::new();
    for locator in &args.locators {
        views.push(reader.text(&part_of(&args, locator)?, part).await?);
    }
    for view in &views {
        note_recognition(view, output);
        warn(view, output);
    }
    match views.as_slice() {
        [view] => output.show(view, || show(view, output)),
        views => output.show(&views, || views.iter().for_each(|view| show(view, output))),
    }
    let is_empty = |view: &TextResponse| {
        view.text.as_deref().unwrap_or_default().trim().is_empty() && view.pages.is_empty()
    };
    let mut items = views.iter().filter_map(|view| view.item.as_ref());
    Ok(match views.iter().all(is_empty) {
        true => Exit::Nothing,
        false if items.any(|item| item.boundary_unverifiable) => Exit::SomeFailed,
        false => Exit::Done,
    })
}

async fn show_hidden(
    reader: &Archive,
    args: &CatArgs,
    context: &Context,
) -> Result<Exit, CommandError> {
    let output = &context.output;
    let mut ended = Exit::Nothing;
    for locator in &args.locators {
        let view = reader.hidden_text(&part_of(args, locator)?).await?;
        if !view.hidden.is_empty() {
            ended = Exit::Done;
        }
        output.show(&view, || {
            for hidden in &view.hidden {
                let place = format!("page {}, {}", hidden.page, hidden.reason.description());
                output.line(&format!("{}  {}", output.dim(&place), clean(&hidden.text)));
            }
        });
    }
    Ok(ended)
}

async fn write_image(
    reader: &Archive,
    args: &CatArgs,
    context: &Context,
) -> Result<Exit, CommandError> {
    let [locator] = args.locators.as_slice() else {
        let message = "only one image can be written at a time";
        return Err(CommandError::new("cat.one_image_only", message));
    };
    if args.output.is_none() && context.output.width.is_some() {
        let message = "an image cannot be written to a terminal";
        return Err(
            CommandError::new("cat.one_image_only", message).with_next("name a file: -o page.png")
        );
    }
    let (listed, page) = reader.one_page(&part_of(args, locator)?)?;
    let request = ImageRequest {
        region: args.region.unwrap_or(PageRegion::WHOLE),
        ..ImageRequest::for_page(page, args.width)
    };
    let image = page_images(context)?
        .image(reader, &listed, &request)
        .await?;
    let written = match &args.output {
        Some(file) => fs::write(file, &image),
        None => io::stdout().lock().write_all(&image),
    };
    written.map_err(|error| CommandError::new("cat.write_failed", error.to_string()))?;
    if let Some(file) = &args.output {
        context
            .output
            .note(&format!("written to {}", file.display()));
    }
    Ok(Exit::Done)
}

fn parse_region(text: &str) -> Result<PageRegion, String> {
    PageRegion::from_text(text).ok_or_else(|| {
        "a region is left, top, width and height, each a fraction of the page: 0,0.5,1,0.5".into()
    })
}

// The locator with the part that an option names.
fn part_of(args: &CatArgs, locator: &str) -> Result<String, CommandError> {
    let parts = [
        ("p=", &args.page),
        ("", &args.section),
        ("item-", &args.item),
    ];
    let named =
        |(prefix, value): (&str, &Option<String>)| Some(format!("{prefix}{}", value.as_ref()?));
    let Some(fragment) = parts.into_iter().find_map(named) else {
        return Ok(locator.to_owned());
    };
    let document = stemma_archive::document_part(locator);
    let whole = format!("{document}#{fragment}");
    if stemma_archive::document_part(&whole) != document {
        let message = format!("`{fragment}` is not a part of a document");
        return Err(CommandError::new("cat.part_unknown", message)
            .with_next("use --page 5-7,9, --section 0007 or --item 1A"));
    }
    Ok(whole)
}

// How sure text recognition is of the text.
fn note_recognition(view: &TextResponse, output: &Output) {
    if let Some(ocr) = view.section.as_ref().and_then(|section| section.ocr) {
        output.note(&output.dim(&ocr.to_string()));
    }
    let read: Vec<_> = view
        .pages
        .iter()
        .filter_map(|page| page.ocr.as_ref())
        .collect();
    if !read.is_empty() {
        let doubtful: usize = read.iter().map(|ocr| ocr.doubtful.len()).sum();
        let pages = counted(read.len(), "page");
        let words = counted(doubtful, "word");
        output.note(&output.dim(&format!("text recognition read {pages}; {words} in doubt")));
    }
}

// Warnings and cross references of an Item.
fn warn(view: &TextResponse, output: &Output) {
    let Some(item) = &view.item else { return };
    let name = clean(item.locator.as_deref().unwrap_or(&view.locator));
    if item.boundary_unverifiable {
        let why = "start or end of this Item could not be verified";
        output.error(&format!("warning: {name}: {why} (boundary_unverifiable)"));
    }
    let elsewhere = clean(&links_line(&item.content));
    if let Some(status) = item.status.filter(|_| !elsewhere.is_empty()) {
        let status = word(&status);
        output.note(&output.dim(&format!("{name} is answered {status}: {elsewhere}")));
    }
}

fn show(view: &TextResponse, output: &Output) {
    for page in &view.pages {
        if view.pages.len() > 1 {
            let label = printed_label(page.label.as_deref());
            output.line(&output.dim(&format!("── page {}{label} ──", page.page)));
        }
        lines(&page.text, output);
    }
    lines(view.text.as_deref().unwrap_or_default(), output);
}

// Tabs are layout and become spaces; `clean` escapes other control characters.
fn lines(text: &str, output: &Output) {
    if !text.is_empty() {
        let lines = text.split('\n');
        lines.for_each(|line| output.line(&clean(&line.replace('\t', "    "))));
    }
}
