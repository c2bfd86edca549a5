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
template <class T, class Op, int N>
struct PushPacks {
  static constexpr u32 kBytes = 16;
  static constexpr int kUnroll = 4;
  using Value = Pack;
  static DEVICE u64 at(const Args& a, u64 base, u64 i) { return packAddress<T>(a, base, i); }
  static DEVICE Pack load(u64 from) { return loadPack(from); }
  static DEVICE void store(u64 to, const Pack& p) { storePack(to, p); }
  // Reduces own unit and the same unit of every peer, which stand row by row in
  // scratch from the next rank on; U of them.
  static constexpr int kReduce = 8 / N;
  template <int U>
  static DEVICE void reduce(const Args& a, const u64 (&own)[U], const u64 (&slot)[U], Pack (&result)[U]) {
    Pack v[U][N];
#pragma unroll
    for (int u = 0; u < U; u++) {
      v[u][0] = loadPack(own[u]);
#pragma unroll
      for (int i = 1; i < N; i++)
        if (present<N>(a, i)) v[u][i] = loadPack(slot[u] + (i - 1) * a.slotBytes);
    }
#pragma unroll
    for (int u = 0; u < U; u++) {
      Lanes<T> acc = unpack<T>(v[u][0]);
#pragma unroll
      for (int i = 1; i < N; i++)
        if (present<N>(a, i)) reduceInto<T, Op>(acc, v[u][i]);
      averageLanes<T>(acc, a.average);
      result[u] = pack<T>(acc);
    }
  }
};
template <class T, class Op, int N>
struct PushElements {
  static constexpr u32 kBytes = sizeof(typename T::Storage);
  static constexpr int kUnroll = 1;
  using Value = typename T::Storage;
  static DEVICE u64 at(const Args& a, u64 base, u64 i) { return base + outsideIndex<T>(a, i) * kBytes; }
  static DEVICE Value load(u64 from) { return loadRaw<T>(from, 0); }
  static DEVICE void store(u64 to, Value v) { storeRaw<T>(to, 0, v); }
  static constexpr int kReduce = 1;
  template <int U>
  static DEVICE void reduce(const Args& a, const u64 (&own)[U], const u64 (&slot)[U], Value (&result)[U]) {
    typename T::Acc acc = loadElement<T>(own[0], 0);
#pragma unroll
    for (int i = 1; i < N; i++)
      if (present<N>(a, i)) acc = Op::apply(acc, loadElement<T>(slot[0] + (i - 1) * a.slotBytes, 0));
    result[0] = T::encode(average(acc, a.average));
  }
};

template <class Units, int N>
struct PushPass {
  const Args& a;
  u64 units;
  u64 chunk;     // units of a slice in one round
  u64 slotBase;  // offset of this block's slots

  DEVICE u64 slot(u32 k) const { return slotBase + k % a.slots * (a.ranks - 1) * a.slotBytes; }
  // First unit of the slice of a rank in round k of this block.
  DEVICE u64 first(u32 k, u32 rank) const { return ((blockIndex() + u64(k) * gridSize()) * a.ranks + rank) * chunk; }
  DEVICE u64 end(u64 first) const { return first + chunk < units ? first + chunk : units; }
  DEVICE bool has(u32 k) const { return first(k, 0) < units; }

  DEVICE void push(u32 k) const {
    u32 step = blockSize();
#pragma unroll 1
    for (u32 d = 1; d < a.ranks; d++) {
      u32 peer = a.rank + d < a.ranks ? a.rank + d : a.rank + d - a.ranks;
      u64 from = first(k, peer), to = end(from);
      // The peer finds rank+i's slice in row i-1, counted from itself.
      u64 row = peerScratch(a, peer) + slot(k) + u64(a.ranks - d - 1) * a.slotBytes - from * Units::kBytes;
      unrolled<Units::kUnroll>(from + threadIndex(), step, to, [&]<int U>(u64 i) INLINE {
        typename Units::Value v[U];
#pragma unroll
        for (int u = 0; u < U; u++) v[u] = Units::load(Units::at(a, a.in, i + u * step));
#pragma unroll
        for (int u = 0; u < U; u++) Units::store(row + (i + u * step) * Units::kBytes, v[u]);
      });
    }
  }
  DEVICE void finish(u32 k) const {
    u64 from = first(k, a.rank), to = end(from), row = a.scratch + slot(k) - from * Units::kBytes;
    u32 step = blockSize();
    unrolled<Units::kReduce>(from + threadIndex(), step, to, [&]<int U>(u64 i) INLINE {
      u64 own[U], slots[U];
      typename Units::Value v[U];
#pragma unroll
      for (int u = 0; u < U; u++) {
        own[u] = Units::at(a, a.in, i + u * step);
        slots[u] = row + (i + u * step) * Units::kBytes;
      }
      Units::template reduce<U>(a, own, slots, v);
#pragma unroll
      for (int u = 0; u < U; u++)
#pragma unroll
        for (int r = 0; r < N; r++)
          if (present<N>(a, r)) Units::store(Units::at(a, a.peerOut[r], i + u * step), v[u]);
    });
  }

  // Arrivals in order: pushed(0), then for each k pushed(k+1), done(k): while a
  // round is reduced, the next one is on its way. done(j) is arrival 2j+3, but of
  // the last round the one before.
  DEVICE bool run(Barrier& barrier) const {
    u32 before = barrier.epoch, pushed = 0;
#pragma unroll 1
    for (u32 k = 0; k == 0 || has(k - 1); k++) {
      u32 pushedBefore = pushed;
      if (has(k)) {
        if (k >= a.slots && !barrier.wait(before + 2 * (k - a.slots) + 3, kDone)) return false;
        push(k);
        pushed = barrier.arrive();
      }
      if (k >= 1) {
        if (!barrier.wait(pushedBefore, kPushed)) return false;
        finish(k - 1);
        barrier.arrive();
      }
    }
    return barrier.wait(barrier.epoch, kDone);
  }
};

template <class T, class Op, int N>
DEVICE void pushAllReduce(const Args& a) {
  Barrier barrier(a);
  u64 base = u64(blockIndex()) * a.slots * (a.ranks - 1) * a.slotBytes;
  u64 outside = outsideCount<T>(a);
  if (a.packs > 0 && !PushPass<PushPacks<T, Op, N>, N>{a, a.packs, a.chunk, base}.run(barrier)) return;
  if (outside > 0 && !PushPass<PushElements<T, Op, N>, N>{a, outside, a.outsideChunk, base}.run(barrier)) return;
  barrier.commit();
}
