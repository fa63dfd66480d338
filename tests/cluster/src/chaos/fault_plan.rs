//! The faults and their order, which depend on the seed alone.

use std::time::Duration;

use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ChaosFault {
    /// `kill -9` of a worker; another one takes its place.
    KillWorker,
    /// `kill -9` of a coordinator; another one takes its place.
    KillCoordinator,
    /// `kill -9` of an assembler; another one takes its place.
    KillAssembler,
    /// `kill -9` of RabbitMQ, which starts again with its data.
    RestartBroker,
    /// All connections to RabbitMQ reset at once.
    CutConnections,
    /// `FLUSHALL`: deletes all data in Redis.
    FlushRedis,
    /// `kill -9` of Redis, which starts again empty.
    RestartRedis,
    /// A share of requests to S3 answered 503 for a while.
    RefuseS3,
    /// A share of requests to S3 slowed for a while.
    SlowS3,
    /// A share of requests to S3 reset in mid-body for a while.
    ResetS3,
    /// RabbitMQ and Redis are replaced by empty ones, so only S3 keeps data.
    LoseAllButS3,
    /// `kill -9` of an `ingest` that does everything in one process; it is run again.
    KillIngest,
    /// A worker and its children stopped (SIGSTOP) for longer than a lease, as in a suspended VM.
    FreezeWorker,
    /// A coordinator stopped for longer than a lease.
    FreezeCoordinator,
    /// Every worker stopped at once, for longer than a document may take to be read.
    FreezeAllWorkers,
    /// All requests to S3 answered 503 for a minute.
    RefuseS3ForMinute,
    /// All requests to S3 delayed by half a second for a minute.
    SlowS3ForMinute,
    /// Connections to Redis stay open, and nothing passes.
    PauseRedis,
    /// Requests reach Redis, and no reply comes back.
    DropRedisReplies,
    /// Redis refuses the password of new connections.
    ChangeRedisPassword,
    /// Requests reach S3, and no reply comes back.
    DropS3Replies,
    /// Requests reach RabbitMQ, and no reply comes back.
    DropBrokerReplies,
    /// All requests to S3 answered 403, as while a policy is changed.
    DenyS3,
    /// RabbitMQ refuses the password of new connections.
    ChangeBrokerPassword,
    /// The provider answers most requests with 429.
    ThrottleProvider,
    /// RabbitMQ blocks publishers: its memory alarm is raised.
    BlockPublishers,
    /// RabbitMQ blocks publishers: its disk alarm is raised.
    FillBrokerDisk,
    /// Connections to RabbitMQ stay open, and nothing passes: longer than its heartbeats wait.
    PauseBroker,
    /// Connections to RabbitMQ are half open: both peers are gone for each other, without a FIN. New ones work.
    AbandonBroker,
    /// Connections to Redis are half open.
    AbandonRedis,
    /// The provider answers most requests with errors.
    FailProvider,
    /// The budget of the job is reached, which pauses it, until it gets a larger one.
    ExhaustBudget,
    /// No fault: documents of another collection are imported and removed during the job, and garbage is collected.
    Housekeeping,
}

/// How long a stopped member stays stopped: longer than a lease with its grace.
const FREEZE_PERIOD: Duration = Duration::from_secs(45);
/// The same for all workers at once: longer than two leases, as in the finding that documents failed after 71 s.
const FREEZE_ALL_PERIOD: Duration = Duration::from_secs(71);

impl ChaosFault {
    /// Every kind that applies to a cluster.
    pub const CLUSTER: &[Self] = &[
        Self::KillWorker,
        Self::KillCoordinator,
        Self::KillAssembler,
        Self::RestartBroker,
        Self::CutConnections,
        Self::FlushRedis,
        Self::RestartRedis,
        Self::RefuseS3,
        Self::SlowS3,
        Self::ResetS3,
    ];
    /// Faults that only S3 survives.
    pub const LOSS: &[Self] = &[Self::LoseAllButS3];
    /// Faults that last for longer than retries within one call.
    pub const LASTING: &[Self] = &[
        Self::FreezeWorker,
        Self::FreezeCoordinator,
        Self::FreezeAllWorkers,
        Self::RefuseS3ForMinute,
        Self::SlowS3ForMinute,
        Self::PauseRedis,
        Self::DropRedisReplies,
        Self::DropS3Replies,
        Self::DropBrokerReplies,
        Self::ChangeRedisPassword,
        Self::ChangeBrokerPassword,
        Self::DenyS3,
        Self::ThrottleProvider,
        Self::BlockPublishers,
        Self::FillBrokerDisk,
        Self::PauseBroker,
        Self::AbandonBroker,
        Self::AbandonRedis,
        Self::FailProvider,
        Self::ExhaustBudget,
        Self::Housekeeping,
    ];
    /// Every kind that applies to embedded mode.
    pub const EMBEDDED: &[Self] = &[Self::KillIngest];

