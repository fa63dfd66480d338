//! Pausing, resuming and cancelling jobs.

use serde::{Deserialize, Serialize};
use stemma_archive::ApiError;
use stemma_engine::jobs::{self, CancelReason, JobControl, PauseReason};
use stemma_store::spend::JobBudget;
use stemma_store::{JobId, PortResult, Priority};

use crate::{Operations, OperationsError};

/// What a person wants of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum ControlRequest {
    /// Start no new tasks; running tasks finish.
    Pause,
    Resume {
        /// The new budget; `None` keeps it.
        budget: Option<JobBudget>,
    },
    /// Whether documents that are not open yet go before documents of bulk jobs.
    Priority {
        #[serde(rename = "class")]
        priority: Priority,
    },
    /// End the job; what other jobs wait for goes on.
    Cancel,
}

impl Operations {
    /// Whether the job has its report.
    pub async fn has_ended(&self, job: &JobId) -> PortResult<bool> {
        Ok(jobs::report(self.blobs(), job).await?.is_some())
    }

    /// Acts on a job, and returns its state of control.
    ///
    /// # Errors
    /// [`OperationsError`]: `job.ended` when it has ended, or a server does not answer.
    pub async fn control_job(
        &self,
        job: &JobId,
        request: ControlRequest,
    ) -> Result<JobControl, OperationsError> {
        if self.has_ended(job).await? {
            let next = format!("stemma status {job}");
            return Err(ApiError::new("job.ended", format!("{job} has ended"), next).into());
        }
        let ports = &self.ports;
        match request {
            ControlRequest::Pause => jobs::pause(ports, job, PauseReason::Person).await?,
            ControlRequest::Resume { budget } => {
                if let Some(budget) = budget {
                    jobs::set_budget(ports, job, budget).await?;
                }
                jobs::resume(ports, job).await?;
            }
            ControlRequest::Priority { priority } => {
                jobs::prioritize(ports, job, priority).await?;
            }
            ControlRequest::Cancel => jobs::cancel(ports, job, CancelReason::Person).await?,
        }
        Ok(jobs::load_control(self.blobs(), job).await?)
    }
}
