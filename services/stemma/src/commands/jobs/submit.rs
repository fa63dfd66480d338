//! `stemma submit`: submits documents as a job.

use std::path::PathBuf;
use std::sync::Arc;

use futures::stream::{self, StreamExt};
use stemma_adapters::s3::{BucketReader, S3};
use stemma_document::{Collection, Digest};
use stemma_edgar::{FilingSelection, FilterMismatch, FolderPlan};
use stemma_engine::Ports;
use stemma_engine::flow::{JobManifest, JobOptions};
use stemma_engine::jobs::{JobStart, JobWriter, NameTaken};
use stemma_engine::objects::{ObjectLookup, ObjectMeta};
use stemma_pipeline::Submission;
use stemma_pipeline::filing_folders::{HEADER_BYTES, ListedFiles, group_folders, summarize_file};
use stemma_pipeline::sources::SourceWriter;
use stemma_roles::coordinator::{SubmitRequest, start_job};
use stemma_store::{PortResult, Priority, Retrying};

use super::runner::JobRunner;
use crate::config::Config;
use crate::context::Context;
use crate::discover::{find_files, nothing_found};
use crate::error::{CommandError, Exit};
use crate::filings::{FilingCounts, SelectArgs, store_labels};
use crate::input_file::{InputFile, read_apart};
use crate::output::clean;
use crate::submit_options::{SubmitOptions, label};

// Files read and stored at once.
const FILES_AT_ONCE: usize = 4;
// Mirrored folders of a bucket whose index files are read at once: two or three small objects each.
const FOLDERS_AT_ONCE: usize = 16;
// Documents between two progress notes.
const PROGRESS_EVERY: u64 = 10_000;

/// Submit files, folders or a bucket's objects as a job.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Local files are copied to the store first, so that workers on other machines can read them;
objects stay where they are. With --job NAME the command can be repeated: it creates only one
job. A name that belongs to other documents or a cancelled job is an error. Without a cluster,
this process does the work.

Exit codes with --wait: 0 done, 3 some documents failed, 4 stopped or cancelled, 130 interrupted
(the job continues).

Examples:
  stemma submit filings/ --wait
  stemma submit s3://filings/2026/ --job nightly-2026-11-21 --max-failed 2%
  find /archive -name '*.pdf' | stemma submit -")]
pub struct SubmitArgs {
    /// Files, folders, patterns, or `s3://BUCKET/PREFIX`; `-` reads a list of paths from standard input.
    #[arg(required = true, value_name = "PATH|s3://…|-")]
    pub sources: Vec<PathBuf>,
    #[command(flatten)]
    pub select: SelectArgs,
    /// Wait until the job ends.
    #[arg(long)]
    pub wait: bool,
    /// Unique name for the job, of letters, digits, `-`, `_` and `.`.
    #[arg(long, value_name = "NAME", value_parser = job_name)]
    pub job: Option<String>,
    #[command(flatten)]
    pub options: SubmitOptions,
    /// High priority: run before bulk jobs.
    #[arg(long, conflicts_with = "batch")]
    pub interactive: bool,
    /// Retry documents that failed, or for which the model gave no answer.
    #[arg(long)]
    pub rerun_failed: bool,
}

