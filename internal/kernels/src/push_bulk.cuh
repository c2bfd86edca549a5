// Push with bulk stores: the steps of push.cuh, but what goes to the peers is put
// into shared memory and taken from there by bulk copies, which one thread
// issues. They make larger packets of the link than a thread's 16 bytes, and the
// block goes on while they are under way.
//
// Why a peer that has seen a flag sees the data (PTX ISA, "Memory Consistency
// Model"): the thread that issued the copies which it stands for has waited for them in
// full, so their writes are visible to it, in the generic proxy (machine.cuh);
// the block barrier at the start of arrive() puts that before the release at
// system scope that writes the flag, by whichever thread ("causality order", which
// is cumulative); and the peer acquires it at system scope. A wait for the reads
// alone would publish data that is still on its way.
//
// Why a copy does not overwrite what a peer still reads, in its scratch or, in
// place, in its buffer: the peer has read, and released a flag since; this block
// has acquired it, and fenceAsyncGlobal behind that orders the copy, which is of
// another proxy, behind the reads.
#pragma once
#include "push.cuh"

// A stage is filled by the whole block and then one copy to each destination.
// Mirrored in args.go; a test compares.
constexpr u32 kStageBytes = 16384;
constexpr u32 kStagePacks = kStageBytes / 16;
constexpr u32 kStages = 4;  // of a ring
constexpr u32 kBulkShared = 2 * kStages * kStageBytes;

extern SHARED __attribute__((aligned(128))) u8 stageMemory[];  // kBulkShared, a parameter of the launch

// A ring of stages whose copies one thread issues, a group a stage. Every thread
// of the block calls every method.
struct StageRing {
  u32 base;
  u32 issuer;
  u32 next = 0;

  DEVICE StageRing(u32 number) : base(sharedAddress(stageMemory) + number * kStages * kStageBytes) {
    // Of another warp for each ring, where there is one; the same thread waits for
    // both rings where it need not, and is right.
    issuer = number * 32 < blockSize() ? number * 32 : blockSize() - 1;
  }
  // The shared address of the stage to be filled.
  DEVICE u32 stage() const { return base + next * kStageBytes; }
  // Comes before the first copy behind a wait for the peers.
  DEVICE void begin() const {
    if (threadIndex() == issuer) fenceAsyncGlobal();
  }
  // The stage is filled: issue stores it to where it has to go. Behind the barrier
  // the next stage is free too: of the groups before this one all but the last
  // kStages-2 have been read.
  template <class Issue>
  DEVICE void send(Issue issue) {
    fenceAsyncShared();
    if (threadIndex() == issuer) bulkWaitRead<kStages - 2>();
    syncBlock();
    if (threadIndex() == issuer) {
      issue();
      bulkCommit();
    }
    next = next + 1 == kStages ? 0 : next + 1;
  }
  // All that was sent has arrived, as far as the issuer is concerned; arrive()
  // tells the block and the peers.
  DEVICE void drain() const {
    if (threadIndex() == issuer) bulkWait<0>();
  }
};

template <class T, class Op, int N>
struct BulkPushPass : PushPass<PushPacks<T, Op, N>, N> {
  using Units = PushPacks<T, Op, N>;
  using Pass = PushPass<Units, N>;
  using Pass::a;
  // Copies of the two steps are of different threads, so that the inputs can be
  // waited for while results are under way.
  StageRing inputs, results;

  DEVICE BulkPushPass(const Args& args, u64 slotBase) : Pass{args, args.packs, args.chunk, slotBase}, inputs(0), results(1) {}

  DEVICE static u32 stagePacks(u64 from, u64 to) { return to - from < kStagePacks ? u32(to - from) : kStagePacks; }

