// What the ranks share beside the data, the arguments of every all-reduce
// kernel, and the barrier between ranks. Mirrored in Go by args.go; a test
// compares sizes and offsets.
#pragma once
#include "element.cuh"

constexpr int kMaxRanks = 8;
constexpr int kMaxBlocks = 256;

// The first wait of a kernel that ran into its deadline. Read by the host.
struct Status {
  u32 stage;  // 0: nothing went wrong
  u32 rank;
  u32 block;
  u32 peer;      // the rank that did not answer
  u32 expected;  // value waited for
  u32 seen;      // value found
  u32 spare[10];
};

// One rank's signal memory, mapped by every peer. Counters only grow, and wrap
// after 2^32; they are compared by signed difference. Nothing is ever reset, so
// a captured graph can be replayed.
struct Signals {
  Status status;
  u64 peer[kMaxRanks];  // address of each rank's Signals, as this rank maps it
  u32 spare[32];
  u32 epoch[kMaxBlocks];         // arrivals made by each block of this rank
  u32 packetEpoch[kMaxBlocks];   // packet all-reduces done by each block
  u32 ringMessages[kMaxBlocks];  // ring messages sent by each block
  u32 arrived[kMaxBlocks][kMaxRanks];  // written by peers: their epoch
  u32 ringReceived[kMaxBlocks][8];     // written by the previous rank; a 32-byte sector each
};

struct Args {
  Signals* self;
  u64 peerIn[kMaxRanks];   // two-shot: send buffers, own first; one-shot: in rank order; copy-in: staging, own first; local reduce: the parts, own first
  u64 peerOut[kMaxRanks];  // two-shot, push: receive buffers, own first; packet: inboxes in rank order; ring: [0] is the next rank's receive buffer; local reduce: [0] is the result
  u64 in, out;             // own send and receive buffer
  u64 multicastIn, multicastOut;  // zero-copy: both buffers; copy-in: In is the staging buffer
  u64 count;    // elements
  u64 head;     // elements before the first pack
  u64 packs;    // 16-byte packs after the head
  u64 chunk;    // packs: two-shot: of a rank's slice; ring, copy-in: of a chunk; push: of a slice of a chunk. packet: packets of a block
  u64 outsideChunk;  // ring, push: what chunk is for packs, for the elements in no pack
  u64 slotBytes;     // ring: of a slot; push: of one rank's row of a slot
  u64 scratch;      // ring, push: own scratch; packet: own inbox; copy-in: own staging buffer
  u64 nextScratch;  // ring: the next rank's scratch
  u64 timeout;      // nanoseconds a wait may last
  Average average;
  u32 rank, ranks;
  u32 slots;  // push: scratch slots of a block; packet: packets that a block's inbox holds for one rank
  u32 spare;
};

enum Stage : u32 {
  kStart = 1,      // waiting for the peers' kernels to start
  kEnd = 2,        // waiting for the peers to finish
  kTile = 3,       // in place, waiting for the peers to have read
  kStaged = 4,     // copy-in: waiting for the peers' chunk to be in staging, and their part of the last result
  kRingData = 6,   // ring: waiting for the previous rank's data
  kPacket = 8,     // waiting for a peer's packet
  kPushed = 9,     // push: waiting for the peers' inputs to be in scratch
  kDone = 10,      // push: waiting for the peers' results, which also frees scratch
  kScattered = 11, // copy engines: waiting for the peers' copies into scratch
  kGathered = 12,  // copy engines: waiting for the peers' copies of their results
};

DEVICE Signals* peerSignals(const Args& a, u32 rank) { return (Signals*)a.self->peer[rank]; }

// A rank's scratch stands at the same place behind its signals as this rank's.
DEVICE u64 peerScratch(const Args& a, u32 rank) { return a.self->peer[rank] + (a.scratch - u64(a.self)); }

DEVICE void report(const Args& a, Stage stage, u32 peer, u32 expected, u32 seen) {
  Status& s = a.self->status;
  if (atomicSwapIfZero(&s.stage, stage) != 0) return;
  s.rank = a.rank;
  s.block = blockIndex();
  s.peer = peer;
  s.expected = expected;
  s.seen = seen;
}

// Waits until the counter has reached value. False after the deadline.
DEVICE bool waitFor(const Args& a, const u32* counter, u32 value, Stage stage, u32 peer) {
  u32 seen = loadAcquire(counter);
  if (i32(seen - value) >= 0) return true;
  u64 deadline = nanoseconds() + a.timeout;
  do {
    seen = loadAcquire(counter);
    if (i32(seen - value) >= 0) return true;
  } while (nanoseconds() < deadline);
  report(a, stage, peer, value, seen);
  return false;
}

// Whether a thread of this block gave up waiting; the whole block then ends.
SHARED u32 blockFailed;
DEVICE void resetFailed() {
  if (threadIndex() == 0) *(volatile u32*)&blockFailed = 0;
  syncBlock();
}
DEVICE void setFailed() { *(volatile u32*)&blockFailed = 1; }
DEVICE bool anyFailed() { return *(volatile u32*)&blockFailed != 0; }

// A block's way to agree with the same block of every other rank. arrive says
// "everything this block did so far is done" (release); wait returns when all
// ranks have arrived as often as asked (acquire). Every thread of the block
// calls every method.
struct Barrier {
  const Args& a;
  u32 epoch;   // arrivals made
  u32* theirs;  // where this thread tells a peer of an arrival; looked up at the start, while the epoch is

  DEVICE explicit Barrier(const Args& args) : a(args) {
    u32 t = threadIndex();
    theirs = t < a.ranks ? &peerSignals(a, t)->arrived[blockIndex()][a.rank] : nullptr;
    epoch = a.self->epoch[blockIndex()];
    resetFailed();
  }
  DEVICE u32 arrive() {
    syncBlock();
    epoch++;
    if (threadIndex() < a.ranks) storeRelease(theirs, epoch);
    return epoch;
  }
  DEVICE bool wait(u32 value, Stage stage) {
    u32 t = threadIndex();
    if (t < a.ranks && !waitFor(a, &a.self->arrived[blockIndex()][t], value, stage, t)) setFailed();
    syncBlock();
    return !anyFailed();
  }
  DEVICE bool sync(Stage stage) { return wait(arrive(), stage); }
  // Keeps the count for the next launch. Only after a wait that succeeded.
  DEVICE void commit() {
    if (threadIndex() == 0) a.self->epoch[blockIndex()] = epoch;
  }
};

// Elements that are in no pack are numbered 0..outside-1: first the head, then
// what follows the packs.
template <class T>
DEVICE u64 outsideCount(const Args& a) {
  return a.count - a.packs * kPerPack<T>;
}
template <class T>
DEVICE u64 outsideIndex(const Args& a, u64 e) {
  return e < a.head ? e : e + a.packs * kPerPack<T>;
}
// Address of pack p of a buffer.
template <class T>
DEVICE u64 packAddress(const Args& a, u64 base, u64 p) {
  return base + a.head * sizeof(typename T::Storage) + p * 16;
}
