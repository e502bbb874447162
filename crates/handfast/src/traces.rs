//! Trace settings from the configuration and from OpenTelemetry's own variables.
//!
//! The names and meanings of the variables are those of OpenTelemetry's specification ("General SDK
//! Configuration", "OTLP Exporter"), so settings for other programs apply to this one, too.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ::traces::{Exporter, Options, Sampler};
use percent_encoding::percent_decode_str;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::report::{self, Warn};

/// Supported variables.
pub(crate) const VARIABLES: [&str; 18] = [
    "OTEL_SDK_DISABLED",
    "OTEL_TRACES_EXPORTER",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_HEADERS",
    "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
    "OTEL_EXPORTER_OTLP_TIMEOUT",
    "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
    "OTEL_EXPORTER_OTLP_PROTOCOL",
    "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
    "OTEL_SERVICE_NAME",
    "OTEL_RESOURCE_ATTRIBUTES",
    "OTEL_TRACES_SAMPLER",
    "OTEL_TRACES_SAMPLER_ARG",
    "OTEL_BSP_SCHEDULE_DELAY",
    "OTEL_BSP_MAX_QUEUE_SIZE",
    "OTEL_BSP_MAX_EXPORT_BATCH_SIZE",
    "OTEL_BSP_EXPORT_TIMEOUT",
];

/// Name of the only supported protocol.
const PROTOCOL: &str = "http/protobuf";

/// Maximum time that the end of the program waits for unsent traces.
pub(crate) const FAREWELL: Duration = Duration::from_secs(1);

/// A collector of traces, as configured.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Collector {
    /// Base URL, below which the collector accepts traces at `v1/traces`.
    #[schemars(extend("examples" = ["http://127.0.0.1:4318"]))]
    pub(crate) endpoint: String,
    /// Headers of every request, for example for authentication.
    #[serde(default)]
    #[schemars(extend("x-default" = "none", "examples" = [{"x-team": "tools"}]))]
    pub(crate) headers: BTreeMap<String, String>,
    /// Name of this program in the traces.
    #[schemars(extend("x-default" = "`handfast`", "examples" = ["handfast-ci"]))]
    pub(crate) service_name: Option<String>,
}

/// The variables as found in the environment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Variables(pub(crate) BTreeMap<&'static str, String>);

impl Variables {
    /// Returns the variable of this name. An empty variable counts as unset.
    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|value| value.trim()).filter(|value| !value.is_empty())
    }

    /// Returns the variable for traces, else the one for all signals.
    fn of_otlp(&self, name: &str) -> Option<&str> {
        self.get(&format!("OTEL_EXPORTER_OTLP_TRACES_{name}"))
            .or_else(|| self.get(&format!("OTEL_EXPORTER_OTLP_{name}")))
    }

    fn is_off(&self) -> bool {
        let disabled = self.get("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"));
        disabled || self.get("OTEL_TRACES_EXPORTER") == Some("none")
    }

    fn endpoint(&self) -> Option<String> {
        let exact = self.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT").map(str::to_owned);
        exact.or_else(|| self.get("OTEL_EXPORTER_OTLP_ENDPOINT").map(below))
    }

    /// Returns the values of headers, which prove the sender's identity. No answer and no log may
    /// show them.
    pub(crate) fn secrets(&self) -> Vec<(String, String)> {
        let lists = ["OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"];
        let all = lists.into_iter().filter_map(|name| Some((name, self.get(name)?)));
        all.flat_map(|(name, list)| pairs(list).into_iter().map(move |(_, value)| (name.to_owned(), value)))
            .collect()
    }
}

/// Parses the number in a variable, and warns if it is not a number.
fn number(name: &str, value: Option<&str>, warn: Warn) -> Option<u64> {
    let number = value?.parse().ok();
    if number.is_none() {
        warn(&format!("{name} is ignored: it must be a number"));
    }
    number
}

/// Returns the URL for traces below a base URL.
fn below(base: &str) -> String {
    format!("{}/v1/traces", base.trim_end_matches('/'))
}

/// Parses a list in the form of the variables: `name=value,name=value`, with percent-encoded values.
fn pairs(list: &str) -> Vec<(String, String)> {
    let pairs = list.split(',').filter_map(|pair| pair.split_once('='));
    let decoded = |value: &str| percent_decode_str(value.trim()).decode_utf8_lossy().into_owned();
    pairs.map(|(name, value)| (name.trim().to_owned(), decoded(value))).collect()
}

