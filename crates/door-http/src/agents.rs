//! The agents of this server: `/v1/agents`, and what they do as server-sent events: `/v1/agents/events`.
//!
//! A user sees all agents, and a caller those of its own sessions.

use std::sync::Arc;

use engine::{AgentEvent, AgentFeed, AgentOwner, AgentView};
use hyper::StatusCode;
use serde::Serialize;
use serde_json::json;
use tokio::sync::{broadcast, mpsc};
use tokio::time::{Instant, MissedTickBehavior};
use tool::{Code, Retry, ToolError};

use crate::body::{self, Event};
use crate::credential::Role;
use crate::reply::{self, Reply};
use crate::sender::Sender;
use crate::state::ServerState;

/// `GET /v1/agents`: the agents, in the order of their creation.
pub(crate) fn list(shared: &ServerState, sender: &Sender) -> Reply {
    let feed = shared.engine.agents();
    let agents = feed.map(|feed| seen(feed.as_ref(), sender)).unwrap_or_default();
    reply::json(StatusCode::OK, &json!({ "agents": agents }))
}

/// `GET /v1/agents/events`: first each agent, then their events.
pub(crate) fn follow(shared: &Arc<ServerState>, sender: &Sender) -> Reply {
    let Some(feed) = shared.engine.agents() else {
        return reply::failure(&ToolError::new(Code::Unavailable, "this server has no agents"));
    };
    let Ok(place) = shared.agent_followers.clone().try_acquire_owned() else {
        let full = ToolError::new(Code::Quota, "too many clients follow the agents");
        return reply::failure(&full.retry(Retry::AfterMs(1000)));
    };
    // An agent that starts in between is told twice, and none is missed.
    let (told, agents) = (feed.follow(), seen(feed.as_ref(), sender));
    let (events, reply) = reply::events(place);
    tokio::spawn(tell(shared.clone(), sender.clone(), agents, told, events));
    reply
}

fn seen(feed: &dyn AgentFeed, sender: &Sender) -> Vec<AgentView> {
    let mut agents = feed.agents();
    agents.retain(|agent| sees(sender, &agent.owner));
    agents
}

fn sees(sender: &Sender, owner: &AgentOwner) -> bool {
    sender.role == Role::User || owner.is(&sender.session)
}

async fn tell(
    shared: Arc<ServerState>,
    sender: Sender,
    agents: Vec<AgentView>,
    mut told: broadcast::Receiver<AgentEvent>,
    events: mpsc::Sender<Event>,
) {
    for agent in &agents {
        if !send(&events, "agent", agent).await {
            return;
        }
    }
    let mut stopping = shared.stopping.subscribe();
    let mut beats =
        tokio::time::interval_at(Instant::now() + body::HEARTBEAT_INTERVAL, body::HEARTBEAT_INTERVAL);
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let goes_on = tokio::select! {
            event = told.recv() => match event {
                Ok(event) if sees(&sender, &event.owner) => send(&events, "event", &event).await,
                Ok(_) => true,
                Err(broadcast::error::RecvError::Lagged(missed)) => {
                    send(&events, "missed", &json!({ "events": missed })).await
                }
                Err(broadcast::error::RecvError::Closed) => false,
            },
            // A client that has not read the previous events needs no heartbeat.
            _ = beats.tick() => {
                drop(events.try_send(body::HEARTBEAT.into()));
                true
            }
            () = events.closed() => false,
            // The only change is the stop.
            _ = stopping.changed() => false,
        };
        if !goes_on {
            return;
        }
    }
}

/// Sends an event. Returns false if the client has gone.
async fn send(events: &mpsc::Sender<Event>, name: &str, data: &impl Serialize) -> bool {
    match serde_json::to_vec(data) {
        Ok(text) => events.send(body::event(name, &text).into()).await.is_ok(),
        Err(_) => true,
    }
}
