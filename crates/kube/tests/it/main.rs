//! The adapters on a real kube-apiserver.

mod cluster;
mod conformance;
mod crash;
mod deploy;
mod doubled;
mod federation;
mod federation_rights;
mod gate;
mod gone;
mod homes;
mod managers;
mod refused;
mod restart;
mod settings;
mod strangers;
mod support;
mod throttled;
mod upstream;
