//! The schemas of all tools, restricted to forms that every client accepts.
//!
//! What clients refuse is from public reports: a schema that is a boolean (issue 92900 of
//! anthropics/claude-code, 49464 of anomalyco/opencode, 1 of agent-sh/computer-use-linux), references (13326
//! of google-gemini/gemini-cli), lists of types (61 of aoci-spec/aoci-code), arguments without a type (6009
//! of webstudio-is/webstudio), and names of more than 64 characters with the prefix that a client puts in
//! front of them (243602 of microsoft/vscode).

use serde_json::{Value, json};

use super::Session;
use crate::program::Flow;

const TYPES: [&str; 6] = ["object", "array", "string", "integer", "number", "boolean"];
/// Maximum characters of a description: some providers refuse more.
const DESCRIPTION: usize = 1_024;
/// Maximum characters of a name, with the prefix that a client adds.
const NAME: usize = 64;
const PREFIX: &str = "mcp__a-name-of-a-server-of-thirty-two__";

fn tools(about: Option<&str>) -> Vec<Value> {
    let mut options = vec!["--write"];
    options.extend(about.iter().flat_map(|about| ["--about", about]));
    tools_of(&Flow::new(), &options)
}

fn tools_of(flow: &Flow, options: &[&str]) -> Vec<Value> {
    let session = Session::open(flow, options);
    let tools = session.runtime.block_on(session.service.list_all_tools()).unwrap();
    session.done();
    tools.iter().map(|tool| serde_json::to_value(tool).unwrap()).collect()
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

/// Lists what a client may refuse in a schema and all schemas inside it, including any keyword not named
/// here.
fn refused(schema: &Value, place: &str, found: &mut Vec<String>) {
    let Some(fields) = schema.as_object() else {
        return found.push(format!("{place}: {schema} is not an object"));
    };
    let mut say = |what: String| found.push(format!("{place}: {what}"));
    for (keyword, value) in fields {
        let is_right = match keyword.as_str() {
            "type" => value.as_str().is_some_and(|own| TYPES.contains(&own)),
            "description" => value.as_str().is_some_and(|own| own.chars().count() <= DESCRIPTION),
            "enum" => value.as_array().is_some_and(|all| !all.is_empty() && all.iter().all(Value::is_string)),
            "required" => value.as_array().is_some_and(|all| {
                all.iter().all(|name| fields["properties"].get(name.as_str().unwrap()).is_some())
            }),
            "additionalProperties" => *value == json!(false),
            "default" => !value.is_null(),
            "minimum" | "maximum" | "minItems" | "maxItems" => value.is_u64(),
            "properties" | "items" => value.is_object(),
            _ => false,
        };
        if !is_right {
            say(format!("`{keyword}` is {value}"));
        }
    }
    match fields.get("type").and_then(Value::as_str) {
        Some("array") if !fields.contains_key("items") => say("an array without `items`".to_owned()),
        Some("object") | None => {}
        Some(_) if fields.contains_key("properties") => {
            say("`properties` without the type `object`".to_owned())
        }
        Some(_) => {}
    }
    if let Some(items) = fields.get("items") {
        refused(items, &format!("{place}[]"), found);
    }
    for (name, property) in fields.get("properties").and_then(Value::as_object).into_iter().flatten() {
        if !is_name(name) || name.len() > NAME {
            found.push(format!("{place}: the name {name:?}"));
        }
        refused(property, &format!("{place}.{name}"), found);
    }
}

#[test]
fn every_schema_has_a_form_that_all_clients_take() {
    let mut found = Vec::new();
    let about = "é".repeat(500);
    for tool in tools(Some(&about)) {
        let name = tool["name"].as_str().unwrap();
        assert!(is_name(name) && PREFIX.len() + name.len() <= NAME, "{name}");
        let description = tool["description"].as_str().unwrap().chars().count();
        assert!(description <= DESCRIPTION, "{name}: a description of {description} characters");
        for which in ["inputSchema", "outputSchema"] {
            let schema = &tool[which];
            assert_eq!(schema["type"], json!("object"), "{name} {which}");
            assert!(schema["properties"].is_object(), "{name} {which}");
            refused(schema, &format!("{name} {which}"), &mut found);
        }
        for (argument, schema) in tool["inputSchema"]["properties"].as_object().unwrap() {
            assert!(schema.get("type").is_some(), "{name}: `{argument}` has no type, and may come as a text");
        }
    }
    assert_eq!(found, [""; 0]);
}

#[test]
fn a_description_too_long_for_clients_is_refused_at_the_start() {
    let flow = Flow::new();
    let said = flow.run("mcp", &["--about", &"x".repeat(501)]).failure();
    assert!(said.contains("--about has 501 characters"), "{said}");
}

#[test]
fn what_clients_refuse_is_found() {
    let is_taken = |schema: Value| {
        let mut found = Vec::new();
        refused(&schema, "here", &mut found);
        found.is_empty()
    };
    assert!(is_taken(json!({ "type": "object", "properties": { "a": {} }, "required": ["a"] })));
    for bad in [
        json!(true),
        json!({ "type": ["string", "null"] }),
        json!({ "type": "array" }),
        json!({ "type": "array", "items": true }),
        json!({ "type": "object", "properties": { "a": true } }),
        json!({ "type": "object", "properties": { "a": { "items": { "properties": { "b": false } } } } }),
        json!({ "type": "object", "properties": {}, "required": ["a"] }),
        json!({ "$ref": "#/$defs/A" }),
        json!({ "anyOf": [{}] }),
        json!({ "type": "integer", "format": "uint" }),
        json!({ "type": "object", "additionalProperties": true }),
    ] {
        assert!(!is_taken(bad.clone()), "{bad}");
    }
}

#[test]
fn schemas_say_what_calls_may_give() {
    let all = tools(None);
    let input = |name: &str| &all.iter().find(|tool| tool["name"] == name).unwrap()["inputSchema"];
    let search = input("search");
    assert_eq!(search["required"], json!(["question"]));
    assert_eq!(search["additionalProperties"], json!(false));
    assert_eq!(search["properties"]["mode"]["enum"], json!(["best", "dense", "lexical", "hybrid"]));
    assert_eq!(search["properties"]["mode"]["default"], json!("best"));
    assert_eq!(search["properties"]["filter"]["type"], json!("object"));
    let k = &search["properties"]["k"];
    assert_eq!((&k["type"], &k["minimum"], &k["maximum"]), (&json!("integer"), &json!(1), &json!(50)));
    let document = &input("insert")["properties"]["documents"]["items"];
    assert_eq!((&document["type"], &document["required"]), (&json!("object"), &json!(["id", "text"])));
    let fields = document["properties"].as_object().unwrap();
    assert_eq!(fields.keys().collect::<Vec<_>>(), ["id", "metadata", "text", "title"]);
}

#[test]
fn an_index_without_an_encoder_is_offered_what_works_there() {
    let flow = Flow::new();
    std::fs::remove_dir_all(flow.path("index")).unwrap();
    crate::program::ehi(["create", "--index", &flow.index(), "--dim", "4"]).ok();
    let tools = tools_of(&flow, &["--write"]);
    let named = |name: &str| tools.iter().find(|tool| tool["name"] == name);
    assert!(named("insert").is_none() && named("delete").is_some() && named("judge").is_some());
    for name in ["search", "explain"] {
        let mode = &named(name).unwrap()["inputSchema"]["properties"]["mode"];
        assert_eq!(mode["enum"], json!(["best", "lexical"]));
    }
}
