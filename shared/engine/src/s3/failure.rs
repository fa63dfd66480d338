//! What S3 says when it does not do what it was asked, and what a [`PortError`] says of it.
//!
//! Texts of the server are never passed on: they quote access keys and signatures. Its codes are.

use std::error::Error;

use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};

use crate::port::PortError;

/// Longest message of a client library that is passed on, in characters.
const MAX_TOLD: usize = 300;
/// Longest code of a server that is passed on, in characters.
const MAX_CODE: usize = 60;

/// Codes that pass whatever their status is (S3 API reference, "List of error codes").
const PASSING_CODES: [&str; 9] = [
    "SlowDown",
    "InternalError",
    "ServiceUnavailable",
    "RequestTimeout",
    "OperationAborted",
    "ConditionalRequestConflict",
    "Throttling",
    "ExpiredToken",
    "TokenRefreshRequired",
];

/// Which call went wrong.
pub(crate) struct At<'a> {
    pub port: &'static str,
    pub operation: &'static str,
    pub bucket: &'a str,
    /// A key or prefix; empty for the bucket itself.
    pub key: &'a str,
}

/// Why there is no result.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The server refused.
    Answered { status: u16, code: String },
    /// There was no answer, or half of one: the call may have taken effect.
    Unanswered(String),
    /// The call could not be made at all.
    Unsent(String),
}

impl Trouble {
    pub(crate) fn of<E: ProvideErrorMetadata + Error + 'static>(error: &SdkError<E>) -> Self {
        match error {
            SdkError::ServiceError(answer) => {
                let code = answer
                    .err()
                    .code()
                    .unwrap_or_default()
                    .chars()
                    .filter(|c| !c.is_control())
                    .take(MAX_CODE);
                Self::Answered {
                    status: answer.raw().status().as_u16(),
                    code: code.collect(),
                }
            }
            SdkError::ConstructionFailure(_) => Self::Unsent(told(error)),
            SdkError::DispatchFailure(failure) if failure.is_user() => Self::Unsent(told(error)),
            _ => Self::Unanswered(told(error)),
        }
    }

    pub(crate) fn unanswered(error: &dyn Error) -> Self {
        Self::Unanswered(told(error))
    }

    /// The HTTP status; 0 without an answer.
    pub(crate) fn status(&self) -> u16 {
        if let Self::Answered { status, .. } = self {
            *status
        } else {
            0
        }
    }

    /// The server's code; empty without an answer, and for answers without a body.
    pub(crate) fn code(&self) -> &str {
        if let Self::Answered { code, .. } = self {
            code
        } else {
            ""
        }
    }

    /// The same for callers: passing or lasting, naming the bucket, and what to check.
    pub(crate) fn at(self, at: &At<'_>) -> PortError {
        let At {
            port,
            operation,
            bucket,
            key,
        } = at;
        let place = if key.is_empty() {
            format!("bucket {bucket}")
        } else {
            format!("{key} in bucket {bucket}")
        };
        let (passing, what) = match &self {
            Self::Unanswered(told) => (true, told.clone()),
            Self::Unsent(told) => (false, told.clone()),
            Self::Answered { status, code } => (passes(*status, code), answered(*status, code)),
        };
        PortError {
            port,
            operation,
            message: format!("{place}: {what}"),
            passing,
        }
    }
}

fn passes(status: u16, code: &str) -> bool {
    PASSING_CODES.contains(&code) || matches!(status, 408 | 429) || (status >= 500 && status != 501)
}

/// What an answer means, and what to check.
fn answered(status: u16, code: &str) -> String {
    let check = match (status, code) {
        (_, "NoSuchBucket") => "there is no such bucket; check the bucket's name and the endpoint",
        (_, "InvalidAccessKeyId" | "SignatureDoesNotMatch" | "InvalidToken") => {
            "the key is not accepted; check access key, secret, region and endpoint"
        }
        (_, "RequestTimeTooSkewed") => "the clocks differ; check the time of this machine",
        (301 | 307, _) | (_, "AuthorizationHeaderMalformed") => {
            "the bucket is in another region; set its region"
        }
        (401 | 403, _) => {
            "access is denied; check that the key has s3:ListBucket, s3:GetObject, s3:PutObject and s3:DeleteObject there"
        }
        (501, _) => {
            "the server cannot do this; a store needs one that can create an object only if it is absent"
        }
        _ => "",
    };
    let told = if code.is_empty() {
        format!("status {status}")
    } else {
        format!("{code} (status {status})")
    };
    if check.is_empty() {
        told
    } else {
        format!("{told}: {check}")
    }
}

/// An error with its causes, outermost first, each once; at most [`MAX_TOLD`] characters.
pub(super) fn told(error: &dyn Error) -> String {
    let mut told: Vec<String> = Vec::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let text = error.to_string();
        if !told.last().is_some_and(|last| last.contains(&text)) {
            told.push(text);
        }
        next = error.source();
    }
    told.join(": ")
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(MAX_TOLD)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(status: u16, code: &str) -> PortError {
        let at = At {
            port: "blobs",
            operation: "put",
            bucket: "filings",
            key: "c/x",
        };
        Trouble::Answered {
            status,
            code: code.into(),
        }
        .at(&at)
    }

    #[test]
    fn what_may_pass_is_asked_again_and_the_rest_says_what_to_check() {
        for (status, code) in [
            (503, "SlowDown"),
            (500, ""),
            (429, ""),
            (400, "RequestTimeout"),
            (409, "OperationAborted"),
        ] {
            assert!(error(status, code).passing, "{status} {code}");
        }
        for (status, code, check) in [
            (403, "AccessDenied", "s3:ListBucket"),
            (403, "SignatureDoesNotMatch", "check access key"),
            (404, "NoSuchBucket", "no such bucket"),
            (301, "PermanentRedirect", "another region"),
            (501, "NotImplemented", "cannot do this"),
            (403, "", "access is denied"),
        ] {
            let error = error(status, code);
            assert!(!error.passing && error.message.contains(check), "{error}");
            assert!(
                error.message.starts_with("c/x in bucket filings: "),
                "{error}"
            );
        }
    }
}
