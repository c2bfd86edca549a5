// Two-shot: every rank reduces one slice of the message and stores the result
// to all. Over Multicast this is NVLS zero-copy; over Peers it is the two-shot
// fallback. Buffers have the same offset on every rank, so packs line up.
#pragma once
#include "fabric.cuh"

// Reduces packs [first, end) and stores them to all, a thread taking every
// step-th. Offsets count from where the buffers' packs begin.
template <class Fabric>
DEVICE void reduceAndStore(const Args& a, const u64 (&out)[kMaxRanks], u64 multicast, u64 base, u64 first, u64 end, u64 step) {
  unrolled<Fabric::kUnroll>(first, step, end, [&]<int U>(u64 p) INLINE {
    u64 offset[U];
    Pack v[U];
#pragma unroll
    for (int u = 0; u < U; u++) offset[u] = base + (p + u * step) * 16;
    Fabric::template reduce<U>(a, offset, v);
#pragma unroll
    for (int u = 0; u < U; u++) Fabric::store(a, out, multicast, offset[u], v[u]);
  });
}

template <class T, class Op, int N, class Fabric>
DEVICE void twoShot(const Args& a) {
  Barrier barrier(a);
  if (!barrier.sync(kStart)) return;

  u64 threads = u64(gridSize()) * blockSize();
  u64 thread = u64(blockIndex()) * blockSize() + threadIndex();
  u64 begin = a.rank * a.chunk;
  u64 end = begin + a.chunk < a.packs ? begin + a.chunk : a.packs;
  reduceAndStore<Fabric>(a, a.peerOut, a.multicastOut, packAddress<T>(a, 0, 0), begin + thread, end, threads);

  // No multimem form reaches a single 2-byte element, so what is in no pack
  // goes over the peers' mappings on both fabrics.
  u64 outside = outsideCount<T>(a);
#pragma unroll 1
  for (u64 e = a.rank + thread * a.ranks; e < outside; e += threads * a.ranks) {
    u64 index = outsideIndex<T>(a, e);
    typename T::Acc acc = reduceElement<T, Op, N>(a, index);
#pragma unroll
    for (int i = 0; i < N; i++)
      if (present<N>(a, i)) storeElement<T>(a.peerOut[i], index, acc);
  }

  if (!barrier.sync(kEnd)) return;
  barrier.commit();
}
