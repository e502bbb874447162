//! A store that forwards every operation to another one, except those with a fault.

use std::collections::HashSet;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use store_api::*;

/// A deliberate fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    OutcomeFirst,
    RowsOfOneProcess,
    SecondAnswerCounts,
    UsedTwice,
    ExpiredLease,
    PartOfAnyWorkspace,
    PathIgnored,
    CallsWithoutEnd,
    WorkspaceIgnored,
    TimeIgnored,
    OutputWithoutSession,
    EmptyContent,
    MemoryOfAnother,
    StaleVectors,
    WatcherOfAnyWorkspace,
    NobodyWaits,
    AlwaysDue,
    TrustStays,
    SecretsInRows,
    ClaimWithoutFence,
    LeaseIgnored,
    PauseIgnored,
    AgentTaken,
    AgentWithoutFence,
    MailOutOfOrder,
    MailAcknowledgedTwice,
    ReplyOfAnother,
    ReplyKept,
    ReplyInOrder,
    ReservationForgotten,
}

/// A store with one fault. Every part of it is this value.
pub(crate) struct BrokenStore {
    inner: Arc<dyn Store>,
    fault: Fault,
}

impl BrokenStore {
    pub(crate) fn new(inner: Arc<dyn Store>, fault: Fault) -> Self {
        Self { inner, fault }
    }

    fn has(&self, fault: Fault) -> bool {
        self.fault == fault
    }
}

