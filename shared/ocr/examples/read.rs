//! Prints the words that text recognition reads on a page: `read FILE.pdf PAGE`.

use std::time::Instant;

use stemma_document::PageNo;
use stemma_extract::{EncodedSource, ExtractJob, Limits, RecognizeRequest};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: read FILE.pdf PAGE")?;
    let page = arguments.next().unwrap_or_else(|| "1".into()).parse()?;
    let bytes = std::fs::read(&path)?;
    let job = ExtractJob::new(path, bytes, None, Limits::default());
    let program = stemma_ocr::find_program(std::env::var_os("PATH").as_deref());
    let request = RecognizeRequest {
        page: PageNo::new(page).ok_or("pages count from 1")?,
        program: program.ok_or("tesseract is not installed")?,
        languages: vec!["eng".into()],
    };
    let started = Instant::now();
    let reply = stemma_ocr::read_page(&job, &request).map_err(|error| error.message)?;
    let source = EncodedSource::open(reply)?.decode()?;
    if let stemma_document::SourceBody::Pages(pages) = source.body {
        for page in pages {
            println!("{}", page.text());
            println!(
                "{:?} {:?}",
                page.turn,
                page.recognition()
                    .map(|read| (read.skew, read.mean(), read.doubtful()))
            );
        }
    }
    println!("{:?}", started.elapsed());
    Ok(())
}