fn job_name(text: &str) -> Result<String, String> {
    let sound = (1..=100).contains(&text.len())
        && text
            .bytes()
            .all(|b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
        && !text.starts_with('.');
    if sound {
        Ok(text.into())
    } else {
        Err("use at most 100 letters, digits, `-`, `_` and `.`".into())
    }
}

pub async fn run(args: SubmitArgs, context: &Context) -> Result<Exit, CommandError> {
    let (config, settings) = args.options.settings(context)?;
    let runner = JobRunner::open(context, &config, "submit").await?;
    let order = SubmitRequest {
        collection: &context.collection,
        settings: &settings,
        priority: match args.interactive {
            true => Priority::Interactive,
            false => Priority::Bulk,
        },
        options: JobOptions {
            name: args.job.clone(),
            ..args.options.job_options(label(&args.sources))
        },
    };
    let submitted = match start_job(&runner.operations.ports, order).await {
        Err(error) => Err(error.into()),
        Ok(JobStart::Existing(manifest)) => {
            context
                .output
                .note(&format!("already submitted as {}", manifest.job));
            Ok((manifest, 0))
        }
        Ok(JobStart::NameTaken(taken)) => Err(name_error(&taken)),
        Ok(JobStart::New(submitting)) => {
            submit_all(submitting, &args, &config, context, &runner).await
        }
    };
    let (manifest, unread) = match submitted {
        Ok(submitted) => submitted,
        Err(error) => {
            runner.close().await;
            return Err(error);
        }
    };
    Ok(
        match runner
            .follow_or_detach(context, &manifest, args.wait)
            .await?
        {
            Exit::Done if unread > 0 => Exit::SomeFailed,
            exit => exit,
        },
    )
}

fn name_error(taken: &NameTaken) -> CommandError {
    let next = match taken {
        NameTaken::OtherDocuments { .. } => "choose another name with --job".into(),
        NameTaken::Cancelled { .. } => {
            "choose another name with --job; finished work is reused".into()
        }
        NameTaken::Stopped { job, .. } => format!(
            "see `stemma failures {job} --by reason`, then choose another name with --job; finished work is reused"
        ),
    };
    CommandError::new("job.name_taken", taken.to_string()).with_next(next)
}

// Pushes everything that is found; returns the manifest, and how many files could not be read.
async fn submit_all(
    submitting: JobWriter,
    args: &SubmitArgs,
    config: &Config,
    context: &Context,
    runner: &JobRunner,
) -> Result<(JobManifest, u64), CommandError> {
    let (objects, paths): (Vec<PathBuf>, Vec<PathBuf>) =
        args.sources.iter().cloned().partition(|source| {
            source
                .to_str()
                .is_some_and(|text| text.starts_with("s3://"))
        });
    let mut push = Submitter {
        ports: &runner.operations.ports,
        collection: &context.collection,
        upload: runner.is_cluster(),
        max_bytes: config.settings.limits.max_bytes,
        retry_failed: args.rerun_failed,
        submitting,
        unread: 0,
        select: &args.select,
        filings: FilingCounts::default(),
        links: 0,
        context,
        runner,
    };
    for source in objects {
        push.objects(&source.to_string_lossy(), config).await?;
    }
    if !paths.is_empty() {
        push.files(&paths).await?;
    }
    if let Some(line) = push.filings.line() {
        context.output.note(&line);
    }
    if push.submitting.entries() == 0 {
        return Err(nothing_found(&push.filings, push.links));
    }
    let manifest = push.submitting.finish(push.ports).await?;
    Ok((manifest, push.unread))
}

// A submission while it is filled.
struct Submitter<'a> {
    ports: &'a Ports,
    collection: &'a Collection,
    // Whether workers run elsewhere, and need the bytes in the store.
    upload: bool,
    max_bytes: u64,
    retry_failed: bool,
    submitting: JobWriter,
    unread: u64,
    select: &'a SelectArgs,
    filings: FilingCounts,
    // Links out of folders, which are not followed.
    links: usize,
    context: &'a Context,
    runner: &'a JobRunner,
}

impl Submitter<'_> {
    async fn push(&mut self, submission: Submission) -> Result<(), CommandError> {
        let submission = Submission {
            retry_failed: self.retry_failed,
            ..submission
        };
        let entry = submission.job_entry()?;
        self.submitting.push(&self.ports.blobs, entry).await?;
        let submitted = self.submitting.entries();
        if submitted.is_multiple_of(PROGRESS_EVERY) {
            let output = &self.context.output;
            output.note(&format!("{submitted} documents submitted so far"));
        }
        if self.runner.stop.is_cancelled() {
            let message = "interrupted: no job was submitted";
            return Err(CommandError::new("submit.interrupted", message)
                .with_next("run the same command again; stored files are not uploaded again"));
        }
        Ok(())
    }

    async fn objects(&mut self, source: &str, config: &Config) -> Result<(), CommandError> {
        let rest = source.trim_start_matches("s3://");
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let objects = BucketReader::new(S3::connect(&config.servers.s3.settings()).await?);
        let source = BucketSource {
            lookup: Retrying::new(&self.ports.env, Arc::new(objects.clone())),
            bucket,
            below: prefix.rsplit_once('/').map_or("", |(folder, _)| folder),
            selection: self.select.selection(),
        };
        let env = self.ports.env.clone();
        let listing = objects.list(&env, bucket, prefix, None);
        let decisions = group_folders(listing, prefix).map(|files| source.decide(files));
        let mut decisions = Box::pin(decisions.buffered(FOLDERS_AT_ONCE));
        while let Some(decision) = decisions.next().await {
            match decision? {
                BucketDecision::Filtered(reason) => self.filings.filter(reason),
                BucketDecision::Chosen(submissions, plan) => {
                    if let Some(plan) = plan {
                        self.filings.count(&plan);
                    }
                    for submission in submissions {
                        self.push(submission).await?;
                    }
                }
            }
        }
        Ok(())
    }

    async fn files(&mut self, paths: &[PathBuf]) -> Result<(), CommandError> {
        let output = &self.context.output;
        let discovery = find_files(paths, self.select, self.context)?;
        self.filings.add(&discovery.filings);
        self.links += discovery.links_out();
        for (path, why) in &discovery.skipped {
            let path = clean(&path.display().to_string());
            output.note(&format!("skipped {path}: {why}"));
        }
        for missing in &discovery.missing {
            self.unread += 1;
            output.error(&clean(&missing.to_string()));
        }
        let has_labels = discovery.files.iter().any(|file| file.labels.is_some());
        let upload = self.upload;
        let max_bytes = self.max_bytes;
        let writer = match upload || has_labels {
            true => Some(SourceWriter::start(&self.ports.blobs, self.collection).await?),
            false => None,
        };
        let files = stream::iter(discovery.files).map(|input| {
            let writer = writer.clone();
            async move {
                let labels = match input.labels.clone().zip(writer.as_ref()) {
                    Some((labels, writer)) => Some(store_labels(labels, max_bytes, writer).await),
                    None => None,
                };
                let writer = writer.filter(|_| upload);
                let file = read_submission(&input, max_bytes, writer).await;
                (input.relative_path, file, labels.transpose())
            }
        });
        let mut files = Box::pin(files.buffered(FILES_AT_ONCE));
        while let Some((path, file, labels)) = files.next().await {
            let labels = labels?.transpose().unwrap_or_else(|error| {
                let path = clean(&path);
                output.error(&format!("cannot read the labels of {path}: {error}"));
                None
            });
            match file? {
                Ok(submission) => {
                    self.push(Submission {
                        labels,
                        ..submission
                    })
                    .await?;
                }
                Err(error) => {
                    self.unread += 1;
                    output.error(&format!("cannot read {}: {error}", clean(&path)));
                }
            }
        }
        Ok(())
    }
}

