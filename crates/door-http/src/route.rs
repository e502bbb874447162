//! Routes, and the roles that may use them.

use hyper::Method;
use tool::ToolError;

use crate::credential::Role;
use crate::error::HttpError;
use crate::mount_point::MountPoint;
use crate::query::plain;

/// A route, with its parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Route {
    /// State of the process.
    Health,
    /// Readiness for calls.
    Ready,
    /// Metrics.
    Metrics,
    /// `OpenAPI` document.
    OpenApi,
    /// Metadata about the identity provider (RFC 9728).
    Resource,
    /// List of tools.
    Tools,
    /// A call.
    Call,
    /// Policy check of a call.
    Check,
    /// Audit log.
    Audit,
    /// Audit log of one call.
    AuditOf(String),
    /// Approval requests.
    Approvals,
    /// One approval request.
    Approval(String),
    /// Approval of a request.
    Approve(String),
    /// Denial of a request.
    Deny(String),
    /// Leases, which are permissions for a limited time.
    Leases,
    /// One lease.
    Lease(String),
    /// Stream of approval requests.
    Events,
    /// Agents.
    Agents,
    /// Stream of what agents do.
    AgentEvents,
    /// A path of another protocol.
    Mount(&'static MountPoint),
}

/// Access to a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Access without a token.
    Open,
    /// Access with a token of one of these roles.
    Only(&'static [Role]),
}

