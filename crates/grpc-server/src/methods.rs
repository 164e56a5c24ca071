//! Methods, with the rules for each, on every transport.

use std::time::Duration;

/// A method, or all other methods of a service.
#[derive(Clone, Copy, Debug)]
pub struct Method {
    /// `package.Service/Method`, or `package.Service/` for all other methods of a service.
    pub path: &'static str,
    /// Access that it requires.
    pub callers: Callers,
    /// Kind of its work.
    pub class: Class,
    /// Largest message, in bytes.
    pub max_message: usize,
    /// Time for a call. `None` for a stream of messages, which bounds its own steps.
    pub timeout: Option<Duration>,
    /// Called all the time by each client. An outage is not logged for each of these calls.
    pub is_polled: bool,
}

/// Access that a method requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Callers {
    /// Any caller, such as load balancers and orchestrators, which have no credentials.
    Everyone,
    /// Callers with the credentials that the operator of the service requires.
    Clients,
    /// Operators, whose tokens are checked by the service.
    Operators,
}

/// Kind of work of a call. Each kind has a separate capacity, so that a flood of one kind never leads to
/// refusals of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Calls that read.
    Read,
    /// Calls that write.
    Write,
    /// Streams that write, of which each holds a permit from its first message to its end.
    Import,
    /// Calls of operators.
    Admin,
    /// Calls of other processes of the service.
    Internal,
    /// Batches, each of whose calls takes capacity.
    Batch,
    /// Health and reflection.
    Tool,
    /// Streams of answers for anyone, which stay open: each connection may have a few.
    Watch,
}

/// The methods of a server. Each row is a method, or all other methods of a service, which come last.
#[derive(Clone, Copy, Debug)]
pub struct Methods {
    /// Every method, and then the entries for the other methods of each service.
    pub rows: &'static [Method],
    /// Entry for all others.
    pub rest: &'static Method,
}

impl Methods {
    /// Returns the method at the path of a request, or the entry for the other methods of its service.
    pub fn find(self, path: &str) -> &'static Method {
        let path = path.strip_prefix('/').unwrap_or(path);
        let fits = |method: &&Method| {
            let is_method = !method.path.is_empty() && !method.path.ends_with(['/', '.']);
            if is_method { path == method.path } else { path.starts_with(method.path) }
        };
        self.rows.iter().find(fits).unwrap_or(self.rest)
    }
}

impl Method {
    /// Returns its name in metrics: without the service, but for operators, some of whose methods share names
    /// with others. The other methods of a service have its name.
    pub fn name(&self) -> &'static str {
        let separator = if self.callers == Callers::Operators { '.' } else { '/' };
        let name = self.path.trim_end_matches(['/', '.']).rsplit(separator).next();
        name.filter(|name| !name.is_empty()).unwrap_or("unknown")
    }
}
