// Two-shot: every rank reduces one slice of the message and stores the result
// to all. Over Multicast this is NVLS zero-copy; over Peers it is the two-shot
// fallback. Buffers have the same offset on every rank, so packs line up.
#pragma once
#include "fabric.cuh"

template <class T, class Op, class Fabric>
DEVICE void twoShot(const Args& a) {
  Barrier barrier(a);
  if (!barrier.sync(kStart)) return;

  u64 threads = u64(gridSize()) * blockSize();
  u64 thread = u64(blockIndex()) * blockSize() + threadIndex();
  u64 begin = a.rank * a.chunk;
  u64 end = begin + a.chunk < a.packs ? begin + a.chunk : a.packs;
  constexpr int U = Fabric::kUnroll;
  u64 p = begin + thread;
  for (; p + (U - 1) * threads < end; p += U * threads) {
    Lanes<T> v[U];
#pragma unroll
    for (int u = 0; u < U; u++) v[u] = Fabric::reduce(a, packAddress<T>(a, 0, p + u * threads));
#pragma unroll
    for (int u = 0; u < U; u++) {
      divideLanes<T>(v[u], a.divisor);
      Fabric::store(a, a.peerOut, a.multicastOut, packAddress<T>(a, 0, p + u * threads), pack<T>(v[u]));
    }
  }
  for (; p < end; p += threads) {
    Lanes<T> v = Fabric::reduce(a, packAddress<T>(a, 0, p));
    divideLanes<T>(v, a.divisor);
    Fabric::store(a, a.peerOut, a.multicastOut, packAddress<T>(a, 0, p), pack<T>(v));
  }

  // No multimem form reaches a single 2-byte element, so what is in no pack
  // goes over the peers' mappings on both fabrics.
  u64 outside = outsideCount<T>(a);
  for (u64 e = a.rank + thread * a.ranks; e < outside; e += threads * a.ranks) {
    u64 index = outsideIndex<T>(a, e);
    typename T::Acc acc = loadElement<T>(a.peerIn[0], index);
#pragma unroll
    for (int i = 1; i < kMaxRanks; i++)
      if (i < a.ranks) acc = Op::apply(acc, loadElement<T>(a.peerIn[i], index));
    acc = divide(acc, a.divisor);
#pragma unroll
    for (int i = 0; i < kMaxRanks; i++)
      if (i < a.ranks) storeElement<T>(a.peerOut[i], index, acc);
  }

  if (!barrier.sync(kEnd)) return;
  barrier.commit();
}