/// The routes of one server: its own, and those of its mounts.
pub(crate) struct Routes(Vec<&'static MountPoint>);

impl Routes {
    /// Adds mounts to the server's own routes.
    ///
    /// # Errors
    /// [`HttpError::Mount`] for a path that is taken, and for a role that may answer questions.
    // INVARIANT: no credential both asks and answers.
    pub(crate) fn new(mounts: Vec<&'static MountPoint>) -> Result<Self, HttpError> {
        for (place, mount) in mounts.iter().enumerate() {
            let is_taken = mounts[..place].contains(mount) || !matches!(Route::find(mount.path), Ok(None));
            if is_taken || mount.roles.iter().any(|role| Route::Approve(String::new()).allows(*role)) {
                return Err(HttpError::Mount { path: mount.path });
            }
        }
        Ok(Self(mounts))
    }

    /// Returns the route at this path.
    ///
    /// # Errors
    /// `EVALIDATION` for an invalid escape.
    pub(crate) fn find(&self, path: &str) -> Result<Option<Route>, ToolError> {
        let mounted = self.0.iter().find(|mount| mount.path == path);
        mounted.map_or_else(|| Route::find(path), |mount| Ok(Some(Route::Mount(mount))))
    }

    /// Returns the mounted paths.
    pub(crate) fn points(&self) -> &[&'static MountPoint] {
        &self.0
    }
}

impl Route {
    /// Returns the server's own route at this path.
    ///
    /// # Errors
    /// `EVALIDATION` for an invalid escape.
    fn find(path: &str) -> Result<Option<Self>, ToolError> {
        let Some(path) = path.strip_prefix('/') else { return Ok(None) };
        let parts: Vec<&str> = path.split('/').collect();
        let id = |part: &&str| plain(part);
        Ok(Some(match parts.as_slice() {
            ["healthz"] => Self::Health,
            ["readyz"] => Self::Ready,
            ["metrics"] => Self::Metrics,
            [".well-known", "oauth-protected-resource"]
            | [".well-known", "oauth-protected-resource", "mcp"] => Self::Resource,
            ["v1", "openapi.json"] => Self::OpenApi,
            ["v1", "tools"] => Self::Tools,
            ["v1", "call"] => Self::Call,
            ["v1", "check"] => Self::Check,
            ["v1", "audit"] => Self::Audit,
            ["v1", "events"] => Self::Events,
            ["v1", "approvals"] => Self::Approvals,
            ["v1", "leases"] => Self::Leases,
            ["v1", "agents"] => Self::Agents,
            ["v1", "agents", "events"] => Self::AgentEvents,
            [_, _, "", ..] => return Ok(None),
            ["v1", "audit", call] => Self::AuditOf(id(call)?),
            ["v1", "leases", lease] => Self::Lease(id(lease)?),
            ["v1", "approvals", asked] => Self::Approval(id(asked)?),
            ["v1", "approvals", asked, "approve"] => Self::Approve(id(asked)?),
            ["v1", "approvals", asked, "deny"] => Self::Deny(id(asked)?),
            _ => return Ok(None),
        }))
    }

    /// Returns the path, with placeholders for its parameters.
    pub(crate) fn path(&self) -> &'static str {
        match self {
            Self::Health => "/healthz",
            Self::Ready => "/readyz",
            Self::Metrics => "/metrics",
            Self::Resource => "/.well-known/oauth-protected-resource",
            Self::OpenApi => "/v1/openapi.json",
            Self::Tools => "/v1/tools",
            Self::Call => "/v1/call",
            Self::Check => "/v1/check",
            Self::Audit => "/v1/audit",
            Self::AuditOf(_) => "/v1/audit/{call}",
            Self::Approvals => "/v1/approvals",
            Self::Approval(_) => "/v1/approvals/{id}",
            Self::Approve(_) => "/v1/approvals/{id}/approve",
            Self::Deny(_) => "/v1/approvals/{id}/deny",
            Self::Leases => "/v1/leases",
            Self::Lease(_) => "/v1/leases/{id}",
            Self::Events => "/v1/events",
            Self::Agents => "/v1/agents",
            Self::AgentEvents => "/v1/agents/events",
            Self::Mount(point) => point.path,
        }
    }

    /// Returns the methods in the form of the `Allow` header.
    pub(crate) fn methods(&self) -> &'static str {
        match self {
            Self::Call | Self::Check | Self::Approve(_) | Self::Deny(_) => "POST",
            Self::Lease(_) => "DELETE",
            Self::Mount(point) => point.methods,
            // The response to HEAD would never end, because the stream does not.
            Self::Events | Self::AgentEvents => "GET",
            _ => "GET, HEAD",
        }
    }

    pub(crate) fn takes(&self, method: &Method) -> bool {
        self.methods().split(", ").any(|known| known == method.as_str())
    }

    pub(crate) fn access(&self) -> Access {
        match self {
            Self::Health | Self::Ready | Self::Resource => Access::Open,
            Self::Call => Access::Only(&[Role::Agent]),
            Self::Mount(point) => Access::Only(point.roles),
            Self::Tools | Self::Check | Self::OpenApi | Self::Agents | Self::AgentEvents => {
                Access::Only(&[Role::Agent, Role::User])
            }
            Self::Metrics => Access::Only(&[Role::Observer, Role::User]),
            Self::Audit
            | Self::AuditOf(_)
            | Self::Approvals
            | Self::Approval(_)
            | Self::Approve(_)
            | Self::Deny(_)
            | Self::Leases
            | Self::Lease(_)
            | Self::Events => Access::Only(&[Role::User]),
        }
    }

    /// Returns true if holders of this role may use the route.
    pub(crate) fn allows(&self, role: Role) -> bool {
        match self.access() {
            Access::Open => true,
            Access::Only(roles) => roles.contains(&role),
        }
    }

    /// Returns one of the server's own routes of each kind.
    #[cfg(test)]
    pub(crate) fn all() -> Vec<Self> {
        let id = || "x".to_owned();
        vec![
            Self::Health,
            Self::Ready,
            Self::Metrics,
            Self::OpenApi,
            Self::Resource,
            Self::Tools,
            Self::Call,
            Self::Check,
            Self::Audit,
            Self::AuditOf(id()),
            Self::Approvals,
            Self::Approval(id()),
            Self::Approve(id()),
            Self::Deny(id()),
            Self::Leases,
            Self::Lease(id()),
            Self::Events,
            Self::Agents,
            Self::AgentEvents,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static MOUNTED: MountPoint =
        MountPoint { path: "/v1/mounted", roles: &[Role::Agent], methods: "POST", operations: Vec::new };

    #[test]
    fn a_mounted_path_is_a_route_for_its_roles_and_methods() {
        let routes = Routes::new(vec![&MOUNTED]).unwrap();
        let route = routes.find("/v1/mounted").unwrap().unwrap();
        assert_eq!(route, Route::Mount(&MOUNTED));
        assert_eq!((route.path(), route.access()), ("/v1/mounted", Access::Only(&[Role::Agent])));
        assert!(route.takes(&Method::POST) && !route.takes(&Method::GET));
        assert_eq!(routes.find("/v1/call").unwrap(), Some(Route::Call));
        for none in ["/v1/mounted/", "/v1/mounted/x", "/V1/mounted"] {
            assert_eq!(routes.find(none).unwrap(), None, "{none}");
        }
    }

    #[test]
    fn nothing_is_mounted_over_a_path_or_for_who_may_answer() {
        static TAKEN: MountPoint = MountPoint { path: "/v1/call", ..MOUNTED };
        static ANSWERS: MountPoint = MountPoint { roles: &[Role::Agent, Role::User], ..MOUNTED };
        for mounts in [vec![&TAKEN], vec![&MOUNTED, &MOUNTED], vec![&ANSWERS]] {
            let path = mounts[mounts.len() - 1].path;
            let refused = Routes::new(mounts).err().unwrap();
            assert!(matches!(refused, HttpError::Mount { path: refused } if refused == path), "{refused}");
        }
    }

    #[test]
    fn a_path_is_one_route_or_none() {
        for route in Route::all() {
            let path = route.path().replace("{id}", "x").replace("{call}", "x");
            assert_eq!(Route::find(&path).unwrap(), Some(route), "{path}");
        }
        let escaped = Route::find("/v1/approvals/a%20b/deny").unwrap();
        assert_eq!(escaped, Some(Route::Deny("a b".to_owned())));
        for none in [
            "",
            "/",
            "v1/call",
            "/v1",
            "/v1/",
            "/v1/call/",
            "/v1/call/x",
            "/v1//call",
            "/V1/call",
            "/healthz/x",
            "/v1/approvals/",
            "/v1/approvals//deny",
            "/v1/approvals/x/grant",
            "/mcp/x",
        ] {
            assert_eq!(Route::find(none).unwrap(), None, "{none}");
        }
        assert!(Route::find("/v1/approvals/%zz").is_err());
    }

    #[test]
    fn nobody_who_may_call_may_answer_and_nobody_who_may_answer_may_call() {
        let asks = |route: &Route| matches!(route, Route::Call);
        let answers = |route: &Route| matches!(route, Route::Approve(_) | Route::Deny(_) | Route::Lease(_));
        for role in Role::ALL {
            let may = |which: &dyn Fn(&Route) -> bool| {
                Route::all().iter().filter(|route| which(route)).any(|route| route.allows(role))
            };
            assert!(!(may(&asks) && may(&answers)), "{role:?}");
        }
    }
}
