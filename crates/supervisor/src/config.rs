//! The part of a service that a job needs, from `function_config.yaml`.

use base64::Engine as _;
use oscar_api::service::providers;
use oscar_api::tree::{Fields, Reader, parse_json, parse_yaml};
use oscar_model::fault::quoted;
use oscar_model::service::storage::{PROVIDER_RULE, ProviderRef, StorageIo, StorageProviders};
use oscar_model::service::{Isolation, LogLevel, Service};

/// What a job has to know of its service. Other keys of the stored record are not even read, so
/// that a record of a newer manager is no obstacle.
#[derive(Debug, Clone, Default)]
pub struct FunctionConfig {
    pub name: String,
    pub input: Vec<StorageIo>,
    pub output: Vec<StorageIo>,
    pub storage_providers: StorageProviders,
    /// Despite its name: true *skips* the download of the input.
    pub file_stage_in: bool,
    pub log_level: LogLevel,
    pub isolation: Isolation,
    pub bucket_list: Vec<String>,
}

impl FunctionConfig {
    /// Reads the stored record, as YAML or JSON. The cause of a failure is a sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        let json = text.trim_start().starts_with('{');
        let node = if json { parse_json(text.as_bytes()) } else { parse_yaml(text) };
        let node = node.map_err(|malformed| format!("the definition of the service cannot be read: {malformed}"))?;
        let reader = Reader::new(&node, true);
        let fields = reader.fields("");
        let config = Self {
            name: fields.text("name"),
            input: storage_list(&fields, "input"),
            output: storage_list(&fields, "output"),
            storage_providers: providers(&fields),
            file_stage_in: fields.flag("file_stage_in"),
            log_level: LogLevel::parse(&fields.text("log_level")),
            isolation: if fields.text("isolation_level") == "USER" { Isolation::User } else { Isolation::Unset },
            bucket_list: fields.texts("bucket_list"),
        };
        let faults = reader.into_faults();
        faults.into_result(config).map_err(|faults| format!("the definition of the service cannot be used: {faults}"))
    }

    /// Reads base64 of the record: the variable `FUNCTION_CONFIG`.
    pub fn parse_base64(text: &str) -> Result<Self, String> {
        let dense: String = text.split_ascii_whitespace().collect();
        let bytes = base64::engine::general_purpose::STANDARD.decode(dense);
        let text = bytes.ok().and_then(|bytes| String::from_utf8(bytes).ok());
        Self::parse(&text.ok_or("the variable FUNCTION_CONFIG is no base64 of a text")?)
    }
}

impl From<&Service> for FunctionConfig {
    fn from(service: &Service) -> Self {
        let definition = &service.definition;
        Self {
            name: definition.name.to_string(),
            input: definition.input.clone(),
            output: definition.output.clone(),
            storage_providers: definition.storage_providers.clone(),
            file_stage_in: definition.file_stage_in,
            log_level: definition.log_level,
            isolation: definition.isolation,
            bucket_list: service.bucket_list.clone(),
        }
    }
}

fn storage_list(fields: &Fields<'_>, key: &str) -> Vec<StorageIo> {
    let mut list = Vec::new();
    for (node, path) in fields.items(key) {
        let entry = fields.reader().fields_of(node, &path);
        let provider_text = entry.text("storage_provider");
        match ProviderRef::parse(&provider_text) {
            Some(provider) => list.push(StorageIo {
                provider_text,
                provider,
                path: entry.text("path"),
                suffix: entry.texts("suffix"),
                prefix: entry.texts("prefix"),
                options: String::new(),
            }),
            None => entry.fault("storage_provider", quoted(&provider_text), PROVIDER_RULE),
        }
    }
    list
}

#[cfg(test)]
mod tests {
    use oscar_model::service::storage::Provider;

    use super::*;

    const RECORD: &str = "name: plants\nimage: a/b\nmemory: 1Gi\nfuture_key: {x: 1}\nlog_level: DEBUG\nfile_stage_in: false\n\
        input:\n- storage_provider: minio.default\n  path: plants/in\noutput:\n- storage_provider: minio\n  path: plants/out\n  suffix: ['.txt']\n\
        isolation_level: USER\nbucket_list: [plants-abc]\nstorage_providers:\n  minio:\n    default:\n      endpoint: http://x:9000\n      verify: false\n      access_key: hidden\n      secret_key: hidden\n      region: us-east-1\n";

    #[test]
    fn the_stored_record_is_read_in_both_dresses() {
        let encoded = base64::engine::general_purpose::STANDARD.encode(RECORD);
        for config in [FunctionConfig::parse(RECORD), FunctionConfig::parse_base64(&encoded)] {
            let config = config.expect("valid");
            assert_eq!((config.input.len(), config.output[0].suffix.as_slice()), (1, &[".txt".to_owned()][..]));
            assert_eq!((config.log_level, config.isolation), (LogLevel::Debug, Isolation::User));
            assert!(matches!(config.storage_providers.values().next(), Some(Provider::Minio { verify: false, .. })));
        }
    }

    #[test]
    fn a_fault_names_its_place() {
        let sentence = FunctionConfig::parse("output:\n- storage_provider: ftp.x\n").expect_err("no such type");
        assert!(sentence.contains("output[0].storage_provider"), "{sentence}");
        assert!(FunctionConfig::parse("").is_err() && FunctionConfig::parse_base64("%%").is_err());
    }
}