  DEVICE void push(u32 k) {
    constexpr int U = 2;  // so at most one pack of a thread is left
    u32 step = blockSize();
    inputs.begin();
#pragma unroll 1
    for (u32 d = 1; d < a.ranks; d++) {
      u32 peer = a.rank + d < a.ranks ? a.rank + d : a.rank + d - a.ranks;
      u64 from = this->first(k, peer), to = this->end(from);
      u64 row = peerScratch(a, peer) + this->slot(k) + u64(a.ranks - d - 1) * a.slotBytes;
#pragma unroll 1
      for (u64 i = from; i < to; i += kStagePacks, row += kStageBytes) {
        u64 source = packAddress<T>(a, a.in, i);
        u32 n = stagePacks(i, to), stage = inputs.stage(), j = threadIndex();
        for (; j + (U - 1) * step < n; j += U * step) {
          Pack v[U];
#pragma unroll
          for (int u = 0; u < U; u++) v[u] = loadPack(source + (j + u * step) * 16);
#pragma unroll
          for (int u = 0; u < U; u++) storeShared(stage + (j + u * step) * 16, v[u]);
        }
        if (j < n) storeShared(stage + j * 16, loadPack(source + j * 16));
        inputs.send([&] { bulkStore(row, stage, n * 16); });
      }
    }
  }

  // Reduces U packs of the own slice from pack i on into a stage and the own
  // receive buffer.
  template <int U>
  DEVICE void reducePacks(u64 i, u32 step, u64 row, u32 to) {
    u64 own[U], slots[U];
    Pack v[U];
#pragma unroll
    for (int u = 0; u < U; u++) {
      own[u] = packAddress<T>(a, a.in, i + u * step);
      slots[u] = row + (i + u * step) * 16;
    }
    Units::template reduce<U>(a, own, slots, v);
#pragma unroll
    for (int u = 0; u < U; u++) {
      storeShared(to + u * step * 16, v[u]);
      storePack(packAddress<T>(a, a.out, i + u * step), v[u]);
    }
  }
  DEVICE void finish(u32 k) {
    constexpr int U = Units::kReduce < 2 ? 1 : 2;
    u64 from = this->first(k, a.rank), to = this->end(from), row = a.scratch + this->slot(k) - from * 16;
    u32 step = blockSize();
    results.begin();
#pragma unroll 1
    for (u64 i = from; i < to; i += kStagePacks) {
      u32 n = stagePacks(i, to), stage = results.stage(), j = threadIndex();
      for (; j + (U - 1) * step < n; j += U * step) reducePacks<U>(i + j, step, row, stage + j * 16);
      if constexpr (U > 1)
        if (j < n) reducePacks<1>(i + j, step, row, stage + j * 16);
      results.send([&] {
#pragma unroll
        for (int r = 1; r < N; r++)
          if (present<N>(a, r)) bulkStore(packAddress<T>(a, a.peerOut[r], i), stage, n * 16);
      });
    }
  }

  // One arrival a round: arrival k+1 says that the inputs of round k are in the
  // peers' scratch and that the slot of round k-1 has been read. A block has three
  // slots, so round k+1 goes where round k-2 was, which the peers have read before
  // they announced round k-1. Results need no word before the last arrival, which
  // says that all are there. While inputs are waited for, results are on their way,
  // and the other way round.
  DEVICE bool run(Barrier& barrier) {
    push(0);
#pragma unroll 1
    for (u32 k = 0;; k++) {
      inputs.drain();
      u32 pushed = barrier.arrive();
      bool more = this->has(k + 1);
      if (more) push(k + 1);
      if (!barrier.wait(pushed, kPushed)) return false;
      finish(k);
      if (!more) break;
    }
    results.drain();
    return barrier.wait(barrier.arrive(), kDone);
  }
};

template <class T, class Op, int N>
DEVICE void pushBulkAllReduce(const Args& a) {
  Barrier barrier(a);
  u64 base = u64(blockIndex()) * a.slots * (a.ranks - 1) * a.slotBytes;
  if (a.packs > 0) {
    BulkPushPass<T, Op, N> pass(a, base);
    if (!pass.run(barrier)) {
      // Shared memory must not go while copies read it.
      pass.inputs.drain();
      pass.results.drain();
      return;
    }
  }
  u64 outside = outsideCount<T>(a);
  if (outside > 0 && !PushPass<PushElements<T, Op, N>, N>{a, outside, a.outsideChunk, base}.run(barrier)) return;
  barrier.commit();
}
