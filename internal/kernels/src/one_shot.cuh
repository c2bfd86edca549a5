// One-shot: every rank reads every rank's whole message and reduces all of it.
// More traffic than two-shot, one step less. Ranks reduce in the same order, so
// their results agree bit for bit.
#pragma once
#include "fabric.cuh"

template <class T, class Op, int N>
DEVICE void oneShot(const Args& a) {
  Barrier barrier(a);
  if (!barrier.sync(kStart)) return;

  // In place, nobody may write a pack before all have read it. The same block
  // of every rank has the same packs, so the block's barrier is enough.
  bool inPlace = a.in == a.out;
  constexpr int U = Peers<T, Op, N>::kUnroll;
  u64 threads = u64(gridSize()) * blockSize() * U;
  u64 first = u64(blockIndex()) * blockSize() * U;
#pragma unroll 1
  for (u64 base = first; base < a.packs; base += threads) {
    u64 p = base + threadIndex(), offset[U];
    Pack v[U];
    // Past the end a thread reduces the last pack again and stores nothing.
#pragma unroll
    for (int u = 0; u < U; u++) {
      u64 q = p + u * blockSize();
      offset[u] = packAddress<T>(a, 0, q < a.packs ? q : a.packs - 1);
    }
    Peers<T, Op, N>::template reduce<U>(a, offset, v);
    if (inPlace && !barrier.sync(kTile)) return;
#pragma unroll
    for (int u = 0; u < U; u++)
      if (p + u * blockSize() < a.packs) storePack(a.out + offset[u], v[u]);
  }
  u64 outside = outsideCount<T>(a);
#pragma unroll 1
  for (u64 base = first; base < outside; base += threads) {
#pragma unroll 1
    for (int u = 0; u < U; u++) {
      u64 e = base + u * blockSize() + threadIndex();
      u64 index = outsideIndex<T>(a, e);
      typename T::Acc acc = {};
      if (e < outside) acc = reduceElement<T, Op, N>(a, index);
      if (inPlace && !barrier.sync(kTile)) return;
      if (e < outside) storeElement<T>(a.out, index, acc);
    }
  }

  if (!inPlace && !barrier.sync(kEnd)) return;
  barrier.commit();
}