    /// Name in the report.
    pub fn name(self) -> &'static str {
        match self {
            Self::KillWorker => "kill -9 of a worker",
            Self::KillCoordinator => "kill -9 of a coordinator",
            Self::KillAssembler => "kill -9 of an assembler",
            Self::RestartBroker => "broker killed and restarted",
            Self::CutConnections => "broker connections cut",
            Self::FlushRedis => "Redis FLUSHALL",
            Self::RestartRedis => "Redis killed and restarted",
            Self::RefuseS3 => "S3 answers 503",
            Self::SlowS3 => "S3 slow",
            Self::ResetS3 => "S3 resets in mid-body",
            Self::LoseAllButS3 => "everything but S3 lost",
            Self::KillIngest => "kill -9 of an ingest",
            Self::FreezeWorker => "worker frozen for 45 s",
            Self::FreezeCoordinator => "coordinator frozen for 45 s",
            Self::FreezeAllWorkers => "all workers frozen for 71 s",
            Self::RefuseS3ForMinute => "S3 answers 503 for 60 s",
            Self::SlowS3ForMinute => "S3 delayed 500 ms for 60 s",
            Self::PauseRedis => "Redis silent for 20 s",
            Self::DropRedisReplies => "Redis replies lost for 20 s",
            Self::DropS3Replies => "S3 replies lost for 20 s",
            Self::DropBrokerReplies => "broker replies lost for 20 s",
            Self::ChangeRedisPassword => "Redis password wrong for 30 s",
            Self::ChangeBrokerPassword => "broker password wrong for 30 s",
            Self::DenyS3 => "S3 answers 403 for 30 s",
            Self::ThrottleProvider => "provider answers 429 for 20 s",
            Self::BlockPublishers => "broker memory alarm for 30 s",
            Self::FillBrokerDisk => "broker disk alarm for 30 s",
            Self::PauseBroker => "broker silent for 45 s",
            Self::AbandonBroker => "broker connections half open",
            Self::AbandonRedis => "Redis connections half open",
            Self::FailProvider => "provider fails for 20 s",
            Self::ExhaustBudget => "budget reached for 20 s",
            Self::Housekeeping => "rm, import and gc of another collection",
        }
    }

    /// How long the fault lasts; zero for what is done at once.
    pub fn period(self) -> Duration {
        match self {
            Self::KillWorker
            | Self::KillCoordinator
            | Self::KillAssembler
            | Self::RestartBroker
            | Self::CutConnections
            | Self::AbandonBroker
            | Self::AbandonRedis
            | Self::FlushRedis
            | Self::RestartRedis
            | Self::LoseAllButS3
            | Self::KillIngest
            | Self::Housekeeping => Duration::ZERO,
            // Retries within one call outlast these.
            Self::RefuseS3 | Self::SlowS3 | Self::ResetS3 => Duration::from_secs(2),
            Self::FreezeWorker | Self::FreezeCoordinator | Self::PauseBroker => FREEZE_PERIOD,
            Self::FreezeAllWorkers => FREEZE_ALL_PERIOD,
            Self::RefuseS3ForMinute | Self::SlowS3ForMinute => Duration::from_secs(60),
            // Shorter than a lease, longer than the timeout of a call.
            Self::PauseRedis
            | Self::DropRedisReplies
            | Self::DropS3Replies
            | Self::DropBrokerReplies => Duration::from_secs(20),
            Self::ChangeRedisPassword
            | Self::ChangeBrokerPassword
            | Self::DenyS3
            | Self::BlockPublishers
            | Self::FillBrokerDisk => Duration::from_secs(30),
            // Shorter than the attempts of a call last together.
            Self::FailProvider | Self::ThrottleProvider => Duration::from_secs(20),
            // Longer than processes use the budget that they have read.
            Self::ExhaustBudget => Duration::from_secs(20),
        }
    }

    /// Whether the fault is so slow that it is injected only as often as required.
    fn is_slow(self) -> bool {
        self == Self::RestartBroker
    }
}

/// At least `total` faults of these kinds in random order, every kind at least `each` times.
pub fn fault_plan(kinds: &[ChaosFault], seed: u64, total: usize, each: usize) -> Vec<ChaosFault> {
    let mut dice = SmallRng::seed_from_u64(seed);
    let mut faults: Vec<_> = kinds
        .iter()
        .flat_map(|fault| std::iter::repeat_n(*fault, each))
        .collect();
    let cheap: Vec<_> = kinds
        .iter()
        .copied()
        .filter(|fault| !fault.is_slow())
        .collect();
    while faults.len() < total {
        faults.push(cheap[dice.random_range(0..cheap.len())]);
    }
    faults.shuffle(&mut dice);
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_seeded_and_contain_every_kind() {
        let faults = fault_plan(ChaosFault::CLUSTER, 1, 100, 5);
        assert_eq!(faults.len(), 100);
        for kind in ChaosFault::CLUSTER {
            assert!(
                faults.iter().filter(|fault| *fault == kind).count() >= 5,
                "{}",
                kind.name()
            );
        }
        assert_eq!(faults, fault_plan(ChaosFault::CLUSTER, 1, 100, 5));
        assert_ne!(faults, fault_plan(ChaosFault::CLUSTER, 2, 100, 5));
        assert_eq!(fault_plan(ChaosFault::CLUSTER, 1, 0, 2).len(), 20);
    }
}