/// Implements a trait by the faulty methods in braces, and forwards the methods after them.
macro_rules! forwards {
    ($trait:ident by $part:ident; { $($faulty:tt)* }
     $(fn $method:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        impl $trait for BrokenStore {
            $($faulty)*
            $(fn $method(&self, $($argument: $type),*) -> $result {
                self.inner.$part().$method($($argument),*)
            })*
        }
    };
}

type StoreResult<T> = Result<T, StoreError>;

impl Store for BrokenStore {
    fn cover_rows(&self, cover: Box<Cover>) {
        if !self.has(Fault::SecretsInRows) {
            self.inner.cover_rows(cover);
        }
    }
    fn audit(&self) -> &dyn AuditLog {
        self
    }
    fn blobs(&self) -> &dyn Blobs {
        self
    }
    fn outputs(&self) -> &dyn Outputs {
        self
    }
    fn checkpoints(&self) -> &dyn Checkpoints {
        self
    }
    fn trust(&self) -> &dyn Trust {
        self
    }
    fn approvals(&self) -> &dyn Approvals {
        self
    }
    fn leases(&self) -> &dyn Leases {
        self
    }
    fn memories(&self) -> &dyn Memories {
        self
    }
    fn schedules(&self) -> &dyn Schedules {
        self
    }
    fn agents(&self) -> &dyn AgentStore {
        self
    }
    fn mail(&self) -> &dyn MailStore {
        self
    }
    fn spending(&self) -> &dyn SpendingStore {
        self
    }
    fn move_log(&self) -> StoreResult<()> {
        self.inner.move_log()
    }
    fn require_room(&self, paths: usize) -> StoreResult<()> {
        self.inner.require_room(paths)
    }
    fn close(&self) -> StoreResult<()> {
        self.inner.close()
    }
}

forwards! { AuditLog by audit; {
    fn show(&self, call: &str) -> StoreResult<Vec<RecordedRow>> {
        let mut rows = self.inner.audit().show(call)?;
        if self.has(Fault::OutcomeFirst) {
            rows.reverse();
        }
        Ok(rows)
    }
    fn list(&self, filter: &Filter) -> StoreResult<Vec<RecordedRow>> {
        let mut filter = filter.clone();
        if self.has(Fault::WorkspaceIgnored) {
            filter.workspace = None;
        }
        let mut rows = self.inner.audit().list(&filter)?;
        if self.has(Fault::RowsOfOneProcess) {
            rows.retain(|row| row.sequence % 2 == 1);
        }
        Ok(rows)
    }
    fn calls_with_part(&self, part: &str, limit: u32) -> StoreResult<Vec<String>> {
        let mut calls = self.inner.audit().calls_with_part(part, limit)?;
        if self.has(Fault::CallsWithoutEnd) {
            calls.retain(|call| call.starts_with(part));
        }
        Ok(calls)
    }
}
    fn append(row: AuditRow, durability: Durability) -> Receipt;
    fn export(target: &mut dyn Write) -> StoreResult<u64>;
    fn verify(expect: Option<Hash>) -> StoreResult<Verification>;
}

forwards! { Approvals by approvals; {
    fn answer(&self, id: &str, answer: &ApprovalAnswer, now: Timestamp) -> StoreResult<AnswerOutcome> {
        Ok(match self.inner.approvals().answer(id, answer, now)? {
            AnswerOutcome::Before(row)
                if self.has(Fault::SecondAnswerCounts) && row.state == ApprovalState::Approved =>
            {
                AnswerOutcome::First(row)
            }
            outcome => outcome,
        })
    }
    fn use_up(&self, id: &str, now: Timestamp) -> StoreResult<bool> {
        Ok(self.inner.approvals().use_up(id, now)? || self.has(Fault::UsedTwice))
    }
}
    fn ask(row: &ApprovalRow) -> StoreResult<ApprovalRow>;
    fn earlier(workspace: &Path, plan: &str, request: &str, now: Timestamp) -> StoreResult<EarlierAnswer>;
    fn set_answer_received(id: &str) -> StoreResult<()>;
    fn withdraw(workspace: &Path, request: &str) -> StoreResult<()>;
    fn take_answers(workspace: &Path, request: &str, now: Timestamp) -> StoreResult<Vec<ApprovalRow>>;
    fn hold(id: &str, changes: &str) -> StoreResult<ApprovalRow>;
    fn settle_changes(changes: &str, applied: bool, by: &str, now: Timestamp) -> StoreResult<()>;
    fn find(id: &str, now: Timestamp) -> StoreResult<Option<ApprovalRow>>;
    fn list(open_only: bool, limit: u32, now: Timestamp) -> StoreResult<Vec<ApprovalRow>>;
    fn allowed_once(workspace: &Path, shape: &str, since: Timestamp) -> StoreResult<u32>;
}

forwards! { Leases by leases; {
    fn in_force(&self, session: &str, workspace: &Path, now: Timestamp) -> StoreResult<Vec<Lease>> {
        let now = if self.has(Fault::ExpiredLease) { Timestamp::UNIX_EPOCH } else { now };
        self.inner.leases().in_force(session, workspace, now)
    }
}
    fn list(in_force_only: bool, now: Timestamp) -> StoreResult<Vec<Lease>>;
    fn note_use(id: &str, now: Timestamp) -> StoreResult<bool>;
    fn revoke(id: &str, now: Timestamp) -> StoreResult<bool>;
}

forwards! { Checkpoints by checkpoints; {
    fn with_part(&self, workspace: &Path, part: &str, limit: u32) -> StoreResult<Vec<Checkpoint>> {
        let checkpoints = self.inner.checkpoints();
        let mut found = checkpoints.with_part(workspace, part, limit)?;
        if self.has(Fault::PartOfAnyWorkspace) {
            found.extend(checkpoints.with_part(Path::new("/other"), part, limit)?);
        }
        Ok(found)
    }
    fn at_or_below(&self, workspace: &Path, path: &Path) -> StoreResult<Vec<String>> {
        let path = if self.has(Fault::PathIgnored) { Path::new("") } else { path };
        self.inner.checkpoints().at_or_below(workspace, path)
    }
    fn first_since(&self, workspace: &Path, time: Timestamp) -> StoreResult<Option<Checkpoint>> {
        let time = if self.has(Fault::TimeIgnored) { Timestamp::UNIX_EPOCH } else { time };
        self.inner.checkpoints().first_since(workspace, time)
    }
}
    fn add(
        checkpoint: &Checkpoint,
        entries: &mut dyn Iterator<Item = CheckpointEntry>,
        needed: &[Hash]
    ) -> StoreResult<()>;
    fn complete(id: &str) -> StoreResult<()>;
    fn complete_as(
        id: &str,
        entries: &mut dyn Iterator<Item = CheckpointEntry>,
        paths: u64,
        unsaved: &[PathBuf]
    ) -> StoreResult<()>;
    fn complete_folder(folder: &str) -> StoreResult<()>;
    fn extend(id: &str, entry: &CheckpointEntry, needed: &[Hash], bytes: u64) -> StoreResult<()>;
    fn retract(id: &str, entry: &CheckpointEntry) -> StoreResult<()>;
    fn remove(id: &str) -> StoreResult<()>;
    fn find(id: &str) -> StoreResult<Option<Checkpoint>>;
    fn of_folder(folder: &str) -> StoreResult<Option<Checkpoint>>;
    fn entries(id: &str) -> StoreResult<Vec<CheckpointEntry>>;
    fn first_entries(id: &str, limit: u32) -> StoreResult<Vec<CheckpointEntry>>;
    fn entries_marked(id: &str, before: &[u8]) -> StoreResult<Vec<CheckpointEntry>>;
    fn list(workspace: &Path, limit: u32) -> StoreResult<Vec<Checkpoint>>;
    fn since(workspace: &Path, first: &Checkpoint) -> StoreResult<Vec<Checkpoint>>;
    fn first_since_call(workspace: &Path, call: &str) -> StoreResult<Option<Checkpoint>>;
    fn unfinished() -> StoreResult<Vec<Checkpoint>>;
    fn prune(retention: &CheckpointRetention, now: Timestamp) -> StoreResult<u64>;
}

forwards! { Outputs by outputs; {
    fn find(&self, id: &str) -> StoreResult<Output> {
        let output = self.inner.outputs().find(id)?;
        Ok(if self.has(Fault::OutputWithoutSession) { Output { session: None, ..output } } else { output })
    }
}
    fn keep(output: &Output) -> StoreResult<()>;
    fn open(id: &str) -> StoreResult<(Output, File)>;
    fn prune(retention: &Retention, now: Timestamp, goes_on: &dyn Fn() -> bool) -> StoreResult<PruneResult>;
}

impl Blobs for BrokenStore {
    fn put(&self, content: &mut dyn Read) -> StoreResult<BlobRef> {
        self.inner.blobs().put(content)
    }
    fn open(&self, blob: &BlobRef) -> StoreResult<File> {
        self.inner.blobs().open(blob)
    }
    fn saver(&self) -> StoreResult<Box<dyn BlobWriter + '_>> {
        self.inner.blobs().saver()
    }
    fn reader(&self) -> StoreResult<Box<dyn BlobReader + '_>> {
        let reader = self.inner.blobs().reader()?;
        Ok(if self.has(Fault::EmptyContent) { Box::new(EmptyContents(reader)) } else { reader })
    }
    fn check(&self, goes_on: &dyn Fn(u64) -> bool) -> StoreResult<Option<CheckResult>> {
        self.inner.blobs().check(goes_on)
    }
}

