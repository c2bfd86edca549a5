// Ring: reduce-scatter then all-gather, each rank pushing to the next. Partial
// sums go through slots of scratch memory at the next rank; finished chunks are
// stored straight into its receive buffer, which it no longer needs: a chunk is
// finished by the rank before the one that sent it first.
//
// Every block is a ring of its own with its own share of the message, slots and
// counter. A message is announced by a counter at the receiver (release).
//
// Nobody waits for a slot. There is one for each message of a round that goes
// through slots, and a round, the last one of a kernel too, ends when all finished
// chunks have come around. The next rank finished the one that comes last, and all
// others passed it on, each behind its own last read of a slot. So all slots of all
// ranks are free again, and the releases and acquires that brought the chunk order
// those reads before what is stored next (PTX ISA, "causality order").
#pragma once
#include "fabric.cuh"

// The two kinds of unit that a pass moves: packs, and elements in no pack.
template <class T, class Op>
struct RingPacks {
  static constexpr u32 kBytes = 16;
  static constexpr int kUnroll = 2;
  using Value = Pack;
  static DEVICE u64 at(const Args& a, u64 base, u64 i) { return packAddress<T>(a, base, i); }
  static DEVICE Pack load(u64 from) { return loadPack(from); }
  static DEVICE void store(u64 to, const Pack& p) { storePack(to, p); }
  template <bool kLast>
  static DEVICE Pack combine(const Args& a, const Pack& x, const Pack& y) {
    Lanes<T> v = unpack<T>(x);
    reduceInto<T, Op>(v, y);
    if constexpr (kLast) averageLanes<T>(v, a.average);
    return pack<T>(v);
  }
};
template <class T, class Op>
struct RingElements {
  static constexpr u32 kBytes = sizeof(typename T::Storage);
  static constexpr int kUnroll = 1;
  using Value = typename T::Storage;
  static DEVICE u64 at(const Args& a, u64 base, u64 i) { return base + outsideIndex<T>(a, i) * kBytes; }
  static DEVICE Value load(u64 from) { return loadRaw<T>(from, 0); }
  static DEVICE void store(u64 to, Value v) { storeRaw<T>(to, 0, v); }
  template <bool kLast>
  static DEVICE Value combine(const Args& a, Value x, Value y) {
    typename T::Acc v = Op::apply(T::decode(x), T::decode(y));
    if constexpr (kLast) v = average(v, a.average);
    return T::encode(v);
  }
};

struct RingLink {
  const Args& a;
  Signals* next;
  u32 sent, received;  // messages

  DEVICE explicit RingLink(const Args& args) : a(args) {
    next = peerSignals(a, a.rank + 1 == a.ranks ? 0 : a.rank + 1);
    sent = received = a.self->ringMessages[blockIndex()];
    resetFailed();
  }
  // This block's slot k of a rank's scratch memory.
  DEVICE u64 slot(u64 scratch, u32 k) const { return scratch + (u64(blockIndex()) * (a.ranks - 1) + k) * a.slotBytes; }

  // Waits for the next message.
  DEVICE bool receive() {
    received++;
    if (threadIndex() == 0 && !waitFor(a, a.self->ringReceived[blockIndex()], received, kRingData, a.rank == 0 ? a.ranks - 1 : a.rank - 1))
      setFailed();
    syncBlock();
    return !anyFailed();
  }
  // Announces what this block has stored.
  DEVICE void send() {
    syncBlock();
    sent++;
    if (threadIndex() == 0) storeRelease(next->ringReceived[blockIndex()], sent);
  }
  DEVICE void commit() {
    if (threadIndex() == 0) a.self->ringMessages[blockIndex()] = sent;
  }
};

// What is done with a chunk between two messages.
template <class Units>
struct RingChunk {
  using Value = typename Units::Value;
  const Args& a;
  u64 first, end;  // units

