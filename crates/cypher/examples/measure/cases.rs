//! The queries of the measurement.

/// A query in both directions of writing.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// Most time of the median, in milliseconds.
    pub(crate) target: Option<f64>,
    pub(crate) forward: &'static str,
    pub(crate) backward: &'static str,
    /// Query in the language of the peer.
    pub(crate) peer: &'static str,
}

/// All queries.
pub(crate) const CASES: [Case; 10] = [
    Case {
        name: "lookup by id",
        target: None,
        forward: "MATCH (f:Function {id: $id}) RETURN f.name",
        backward: "MATCH (f:Function) WHERE $id = f.id RETURN f.name",
        peer: "MATCH (f:Function {id: $id}) RETURN f.name",
    },
    Case {
        name: "lookup by name",
        target: None,
        forward: "MATCH (f:Function {name: $name}) RETURN f.id",
        backward: "MATCH (f) WHERE $name = f.name RETURN f.id",
        peer: "MATCH (f:Function {name: $name}) RETURN f.id",
    },
    Case {
        name: "one hop",
        target: Some(0.1),
        forward: "MATCH (f:Function {id: $id})-[:CALLS]->(g:Function) RETURN g.name",
        backward: "MATCH (g:Function)<-[:CALLS]-(f:Function {id: $id}) RETURN g.name",
        peer: "MATCH (f:Function {id: $id})-[:CALLS]->(g:Function) RETURN g.name",
    },
    Case {
        name: "callers, one hop",
        target: Some(0.1),
        forward: "MATCH (f:Function {id: $id})<-[:CALLS]-(g:Function) RETURN g.name",
        backward: "MATCH (g:Function)-[:CALLS]->(f:Function {id: $id}) RETURN g.name",
        peer: "MATCH (f:Function {id: $id})<-[:CALLS]-(g:Function) RETURN g.name",
    },
    Case {
        name: "three hops, distinct",
        target: Some(1.0),
        forward: "MATCH (f:Function {id: $id})-[:CALLS*1..3]->(g:Function) RETURN DISTINCT g.name",
        backward: "MATCH (g:Function)<-[:CALLS*1..3]-(f:Function {id: $id}) RETURN DISTINCT g.name",
        peer: "MATCH (f:Function {id: $id})-[:CALLS*1..3]->(g:Function) RETURN DISTINCT g.name",
    },
    Case {
        name: "callers, three hops, counted",
        target: Some(1.0),
        forward: "MATCH (f:Function {id: $id})<-[:CALLS*1..3]-(g:Function) RETURN count(DISTINCT g)",
        backward: "MATCH (g:Function)-[:CALLS*1..3]->(f:Function {id: $id}) RETURN count(DISTINCT g)",
        peer: "MATCH (f:Function {id: $id})<-[:CALLS*1..3]-(g:Function) RETURN count(DISTINCT g)",
    },
    Case {
        name: "shortest path up to 6",
        target: Some(4.0),
        forward: "MATCH (a:Function {id: $id}), (b:Function {id: $other}) \
                  MATCH p = shortestPath((a)-[:CALLS*..6]->(b)) RETURN length(p)",
        backward: "MATCH p = shortestPath((b:Function {id: $other})<-[:CALLS*..6]-(a:Function {id: $id})) \
                   RETURN length(p)",
        peer: "MATCH p = (a:Function {id: $id})-[:CALLS* SHORTEST 1..6]->(b:Function {id: $other}) RETURN length(p)",
    },
    Case {
        name: "functions without a caller",
        target: Some(100.0),
        forward: "MATCH (f:Function) WHERE NOT (f)<-[:CALLS]-() RETURN count(f)",
        backward: "MATCH (f:Function) WHERE NOT ()-[:CALLS]->(f) RETURN count(f)",
        peer: "MATCH (f:Function) WHERE NOT (f)<-[:CALLS]-() RETURN count(f)",
    },
    Case {
        name: "10 most called",
        target: Some(100.0),
        forward: "MATCH (f:Function)<-[:CALLS]-(g) RETURN f.name, count(*) AS n ORDER BY n DESC LIMIT 10",
        backward: "MATCH (g)-[:CALLS]->(f:Function) RETURN f.name, count(*) AS n ORDER BY n DESC LIMIT 10",
        peer: "MATCH (f:Function)<-[:CALLS]-(g:Function) RETURN f.name, count(*) AS n ORDER BY n DESC LIMIT 10",
    },
    Case {
        name: "10 files with most callees",
        target: Some(100.0),
        forward: "MATCH (f:Function)-[:CALLS]->(g:Function) RETURN g.file, count(*) AS n ORDER BY n DESC LIMIT 10",
        backward: "MATCH (g:Function)<-[:CALLS]-(f:Function) RETURN g.file, count(*) AS n ORDER BY n DESC LIMIT 10",
        peer: "MATCH (f:Function)-[:CALLS]->(g:Function) RETURN g.file, count(*) AS n ORDER BY n DESC LIMIT 10",
    },
];
