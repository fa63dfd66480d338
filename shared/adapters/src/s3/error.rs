//! Errors of S3 calls, and their conversion to [`PortError`].
//!
//! Error texts of the server are never passed on, because they quote access keys and signatures. Error codes are.

use std::error::Error;

use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};

use stemma_store::port_error::{PortError, PortErrorKind};

// Maximum length of a client library's message, in characters.
const MAX_ERROR_CHARS: usize = 300;
// Maximum length of a server's error code, in characters.
const MAX_CODE: usize = 60;

// Transient whatever their HTTP status is (S3 API reference, "List of error codes").
const TRANSIENT_CODES: [&str; 9] = [
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

// Say something about the installation whatever their HTTP status is. Those of KMS begin with `KMS.`.
const REFUSAL_CODES: [&str; 5] = [
    "NoSuchBucket",
    "AuthorizationHeaderMalformed",
    "InvalidToken",
    "XMinioAdminBucketQuotaExceeded",
    "XMinioStorageFull",
];

#[derive(Debug)]
pub(crate) enum S3Error {
    Rejected { status: u16, code: String },
    // No response, or an incomplete one: the call may have taken effect.
    NoResponse(String),
    // The request could not be sent at all.
    NotSent(String),
}

impl S3Error {
    pub(crate) fn from_sdk<E: ProvideErrorMetadata + Error + 'static>(error: &SdkError<E>) -> Self {
        match error {
            SdkError::ServiceError(response) => {
                let code = response
                    .err()
                    .code()
                    .unwrap_or_default()
                    .chars()
                    .filter(|c| !c.is_control())
                    .take(MAX_CODE);
                Self::Rejected {
                    status: response.raw().status().as_u16(),
                    code: code.collect(),
                }
            }
            SdkError::ConstructionFailure(_) => Self::NotSent(error_chain(error)),
            SdkError::DispatchFailure(failure) if failure.is_user() => {
                Self::NotSent(error_chain(error))
            }
            _ => Self::NoResponse(error_chain(error)),
        }
    }

    pub(crate) fn no_response(error: &dyn Error) -> Self {
        Self::NoResponse(error_chain(error))
    }

    /// The HTTP status; 0 without a response.
    pub(crate) fn status(&self) -> u16 {
        if let Self::Rejected { status, .. } = self {
            *status
        } else {
            0
        }
    }

    /// The server's error code; empty without a response or body.
    pub(crate) fn code(&self) -> &str {
        if let Self::Rejected { code, .. } = self {
            code
        } else {
            ""
        }
    }

    /// `key` is a key or prefix, or empty for the bucket itself.
    pub(crate) fn into_port_error(
        self,
        operation: &'static str,
        bucket: &str,
        key: &str,
    ) -> PortError {
        let place = match key {
            "" => format!("bucket {bucket}"),
            key => format!("{key} in bucket {bucket}"),
        };
        let (kind, what) = match &self {
            Self::NoResponse(text) => (PortErrorKind::Transient, text.clone()),
            Self::NotSent(text) => (PortErrorKind::Refused, text.clone()),
            Self::Rejected { status, code } => (
                rejection_kind(*status, code),
                explain_rejection(*status, code),
            ),
        };
        PortError {
            operation,
            message: format!("{place}: {what}"),
            kind,
        }
    }
}

fn rejection_kind(status: u16, code: &str) -> PortErrorKind {
    let is_transient = TRANSIENT_CODES.contains(&code)
        || matches!(status, 408 | 429)
        || (status >= 500 && status != 501);
    // Denied access, a missing bucket or key, or another region says something about the installation, not the object.
    let is_refusal = matches!(status, 301 | 307 | 401 | 403 | 501)
        || REFUSAL_CODES.contains(&code)
        || code.starts_with("KMS.");
    match (is_transient, is_refusal) {
        (true, _) => PortErrorKind::Transient,
        (false, true) => PortErrorKind::Refused,
        (false, false) => PortErrorKind::Permanent,
    }
}

/// The meaning of a rejection, and the next step.
fn explain_rejection(status: u16, code: &str) -> String {
    let check = match (status, code) {
        (_, "NoSuchBucket") => "there is no such bucket; check the bucket's name and the endpoint",
        (_, "InvalidAccessKeyId" | "SignatureDoesNotMatch" | "InvalidToken") => {
            "the key is not accepted; check access key, secret, region and endpoint"
        }
        (_, "RequestTimeTooSkewed") => "the clocks differ; check the time of this machine",
        (301 | 307, _) | (_, "AuthorizationHeaderMalformed") => {
            "the bucket is in another region; set its region"
        }
        (_, code) if code.starts_with("KMS.") => {
            "the key that encrypts the bucket cannot be used; check its state and the grant"
        }
        (401 | 403, _) => {
            "access is denied; check that the key has s3:ListBucket, s3:GetObject, s3:PutObject and s3:DeleteObject there"
        }
        (501, _) => {
            "the server cannot do this; a store needs one that can create an object only if it is absent"
        }
        _ => "",
    };
    let text = if code.is_empty() {
        format!("status {status}")
    } else {
        format!("{code} (status {status})")
    };
    if check.is_empty() {
        text
    } else {
        format!("{text}: {check}")
    }
}

/// An error and its causes, outermost first, without repetitions; at most [`MAX_ERROR_CHARS`] characters.
pub(super) fn error_chain(error: &dyn Error) -> String {
    let mut causes: Vec<String> = Vec::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let text = error.to_string();
        if !causes.last().is_some_and(|last| last.contains(&text)) {
            causes.push(text);
        }
        next = error.source();
    }
    causes
        .join(": ")
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(MAX_ERROR_CHARS)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(status: u16, code: &str) -> PortError {
        S3Error::Rejected {
            status,
            code: code.into(),
        }
        .into_port_error("blobs.put", "filings", "c/x")
    }

    #[test]
    fn errors_are_classified_and_explained() {
        for (status, code) in [
            (503, "SlowDown"),
            (500, ""),
            (429, ""),
            (400, "RequestTimeout"),
            (409, "OperationAborted"),
        ] {
            assert!(error(status, code).is_transient(), "{status} {code}");
        }
        for (status, code) in [
            (403, "AccessDenied"),
            (400, "KMS.DisabledException"),
            (400, "KMS.KMSInvalidStateException"),
            (400, "AuthorizationHeaderMalformed"),
            (403, "QuotaExceeded"),
        ] {
            let kind = error(status, code).kind;
            assert_eq!(kind, PortErrorKind::Refused, "{status} {code}");
        }
        assert!(error(400, "KeyTooLongError").is_permanent());
        for (status, code, check) in [
            (403, "AccessDenied", "s3:ListBucket"),
            (403, "SignatureDoesNotMatch", "check access key"),
            (404, "NoSuchBucket", "no such bucket"),
            (301, "PermanentRedirect", "another region"),
            (501, "NotImplemented", "cannot do this"),
            (403, "", "access is denied"),
        ] {
            let error = error(status, code);
            assert!(
                !error.is_transient() && error.message.contains(check),
                "{error}"
            );
            assert!(
                error.message.starts_with("c/x in bucket filings: "),
                "{error}"
            );
        }
    }
}