/// A reader whose contents are empty.
struct EmptyContents<'a>(Box<dyn BlobReader + 'a>);

impl BlobReader for EmptyContents<'_> {
    fn open(&self, hash: &Hash) -> StoreResult<Box<dyn Read>> {
        self.0.open(hash).map(|_| Box::new(std::io::empty()) as Box<dyn Read>)
    }
}

forwards! { Memories by memories; {
    fn read(&self, who: &MemoryCaller, key: &str) -> StoreResult<Option<Memory>> {
        let found = self.inner.memories().read(who, key)?;
        if found.is_some() || !self.has(Fault::MemoryOfAnother) {
            return Ok(found);
        }
        self.inner.memories().read(&MemoryCaller { agent: "one".to_owned(), ..who.clone() }, key)
    }
    fn vectors(
        &self,
        who: &MemoryCaller,
        model: &[u8; 32],
        visit: &mut dyn FnMut(i64, &[u8])
    ) -> StoreResult<()> {
        self.inner.memories().vectors(who, model, visit)?;
        if self.has(Fault::StaleVectors) {
            visit(1, b"1");
        }
        Ok(())
    }
}
    fn adopt(earlier: &str, agent: &str) -> StoreResult<()>;
    fn create(who: &MemoryCaller, id: &str, text: (&str, &str), shared: bool) -> StoreResult<ChangeOutcome>;
    fn update(who: &MemoryCaller, key: &str, content: &str, expected: Option<u64>) -> StoreResult<ChangeOutcome>;
    fn delete(who: &MemoryCaller, key: &str, expected: Option<u64>) -> StoreResult<ChangeOutcome>;
    fn list(who: &MemoryCaller, prefix: &str, page: (u64, u32)) -> StoreResult<(Vec<Memory>, bool)>;
    fn history(who: &MemoryCaller, key: &str) -> StoreResult<Vec<MemoryVersion>>;
    fn with_words(who: &MemoryCaller, terms: &[String], most: u32) -> StoreResult<WordMatches>;
    fn numbered(who: &MemoryCaller, numbers: &[i64]) -> StoreResult<Vec<(i64, Memory)>>;
    fn unembedded(who: &MemoryCaller, model: &[u8; 32], most: u32) -> StoreResult<(u64, Vec<Unembedded>)>;
    fn keep_vectors(model: &[u8; 32], of: &[(&Unembedded, Vec<Vec<u8>>)]) -> StoreResult<()>;
}

