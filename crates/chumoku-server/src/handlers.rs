//! Request handlers, one for each endpoint.

use crate::accounting::StreamProgress;
use crate::endpoints::{Endpoint, EndpointKind};
use crate::events;
use crate::explanation::ExplainRequest;
use crate::model::LoadedModel;
use crate::prediction::{PredictFormat, PredictRequest};
use crate::request::{RequestFields, check_texts};
use crate::request_error::{RequestError, Result};
use crate::service::{Capability, ServedModel, Service};
use crate::stream::{EventBody, EventSource, FinalAnswer};
use crate::translation_stream::TranslationStreamRequest;
use crate::workers::{GenerateRequest, ModelTask, TaskAnswer, VectorFormat};
use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use chumoku::answers::{AbstentionThresholds, AnswerOptions};
use chumoku::explain::{AttributionMethod, parse_aligned_tokens};
use chumoku::sampling::Sampling;
use chumoku::{ModelKind, Predictor, TranslateOptions, tr};
use serde_json::{Value, json};
use std::sync::Arc;

/// Handles a request. The model is the one in the path, else the one in the body, else the first that fits.
pub(crate) async fn handle(
    service: &Arc<Service>,
    place: &Endpoint,
    of_path: Option<&str>,
    request: RequestFields,
) -> Result<Response> {
    let of_body = match of_path {
        Some(_) => None,
        None => request.text("model")?.map(str::to_owned),
    };
    let name = of_path.or(of_body.as_deref());
    match place.kind {
        EndpointKind::Predict => predict(service, name, request).await,
        EndpointKind::Embed => embed(service, name, request).await,
        // OpenAI clients must name a model, but do not know the names of this service.
        EndpointKind::OpenAiEmbeddings if of_path.is_none() && service.num_encoders() == 1 => {
            let named = service.model(name, Capability::Embed).is_ok();
            embed_openai(service, name.filter(|_| named), request).await
        }
        EndpointKind::OpenAiEmbeddings => embed_openai(service, name, request).await,
        EndpointKind::Tokenize => tokenize(service, name, request).await,
        EndpointKind::Explain => explain(service, name, request).await,
        EndpointKind::Translate => translate(service, name, request).await,
        EndpointKind::Reconstruct => reconstruct(service, name, request).await,
        EndpointKind::Generate => generate(service, name, request).await,
    }
}

