use oscar_api::record::from_text;
use oscar_model::service::Sensitive;

use super::definition::stored_comes_back;

/// A stored definition, maybe by another manager: what is understood is understood the same
/// after it was stored again.
pub fn record(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match from_text(text, "#!/bin/sh\necho hello\n", "oscar-svc") {
        Ok(mut service) => {
            // Other managers keep values in the text; ours are stored apart.
            let _values = Sensitive::take_from(&mut service.definition);
            stored_comes_back(&service);
        }
        Err(cause) => assert!(!cause.is_empty(), "refused without a cause"),
    }
}
