//! Free ports on loopback.

use std::collections::HashSet;
use std::net::TcpListener;
use std::sync::{LazyLock, Mutex, PoisonError};

static GIVEN: LazyLock<Mutex<HashSet<u16>>> = LazyLock::new(Mutex::default);

/// A port nobody listens on now, and which this process has not given out before.
///
/// Another process may take it before you do: whoever starts a server on it has to be
/// ready to ask for another.
pub fn free_port() -> u16 {
    loop {
        let port = TcpListener::bind(("127.0.0.1", 0))
            .and_then(|listener| listener.local_addr())
            .expect("loopback has a free port")
            .port();
        let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
        if given.insert(port) {
            return port;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_given_once() {
        let ports: HashSet<u16> = (0..50).map(|_| free_port()).collect();
        assert_eq!(ports.len(), 50);
    }
}
