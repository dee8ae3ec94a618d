//! `ehi mcp`, tested with the reference client of the protocol's own crate and, where bytes matter, line by
//! line.

mod documents;
mod lifetime;
mod limits;
mod refusals;
mod schemas;
mod tools;
pub mod wire;
mod writes;

use std::process::Stdio;
use std::sync::{Arc, Mutex};

use rmcp::model::{
    CallToolRequestParams, CallToolResult, ErrorData, ProgressNotificationParam, ProtocolVersion,
};
use rmcp::service::{NotificationContext, RunningService};
use rmcp::{ClientHandler, ClientLifecycleMode, ClientServiceExt, RoleClient, ServiceError};
use serde_json::Value;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, ChildStderr};
use tokio::runtime::{Builder, Runtime};

use crate::program::{Flow, command};

/// Progress: how much is done, and of how much.
type Told = (f64, Option<f64>);

/// A client that records progress notifications.
#[derive(Clone, Default)]
struct Client {
    told: Arc<Mutex<Vec<Told>>>,
}

impl ClientHandler for Client {
    async fn on_progress(&self, params: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.told.lock().unwrap().push((params.progress, params.total));
    }
}

/// A session with the program on an index.
struct Session {
    runtime: Runtime,
    service: RunningService<RoleClient, Client>,
    child: Child,
    errors: ChildStderr,
    client: Client,
}

impl Session {
    fn open(flow: &Flow, options: &[&str]) -> Self {
        Self::begin(flow, options, ClientLifecycleMode::Initialize)
    }

    /// With the protocol's lifecycle since 2026-07-28.
    fn discover(flow: &Flow, options: &[&str]) -> Self {
        let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
        Self::begin(flow, options, ClientLifecycleMode::Discover { preferred_versions })
    }

    fn begin(flow: &Flow, options: &[&str], lifecycle: ClientLifecycleMode) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let client = Client::default();
        let (child, service, errors) = runtime.block_on(async {
            let mut command = tokio::process::Command::from(command());
            command.args(["mcp", "--index", &flow.index()]).args(options);
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
            let mut child = command.spawn().unwrap();
            let transport = (child.stdout.take().unwrap(), child.stdin.take().unwrap());
            let errors = child.stderr.take().unwrap();
            let service = client.clone().serve_with_lifecycle(transport, lifecycle).await.unwrap();
            (child, service, errors)
        });
        Self { runtime, service, child, errors, client }
    }

    fn try_call(&self, tool: &str, arguments: Value) -> Result<CallToolResult, ServiceError> {
        let Value::Object(arguments) = arguments else { panic!("{arguments} is no object") };
        let request = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        self.runtime.block_on(self.service.call_tool(request))
    }

    /// The answer of a successful call; its text is the same.
    #[track_caller]
    fn call(&self, tool: &str, arguments: Value) -> Value {
        let result = self.try_call(tool, arguments.clone()).unwrap();
        assert_eq!(result.is_error, Some(false), "{tool} {arguments}: {result:?}");
        let answer = result.structured_content.unwrap();
        let text = &result.content[0].as_text().unwrap().text;
        assert_eq!(serde_json::from_str::<Value>(text).unwrap(), answer);
        answer
    }

    /// The text that the model reads when a call fails.
    #[track_caller]
    fn failure(&self, tool: &str, arguments: Value) -> String {
        let result = self.try_call(tool, arguments.clone()).unwrap();
        assert_eq!(result.is_error, Some(true), "{tool} {arguments}: {result:?}");
        assert_eq!(result.structured_content, None);
        result.content[0].as_text().unwrap().text.clone()
    }

    /// The protocol error of a call.
    #[track_caller]
    fn error(&self, tool: &str, arguments: Value) -> ErrorData {
        error_of(self.try_call(tool, arguments))
    }

    /// Closes it as a client does, by ending standard input; returns standard error.
    #[track_caller]
    fn end(self) -> (Option<i32>, String) {
        let Self { runtime, service, mut child, mut errors, .. } = self;
        runtime.block_on(async {
            service.cancel().await.unwrap();
            let mut said = String::new();
            errors.read_to_string(&mut said).await.unwrap();
            (child.wait().await.unwrap().code(), said)
        })
    }

    /// Ends it successfully.
    #[track_caller]
    fn done(self) {
        assert_eq!(self.end(), (Some(0), String::new()));
    }
}

#[track_caller]
fn error_of<T: std::fmt::Debug>(result: Result<T, ServiceError>) -> ErrorData {
    match result {
        Err(ServiceError::McpError(error)) => error,
        other => panic!("{other:?}"),
    }
}

/// The ids of hits, with their scores.
fn hits(answer: &Value) -> Vec<(String, f64)> {
    let hit = |hit: &Value| (hit["id"].as_str().unwrap().to_owned(), hit["score"].as_f64().unwrap());
    answer["hits"].as_array().unwrap().iter().map(hit).collect()
}

fn ids(answer: &Value) -> Vec<String> {
    hits(answer).into_iter().map(|(id, _)| id).collect()
}