// Objects of a bucket below a prefix.
struct BucketSource<'a> {
    lookup: Retrying<dyn ObjectLookup>,
    bucket: &'a str,
    // The folder that paths start at.
    below: &'a str,
    selection: FilingSelection,
}

enum BucketDecision {
    // With what else was found, for a folder.
    Chosen(Vec<Submission>, Option<FolderPlan>),
    Filtered(FilterMismatch),
}

impl BucketSource<'_> {
    async fn decide(&self, files: PortResult<ListedFiles>) -> PortResult<BucketDecision> {
        match files? {
            ListedFiles::Document(object) => {
                if let Some(reason) = self.mismatch(&object).await? {
                    return Ok(BucketDecision::Filtered(reason));
                }
                let submission = Submission::from_object(self.bucket, self.below, &object);
                Ok(BucketDecision::Chosen(vec![submission], None))
            }
            ListedFiles::Folder(folder) => {
                let plan = folder.plan(&self.lookup, self.bucket).await?;
                if let Some(reason) = plan.mismatch(&self.selection) {
                    return Ok(BucketDecision::Filtered(reason));
                }
                let documents = plan.documents().map(|document| {
                    Submission::from_object(self.bucket, self.below, document.object)
                        .with_filing(document)
                });
                Ok(BucketDecision::Chosen(documents.collect(), Some(plan.plan)))
            }
        }
    }

    // Whether the filters choose a document outside of mirrored folders.
    async fn mismatch(&self, object: &ObjectMeta) -> PortResult<Option<FilterMismatch>> {
        if self.selection.is_empty() {
            return Ok(None);
        }
        let head = self
            .lookup
            .read_start(self.bucket, &object.key, HEADER_BYTES)
            .await?;
        Ok(self.selection.mismatch(&summarize_file(&object.key, &head)))
    }
}

// Reads a file once, for its digest and, with a writer, to copy it to the store. The inner error is a file that cannot be read.
async fn read_submission(
    input: &InputFile,
    max_bytes: u64,
    writer: Option<SourceWriter>,
) -> Result<std::io::Result<Submission>, CommandError> {
    let bytes = match read_apart(input.absolute_path.clone(), max_bytes).await? {
        Ok(bytes) => bytes,
        Err(error) => return Ok(Err(error)),
    };
    let source = Digest::from_content(&bytes);
    let size_bytes = bytes.len() as u64;
    if let Some(writer) = writer {
        writer.store(source, bytes).await?;
    }
    Ok(Ok(input.submission(source, size_bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn job_names_are_validated() {
        for name in ["nightly-2026-11-21", "a", "X_1.2"] {
            assert!(job_name(name).is_ok(), "{name}");
        }
        for name in ["", "a/b", "..", ".hidden", "ä", "a b", &"x".repeat(101)] {
            assert!(job_name(name).is_err(), "{name}");
        }
    }
}
