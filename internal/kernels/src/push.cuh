// Push: every rank stores each peer's slice of its input into that peer's scratch
// memory, the peer reduces what has arrived and stores the result to all. Two
// steps over the links, both by stores: SMs store to a peer faster than they load
// from it, and no rank waits for another one to start.
//
// Every block goes through its share of the message in rounds, with a ring of
// scratch slots. A slot is free again when the peers have said that they are done
// with the round that used it. Results may be stored at once: a peer that has
// pushed its input of a round no longer needs those places.
#pragma once
#include "fabric.cuh"

// Units of a pass, as in ring.cuh: packs, or elements in no pack.
template <class T, class Op>
struct PushPacks {
  static constexpr u32 kBytes = 16;
  static constexpr int kUnroll = 4;
  using Value = Pack;
  static DEVICE u64 at(const Args& a, u64 base, u64 i) { return packAddress<T>(a, base, i); }
  static DEVICE Pack load(u64 from) { return loadPack(from); }
  static DEVICE void store(u64 to, const Pack& p) { storePack(to, p); }
  // own and the same unit of every peer, row by row in scratch, from the next
  // rank on.
  static DEVICE Pack reduce(const Args& a, u64 own, u64 slot, u64 row) {
    Pack v[kMaxRanks];
    v[0] = loadPack(own);
#pragma unroll
    for (int i = 1; i < kMaxRanks; i++)
      if (i < a.ranks) v[i] = loadPack(slot + (i - 1) * row);
    Lanes<T> acc = unpack<T>(v[0]);
#pragma unroll
    for (int i = 1; i < kMaxRanks; i++)
      if (i < a.ranks) reduceInto<T, Op>(acc, v[i]);
    divideLanes<T>(acc, a.divisor);
    return pack<T>(acc);
  }
};
template <class T, class Op>
struct PushElements {
  static constexpr u32 kBytes = sizeof(typename T::Storage);
  static constexpr int kUnroll = 1;
  using Value = typename T::Storage;
  static DEVICE u64 at(const Args& a, u64 base, u64 i) { return base + outsideIndex<T>(a, i) * kBytes; }
  static DEVICE Value load(u64 from) { return loadRaw<T>(from, 0); }
  static DEVICE void store(u64 to, Value v) { storeRaw<T>(to, 0, v); }
  static DEVICE Value reduce(const Args& a, u64 own, u64 slot, u64 row) {
    typename T::Acc acc = loadElement<T>(own, 0);
#pragma unroll
    for (int i = 1; i < kMaxRanks; i++)
      if (i < a.ranks) acc = Op::apply(acc, loadElement<T>(slot + (i - 1) * row, 0));
    return T::encode(divide(acc, a.divisor));
  }
};

template <class Units>
struct PushPass {
  const Args& a;
  u64 units;
  u64 chunk;     // units of a slice in one round
  u64 row;       // bytes of a slice in a slot
  u64 slotBase;  // offset of this block's slots

  DEVICE u64 slot(u64 k) const { return slotBase + k % a.slots * (a.ranks - 1) * row; }
  // First unit and end of the slice of a rank in round k of this block.
  DEVICE void slice(u64 k, u32 rank, u64* first, u64* end) const {
    *first = ((blockIndex() + k * gridSize()) * a.ranks + rank) * chunk;
    *end = *first + chunk < units ? *first + chunk : units;
  }
  DEVICE u64 rounds() const {
    u64 share = chunk * a.ranks, all = (units + share - 1) / share;
    return all > blockIndex() ? (all - blockIndex() + gridSize() - 1) / gridSize() : 0;
  }

  DEVICE void push(u64 k) const {
    constexpr int U = Units::kUnroll;
    u32 step = blockSize();
#pragma unroll 1
    for (u32 d = 1; d < a.ranks; d++) {
      u32 peer = a.rank + d < a.ranks ? a.rank + d : a.rank + d - a.ranks;
      u64 first, end;
      slice(k, peer, &first, &end);
      // The peer finds rank+i's slice in row i-1, counted from itself.
      u64 to = peerScratch(a, peer) + slot(k) + u64(a.ranks - d - 1) * row;
      u64 i = first + threadIndex();
      for (; i + (U - 1) * step < end; i += U * step) {
        typename Units::Value v[U];
#pragma unroll
        for (int u = 0; u < U; u++) v[u] = Units::load(Units::at(a, a.in, i + u * step));
#pragma unroll
        for (int u = 0; u < U; u++) Units::store(to + (i + u * step - first) * Units::kBytes, v[u]);
      }
      for (; i < end; i += step) Units::store(to + (i - first) * Units::kBytes, Units::load(Units::at(a, a.in, i)));
    }
  }
  DEVICE void finish(u64 k) const {
    constexpr int U = Units::kUnroll / 2 > 0 ? Units::kUnroll / 2 : 1;
    u64 first, end;
    slice(k, a.rank, &first, &end);
    u64 from = a.scratch + slot(k);
    u32 step = blockSize();
    u64 i = first + threadIndex();
    for (; i + (U - 1) * step < end; i += U * step) {
      typename Units::Value v[U];
#pragma unroll
      for (int u = 0; u < U; u++)
        v[u] = Units::reduce(a, Units::at(a, a.in, i + u * step), from + (i + u * step - first) * Units::kBytes, row);
#pragma unroll
      for (int u = 0; u < U; u++) storeAll(i + u * step, v[u]);
    }
    for (; i < end; i += step) storeAll(i, Units::reduce(a, Units::at(a, a.in, i), from + (i - first) * Units::kBytes, row));
  }
  DEVICE void storeAll(u64 i, const typename Units::Value& v) const {
#pragma unroll
    for (int r = 0; r < kMaxRanks; r++)
      if (r < a.ranks) Units::store(Units::at(a, a.peerOut[r], i), v);
  }

  // Arrivals in order: pushed(0), then for each k pushed(k+1), done(k): while a
  // round is reduced, the next one is on its way. Of n rounds, done(j) is arrival
  // 2j+3, and the last one 2n.
  DEVICE bool run(Barrier& barrier) const {
    u64 n = rounds();
    u32 before = barrier.epoch, pushed = 0;
#pragma unroll 1
    for (u64 k = 0; k <= n; k++) {
      u32 pushedBefore = pushed;
      if (k < n) {
        if (k >= a.slots && !barrier.wait(before + 2 * u32(k - a.slots) + 3, kDone)) return false;
        push(k);
        pushed = barrier.arrive();
      }
      if (k >= 1) {
        if (!barrier.wait(pushedBefore, kPushed)) return false;
        finish(k - 1);
        barrier.arrive();
      }
    }
    return n == 0 || barrier.wait(barrier.epoch, kDone);
  }
};

template <class T, class Op>
DEVICE void pushAllReduce(const Args& a) {
  Barrier barrier(a);
  u64 row = a.chunk * 16;
  u64 base = u64(blockIndex()) * a.slots * (a.ranks - 1) * row;
  u64 outside = outsideCount<T>(a);
  u64 parts = u64(gridSize()) * a.ranks;
  u64 perPack = (a.packs + parts - 1) / parts, perElement = (outside + parts - 1) / parts;
  u64 mostElements = a.chunk * kPerPack<T>;
  if (a.packs > 0 && !PushPass<PushPacks<T, Op>>{a, a.packs, perPack < a.chunk ? perPack : a.chunk, row, base}.run(barrier)) return;
  if (outside > 0 && !PushPass<PushElements<T, Op>>{a, outside, perElement < mostElements ? perElement : mostElements, row, base}.run(barrier)) return;
  barrier.commit();
}