forwards! { Schedules by schedules; {
    fn pause(&self, id: &str) -> StoreResult<bool> {
        if self.has(Fault::PauseIgnored) { Ok(true) } else { self.inner.schedules().pause(id) }
    }
    fn claim_due(
        &self,
        claimer: &Claimer,
        now: Timestamp,
        decide: &DecideDue<'_>
    ) -> StoreResult<Vec<Firing>> {
        let lease = if self.has(Fault::LeaseIgnored) { SignedDuration::ZERO } else { claimer.lease };
        self.inner.schedules().claim_due(&Claimer { lease, ..claimer.clone() }, now, decide)
    }
    fn finish(
        &self,
        claim: &Claim,
        end: &AttemptEnd,
        now: Timestamp,
        decide: &DecideAfter<'_>
    ) -> StoreResult<bool> {
        let schedules = self.inner.schedules();
        let newest = schedules.firings(&claim.schedule, 1)?.pop().map(|firing| firing.claim);
        let claim = newest.filter(|_| self.has(Fault::ClaimWithoutFence)).unwrap_or_else(|| claim.clone());
        schedules.finish(&claim, end, now, decide)
    }
}
    fn add(row: &ScheduleRow) -> StoreResult<AddOutcome>;
    fn find(id: &str) -> StoreResult<Option<ScheduleRow>>;
    fn named(workspace: &Path, name: &str) -> StoreResult<Option<ScheduleRow>>;
    fn counts(workspace: &Path) -> StoreResult<(u32, u32)>;
    fn list(workspace: Option<&Path>, filter: ScheduleFilter) -> StoreResult<Vec<ScheduleRow>>;
    fn resume(id: &str, next_at: Option<Timestamp>) -> StoreResult<bool>;
    fn remove(id: &str) -> StoreResult<bool>;
    fn next_claim(workspace: &Path) -> StoreResult<Option<Timestamp>>;
    fn claim_now(id: &str, claimer: &Claimer, now: Timestamp) -> StoreResult<Option<Firing>>;
    fn renew(claim: &Claim, held_until: Timestamp) -> StoreResult<bool>;
    fn firings(id: &str, limit: u32) -> StoreResult<Vec<Firing>>;
}

forwards! { AgentStore by agents; {
    fn take(&self, id: &str, owner: &str, now: Timestamp, lease: SignedDuration) -> StoreResult<Option<u32>> {
        let now = if self.has(Fault::AgentTaken) { Timestamp::MAX } else { now };
        self.inner.agents().take(id, owner, now, lease)
    }
    fn append(&self, id: &str, epoch: u32, entries: &[ConversationEntry]) -> StoreResult<bool> {
        let newest = self.inner.agents().find(id)?.map(|agent| agent.epoch);
        let epoch = newest.filter(|_| self.has(Fault::AgentWithoutFence)).unwrap_or(epoch);
        self.inner.agents().append(id, epoch, entries)
    }
}
    fn add(row: &AgentRow, most_open: u32) -> StoreResult<AgentAddOutcome>;
    fn find(id: &str) -> StoreResult<Option<AgentRow>>;
    fn list(workspace: &Path, filter: AgentFilter, limit: u32) -> StoreResult<Vec<AgentRow>>;
    fn children(id: &str) -> StoreResult<Vec<AgentRow>>;
    fn latest(workspace: &Path, name: Option<&str>) -> StoreResult<Option<AgentRow>>;
    fn renew(id: &str, epoch: u32, held_until: Timestamp) -> StoreResult<bool>;
    fn set_state(
        id: &str,
        epoch: u32,
        state: AgentState,
        outcome: Option<&str>,
        ended_at: Option<Timestamp>
    ) -> StoreResult<bool>;
    fn add_spending(id: &str, micro_usd: u64, tokens: u64) -> StoreResult<bool>;
    fn expire(now: Timestamp) -> StoreResult<Vec<AgentRow>>;
    fn conversation(id: &str, from_seq: u64) -> StoreResult<Vec<ConversationEntry>>;
    fn summarise(id: &str, epoch: u32, upto_seq: u64, entry: &ConversationEntry) -> StoreResult<bool>;
    fn prune(before: Timestamp, newest: u32) -> StoreResult<u64>;
}

