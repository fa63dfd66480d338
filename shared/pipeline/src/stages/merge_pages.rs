//! `merge_pages`: puts the pages that text recognition read into the text of a document.

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::try_join_all;
use serde::{Deserialize, Serialize};
use stemma_document::{
    Defect, Digest, Line, LineRole, Page, PageNo, PageOrigin, Recognition, Source, SourceBody,
    WordReading, furniture,
};
use stemma_engine::queue::Lane;
use stemma_engine::stage::{Stage, StageOutput, StageResult};
use stemma_extract::encode_source;
use stemma_reading::document_reading::DocumentReading;
use stemma_store::{Failure, FailureKind, FailureRecord, TaskKey, TaskKeyBuilder};

use super::codec::{decode_source, parse_json, source_error, to_json};
use super::extract_document::{count_tokens, read_document};
use super::paginate::PaginateOutcome;
use super::recognize::{Recognize, RecognizeOutcome, pages_to_recognize};
use super::transcribe::{Transcribe, TranscribeOutcome};
use super::transcript;
use crate::settings::{OcrMode, RunSettings};
use crate::{FilingFlow, FilingTask};

// Pages that are loaded at once.
const LOADS: usize = 16;
// A page with more words in doubt is listed: print that is clean has hardly any, an upside-down page or a photograph mostly them.
const MAX_DOUBTFUL: f64 = 0.25;
// Pages listed, as many as defects of a PDF.
const MAX_MARKS: usize = 1_000;
// Characters of a failure that travel in the message.
const MAX_MESSAGE: usize = 300;