/// Returns a JSON response.
pub(crate) fn json_reply(value: &Value) -> Response {
    let mut response = Response::new(Body::from(value.to_string()));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Submits a task, and responds with its answer.
async fn respond(
    service: &Service,
    served: &ServedModel,
    loaded: Arc<LoadedModel>,
    (task, request): (ModelTask, RequestFields),
) -> Result<Response> {
    let (TaskAnswer::Body(written), stats) = service.submit_and_wait(served, loaded, task, request).await? else {
        return Err(RequestError::model_failed());
    };
    let mut response = written.into_response(service.memory_budget.share())?;
    response.extensions_mut().insert(stats);
    Ok(response)
}

async fn predict(service: &Service, name: Option<&str>, request: RequestFields) -> Result<Response> {
    let (served, loaded) = service.model(name, Capability::Predict)?;
    let (rows, is_one) = request.rows(&loaded.model, &service.limits)?;
    request.flag("truncate")?;
    let raw = request.flag("raw_scores")?.unwrap_or(false);
    let abstain = request.number("abstain")?;
    let top = request.integer("top", [1, 1 << 20])?.map(|n| n as usize);
    let is_full = request.flag("full")?.unwrap_or(false);
    if !is_full && (abstain.is_some() || top.is_some()) {
        return Err(RequestError::invalid(tr!(
            "abstain, top: only with \"full\": true",
            "abstain、top: \"full\": true と一緒に指定してください"
        )));
    }
    let of_tagger = || {
        RequestError::invalid(tr!(
            "raw_scores, abstain, top: this model marks spans in texts and predicts no classes",
            "raw_scores、abstain、top: このモデルはテキストの中のスパンを示すもので、クラスは答えません"
        ))
    };
    let bounds = match (loaded.model.predictor(), abstain) {
        (None, _) if raw || abstain.is_some() || top.is_some() => return Err(of_tagger()),
        (_, None) | (None, _) => None,
        (Some(_), Some(_)) if top.is_some() => {
            return Err(RequestError::invalid(tr!(
                "abstain and top exclude each other",
                "abstain と top は同時に使えません"
            )));
        }
        (Some(predictor), Some(level)) => {
            if !(level > 0.0 && level < 1.0) {
                return Err(RequestError::invalid(tr!(
                    "abstain: expected a share between 0 and 1, such as 0.95",
                    "abstain: 0.95 のような、0 と 1 の間の割合が必要です"
                )));
            }
            let bounds = AbstentionThresholds::for_accuracy(predictor, level);
            Some(bounds.map_err(|problem| RequestError::invalid(format!("abstain: {problem}")))?)
        }
    };
    if let (Some(predictor), Some(_)) = (loaded.model.predictor(), top)
        && predictor.predicts_numbers()
    {
        return Err(RequestError::invalid(tr!(
            "top: this model predicts a number, not classes",
            "top: このモデルが答えるのはクラスではなく数値です"
        )));
    }
    let form = match is_full {
        false => PredictFormat::Scores { raw },
        true => PredictFormat::Full(Box::new(AnswerOptions::new(top, bounds))),
    };
    respond(service, served, loaded, (ModelTask::Predict(PredictRequest { rows, is_one, form }), request)).await
}

async fn embed(service: &Service, name: Option<&str>, request: RequestFields) -> Result<Response> {
    let (served, loaded) = service.model(name, Capability::Embed)?;
    let (texts, _) = request.texts("inputs", &service.limits)?;
    let task = ModelTask::Embed {
        texts,
        prompt: request.text("prompt_name")?.map(str::to_owned),
        normalize: request.flag("normalize")?,
        truncate: request.flag("truncate")?.unwrap_or(false),
        form: VectorFormat::Plain,
    };
    respond(service, served, loaded, (task, request)).await
}

async fn embed_openai(service: &Service, name: Option<&str>, request: RequestFields) -> Result<Response> {
    let (served, loaded) = service.model(name, Capability::Embed)?;
    let (texts, _) = request.texts("input", &service.limits)?;
    let is_base64 = match request.text("encoding_format")? {
        None | Some("float") => false,
        Some("base64") => true,
        Some(_) => {
            return Err(RequestError::invalid(tr!(
                "encoding_format: expected float or base64",
                "encoding_format: float か base64 が必要です"
            )));
        }
    };
    let width = loaded.model.embedding_dim();
    if let (Some(dimensions), Some(width)) = (request.integer("dimensions", [1, u64::from(u32::MAX)])?, width)
        && dimensions != width as u64
    {
        return Err(RequestError::invalid(tr!(
            "dimensions: expected {width}, the dimension of this model's vectors, found {dimensions}",
            "dimensions: このモデルのベクトルは {width} 次元です。{width} を指定するか、指定を外してください（指定: {dimensions}）"
        )));
    }
    let model = loaded.name.clone();
    let form = VectorFormat::OpenAi { is_base64, model };
    let task = ModelTask::Embed { texts, prompt: None, normalize: None, truncate: false, form };
    respond(service, served, loaded, (task, request)).await
}

async fn tokenize(service: &Service, name: Option<&str>, request: RequestFields) -> Result<Response> {
    let (served, loaded) = service.model(name, Capability::Tokenize)?;
    let (texts, _) = request.texts("inputs", &service.limits)?;
    let special = request.flag("add_special_tokens")?.unwrap_or(true);
    respond(service, served, loaded, (ModelTask::Tokenize { texts, special }, request)).await
}

async fn explain(service: &Service, name: Option<&str>, request: RequestFields) -> Result<Response> {
    let (served, loaded) = service.model_or_first(name)?;
    let (mut rows, _) = request.rows(&loaded.model, &service.limits)?;
    let row = rows.pop().filter(|_| rows.is_empty()).ok_or_else(|| {
        RequestError::invalid(tr!("inputs: expected one text at a time", "inputs: 一度に説明できるテキストは 1 つです"))
    })?;
    let kind = loaded.model.kind();
    let target = request.text("target")?.map(str::to_owned);
    if let Some(target) = &target {
        if !["encoder", "translator"].contains(&kind) {
            return Err(RequestError::invalid(tr!(
                "target: only for encoders and translators; this model is of the kind {kind}",
                "target: エンコーダーと翻訳モデルで使えます（このモデルの種類: {kind}）"
            )));
        }
        check_texts("target", std::slice::from_ref(target), &service.limits)?;
    }
    let span = request.span("span")?;
    if span.is_some() && kind != "tagger" {
        return Err(RequestError::invalid(tr!(
            "span: only for taggers; this model is {}",
            "span: テキストの中のスパンを示すモデルで使えます。このモデルは{}です",
            kind_description(kind)
        )));
    }
    let method = match request.text("method")? {
        None | Some("leave-one-out") => AttributionMethod::LeaveOneOut,
        Some("integrated-gradients") if kind == "classifier" => AttributionMethod::IntegratedGradients,
        Some("integrated-gradients") => {
            return Err(RequestError::invalid(tr!(
                "method: integrated-gradients is only for classifiers with a network; this model is {}",
                "method: integrated-gradients はネットワークを持つ分類モデルで使えます。このモデルは{}です",
                kind_description(kind)
            )));
        }
        Some(_) => {
            return Err(RequestError::invalid(tr!(
                "method: expected leave-one-out or integrated-gradients",
                "method: leave-one-out か integrated-gradients が必要です"
            )));
        }
    };
    let label = request.text("label")?.map(str::to_owned);
    if label.is_some() && !loaded.model.predictor().is_some_and(Predictor::is_multi_label) {
        return Err(RequestError::invalid(tr!(
            "label: only for multi-label models; this model is {}",
            "label: 複数のラベルを答えるモデルで使えます。このモデルは{}です",
            kind_description(kind)
        )));
    }
    let patch = request.other_row("patch", &loaded.model, &service.limits)?;
    let aligned = match request.text("align")? {
        Some(list) if patch.is_some() => {
            let wrong = |problem: String| RequestError::invalid(tr!("align: {problem}", "フィールド align: {problem}"));
            Some(parse_aligned_tokens(list).map_err(wrong)?)
        }
        Some(_) => {
            return Err(RequestError::invalid(tr!(
                "align: only with \"patch\", the other text; leave it out",
                "align: もう一方のテキスト \"patch\" と一緒に使います。指定を外してください"
            )));
        }
        None => None,
    };
    let lens = request.flag("lens")?;
    let requested = [("patch", patch.is_some()), ("lens", lens == Some(true))];
    if let Some((field, _)) = requested.into_iter().find(|(_, is_given)| *is_given)
        && !loaded.model.has_readable_layers()
    {
        return Err(RequestError::invalid(tr!(
            "{field}: only for models with a transformer that give answers; this model is {}",
            "{field}: トランスフォーマーがあり、答えを出すモデルで使えます。このモデルは{}です",
            kind_description(kind)
        )));
    }
    let (as_page, has_lens) = (request.flag("html")?.unwrap_or(false), lens.unwrap_or(true));
    let explain = ExplainRequest { row, target, span, method, label, patch, aligned, has_lens, as_page };
    let explain = Box::new(explain);
    respond(service, served, loaded, (ModelTask::Explain(explain), request)).await
}

fn kind_description(kind: &str) -> &'static str {
    match kind {
        "ngrams" => ModelKind::Ngrams,
        "tagger" => ModelKind::Tagger,
        "encoder" => ModelKind::Encoder,
        "translator" => ModelKind::Translator,
        "autoencoder" => ModelKind::Autoencoder,
        "language_model" => ModelKind::LanguageModel,
        _ => ModelKind::Classifier,
    }
    .describe()
}

