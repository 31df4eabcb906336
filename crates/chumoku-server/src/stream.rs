//! Server-sent events: a text piece by piece, as it is written.

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

/// The answer, once it is there.
pub(crate) type FinalAnswer = Pin<Box<dyn Future<Output = Result<(TaskAnswer, RequestStats)>> + Send>>;

/// Pieces of a text, and how it ends.
pub(crate) struct EventSource {
    pub(crate) events: EventReceiver,
    pub(crate) final_answer: FinalAnswer,
    /// The last event, made of the answer.
    pub(crate) final_event: fn(&Value) -> Value,
}

/// What comes next of a text.
enum NextEvent {
    Event(Bytes),
    End(Result<(TaskAnswer, RequestStats)>),
}

impl EventSource {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<NextEvent> {
        // The end is looked at all the time: it is what asks the model at first, and keeps to the limits of time.
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

/// The body of a reply that is written while it is sent.
pub(crate) struct EventBody {
    source: EventSource,
    course: StreamProgress,
    ready: VecDeque<Bytes>,
    is_over: bool,
}

impl EventBody {
    /// The reply, once the text has begun: what is refused before has a status of its own.
    pub(crate) async fn reply(mut pieces: EventSource, course: StreamProgress) -> Result<Response> {
        let first = poll_fn(|context| pieces.poll(context)).await;
        let ready = VecDeque::new();
        let mut events = EventBody { source: pieces, course: course.clone(), ready, is_over: false };
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
        self.course.finish(match &ended {
            Ok((TaskAnswer::FinalEvent(_), told)) => Ok(told),
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
