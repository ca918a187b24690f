//! Parts of the request schema that a derived schema cannot say: patterns of map keys, values
//! that may be `null`, alternatives.

use utoipa::openapi::schema::{AnyOfBuilder, Array, ArrayBuilder, Object, ObjectBuilder, Schema, SchemaType, Type};

const NUMBER: &str = r"([0-9]+(\.[0-9]*)?|\.[0-9]+)";
const NUMBER_ABOVE_ZERO: &str = r"([0-9]*[1-9][0-9]*(\.[0-9]*)?|[0-9]*\.[0-9]*[1-9][0-9]*)";
const SUFFIX: &str = "([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,3})?";
const LABEL_KEY: &str = "^([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$";
const SECRET_NAME: &str = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$";
const PROVIDER_ID: &str = "^[!-~]{1,63}$";

pub(super) fn or_null(kind: Type) -> SchemaType {
    SchemaType::from_iter([kind, Type::Null])
}

fn text_like(pattern: String) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(or_null(Type::String)).pattern(Some(pattern))
}

pub(super) fn quantity() -> Object {
    text_like(format!("^({NUMBER}{SUFFIX})?$")).max_length(Some(64)).build()
}

pub(super) fn positive_quantity() -> Object {
    text_like(format!("^({NUMBER_ABOVE_ZERO}{SUFFIX})?$")).max_length(Some(64)).build()
}

fn any_text() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(or_null(Type::String))
}

/// A map whose keys follow a pattern.
fn map(keys: &str, values: ObjectBuilder) -> Object {
    ObjectBuilder::new()
        .schema_type(or_null(Type::Object))
        .property_names(Some(ObjectBuilder::new().schema_type(Type::String).pattern(Some(keys))))
        .additional_properties(Some(values))
        .build()
}

pub(super) fn variables() -> Object {
    map("^[A-Za-z_.-][A-Za-z0-9_.-]{0,252}$", any_text())
}

pub(super) fn texts_by_label_key() -> Object {
    map(LABEL_KEY, any_text())
}

pub(super) fn labels() -> Object {
    map(LABEL_KEY, text_like("^([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$".to_owned()))
}

fn texts(names: &[&str]) -> ObjectBuilder {
    let object = ObjectBuilder::new().schema_type(or_null(Type::Object));
    names.iter().fold(object, |object, name| object.property(*name, any_text()))
}

fn flag() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(or_null(Type::Boolean))
}

pub(super) fn clusters() -> Object {
    let cluster = texts(&["endpoint", "auth_user", "auth_password"]).property("ssl_verify", flag());
    ObjectBuilder::new().schema_type(or_null(Type::Object)).additional_properties(Some(cluster)).build()
}

pub(super) fn minio_providers() -> Object {
    map(PROVIDER_ID, texts(&["endpoint", "access_key", "secret_key", "region"]).property("verify", flag()))
}

pub(super) fn s3_providers() -> Object {
    map(PROVIDER_ID, texts(&["access_key", "secret_key", "region"]))
}

pub(super) fn onedata_providers() -> Object {
    map(PROVIDER_ID, texts(&["oneprovider_host", "token", "space"]))
}

pub(super) fn webdav_providers() -> Object {
    map(PROVIDER_ID, texts(&["hostname", "login", "password"]))
}

pub(super) fn rucio_providers() -> Object {
    let names = ["host", "account", "rse", "refresh_token", "auth_host", "oidc_audience", "token_endpoint"];
    map(PROVIDER_ID, texts(&names))
}

fn list(items: ObjectBuilder) -> Array {
    ArrayBuilder::new().schema_type(or_null(Type::Array)).items(items).build()
}

pub(super) fn subjects() -> Array {
    list(text_like("^[^\\x00-\\x1f\\x7f-\\x9f]*$".to_owned()).max_length(Some(255)))
}

pub(super) fn secret_names() -> Array {
    list(ObjectBuilder::new().schema_type(Type::String).pattern(Some(SECRET_NAME)))
}

/// One port or a list of them; older clients send 0 for none.
pub(super) fn ports() -> Schema {
    let port = || {
        let number = ObjectBuilder::new().schema_type(or_null(Type::Integer));
        number.minimum(Some(0)).maximum(Some(65_535))
    };
    AnyOfBuilder::new().item(port()).item(ArrayBuilder::new().items(port())).build().into()
}

pub(super) fn weights() -> Object {
    let weight = ObjectBuilder::new().schema_type(Type::Number).minimum(Some(0)).maximum(Some(1_000_000));
    let weights = ObjectBuilder::new().schema_type(or_null(Type::Object)).additional_properties(Some(weight));
    weights.description(Some("At most three decimals.")).build()
}

pub(super) fn delegation() -> Schema {
    let mode = || text_like("^(static|random|load-based|topsis)?$".to_owned());
    let nested = ObjectBuilder::new().schema_type(Type::Object).property("mode", mode()).property("weights", weights());
    AnyOfBuilder::new().item(mode()).item(nested).build().into()
}