  // Where unit i is in a buffer, and in a slot.
  DEVICE u64 at(u64 base, u64 i) const { return Units::at(a, base, i); }
  DEVICE u64 inSlot(u64 slot, u64 i) const { return slot + (i - first) * Units::kBytes; }

  // Calls body<U>(i) for this thread's units, which are blockSize() apart.
  template <class Body>
  DEVICE void each(const Body& body) const { unrolled<Units::kUnroll>(first + threadIndex(), blockSize(), end, body); }
  template <int U, class Address>
  static DEVICE void load(Value (&v)[U], u64 i, const Address& address) {
#pragma unroll
    for (int u = 0; u < U; u++) v[u] = Units::load(address(i + u * blockSize()));
  }
  template <int U, class Address>
  static DEVICE void store(const Value (&v)[U], u64 i, const Address& address) {
#pragma unroll
    for (int u = 0; u < U; u++) Units::store(address(i + u * blockSize()), v[u]);
  }
  // What came through a slot, combined with the own input.
  template <bool kLast, int U>
  DEVICE void combine(Value (&v)[U], u64 i, u64 slot) const {
    Value own[U];
    load(v, i, [&](u64 j) INLINE { return inSlot(slot, j); });
    load(own, i, [&](u64 j) INLINE { return at(a.in, j); });
#pragma unroll
    for (int u = 0; u < U; u++) v[u] = Units::template combine<kLast>(a, v[u], own[u]);
  }

  DEVICE void start(u64 to) const {
    each([&]<int U>(u64 i) INLINE {
      Value v[U];
      load(v, i, [&](u64 j) INLINE { return at(a.in, j); });
      store(v, i, [&](u64 j) INLINE { return inSlot(to, j); });
    });
  }
  DEVICE void reduce(u64 from, u64 to) const {
    each([&]<int U>(u64 i) INLINE {
      Value v[U];
      combine<false>(v, i, from);
      store(v, i, [&](u64 j) INLINE { return inSlot(to, j); });
    });
  }
  DEVICE void finish(u64 from) const {
    each([&]<int U>(u64 i) INLINE {
      Value v[U];
      combine<true>(v, i, from);
      store(v, i, [&](u64 j) INLINE { return at(a.peerOut[0], j); });
      store(v, i, [&](u64 j) INLINE { return at(a.out, j); });
    });
  }
  DEVICE void forward() const {
    each([&]<int U>(u64 i) INLINE {
      Value v[U];
      load(v, i, [&](u64 j) INLINE { return at(a.out, j); });
      store(v, i, [&](u64 j) INLINE { return at(a.peerOut[0], j); });
    });
  }
};

template <class Units>
DEVICE bool ringPass(const Args& a, RingLink& link, u64 units, u64 chunk) {
  u32 n = a.ranks;
  u64 stride = u64(gridSize()) * n * chunk;
#pragma unroll 1
  for (u64 base = u64(blockIndex()) * n * chunk; base < units; base += stride) {
    // Chunk (rank + shift) mod n of this round.
    auto choose = [&](u32 shift) INLINE {
      u32 c = a.rank + shift;
      if (c >= n) c -= n;
      u64 first = base + c * chunk, end = first + chunk;
      return RingChunk<Units>{a, first, end < units ? end : units};
    };
    // Reduce-scatter.
    choose(n - 1).start(link.slot(a.nextScratch, 0));
    link.send();
#pragma unroll 1
    for (u32 k = 1; k + 1 < n; k++) {
      if (!link.receive()) return false;
      choose(n - 1 - k).reduce(link.slot(a.scratch, k - 1), link.slot(a.nextScratch, k));
      link.send();
    }
    if (!link.receive()) return false;
    choose(0).finish(link.slot(a.scratch, n - 2));
    link.send();
    // All-gather.
#pragma unroll 1
    for (u32 k = 1; k + 1 < n; k++) {
      if (!link.receive()) return false;
      choose(n - k).forward();
      link.send();
    }
    if (!link.receive()) return false;
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
