//! Protocol between the pool and its children: length-prefixed frames over pipes, integers little-endian.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::sync::Mutex;

use serde::{Deserialize, Serialize};

use crate::{ExtractError, ImageRequest, Limits, RecognizeRequest};

const MAX_HEAD_BYTES: u32 = 1 << 20;
const MAX_REASON_CHARS: usize = 1_000;
pub(crate) const DONE: u8 = 1;
pub(crate) const FAILED: u8 = 2;

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub enum Task {
    #[default]
    Text,
    /// Read its text. That a PDF consists of pictures is not an error: text recognition may read them.
    TextAndPictures,
    /// Draw one of its pages.
    Image(ImageRequest),
    /// Recognize the text of one of its pages.
    Recognize(RecognizeRequest),
}

/// A document to extract, or to draw a page of.
#[derive(Clone)]
pub struct ExtractJob {
    /// File name; only the extension matters.
    pub name: String,
    pub bytes: Vec<u8>,
    /// The bytes of a second file that the caller reads with the document, or why they cannot be read.
    pub companion: Option<Result<Vec<u8>, String>>,
    /// Password of an encrypted PDF.
    pub password: Option<String>,
    pub limits: Limits,
    /// Maximum number of threads, at least 1; never affects the result. [`crate::Pool`] sets it according to its load.
    pub threads: usize,
    /// Read the document while the pool reads no other: an earlier attempt may have been killed for what others used.
    pub alone: bool,
    pub task: Task,
}

impl ExtractJob {
    /// A job that reads text with one thread.
    pub fn new(name: String, bytes: Vec<u8>, password: Option<String>, limits: Limits) -> Self {
        Self {
            name,
            bytes,
            companion: None,
            password,
            limits,
            threads: 1,
            alone: false,
            task: Task::Text,
        }
    }
}

impl std::fmt::Debug for ExtractJob {
    // Omits content and password, which must not reach logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Job({:?}, {} bytes)", self.name, self.bytes.len())
    }
}

/// Process limits, sent to a child before its first job.
pub(crate) struct Handshake {
    pub(crate) memory_bytes: u64,
    /// Over the lifetime of the child.
    pub(crate) cpu_seconds: u64,
}

impl Handshake {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        [
            self.memory_bytes.to_le_bytes(),
            self.cpu_seconds.to_le_bytes(),
        ]
        .concat()
    }

    /// `None` at the end of the input.
    pub(crate) fn read(input: &mut impl Read) -> io::Result<Option<Self>> {
        let Some(memory) = read_or_eof::<8>(input)? else {
            return Ok(None);
        };
        let mut cpu = [0; 8];
        input.read_exact(&mut cpu)?;
        Ok(Some(Self {
            memory_bytes: u64::from_le_bytes(memory),
            cpu_seconds: u64::from_le_bytes(cpu),
        }))
    }
}

#[derive(Serialize, Deserialize)]
struct JobHeader {
    name: String,
    // Length, or why it cannot be read.
    companion: Option<Result<u64, String>>,
    password: Option<String>,
    limits: Limits,
    threads: u32,
    task: Task,
}

/// Encodes the header of a request, with the companion. The document's bytes follow it.
pub(crate) fn encode_job_header(job: &ExtractJob) -> io::Result<Vec<u8>> {
    let threads = u32::try_from(job.threads).unwrap_or(u32::MAX);
    let companion = job.companion.as_ref().map(|companion| {
        companion
            .as_ref()
            .map(|bytes| bytes.len() as u64)
            .map_err(|reason| reason.chars().take(MAX_REASON_CHARS).collect())
    });
    let head = JobHeader {
        name: job.name.clone(),
        companion,
        password: job.password.clone(),
        limits: job.limits.clone(),
        threads,
        task: job.task.clone(),
    };
    let head = postcard::to_stdvec(&head).map_err(io::Error::other)?;
    let size = u32::try_from(head.len())
        .ok()
        .filter(|size| *size <= MAX_HEAD_BYTES);
    let size = size.ok_or_else(|| io::Error::other("the document's name is too long"))?;
    let companion = match &job.companion {
        Some(Ok(bytes)) => bytes.as_slice(),
        Some(Err(_)) | None => &[],
    };
    Ok([
        &size.to_le_bytes()[..],
        &head,
        companion,
        &(job.bytes.len() as u64).to_le_bytes(),
    ]
    .concat())
}

/// Reads the next request; `None` if the parent closed the pipe.
pub(crate) fn read_job(input: &mut impl Read) -> io::Result<Option<ExtractJob>> {
    let Some(size) = read_or_eof::<4>(input)? else {
        return Ok(None);
    };
    let head = read_bytes(
        input,
        u64::from(u32::from_le_bytes(size).min(MAX_HEAD_BYTES)),
    )?;
    let head: JobHeader = postcard::from_bytes(&head).map_err(io::Error::other)?;
    let companion = match head.companion {
        Some(Ok(size)) => Some(Ok(read_bytes(input, size)?)),
        Some(Err(reason)) => Some(Err(reason)),
        None => None,
    };
    let mut size = [0; 8];
    input.read_exact(&mut size)?;
    let bytes = read_bytes(input, u64::from_le_bytes(size))?;
    let threads = head.threads as usize;
    Ok(Some(ExtractJob {
        name: head.name,
        bytes,
        companion,
        password: head.password,
        limits: head.limits,
        threads,
        alone: false,
        task: head.task,
    }))
}

