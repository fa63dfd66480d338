//! `Host`/`Origin` allow-list for servers without API keys. Otherwise a web page could reach the local server through DNS
//! rebinding and read, spend and delete with the user's access.

use std::net::{IpAddr, SocketAddr};

use axum::extract::Request;
use axum::http::{HeaderName, header};

use crate::problem::Problem;

const LOOPBACK_HOSTS: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// Accepted host names and web origins.
#[derive(Debug, Clone)]
pub struct HostGuard {
    hosts: Vec<String>,
    origins: Vec<String>,
}

impl HostGuard {
    /// Accepts loopback names, the address of `listen`, and the configured `hosts` and `origins`. `*` among the hosts accepts
    /// every name.
    pub fn new(listen: SocketAddr, hosts: &[String], origins: &[String]) -> Self {
        if hosts.iter().any(|host| host == "*") {
            return Self {
                hosts: Vec::new(),
                origins: origins.to_vec(),
            };
        }
        let own = LOOPBACK_HOSTS.map(str::to_owned).into_iter();
        let address = Some(listen.ip())
            .filter(|ip| !ip.is_unspecified())
            .map(|ip| ip.to_string());
        Self {
            hosts: own.chain(address).chain(hosts.iter().cloned()).collect(),
            origins: origins.to_vec(),
        }
    }

    /// Host names; one without a port matches any port. None: every name is accepted.
    pub fn hosts(&self) -> &[String] {
        &self.hosts
    }

    pub fn origins(&self) -> &[String] {
        &self.origins
    }

    /// Refuses a request with an unknown `Host` or `Origin`.
    pub fn check(&self, request: &Request) -> Result<(), Problem> {
        let host = header_text(request, header::HOST).or_else(|| {
            request
                .uri()
                .authority()
                .map(|authority| authority.as_str())
        });
        if host.is_some_and(|host| !self.is_allowed_host(host)) {
            let next = "use localhost, or add the name to query.hosts; \"*\" accepts every name";
            return Err(
                Problem::new(403, "request.host_unknown", "unknown `Host` name").with_next(next),
            );
        }
        match header_text(request, header::ORIGIN) {
            Some(origin) if !self.is_allowed_origin(origin) && !is_own_origin(origin, host) => {
                Err(Problem::new(
                    403,
                    "request.origin_refused",
                    "web pages of this origin may not call the server",
                )
                .with_next("add the origin to query.origins"))
            }
            _ => Ok(()),
        }
    }

    fn is_allowed_origin(&self, origin: &str) -> bool {
        let origin = normalize_origin(origin);
        self.origins
            .iter()
            .any(|allowed| normalize_origin(allowed) == origin)
    }

    fn is_allowed_host(&self, host: &str) -> bool {
        if self.hosts.is_empty() {
            return true;
        }
        let host = host.to_ascii_lowercase();
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
            _ => host.as_str(),
        };
        let bare = name.trim_start_matches('[').trim_end_matches(']');
        // All of 127.0.0.0/8 is loopback, not only 127.0.0.1.
        self.hosts.iter().any(|allowed: &String| {
            [host.as_str(), name, bare].contains(&allowed.to_ascii_lowercase().as_str())
        }) || bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
    }
}

// Whether the page is of this server, whose name is checked before.
fn is_own_origin(origin: &str, host: Option<&str>) -> bool {
    let authority = origin
        .strip_prefix("http://")
        .or_else(|| origin.strip_prefix("https://"));
    matches!((authority, host), (Some(page), Some(host)) if page.eq_ignore_ascii_case(host))
}

// A value that is not ASCII matches no allowed name.
fn header_text(request: &Request, name: HeaderName) -> Option<&str> {
    let value = request.headers().get(name)?;
    Some(value.to_str().unwrap_or("?"))
}

fn normalize_origin(origin: &str) -> String {
    origin
        .trim_end_matches('/')
        .trim_end_matches(":443")
        .to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_status(guard: &HostGuard, head: &[(&str, &str)]) -> Option<u16> {
        let request = head.iter().fold(
            Request::builder().uri("/v1/search"),
            |request, (name, value)| request.header(*name, *value),
        );
        let refused = guard.check(&request.body(axum::body::Body::empty()).unwrap());
        refused.err().map(|problem| {
            axum::response::IntoResponse::into_response(problem)
                .status()
                .as_u16()
        })
    }

    #[test]
    fn foreign_hosts_and_origins_are_refused() {
        let listen = "127.0.0.1:8080".parse().unwrap();
        let own = HostGuard::new(listen, &[], &[]);
        for host in [
            "localhost",
            "LOCALHOST:8080",
            "127.0.0.1:8080",
            "127.0.0.2",
            "[::1]:8080",
            "::1",
        ] {
            assert_eq!(check_status(&own, &[("host", host)]), None, "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:8080",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "10.0.0.1",
        ] {
            assert_eq!(check_status(&own, &[("host", host)]), Some(403), "{host}");
        }
        for origin in ["http://localhost:8080", "https://LOCALHOST:8080"] {
            let head = [("host", "localhost:8080"), ("origin", origin)];
            assert_eq!(check_status(&own, &head), None, "{origin}");
        }
        for origin in ["null", "http://evil.example", "http://localhost:3000"] {
            assert_eq!(
                check_status(&own, &[("host", "localhost"), ("origin", origin)]),
                Some(403),
                "{origin}"
            );
        }
        let guard = HostGuard::new(
            listen,
            &["stemma.example".into()],
            &["https://app.example:443".into()],
        );
        assert_eq!(
            check_status(
                &guard,
                &[
                    ("host", "stemma.example:80"),
                    ("origin", "https://app.example")
                ]
            ),
            None
        );
        let any = HostGuard::new(listen, &["*".into()], &[]);
        assert_eq!(check_status(&any, &[("host", "evil.example")]), None);
        let foreign = [("host", "a.example"), ("origin", "http://b.example")];
        assert_eq!(check_status(&any, &foreign), Some(403));
    }
}
