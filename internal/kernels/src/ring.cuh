// Ring: reduce-scatter then all-gather, each rank pushing to the next. Partial
// sums go through slots of scratch memory at the next rank; finished chunks are
// stored straight into its receive buffer, which it no longer needs: a chunk is
// finished by the rank before the one that sent it first.
//
// Every block is a ring of its own with its own share of the message, slots and
// counters. A message is announced by a counter at the receiver (release), a
// freed slot by a counter at the sender.
#pragma once
#include "fabric.cuh"

// The two kinds of unit that a pass moves: packs, and elements in no pack.
template <class T, class Op>
struct RingPacks {
  static constexpr u32 kBytes = 16;
  static DEVICE u64 at(const Args& a, u64 base, u64 i) { return packAddress<T>(a, base, i); }
  static DEVICE void copy(u64 to, u64 from) { storePack(to, loadPack(from)); }
  static DEVICE void reduce(u64 to, u64 from, u64 own) {
    Lanes<T> v = unpack<T>(loadPack(from));
    reduceInto<T, Op>(v, loadPack(own));
    storePack(to, pack<T>(v));
  }
  static DEVICE void finish(const Args& a, u64 to, u64 next, u64 from, u64 own) {
    Lanes<T> v = unpack<T>(loadPack(from));
    reduceInto<T, Op>(v, loadPack(own));
    averageLanes<T>(v, a.average);
    Pack p = pack<T>(v);
    storePack(to, p);
    storePack(next, p);
  }
};
template <class T, class Op>
struct RingElements {
  static constexpr u32 kBytes = sizeof(typename T::Storage);
  static DEVICE u64 at(const Args& a, u64 base, u64 i) { return base + outsideIndex<T>(a, i) * kBytes; }
  static DEVICE void copy(u64 to, u64 from) { storeRaw<T>(to, 0, loadRaw<T>(from, 0)); }
  static DEVICE typename T::Acc combine(u64 from, u64 own) {
    return Op::apply(loadElement<T>(from, 0), loadElement<T>(own, 0));
  }
  static DEVICE void reduce(u64 to, u64 from, u64 own) { storeElement<T>(to, 0, combine(from, own)); }
  static DEVICE void finish(const Args& a, u64 to, u64 next, u64 from, u64 own) {
    typename T::Acc v = average(combine(from, own), a.average);
    storeElement<T>(to, 0, v);
    storeElement<T>(next, 0, v);
  }
};

struct RingLink {
  const Args& a;
  Signals *next, *prev;
  u32 sent, received;          // messages
  u32 slotsSent, slotsFreed;   // of which through slots

  DEVICE explicit RingLink(const Args& args) : a(args) {
    next = peerSignals(a, a.rank + 1 == a.ranks ? 0 : a.rank + 1);
    prev = peerSignals(a, a.rank == 0 ? a.ranks - 1 : a.rank - 1);
    sent = received = a.self->ringMessages[blockIndex()];
    slotsSent = slotsFreed = a.self->ringSlots[blockIndex()];
    resetFailed();
  }
  DEVICE u64 slot(u64 base, u32 n) const { return base + (u64(blockIndex()) * a.slots + n % a.slots) * a.slotBytes; }
  DEVICE u64 sendSlot() const { return slot(a.nextScratch, slotsSent); }
  DEVICE u64 receiveSlot() const { return slot(a.scratch, slotsFreed); }

  // Waits for the data of the next message (receive) and for a free slot at the
  // next rank (send), whichever are asked for.
  DEVICE bool ready(bool receive, bool send) {
    if (threadIndex() == 0) {
      u32 previous = a.rank == 0 ? a.ranks - 1 : a.rank - 1;
      u32 following = a.rank + 1 == a.ranks ? 0 : a.rank + 1;
      bool ok = true;
      if (receive) ok = waitFor(a, a.self->ringReceived[blockIndex()], received + 1, kRingData, previous);
      if (send && ok) ok = waitFor(a, a.self->ringCredit[blockIndex()], slotsSent + 1 - a.slots, kRingCredit, following);
      if (!ok) setFailed();
    }
    syncBlock();
    return !anyFailed();
  }
  // Announces what this block did since ready.
  DEVICE void done(bool receivedSlot, bool sentSlot, bool sentAny) {
    syncBlock();
    if (receivedSlot) slotsFreed++;
    if (sentSlot) slotsSent++;
    if (sentAny) sent++;
    if (threadIndex() == 0) {
      if (sentAny) storeRelease(next->ringReceived[blockIndex()], sent);
      if (receivedSlot) storeRelease(prev->ringCredit[blockIndex()], slotsFreed);
    }
  }
  DEVICE void commit() {
    if (threadIndex() != 0) return;
    a.self->ringMessages[blockIndex()] = sent;
    a.self->ringSlots[blockIndex()] = slotsSent;
  }
};

template <class Units>
DEVICE bool ringPass(const Args& a, RingLink& link, u64 units, u64 chunk) {
  u32 n = a.ranks;
  u64 stride = u64(gridSize()) * n * chunk;
#pragma unroll 1
  for (u64 base = u64(blockIndex()) * n * chunk; base < units; base += stride) {
    // Chunk number (rank + shift) mod n of this round: its first and end unit.
    u64 first, end;
    auto choose = [&](u32 shift) {
      u32 c = a.rank + shift;
      if (c >= n) c -= n;
      first = base + c * chunk;
      end = first + chunk < units ? first + chunk : units;
    };
    // Reduce-scatter.
    choose(n - 1);
    if (!link.ready(false, true)) return false;
    for (u64 i = first + threadIndex(); i < end; i += blockSize())
      Units::copy(link.sendSlot() + (i - first) * Units::kBytes, Units::at(a, a.in, i));
    link.done(false, true, true);
#pragma unroll 1
    for (u32 step = 2; step < n; step++) {
      choose(n - step);
      if (!link.ready(true, true)) return false;
      link.received++;
      for (u64 i = first + threadIndex(); i < end; i += blockSize())
        Units::reduce(link.sendSlot() + (i - first) * Units::kBytes, link.receiveSlot() + (i - first) * Units::kBytes,
                      Units::at(a, a.in, i));
      link.done(true, true, true);
    }
    choose(0);
    if (!link.ready(true, false)) return false;
    link.received++;
    for (u64 i = first + threadIndex(); i < end; i += blockSize())
      Units::finish(a, Units::at(a, a.out, i), Units::at(a, a.peerOut[0], i),
                    link.receiveSlot() + (i - first) * Units::kBytes, Units::at(a, a.in, i));
    link.done(true, false, true);
    // All-gather.
#pragma unroll 1
    for (u32 step = 1; step + 1 < n; step++) {
      choose(n - step);
      if (!link.ready(true, false)) return false;
      link.received++;
      for (u64 i = first + threadIndex(); i < end; i += blockSize())
        Units::copy(Units::at(a, a.peerOut[0], i), Units::at(a, a.out, i));
      link.done(false, false, true);
    }
    if (!link.ready(true, false)) return false;
    link.received++;
  }
  return true;
}

template <class T, class Op>
DEVICE void ring(const Args& a) {
  RingLink link(a);
  u64 outside = outsideCount<T>(a);
  if (a.packs > 0 && !ringPass<RingPacks<T, Op>>(a, link, a.packs, a.chunk)) return;
  if (outside > 0 && !ringPass<RingElements<T, Op>>(a, link, outside, a.outsideChunk)) return;
  link.commit();
}
