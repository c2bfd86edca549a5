// Local reduce: this rank's own part of a message and the same part of every
// peer, which all lie in its own memory, are reduced into one buffer of its own.
// It moves nothing over the links and waits for nobody: copy engines have brought
// the parts, and take the result to the peers.
#pragma once
#include "two_shot.cuh"

// Peers, but for where the result goes.
template <class T, class Op, int N>
struct Local : Peers<T, Op, N> {
  static DEVICE void store(const Args&, const u64 (&out)[kMaxRanks], u64, u64 offset, const Pack& p) {
    storePack(out[0] + offset, p);
  }
};

template <class T, class Op, int N>
DEVICE void localReduce(const Args& a) {
  u64 threads = u64(gridSize()) * blockSize();
  u64 thread = u64(blockIndex()) * blockSize() + threadIndex();
  reduceAndStore<Local<T, Op, N>>(a, a.peerOut, 0, packAddress<T>(a, 0, 0), thread, a.packs, threads);
  u64 outside = outsideCount<T>(a);
#pragma unroll 1
  for (u64 e = thread; e < outside; e += threads) {
    u64 index = outsideIndex<T>(a, e);
    storeElement<T>(a.peerOut[0], index, reduceElement<T, Op, N>(a, index));
  }
}