/// Key: the text, and the results of all pages.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct MergePages {
    /// Identity of the file's bytes.
    source: Digest,
    /// The artifact of [`Paginate`](super::Paginate), and the digest of its blob `source`.
    paginate: TaskKey,
    text: Digest,
    /// Over the numbers and results of all pages.
    results: Digest,
    /// Why pages were not read: of the first of them.
    failure: Option<PageFailure>,
    /// Number of pages that were not read.
    failed: u32,
    /// Why a model did not see pages: the first of them.
    #[serde(default)]
    unseen_failure: Option<PageFailure>,
    /// Number of pages that a model was to see, and did not.
    #[serde(default)]
    unseen: u32,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct PageFailure {
    code: String,
    message: String,
    next: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct MergeOutcome {
    /// Digest of the blob `source`.
    pub(crate) digest: Digest,
    /// Pages that were read, and that failed.
    pub(crate) read: u32,
    pub(crate) failed: u32,
}

impl MergePages {
    pub(crate) fn new(
        source: Digest,
        paginate: TaskKey,
        text: Digest,
        pages: &[PageNo],
        results: &[Result<RecognizeOutcome, FailureRecord>],
    ) -> Self {
        let parts = result_list(pages, results, |outcome| outcome.digest);
        let (failure, failed) = failures(results);
        Self {
            source,
            paginate,
            text,
            results: Digest::from_content(parts.as_bytes()),
            failure,
            failed,
            unseen_failure: None,
            unseen: 0,
        }
    }

    /// With what a vision model was asked. Without such pages the key stays as it is.
    pub(crate) fn with_transcripts(
        mut self,
        pages: &[PageNo],
        results: &[Result<TranscribeOutcome, FailureRecord>],
    ) -> Self {
        if !pages.is_empty() {
            let seen = result_list(pages, results, |outcome| outcome.digest);
            let parts = format!("{}\n{seen}", self.results);
            self.results = Digest::from_content(parts.as_bytes());
            (self.unseen_failure, self.unseen) = failures(results);
        }
        self
    }

    // What the model said about a page. `None` if it was not asked, or did not see the page.
    async fn load_transcript(
        &self,
        task: &FilingTask<'_>,
        page: PageNo,
        recognize: &TaskKey,
    ) -> Result<Transcript, Failure> {
        if task.settings.vision.is_none() {
            return Ok(Transcript::None);
        }
        let read: RecognizeOutcome = parse_json(&task.outcome(recognize).await?)?;
        let Some(stage) = Transcribe::for_page(task.settings, self.source, page, &read) else {
            return Ok(Transcript::None);
        };
        match task.blob(&stage.key(task.settings), "lines").await {
            Ok(blob) => parse_json(&blob).map(Transcript::Lines),
            Err(failure) if self.unseen > 0 && failure.kind == FailureKind::InputMissing => {
                Ok(Transcript::Missing)
            }
            Err(failure) => Err(failure),
        }
    }

    // `None` if the page could not be read.
    async fn load(
        &self,
        task: &FilingTask<'_>,
        page: PageNo,
    ) -> Result<Option<(Page, Transcript)>, Failure> {
        let recognize = Recognize {
            source: self.source,
            page,
        };
        let key = recognize.key(task.settings);
        match task.blob(&key, "page").await {
            Ok(blob) => {
                let transcript = self.load_transcript(task, page, &key).await?;
                let read = only_page(decode_source(blob)?);
                Ok(read.map(|read| (read, transcript)))
            }
            Err(failure) if self.failed > 0 && failure.kind == FailureKind::InputMissing => {
                Ok(None)
            }
            Err(failure) => Err(failure),
        }
    }
}

#[async_trait]
impl Stage for MergePages {
    type Work = FilingFlow;
    type Outcome = MergeOutcome;

    const NAME: &'static str = "merge_pages";
    const REVISION: u32 = 1 + DocumentReading::REVISION;
    const LANE: Lane = Lane::Cpu;

    fn identity(&self, settings: &RunSettings, identity: &mut TaskKeyBuilder) {
        identity.bytes(self.text.as_bytes());
        identity.bytes(self.results.as_bytes());
        identity.text(&serde_json::to_string(&settings.ocr).unwrap_or_default());
    }

    async fn run(&self, task: &FilingTask<'_>) -> StageResult<MergeOutcome> {
        let outcome: PaginateOutcome = parse_json(&task.outcome(&self.paginate).await?)?;
        let numbers = pages_to_recognize(task.settings, &outcome);
        let mut source = decode_source(task.blob(&self.paginate, "source").await?)?;
        let mut pages = Vec::with_capacity(numbers.len());
        for part in numbers.chunks(LOADS) {
            let loads = part.iter().map(|page| self.load(task, *page));
            pages.extend(try_join_all(loads).await?);
        }
        let failed = pages.iter().filter(|page| page.is_none()).count();
        let read = pages.len() - failed;
        if failed > self.failed as usize {
            return Err(lost_pages(failed - self.failed as usize));
        }
        let mut tally = TranscriptTally::default();
        for (number, page) in numbers.into_iter().zip(pages) {
            if let Some((mut page, transcript)) = page {
                tally.add(number, &mut page, transcript);
                put(&mut source, number, page, task.settings.ocr.mode);
            }
        }
        if tally.missing > self.unseen {
            return Err(lost_pages((tally.missing - self.unseen) as usize));
        }
        if let Some(PageFailure { code, message, .. }) = &self.failure {
            let detail = format!("{failed} pages were not read: {message}");
            source.defects.push(defect(code, None, detail));
        }
        if let Some(PageFailure { code, message, .. }) = &self.unseen_failure {
            let detail = format!("a model did not see {} pages: {message}", self.unseen);
            source.defects.push(defect(code, None, detail));
        }
        let SourceBody::Pages(pages) = &mut source.body else {
            return Err(source_error("text recognition of a document without pages"));
        };
        if pages.iter().all(|page| page.lines.is_empty()) {
            return Err(self.no_text(pages.len()));
        }
        furniture::mark(pages);
        let marks = recognition_marks(pages, &tally);
        source.defects.extend(marks);
        count_tokens(&mut source);
        let reading = Bytes::from(read_document(&source).map_err(source_error)?);
        let encoded = Bytes::from(encode_source(&source).map_err(source_error)?);
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let outcome = MergeOutcome {
            digest: Digest::from_content(&encoded),
            read: count(read),
            failed: count(failed),
        };
        let mut blobs = vec![("source", encoded), ("reading", reading)];
        if !tally.unplaced.is_empty() {
            blobs.push(("unplaced", to_json(&tally.unplaced)?));
        }
        Ok(StageOutput::new(outcome, blobs))
    }
}

fn defect(code: &str, page: Option<PageNo>, detail: String) -> Defect {
    Defect {
        code: code.into(),
        page,
        detail,
    }
}

impl MergePages {
    fn no_text(&self, pages: usize) -> Failure {
        if let Some(failure) = &self.failure {
            let next = failure.next.clone().unwrap_or_default();
            return Failure::permanent(&failure.code, failure.message.clone()).with_next(next);
        }
        let message =
            format!("text recognition found no words on any of the document's {pages} pages");
        Failure::permanent("pdf.no_text", message)
            .with_next("look at the pages; if they show text, set ocr.languages to its language")
    }
}

enum Transcript {
    // The model was not asked.
    None,
    // It was, and did not answer.
    Missing,
    Lines(Vec<String>),
}

// What a vision model said about the pages.
#[derive(Default)]
struct TranscriptTally {
    seen: u32,
    missing: u32,
    confirmed: u32,
    disputed: u32,
    // Words of the model that have no place on their page, by page. Nobody searches or cites them.
    unplaced: Vec<(PageNo, Vec<String>)>,
}

impl TranscriptTally {
    fn add(&mut self, number: PageNo, page: &mut Page, transcript: Transcript) {
        match transcript {
            Transcript::None => {}
            Transcript::Missing => self.missing += 1,
            Transcript::Lines(lines) => {
                let found = transcript::apply(page, &lines);
                self.seen += 1;
                self.confirmed += found.confirmed;
                self.disputed += found.disputed;
                if !found.unplaced.is_empty() {
                    self.unplaced.push((number, found.unplaced));
                }
            }
        }
    }

    // For readers of the tree.
    fn line(&self) -> Option<String> {
        let runs = self.unplaced.iter().flat_map(|(_, runs)| runs);
        let unplaced: usize = runs.map(|run| run.split(' ').count()).sum();
        let confirmed = self.confirmed;
        let disputed = self.disputed;
        (self.seen > 0).then(|| {
            format!(
                "a model looked at {} of the pages: it confirmed {confirmed} words in doubt and read {disputed} words \
                 otherwise; {unplaced} words that it read have no place in the text",
                self.seen
            )
        })
    }
}

fn result_list<T>(
    pages: &[PageNo],
    results: &[Result<T, FailureRecord>],
    digest: impl Fn(&T) -> Digest,
) -> String {
    let parts = pages
        .iter()
        .zip(results)
        .map(|(page, result)| match result {
            Ok(outcome) => format!("{page} {}", digest(outcome)),
            Err(record) => format!("{page} {}", record.code),
        });
    parts.collect::<Vec<_>>().join("\n")
}

// The first failure, and their number.
fn failures<T>(results: &[Result<T, FailureRecord>]) -> (Option<PageFailure>, u32) {
    let failures = || results.iter().filter_map(|result| result.as_ref().err());
    let first = failures().next().map(|record| PageFailure {
        code: record.code.clone(),
        message: record.message.chars().take(MAX_MESSAGE).collect(),
        next: record.next.clone(),
    });
    (first, u32::try_from(failures().count()).unwrap_or(u32::MAX))
}

// The store lost what was read, which is read again.
fn lost_pages(count: usize) -> Failure {
    let message = format!("{count} pages that were read are not in the store");
    Failure::input_missing("engine.blob_missing", message)
}

// What readers of the tree are told: how many pages were read, which of them badly, and what a model saw.
fn recognition_marks(pages: &[Page], tally: &TranscriptTally) -> Vec<Defect> {
    let mut read = 0;
    let mut words = 0;
    let mut doubtful = 0;
    let mut disputed = 0;
    let mut marks = Vec::new();
    for (index, page) in pages.iter().enumerate() {
        let Some(recognition) = page.recognition() else {
            continue;
        };
        let all = recognition.confidences.len();
        let unsure = recognition.doubtful();
        read += 1;
        words += all;
        doubtful += unsure;
        disputed += recognition.disputed.len();
        if unsure as f64 > MAX_DOUBTFUL * all as f64 && marks.len() < MAX_MARKS {
            let detail = format!("text recognition is unsure of {unsure} of {all} words");
            marks.push(defect(
                "ocr.doubtful",
                Some(PageNo::from_index(index)),
                detail,
            ));
        }
    }
    if read == 0 {
        return marks;
    }
    let mut detail = format!(
        "text recognition read {read} of {} pages; {doubtful} of {words} words are in doubt",
        pages.len()
    );
    if disputed > 0 {
        let other = match tally.seen {
            0 => "another figure",
            _ => "them otherwise",
        };
        detail += &format!(", {disputed} of them because a second reader read {other}");
    }
    if let Some(line) = tally.line() {
        detail += &format!("; {line}");
    }
    marks.insert(0, defect("ocr.recognized", None, detail));
    marks
}

/// The page of a source of one page.
pub(super) fn only_page(source: Source) -> Option<Page> {
    match source.body {
        SourceBody::Pages(mut pages) => pages.pop(),
        SourceBody::Lines(_) => None,
    }
}

// Replaces a page, except the words that the file states where it is a picture only in part.
fn put(source: &mut Source, number: PageNo, mut read: Page, mode: OcrMode) {
    let SourceBody::Pages(pages) = &mut source.body else {
        return;
    };
    let Some(page) = pages.get_mut(number.index()) else {
        return;
    };
    let is_now_read = |defect: &Defect| {
        defect.page == Some(number)
            && matches!(
                defect.code.as_str(),
                "pdf.no_text" | "pdf.text_garbled" | "pdf.little_text" | "pdf.text_invisible"
            )
    };
    let states_words = mode == OcrMode::Auto
        && !source
            .defects
            .iter()
            .any(|defect| is_now_read(defect) && defect.code == "pdf.text_garbled");
    let found = read.recognition().map_or(0, |read| read.confidences.len());
    if found == 0 {
        // What the page shows has no letters, so it stays as it is.
        page.origin = PageOrigin::Recognized(Box::new(stated(page)));
        return;
    }
    source.defects.retain(|defect| !is_now_read(defect));
    if states_words {
        keep_stated(page, &mut read);
    }
    read.label = page.label.take();
    *page = read;
}

fn stated(page: &Page) -> Recognition {
    let words = page.lines.iter().map(|line| line.words.len()).sum();
    Recognition {
        confidences: vec![Recognition::STATED; words],
        ..Recognition::default()
    }
}

// Puts the lines that a file states between the lines that were read, and drops readings of the same words.
fn keep_stated(page: &Page, read: &mut Page) {
    if page.lines.is_empty() {
        return;
    }
    let mut all = Vec::new();
    let recognition = read.recognition().cloned().unwrap_or_default();
    let mut readings = recognition.words();
    let stated: Vec<Line> = page
        .lines
        .iter()
        .map(|line| as_read(line, page, read))
        .collect();
    for line in std::mem::take(&mut read.lines) {
        let own: Vec<WordReading> = readings.by_ref().take(line.words.len()).collect();
        if !stated.iter().any(|other| covers(other, &line)) {
            all.push((line, own));
        }
    }
    for line in stated {
        let own = vec![WordReading::stated(); line.words.len()];
        let below = all
            .iter()
            .position(|(other, _)| other.rect.y0 > line.rect.y0);
        all.insert(below.unwrap_or(all.len()), (line, own));
    }
    let (lines, readings): (Vec<Line>, Vec<Vec<WordReading>>) = all.into_iter().unzip();
    read.lines = lines;
    let recognition = Recognition::new(recognition.skew, readings.concat());
    read.origin = PageOrigin::Recognized(Box::new(recognition));
}

// A line of `page` at the same place of `read`, which may be turned another way.
fn as_read(line: &Line, page: &Page, read: &Page) -> Line {
    let mut moved = line.clone();
    moved.rect = read.as_read(page.displayed(line.rect));
    for word in &mut moved.words {
        let mut rect = line.rect;
        rect.x0 = word.x0;
        rect.x1 = word.x1;
        let rect = read.as_read(page.displayed(rect));
        word.x0 = rect.x0;
        word.x1 = rect.x1;
    }
    if read.turn != page.turn {
        moved.role = LineRole::Across;
    }
    moved
}

// Whether the middle of `line` lies within `stated`, and most of its width.
fn covers(stated: &Line, line: &Line) -> bool {
    let middle = f32::midpoint(line.rect.y0.points(), line.rect.y1.points());
    let within = stated.rect.y0.points() <= middle && middle <= stated.rect.y1.points();
    let left = line.rect.x0.points().max(stated.rect.x0.points());
    let right = line.rect.x1.points().min(stated.rect.x1.points());
    within && right - left > 0.5 * line.rect.width()
}

#[cfg(test)]
mod tests;