async fn translate(service: &Arc<Service>, name: Option<&str>, request: RequestFields) -> Result<Response> {
    let (served, loaded) = service.model(name, Capability::Translate)?;
    let (texts, _) = request.texts("inputs", &service.limits)?;
    let mut options = TranslateOptions::default();
    if let Some(beam) = request.integer("beam", [1, 64])? {
        options.beam = beam as usize;
    }
    if let Some(penalty) = request.number("length_penalty")? {
        options.length_penalty = penalty;
    }
    let n_best = request.integer("n_best", [1, options.beam as u64])?.unwrap_or(1) as usize;
    let alignment = request.flag("alignment")?.unwrap_or(false);
    let streams = request.flag("stream")?.unwrap_or(false);
    if streams {
        if n_best > 1 || alignment {
            return Err(RequestError::invalid(tr!(
                "n_best, alignment: not with \"stream\": true, which streams the best translation with its alignment",
                "n_best、alignment: \"stream\": true とは同時に使えません。stream は最良の翻訳とその対応付けを 1 語ずつ返します"
            )));
        }
        return translate_stream(service, loaded, (texts, options), request).await;
    }
    let task = ModelTask::Translate { texts, options, n_best, alignment };
    respond(service, served, loaded, (task, request)).await
}

async fn reconstruct(service: &Service, name: Option<&str>, request: RequestFields) -> Result<Response> {
    let (served, loaded) = service.model(name, Capability::Reconstruct)?;
    let (texts, _) = request.texts("inputs", &service.limits)?;
    let mut options = TranslateOptions::default();
    if let Some(beam) = request.integer("beam", [1, 64])? {
        options.beam = beam as usize;
    }
    let task = ModelTask::Translate { texts, options, n_best: 1, alignment: false };
    respond(service, served, loaded, (task, request)).await
}