fn read_bytes(input: &mut impl Read, size: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    bytes
        .try_reserve_exact(usize::try_from(size).map_err(io::Error::other)?)
        .map_err(io::Error::other)?;
    input.take(size).read_to_end(&mut bytes)?;
    if bytes.len() as u64 == size {
        Ok(bytes)
    } else {
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}

fn read_or_eof<const N: usize>(input: &mut impl Read) -> io::Result<Option<[u8; N]>> {
    let mut bytes = [0; N];
    match input.read(&mut bytes[..1])? {
        0 => Ok(None),
        _ => input.read_exact(&mut bytes[1..]).map(|()| Some(bytes)),
    }
}

/// Writes a reply: tag, length, and the encoded source or image, or the error.
pub(crate) fn write_reply(
    output: &mut impl Write,
    reply: &Result<Vec<u8>, ExtractError>,
) -> io::Result<()> {
    let error;
    let (tag, body) = match reply {
        Ok(packed) => (DONE, packed),
        Err(e) => {
            let message: String = e.message.chars().take(1_000).collect();
            error = postcard::to_stdvec(&(e.code, message, e.next)).map_err(io::Error::other)?;
            (FAILED, &error)
        }
    };
    output.write_all(&[tag])?;
    output.write_all(&(body.len() as u64).to_le_bytes())?;
    output.write_all(body)
}

/// Decodes the body of a [`FAILED`] reply; `None` if it is invalid.
pub(crate) fn read_error(body: &[u8]) -> Option<ExtractError> {
    let (code, message, next): (String, String, String) = postcard::from_bytes(body).ok()?;
    Some(ExtractError {
        code: intern(code)?,
        message,
        next: intern(next)?,
    })
}

pub(crate) fn crash_error(what: impl Into<String>) -> ExtractError {
    ExtractError::new(
        "extract.crashed",
        what,
        "report the document: no document should be able to cause this",
    )
}

// Codes and next steps are `&'static str`, but arrive over a pipe. The program has a few dozen of them, so each
// distinct one is leaked once. The bound stops a corrupted child from leaking memory.
fn intern(text: String) -> Option<&'static str> {
    const MAX_TEXTS: usize = 512;
    const MAX_TEXT_BYTES: usize = 500;
    static KNOWN: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut interned = KNOWN
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(same) = interned.get(text.as_str()) {
        return Some(same);
    }
    (interned.len() < MAX_TEXTS && text.len() <= MAX_TEXT_BYTES).then(|| {
        let leaked: &'static str = text.leak();
        interned.insert(leaked);
        leaked
    })
}

#[cfg(test)]
mod tests {
    use stemma_document::PageNo;

    use super::*;

    #[test]
    fn jobs_and_errors_round_trip() {
        let image = ImageRequest::for_page(PageNo::FIRST, 1_000);
        let job = ExtractJob {
            task: Task::Image(image),
            companion: Some(Ok(vec![7; 3])),
            ..ExtractJob::new(
                "年.md".into(),
                vec![0, 255],
                Some("x".into()),
                Limits::default(),
            )
        };
        let bytes = [encode_job_header(&job).unwrap(), job.bytes.clone()].concat();
        let read = read_job(&mut bytes.as_slice()).unwrap().unwrap();
        assert_eq!(
            (read.name, read.bytes, read.password, read.limits, read.task),
            (job.name, job.bytes, job.password, job.limits, job.task)
        );
        assert_eq!(read.companion, job.companion);
        assert!(read_job(&mut [].as_slice()).unwrap().is_none());
        for companion in [None, Some(Err("it is gone".to_owned()))] {
            let job = ExtractJob {
                companion: companion.clone(),
                ..ExtractJob::new("a".into(), vec![1], None, Limits::default())
            };
            let bytes = [encode_job_header(&job).unwrap(), job.bytes.clone()].concat();
            let read = read_job(&mut bytes.as_slice()).unwrap().unwrap();
            assert_eq!((read.companion, read.bytes), (companion, job.bytes));
        }
        assert!(read_job(&mut &bytes[..bytes.len() - 1]).is_err());
        let error = ExtractError::new("a.b", "c", "d");
        let mut reply = Vec::new();
        write_reply(&mut reply, &Err(error.clone())).unwrap();
        assert_eq!(read_error(&reply[9..]), Some(error));
        assert_eq!(read_error(b"\xFF\xFF"), None);
    }
}
