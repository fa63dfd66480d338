//! The child processes that read, recognize and draw documents: this binary with a hidden subcommand.

use stemma_extract::{ExtractError, ExtractJob, Pool, PoolSettings, Task};

use crate::config::LocalConfig;

/// The hidden subcommand that turns this binary into an extraction child.
pub const EXTRACT_CHILD: &str = "extract-child";

/// What an extraction child does with a document.
pub fn run_task(job: ExtractJob) -> Result<Vec<u8>, ExtractError> {
    match job.task {
        Task::Text | Task::TextAndPictures => stemma_pipeline::stages::extract_document(job),
        Task::Image(request) => stemma_render::draw_png(&job, &request),
        Task::Recognize(ref request) => stemma_ocr::read_page(&job, request),
    }
}

/// The children that read documents.
pub fn extraction_pool(local: &LocalConfig) -> std::io::Result<Pool> {
    child_settings(local).map(Pool::new)
}

/// The settings of children that read or draw documents.
pub fn child_settings(local: &LocalConfig) -> std::io::Result<PoolSettings> {
    let command = vec![
        std::env::current_exe()?.into_os_string(),
        EXTRACT_CHILD.into(),
    ];
    Ok(PoolSettings {
        size: usize::from(local.concurrency()),
        recycle_after_documents: local.recycle_after_documents,
        recycle_above_bytes: local.recycle_above_bytes,
        memory_limit_bytes: local.memory_limit_bytes,
        max_reply_bytes: local.max_reply_bytes,
        ..PoolSettings::new(command)
    })
}
