// One-shot: every rank reads every rank's whole message and reduces all of it.
// More traffic than two-shot, one step less. Ranks reduce in the same order, so
// their results agree bit for bit.
#pragma once
#include "fabric.cuh"

template <class T, class Op>
DEVICE void oneShot(const Args& a) {
  Barrier barrier(a);
  if (!barrier.sync(kStart)) return;

  // In place, nobody may write a pack before all have read it. The same block
  // of every rank has the same packs, so the block's barrier is enough.
  bool inPlace = a.in == a.out;
  u64 threads = u64(gridSize()) * blockSize();
  u64 first = u64(blockIndex()) * blockSize();
  for (u64 base = first; base < a.packs; base += threads) {
    u64 p = base + threadIndex();
    Lanes<T> v;
    if (p < a.packs) v = Peers<T, Op>::reduce(a, packAddress<T>(a, 0, p));
    if (inPlace && !barrier.sync(kTile)) return;
    if (p < a.packs) {
      divideLanes<T>(v, a.divisor);
      storePack(packAddress<T>(a, a.out, p), pack<T>(v));
    }
  }
  u64 outside = outsideCount<T>(a);
  for (u64 base = first; base < outside; base += threads) {
    u64 e = base + threadIndex();
    u64 index = outsideIndex<T>(a, e);
    typename T::Acc acc = {};
    if (e < outside) {
      acc = loadElement<T>(a.peerIn[0], index);
#pragma unroll
      for (int i = 1; i < kMaxRanks; i++)
        if (i < a.ranks) acc = Op::apply(acc, loadElement<T>(a.peerIn[i], index));
    }
    if (inPlace && !barrier.sync(kTile)) return;
    if (e < outside) storeElement<T>(a.out, index, divide(acc, a.divisor));
  }

  if (!inPlace && !barrier.sync(kEnd)) return;
  barrier.commit();
}