/// Starts the exporter for the traces of calls. Returns `None` if no collector is set. A wrong
/// setting causes a warning and does not prevent the start, because nothing depends on traces.
pub(crate) fn exporter(
    collector: Option<(Collector, bool)>,
    variables: &Variables,
    warn: Warn,
) -> Option<Arc<Exporter>> {
    let options = options(collector, variables, warn)?;
    match Exporter::start(options) {
        Ok(exporter) => Some(Arc::new(exporter)),
        Err(error) => {
            warn(&report::chain(&error));
            None
        }
    }
}

/// Combines the settings. The administrator's setting takes precedence over the variables, and
/// these over the user's file.
fn options(collector: Option<(Collector, bool)>, variables: &Variables, warn: Warn) -> Option<Options> {
    let (collector, is_managed) = collector.unzip();
    let is_managed = is_managed.unwrap_or_default();
    if variables.is_off() && !is_managed {
        return None;
    }
    let named = variables.endpoint().filter(|_| !is_managed);
    let of_variables = named.is_some();
    let endpoint = named.or_else(|| collector.as_ref().map(|collector| below(&collector.endpoint)))?;
    if let Some(protocol) =
        variables.of_otlp("PROTOCOL").filter(|protocol| of_variables && *protocol != PROTOCOL)
    {
        let protocol: String = tool::visible(protocol).chars().take(40).collect();
        warn(&format!(
            "no traces are sent: OTEL_EXPORTER_OTLP_PROTOCOL is {protocol}, but only {PROTOCOL} is \
             supported"
        ));
        return None;
    }
    let mut options = Options { version: env!("CARGO_PKG_VERSION"), ..Options::new(endpoint) };
    let collector = collector.filter(|_| !of_variables);
    options.headers = match &collector {
        Some(collector) => collector.headers.clone().into_iter().collect(),
        None => variables.of_otlp("HEADERS").map(pairs).unwrap_or_default(),
    };
    let attributes = variables.get("OTEL_RESOURCE_ATTRIBUTES").map(pairs).unwrap_or_default();
    let set = |name: &str, value: String, resource: &mut Vec<(String, String)>| {
        resource.retain(|(known, _)| known != name);
        resource.push((name.to_owned(), value));
    };
    set("service.version", options.version.to_owned(), &mut options.resource);
    for (name, value) in attributes {
        set(&name, value, &mut options.resource);
    }
    let of_file = collector.and_then(|collector| collector.service_name);
    if let Some(name) = variables.get("OTEL_SERVICE_NAME").map(str::to_owned).or(of_file) {
        set("service.name", name, &mut options.resource);
    }
    let timeout = number("OTEL_EXPORTER_OTLP_TIMEOUT", variables.of_otlp("TIMEOUT"), warn);
    let number = |name: &str| number(name, variables.get(name), warn);
    options.timeout = timeout.map_or(options.timeout, Duration::from_millis);
    options.delay = number("OTEL_BSP_SCHEDULE_DELAY").map_or(options.delay, Duration::from_millis);
    let size = |name: &str, usual: usize| {
        number(name)
            .filter(|size| *size > 0)
            .map_or(usual, |size| usize::try_from(size).unwrap_or(usual).min(1_000_000))
    };
    options.queue = size("OTEL_BSP_MAX_QUEUE_SIZE", options.queue);
    options.batch = size("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", options.batch);
    if let Some(name) = variables.get("OTEL_TRACES_SAMPLER") {
        match Sampler::named(name, variables.get("OTEL_TRACES_SAMPLER_ARG")) {
            Some(sampler) => options.sampler = sampler,
            None => warn("OTEL_TRACES_SAMPLER is ignored: it names an unknown sampler"),
        }
    }
    options.on_warning = Arc::new(report::warn);
    Some(options)
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;

    fn of(variables: &[(&'static str, &str)]) -> (Option<Options>, Vec<String>) {
        with(None, variables)
    }

    fn with(
        collector: Option<(Collector, bool)>,
        variables: &[(&'static str, &str)],
    ) -> (Option<Options>, Vec<String>) {
        for (name, _) in variables {
            assert!(VARIABLES.contains(name), "{name} is not read");
        }
        let variables =
            Variables(variables.iter().map(|(name, value)| (*name, (*value).to_owned())).collect());
        let told: Mutex<Vec<String>> = Mutex::default();
        let options = options(collector, &variables, &|warning: &str| told.lock().push(warning.to_owned()));
        (options, told.into_inner())
    }

    fn file(endpoint: &str) -> Collector {
        let headers = BTreeMap::from([("a".to_owned(), "b".to_owned())]);
        Collector { endpoint: endpoint.to_owned(), headers, service_name: Some("filed".to_owned()) }
    }

    #[test]
    fn without_an_endpoint_there_are_no_traces() {
        assert!(of(&[]).0.is_none());
        assert!(of(&[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")]).0.is_none());
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318");
        assert!(of(&[endpoint]).0.is_some());
        assert!(of(&[endpoint, ("OTEL_SDK_DISABLED", "TRUE")]).0.is_none());
        assert!(of(&[endpoint, ("OTEL_SDK_DISABLED", "no")]).0.is_some());
        assert!(of(&[endpoint, ("OTEL_TRACES_EXPORTER", "none")]).0.is_none());
        let (none, told) = of(&[endpoint, ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")]);
        assert!(none.is_none() && told[0].contains("http/protobuf"), "{told:?}");
    }

    #[test]
    fn the_variables_mean_what_the_specification_says() {
        let base = of(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318/otlp/")]).0.unwrap();
        assert_eq!(base.endpoint, "http://collector:4318/otlp/v1/traces");
        let (options, told) = of(&[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318"),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://traces.example/in"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20x, x-a = 1%2C2 ,broken"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "1500"),
            ("OTEL_SERVICE_NAME", "hands"),
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=other,deployment.environment.name=test"),
            ("OTEL_TRACES_SAMPLER", "traceidratio"),
            ("OTEL_TRACES_SAMPLER_ARG", "0.5"),
            ("OTEL_BSP_SCHEDULE_DELAY", "soon"),
            ("OTEL_BSP_MAX_QUEUE_SIZE", "7"),
        ]);
        let options = options.unwrap();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(options.endpoint, "https://traces.example/in");
        assert_eq!(options.headers, [pair("authorization", "Bearer x"), pair("x-a", "1,2")]);
        assert_eq!((options.timeout, options.queue), (Duration::from_millis(1500), 7));
        assert_eq!(
            options.resource,
            [
                pair("service.version", env!("CARGO_PKG_VERSION")),
                pair("deployment.environment.name", "test"),
                pair("service.name", "hands")
            ]
        );
        assert_eq!(options.sampler, Sampler { by_parent: false, share: ::traces::Share::Ratio(0.5) });
        assert_eq!(told, ["OTEL_BSP_SCHEDULE_DELAY is ignored: it must be a number"]);
    }

    #[test]
    fn the_administrators_collector_comes_before_the_variables_and_they_before_the_users() {
        let variable = [("OTEL_EXPORTER_OTLP_ENDPOINT", "http://variable:1")];
        let endpoint = |collector, variables: &[(&'static str, &str)]| {
            with(collector, variables).0.map(|options| options.endpoint)
        };
        let user = || Some((file("http://user:1"), false));
        let managed = || Some((file("http://managed:1"), true));
        assert_eq!(endpoint(user(), &[]).as_deref(), Some("http://user:1/v1/traces"));
        assert_eq!(endpoint(user(), &variable).as_deref(), Some("http://variable:1/v1/traces"));
        assert_eq!(endpoint(managed(), &variable).as_deref(), Some("http://managed:1/v1/traces"));
        let off = [("OTEL_SDK_DISABLED", "true")];
        assert_eq!(endpoint(user(), &off), None);
        assert_eq!(endpoint(managed(), &off).as_deref(), Some("http://managed:1/v1/traces"));
        let options = with(user(), &[]).0.unwrap();
        assert_eq!(options.headers, [("a".to_owned(), "b".to_owned())]);
        assert!(options.resource.contains(&("service.name".to_owned(), "filed".to_owned())));
        assert!(
            with(user(), &variable).0.unwrap().headers.is_empty(),
            "credentials go to where they are for"
        );
    }
}
