//! Routing of requests, with access control and logging around every endpoint.

use crate::access::{check_coding, check_host, check_key, check_one_host, shown_host};
use crate::accounting::{RequestRecord, StreamProgress, TrackedBody};
use crate::endpoints::{self, ENDPOINTS, Endpoint, GET_ENDPOINTS, metric_path};
use crate::handlers::{handle, json_reply};
use crate::metrics::CountGuard;
use crate::page;
use crate::request::read_fields;
use crate::request_error::{ErrorType, RequestError};
use crate::service::{RequestStats, Service};
use axum::Router;
use axum::body::{Body, HttpBody};
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{RawPathParams, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use chumoku::tr;
use serde_json::{Value, json};
use std::sync::Arc;

/// Builds all routes.
pub(crate) fn router(service: Arc<Service>) -> Router {
    let mut router = Router::new();
    for place in ENDPOINTS {
        for path in [place.path.to_owned(), format!("/models/{{name}}{}", place.path)] {
            router =
                router.route(&path, post(move |state, named, request| post_endpoint(place, state, named, request)));
        }
    }
    for path in GET_ENDPOINTS.iter().map(|(path, _)| *path).chain(["/"]) {
        router = router.route(path, get(get_endpoint));
    }
    router
        .fallback(not_found)
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn_with_state(service.clone(), middleware))
        .with_state(service)
}

/// Admits a request, and records its response in metrics and log.
async fn middleware(State(service): State<Arc<Service>>, request: Request, next: Next) -> Response {
    let path = request.uri().path().to_owned();
    let place = metric_path(&path);
    let has_body = !request.body().is_end_stream();
    let account = RequestRecord::start(&service, request.method(), place);
    let mut response = match admit(&service, &path, &request) {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.with_unread_body().into_response(),
    };
    // The unread rest of a body would be taken for the next request.
    let is_unread = response.extensions().get::<RequestError>().is_some_and(RequestError::has_unread_body);
    let closes = is_unread && has_body || service.is_shutting_down();
    // Errors of OpenAI-compatible endpoints have OpenAI's form.
    if place == "/v1/embeddings"
        && let Some(refusal) = response.extensions_mut().remove::<RequestError>()
    {
        response = refusal.into_openai();
    }
    if closes {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    let status = response.status().as_u16();
    if let Some(course) = response.extensions_mut().remove::<StreamProgress>() {
        return response.map(|body| Body::new(TrackedBody::new(body, course, status, account)));
    }
    let stats = response.extensions_mut().remove::<RequestStats>().unwrap_or_default();
    let why = response.extensions_mut().remove::<RequestError>().map(|refusal| refusal.error_type());
    account.finish(status, why, &stats);
    response
}

fn admit(service: &Service, path: &str, request: &Request) -> Result<(), RequestError> {
    check_one_host(request.version(), request.headers())?;
    check_coding(request.version(), request.headers())?;
    if let Some(own) = &service.own_host {
        check_host(own, request.headers())?;
    }
    // Health checks need no key.
    match path {
        "/health" => Ok(()),
        // The page has no secrets and asks the user for the key. The documents that it links to describe requests, not
        // models.
        "/" if page::accepts_html(request.headers()) => Ok(()),
        "/docs" | "/openapi.json" => Ok(()),
        _ => check_key(service.key.as_deref(), request.headers()),
    }
}

/// Handles a POST request to the model that the path names, or to any model.
async fn post_endpoint(
    place: &Endpoint,
    State(service): State<Arc<Service>>,
    named: Result<RawPathParams, RawPathParamsRejection>,
    request: Request,
) -> Response {
    // A name that is not UTF-8 belongs to no model.
    let Ok(named) = named else { return not_found().await };
    let name = named.iter().next().map(|(_, name)| name);
    let arriving = CountGuard::new(&service.arriving);
    let (head, body) = request.into_parts();
    let fields =
        read_fields(&head.headers, body, place, (&service.limits, service.memory_budget.share()), arriving).await;
    let answered = match fields {
        Ok(fields) => handle(&service, place, name, fields).await,
        Err(refusal) => Err(refusal),
    };
    answered.unwrap_or_else(IntoResponse::into_response)
}

/// Handles a GET request.
async fn get_endpoint(State(service): State<Arc<Service>>, request: Request) -> Response {
    match request.uri().path() {
        "/health" if service.is_shutting_down() => crate::service::shutting_down().into_response(),
        "/health" => json_reply(&json!({ "status": "ok" })),
        "/info" => json_reply(&info(&service)),
        "/metrics" => {
            text_response(service.metrics.to_text(&service.gauges()), "text/plain; version=0.0.4; charset=utf-8")
        }
        "/openapi.json" => json_reply(&endpoints::openapi()),
        "/" if page::accepts_html(request.headers()) => page::reply(request.headers()),
        "/docs" => {
            let host = shown_host(request.headers()).unwrap_or("127.0.0.1:3000");
            text_response(endpoints::docs_page(host, service.key.is_some()), "text/html; charset=utf-8")
        }
        _ => json_reply(&overview(&service)),
    }
}

fn text_response(text: String, kind: &'static str) -> Response {
    let mut response = Response::new(Body::from(text));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert("X-Content-Type-Options", HeaderValue::from_static("nosniff"));
    let policy = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'";
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    response
}

/// Lists models and endpoints.
fn overview(service: &Service) -> Value {
    let models: Vec<String> = service.models.iter().map(|served| served.loaded().name.clone()).collect();
    let places = ENDPOINTS.iter().map(|place| format!("POST {}", place.path));
    let places: Vec<String> = places.chain(GET_ENDPOINTS.iter().map(|(path, _)| format!("GET {path}"))).collect();
    json!({ "chumoku": env!("CARGO_PKG_VERSION"), "models": models, "endpoints": places, "docs": "/docs" })
}

/// Describes the first model in the format of text-embeddings-inference, and each model.
fn info(service: &Service) -> Value {
    let models: Vec<_> = service.models.iter().map(|served| served.loaded().info()).collect();
    let mut info = models.first().cloned().unwrap_or_default();
    let limits = &service.limits;
    info.insert("max_concurrent_requests".into(), limits.queue.into());
    info.insert("max_client_batch_size".into(), limits.texts.into());
    info.insert("max_batch_requests".into(), limits.batch_texts.into());
    info.insert("max_input_characters".into(), limits.characters.into());
    info.insert("max_body_bytes".into(), limits.body.into());
    info.insert("max_new_tokens".into(), limits.new_tokens.into());
    info.insert("max_answer_bytes".into(), limits.answer.into());
    info.insert("auto_truncate".into(), false.into());
    info.insert("version".into(), env!("CARGO_PKG_VERSION").into());
    info.insert("models".into(), models.into_iter().map(Value::Object).collect());
    Value::Object(info)
}

async fn not_found() -> Response {
    RequestError::not_found(tr!(
        "no such endpoint; GET /docs lists the endpoints",
        "このエンドポイントはありません。GET /docs で一覧を見られます"
    ))
    .with_unread_body()
    .into_response()
}

async fn wrong_method() -> Response {
    let message = tr!(
        "this endpoint needs another method; GET /docs lists the endpoints",
        "このエンドポイントには別のメソッドが必要です。GET /docs で一覧を見られます"
    );
    RequestError::new(StatusCode::METHOD_NOT_ALLOWED, ErrorType::Validation, message).with_unread_body().into_response()
}
