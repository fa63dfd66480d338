//! Prints what text recognition reads on a page: `read FILE.pdf PAGE [MODEL]`, with a model that reads the numbers again.
//! `--words` before it prints for each word its confidence, and what the second reader read otherwise.
//! `read --text FILE.pdf` prints the text that a file states, with a form feed after each page.

use std::time::Instant;

use stemma_document::{Page, PageNo, Source, SourceBody};
use stemma_extract::{EncodedSource, ExtractJob, Limits, RecognizeRequest};

const USAGE: &str = "usage: read [--words] FILE.pdf PAGE [MODEL], or read --text FILE.pdf";

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let flag = arguments.first().filter(|first| first.starts_with("--"));
    let flag = flag.cloned();
    arguments.retain(|argument| !argument.starts_with("--"));
    let path = arguments.first().ok_or(USAGE)?;
    let job = ExtractJob::new(path.clone(), std::fs::read(path)?, None, Limits::default());
    if flag.as_deref() == Some("--text") {
        let source = stemma_extract::extract(job).map_err(|error| error.message)?;
        for page in pages(source) {
            print!("{}\u{c}", page.text());
        }
        return Ok(());
    }
    let page = arguments.get(1).ok_or(USAGE)?.parse()?;
    let program = stemma_ocr::find_program(std::env::var_os("PATH").as_deref());
    let request = RecognizeRequest {
        page: PageNo::new(page).ok_or("pages count from 1")?,
        program: program.ok_or("tesseract is not installed")?,
        languages: vec!["eng".into()],
        second_reader: arguments
            .get(2)
            .map(|path| stemma_ocr::model_file(path.into()))
            .transpose()?,
    };
    let started = Instant::now();
    let reply = stemma_ocr::read_page(&job, &request).map_err(|error| error.message)?;
    let page = pages(EncodedSource::open(reply)?.decode()?).pop();
    let page = page.ok_or("the reply has no page")?;
    if flag.is_some() {
        print_words(&page);
    } else {
        let read = page.recognition().cloned().unwrap_or_default();
        println!("{}", page.text());
        println!(
            "turn {:?}, skew {}, confidence {}, in doubt {}, {:?}",
            page.turn,
            read.skew,
            read.mean(),
            read.doubtful(),
            started.elapsed()
        );
    }
    Ok(())
}

fn pages(source: Source) -> Vec<Page> {
    match source.body {
        SourceBody::Pages(pages) => pages,
        SourceBody::Lines(_) => Vec::new(),
    }
}

fn print_words(page: &Page) {
    let spans = page.lines.iter().flat_map(|line| {
        let words = line.words.iter();
        words.map(|word| &line.text[word.start as usize..word.end as usize])
    });
    let read = page.recognition().cloned().unwrap_or_default();
    for (reading, word) in read.words().zip(spans) {
        let other = reading.other.map(|other| format!("\t{other}"));
        let confidence = reading.confidence;
        println!("{confidence}\t{word}{}", other.unwrap_or_default());
    }
}
