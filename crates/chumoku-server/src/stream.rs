//! Server-sent events: generated text, sent piece by piece.

use crate::accounting::StreamProgress;
use crate::events::{EventReceiver, event};
use crate::request_error::{RequestError, Result};
use crate::service::RequestStats;
use crate::workers::TaskAnswer;
use axum::body::{Body, Bytes, HttpBody};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use hyper::body::Frame;
use serde_json::Value;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};

/// Future of the final answer.
pub(crate) type FinalAnswer = Pin<Box<dyn Future<Output = Result<(TaskAnswer, RequestStats)>> + Send>>;

/// Events of a stream and its final answer.
pub(crate) struct EventSource {
    pub(crate) events: EventReceiver,
    pub(crate) final_answer: FinalAnswer,
    /// Converts the answer to the last event.
    pub(crate) final_event: fn(&Value) -> Value,
}

/// The next part of a stream.
enum NextEvent {
    Event(Bytes),
    End(Result<(TaskAnswer, RequestStats)>),
}

impl EventSource {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<NextEvent> {
        // The final answer is always polled first: it submits the task, and enforces the time limits.
        let ended = match self.final_answer.as_mut().poll(context) {
            Poll::Ready(ended) => Some(ended),
            Poll::Pending => None,
        };
        match (self.events.poll(context), ended) {
            (Poll::Ready(Some(piece)), None) => Poll::Ready(NextEvent::Event(piece)),
            (Poll::Ready(Some(piece)), Some(ended)) => {
                self.final_answer = Box::pin(std::future::ready(ended));
                Poll::Ready(NextEvent::Event(piece))
            }
            (_, Some(ended)) => Poll::Ready(NextEvent::End(ended)),
            (_, None) => Poll::Pending,
        }
    }
}

/// A response body that is written while it is sent.
pub(crate) struct EventBody {
    source: EventSource,
    progress: StreamProgress,
    ready: VecDeque<Bytes>,
    is_over: bool,
}

impl EventBody {
    /// Returns the response once the first event exists. Earlier errors get their own status.
    pub(crate) async fn reply(mut pieces: EventSource, course: StreamProgress) -> Result<Response> {
        let first = poll_fn(|context| pieces.poll(context)).await;
        let ready = VecDeque::new();
        let mut events = EventBody { source: pieces, progress: course.clone(), ready, is_over: false };
        match first {
            NextEvent::Event(piece) => events.ready.push_back(piece),
            NextEvent::End(ended) => events.end(Ok(ended?)),
        }
        let mut response = Response::new(Body::new(events));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response.extensions_mut().insert(course);
        Ok(response)
    }

    fn end(&mut self, ended: Result<(TaskAnswer, RequestStats)>) {
        self.is_over = true;
        self.progress.finish(match &ended {
            Ok((TaskAnswer::FinalEvent(_), stats)) => Ok(stats),
            Ok(_) => Err(RequestError::model_failed().error_type()),
            Err(refusal) => Err(refusal.error_type()),
        });
        let last = match ended {
            Ok((TaskAnswer::FinalEvent(answer), _)) => (self.source.final_event)(&answer),
            Ok(_) => RequestError::model_failed().as_json(),
            Err(refusal) => refusal.as_json(),
        };
        self.ready.push_back(event(&last));
        self.ready.push_back(Bytes::from_static(b"data: [DONE]\n\n"));
    }
}

impl HttpBody for EventBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        loop {
            if let Some(bytes) = self.ready.pop_front() {
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
            if self.is_over {
                return Poll::Ready(None);
            }
            match self.source.poll(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(NextEvent::Event(piece)) => self.ready.push_back(piece),
                Poll::Ready(NextEvent::End(ended)) => self.end(ended),
            }
        }
    }
}
