//! The newest jobs of a collection, page by page.

use std::collections::BTreeMap;

use futures::stream::{self, StreamExt, TryStreamExt};
use serde::Serialize;
use stemma_engine::heartbeat::JobProgress;
use stemma_engine::jobs::NewestJobs;
use stemma_store::{JobId, PortResult};

use crate::recent::ENTRY_BYTES;
use crate::{JobStatus, Operations};

// Jobs that are counted by state: more would have to be read for each page.
const JOBS_COUNTED: usize = 200;
// Jobs of all collections and states that are looked at for one page.
const MAX_JOBS_READ: usize = 1_000;
const CONCURRENT_READS: usize = 32;

/// Which jobs to list.
#[derive(Debug, Clone, Default)]
pub struct JobListRequest {
    /// Only jobs in this state; see [`JobStatus::state`].
    pub state: Option<String>,
    /// The last job of the previous page.
    pub after: Option<JobId>,
    pub limit: usize,
    /// Also jobs whose collection is unknown, because their manifests cannot be read.
    pub all: bool,
}

/// A page of jobs, newest first.
#[derive(Debug, Clone, Serialize)]
pub struct JobList {
    pub items: Vec<JobStatus>,
    /// How many of the newest jobs are in each state; empty after the first page.
    pub states: BTreeMap<&'static str, u64>,
    /// Number of jobs that were counted: all, or the newest 200.
    pub counted: u64,
    /// Whether older jobs were not counted.
    pub has_more: bool,
    /// The parameter `cursor` of the next page; `null` on the last.
    pub next_cursor: Option<JobId>,
}

impl Operations {
    /// Lists jobs; `live` holds the latest reports of coordinators.
    pub async fn list_jobs(
        &self,
        request: &JobListRequest,
        live: &[JobProgress],
    ) -> PortResult<JobList> {
        let is_first = request.after.is_none();
        let mut newest = NewestJobs::new(self.ports.env.now_ms());
        if let Some(after) = &request.after {
            newest = newest.before(after);
        }
        let mut list = JobList {
            items: Vec::new(),
            states: BTreeMap::new(),
            counted: 0,
            has_more: false,
            next_cursor: None,
        };
        let mut read = 0;
        let mut last_read = None;
        while let Some(ids) = newest.next_page(self.blobs()).await? {
            let statuses = stream::iter(ids)
                .map(|job| async {
                    let status = self.status_of(&job, live, request.all).await?;
                    Ok::<_, stemma_store::PortError>((job, status))
                })
                .buffered(CONCURRENT_READS);
            let mut statuses = std::pin::pin!(statuses);
            while let Some((job, status)) = statuses.try_next().await? {
                read += 1;
                let is_full = list.items.len() == request.limit;
                let is_counting = is_first && list.counted < JOBS_COUNTED as u64;
                if is_full && list.next_cursor.is_none() && status.is_some() {
                    list.next_cursor = list.items.last().map(|last| last.job.clone());
                }
                if (is_full && !is_counting && list.next_cursor.is_some()) || read > MAX_JOBS_READ {
                    list.has_more = true;
                    // The next page begins behind its cursor.
                    list.next_cursor = list.next_cursor.or(last_read);
                    return Ok(list);
                }
                last_read = Some(job);
                let Some(status) = status else {
                    continue;
                };
                if is_counting {
                    list.counted += 1;
                    *list.states.entry(status.state).or_default() += 1;
                }
                if !is_full
                    && request
                        .state
                        .as_ref()
                        .is_none_or(|state| *state == status.state)
                {
                    list.items.push(status);
                }
            }
        }
        Ok(list)
    }

    /// The states of the first `limit` of these jobs that belong to the collection, or whose manifests cannot be read, in the
    /// same order.
    pub async fn job_statuses(
        &self,
        jobs: &[JobId],
        limit: usize,
        live: &[JobProgress],
    ) -> PortResult<Vec<JobStatus>> {
        let reads: Vec<_> = jobs
            .iter()
            .map(|job| self.status_of(job, live, true))
            .collect();
        stream::iter(reads)
            .buffered(CONCURRENT_READS)
            .try_filter_map(async |status| Ok(status))
            .take(limit)
            .try_collect()
            .await
    }

    // `None` for jobs of other collections, for one that is being submitted, and unless `all` is set for one whose manifest
    // cannot be read. What has ended stays as it is. One damaged object hides no other job.
    async fn status_of(
        &self,
        job: &JobId,
        live: &[JobProgress],
        all: bool,
    ) -> PortResult<Option<JobStatus>> {
        let own = self.collection().as_str();
        let now_ms = self.ports.env.now_ms();
        let ended_jobs = &self.recent.ended_jobs;
        if let Some((collection, status)) = ended_jobs.get(job, now_ms) {
            return Ok((collection == own).then_some(status));
        }
        let unreadable = || JobStatus::unreadable(job, self.ports.env.now_ms());
        let manifest = match self.find(&job.0).await {
            Ok(Some(manifest)) => manifest,
            Ok(None) => return Ok(None),
            Err(error) if error.is_permanent() => return Ok(all.then(unreadable)),
            Err(error) => return Err(error),
        };
        let status = match self.job_status(&manifest, live).await {
            Err(error) if error.is_permanent() => return Ok(Some(unreadable())),
            status => status?,
        };
        if status.has_ended() {
            let known = (manifest.collection, status.clone());
            ended_jobs.put(job.clone(), known, ENTRY_BYTES, now_ms);
        }
        Ok(Some(status))
    }
}