forwards! { MailStore by mail; {
    fn claim(
        &self,
        to: &str,
        workspace: &Path,
        now: Timestamp,
        lease: SignedDuration,
        most: u32
    ) -> StoreResult<Vec<MailRow>> {
        let mail = self.inner.mail();
        if !self.has(Fault::MailOutOfOrder) {
            return mail.claim(to, workspace, now, lease, most);
        }
        // Acknowledges at once, so that the claim does not hold its lane.
        let claimed = mail.claim(to, workspace, now, lease, most)?;
        for row in &claimed {
            mail.delivered(row.id, row.epoch)?;
        }
        Ok(claimed)
    }
    fn delivered(&self, id: i64, epoch: u32) -> StoreResult<bool> {
        Ok(self.inner.mail().delivered(id, epoch)? || self.has(Fault::MailAcknowledgedTwice))
    }
    fn take_reply(&self, in_reply_to: i64, to: &str) -> StoreResult<Option<MailRow>> {
        let mail = self.inner.mail();
        let reply = mail.replies(in_reply_to)?;
        if let Some(reply) = reply.filter(|reply| reply.to == to || self.has(Fault::ReplyOfAnother)) {
            if self.has(Fault::ReplyKept) {
                return Ok(Some(reply));
            }
            if self.has(Fault::ReplyInOrder) && reply.state == MailState::Claimed {
                return Ok(None);
            }
            return mail.take_reply(in_reply_to, &reply.to);
        }
        Ok(None)
    }
}
    fn send(
        new: &NewMail,
        most_waiting_per_receiver: u32,
        most_waiting_per_sender_and_receiver: u32
    ) -> StoreResult<SendOutcome>;
    fn answer(id: i64, from: &str, body: &str, now: Timestamp) -> StoreResult<Option<i64>>;
    fn find(id: i64) -> StoreResult<Option<MailRow>>;
    fn replies(in_reply_to: i64) -> StoreResult<Option<MailRow>>;
    fn expire(now: Timestamp) -> StoreResult<u64>;
    fn kill_of(workspace: &Path, receiver: &str, reason: &str) -> StoreResult<u64>;
    fn dead(workspace: &Path, limit: u32) -> StoreResult<Vec<MailRow>>;
    fn waiting(workspace: &Path, to: &str) -> StoreResult<u64>;
    fn purge(before: Timestamp) -> StoreResult<u64>;
}

forwards! { SpendingStore by spending; {
    fn spent(&self, key: &SpendingKey, now: Timestamp) -> StoreResult<(Amounts, Amounts)> {
        let now = if self.has(Fault::ReservationForgotten) { Timestamp::UNIX_EPOCH } else { now };
        self.inner.spending().spent(key, now)
    }
}
    fn reserve(
        accounts: &[(SpendingKey, Limits)],
        worst: Amounts,
        owner: &str,
        now: Timestamp,
        lease: SignedDuration
    ) -> StoreResult<ReserveOutcome>;
    fn settle(id: i64, real: Amounts) -> StoreResult<bool>;
}

forwards! { Trust by trust; {
    fn distrust(&self, path: &Path) -> StoreResult<bool> {
        if self.has(Fault::TrustStays) { Ok(true) } else { self.inner.trust().distrust(path) }
    }
}
    fn trust(path: &Path, hash: &Hash, at: Timestamp) -> StoreResult<()>;
    fn trusted_hash(path: &Path) -> StoreResult<Option<Hash>>;
}

impl Presence for BrokenStore {
    fn watch(&self) -> StoreResult<Watch> {
        self.inner.watch()
    }
    fn pay_attention(&self, workspace: Option<&Path>) -> StoreResult<WatcherMark> {
        let workspace = workspace.filter(|_| !self.has(Fault::WatcherOfAnyWorkspace));
        self.inner.pay_attention(workspace)
    }
    fn has_attention(&self, workspace: &Path) -> bool {
        self.inner.has_attention(workspace)
    }
    fn wait_for(&self, question: &str, call: &str) -> StoreResult<WaitingMark> {
        self.inner.wait_for(question, call)
    }
    fn waited_for(&self) -> HashSet<String> {
        if self.has(Fault::NobodyWaits) { HashSet::new() } else { self.inner.waited_for() }
    }
}

impl Chores for BrokenStore {
    fn is_due(&self, chore: Chore, every: SignedDuration, now: Timestamp) -> StoreResult<bool> {
        Ok(self.inner.is_due(chore, every, now)? || self.has(Fault::AlwaysDue))
    }
    fn begin(&self, chore: Chore, now: Timestamp) -> StoreResult<()> {
        self.inner.begin(chore, now)
    }
}
