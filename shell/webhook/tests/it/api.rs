//! An API in memory: a Secret and webhook configurations that can be read and patched, and nothing else.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use runtime::{Body, Client};
use serde_json::{Value, json};

pub(crate) const SECRET: &str = "/api/v1/namespaces/ns/secrets/lifesign-webhook";
pub(crate) const MUTATING: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/lifesign";
pub(crate) const VALIDATING: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/lifesign";

/// The API; clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Api(Arc<Mutex<Contents>>);

#[derive(Default)]
struct Contents {
    objects: BTreeMap<String, Value>,
    version: u64,
    patches: Vec<String>,
    broken: Option<&'static str>,
}

impl Api {
    /// Returns an API with what `lifesign install` applies: nothing is filled in.
    pub(crate) fn installed() -> Api {
        let api = Api::default();
        api.put(SECRET, json!({}));
        api.put(MUTATING, json!({"webhooks": [{"name": "pods.lifesign.dev", "clientConfig": {"service": {"name": "x"}}}]}));
        let two = json!({"webhooks": [{"name": "a", "clientConfig": {}}, {"name": "b", "clientConfig": {}}]});
        api.put(VALIDATING, two);
        api
    }

    pub(crate) fn put(&self, path: &str, mut object: Value) {
        let mut contents = self.0.lock().unwrap();
        contents.version += 1;
        object["metadata"]["resourceVersion"] = contents.version.to_string().into();
        contents.objects.insert(path.to_owned(), object);
    }

    pub(crate) fn get(&self, path: &str) -> Value {
        self.0.lock().unwrap().objects.get(path).cloned().unwrap_or_default()
    }

    pub(crate) fn remove(&self, path: &str) {
        self.0.lock().unwrap().objects.remove(path);
    }

    /// Returns what was patched since the last call.
    pub(crate) fn patches(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap().patches)
    }

    /// Refuses every patch of a path from now on.
    pub(crate) fn refuse(&self, path: Option<&'static str>) {
        self.0.lock().unwrap().broken = path;
    }

    pub(crate) fn secret(&self, key: &str) -> Option<String> {
        let text = STANDARD.decode(self.get(SECRET)["data"][key].as_str()?).unwrap();
        Some(String::from_utf8(text).unwrap())
    }

    /// Returns what every webhook trusts; they must agree.
    pub(crate) fn trusted(&self) -> String {
        let mut bundles: Vec<Value> = Vec::new();
        for path in [MUTATING, VALIDATING] {
            let webhooks = self.get(path)["webhooks"].as_array().cloned().unwrap_or_default();
            bundles.extend(webhooks.iter().map(|webhook| webhook["clientConfig"]["caBundle"].clone()));
        }
        bundles.dedup();
        assert_eq!(bundles.len(), 1, "{bundles:?}");
        bundles[0].as_str().map(|text| String::from_utf8(STANDARD.decode(text).unwrap()).unwrap()).unwrap_or_default()
    }

    pub(crate) fn client(&self) -> Client {
        let api = self.clone();
        Client::new(tower::service_fn(move |request| answer(api.clone(), request)))
    }
}

async fn answer(api: Api, request: Request<Body>) -> Result<Response<Body>, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let path = head.uri.path().to_owned();
    let mut contents = api.0.lock().unwrap();
    let Some(mut object) = contents.objects.get(&path).cloned() else { return Ok(refused(StatusCode::NOT_FOUND)) };
    if head.method == Method::PATCH {
        let patch: Value = serde_json::from_slice(&body).unwrap();
        if contents.broken == Some(path.as_str()) {
            return Ok(refused(StatusCode::FORBIDDEN));
        }
        if head.headers["content-type"] == "application/json-patch+json" {
            json_patch::patch(&mut object, &serde_json::from_value::<json_patch::Patch>(patch).unwrap()).unwrap();
        } else {
            if patch["metadata"]["resourceVersion"] != object["metadata"]["resourceVersion"] {
                return Ok(refused(StatusCode::CONFLICT));
            }
            json_patch::merge(&mut object, &patch);
        }
        contents.version += 1;
        object["metadata"]["resourceVersion"] = contents.version.to_string().into();
        contents.objects.insert(path.clone(), object.clone());
        contents.patches.push(path);
    }
    Ok(Response::new(Body::from(object.to_string().into_bytes())))
}

fn refused(code: StatusCode) -> Response<Body> {
    let status = json!({"kind": "Status", "code": code.as_u16(), "message": "no"});
    Response::builder().status(code).body(Body::from(status.to_string().into_bytes())).unwrap()
}
