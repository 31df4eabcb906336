//! Server-sent events: a text piece by piece, as it is written.

use crate::account::Course;
use crate::pieces::{PieceReceiver, event};
use crate::refusal::{Refusal, Result};
use crate::service::Told;
use crate::work::Answer;
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
pub(crate) type Ending = Pin<Box<dyn Future<Output = Result<(Answer, Told)>> + Send>>;

/// Pieces of a text, and how it ends.
pub(crate) struct Pieces {
    pub(crate) pieces: PieceReceiver,
    pub(crate) ending: Ending,
    /// The last event, made of the answer.
    pub(crate) last: fn(&Value) -> Value,
}

/// What comes next of a text.
enum Next {
    Piece(Bytes),
    End(Result<(Answer, Told)>),
}

impl Pieces {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Next> {
        // The end is looked at all the time: it is what asks the model at first, and keeps to the limits of time.
        let ended = match self.ending.as_mut().poll(context) {
            Poll::Ready(ended) => Some(ended),
            Poll::Pending => None,
        };
        match (self.pieces.poll(context), ended) {
            (Poll::Ready(Some(piece)), None) => Poll::Ready(Next::Piece(piece)),
            (Poll::Ready(Some(piece)), Some(ended)) => {
                self.ending = Box::pin(std::future::ready(ended));
                Poll::Ready(Next::Piece(piece))
            }
            (_, Some(ended)) => Poll::Ready(Next::End(ended)),
            (_, None) => Poll::Pending,
        }
    }
}

/// The body of a reply that is written while it is sent.
pub(crate) struct Events {
    pieces: Pieces,
    course: Course,
    ready: VecDeque<Bytes>,
    is_over: bool,
}

impl Events {
    /// The reply, once the text has begun: what is refused before has a status of its own.
    pub(crate) async fn reply(mut pieces: Pieces, course: Course) -> Result<Response> {
        let first = poll_fn(|context| pieces.poll(context)).await;
        let ready = VecDeque::new();
        let mut events = Events { pieces, course: course.clone(), ready, is_over: false };
        match first {
            Next::Piece(piece) => events.ready.push_back(piece),
            Next::End(ended) => events.end(Ok(ended?)),
        }
        let mut response = Response::new(Body::new(events));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response.extensions_mut().insert(course);
        Ok(response)
    }

    fn end(&mut self, ended: Result<(Answer, Told)>) {
        self.is_over = true;
        self.course.ends(match &ended {
            Ok((Answer::Last(_), told)) => Ok(told),
            Ok(_) => Err(Refusal::broken().kind()),
            Err(refusal) => Err(refusal.kind()),
        });
        let last = match ended {
            Ok((Answer::Last(answer), _)) => (self.pieces.last)(&answer),
            Ok(_) => Refusal::broken().as_json(),
            Err(refusal) => refusal.as_json(),
        };
        self.ready.push_back(event(&last));
        self.ready.push_back(Bytes::from_static(b"data: [DONE]\n\n"));
    }
}

impl HttpBody for Events {
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
            match self.pieces.poll(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Next::Piece(piece)) => self.ready.push_back(piece),
                Poll::Ready(Next::End(ended)) => self.end(ended),
            }
        }
    }
}
