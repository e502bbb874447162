//! The tools that speak to other servers. One file each; this is only the list.

mod answer;
mod exchange;
mod fetch_url;
mod page;
mod placeholders;
mod saving;

use std::sync::Arc;

use tool::{AnyTool, Erased};

pub use fetch_url::FetchUrl;
pub use placeholders::EnvironmentSecrets;

/// The family, in the order in which it is listed.
pub fn tools() -> Vec<Arc<dyn AnyTool>> {
    vec![Erased::tool(FetchUrl)]
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use fetch::address::Host;
    use fetch::web::Web;
    use testkit::web::{Authority, Reply, Server};
    use testkit::{Workspace, check_family};
    use tool::Hosts;

    use crate::fetch_url::tests::Rules;

    #[test]
    fn every_tool_of_the_family_fulfils_what_all_must() {
        let runtime = crate::fetch_url::tests::runtime();
        let _entered = runtime.enter();
        let authority = Authority::new();
        let server = Server::https(&authority, "api.example.com", |request| match request.path.as_str() {
            "/issues/1" => Reply::json(r#"{"id": 1}"#),
            _ => Reply::status(404),
        });
        check_family(&super::tools(), || {
            let host = Host::parse("api.example.com").unwrap();
            let web = Web::trusting(vec![authority.certificate()]).connecting(host, 443, server.address);
            let hosts: Arc<dyn Hosts> = Arc::new(Rules::default());
            Workspace::new().with_service(Arc::new(web)).with_service(Arc::new(hosts))
        });
    }
}
