//! Bodies of requests and responses, within the memory of their client.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::response::Response;
use bytes::BytesMut;
use http_body::{Frame, SizeHint};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use stemma_store::work::{MemoryPermit, WorkScope};

use crate::admission::AdmissionError;
use crate::problem::Problem;

// How long a client may take to send a body.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
// Bodies up to this size are not counted: the number of connections bounds them.
const UNCOUNTED_BYTES: usize = 64 << 10;
const PART_BYTES: usize = 64 << 10;

/// In the extensions of a response with a streamed body: how many bytes the body has in memory at once.
#[derive(Debug, Clone, Copy)]
pub struct StreamBuffer(pub usize);

/// The body of a request, and what it holds of the client's memory.
pub(crate) struct ReceivedBody {
    pub bytes: Bytes,
    pub memory: Option<MemoryPermit>,
}

/// Receives the body of a request of at most `limit` bytes.
pub(crate) async fn receive(
    body: Body,
    limit: usize,
    scope: &WorkScope,
) -> Result<ReceivedBody, Problem> {
    let received = tokio::time::timeout(BODY_TIMEOUT, receive_all(body, limit, scope)).await;
    received.unwrap_or_else(|_| {
        let seconds = BODY_TIMEOUT.as_secs();
        let detail = format!("the body did not arrive within {seconds} s");
        Err(Problem::new(408, "body.timeout", detail))
    })
}

async fn receive_all(body: Body, limit: usize, scope: &WorkScope) -> Result<ReceivedBody, Problem> {
    let mut body = Limited::new(body, limit);
    let mut received = BytesMut::new();
    let mut memory: Option<MemoryPermit> = None;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            if error.is::<LengthLimitError>() {
                let detail = format!("the body has more than {limit} bytes");
                Problem::new(413, "body.too_large", detail)
            } else {
                Problem::new(400, "body.unreadable", error.to_string())
            }
        })?;
        // Trailers are ignored.
        let Ok(data) = frame.into_data() else {
            continue;
        };
        received.extend_from_slice(&data);
        let room = memory.as_ref().map_or(UNCOUNTED_BYTES, MemoryPermit::bytes);
        if received.len() > room {
            let missing = received.len() - memory.as_ref().map_or(0, MemoryPermit::bytes);
            let more = scope.hold(missing).ok_or(AdmissionError::Busy)?;
            match &mut memory {
                Some(memory) => memory.merge(more),
                None => memory = Some(more),
            }
        }
    }
    Ok(ReceivedBody {
        bytes: received.freeze(),
        memory,
    })
}

/// The response, whose body holds the client's memory until it is sent: its size, or [`StreamBuffer`] if it is streamed. Parts
/// of streams without one, such as events, are small.
pub(crate) fn hold_memory(scope: &WorkScope, response: Response) -> Result<Response, Problem> {
    let size = match response.body().size_hint().exact() {
        Some(size) => usize::try_from(size).unwrap_or(usize::MAX),
        None => {
            let buffer = response.extensions().get::<StreamBuffer>();
            buffer.map_or(0, |buffer| buffer.0)
        }
    };
    let counted = if size > UNCOUNTED_BYTES { size } else { 0 };
    let memory = scope.hold_response(counted).ok_or(AdmissionError::Busy)?;
    if counted == 0 {
        return Ok(response);
    }
    Ok(response.map(|body| {
        Body::new(HeldBody {
            body,
            rest: Bytes::new(),
            _memory: memory,
        })
    }))
}

// Hands out a body in copied parts. hyper takes the next part when it has written the last ones, so the memory is held until
// the client has taken nearly all; parts that are not copied would keep all of it after that.
struct HeldBody {
    body: Body,
    rest: Bytes,
    _memory: MemoryPermit,
}

impl HttpBody for HeldBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        while self.rest.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(frame) => return Poll::Ready(Some(Ok(frame))),
                },
                ended => return Poll::Ready(ended),
            }
        }
        let size = self.rest.len().min(PART_BYTES);
        let part = Bytes::copy_from_slice(&self.rest.split_to(size));
        if self.rest.is_empty() {
            self.rest = Bytes::new();
        }
        Poll::Ready(Some(Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let rest = self.rest.len() as u64;
        let body = self.body.size_hint();
        let mut size = SizeHint::new();
        size.set_lower(body.lower() + rest);
        if let Some(upper) = body.upper() {
            size.set_upper(upper + rest);
        }
        size
    }
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse;
    use stemma_store::work::ClientShare;

    use super::*;

    const MIB: usize = 1 << 20;

    #[tokio::test]
    async fn responses_hold_memory_until_they_are_sent() {
        let share = ClientShare::for_several_clients();
        let large = vec![7_u8; 100 * MIB].into_response();
        let mut held = hold_memory(&WorkScope::new(&share), large)
            .unwrap()
            .into_body();
        assert_eq!(held.size_hint().exact(), Some(100 * MIB as u64));
        let refused = hold_memory(&WorkScope::new(&share), vec![7; 30 * MIB].into_response());
        assert_eq!(
            refused
                .err()
                .map(|problem| problem.into_response().status().as_u16()),
            Some(503)
        );
        let small = hold_memory(&WorkScope::new(&share), vec![7; 1_000].into_response());
        assert!(small.is_ok());
        let mut sent = 0;
        while let Some(frame) = held.frame().await {
            let data = frame.unwrap().into_data().unwrap();
            assert!(data.len() <= PART_BYTES && data.iter().all(|byte| *byte == 7));
            sent += data.len();
        }
        assert_eq!(sent, 100 * MIB);
        assert!(held.is_end_stream());
        drop(held);
        assert!(hold_memory(&WorkScope::new(&share), vec![7; 30 * MIB].into_response()).is_ok());
    }

    #[tokio::test]
    async fn bodies_hold_memory_of_their_client() {
        let share = ClientShare::for_several_clients();
        let receive = |size: usize| {
            let scope = WorkScope::new(&share);
            let parts = vec![b'a'; size];
            let parts = parts.chunks(10_000).map(Bytes::copy_from_slice);
            let parts: Vec<_> = parts.map(Ok::<_, std::convert::Infallible>).collect();
            let body = Body::from_stream(futures::stream::iter(parts));
            async move { receive(body, MIB, &scope).await }
        };
        let mut held = Vec::new();
        while let Ok(body) = receive(MIB).await {
            assert_eq!(body.bytes.len(), MIB);
            held.push(body);
        }
        assert_eq!(held.len(), 128);
        assert_eq!(
            receive(MIB)
                .await
                .err()
                .map(|problem| problem.status().as_u16()),
            Some(503)
        );
        assert!(
            receive(4 << 10).await.is_ok(),
            "small bodies are not counted"
        );
        held.clear();
        assert_eq!(
            receive(MIB + 1)
                .await
                .err()
                .map(|problem| problem.status().as_u16()),
            Some(413)
        );
        assert!(receive(MIB).await.is_ok());
    }
}
