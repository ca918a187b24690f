//! Every route the program serves stands in the committed API document.

use std::path::Path;

use serde_json::Value;

use super::Verdict;
use super::generated::{Printed, print};

const DOCUMENT: &str = "docs/openapi.json";

pub(crate) fn check(root: &Path) -> Verdict {
    let routes = match print(&["routes"]) {
        Printed::Text(text) => text,
        Printed::NotYet(why) => return Verdict::NotYet(why),
        Printed::Failed(why) => return Verdict::Findings(vec![why]),
    };
    let text = std::fs::read_to_string(root.join(DOCUMENT)).unwrap_or_default();
    Verdict::Findings(match serde_json::from_str(&text) {
        Ok(document) => check_routes(&routes, &document),
        Err(error) => vec![format!("{DOCUMENT} is not JSON: {error}")],
    })
}

/// `routes` has one `METHOD path` per line.
fn check_routes(routes: &str, document: &Value) -> Vec<String> {
    let lines: Vec<&str> = routes.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if lines.is_empty() {
        return vec!["`oscar routes` printed no route".to_owned()];
    }
    lines
        .into_iter()
        .filter(|line| !is_documented(line, document))
        .map(|line| format!("{line} is not in {DOCUMENT}"))
        .collect()
}

fn is_documented(line: &str, document: &Value) -> bool {
    let Some((method, path)) = line.split_once(' ') else { return false };
    // The router writes `{*rest}` for what the document can only call `{rest}`.
    let path = path.trim().replace("{*", "{");
    document["paths"][path][method.to_lowercase()].is_object()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_route_that_is_not_documented_is_found() {
        let document = json!({"paths": {"/system/services/{name}": {"get": {}}, "/files/{path}": {"put": {}}}});
        let routes = "GET /system/services/{name}\nPUT /files/{*path}\nDELETE /system/services/{name}\n";
        assert_eq!(check_routes(routes, &document), ["DELETE /system/services/{name} is not in docs/openapi.json"]);
        assert_eq!(check_routes("", &document).len(), 1);
    }
}