/// Streams a single translation.
async fn translate_stream(
    service: &Arc<Service>,
    loaded: Arc<LoadedModel>,
    (mut texts, options): (Vec<String>, TranslateOptions),
    request: RequestFields,
) -> Result<Response> {
    let text = texts.pop().filter(|_| texts.is_empty()).ok_or_else(|| {
        RequestError::invalid(tr!(
            "inputs: with \"stream\": true, expected one text at a time",
            "inputs: \"stream\": true のとき、一度に翻訳できるテキストは 1 つです"
        ))
    })?;
    let (pieces, receiver) = events::channel();
    let task = ModelTask::StreamTranslation(Box::new(TranslationStreamRequest { text, options, events: pieces }));
    let course = StreamProgress::default();
    let ending = final_answer(service, loaded, (task, request), course.clone());
    EventBody::reply(EventSource { events: receiver, final_answer: ending, final_event: Value::clone }, course).await
}

/// Returns the future of the answer that ends a stream.
fn final_answer(
    service: &Arc<Service>,
    loaded: Arc<LoadedModel>,
    (task, request): (ModelTask, RequestFields),
    course: StreamProgress,
) -> FinalAnswer {
    let (service, name) = (service.clone(), loaded.name.clone());
    // The model is looked up again, so that the future borrows nothing.
    Box::pin(async move {
        let (served, _) = service.model_named(&name)?;
        let running = service.submit(served, loaded, task, request).await?;
        course.start(&running.stats);
        running.finish().await
    })
}

async fn generate(service: &Arc<Service>, name: Option<&str>, request: RequestFields) -> Result<Response> {
    let (served, loaded) = service.model(name, Capability::Generate)?;
    let limits = &service.limits;
    let prompt = request.text("inputs")?.map(str::to_owned).ok_or_else(|| {
        RequestError::invalid(tr!(
            "inputs is missing: send the start of the text",
            "inputs がありません。続きを書くテキストを送ってください"
        ))
    })?;
    let system = request.text("system")?.map(str::to_owned);
    for (field, text) in [("inputs", Some(&prompt)), ("system", system.as_ref())] {
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            check_texts(field, std::slice::from_ref(text), limits)?;
        }
    }
    let mut sampling = Sampling::default();
    sampling.temperature = request.number("temperature")?.unwrap_or(0.8);
    sampling.top_k = request.integer("top_k", [0, u64::from(u32::MAX)])?.unwrap_or(0) as usize;
    sampling.top_p = request.number("top_p")?.unwrap_or(1.0);
    sampling.seed = request.integer("seed", [0, u64::MAX])?.unwrap_or(42);
    sampling.check().map_err(chumoku::Error::from)?;
    let most = limits.new_tokens as u64;
    let max_tokens = request.integer("max_tokens", [1, most])?.unwrap_or(most.min(500)) as usize;
    let no_chat = request.flag("no_chat")?.unwrap_or(false);
    if no_chat && system.is_some() {
        return Err(RequestError::invalid(tr!(
            "system and no_chat exclude each other: no_chat turns the chat template off",
            "system と no_chat は同時に使えません（no_chat はチャットテンプレートを無効にします）"
        )));
    }
    let mut generate = Box::new(GenerateRequest { prompt, system, no_chat, max_tokens, sampling, events: None });
    let is_stream = request.flag("stream")?.unwrap_or(false);
    if !is_stream {
        return respond(service, served, loaded, (ModelTask::Generate(generate), request)).await;
    }
    let (send, pieces) = events::channel();
    generate.events = Some(send);
    let last = |answer: &Value| json!({ "text": "", "stop": answer["stop"], "generated_text": answer["text"] });
    let course = StreamProgress::default();
    let ending = final_answer(service, loaded, (ModelTask::Generate(generate), request), course.clone());
    EventBody::reply(EventSource { events: pieces, final_answer: ending, final_event: last }, course).await
}
