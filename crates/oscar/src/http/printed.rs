//! Services as they were printed for an earlier reader, because printing one is dearer than all
//! the rest of an answer.
//!
//! What is kept belongs to one state of one service, so nothing has to be told of changes. The
//! views never meet: each has a shelf of its own.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use axum::body::Bytes;
use axum::http::HeaderValue;
use oscar_api::json;
use oscar_api::service::encode;
use oscar_engine::ports::services::Stored;
use oscar_model::access::View;

/// Half of what one view may take: a shelf keeps the present generation and the one before it.
const GENERATION: usize = 4 << 20;

/// Larger ones would push too many others out.
const LARGEST: usize = 256 << 10;

/// The whole answer to a reader of one service.
#[derive(Debug, Clone)]
pub(super) struct Print {
    pub(super) body: Bytes,
    /// The revision in quotes; none if it is no text for a header.
    pub(super) etag: Option<HeaderValue>,
}

#[derive(Default)]
pub struct Prints {
    owner: Mutex<Shelf>,
    guest: Mutex<Shelf>,
}

impl Prints {
    /// What a reader with that view is shown of that state.
    pub(super) fn of(&self, stored: &Arc<Stored>, view: View) -> Print {
        let place = match view {
            View::Owner => &self.owner,
            View::Guest => &self.guest,
        };
        // Nothing that is done under the lock can leave a shelf half changed.
        let lock = || place.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(print) = lock().find(stored) {
            return print;
        }
        let print = Print { body: json::to_vec(&encode(&stored.service, view)).into(), etag: etag(stored) };
        if print.body.len() <= LARGEST {
            lock().keep(stored, print.clone());
        }
        print
    }
}

fn etag(stored: &Stored) -> Option<HeaderValue> {
    HeaderValue::from_str(&format!("\"{}\"", stored.revision)).ok()
}

/// Prints by name, the older half of which goes when it is full.
#[derive(Default)]
struct Shelf {
    young: HashMap<String, Kept>,
    old: HashMap<String, Kept>,
    /// Of the young.
    bytes: usize,
}

struct Kept {
    /// The state that was printed. Its place in memory is not given to another one while this
    /// is here, so the same place is the same state.
    of: Weak<Stored>,
    print: Print,
}

impl Shelf {
    fn find(&mut self, stored: &Arc<Stored>) -> Option<Print> {
        let name = stored.service.name().as_str();
        let is_it = |kept: &&Kept| std::ptr::eq(kept.of.as_ptr(), Arc::as_ptr(stored));
        if let Some(kept) = self.young.get(name).filter(is_it) {
            return Some(kept.print.clone());
        }
        let print = self.old.get(name).filter(is_it)?.print.clone();
        self.keep(stored, print.clone());
        Some(print)
    }

    fn keep(&mut self, stored: &Arc<Stored>, print: Print) {
        if self.bytes + print.body.len() > GENERATION {
            self.old = std::mem::take(&mut self.young);
            self.bytes = 0;
        }
        let name = stored.service.name().as_str();
        self.old.remove(name);
        self.bytes += print.body.len();
        let kept = Kept { of: Arc::downgrade(stored), print };
        if let Some(before) = self.young.insert(name.to_owned(), kept) {
            self.bytes -= before.print.body.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use oscar_engine::ports::services::Revision;
    use oscar_model::identity::Owner;
    use oscar_model::name::ServiceName;
    use oscar_model::secret::Secret;
    use oscar_model::service::{Definition, Service};

    use super::*;

    fn mk_stored(name: &str, script: &str) -> Arc<Stored> {
        let name = ServiceName::parse(name).expect("test names are valid");
        let service = Service {
            definition: Definition::new(name, "image", script),
            owner: Owner::Admin,
            owner_name: String::new(),
            token: Secret::new("ab".repeat(32)),
            namespace: "oscar-svc".to_owned(),
            bucket_list: vec![],
        };
        Arc::new(Stored { service, revision: Revision::new("1") })
    }

    fn printed(stored: &Stored, view: View) -> Vec<u8> {
        json::to_vec(&encode(&stored.service, view))
    }

    #[test]
    fn each_view_is_printed_as_itself_also_the_second_time() {
        let (prints, stored) = (Prints::default(), mk_stored("a", "true"));
        for _ in 0..2 {
            for view in [View::Owner, View::Guest] {
                assert_eq!(prints.of(&stored, view).body, printed(&stored, view));
            }
        }
        assert_ne!(printed(&stored, View::Owner), printed(&stored, View::Guest));
    }

    #[test]
    fn a_service_that_was_changed_or_made_again_is_printed_anew() {
        let prints = Prints::default();
        for script in ["true", "false"] {
            // The same name and the same revision: only the state itself counts.
            let stored = mk_stored("a", script);
            assert_eq!(prints.of(&stored, View::Owner).body, printed(&stored, View::Owner));
        }
    }

    #[test]
    fn a_second_reader_gets_the_same_bytes() {
        let (prints, stored) = (Prints::default(), mk_stored("a", "true"));
        let places = [(); 2].map(|()| prints.of(&stored, View::Owner).body.as_ptr());
        assert_eq!(places[0], places[1]);
    }

    #[test]
    fn a_shelf_does_not_grow_over_its_limit() {
        let prints = Prints::default();
        let script = "x".repeat(LARGEST / 2);
        let all: Vec<_> = (0..100).map(|number| mk_stored(&format!("s-{number}"), &script)).collect();
        for stored in &all {
            prints.of(stored, View::Owner);
            let shelf = prints.owner.lock().expect("nobody panicked");
            let kept: usize = shelf.young.values().chain(shelf.old.values()).map(|kept| kept.print.body.len()).sum();
            assert!(shelf.bytes <= GENERATION && kept <= 2 * GENERATION, "{kept} bytes");
        }
        let huge = mk_stored("huge", &"x".repeat(LARGEST + 1));
        prints.of(&huge, View::Owner);
        assert!(!prints.owner.lock().expect("nobody panicked").young.contains_key("huge"));
    }
}
